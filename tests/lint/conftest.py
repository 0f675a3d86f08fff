"""Fixtures of the linter's tests: lint a text with the shipped rules, findings as short strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from skillgate.config import LintConfig
from skillgate.core import Finding, TaskFacts
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, parse
from skillgate.values import Location

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
Lint = Callable[..., tuple[Finding, ...]]


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    """The rules that are on without a configuration."""
    return configure(load_rules(shipped("rules")), LintConfig())


@pytest.fixture
def lint(rules: tuple[Rule, ...]) -> Lint:
    """Lint a SKILL.md; `tasks` are (task, deliverable, ...), `files` lie beside it."""

    def run(
        text: str | bytes,
        *,
        path: str = "skills/demo",
        files: Mapping[str, str] | None = None,
        tasks: Sequence[tuple[str, ...]] = (),
    ) -> tuple[Finding, ...]:
        raw = {name: content.encode() for name, content in (files or {}).items()}
        raw["SKILL.md"] = text if isinstance(text, bytes) else text.encode()
        return lint_skill(parse(Files.from_map(raw), path), rules, [_facts(*task) for task in tasks])

    return run


@pytest.fixture
def hits(lint: Lint) -> Callable[..., list[str]]:
    """Lint a body under a good frontmatter; each finding as `line:column severity rule match`."""

    def run(body: str, **options: object) -> list[str]:
        text = body if body.startswith("---") else HEAD + body
        return [
            f"{f.where.line}:{f.where.column} {f.severity} {f.rule} {f.match}".strip()
            for f in lint(text, **options)
        ]

    return run


@pytest.fixture(scope="session")
def security(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.scope == "security")


@pytest.fixture
def findings(security: tuple[Rule, ...]) -> Callable[..., tuple[Finding, ...]]:
    """Lint a body, or files, with the rules of security alone."""

    def run(body: str = "", files: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
        text = body if body.startswith("---") else HEAD + "\n" + body
        raw = {"SKILL.md": text.encode()} | {n: t.encode() for n, t in (files or {}).items()}
        return lint_skill(parse(Files.from_map(raw), "demo"), security)

    return run


@pytest.fixture
def found(findings: Callable[..., tuple[Finding, ...]]) -> Callable[..., list[str]]:
    """Return the rules that find something, each as often as it does."""

    def run(body: str = "", files: Mapping[str, str] | None = None) -> list[str]:
        return [finding.rule for finding in findings(body, files)]

    return run


def _facts(task: str, *deliverables: str) -> TaskFacts:
    where = Location(path=f"fixtures/{task.replace('/', '/tasks/')}/task.yml", line=12)
    return TaskFacts(task=task, where=where, deliverables=deliverables)
