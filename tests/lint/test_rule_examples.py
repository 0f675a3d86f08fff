"""The examples of a rule are its tests: a bad one gives this rule and nothing else, a good one nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from skillgate.core import Finding
from skillgate.lint.check import Hit
from skillgate.lint.engine import lint_skill, no_skills_finding
from skillgate.lint.rule import Example, Rule, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, Skill, parse

RULES = load_rules(shipped("rules"))


def make_example(example: Example) -> Skill | None:
    files = example if isinstance(example, Mapping) else {"demo/SKILL.md": example}
    raw = {
        name.removeprefix("demo/"): text.encode("utf-8", "surrogateescape") for name, text in files.items()
    }
    return parse(Files.from_map(raw), "demo") if "SKILL.md" in raw else None


def lint_example(example: Example) -> tuple[Finding, ...]:
    skill = make_example(example)
    return lint_skill(skill, RULES) if skill else no_skills_finding(RULES, "demo")


def hits(rule: Rule) -> list[Hit]:
    skills = [make_example(example) for example in rule.examples.bad]
    return [hit for skill in skills if skill for hit in rule.make_check()(skill, ())]


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in RULES
        for number, example in enumerate(getattr(rule.examples, kind))
    ]


@pytest.mark.parametrize(("rule", "example"), examples("bad"))
def test_a_bad_example_gives_its_rule_and_nothing_else(rule: Rule, example: Example) -> None:
    found = lint_example(example)
    assert {finding.rule for finding in found} == {rule.id}, found


@pytest.mark.parametrize(("rule", "example"), examples("good"))
def test_a_good_example_gives_nothing(rule: Rule, example: Example) -> None:
    assert lint_example(example) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_words_all_it_finds(rule: Rule) -> None:
    for finding in (f for example in rule.examples.bad for f in lint_example(example)):
        assert "{" not in finding.message.replace("${{", "") + finding.hint
        assert finding.message[-1:] not in (".", " ") or "heaviest" in finding.message
        assert finding.hint.endswith(".") or finding.hint.endswith("?")
        assert rule.evidence[0].source in finding.evidence


def test_every_variant_is_shown_by_an_example() -> None:
    elsewhere = {
        ("hardcoded-path", "collision"),  # these two need a suite
        ("template-anchoring", "collision"),
        ("name-matches-folder", "folder"),  # an example lies in `demo`
        ("not-fully-read", "path"),
        ("not-fully-read", "skill"),  # an example is text
        ("not-fully-read", "size"),  # these two are too long for an example
        ("token-weight", "lines"),
    }
    wanted = {(rule.id, name) for rule in RULES for name in rule.variants}
    shown = {(rule.id, hit.variant) for rule in RULES for hit in hits(rule)}
    assert wanted - shown == elsewhere
