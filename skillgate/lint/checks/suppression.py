"""The check of the comments that silence a finding: `skillgate: ignore rule-id: reason`.

It finds the comments; which findings they silence, and which silence none, `lint.sift` knows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from skillgate.core import Location, Struct, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.skill import Skill, Source

_COMMENT = re.compile(r"(?P<open><!--|#|//)[ \t]*skillgate:[ \t]*ignore\b(?P<said>(?:(?!-->)[^\n])*)(?:-->)?")
MAX_LINE_CHARS = 1_000
MAX_COMMENTS = 200  # in one file; more do not count
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
    found = (_comments(skill, source) for source in skill.sources if "skillgate:" in source.text)
    return tuple(comment for comments in found for comment in comments)


def _comments(skill: Skill, source: Source) -> Iterator[Comment]:
    for match in itertools.islice(_COMMENT.finditer(source.text), MAX_COMMENTS):
        where = source.location(match.start())
        in_front = source is skill.source and where.line < skill.body_line
        if source.is_markdown and not in_front and match["open"] != "<!--":
            continue  # a heading
        if source is skill.source and skill.is_code(where.line):
            continue
        names, _, reason = match["said"].partition(":")
        rules = tuple(name for name in re.split(r"[\s,]+", names) if name)
        first = last = where.line
        if not _COMMENT.sub("", source.lines[where.line - 1][:MAX_LINE_CHARS]).strip():
            first, last = (1, skill.body_line) if in_front else (first, _end_of_block(source, where.line))
        yield Comment(where=where, rules=rules, reason=reason.strip(), first=first, last=last)


def _end_of_block(source: Source, line: int) -> int:
    """Return the last line of the paragraph or fenced block that follows a line; lines count from 1."""
    lines = source.lines
    at = line
    while at < len(lines) and not lines[at].strip():
        at += 1
    fence = _FENCE.match(lines[at]) if at < len(lines) else None
    if fence:
        closing = (n for n in range(at + 1, len(lines)) if _closes(lines[n].strip(), fence[1]))
        return next(closing, len(lines) - 1) + 1
    while at < len(lines) and lines[at].strip():
        at += 1
    return at


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])
