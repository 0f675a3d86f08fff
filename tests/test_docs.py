"""What the documents say is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillgate import config
from skillgate.cli import cli
from skillgate.core import Policy
from skillgate.lint.engine import lint_skill
from skillgate.lint.pages import render
from skillgate.lint.rule import load_rules
from skillgate.skill import Files, parse

ROOT = Path(__file__).parent.parent
WRITTEN = {"rules.md"}  # by a program
FOLLOWED = {"suites.md"}  # by test_docs_suites.py: its paths are those of the reader
DOCS = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in WRITTEN | FOLLOWED)
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{name}" for name in DOCS),
)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_rules_page_comes_from_the_rule_files() -> None:
    page = render(load_rules(ROOT / "rules"), "markdown")
    if os.environ.get("SKILLGATE_UPDATE_GOLDEN"):
        (ROOT / "docs/rules.md").write_text(page, encoding="utf-8")
    assert text("docs/rules.md") == page


def test_the_readme_lists_the_rules_by_scope(readme: Any) -> None:
    rules = load_rules(ROOT / "rules")
    scopes = dict.fromkeys(rule.scope.partition(":")[0] for rule in sorted(rules, key=lambda r: r.scope))
    rows = [
        f"| {scope} | {', '.join(f'`{r.id}`' for r in rules if r.scope.partition(':')[0] == scope)} |"
        for scope in scopes
    ]
    readme.expect("rules", "\n".join(["| scope | rules |", "|---|---|", *rows]))


def test_the_documented_rule_finds_what_it_says(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(id: no-internal-hosts\n.*?)```", text("README.md"), re.DOTALL)
    assert block is not None
    (tmp_path / "no-internal-hosts.yml").write_text(block[1], encoding="utf-8")
    (rule,) = load_rules(tmp_path)
    told = []
    for example in (*rule.examples.bad, *rule.examples.good):
        assert isinstance(example, str)
        told.append(
            [f.match for f in lint_skill(parse(Files.from_map({"SKILL.md": example.encode()}), "x"), [rule])]
        )
    assert told == [["build.corp.example"], []]


def test_the_documented_configuration_is_valid() -> None:
    block = re.search(r"```yaml\n(version: 1\n.*?)```", text("README.md"), re.DOTALL)
    assert block is not None
    read = config.parse(block[1])
    assert read.run.agent == "claude-code"
    known = yaml.safe_load(block[1])
    assert set(known["lint"]) == set(config.LintConfig.__struct_encode_fields__)
    assert set(known["policy"]) == {field.replace("_", "-") for field in Policy.__struct_fields__}
    assert set(known["run"]) == set(config.RunConfig.__struct_encode_fields__)


def test_every_command_is_in_the_readme() -> None:
    listed = set(re.findall(r"^skillgate ([a-z]+)", text("README.md"), re.MULTILINE))
    assert listed == set(cli.commands) - {"action"}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True
    ).stdout
    names = {part for line in tracked.splitlines() for part in (line, *map(str, Path(line).parents))}
    bases = ("", "skillgate/", "skillgate/bench/", "tests/bench/")
    quoted = re.findall(
        r"`((?:tests|skillgate|rules|fixtures|\.ci|meter)/[\w./-]*|[A-RT-Z][A-Z]+\.md|[a-z_]+\.py)`",
        text(page),
    )
    assert [path for path in quoted if not any((base + path).rstrip("/") in names for base in bases)] == []


def test_the_map_shows_every_module() -> None:
    page, package = text("ARCHITECTURE.md"), ROOT / "skillgate"
    modules = [path for path in package.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    shown = [path for path in modules if path.parent.name in ("checks", "skill") or path.name in page]
    assert [path.name for path in modules if path not in shown] == []
