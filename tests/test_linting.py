from __future__ import annotations

import json
from pathlib import Path

from skillgate.linting import lint_paths, render

GOOD = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"


def write(root: Path, folder: str, text: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "SKILL.md").write_text(text, encoding="utf-8")


def test_without_paths_the_configuration_says_which_skills(tmp_path: Path) -> None:
    write(tmp_path, "skills/a", GOOD.format("a"))
    write(tmp_path, "skills/deep/b", GOOD.format("b"))
    write(tmp_path, "other/c", GOOD.format("wrong"))
    (tmp_path / "skillgate.yml").write_text("skills: ['skills/**']\nlint: {rules: {token-weight: off}}")
    linted = lint_paths((), tmp_path)
    assert (linted.skills, linted.findings) == (2, ())
    linted = lint_paths((Path("other"), Path("other/c"), Path("other/c/SKILL.md")), tmp_path)
    assert (linted.skills, [str(f.where) for f in linted.findings]) == (1, ["other/c/SKILL.md:2:7"])


def test_a_configured_suite_makes_the_linter_task_aware(tmp_path: Path) -> None:
    template = "Save it as `lib/slugs.py`:\n\n```python\n" + "print(1)\n" * 20 + "```\n"
    write(tmp_path, "skills/a", GOOD.format("a") + template)
    alone = lint_paths((), tmp_path)
    (tmp_path / "skillgate.yml").write_text("suites: {'skills/**': ['builtin:textkit']}")
    aware = lint_paths((), tmp_path)
    assert {(f.rule, f.severity.value) for f in alone.findings} == {("template-anchoring", "note")}
    assert {(f.rule, f.severity.value) for f in aware.findings} == {("template-anchoring", "warning")}
    assert "builtin:textkit/tasks/" in aware.findings[0].message


def test_every_format_shows_the_finding(tmp_path: Path) -> None:
    write(tmp_path, "a", GOOD.format("wrong"))
    linted = lint_paths((), tmp_path)
    text, plain, github = (render(linted, style) for style in ("text", "json", "github"))
    assert "    2 | name: wrong\n" in text
    assert [f["rule"] for f in json.loads(plain)["findings"]] == ["name-matches-folder"]
    assert github.startswith("::error file=a/SKILL.md,line=2,col=7,")
