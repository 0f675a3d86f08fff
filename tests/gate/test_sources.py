from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from skillgate.config import Config, LintConfig
from skillgate.errors import ConfigError, RuleError, SuiteError
from skillgate.gate.sources import FolderSource, RangeSource, read_config, read_rules, read_suites
from skillgate.git import Repository


def source(repo: Any, tmp_path: Path, base: str = "HEAD~1") -> RangeSource:
    asked = Repository(repo.folder)
    return RangeSource(asked, asked.commit(base), asked.commit("HEAD"), tmp_path / "scratch")


def test_a_folder_is_written_out_as_it_was_at_the_base(repo: Any, tmp_path: Path) -> None:
    (repo.folder / "suites/tiny/repo/link").symlink_to("/etc/passwd")
    repo.commit()
    repo.write("suites/tiny/suite.yml", "changed")
    repo.commit()
    found = source(repo, tmp_path).folder("suites/tiny")
    assert found is not None
    assert (found / "suite.yml").read_text().startswith("version: 1\n")
    assert (found / "repo/run.sh").stat().st_mode & 0o111
    assert not (found / "repo/calc/__init__.py").stat().st_mode & 0o111
    assert (found / "repo/link").readlink() == Path("/etc/passwd")


def test_nothing_is_written_outside_the_scratch_folder(repo: Any, tmp_path: Path) -> None:
    def git(*arguments: str, stdin: str = "") -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
        command = ["git", "-C", str(repo.folder), *identity, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout.strip()

    tree = git("mktree", stdin=f"100644 blob {git('rev-parse', 'HEAD:skillgate.yml')}\tevil")
    for name in ("..", "s"):
        tree = git("mktree", stdin=f"040000 tree {tree}\t{name}")
    made = git("commit-tree", tree, "-m", "x")
    asked = Repository(repo.folder)
    ranged = RangeSource(asked, made, made, tmp_path / "scratch")
    assert ranged.folder("s") is None
    assert list(tmp_path.rglob("evil")) == []


def test_what_is_nowhere_is_none(repo: Any, tmp_path: Path) -> None:
    repo.commit()
    ranged = source(repo, tmp_path)
    assert (ranged.read("nope"), ranged.folder("nope"), ranged.notes) == (None, None, [])
    folder = FolderSource(repo.folder)
    assert (folder.read("nope"), folder.folder("nope")) == (None, None)


def test_what_is_no_plain_file_of_a_sane_size_is_refused(repo: Any, tmp_path: Path) -> None:
    (repo.folder / "link.yml").symlink_to("skillgate.yml")
    repo.write("large.yml", "#" * 10_000_001)
    repo.commit()
    repo.commit()
    for read in (source(repo, tmp_path).read, FolderSource(repo.folder).read):
        with pytest.raises(ConfigError, match=r"large\.yml:1: a link, a folder, or too large"):
            read("large.yml")
    with pytest.raises(ConfigError, match=r"link\.yml:1: a link, a folder, or too large"):
        source(repo, tmp_path).read("link.yml")
    with pytest.raises(ConfigError, match="skills:1: a link, a folder, or too large"):
        FolderSource(repo.folder).read("skills")


def test_a_path_with_detours_is_found(repo: Any, tmp_path: Path) -> None:
    repo.commit()
    ranged = source(repo, tmp_path)
    assert ranged.read("./skills/../script.yml") == (repo.folder / "script.yml").read_bytes()
    assert [suite.name for suite in read_suites(ranged, ["./suites/tiny/"])] == ["tiny"]


def test_a_broken_option_of_a_rule_is_named_by_line(repo: Any, tmp_path: Path) -> None:
    for text, message in (
        ("lint:\n  rules:\n    nope: off\n", "skillgate.yml:3: `lint.rules` names `nope`, which is no rule"),
        (
            "lint:\n  rules:\n    unknown-key: off\n    token-weight: {max: 3}\n",
            "skillgate.yml:4: `lint.rules.token-weight`: unknown option `max`",
        ),
    ):
        repo.write("skillgate.yml", text)
        folder = FolderSource(repo.folder)
        with pytest.raises(ConfigError) as caught:
            read_rules(folder, read_config(folder))
        assert caught.value.message == message


def test_a_config_that_was_named_must_be_there(tmp_path: Path) -> None:
    assert read_config(FolderSource(tmp_path)) == Config()
    with pytest.raises(ConfigError, match=r"other\.yml: no such file"):
        read_config(FolderSource(tmp_path), "other.yml")
    (tmp_path / "other.yml").write_bytes(b"\xef\xbb\xbfskills: [a]")
    assert read_config(FolderSource(tmp_path), "other.yml").skills == ("a",)
    (tmp_path / "other.yml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"other\.yml:1: not UTF-8"):
        read_config(FolderSource(tmp_path), "other.yml")


def test_suites_by_folder_and_by_name(repo: Any) -> None:
    found = read_suites(FolderSource(repo.folder), ["suites/tiny", "builtin:textkit"])
    assert [(suite.name, suite.origin) for suite in found] == [
        ("tiny", "suites/tiny"),
        ("textkit", "builtin:textkit"),
    ]


@pytest.mark.parametrize("name", ["nowhere", "builtin:nope", "builtin:../tests", "skills"])
def test_no_suite_there_names_what_there_is(repo: Any, name: str) -> None:
    with pytest.raises(SuiteError) as caught:
        read_suites(FolderSource(repo.folder), [name])
    assert caught.value.message == f"{name}: no suite there (no suite.yml)"
    assert caught.value.hint == (
        "Name its folder, or one of: builtin:ci-workflows, builtin:hourbook, builtin:notesboard,"
        " builtin:relaydesk, builtin:template, builtin:textkit."
    )


def test_a_broken_suite_is_named_as_its_user_knows_it(repo: Any, tmp_path: Path) -> None:
    repo.write("suites/tiny/tasks/add-double/task.yml", "title: x\nprompts: y")
    repo.commit()
    repo.commit()
    with pytest.raises(SuiteError) as caught:
        read_suites(source(repo, tmp_path), ["suites/tiny"])
    assert caught.value.message == "suites/tiny/tasks/add-double/task.yml:2: unknown key `prompts`"


def test_a_rule_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    """It may lead to any file of this machine, and what is wrong with that would be quoted."""
    secret = tmp_path / "secret"
    secret.write_text("key: sk-not-for-a-log\n")
    (tmp_path / "our-rules").mkdir()
    (tmp_path / "our-rules/stolen.yml").symlink_to(secret)
    config = Config(lint=LintConfig(rule_files=("our-rules",)))
    with pytest.raises(RuleError, match="a link") as caught:
        read_rules(FolderSource(tmp_path), config)
    assert "sk-not-for-a-log" not in f"{caught.value.message}{caught.value.hint}"
