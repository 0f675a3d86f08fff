"""Bytes -> text: decoding that cannot fail, and exact lines and columns.

What had to be changed or left out on the way stands in `Facts`.
"""

from __future__ import annotations

import bisect
import codecs
import re
from functools import cached_property, lru_cache

from skillgate.values import Location, Struct

MAX_FILE_BYTES = 1_000_000
WINDOW = 300
_WORD_CHARS = bytes(ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else ord(" ") for c in range(256))
_SILENCES = re.compile(r"(?:<!--|#|//)[ \t]*skillgate:[ \t]*ignore\b.*?(?:-->|$)")
MAX_LINES = 10_000  # of a SKILL.md: a Markdown block costs up to 0.1 ms
_FENCED = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<item>(?:[-*+]|\d{1,9}[.)])[ \t]+)?"
    r"(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*(?:\n|\Z)"
    r"(?:.*?^(?P=indent)?(?(item)[ \t]*|[ ]{0,3})(?P<end>(?P=fence)[`~]*)[ \t]*$|.*\Z)",
    re.MULTILINE | re.DOTALL,
)
_INK = re.compile(r"[^\n]+")


class Facts(Struct, kw_only=True):
    """What decoding changed or could not do; `unreadable` says why there is no text at all.

    `crlf` says that some lines end in a carriage return, `mixed` that others do not.
    """

    encoding: str = "utf-8"
    bom: bool = False
    crlf: bool = False
    mixed: bool = False
    truncated: bool = False
    unreadable: str = ""


class Source:
    """One decoded file: no byte-order mark, lines end in LF; `path` is relative to the repository."""

    def __init__(self, path: str, text: str, facts: Facts) -> None:
        self.path, self.text, self.facts = path, text, facts

    @property
    def is_markdown(self) -> bool:
        """Say whether its name says that it is Markdown."""
        return self.path.lower().endswith((".md", ".markdown", ".mdx"))

    @cached_property
    def lower(self) -> str:
        """Return the text in lower case; offsets are those of the text."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else self.text.replace("İ", "i").lower()

    @cached_property
    def joined(self) -> str:
        """Return the text with the lines of one command as one line; offsets are those of the text."""
        return self.text.replace("\\\n", "  ")

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the ASCII words and numbers in lower case: to ask for many of them at once."""
        return frozenset(self.text.encode("ascii", "replace").translate(_WORD_CHARS).decode().split())

    def holds(self, text: str) -> bool:
        """Say whether a text in lower case may stand in here; the words in it must be whole ones."""
        words = words_of(text)
        return words <= self.words and (text in words or text in self.lower)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Return the lines without their ends."""
        return tuple(self.text.split("\n"))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Return the offset of each line."""
        return (0, *(match.end() for match in re.finditer("\n", self.text)))

    @cached_property
    def fenced(self) -> tuple[re.Match[str], ...]:
        """Return the fenced blocks as a person sees them; one whose group `end` is None is never closed."""
        if "```" not in self.text and "~~~" not in self.text:
            return ()
        return tuple(_FENCED.finditer(self.text))

    @cached_property
    def prose(self) -> str:
        """Return the text with blanks for fenced blocks: offsets are those of the text."""
        parts, end = [], 0
        for block in self.fenced:
            parts += [self.text[end : block.start()], _INK.sub(lambda run: " " * len(run[0]), block[0])]
            end = block.end()
        return "".join([*parts, self.text[end:]])

    def location(self, offset: int) -> Location:
        """Turn an offset in `text` into line and column."""
        line = bisect.bisect_right(self.starts, offset)
        return Location(path=self.path, line=line, column=offset - self.starts[line - 1] + 1)

    def offset(self, where: Location) -> int:
        """Turn line and column into an offset in `text`."""
        return self.starts[where.line - 1] + where.column - 1

    def around(self, start: int, end: int) -> tuple[str, str]:
        """Return what stands before and after a match on the same line, at most WINDOW characters each.

        A comment that silences a finding is left out: the words of its reason are not the author's advice.
        """
        before, after = self.text[max(0, start - WINDOW) : start], self.text[end : end + WINDOW]
        before, after = before.rpartition("\n")[2], after.partition("\n")[0]
        return _SILENCES.sub("", before), _SILENCES.sub("", after)

    def start(self, line: int) -> int:
        """Return the offset of a line counted from 0, the end of the text for one beyond it."""
        return self.starts[line] if line < len(self.starts) else len(self.text)


@lru_cache(maxsize=10_000)
def words_of(text: str) -> frozenset[str]:
    """Return the words and numbers of a text in lower case, of ASCII letters alone."""
    return frozenset(re.findall(r"[a-z0-9]+", text))


def decode(raw: bytes, path: str, max_lines: int | None = None) -> Source:
    """Decode any bytes: UTF-8, UTF-16 with a mark, else one character per byte (cp1252).

    What exceeds MAX_FILE_BYTES or `max_lines` is cut off.
    """
    truncated = len(raw) > MAX_FILE_BYTES
    raw = raw[:MAX_FILE_BYTES]
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(raw, final=not truncated)
    except UnicodeDecodeError:
        encoding, text = "cp1252", raw.decode("cp1252", "replace")
    bom = encoding == "utf-16" or text.startswith("\ufeff")
    crlf = "\r" in text
    mixed = crlf and text.count("\n") > text.count("\r\n")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if max_lines and text.count("\n") > max_lines:
        text, truncated = "\n".join((*text.split("\n", max_lines)[:max_lines], "")), True
    facts = Facts(encoding=encoding, bom=bom, crlf=crlf, mixed=mixed, truncated=truncated)
    return Source(path, text, facts)
