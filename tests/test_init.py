"""`skillgate init` in repositories of all kinds: what it writes works, and what was there stays."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from skillgate import config
from skillgate.cli import main

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "fixtures/template"
WORKFLOW = ".github/workflows/skillgate.yml"
SUITE = "fixtures/first-suite"
SKILL = """\
---
name: {name}
description: Writes release notes in Markdown from merged pull requests. Use when a release is being prepared.
---

# Release notes

Read the merged pull requests, group them by what a user sees, and write `CHANGELOG.md`.
"""


class Said(NamedTuple):
    """What a command left: its exit code, and what it wrote to both streams."""

    code: int
    out: str
    err: str


Say = Callable[..., Said]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty repository and go there."""
    folder = tmp_path / "repo"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Say:
    """Return what runs a command of the command line."""

    def run(*arguments: str) -> Said:
        code = main(list(arguments))
        return Said(code, *capfd.readouterr())

    return run


def skill(repo: Path, folder: str) -> None:
    path = repo / folder / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name=path.parent.name), encoding="utf-8")


def tree(folder: Path) -> dict[str, str]:
    """Map every file and link of a repository to what it holds."""
    paths = (path for path in folder.rglob("*") if ".git" not in path.relative_to(folder).parts)
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in paths
        if path.is_symlink() or path.is_file()
    }


def suite_files() -> list[str]:
    return [f"{SUITE}/{path}" for path in sorted(tree(TEMPLATE))]


def test_what_it_writes_into_an_empty_repository(repo: Path, say: Say) -> None:
    said = say("init")
    wanted = ["skillgate.yml", WORKFLOW, *suite_files()]
    assert said.code == 0
    assert said.out.splitlines() == [f"wrote  {path}" for path in wanted]
    assert sorted(tree(repo)) == sorted(wanted)
    workflow = (ROOT / "examples/workflows/pull-request.yml").read_text(encoding="utf-8")
    assert (repo / WORKFLOW).read_text(encoding="utf-8") == workflow
    read = config.parse((repo / "skillgate.yml").read_text(encoding="utf-8"))
    assert (read.skills, read.suites, read.run.agent) == (("skills/**",), {}, None)
    assert "# None was found here yet.\n" in (repo / "skillgate.yml").read_text(encoding="utf-8")
    assert said.err.splitlines()[0] == f"No skills in {repo}."
    assert [line[:4] for line in said.err.splitlines() if line[2:3].isdigit()] == ["  1.", "  2.", "  3."]


def test_skills_are_found_and_what_was_written_lints_and_checks(repo: Path, say: Say) -> None:
    for folder in ("skills/notes", "skills/deep/more", ".claude/skills/notes-too", "ignored/x"):
        skill(repo, folder)
    (repo / ".gitignore").write_text("ignored/\n")
    said = say("init")
    assert (said.code, said.err.splitlines()[0]) == (0, f"3 skills in {repo}.")
    text = (repo / "skillgate.yml").read_text(encoding="utf-8")
    named = "# Found here:\n#   .claude/skills/notes-too\n#   skills/deep/more\n#   skills/notes\n"
    assert named in text
    assert config.parse(text).skills == (".claude/skills/**", "skills/**")
    linted = say("lint", "--fail-on", "error")
    assert (linted.code, "of 3 skills" in linted.out) == (0, True), linted
    checked = say("suite", "check", "--sandbox", "local")
    assert (checked.code, checked.out.count("ok   first-suite/")) == (0, 2), checked


def test_the_part_that_is_switched_off_is_right_too(repo: Path, say: Say) -> None:
    skill(repo, "skills/notes")
    assert say("init").code == 0
    text = (repo / "skillgate.yml").read_text(encoding="utf-8")
    head, found, rest = text.partition("#\n# suites:")
    assert found, text
    on = head + "\n".join(line.removeprefix("# ") for line in f"# suites:{rest}".splitlines()) + "\n"
    read = config.parse(on)
    assert read.suites_for("skills/notes") == (SUITE,)
    assert (read.run.agent, read.run.budget_usd, read.policy.margin) == ("claude-code", 5.0, 0.1)
    (repo / "skillgate.yml").write_text(on, encoding="utf-8")
    planned = say("plan", "--skill", "skills/notes")
    assert (planned.code, "first-suite" in planned.out) == (0, True), planned


def test_what_is_there_stays_to_the_byte(repo: Path, say: Say) -> None:
    for path in ("skillgate.yml", WORKFLOW, f"{SUITE}/mine.txt"):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text("version: 1 # mine\n")
    before = tree(repo)
    said = say("init")
    assert said.code == 0
    assert said.out.splitlines() == [
        "left   skillgate.yml: is there already",
        f"left   {WORKFLOW}: is there already",
        f"left   {SUITE}: is there already",
    ]
    assert tree(repo) == before


def test_a_second_time_changes_nothing(repo: Path, say: Say) -> None:
    skill(repo, "skills/notes")
    assert say("init").code == 0
    before = tree(repo)
    said = say("init")
    assert (said.code, {line.split()[0] for line in said.out.splitlines()}) == (0, {"left"})
    assert tree(repo) == before


def test_another_workflow_or_suite_of_the_repository_is_enough(repo: Path, say: Say) -> None:
    other, suite = repo / ".github/workflows/skills.yaml", repo / "fixtures/ours/suite.yml"
    for path, text in ((other, "- uses: skillgate/skillgate@v1\n"), (suite, "version: 1\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert say("init").out.splitlines() == [
        "wrote  skillgate.yml",
        f"left   {WORKFLOW}: .github/workflows/skills.yaml calls skillgate already",
        f"left   {SUITE}: fixtures/ours is there already",
    ]


def test_a_dry_run_shows_every_file_and_writes_none(repo: Path, say: Say) -> None:
    skill(repo, "skills/notes")
    (repo / ".github").write_text("a file\n")
    before = tree(repo)
    said = say("init", "--dry-run")
    assert (said.code, tree(repo)) == (0, before)
    heads = [line for line in said.out.splitlines() if line.startswith("==> ")]
    assert heads == [
        "==> skillgate.yml: new",
        f"==> {WORKFLOW}: not written, .github is a file",
        *(f"==> {path}: new" for path in suite_files()),
    ]
    assert "#   skills/notes\n" in said.out
    for path, text in tree(TEMPLATE).items():
        assert text.replace("A suite to start from", "first-suite").rstrip() in said.out, path
    assert said.err.splitlines()[0] == f"1 skill in {repo}. Nothing was written: this was a dry run."


def test_globs_that_are_given_are_the_ones_written(repo: Path, say: Say) -> None:
    for folder in ("tools/a/one", "skills/two"):
        skill(repo, folder)
    said = say("init", "--skills", "tools/**", "--skills", "more/*")
    assert said.err.splitlines()[0] == f"1 skill that match tools/** more/* in {repo}."
    text = (repo / "skillgate.yml").read_text(encoding="utf-8")
    assert config.parse(text).skills == ("tools/**", "more/*")
    assert "skills/two" not in text


def test_it_writes_into_the_root_from_a_folder_below(
    repo: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a/b").mkdir(parents=True)
    monkeypatch.chdir(repo / "a/b")
    assert say("init").code == 0
    assert {path.split("/")[0] for path in tree(repo)} == {"skillgate.yml", ".github", "fixtures"}


def test_outside_a_repository_it_says_so(tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said = say("init")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"skillgate: {tmp_path}: not a git repository\n  Run `git init`, or change into one.\n"
    assert tree(tmp_path) == {}


def test_links_are_not_followed(repo: Path, say: Say, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / "skillgate.yml").symlink_to(outside / "config.yml")  # leads nowhere yet
    (repo / ".github").symlink_to(outside)
    (repo / "fixtures").symlink_to(outside)
    said = say("init")
    assert said.code == 0
    assert said.out.splitlines() == [
        "left   skillgate.yml: is there already",
        f"left   {WORKFLOW}: .github is a link",
        f"left   {SUITE}: fixtures is a link",
    ]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a\nversion: 2", "b # c", 'd"e', "[x]", "é", "😀", "\t", "\udcff"], ids=repr
)
def test_a_folder_name_is_no_yaml(repo: Path, say: Say, name: str) -> None:
    skill(repo, f"{name}/notes")
    assert say("init").code == 0
    read = config.parse((repo / "skillgate.yml").read_text(encoding="utf-8"))
    assert read.covers(f"{name}/notes")
    assert len(read.skills) == 1


def test_a_skill_of_a_suite_is_not_the_repositorys_own(repo: Path, say: Say) -> None:
    skill(repo, "fixtures/ours/repo/.claude/skills/planted")
    (repo / "fixtures/ours/suite.yml").write_text("version: 1\n")
    assert say("init").err.startswith("No skills in ")


def test_many_skills_are_counted(repo: Path, say: Say) -> None:
    for number in range(22):
        skill(repo, f"skills/s{number:02}")
    assert say("init").code == 0
    text = (repo / "skillgate.yml").read_text(encoding="utf-8")
    assert "#   skills/s19\n#   and 2 more\nskills:" in text


def test_the_workflow_is_yaml_with_the_names_that_the_steps_tell(repo: Path, say: Say) -> None:
    said = say("init")
    job = yaml.safe_load((repo / WORKFLOW).read_text())["jobs"]["gate"]
    assert job["environment"] == "skillgate"
    assert "environment `skillgate`" in said.err
    assert "ANTHROPIC_API_KEY" in said.err
    assert list(job["steps"][1]["env"]) == ["ANTHROPIC_API_KEY"]
