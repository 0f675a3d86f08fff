"""Skill x Rule -> findings: sorted, the same on every run; a bad file never stops the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillgate.core import Finding, TaskFacts
from skillgate.lint.check import Check, Library, LibraryCheck, Listed, listed
from skillgate.lint.checks.suppression import Comment, comments
from skillgate.lint.redact import without_keys
from skillgate.lint.rule import Rule
from skillgate.skill import Skill
from skillgate.values import Struct


class Checked(Struct, kw_only=True):
    """All that linting one skill alone gives; to be joined with that of the others."""

    listed: Listed
    findings: tuple[Finding, ...]
    comments: tuple[Comment, ...]


def check_skill(skill: Skill, rules: Sequence[Rule], tasks: Sequence[TaskFacts] = ()) -> Checked:
    """Lint one skill; `tasks` are those of the suites that judge it."""
    found = lint_skill(skill, rules, tasks)
    return Checked(listed=listed(skill), findings=found, comments=comments(skill))


def lint_skill(skill: Skill, rules: Sequence[Rule], tasks: Sequence[TaskFacts] = ()) -> tuple[Finding, ...]:
    """Return the findings of one skill, also those that a comment in it silences."""
    checks = ((rule, rule.checker) for rule in rules)
    found = (
        rule.finding(hit) for rule, check in checks if isinstance(check, Check) for hit in check(skill, tasks)
    )
    return in_order(without_keys(found, skill, rules))


def lint_library(library: Library, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Return the findings that only all skills together show."""
    checks = ((rule, rule.checker) for rule in rules)
    return in_order(
        rule.finding(hit)
        for rule, check in checks
        if isinstance(check, LibraryCheck)
        for hit in check(library)
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by place, then by what does not depend on the order in which rules were asked."""
    return tuple(
        sorted(findings, key=lambda finding: (finding.where, finding.rule, finding.match, finding.message))
    )
