"""The examples of a rule are its tests: a bad one gives this rule and nothing else, a good one nothing."""

from __future__ import annotations

from typing import Any

import pytest

from skillgate.core import Finding
from skillgate.lint.examples import hits, lint_example, with_rule
from skillgate.lint.rule import Example, Rule, load_rules, verified
from skillgate.shipped import shipped

RULES = load_rules(shipped("rules"))
RULES_WITH = {rule.id: with_rule(rule, RULES) for rule in RULES}


def lint(rule: Rule, example: Example) -> tuple[Finding, ...]:
    """Lint with the rules that are on by default, and with this one."""
    return lint_example(rule, example, RULES_WITH[rule.id])


def variants(rule: Rule) -> set[str]:
    """Return the variants that the bad examples show."""
    shown = {"unused", "unknown"} if rule.check == "suppression" else set()
    return shown | {hit.variant for example in rule.examples.bad for hit in hits(rule, example)}


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in RULES
        for number, example in enumerate(getattr(rule.examples, kind))
    ]


@pytest.mark.parametrize(("rule", "example"), examples("bad"))
def test_a_bad_example_gives_its_rule_and_nothing_else(rule: Rule, example: Example) -> None:
    found = lint(rule, example)
    assert {finding.rule for finding in found} == {rule.id}, found


@pytest.mark.parametrize(("rule", "example"), examples("good"))
def test_a_good_example_gives_nothing(rule: Rule, example: Example) -> None:
    assert lint(rule, example) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_words_all_it_finds(rule: Rule) -> None:
    for finding in (f for example in rule.examples.bad for f in lint(rule, example)):
        assert "{" not in finding.message.replace("${{", "") + finding.hint
        assert finding.message[-1:] not in (".", " ") or "heaviest" in finding.message
        assert finding.hint.endswith(".") or finding.hint.endswith("?")
        assert rule.evidence[0].source in finding.evidence


def test_every_variant_is_shown_by_an_example() -> None:
    elsewhere = {
        ("name-matches-folder", "folder"),  # an example lies in `demo`
        ("no-skills-found", "left-out"),  # nor is there a configuration
        ("not-fully-read", "path"),
        ("not-fully-read", "skill"),  # an example is text
        ("not-fully-read", "size"),  # these three are too long for an example
        ("token-weight", "lines"),
        ("token-weight", "reference"),
        ("script-start", "bit"),  # an example does not say what may be executed
    }
    wanted = {(rule.id, name) for rule in RULES for name in rule.variants}
    shown = {(rule.id, variant) for rule in RULES for variant in variants(rule)}
    assert wanted - shown == elsewhere


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_expression_of_a_rule_compiles(rule: Rule) -> None:
    assert verified(rule) is rule
