from __future__ import annotations

import json

import pytest

from skillgate.lint.pages import render
from skillgate.lint.rule import load_rules
from skillgate.shipped import shipped

RULES = load_rules(shipped("rules"))


def test_the_list_has_a_line_per_rule() -> None:
    assert [line.split()[0] for line in render(RULES, "text").splitlines()] == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_explains_a_rule_in_full(rule: object) -> None:
    page = render([rule], "text")  # type: ignore[list-item]  # the parametrised type is lost
    assert page.startswith(f"## {rule.id}\n")  # type: ignore[attr-defined]
    assert render([rule], "markdown").endswith(f"\n\n{page}")  # type: ignore[list-item]


def test_markdown_links_the_table_to_the_pages() -> None:
    page = render(RULES, "markdown")
    assert [f"](#{rule.id})" in page and f"\n## {rule.id}\n" in page for rule in RULES] == [True] * len(RULES)


def test_a_rule_that_is_off_is_listed_as_such() -> None:
    lines = render(RULES, "text", off={RULES[0].id}).splitlines()
    assert [line.endswith(" (off)") for line in lines] == [True] + [False] * (len(RULES) - 1)


def test_json_holds_the_whole_rule() -> None:
    assert [rule["id"] for rule in json.loads(render(RULES, "json"))] == [rule.id for rule in RULES]
    assert json.loads(render(RULES, "json"))[0]["examples"]["bad"]
