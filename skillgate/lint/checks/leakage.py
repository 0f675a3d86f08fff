"""The check of answers in a skill: what stands there and otherwise only in a task's oracle or held-out tests.

A skill that was written to the tests raises the pass rate of these tasks, which says nothing of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from skillgate.core import Answer, TaskFacts
from skillgate.lint.check import Check, Hit, quoted
from skillgate.skill import Skill, Source, is_file_name
from skillgate.values import Location

_WORD = re.compile(r"\w+")
_NEAR = 400  # characters in which the next line of a sequence has to follow
_SHOWN, _SHOWN_CHARS = 3, 80


class _Leak(NamedTuple):
    """An answer that stands in a file of the skill, from `start` to `end`."""

    answer: Answer
    source: Source
    start: int
    end: int

    @property
    def where(self) -> Location:
        return self.source.location(self.start)


class AnswerLeakage(Check, kw_only=True, rename="kebab"):
    """Texts of a task's answer stand in the skill: one that is long, or `min_texts` short ones.

    Long are lines in a row, and what has so many characters and words. A command is short whatever its
    length, and names of test files count as one text: many projects have the same.
    """

    long_chars: int = 30
    long_words: int = 5
    min_texts: int = 2

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give one hit per task, at its strongest text."""
        answered = [task for task in tasks if task.answers]
        sources = skill.sources if answered else ()
        words = [frozenset(_WORD.findall(source.text)) for source in sources]
        for task in answered:
            found = (_leaks(source, has, task.answers) for source, has in zip(sources, words, strict=True))
            leaks = _apart([leak for leaks in found for leak in leaks])
            strong = [leak for leak in leaks if self._is_long(leak.answer.text)]
            texts = {"a file" if is_file_name(leak.answer.text) else leak.answer.text for leak in leaks}
            if strong or len(texts) >= self.min_texts:
                yield _hit(task, sorted(leaks, key=lambda leak: (leak not in strong, leak.start - leak.end)))

    def _is_long(self, text: str) -> bool:
        # SQL, constants and numbers are alike everywhere
        words = [word for word in _words(text) if word != word.upper()]
        is_phrase = " -" not in text and len(text) >= self.long_chars and len(words) >= self.long_words
        return "\n" in text or is_phrase


def _leaks(source: Source, words: frozenset[str], answers: Sequence[Answer]) -> Iterator[_Leak]:
    for answer in answers:
        if words.issuperset(_words(answer.text)):  # much faster than looking for thousands of texts
            span = _find(source.text, answer.text.split("\n"))
            if span:
                yield _Leak(answer, source, *span)


def _find(text: str, lines: Sequence[str]) -> tuple[int, int] | None:
    """Return from where to where the lines stand closely one after the other, whatever is between them."""
    start = text.find(lines[0])
    while start >= 0:
        end = start + len(lines[0])
        for line in lines[1:]:
            at = text.find(line, end, end + _NEAR + len(line))
            end = at + len(line)
            if at < 0:
                break
        else:
            return start, end
        start = text.find(lines[0], start + 1)
    return None


def _apart(leaks: Sequence[_Leak]) -> list[_Leak]:
    """Leave out what overlaps with a longer one before it, and what stands in another file too."""
    kept: dict[str, _Leak] = {}
    last: _Leak | None = None
    for leak in sorted(leaks, key=lambda leak: (leak.source.path, leak.start, -leak.end)):
        if last is None or leak.source is not last.source or leak.start >= last.end:
            kept.setdefault(leak.answer.text, leak)
            last = leak
    return list(kept.values())


def _hit(task: TaskFacts, leaks: Sequence[_Leak]) -> Hit:
    first, *others = leaks
    more = f" ({len(others)} more: {quoted([_shown(leak) for leak in others[:_SHOWN]])}" if others else ""
    more += ", …)" if len(others) > _SHOWN else ")" if others else ""
    values = {"text": _shown(first), "source": first.answer.source, "task": task.task, "more": more}
    return Hit(where=first.where, match=first.answer.text, values=values)


def _shown(leak: _Leak) -> str:
    text = leak.answer.text
    line = text.partition("\n")[0][:_SHOWN_CHARS]
    return line if line == text else f"{line} …"


@lru_cache(maxsize=100_000)  # each skill asks for those of all answers
def _words(answer: str) -> frozenset[str]:
    return frozenset(_WORD.findall(answer))
