"""The table and the JSON of `skillgate weigh`."""

from __future__ import annotations

import json

from skillgate.report.weight import render_json, render_text
from skillgate.values import InputPrice
from skillgate.weights import Kind, Part, Weighing

PARTS = (
    Part(kind=Kind.LISTING, name="name and description", tokens=60, heavier_than=50),
    Part(kind=Kind.BODY, name="SKILL.md", tokens=1_200, line=5, heavier_than=0, code_percent=31),
    Part(kind=Kind.SECTION, name="Steps", tokens=700, line=5, level=1),
    Part(kind=Kind.SECTION, name="A\x1b[31m title \u202e" + "x" * 60, tokens=500, line=20, level=2),
    Part(kind=Kind.REFERENCE, name="references/a.md", tokens=12_000, heavier_than=99),
    Part(kind=Kind.OTHER, name="run.py", tokens=40),
    Part(kind=Kind.TREE, name="all files", tokens=13_300),
)
PRICE = InputPrice(usd_per_mtok=2.5, source="as given")


def test_the_table_without_a_price() -> None:
    weighing = Weighing(skill="skills/demo", counted_with="cl100k_base", parts=PARTS)
    assert render_text(weighing).split("\n") == [
        "skills/demo: 13,300 tokens, counted with cl100k_base",
        "",
        "                                                      tokens  of published  paid",
        "name and description                                      60     over 50 %  on every request",
        "SKILL.md                                               1,200    under 50 %  on every use",
        "  Steps :5                                               700",
        "    A[31m title xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… :20     500",
        "references/a.md                                       12,000     over 99 %  when it is read",
        "run.py                                                    40                only when it is read",
        "all files                                             13,300                when all is read",
        "",
        "31 % of the lines of SKILL.md are code.",
        "Over 75 %: heavier than 75 of 100 published skills. Models may count otherwise than cl100k_base.",
        "",
    ]  # fmt: skip


def test_the_table_with_a_price_counted_by_the_model() -> None:
    parts = (Part(kind=Kind.BODY, name="SKILL.md", tokens=1_200, code_percent=0), PARTS[-1])
    weighing = Weighing(skill="demo", counted_with="claude-x itself", parts=parts, price=PRICE)
    assert render_text(weighing).split("\n") == [
        "demo: 13,300 tokens, counted with claude-x itself",
        "",
        "           tokens  of published  $ per 1,000  paid",
        "SKILL.md    1,200                       3.00  on every use",
        "all files  13,300                      33.25  when all is read",
        "",
        "0 % of the lines of SKILL.md are code.",
        "Published skills were counted with another tokenizer, so nothing is compared.",
        "$2.5 per million input tokens (as given), without a cache.",
        "",
    ]


def test_json_names_the_fields_of_the_types() -> None:
    weighing = Weighing(skill="demo", counted_with="cl100k_base", parts=PARTS[-1:], price=PRICE)
    part = {"kind": "tree", "name": "all files", "tokens": 13_300, "line": 1, "level": 0}
    assert json.loads(render_json(weighing)) == {
        "schema": 1,
        "skill": "demo",
        "counted_with": "cl100k_base",
        "price": {"usd_per_mtok": 2.5, "source": "as given"},
        "parts": [{**part, "heavier_than": None, "code_percent": None, "usd_per_1000": 33.25}],
    }
    assert "usd_per_1000" not in render_json(Weighing(skill="x", counted_with="x", parts=PARTS[:1]))
