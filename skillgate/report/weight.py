"""Weighing -> a table for a terminal, or JSON: where the tokens of a skill go and what reading them costs."""

from __future__ import annotations

import msgspec

from skillgate.core import SCHEMA_VERSION
from skillgate.report.escape import clean
from skillgate.report.json import write
from skillgate.weights import PERCENT, Kind, Part, Weighing

_PAID = {
    Kind.LISTING: "on every request",
    Kind.BODY: "on every use",
    Kind.SECTION: "",
    Kind.REFERENCE: "when it is read",
    Kind.OTHER: "only when it is read",
    Kind.TREE: "when all is read",
}
_MAX_NAME = 48


def render_text(weighing: Weighing) -> str:
    """Write one line for each part; sections stand under the body that they are parts of."""
    rows = [_heads(weighing), *(_row(part, weighing) for part in weighing.parts)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_align(row, widths)).rstrip() for row in rows]
    total = f"{weighing.parts[-1].tokens:,} tokens, counted with {clean(weighing.counted_with)}"
    return "\n".join([f"{clean(weighing.skill)}: {total}", "", *lines, "", *_notes(weighing)]) + "\n"


def render_json(weighing: Weighing) -> str:
    """Write the weighing; field names are those of the types, each part with what it costs."""
    price = weighing.price
    parts = [
        msgspec.to_builtins(part) | ({"usd_per_1000": price.usd_per_1000(part.tokens)} if price else {})
        for part in weighing.parts
    ]
    return write({"schema": SCHEMA_VERSION, **msgspec.to_builtins(weighing), "parts": parts})


def _heads(weighing: Weighing) -> list[str]:
    return ["", "tokens", "of published", *(["$ per 1,000"] if weighing.price else []), "paid"]


def _row(part: Part, weighing: Weighing) -> list[str]:
    row = [_name(part), f"{part.tokens:,}", _rank(part)]
    if weighing.price:
        dollars = weighing.price.usd_per_1000(part.tokens)
        row.append("" if part.kind is Kind.SECTION else f"{dollars:,.2f}")
    return [*row, _PAID[part.kind]]


def _rank(part: Part) -> str:
    if part.heavier_than is None:
        return ""
    return f"over {part.heavier_than} %" if part.heavier_than else f"under {PERCENT[1]} %"


def _name(part: Part) -> str:
    if part.kind is not Kind.SECTION:
        return clean(part.name, _MAX_NAME)
    return f"{'  ' * part.level}{clean(part.name, _MAX_NAME - 2 * part.level)} :{part.line}"


def _align(row: list[str], widths: list[int]) -> list[str]:
    name, *numbers, paid = row
    aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)]
    return [name.ljust(widths[0]), *aligned, paid]


def _notes(weighing: Weighing) -> list[str]:
    body = next(part for part in weighing.parts if part.kind is Kind.BODY)
    notes = [f"{body.code_percent} % of the lines of {body.name} are code."]
    if body.heavier_than is None:
        notes.append("Published skills were counted with another tokenizer, so nothing is compared.")
    else:
        notes.append(
            "Over 75 %: heavier than 75 of 100 published skills. Models may count otherwise than cl100k_base."
        )
    if weighing.price:
        price = weighing.price
        notes.append(
            f"${price.usd_per_mtok:g} per million input tokens ({clean(price.source)}), without a cache."
        )
    return notes
