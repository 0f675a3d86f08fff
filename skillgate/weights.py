"""A skill -> what each part of it weighs in tokens, beside what published skills weigh.

Whoever asks says how a text is counted: with the tokenizer of the package, or by the model's own count.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from skillgate import tokens
from skillgate.skill import SKILL_FILE, Skill
from skillgate.values import InputPrice, Struct

PERCENT = (0, 50, 75, 95, 99)
# Quantiles in cl100k_base tokens at those percents, November 2026: of 22,085 distinct published SKILL.md, and
# of the 693 Markdown files beside 385 of them.
LISTING_TOKENS = (48, 72, 121, 189)
FILE_TOKENS = (1530, 2635, 4938, 9053)
REFERENCE_TOKENS = (1919, 3058, 6012, 9052)


def heavier_than(count: int, quantiles: Sequence[int]) -> int:
    """Return the percent of published skills that are lighter for certain."""
    return PERCENT[bisect.bisect_left(quantiles, count)]


class Kind(StrEnum):
    """What a part is, and so who pays for it: every request, every use, or who reads the file."""

    LISTING = "listing"
    BODY = "body"
    SECTION = "section"
    REFERENCE = "reference"
    OTHER = "other"
    TREE = "tree"


QUANTILES = {
    Kind.LISTING: LISTING_TOKENS,
    Kind.BODY: FILE_TOKENS,
    Kind.REFERENCE: REFERENCE_TOKENS,
}


class Part(Struct, kw_only=True):
    """One part of a skill; `heavier_than` is a percent of published skills, None where nobody knows.

    `code_percent` is the share of lines in code blocks, None where nobody has looked.
    """

    kind: Kind
    name: str
    tokens: int
    line: int = 1
    level: int = 0
    heavier_than: int | None = None
    code_percent: int | None = None


class Weighing(Struct, kw_only=True):
    """Where the tokens of a skill go; `counted_with` names the tokenizer, or the model that counted."""

    skill: str
    counted_with: str
    parts: tuple[Part, ...]
    price: InputPrice | None = None


class Counter(NamedTuple):
    """How tokens are counted, and what to call it."""

    name: str
    count: Callable[[str], int]


CL100K = Counter("cl100k_base", tokens.count)


def weigh(skill: Skill, counter: Counter = CL100K, price: InputPrice | None = None) -> Weighing:
    """Weigh the listing text, the body, its sections, the other text files by weight, and all together.

    The quantiles are those of one tokenizer, so another count is compared with nothing.
    """
    count = counter.count
    others = [
        Part(kind=Kind.REFERENCE if text.is_markdown else Kind.OTHER, name=name, tokens=count(text.text))
        for name, text in skill.texts.items()
        if name != SKILL_FILE
    ]
    others.sort(key=lambda part: (-part.tokens, part.name))
    listing = Part(kind=Kind.LISTING, name="name and description", tokens=count(tokens.listing(skill)))
    code, lines = code_lines(skill)
    body = Part(
        kind=Kind.BODY,
        name=SKILL_FILE,
        tokens=count(skill.body),
        line=skill.body_line,
        code_percent=100 * code // lines,
    )
    total = sum(part.tokens for part in (listing, body, *others))
    tree = Part(kind=Kind.TREE, name="all files", tokens=total)
    parts = (listing, body, *_sections(skill, count), *others, tree)
    if counter == CL100K:
        parts = tuple(map(_compared, parts))
    return Weighing(skill=skill.path, counted_with=counter.name, parts=parts, price=price)


def code_lines(skill: Skill) -> tuple[int, int]:
    """Return how many lines of the body stand in code blocks, and how many it has."""
    code = sum(block.end_line - block.line + 1 for block in skill.code_blocks)
    return code, skill.body.strip().count("\n") + 1


def _sections(skill: Skill, count: Callable[[str], int]) -> list[Part]:
    return [
        Part(
            kind=Kind.SECTION,
            name=part.title,
            tokens=count(skill.text_of(part)),
            line=part.line,
            level=part.level,
        )
        for part in skill.slices
    ]


def _compared(part: Part) -> Part:
    quantiles = QUANTILES.get(part.kind)
    heavier = heavier_than(part.tokens, quantiles) if quantiles else None
    return msgspec.structs.replace(part, heavier_than=heavier)
