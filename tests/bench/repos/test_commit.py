from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from skillgate.bench.repos import commit as commit_module
from skillgate.errors import PrerequisiteError, SuiteError
from skillgate.git import Entry, Repository
from tests.fakes.git_origin import FILES, WHERE, Origin, found, git


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def test_a_folder_of_the_repository_can_be_the_root(origin: Origin) -> None:
    expected = {name.removeprefix("sub/"): FILES[name] for name in FILES if name.startswith("sub/")}
    assert [found(origin.checkout(folder=name)) for name in ("sub", "./sub/", "sub/deep", ".")] == [
        expected,
        expected,
        {"file": FILES["sub/deep/file"]},
        FILES,
    ]


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("gone", "has no folder `gone`"),
        ("empty", "has no folder `empty`"),
        ("link-in", "has no folder `link-in`"),
        ("sub/deep/file", "has no folder `sub/deep/file`"),
        ("..", "`folder` leaves the repository"),
        ("sub/../..", "`folder` leaves the repository"),
        ("/etc", "`folder` leaves the repository"),
        ("a\0b", "`folder` leaves the repository"),
    ],
)
def test_a_folder_that_is_none(origin: Origin, folder: str, message: str) -> None:
    problem = origin.refused(folder=folder)
    assert isinstance(problem, SuiteError)
    assert message in problem.message


def test_a_submodule_is_refused_by_name_where_it_is_asked_for(origin: Origin) -> None:
    git(origin.folder, "update-index", "--add", "--cacheinfo", f"160000,{origin.commit},vendor/lib")
    git(origin.folder, "commit", "-qm", "with a submodule")
    with_module = git(origin.folder, "rev-parse", "HEAD")
    problem = origin.refused(with_module)
    assert problem.message == f"{WHERE}: commit {with_module[:12]} has the submodule `vendor/lib`"
    assert isinstance(problem, SuiteError)
    assert found(origin.checkout(with_module, folder="sub/deep")) == {"file": FILES["sub/deep/file"]}


def test_paths_that_lead_out_are_refused_by_git_and_by_us(origin: Origin) -> None:
    blob = origin.blob(b"planted")
    inner = origin.craft(("100644", "x", blob))
    link = origin.blob(b"/tmp")
    ways = {
        "`../x`": [("40000", "..", inner)],
        "`.git/x`": [("40000", ".git", inner)],
        "`.GiT`": [("100644", ".GiT", blob)],
        "`./x`": [("40000", ".", inner)],
        "`a/../../x`": [("100644", "a/../../x", blob)],
        "`/tmp/x`": [("100644", "/tmp/x", blob)],
        "names a file twice": [("120000", "a", link), ("40000", "a", inner)],
    }
    for shown, rows in ways.items():
        commit = origin.crafted(*rows)
        by_git = origin.refused(commit)
        assert isinstance(by_git, PrerequisiteError), shown
        assert "cannot be fetched: " in by_git.message
        origin.plant(commit)
        by_us = origin.refused(commit)
        assert isinstance(by_us, SuiteError), shown
        assert shown in by_us.message
    assert list((origin.cache / "trees").glob("*")) == []


def test_names_and_links_that_no_file_system_takes(origin: Origin) -> None:
    blob = origin.blob(b"")
    deep = origin.craft(("100644", "f", blob))
    for _ in range(10):
        deep = origin.craft(("40000", "d" * 250, deep))
    ways = [
        origin.crafted(("100644", "n" * 256, blob)),
        origin.crafted(("40000", "top", deep)),
        origin.crafted(("120000", "no-target", blob)),
        origin.crafted(("120000", "nul", origin.blob(b"a\0b"))),
        origin.crafted(("120000", "long", origin.blob(b"a" * 5000))),
    ]
    for commit in ways:
        git(origin.folder, "branch", "-f", commit, commit)
    assert [origin.refused(commit).message.split(" has ")[1].split("`")[0] for commit in ways] == [
        "the path ",
        "the path ",
        *["a link that leads nowhere, "] * 3,
    ]


def test_a_few_kilobytes_that_name_billions_of_files(origin: Origin) -> None:
    row = origin.blob(b"")
    mode = "100644"
    for _ in range(10):
        row = origin.craft(*((mode, f"f{n}", row) for n in range(10)))
        mode = "40000"
    commit = origin.crafted(("40000", "bomb", row), ("100644", "fine", origin.blob(b"")))
    assert "more than 50,000 files" in origin.refused(commit).message


def test_a_nest_of_folders(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = origin.craft(("100644", "f", origin.blob(b"deep")))
    for _ in range(4):
        nest = origin.craft(("40000", "d", nest))
    commit = origin.crafted(("40000", "d", nest))
    monkeypatch.setattr(commit_module, "MAX_DEPTH", 5)
    assert "or 5 levels" in origin.refused(commit).message
    monkeypatch.setattr(commit_module, "MAX_DEPTH", 6)
    assert found(origin.checkout(commit)) == {"d/d/d/d/d/f": ("644", b"deep")}


def test_a_commit_that_is_too_large(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_module, "MAX_BYTES", 20)
    assert "hold more than 20 bytes" in origin.refused().message
    assert len(found(origin.checkout(folder="sub/deep"))) == 1


def test_content_is_read_in_parts(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    def blobs(self: Repository, entries: Mapping[str, Entry]) -> dict[str, bytes]:
        asked.append(len(entries))
        return read(self, entries)

    asked: list[int] = []
    read = Repository.blobs
    monkeypatch.setattr(Repository, "blobs", blobs)
    monkeypatch.setattr(commit_module, "_BATCH_BYTES", 1)
    assert found(origin.checkout()) == FILES
    assert asked[-len(FILES) + 1 :] == [1] * (len(FILES) - 1)  # the empty one goes with another


def test_old_trees_with_group_writable_files(origin: Origin) -> None:
    commit = origin.crafted(("100664", "old", origin.blob(b"old")))
    assert [found(origin.checkout(commit)) for _ in "12"] == [{"old": ("644", b"old")}] * 2


def test_a_commit_without_files(origin: Origin) -> None:
    assert found(origin.checkout(origin.crafted())) == {}
