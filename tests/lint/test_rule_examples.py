"""The examples of a rule are its tests: a bad one gives this rule and nothing else, a good one nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from skillgate.config import LintConfig
from skillgate.core import Finding
from skillgate.lint.check import Check, Library, listed
from skillgate.lint.engine import check_skill, lint_library
from skillgate.lint.rule import Example, Rule, load_rules, verified
from skillgate.lint.sift import sift
from skillgate.shipped import shipped
from skillgate.skill import Files, Skill, Stray, parse
from skillgate.skill.files import is_misspelt

RULES = load_rules(shipped("rules"))
RULES_WITH = {rule.id: [r for r in RULES if r is rule or r.is_on(None, ())] for rule in RULES}


def make_example(example: Example) -> tuple[list[Skill], tuple[Stray, ...]]:
    given = example if isinstance(example, Mapping) else {"demo/SKILL.md": example}
    links = {name: text for name, text in given.items() if text.startswith("-> ")}
    files = {name: text for name, text in given.items() if name not in links}
    folders = sorted(name.removesuffix("/SKILL.md") for name in files if name.endswith("/SKILL.md"))
    skills = []
    for folder in folders:
        inside = {n: text for n, text in files.items() if n.startswith(f"{folder}/")}
        raw = {n.removeprefix(f"{folder}/"): t.encode("utf-8", "surrogateescape") for n, t in inside.items()}
        skills.append(parse(Files.from_map(raw), folder))
    strays = [Stray(name, "case") for name in files if is_misspelt(name.rpartition("/")[2])]
    strays += [Stray(name, "outside" if "../.." in text else "dangling") for name, text in links.items()]
    return skills, tuple(strays)


def lint_example(rule: Rule, example: Example) -> tuple[Finding, ...]:
    """Lint with the rules that are on by default, and with this one."""
    skills, strays = make_example(example)
    checked = [check_skill(skill, RULES_WITH[rule.id], rule.examples.tasks) for skill in skills]
    library = Library(tuple(one.listed for one in checked), strays, "demo")
    found = [*lint_library(library, RULES_WITH[rule.id]), *(f for one in checked for f in one.findings)]
    comments = [comment for one in checked for comment in one.comments]
    return sift(found, comments, RULES_WITH[rule.id], LintConfig()).findings


def variants(rule: Rule) -> set[str]:
    """Return the variants that the bad examples show."""
    shown = {"unused"} if rule.check == "suppression" else set()
    for skills, strays in map(make_example, rule.examples.bad):
        check = rule.checker
        if isinstance(check, Check):
            shown |= {hit.variant for skill in skills for hit in check(skill, rule.examples.tasks)}
        else:
            shown |= {hit.variant for hit in check(Library(tuple(map(listed, skills)), strays, "demo"))}
    return shown


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in RULES
        for number, example in enumerate(getattr(rule.examples, kind))
    ]


@pytest.mark.parametrize(("rule", "example"), examples("bad"))
def test_a_bad_example_gives_its_rule_and_nothing_else(rule: Rule, example: Example) -> None:
    found = lint_example(rule, example)
    assert {finding.rule for finding in found} == {rule.id}, found


@pytest.mark.parametrize(("rule", "example"), examples("good"))
def test_a_good_example_gives_nothing(rule: Rule, example: Example) -> None:
    assert lint_example(rule, example) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_words_all_it_finds(rule: Rule) -> None:
    for finding in (f for example in rule.examples.bad for f in lint_example(rule, example)):
        assert "{" not in finding.message.replace("${{", "") + finding.hint
        assert finding.message[-1:] not in (".", " ") or "heaviest" in finding.message
        assert finding.hint.endswith(".") or finding.hint.endswith("?")
        assert rule.evidence[0].source in finding.evidence


def test_every_variant_is_shown_by_an_example() -> None:
    elsewhere = {
        ("name-matches-folder", "folder"),  # an example lies in `demo`
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
