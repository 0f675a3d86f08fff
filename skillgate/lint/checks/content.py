"""Checks of what the instructions are made of: repetitions, examples, rules that say what to avoid, style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, shortened
from skillgate.lint.lazy import lazy
from skillgate.skill import Skill, Source
from skillgate.values import Location

_ORDERS = ("never", "avoid", "don't", "don’t", "do not", "must not", "should not", "may not")
_MARKS = ("❌", "🚫")
_BEFORE_ORDER = lazy(r"(?:^|[.!?:;,(|>*_`\"“—–-])[ \t]*$|(?:^|\s)(?:and|but|or|then|so|please) $")
_BEFORE_MARK = lazy(r"[ \t]*(?:[#>*-]+[ ]|\d+\.[ ])?(?:\*\*)?$")
_AFTER_ORDER = lazy(
    r"(?!\w|[ ](?:use|invoke|load|trigger)[ ](?:this|it|when|for|if)\b|[ ](?:have|know|mind|need|want)\b)"
)
_END = lazy(r"[.!?|\n]|\Z")
_EXAMPLE = lazy(r"\b(?:examples?|samples?|demos?|walk-?throughs?)\b", re.IGNORECASE)
_CODE_SPAN = lazy(r"`[^`\n]*`")
_SHOUT = lazy(r"\b(?:MUST|NEVER|ALWAYS|IMPORTANT|CRITICAL|REQUIRED|MANDATORY|WARNING|DO NOT|STOP)\b|!!+")


class RepeatedParagraph(Check, kw_only=True, rename="kebab"):
    """A long paragraph of SKILL.md stands there again, or in another Markdown file of the skill."""

    min_chars: int = 150

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first repetition, with the number of all."""
        first: dict[str, int] = {}
        again: list[tuple[str, Location]] = []
        for source in (source for source in skill.sources if source.is_markdown):
            for text, where in self._paragraphs(skill, source):
                if text in first:
                    again.append((text, where))
                elif source is skill.source:
                    first[text] = where.line
        if again:
            text, where = again[0]
            more = f" ({len(again) - 1} more likewise)" if len(again) > 1 else ""
            values = {"chars": f"{len(text):,}", "line": str(first[text]), "more": more}
            yield Hit(where=where, match=text, values=values)

    def _paragraphs(self, skill: Skill, source: Source) -> Iterator[tuple[str, Location]]:
        at = 0
        for part in (skill.prose_text if source is skill.source else source.prose).split("\n\n"):
            if len(part) >= self.min_chars and len(text := part.strip()) >= self.min_chars:
                yield text, source.location(at + len(part) - len(part.lstrip()))
            at += len(part) + 2


class AntiPatternCredit(Check, kw_only=True, rename="kebab"):
    """Many sentences of the body say what to avoid. No fault: it is what helps most."""

    min_sentences: int = 3

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first sentence, with the number of all."""
        found = _sentences(skill)
        if len(found) >= self.min_sentences:
            where = skill.source.location(found[0])
            yield Hit(where=where, match="anti-patterns", values={"count": str(len(found))})


class ExampleShare(Check, kw_only=True, rename="kebab"):
    """More than so much of the body stands under headings that call it an example."""

    max_share: float = 0.5
    min_chars: int = 2000

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first such heading; the title of the skill is none."""
        named = {part.line for part in skill.slices if part.level > 1 and _EXAMPLE.search(part.title)}
        parts = [
            part for part in skill.slices if named and named & {p.line for p in skill.slices_over(part.line)}
        ]
        chars = sum(len(skill.text_of(part)) for part in parts)
        if parts and len(skill.body) >= self.min_chars and chars > self.max_share * len(skill.body):
            values = {"percent": f"{100 * chars / len(skill.body):.0f}", "title": shortened(parts[0].title)}
            where = Location(path=skill.file, line=parts[0].line)
            yield Hit(where=where, match=parts[0].title, values=values)


class Shouting(Check, kw_only=True, rename="kebab"):
    """So many words of the prose are shouted, in all and of a thousand."""

    min_words: int = 8
    min_per_thousand: float = 3

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first, with the number of all."""
        text = _CODE_SPAN.sub(lambda span: " " * len(span[0]), skill.prose_text)
        found = list(_SHOUT.finditer(text))
        if len(found) >= max(self.min_words, self.min_per_thousand * len(text.split()) / 1000):
            where = skill.source.location(found[0].start())
            yield Hit(where=where, match=found[0][0], values={"count": str(len(found))})


class HeadingLevels(Check, kw_only=True, rename="kebab"):
    """A heading skips a level, or a body from `min_chars` characters has none."""

    min_chars: int = 1500

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each heading that skips a level; the variant `none` where there is no heading."""
        level = 6
        for part in skill.slices:
            if part.level > level + 1:
                values = {"title": shortened(part.title), "level": str(part.level), "before": str(level)}
                yield Hit(where=Location(path=skill.file, line=part.line), match=part.title, values=values)
            level = part.level
        if not skill.slices and len(skill.body.strip()) >= self.min_chars:
            yield Hit(where=Location(path=skill.file, line=skill.text_line), match="none", variant="none")


def _sentences(skill: Skill) -> list[int]:
    """Return where sentences say what to avoid, at most one place in each."""
    text = skill.prose_text
    lower = text.lower() if len(text.lower()) == len(text) else text
    places = sorted(match.start() for word in (*_ORDERS, *_MARKS) for match in re.finditer(word, lower))
    found: list[int] = []
    end = 0
    for at in places:
        if at >= end and _is_order(lower, at):
            found.append(at)
            match = _END.search(lower, at)
            end = match.start() if match else len(lower)
    return found


def _is_order(text: str, at: int) -> bool:
    """Say whether a clause, or a line with a mark, starts here: "if you do not" is no order."""
    before = text[max(0, at - 20) : at].rpartition("\n")[2]
    if text[at] in _MARKS:
        return bool(_BEFORE_MARK.fullmatch(before)) and text[at + 1 : at + 3].strip(" *|\n") != ""
    word = next(word for word in _ORDERS if text.startswith(word, at))
    is_modal = word.endswith(" not") and word != "do not"
    return bool(_AFTER_ORDER.match(text, at + len(word))) and (is_modal or bool(_BEFORE_ORDER.search(before)))
