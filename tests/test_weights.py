"""What each part of a skill weighs."""

from __future__ import annotations

import pytest

from skillgate import tokens
from skillgate.skill import Files, parse
from skillgate.values import InputPrice
from skillgate.weights import FILE_TOKENS, Counter, Kind, Part, Weighing, heavier_than, weigh

BODY = "# One\n\nhello world\n\n## Two\n\n~~~\n# No heading\n~~~\n"
TEXT = f"---\nname: demo\ndescription: hello world\n---\n{BODY}"
FILES = {
    "SKILL.md": TEXT,
    "a.md": "one two three",
    "run.py": "x = 1",
    "b.md": "one two three four",
    "c.png": "x",
}


def weighed(counter: Counter | None = None, **files: str) -> Weighing:
    raw = {name: text.encode() for name, text in {**FILES, **files}.items()}
    skill = parse(Files.from_map(raw), "skills/demo")
    return weigh(skill, counter) if counter else weigh(skill)


def words(text: str) -> int:
    return len(text.split())


def test_parts_in_order_the_heaviest_file_first() -> None:
    found = weighed(Counter("words", words))
    assert found.parts == (
        Part(kind=Kind.LISTING, name="name and description", tokens=3),
        Part(kind=Kind.BODY, name="SKILL.md", tokens=11, line=5, code_percent=33),
        Part(kind=Kind.SECTION, name="One", tokens=4, line=5, level=1),
        Part(kind=Kind.SECTION, name="Two", tokens=7, line=9, level=2),
        Part(kind=Kind.REFERENCE, name="b.md", tokens=4),
        Part(kind=Kind.REFERENCE, name="a.md", tokens=3),
        Part(kind=Kind.OTHER, name="run.py", tokens=3),
        Part(kind=Kind.TREE, name="all files", tokens=24),
    )
    assert (found.skill, found.counted_with) == ("skills/demo", "words")


def test_the_own_tokenizer_compares_with_published_skills() -> None:
    found = {(part.kind, part.name): part for part in weighed(**{"a.md": "word " * 3_100}).parts}
    assert found[Kind.BODY, "SKILL.md"].tokens == tokens.count(BODY)
    assert {key: part.heavier_than for key, part in found.items()} == {
        (Kind.LISTING, "name and description"): 0,
        (Kind.BODY, "SKILL.md"): 0,
        (Kind.SECTION, "One"): None,
        (Kind.SECTION, "Two"): None,
        (Kind.REFERENCE, "a.md"): 75,
        (Kind.REFERENCE, "b.md"): 0,
        (Kind.OTHER, "run.py"): None,
        (Kind.TREE, "all files"): None,
    }


@pytest.mark.parametrize(
    ("count", "percent"),
    [(0, 0), (1530, 0), (1531, 50), (2635, 50), (2636, 75), (4939, 95), (9053, 95), (9054, 99)],
)
def test_heavier_than_so_many_for_certain(count: int, percent: int) -> None:
    assert heavier_than(count, FILE_TOKENS) == percent


def test_a_price_is_that_of_reading_once_a_thousand_times() -> None:
    assert InputPrice(usd_per_mtok=2.0, source="x").usd_per_1000(1_500) == 3.0
