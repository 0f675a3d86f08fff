"""Fixtures of the linter's tests: the shipped rules, and linting of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from skillgate.core import Finding, Location, TaskFacts
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, Skill, parse

Content = str | bytes | Mapping[str, str | bytes]
Lint = Callable[..., list[str]]

HEAD = "---\nname: demo\ndescription: Turns a changelog into release notes. Use before a release.\n---\n"


def make_skill(content: Content, path: str = "skills/demo") -> Skill:
    """Make a skill of a SKILL.md text, or of names and contents."""
    files = content if isinstance(content, Mapping) else {"SKILL.md": content}
    raw = {n: c.encode("utf-8", "surrogateescape") if isinstance(c, str) else c for n, c in files.items()}
    return parse(Files.from_map(raw), path)


def make_facts(task: str, *deliverables: str, line: int = 3) -> TaskFacts:
    where = Location(path=f"fixtures/{task.replace('/', '/tasks/')}/task.yml", line=line)
    return TaskFacts(task=task, where=where, deliverables=deliverables)


def short(finding: Finding) -> str:
    """Write a finding as `line:column severity rule match`; another file than SKILL.md comes first."""
    name = finding.where.path.rpartition("/")[2]
    file = "" if name == "SKILL.md" else f"{name}:"
    return f"{file}{finding.where.line}:{finding.where.column} {finding.severity} {finding.rule} {finding.match}".strip()


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    return load_rules(shipped("rules"))


@pytest.fixture
def lint(rules: tuple[Rule, ...]) -> Lint:
    def run(content: Content, tasks: Sequence[TaskFacts] = (), path: str = "skills/demo") -> list[str]:
        return [short(finding) for finding in lint_skill(make_skill(content, path), rules, tasks)]

    return run
