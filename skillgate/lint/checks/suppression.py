"""The check of the comments that silence a finding: `skillgate: ignore rule-id: reason`.

It finds the comments; which findings they silence, and which silence none, `lint.sift` knows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from skillgate.core import TaskFacts
from skillgate.document import like
from skillgate.lint.check import Check, Hit
from skillgate.lint.lazy import lazy
from skillgate.skill import Skill, Source
from skillgate.values import Location, Struct

_COMMENT = lazy(r"(?P<open><!--|#|//)[ \t]*skillgate:[ \t]*ignore\b(?P<said>(?:(?!-->)[^\n])*)(?:-->)?")
MAX_LINE_CHARS = 1_000
MAX_BLOCK_LINES = 2_000  # that one comment covers
MAX_COMMENTS = 200  # in one file; more do not count
OWN_REASON = {"hidden-comment", "hidden-unicode", "prompt-injection", "secret"}  # what a reason may not hold
_FENCE = lazy(r"[ \t]*(`{3,}|~{3,})")


class Comment(Struct, kw_only=True):
    """One silencing comment: `rules` in the lines `first` to `last` of its file, both included.

    It ends before the column `end`. `form` is how comments are written there, with the word `said` for what
    it says; `is_text` where a client does not take it for a comment.
    """

    where: Location
    rules: tuple[str, ...]
    reason: str
    form: str
    is_text: bool
    end: int
    first: int
    last: int

    @property
    def counts(self) -> bool:
        """Say whether it may silence anything."""
        return bool(self.rules and self.reason) and not self.is_text

    def covers(self, rule: str, where: Location) -> bool:
        """Say whether it silences a finding of this rule at this place; no attack in its own reason."""
        own = (
            rule in OWN_REASON
            and where.line == self.where.line
            and self.where.column < where.column < self.end
        )
        here = where.path == self.where.path and self.first <= where.line <= self.last
        return rule in self.rules and here and not own


class Suppression(Check, kw_only=True, rename="kebab"):
    """A silencing comment does not count, or names a rule that is not among the `known` ones.

    The variants are `no-rule`, `no-reason`, `text` (it is no comment there) and `unknown`; `sift` adds
    `unused`, those that silence nothing.
    """

    known: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the comments that do not count, and the first unknown rule of each other."""
        for comment in comments(skill):
            values = {"form": comment.form.replace("said", "skillgate: ignore rule-id: why it is fine here")}
            match, unknown = ", ".join(comment.rules), set(comment.rules) - {*self.known}
            if not comment.counts:
                yield Hit(where=comment.where, match=match, variant=_fault(comment), values=values)
            elif self.known and unknown:
                name = next(rule for rule in comment.rules if rule in unknown)
                close = like(name, self.known)
                values |= {"name": name, "nearest": f"; did you mean `{close}`?" if close else ""}
                yield Hit(where=comment.where, match=match, variant="unknown", values=values)


def _fault(comment: Comment) -> str:
    if comment.is_text:
        return "text"
    return "no-reason" if comment.rules else "no-rule"


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
            first, last = (1, skill.text_line) if in_front else (first, _end_of_block(source, where.line))
        form = (
            "# said" if in_front else "<!-- said -->" if match["open"] == "<!--" else f"{match['open']} said"
        )
        is_text = in_front and match["open"] != "#"
        yield Comment(
            where=where,
            rules=rules,
            reason=reason.strip(),
            end=where.column + len(match[0]),
            form=form,
            is_text=is_text,
            first=first,
            last=last,
        )


def _end_of_block(source: Source, line: int) -> int:
    """Return the last line of the paragraph or fenced block that follows a line; lines count from 1."""
    lines, at = source.lines, line
    stop = min(len(lines), line + MAX_BLOCK_LINES)
    while at < stop and not lines[at].strip():
        at += 1
    fence = _FENCE.match(lines[at]) if at < stop else None
    if fence:
        closing = (n for n in range(at + 1, stop) if _closes(lines[n].strip(), fence[1]))
        return next(closing, stop - 1) + 1
    while at < stop and lines[at].strip():
        at += 1
    return at


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])
