"""The oracle and the held-out tests of a task -> the texts in them that would give the task away.

What anybody writes who knows the subject is no answer: the names of an API, a usual command, a common number.
Which of these texts stand nowhere else, the suite knows. Pure: text in, text out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

_SEQUENCE = 3  # code lines in a row; fewer may be an idiom
_MIN_LINE, _MIN_PHRASE, _MIN_NAME, _MIN_COMMAND = 20, 24, 12, 40
_MIN_SEQUENCE_WORDS = 9
_MIN_WORDS, _MIN_DIGITS, _MAX_DIGITS = 3, 5, 30
_MAX_CHARS = 500
_WORD = re.compile(r"[A-Za-z][a-z]{2,}|[A-Z]{3,}")
_PART = re.compile(r"\w+")
_QUOTED = re.compile(r"""(["'`])((?:\\.|(?!\1)[^\\\n])*)\1""")
_SLOT = re.compile(r"\{[^{}]*\}|%[sdr]|\\[nrt]")
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|val|type|struct|interface|enum)\s+([A-Za-z_]\w+)"
    r"|^[ \t]*([A-Za-z_]\w+)(?:\s*:[^=\n]{1,80})?\s*=(?!=)",
    re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.-])\d[\d_]*(?:\.\d+)?(?![\w.-])")
_COMMAND = re.compile(r"(?:-\s+)?(?:run:\s*\|?|RUN|\$|>)\s+(.+)|((?:\w+ )?[\w./-]+ .*(?<=\s)--?\w.*)")
_MARKER = re.compile(r"^(?:[-*>$]\s+|\d+[.)]\s+)+")
_IMPORT = re.compile(r"(?:import|from|use|using|require|#include|package)\b")
_TEST_WORDS = frozenset({"test", "tests", "spec", "check", "checks"})
_COMMON_NUMBERS = frozenset(
    {"12345", "123456", "1234567", "12345678", "123456789", "86400", "604800", "31536000", "99999", "999999"}
)


class Public:
    """Texts that everybody may read: what stands there gives nothing away."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(texts)
        self._words = frozenset(_PART.findall(self._text))

    def holds(self, text: str) -> bool:
        """Say whether a line of a text stands there."""
        return any(self._holds(line) for line in text.split("\n"))

    def _holds(self, line: str) -> bool:
        # looking for each word in a set is much faster than for the line in megabytes of a repository
        return self._words.issuperset(_PART.findall(line)) and line in self._text


def added(patch: str) -> str:
    """Return the lines that a patch adds."""
    lines = patch.splitlines()
    return "\n".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++"))


def answers(text: str) -> Iterator[str]:
    """Yield phrases, own names, numbers, commands, and what three lines in a row say."""
    for match in _QUOTED.finditer(text):
        yield from filter(_is_phrase, map(str.strip, _SLOT.split(match[2])))
    for match in _DEFINED.finditer(text):
        name = match[1] or match[2]
        if len(name) >= _MIN_NAME and len(_words(name) - _TEST_WORDS) >= _MIN_WORDS:
            yield name
    yield from (match[0] for match in _NUMBER.finditer(text) if _is_rare(match[0]))
    for line in map(str.strip, text.split("\n")):
        command = _COMMAND.fullmatch(line[:_MAX_CHARS])
        shown = (command[1] or command[2]).strip() if command else ""
        if len(shown) >= _MIN_COMMAND and len(_words(shown)) > _MIN_WORDS:
            yield shown
    yield from _sequences(text)


def file_answers(names: Iterable[str]) -> Iterator[str]:
    """Yield the file names that say more than that they are tests."""
    for name in map(posixpath.basename, names):
        stem = name.rpartition(".")[0]
        if _words(stem) & _TEST_WORDS and any(len(word) > 4 for word in _words(stem) - _TEST_WORDS):
            yield name


def _sequences(text: str) -> Iterator[str]:
    """Yield what each three lines in a row say, without indentation, list marks, imports and short lines."""
    lines = [_MARKER.sub("", line.strip()) for line in text.split("\n")]
    own = [line for line in lines if _MIN_LINE <= len(line) <= _MAX_CHARS and not _IMPORT.match(line)]
    for at in range(len(own) - _SEQUENCE + 1):
        sequence = "\n".join(own[at : at + _SEQUENCE])
        if len(_words(sequence)) >= _MIN_SEQUENCE_WORDS:
            yield sequence


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _is_phrase(text: str) -> bool:
    long_enough = _MIN_PHRASE <= len(text) <= _MAX_CHARS
    return long_enough and " " in text and len(_words(text)) >= _MIN_WORDS


def _is_rare(number: str) -> bool:
    """Say whether it is long and neither round, nor a power of two or one less, nor known to everybody."""
    value = number.replace("_", "")
    if len(value.replace(".", "").strip("0")) < _MIN_DIGITS or value in _COMMON_NUMBERS:
        return False
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        return True
    whole = int(value)
    return whole & (whole - 1) != 0 and whole & (whole + 1) != 0
