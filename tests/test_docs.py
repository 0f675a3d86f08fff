"""What the documents say is what the program does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillgate import config
from skillgate.cli import cli
from skillgate.core import Policy
from skillgate.lint.pages import render
from skillgate.lint.rule import load_rules

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_rule_table_comes_from_the_rule_files(readme: Any) -> None:
    table = render(load_rules(ROOT / "rules"), "markdown").partition("\n## ")[0].strip()
    readme.expect("rules", re.sub(r"\[(.*?)\]\(#.*?\)", r"`\1`", table))


def test_the_documented_configuration_is_valid() -> None:
    block = re.search(r"```yaml\n(version: 1\n.*?)```", text("README.md"), re.DOTALL)
    assert block is not None
    read = config.parse(block[1])
    assert read.run.agent == "scripted"
    known = yaml.safe_load(block[1])
    assert set(known["policy"]) == {field.replace("_", "-") for field in Policy.__struct_fields__}
    assert set(known["run"]) == set(config.RunConfig.__struct_encode_fields__) - {"network"}


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
