from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from skillgate.errors import UsageError
from skillgate.git import Entry, Repository

WEIRD = 'line\nbreak "quoted" $(touch x) -dash é'


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "r"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / WEIRD).write_text("weird")
    (folder / "link").symlink_to("a.txt")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def test_a_tree_has_every_file_whatever_its_name(repository: Path) -> None:
    asked = Repository(repository)
    tree = asked.tree(asked.commit("HEAD"))
    assert sorted(tree) == sorted(["a.txt", "link", WEIRD])
    assert {name: entry.is_regular for name, entry in tree.items()} == {
        "a.txt": True,
        WEIRD: True,
        "link": False,
    }
    assert asked.blobs(tree) == {"a.txt": b"one\n", WEIRD: b"weird", "link": b"a.txt"}
    assert asked.blobs({}) == {}


def test_renames_and_the_merge_base(repository: Path) -> None:
    asked = Repository(repository)
    first = asked.commit("main")
    git(repository, "checkout", "-qb", "topic")
    git(repository, "mv", "a.txt", "b.txt")
    git(repository, "commit", "-qm", "second")
    git(repository, "checkout", "-q", "main")
    (repository / "c").write_text("c")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "third")
    assert asked.merge_base("main", "topic") == first
    assert asked.renames(first, asked.commit("topic")) == {"b.txt": "a.txt"}


def test_the_default_base_is_main_or_the_parent(repository: Path) -> None:
    asked = Repository(repository)
    with pytest.raises(UsageError, match="no base to compare with"):
        asked.default_base()
    (repository / "c").write_text("c")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "second")
    assert asked.default_base() == "HEAD~1"
    git(repository, "checkout", "-qb", "topic", "HEAD~1")
    assert asked.default_base() == "main"


@pytest.mark.parametrize("revision", ["nope", "--help", "-n", "main:a.txt", ""])
def test_an_unknown_revision_is_named(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError) as caught:
        Repository(repository).commit(revision)
    assert caught.value.message == f"unknown revision `{revision}` in {repository}"
    assert "Fetch it first" in caught.value.hint


def test_what_is_no_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git repository"):
        Repository(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        Repository(tmp_path / "nowhere")


def test_without_a_common_ancestor_the_hint_says_how_to_fetch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    git(repository, "commit", "-qm", "alone")
    with pytest.raises(UsageError) as caught:
        Repository(repository).merge_base("main", "other")
    assert "fetch-depth: 0" in caught.value.hint


def test_a_missing_object_is_an_error_not_an_empty_file(repository: Path) -> None:
    with pytest.raises(UsageError, match="is missing"):
        Repository(repository).blobs({"x": Entry("100644", "0" * 40, 1)})


def test_the_prefix_is_where_the_folder_lies(repository: Path) -> None:
    (repository / "skills" / "x").mkdir(parents=True)
    assert [Repository(f).prefix() for f in (repository, repository / "skills" / "x")] == [".", "skills/x"]


def test_the_environment_of_a_hook_does_not_name_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Repository(repository).commit("HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    assert Repository(repository).commit("HEAD") == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_says_how_to_trust_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (repository, repository / ".git"):
        os.chown(path, 4242, 4242)
    with pytest.raises(UsageError) as caught:
        Repository(repository)
    assert "another owner" in caught.value.message
    assert f"safe.directory {repository}" in caught.value.hint


def test_nothing_that_a_repository_configures_runs(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external"):
        git(repository, "config", key, str(trap))
    git(repository, "config", "remote.origin.url", str(tmp_path / "nowhere"))
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "remote.origin.uploadpack", str(trap))
    asked = Repository(repository)
    head = asked.commit("HEAD")
    asked.renames(head, head)
    asked.blobs(asked.tree(head))
    with pytest.raises(UsageError):
        asked.blobs({"x": Entry("100644", "1" * 40, 1)})
    assert not (tmp_path / "sprung").exists()


def test_a_tree_that_names_a_file_twice_is_refused(repository: Path) -> None:
    blob = bytes.fromhex(git(repository, "rev-parse", "HEAD:a.txt"))
    raw = (b"100644 a.txt\0" + blob) * 2
    command = ["git", "-C", str(repository), "hash-object", "-w", "-t", "tree", "--literally", "--stdin"]
    tree = subprocess.run(command, input=raw, capture_output=True, check=True).stdout.decode().strip()
    made = git(repository, "commit-tree", tree, "-m", "crafted")
    with pytest.raises(UsageError, match=r"names 'a\.txt' twice"):
        Repository(repository).tree(made)
