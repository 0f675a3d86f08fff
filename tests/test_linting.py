from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.errors import ConfigError, ExitCode
from skillgate.linting import Linted, Request, lint_paths, render

GOOD = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"


def write(root: Path, folder: str, text: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "SKILL.md").write_text(text, encoding="utf-8")


def lint(root: Path, *paths: str) -> Linted:
    return lint_paths(Request([Path(path) for path in paths], root))


def test_without_paths_the_configuration_says_which_skills(tmp_path: Path) -> None:
    write(tmp_path, "skills/a", GOOD.format("a"))
    write(tmp_path, "skills/deep/b", GOOD.format("b"))
    write(tmp_path, "other/c", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").write_text("skills: ['skills/**']\nlint: {rules: {token-weight: off}}")
    linted = lint(tmp_path)
    assert (linted.skills, linted.findings) == (2, ())
    linted = lint(tmp_path, "other", "other/c", "other/c/SKILL.md")
    assert (linted.skills, [str(f.where) for f in linted.findings]) == (1, ["other/c/SKILL.md:2:7"])


@pytest.mark.parametrize(
    ("path", "skills"),
    [
        ("skills/a/references/deep/x.md", ["skills/a"]),
        ("skills/a/SKILL.md", ["skills/a"]),
        ("skills/a/node_modules/x.js", ["skills/a"]),
        ("skills/a/nested/b/SKILL.md", ["skills/a/nested/b"]),
        ("skills/README.md", []),
        ("skills/a", ["skills/a", "skills/a/nested/b"]),
    ],
)
def test_a_file_stands_for_the_skill_that_owns_it(tmp_path: Path, path: str, skills: list[str]) -> None:
    for folder in ("skills/a", "skills/a/nested/b", "skills/c"):
        write(tmp_path, folder, GOOD.format("wrong"))
    if not (tmp_path / path).exists():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = [f.where.path for f in lint(tmp_path, path).findings if f.rule == "name-matches-folder"]
    assert found == [f"{skill}/SKILL.md" for skill in skills]


def test_a_skill_at_the_root_owns_what_no_other_skill_does(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, ".", GOOD.format("root"))
    write(root, "skills/a", GOOD.format("a"))
    (root / "notes.md").touch()
    (tmp_path / "outside.md").touch()
    assert lint(root, "notes.md").skills == 1
    assert lint(root, "notes.md", "skills/a/SKILL.md").skills == 2
    assert lint(root, "../outside.md").skills == 0


def test_a_configured_suite_makes_the_linter_task_aware(tmp_path: Path) -> None:
    template = "Save it as `lib/slugs.py`:\n\n```python\n" + "print(1)\n" * 20 + "```\n"
    write(tmp_path, "skills/a", GOOD.format("a") + template)
    alone = lint(tmp_path)
    (tmp_path / "skillgate.yml").write_text("suites: {'skills/**': ['builtin:textkit']}")
    aware = lint(tmp_path)
    assert {(f.rule, f.severity.value) for f in alone.findings} == {("template-anchoring", "note")}
    assert {(f.rule, f.severity.value) for f in aware.findings} == {("template-anchoring", "warning")}
    assert "builtin:textkit/tasks/" in aware.findings[0].message


def test_every_format_shows_the_finding(tmp_path: Path) -> None:
    write(tmp_path, "a", GOOD.format("wrong"))
    linted = lint(tmp_path)
    text, plain, sarif, github = (render(linted, style) for style in ("text", "json", "sarif", "github"))
    assert "    2 | name: wrong\n" in text
    assert [f["rule"] for f in json.loads(plain)["findings"]] == ["name-matches-folder"]
    assert [r["ruleId"] for r in json.loads(sarif)["runs"][0]["results"]] == ["name-matches-folder"]
    assert github.startswith("::error file=a/SKILL.md,line=2,col=7,")


def told(linted: Linted) -> list[str]:
    """Return what the tests below are about, whatever other rules say."""
    rules = ("frontmatter-invalid", "hardcoded-path", "line-endings", "name-matches-folder", "suppression")
    return [f"{f.where.path}:{f.where.line} {f.rule}" for f in linted.findings if f.rule in rules]


# --- baseline, and what is counted


def test_what_was_written_down_is_not_shown_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["lint"]) == ExitCode.GATE_FAILED
    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK
    assert "known.json: `lint --baseline` shows only others." in capsys.readouterr().out
    assert main(["lint", "--baseline", "known.json"]) == ExitCode.OK
    assert "1 ignored by the baseline" in capsys.readouterr().out
    write(tmp_path, "a", GOOD.format("wrong") + "\nRun `/Users/alice/x`.\n")
    assert main(["lint", "--baseline", "known.json", "--format", "json", "--fail-on", "warning"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [finding["rule"] for finding in shown["findings"]] == ["hardcoded-path"]
    assert (shown["skills"], shown["ignored"], shown["baselined"]) == (1, 0, 1)


def test_a_baseline_is_written_whole_also_over_the_configured_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").write_text("lint: {baseline: known.json}")
    monkeypatch.chdir(tmp_path)
    assert main(["lint"]) == ExitCode.USAGE
    assert "`lint.baseline` names `known.json`, which is no file" in capsys.readouterr().err
    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK, "as the hint says"
    assert main(["lint"]) == ExitCode.OK
    first = (tmp_path / "known.json").read_text()
    assert main(["lint", "--write-baseline", "known.json"]) == ExitCode.OK
    assert (tmp_path / "known.json").read_text() == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert main(["lint"]) == ExitCode.GATE_FAILED


def test_a_baseline_that_was_named_wins_and_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, "a", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").write_text("lint: {baseline: none.json}")
    (tmp_path / "empty.json").write_text("{}")
    assert told(lint_paths(Request([], tmp_path, baseline=tmp_path / "empty.json")))
    with pytest.raises(ConfigError, match="no such file"):
        lint_paths(Request([], tmp_path, baseline=tmp_path / "gone.json"))
    (tmp_path / "bad.json").write_text('{"findings": [\n{"rule": 1}]}')
    with pytest.raises(ConfigError, match=r"bad\.json:2: "):
        lint_paths(Request([], tmp_path, baseline=tmp_path / "bad.json"))


def test_what_comments_silence_is_counted(tmp_path: Path) -> None:
    comment = "\n<!-- skillgate: ignore hardcoded-path: it is so -->\nRun `/Users/alice/x`.\n"
    write(tmp_path, "a", GOOD.format("a") + comment)
    linted = lint(tmp_path)
    shown = json.loads(render(linted, "json"))
    assert (shown["findings"], shown["skills"], shown["ignored"], shown["baselined"]) == ([], 1, 1, 0)
    assert render(linted, "text") == "No findings in 1 skill. 1 ignored by comments.\n"


def test_a_comment_about_what_only_other_skills_show_is_not_unused(tmp_path: Path) -> None:
    comment = "# skillgate: ignore duplicate-name: one is for another client\nname:"
    write(tmp_path, "one/a", GOOD.format("a").replace("name:", comment))
    write(tmp_path, "two/a", GOOD.format("a").replace("name:", comment))
    assert (told(lint(tmp_path)), len(lint(tmp_path).sifted.ignored) > 0) == ([], True)
    assert told(lint(tmp_path, "one/a")) == []


def test_the_configuration_of_paths_and_rule_files_holds(tmp_path: Path) -> None:
    for folder in ("old/a", "new/b"):
        write(tmp_path, folder, GOOD.format("wrong"))
    paths = "paths: {'old/**': {name-matches-folder: off}, 'new/**': {name-matches-folder: note}}"
    (tmp_path / "skillgate.yml").write_text(f"lint: {{{paths}}}")
    found = [f for f in lint(tmp_path).findings if f.rule == "name-matches-folder"]
    assert [(str(f.where), f.severity.value) for f in found] == [("new/b/SKILL.md:2:7", "note")]
    (tmp_path / "skillgate.yml").write_text("lint:\n  paths:\n    'old/**': {name-matches-folderr: off}")
    with pytest.raises(ConfigError, match=r"skillgate\.yml:3: .*`name-matches-folderr`, which is no rule"):
        lint(tmp_path)
    (tmp_path / "skillgate.yml").write_text("lint: {rule-files: [house]}")
    with pytest.raises(ConfigError, match="`house`, which is no folder"):
        lint(tmp_path)
    (tmp_path / "skillgate.yml").write_text("lint: {clients: [emacs]}")
    with pytest.raises(ConfigError, match=r"skillgate\.yml:1: "):
        lint(tmp_path)


def test_a_link_to_a_file_elsewhere_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the first line of a secret\n")
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/SKILL.md").symlink_to("../../secret")
    linted = lint(tmp_path / "root")
    assert linted.findings[0].where.path == "a/SKILL.md"
    assert "secret" not in render(linted, "text").replace("a link to `../../secret`", "")
