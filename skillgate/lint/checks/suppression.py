"""The check of the comments that silence a finding: `skillgate: ignore rule-id: reason`.

It finds the comments; which findings they silence, and which silence none, `lint.sift` knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from skillgate.core import Location, Struct, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.skill import Skill, Source

_COMMENT = re.compile(
    r"(?P<open><!--|#|//)[ \t]*skillgate:[ \t]*ignore\b[ \t]*(?P<rules>[\w, -]*?)[ \t]*"
    r"(?::[ \t]*(?P<reason>[^\n]*?)[ \t]*)?(?:-->|$)",
    re.MULTILINE,
)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


class Comment(Struct, kw_only=True):
    """One silencing comment: `rules` in the lines `first` to `last` of its file, both included."""

    where: Location
    rules: tuple[str, ...]
    reason: str
    first: int
    last: int

    def covers(self, rule: str, where: Location) -> bool:
        """Say whether it silences a finding of this rule at this place."""
        return rule in self.rules and where.path == self.where.path and self.first <= where.line <= self.last


class Suppression(Check, kw_only=True, rename="kebab"):
    """A silencing comment names no rule or no reason; `sift` adds those that silence nothing."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the comments that do not count."""
        for comment in comments(skill):
            if not comment.rules or not comment.reason:
                yield Hit(where=comment.where, match=", ".join(comment.rules))


def comments(skill: Skill) -> tuple[Comment, ...]:
    """Return the silencing comments of all files; in SKILL.md none that stands in a code block."""
    return tuple(_comments(skill))


def _comments(skill: Skill) -> Iterator[Comment]:
    for source in skill.sources:
        if "skillgate:" not in source.text:
            continue
        for match in _COMMENT.finditer(source.text):
            where = source.location(match.start())
            in_body = source is skill.source and where.line >= skill.body_line
            if in_body and (match["open"] != "<!--" or skill.is_code(where.line)):
                continue
            rules = tuple(name for name in re.split(r"[\s,]+", match["rules"]) if name)
            alone = not source.lines[where.line - 1].replace(match[0].strip(), "").strip()
            last = _end_of_block(source, where.line) if alone else where.line
            yield Comment(where=where, rules=rules, reason=match["reason"] or "", first=where.line, last=last)


def _end_of_block(source: Source, line: int) -> int:
    """Return the last line of the paragraph or fenced block that follows a line; lines count from 1."""
    lines = source.lines
    at = line
    while at < len(lines) and not lines[at].strip():
        at += 1
    fence = _FENCE.match(lines[at]) if at < len(lines) else None
    if fence:
        closing = (n for n in range(at + 1, len(lines)) if lines[n].strip().startswith(fence[1]))
        return next(closing, len(lines) - 1) + 1
    while at < len(lines) and lines[at].strip():
        at += 1
    return at
