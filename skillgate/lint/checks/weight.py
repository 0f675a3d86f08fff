"""The check of a skill's weight in tokens: what is paid on every request and what on use."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from skillgate import tokens
from skillgate.core import Location, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.skill import Skill

# Quantiles of 22,085 distinct published SKILL.md, November 2026: tokens of the file, of name + description.
_PERCENT = (0, 50, 75, 95, 99)
_FILE_TOKENS = (1530, 2635, 4938, 9053)
_LISTING_TOKENS = (48, 72, 121, 189)


class TokenLimits(Check, kw_only=True, rename="kebab"):
    """The body or the listing text is heavier than it should be; lines count only where tokens do not."""

    max_tokens: int = 5000
    max_lines: int = 500
    max_listing_tokens: int = 189

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the body at its first line, then the listing text at the description."""
        body, lines = skill.body, skill.body.rstrip().count("\n") + 1
        count = tokens.count_above(body, self.max_tokens)
        if count or lines > self.max_lines:
            where = Location(path=skill.file, line=skill.body_line)
            values = self._values(skill, count, lines)
            yield Hit(where=where, match="body", variant="" if count else "lines", values=values)
        yield from self._listing(skill)

    def _values(self, skill: Skill, count: int, lines: int) -> dict[str, str]:
        values = {"tokens": f"{count:,}", "lines": f"{lines:,}", "max-lines": f"{self.max_lines:,}"}
        values |= {"max": f"{self.max_tokens:,}", "percent": heavier_than(count, _FILE_TOKENS)}
        return values | {"heaviest": _heaviest(skill) if count else ""}

    def _listing(self, skill: Skill) -> Iterator[Hit]:
        count = tokens.count_above(tokens.listing(skill), self.max_listing_tokens)
        if count and "description" in skill.frontmatter:
            percent = heavier_than(count, _LISTING_TOKENS)
            values = {"tokens": f"{count:,}", "max": f"{self.max_listing_tokens:,}", "percent": percent}
            where = skill.frontmatter["description"].value_at
            yield Hit(where=where, match="listing", variant="listing", values=values)


def heavier_than(count: int, quantiles: Sequence[int]) -> str:
    """Return the percent of published skills that are lighter for certain."""
    return str(_PERCENT[bisect.bisect_left(quantiles, count)])


def _heaviest(skill: Skill) -> str:
    """Name the heaviest slice, as the first place to cut."""
    lines = skill.source.lines
    weights = [(tokens.count("\n".join(lines[s.line - 1 : s.end_line])), s) for s in skill.slices]
    if not weights:
        return ""
    count, heaviest = max(weights, key=lambda pair: pair[0])
    return f"The heaviest part is \u201c{heaviest.title}\u201d at line {heaviest.line} with {count:,} tokens."
