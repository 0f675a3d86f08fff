"""What `skillgate lint` reaches: which root holds, which files belong to no skill, what a baseline learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.errors import ExitCode

GOOD = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"
BOB = "\nRun `/Users/bob/x`.\n"
Capture = pytest.CaptureFixture[str]


def write(root: Path, folder: str, text: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "SKILL.md").write_text(text, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two skills, in which we stand."""
    folder = tmp_path / "repo"
    for name in ("a", "b"):
        write(folder, f"skills/{name}", GOOD.format("wrong") + BOB)
    (folder / ".git").mkdir()
    (folder / "skillgate.yml").write_text("lint: {rules: {hardcoded-path: error}}")
    (folder / "skills/README.md").write_text("# Skills\n")
    (folder / "notes.md").write_text("# Notes\n")
    monkeypatch.chdir(folder)
    return folder


def found(capsys: Capture, *arguments: str) -> list[str]:
    """Lint; return `path rule` of each finding."""
    capsys.readouterr()
    main(["lint", *arguments, "--format", "json", "--fail-on", "none", "--no-cache"])
    shown = json.loads(capsys.readouterr().out)["findings"]
    return [f"{f['where']['path']} {f['rule']}" for f in shown if f["severity"] == "error"]


# --- files of no skill


def test_a_file_of_no_skill_is_skipped(root: Path, capsys: Capture) -> None:
    assert main(["lint", "skills/README.md", "notes.md"]) == ExitCode.OK
    assert capsys.readouterr().out == "No findings in 0 skills.\n"
    assert found(capsys, "notes.md", "skills/a/SKILL.md") == [
        "skills/a/SKILL.md name-matches-folder",
        "skills/a/SKILL.md hardcoded-path",
    ]


def test_folders_missing_paths_and_no_paths_are_still_errors(root: Path, capsys: Capture) -> None:
    (root / "docs").mkdir()
    assert found(capsys, "docs") == ["docs no-skills-found"]
    assert found(capsys, "docs", "notes.md") == ["docs no-skills-found"]
    assert main(["lint", "gone.md"]) == ExitCode.USAGE
    (root / "skills/a/SKILL.md").unlink()
    (root / "skills/b/SKILL.md").rename(root / "skills/b/skill.md")
    assert found(capsys) == ["skills/b/skill.md no-skills-found"]
    assert found(capsys, "skills/b/skill.md") == ["skills/b/skill.md no-skills-found"]
    (root / "skills/b/skill.md").unlink()
    assert found(capsys) == [". no-skills-found"]


def test_patterns_that_fit_no_skill_are_told_as_such(root: Path, capsys: Capture) -> None:
    (root / "skillgate.yml").write_text("skills: [skill/**]")
    assert main(["lint"]) == ExitCode.GATE_FAILED
    said = capsys.readouterr().out
    assert "`skills:` in skillgate.yml matches none of the 2 SKILL.md here; nothing was checked" in said
    assert "1 error in 0 skills." in said


# --- the root


def test_the_root_is_that_of_the_paths_where_we_stand_elsewhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    inside = found(capsys, "skills/a")
    assert len(inside) == 2
    other = root.parent / "other"
    (other / ".git").mkdir(parents=True)
    for place in (Path("/"), root.parent, other, root / "skills"):
        monkeypatch.chdir(place)
        assert found(capsys, str(root / "skills/a")) == inside, place
    monkeypatch.chdir(root.parent)
    assert found(capsys, "repo/skills/a") == inside


def test_a_skill_that_is_a_repository_may_lie_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("one", "two"):
        write(tmp_path, name, GOOD.format("wrong"))
    monkeypatch.chdir(tmp_path)
    assert found(capsys) == ["one/SKILL.md name-matches-folder", "two/SKILL.md name-matches-folder"]
    (tmp_path / "one/.git").mkdir()
    assert found(capsys, "one") == []
    assert found(capsys) == ["two/SKILL.md name-matches-folder"]
    monkeypatch.chdir(tmp_path / "one")
    assert found(capsys) == []


# --- the baseline of a part


def lines(root: Path) -> list[str]:
    known = json.loads((root / "known.json").read_text())["findings"]
    return [f"{one['path']} {one['rule']}" for one in known if one["rule"] != "description-person"]


def test_a_baseline_of_some_skills_keeps_the_lines_of_the_others(root: Path, capsys: Capture) -> None:
    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK
    whole = (root / "known.json").read_text()
    for arguments in (["skills/a"], ["skills/b/SKILL.md"], ["notes.md"], ["skills"], ["."], []):
        assert main(["lint", *arguments, "--write-baseline", "known.json"]) == ExitCode.OK
        assert (root / "known.json").read_text() == whole, arguments
    write(root, "skills/a", GOOD.format("a"))
    capsys.readouterr()
    assert main(["lint", "skills/a", "--write-baseline", "known.json"]) == ExitCode.OK
    assert "in known.json, and 3 older lines of what was not linted: " in capsys.readouterr().out
    assert {line.split()[0] for line in lines(root)} == {"skills/b/SKILL.md"}
    (root / "skills/b/SKILL.md").unlink()
    assert main(["lint", "skills/a", "--write-baseline", "known.json"]) == ExitCode.OK
    assert lines(root) != []
    assert main(["lint", "skills", "--write-baseline", "known.json"]) == ExitCode.OK
    assert lines(root) == []


def test_a_line_of_a_rule_that_compares_skills_stays(root: Path) -> None:
    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK
    assert "skills/b/SKILL.md duplicate-name" in lines(root)
    assert main(["lint", "skills/b", "--write-baseline", "known.json"]) == ExitCode.OK
    assert "skills/b/SKILL.md duplicate-name" in lines(root)


def test_what_a_baseline_knows_of_what_was_linted_and_is_gone_is_counted(root: Path, capsys: Capture) -> None:
    def stale(*paths: str) -> int:
        capsys.readouterr()
        main(["lint", *paths, "--baseline", "known.json", "--format", "json"])
        return int(json.loads(capsys.readouterr().out)["stale"])

    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK
    assert (stale(), stale("skills/b"), stale("skills/a/SKILL.md")) == (0, 0, 0)
    write(root, "skills/a", GOOD.format("wrong"))
    assert (stale(), stale("skills/b"), stale("skills/a/SKILL.md")) == (1, 0, 1)
    main(["lint", "--baseline", "known.json"])
    assert "1 line of the baseline matches nothing any more: write it again." in capsys.readouterr().out


# --- the summary


def test_the_summary_counts_skills_and_what_can_be_mended(root: Path, capsys: Capture) -> None:
    write(root, "skills/b", GOOD.format("b"))
    assert main(["lint"]) == ExitCode.GATE_FAILED
    assert capsys.readouterr().out.endswith("\n2 errors in 1 of 2 skills; 1 can be mended with --fix.\n")
    write(root, "skills/a", GOOD.format("a"))
    assert main(["lint"]) == ExitCode.OK
    assert capsys.readouterr().out == "No findings in 2 skills.\n"


@pytest.mark.parametrize("level", ["note", "warning", "error"])
def test_a_level_shows_what_is_at_or_above(root: Path, capsys: Capture, level: str) -> None:
    write(root, "skills/a", GOOD.format("wrong") + BOB + "Save it as `docs/plan.md`.\n")
    write(root, "skills/b", GOOD.format("b"))
    rules = "hardcoded-path: on, name-matches-folder: error"
    (root / "skillgate.yml").write_text(f"lint: {{rules: {{{rules}}}}}")
    shown = {"note": (3, 0), "warning": (2, 1), "error": (1, 2)}[level]
    assert main(["lint", "--level", level, "--fail-on", "note"]) == ExitCode.GATE_FAILED
    said = capsys.readouterr().out
    assert (said.count("SKILL.md:"), f" {shown[1]} below this level not shown." in said) == (
        shown[0],
        shown[1] > 0,
    )
