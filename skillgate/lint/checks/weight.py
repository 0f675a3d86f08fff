"""The check of a skill's weight in tokens: what is paid on every request, on use, and on reading a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillgate import tokens
from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, more, shortened
from skillgate.skill import SKILL_FILE, Skill, Source
from skillgate.values import Location
from skillgate.weights import FILE_TOKENS, LISTING_TOKENS, REFERENCE_TOKENS, heavier_than

MAX_COUNTED = 1_000_000  # characters of the files beside SKILL.md: hostile text costs a second for these
MIN_BYTES = 2.4  # per token: of 385 published SKILL.md none is denser (2.48, in Chinese), most have four


class TokenLimits(Check, kw_only=True, rename="kebab"):
    """The body, the listing text or a Markdown file beside SKILL.md is heavier than it should be.

    Lines count only where tokens do not.
    """

    max_tokens: int = 5000
    max_lines: int = 500
    max_listing_tokens: int = 189
    max_reference_tokens: int = 10_000

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the body at its first text, the listing text at the description, the heaviest of the files."""
        body, lines = skill.body, skill.body.rstrip().count("\n") + 1
        count = _count_above(body, self.max_tokens)
        if count or lines > self.max_lines:
            where = Location(path=skill.file, line=skill.text_line)
            values = self._values(skill, count, lines)
            yield Hit(where=where, match="body", variant="" if count else "lines", values=values)
        yield from self._listing(skill)
        yield from self._references(skill)

    def _values(self, skill: Skill, count: int, lines: int) -> dict[str, str]:
        values = {"tokens": f"{count:,}", "lines": f"{lines:,}", "max-lines": f"{self.max_lines:,}"}
        values |= {"max": f"{self.max_tokens:,}", "percent": str(heavier_than(count, FILE_TOKENS))}
        return values | {"heaviest": _heaviest(skill) if count else ""}

    def _listing(self, skill: Skill) -> Iterator[Hit]:
        count = _count_above(tokens.listing(skill), self.max_listing_tokens)
        if count and "description" in skill.frontmatter:
            percent = str(heavier_than(count, LISTING_TOKENS))
            values = {"tokens": f"{count:,}", "max": f"{self.max_listing_tokens:,}", "percent": percent}
            where = skill.frontmatter["description"].value_at
            yield Hit(where=where, match="listing", variant="listing", values=values)

    def _references(self, skill: Skill) -> Iterator[Hit]:
        limit = self.max_reference_tokens
        large = [
            (name, text)
            for name, text in skill.texts.items()
            if name != SKILL_FILE and text.is_markdown and _may_exceed(text.text, limit)
        ]
        weights = [(count, name) for name, count in _counts(large) if count > limit]
        weights.sort(key=lambda pair: (-pair[0], pair[1]))
        for count, name in weights[:1]:
            percent = str(heavier_than(count, REFERENCE_TOKENS))
            values = {"tokens": f"{count:,}", "max": f"{limit:,}", "percent": percent, "file": name}
            values["more"] = more([other for _, other in weights[1:]])
            yield Hit(where=Location(path=skill.locate(name)), match=name, variant="reference", values=values)


def _may_exceed(text: str, limit: int) -> bool:
    return len(text.encode("utf-8", "replace")) > limit * MIN_BYTES


def _count_above(text: str, limit: int) -> int:
    return tokens.count_above(text, limit) if _may_exceed(text, limit) else 0


def _counts(texts: Sequence[tuple[str, Source]]) -> Iterator[tuple[str, int]]:
    """Count the tokens of files, the longest first, until MAX_COUNTED is used up."""
    left = MAX_COUNTED
    for name, text in sorted(texts, key=lambda pair: -len(pair[1].text)):
        yield name, tokens.count(text.text[:left])
        left -= len(text.text)
        if left <= 0:
            return


def _heaviest(skill: Skill) -> str:
    """Name the longest slice, as the first place to cut."""
    heaviest = max(skill.slices, key=lambda part: len(skill.text_of(part)), default=None)
    if heaviest is None:
        return ""
    count = tokens.count(skill.text_of(heaviest))
    title = shortened(heaviest.title)
    return f"The heaviest part is \u201c{title}\u201d at line {heaviest.line} with {count:,} tokens."
