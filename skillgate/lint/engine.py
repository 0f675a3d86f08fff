"""Skill x Rule -> Finding[]: sorted, the same on every run; a bad file never stops the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillgate.core import Finding, Location, TaskFacts
from skillgate.lint.check import Hit
from skillgate.lint.rule import Rule
from skillgate.skill import Skill

NO_SKILLS = "no-skills"


def lint_skill(skill: Skill, rules: Sequence[Rule], tasks: Sequence[TaskFacts] = ()) -> tuple[Finding, ...]:
    """Return the findings of one skill; `tasks` are those of the suites that judge it."""
    return _sorted(rule.finding(hit) for rule in rules for hit in rule.make_check()(skill, tasks))


def no_skills_finding(rules: Sequence[Rule], folder: str) -> tuple[Finding, ...]:
    """Return what to say when a search below `folder` found no skill; nothing when that rule is off."""
    hit = Hit(where=Location(path=folder), match=folder, values={"folder": folder})
    return tuple(rule.finding(hit) for rule in rules if rule.check == NO_SKILLS)


def _sorted(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    return tuple(
        sorted(findings, key=lambda finding: (finding.where, finding.rule, finding.match, finding.message))
    )
