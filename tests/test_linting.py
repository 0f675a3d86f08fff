from __future__ import annotations

import json
from pathlib import Path

import pytest

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
        ("skills/README.md", ["skills/a", "skills/a/nested/b", "skills/c"]),
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
    assert lint(root, "../outside.md").skills == 2


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
