"""`lint --fix`, from files to files: what may be mended is, what is not shown is not."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from skillgate.cli import main
from skillgate.errors import ExitCode, UsageError
from skillgate.linting import Linted, Request, lint_paths, mend

GOOD = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"
HEAD = "\ufeff---\nname: wrong\ndescription: Two axes: time and cost. Use for charts.\n---\n\nBody.\n"
BROKEN = HEAD.replace("\n", "\r\n")
FIXED = '---\nname: a\ndescription: "Two axes: time and cost. Use for charts."\n---\n\nBody.\n'


def lint(root: Path, *paths: str) -> Linted:
    return lint_paths(Request([Path(path) for path in paths], root))


def raw(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_all_that_is_safe_is_mended_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = raw(tmp_path / "a/SKILL.md", BROKEN + "Run `/Users/alice/x`.\r\n")
    file.chmod(0o640)
    other = raw(tmp_path / "b/SKILL.md", "---\nname: b\ndescription: Two: a # b\n---\nBody.\n")
    script = raw(tmp_path / "a/run.sh", "#!/bin/sh\r\necho SKILL\r\n")
    (tmp_path / "skillgate.yml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "--fix", "--format", "json"]) == ExitCode.GATE_FAILED
    out, err = capsys.readouterr()
    assert err == (
        "fixed 4: a/SKILL.md (byte-order-mark, line-endings, frontmatter-invalid, name-matches-folder)\n"
    )
    assert file.read_bytes().decode() == FIXED + "Run `/Users/alice/x`.\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert (other.read_bytes()[-6:], script.read_bytes()[-2:]) == (b"Body.\n", b"\r\n")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"SKILL.md", "run.sh"}
    left = [(f["where"]["path"], f["rule"]) for f in json.loads(out)["findings"] if f["severity"] != "note"]
    assert ("b/SKILL.md", "frontmatter-invalid") in left
    assert ("a/SKILL.md", "hardcoded-path") in left
    assert main(["lint", "--fix"]) == ExitCode.GATE_FAILED
    assert capsys.readouterr().err == ""


def test_what_broken_yaml_hid_is_mended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = raw(tmp_path / "a/SKILL.md", BROKEN.replace("wrong", "wrong # once"))
    (tmp_path / "skillgate.yml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "--fix"]) == ExitCode.OK
    assert file.read_bytes().decode() == FIXED.replace("name: a", "name: a # once")
    assert capsys.readouterr().err.count("fixed ") == 2


@pytest.mark.parametrize(
    "config",
    [
        "lint: {rules: {name-matches-folder: off}}",
        "lint: {paths: {'a/**': {name-matches-folder: off}}}",
        "lint: {baseline: known.json}",
        "# a comment in the file",
    ],
)
def test_what_is_not_shown_is_not_mended(tmp_path: Path, config: str) -> None:
    file = raw(tmp_path / "a/SKILL.md", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").write_text(config)
    if "known" in config:
        known = lint_paths(Request([], tmp_path, forget=True))
        (tmp_path / "known.json").write_text(json.dumps({"findings": [json_of(f) for f in known.findings]}))
    if config.startswith("#"):
        file = raw(file, GOOD.format("wrong # skillgate: ignore name-matches-folder: it is so"))
    before = file.read_bytes()
    assert list(mend(lint(tmp_path))) == []
    assert file.read_bytes() == before


def json_of(finding: Any) -> dict[str, object]:
    return {"rule": finding.rule, "path": finding.where.path, "fingerprint": finding.fingerprint}


def test_links_pipes_and_what_is_no_utf_8_are_not_touched(tmp_path: Path) -> None:
    target = raw(tmp_path / "real.md", BROKEN)
    inside = raw(tmp_path / "root/b/real.md", BROKEN)
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/SKILL.md").symlink_to("../../real.md")
    (tmp_path / "root/b/SKILL.md").symlink_to("real.md")
    (tmp_path / "root/c").mkdir()
    os.mkfifo(tmp_path / "root/c/SKILL.md")
    latin = raw(tmp_path / "root/d/SKILL.md", "")
    latin.write_bytes(BROKEN.encode() + b"caf\xe9\r\n")
    assert list(mend(lint(tmp_path / "root"))) == []
    assert [path.read_bytes().decode("latin-1")[-3:] for path in (target, inside, latin)] == [
        ".\r\n",
        ".\r\n",
        "é\r\n",
    ]
    assert (tmp_path / "root/b/SKILL.md").is_symlink()


def test_only_skills_that_are_asked_for_are_mended(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        raw(tmp_path / folder / "SKILL.md", GOOD.format("wrong"))
    linted = lint(tmp_path, "b/SKILL.md")
    assert list(mend(linted)) == ["fixed 1: b/SKILL.md (name-matches-folder)"]
    left = [f.where.path for f in lint(tmp_path).findings if f.rule == "name-matches-folder"]
    assert left == ["a/SKILL.md"]


def test_fixing_and_writing_down_do_not_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = raw(tmp_path / "a/SKILL.md", BROKEN)
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "--fix", "--write-baseline", "known.json"]) == ExitCode.USAGE
    assert "--fix and --write-baseline do not go together" in capsys.readouterr().err
    assert file.read_bytes() == BROKEN.encode()


def test_a_file_that_may_not_be_written_is_named_and_left_as_it_is(as_nobody: Any) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        root = Path(open_to_all)
        root.chmod(0o777)
        for number, (mode, folder_mode) in enumerate(((0o444, 0o777), (0o666, 0o555))):
            file = raw(root / f"{number}/a/SKILL.md", BROKEN)
            file.chmod(mode)
            file.parent.chmod(folder_mode)
            assert as_nobody(functools.partial(is_refused, root / str(number)))
            assert [path.name for path in file.parent.iterdir()] == ["SKILL.md"]
            assert file.read_bytes() == BROKEN.encode()


def is_refused(root: Path) -> bool:
    try:
        list(mend(lint(root)))
    except UsageError as problem:
        hint = "Allow yourself to write it, or run without --fix."
        return "SKILL.md: cannot be written (Permission denied)" in problem.message and problem.hint == hint
    return False
