"""Checks of what an agent reads and a reviewer does not see: invisible characters, comments, encoded text.

What typography needs is fine: joiners in Persian, Indic scripts and emoji, marks in right-to-left text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.checks.security import (
    GAP,
    MAX_HITS,
    Examples,
    Signature,
    alphabet,
    brief,
    compiled,
    digest,
    identify,
    long_runs,
    spans,
)
from skillgate.lint.checks.teaching import Page, reason_start
from skillgate.lint.lazy import lazy
from skillgate.skill import MAX_LINES, Skill, Source

# --- invisible characters ----------------------------------------------------------

_JOINERS = "\u200c\u200d"
_MARKS = "\u061c\u200e\u200f\u202a-\u202c\u2066-\u2069"  # direction; needed in right-to-left text
_OVERRIDES = "\u202d\u202e"
_SPACES = "\u200b\u2060"  # where a line may or may not break; needed in scripts without spaces
_FILLERS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u2061-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
_SELECTORS = "\ufe00-\ufe0d\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e007f"
_LOOKALIKES = "АВЕКМНОРСТУХаеорсухЅІЈѕіјԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"  # Cyrillic and Greek, like Latin ones
_HIDDEN = f"{_JOINERS}{_MARKS}{_OVERRIDES}{_SPACES}{_FILLERS}{_SELECTORS}{_TAGS}"
_SUSPECT = lazy(f"[{_HIDDEN}\ufe0e\ufe0f]+|[{_LOOKALIKES}]+")
_INVISIBLE = lazy(f"[{_HIDDEN}\ufe0e\ufe0f]")
_RIGHT_TO_LEFT = lazy("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_JOINED = lazy("[\u0600-\u08ff\u0900-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc]")
_UNSPACED = lazy("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]")
_PICTURE = lazy("[\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff]")
_HAS_VARIANTS = lazy("[\u1800-\u18af\u2190-\u2bff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_FLAG = lazy("[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
_WORD_BEFORE, _WORD_AFTER = re.compile(r"[^\W\d_]{0,60}\Z"), re.compile(r"[^\W\d_]{0,60}")
_CONTEXT, _SHOWN = 24, 160
_ASCII = bytes(range(128))


class HiddenUnicode(Check, kw_only=True, rename="kebab"):
    """A text file holds characters that nobody sees, or letters that look like others."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each line once, with the words around."""
        for source in skill.sources:
            if _SUSPECT.search(_beyond_ascii(source.text)):
                yield from _suspect_lines(source)


def _beyond_ascii(text: str) -> str:
    """Return what else than ASCII stands in a text: ten times faster to search."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return rest.decode("utf-8", "surrogatepass")


def _suspect_lines(source: Source) -> Iterator[Hit]:
    text, at, given = source.text, 0, Counter[str]()
    while found := _SUSPECT.search(text, at):
        at = found.end()
        variant = _kind(text, found.start(), found.end())
        if variant is None:
            continue
        stop = text.find("\n", at)
        at = len(text) if stop < 0 else stop
        given[variant] += 1
        if given[variant] > MAX_HITS:
            if given.total() > MAX_LINES:
                return
            continue
        values = {"count": str(len(_INVISIBLE.findall(text, found.start(), at)))}
        values |= {
            "says": _spelled(text[found.start() : at]),
            "word": _word(text, found.start(), found.end()),
        }
        spelled = _SUSPECT if variant == "lookalike" else _INVISIBLE
        match = _visible(text, found.start(), at, spelled)
        values["match"] = brief(match)
        yield Hit(where=source.location(found.start()), match=match, variant=variant, values=values)


def _kind(text: str, start: int, end: int) -> str | None:
    """Return the variant of a run of suspect characters, None when typography needs it."""
    run, before, after = text[start:end], text[start - 1 : start], text[end : end + 1]
    if len(run) == 2 and run[0] == "\ufe0f":  # a heart that is made red, then joined
        run, before = run[1], run[0]
    if run[0] in _LOOKALIKES:
        return "lookalike" if _is_mixed(text, start, end) else None
    if re.search(f"[{_TAGS}]", run):
        return None if before == "\U0001f3f4" and _FLAG.fullmatch(run) else "tags"
    if re.search(f"[{_OVERRIDES}]", run):
        return "direction"
    if re.fullmatch(f"[{_MARKS}]+", run):
        first = text.rfind("\n", max(0, start - _SHOWN), start) + 1 or max(0, start - _SHOWN)
        return None if _RIGHT_TO_LEFT.search(text, first, end + _SHOWN) else "direction"
    if run in ("\ufe0e", "\ufe0f"):
        return "selectors" if before.isascii() and before.isalpha() else None
    if re.search(f"[{_SELECTORS}\ufe0e\ufe0f]", run):
        return None if len(run) == 1 and _HAS_VARIANTS.match(before) else "selectors"
    if run == "\u00ad":
        return "soft-hyphen"
    return None if len(run) == 1 and _is_typography(run, before, after) else ""


def _is_typography(character: str, before: str, after: str) -> bool:
    if character in _JOINERS and _JOINED.match(before):
        return not after.isascii() or not after.isalnum()
    if character == "\u200d":
        return bool(_PICTURE.match(before) and _PICTURE.match(after))
    if character in _SPACES:
        return bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    return character == "\u034f" and not before.isascii()


def _is_mixed(text: str, start: int, end: int) -> bool:
    """Say whether a word is Latin but for letters that look so."""
    word = _word(text, start, end)
    others = [letter for letter in word if not letter.isascii()]
    return len(others) < len(word) and all(letter in _LOOKALIKES for letter in others)


def _word(text: str, start: int, end: int) -> str:
    before = _WORD_BEFORE.search(text[max(0, start - 60) : start])
    after = _WORD_AFTER.match(text, end)
    return f"{before[0] if before else ''}{text[start:end][:60]}{after[0] if after else ''}"


def _visible(text: str, start: int, stop: int, spelled: re.Pattern[str]) -> str:
    """Spell a place out, so that a baseline of one does not hide another: the words around, `<U+200B>`."""
    first = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT)
    whole = text[first:stop]
    shown = "".join(f"<U+{ord(c):04X}>" if spelled.match(c) else c for c in whole[:_SHOWN])
    return shown.strip() if len(whole) <= _SHOWN else f"{shown.strip()}… {digest(whole)}"


def _spelled(text: str) -> str:
    """Return what tag characters or variation selectors spell."""
    codes = (ord(c) for c in islice(_INVISIBLE.findall(text), _SHOWN))
    spelled = (code - 0xE0000 if code < 0xE0100 else code - 0xE0100 + 16 for code in codes if code >= 0xE0000)
    return "".join(chr(code) if 32 <= code < 127 else "." for code in spelled)


# --- comments ----------------------------------------------------------------------

_REFERENCE = lazy(r"^ {0,3}\[[^\]\n]{1,60}\]:[ \t]{0,9}(?:#|<>)[ \t]{1,9}([\"'(][^\n]*)", re.MULTILINE)


class HiddenComment(Check, kw_only=True, rename="kebab"):
    """A comment of Markdown, which a page does not show, speaks to the agent that reads the file.

    `orders` maps variants to spoken expressions, the gravest first. Comments in code do not count: they show.
    Of a comment that silences findings only the reason counts.
    """

    orders: dict[str, str]

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give the orders."""
        yield from ((f"orders.{name}", pattern) for name, pattern in self.orders.items())

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each comment once; one that is never closed hides all that follows."""
        for source in skill.sources:
            if source.is_markdown and ("<!--" in source.text or "]:" in source.text):
                start = len(skill.text) - len(skill.body) if source is skill.source else 0
                yield from self._in(source, start)

    def _in(self, source: Source, body: int) -> Iterator[Hit]:
        low, page, given = source.lower, Page(source), Counter[str]()
        for start, end in _comments(page, body):
            said = reason_start(source.text, start, end)
            found = (
                (name, compiled(pattern.replace(" ", GAP)).search(low, said, end))
                for name, pattern in self.orders.items()
            )
            variant, order = next(((name, order) for name, order in found if order), ("", None))
            if order:
                given[variant] += 1
                if given[variant] > MAX_HITS:
                    continue  # many mild ones must not hide a grave one
                says = source.text[order.start() : end].lstrip("\n.!;:-—> ")
                at = start if said == start else end - len(says)
                match = identify(source.text, at, end)
                says = says.removesuffix("-->")
                values = {"says": brief(says)}
                yield Hit(where=source.location(at), match=match, variant=variant, values=values)


def _comments(page: Page, body: int) -> list[tuple[int, int]]:
    """Return start and end of the comments, also of those that are written as the target of a link."""
    found = [comment for comment in page.comments if comment[0] >= body]
    if "]:" in page.source.text:
        references = _REFERENCE.finditer(page.source.text, body)
        found += [one.span() for one in references if not page.is_code(one.start())]
    return sorted(found)


# --- encoded text ------------------------------------------------------------------

_MIN_RUN = 40
_BASE64 = alphabet("+/-_")
_ESCAPES = lazy(r"(?:\\x[0-9a-fA-F]{2}){12,}|(?:\\u00[0-9a-fA-F]{2}){12,}")
_CODES = lazy(
    r"(?:fromCharCode|bytes|chr)\(\[?\s*(?:\d{2,3}\s*,\s*){11,}\d{2,3}|(?:chr\(\d{2,3}\)[\s+.]{1,5}){7,}"
)
_MEDIA = lazy(
    r"data:(?:image|font|audio|video|application/(?:pdf|font|x-font|octet))[\w/+.;=-]{0,60};base64,$"
)
_PLAIN = str.maketrans("-_", "+/")
_HEX = lazy(r"(?:[0-9a-fA-F]{2})+")


class Blob(NamedTuple):
    """Where encoded text stands and what it says."""

    start: int
    end: int
    says: str


class EncodedBlob(Check, kw_only=True, rename="kebab"):
    """A text file holds encoded text.

    `runs` finds commands that decode and run it, `orders` what to fear in what is decoded.
    """

    runs: Signature
    orders: str

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give what runs a blob, and the orders."""
        yield from (("runs", self.runs.pattern), ("orders", self.orders))

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each place once: `run`, `orders`, or text that is just not readable."""
        for source in skill.sources:
            yield from self._in(source)

    def _in(self, source: Source) -> Iterator[Hit]:
        examples, told, given = Examples(source), set[int](), Counter[str]()
        for start, end in spans(self.runs, source):
            where = source.location(start)
            if len(told) < MAX_HITS and where.line not in told and not examples.has(start, end):
                told.add(where.line)
                yield Hit(where=where, match=identify(source.text, start, end), variant="run")
        for blob in _blobs(source.text):
            where = source.location(blob.start)
            variant = "orders" if compiled(self.orders).search(blob.says.lower()) else ""
            is_data = blob.says.startswith('{"') and not variant  # the cursor of an API, for instance
            given[variant] += not is_data
            if is_data or given[variant] > MAX_HITS:
                continue
            if where.line not in told and not examples.has(blob.start, blob.end):
                first = source.text[blob.start : blob.start + 24]
                match = f"{first}… {digest(source.text[blob.start : blob.end])}"
                says = brief(blob.says)
                yield Hit(where=where, match=match, variant=variant, values={"says": says})


def _blobs(text: str) -> Iterator[Blob]:
    for start, end in long_runs(text, _BASE64, _MIN_RUN):
        says = _decoded(text[start:end])
        if says and not _is_known(text, start, end):
            yield Blob(start, end, says)
    for pattern, sign in (
        (_ESCAPES, "\\x"),
        (_ESCAPES, "\\u00"),
        (_CODES, "fromCharCode"),
        (_CODES, "bytes("),
        (_CODES, "chr("),
    ):
        for match in pattern.finditer(text) if sign in text else ():
            base = 16 if pattern is _ESCAPES else 10
            digits = re.findall(r"(?:x|u00)([0-9a-fA-F]{2})|(\d{2,3})", match[0])
            codes = [int(first or second, base) for first, second in digits]
            says = _readable(bytes(code for code in codes if code < 256))
            if says:
                yield Blob(match.start(), match.end(), says)


def _is_known(text: str, start: int, end: int) -> bool:
    """Say whether encoded text is a picture, a sound, a font or a part of a JSON web token."""
    is_token = text.startswith("eyJ", start) and "." in (text[start - 1 : start], text[end : end + 1])
    return is_token or _MEDIA.search(text, max(0, start - 100), start) is not None


def _decoded(run: str) -> str:
    """Return the text that a run of characters encodes, empty when it encodes none."""
    if _HEX.fullmatch(run):
        return _readable(bytes.fromhex(run))
    run = run[: len(run) - (len(run) % 4 == 1)]
    try:
        raw = base64.b64decode(f"{run}{'=' * (-len(run) % 4)}".translate(_PLAIN), validate=True)
    except binascii.Error:
        return ""
    return _readable(raw)


def _readable(raw: bytes) -> str:
    """Return bytes as text when they are prose or a program, also in the encoding that PowerShell wants."""
    wide = len(raw) > 8 and not any(raw[1::2])
    text = (raw[::2] if wide else raw).decode("ascii", "replace")
    plain = text.isascii() and all(c.isprintable() or c in "\n\r\t" for c in text)
    return text if plain and (" " in text or "\n" in text) else ""
