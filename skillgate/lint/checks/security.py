"""Checks of what turns an agent against its user: attacks, data that leaves, secrets, commands at load.

All expressions are data of the rule files. What a text shows only to warn of it does not count (`teaching`).
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import islice

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.checks.teaching import Page
from skillgate.lint.lazy import lazy
from skillgate.lint.near import surroundings
from skillgate.skill import Skill, Source
from skillgate.skill.source import words_of
from skillgate.values import Struct

MAX_HITS = 50  # per file, of a signature or a variant
MAX_EXAMPLES = 200  # per file: who shows more attacks than that may hide one among them
MAX_MATCH_CHARS, MAX_SHOWN_CHARS, MAX_LINE_CHARS = 200, 80, 2_000
GAP = r"(?:[\s*_~`>#|\"'“”()\[\]/\\-]{1,20})"  # stands between two words, also in Markdown and comments


# --- signatures --------------------------------------------------------------------


class Signature(Struct, kw_only=True):
    """One expression, tried near the first group of `words` where one of every group stands in the file.

    Words are in lower case; signs count where there are any (`rm -`, `.ssh`). Group 1, where there is
    one, is what is found. A `bare` signature counts only outside code and quotes.
    """

    pattern: str
    words: tuple[tuple[str, ...], ...]
    bare: bool = False


class Signatures(Check, kw_only=True, rename="kebab"):
    """An expression matches in any text file, also in code, comments and frontmatter.

    The name of the signature is `{name}` and the variant. `spoken` expressions are in lower case and their
    blanks match all that can stand between two words; others see a command as one line.
    """

    signatures: dict[str, Signature]
    spoken: bool = False

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give the signatures."""
        yield from ((f"signatures.{name}", one.pattern) for name, one in self.signatures.items())

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first match of each place; a line of speech is one place."""
        for source in skill.sources:
            found = sorted(
                (start, rank, end, name)
                for rank, name in sorted(self._candidates(source))
                for start, end in spans(self.signatures[name], source, spoken=self.spoken)
            )
            if found:
                yield from self._hits(source, found)

    def _candidates(self, source: Source) -> set[tuple[int, str]]:
        """Return rank and name of the signatures of which some first word may stand in a file."""
        return {one for part in self._index.keys() & source.words for one in self._index[part]}.union(
            self._index[""]
        )

    @cached_property
    def _index(self) -> dict[str, list[tuple[int, str]]]:
        """Map a part of each first word to the signatures; those under `""` are always tried."""
        index: dict[str, list[tuple[int, str]]] = {"": []}
        for rank, (name, signature) in enumerate(self.signatures.items()):
            parts = [max(words_of(word), key=len, default="") for word in next(iter(signature.words), ("",))]
            for part in dict.fromkeys(parts):
                index.setdefault(part, []).append((rank, name))
        return index

    def _hits(self, source: Source, found: Sequence[tuple[int, int, int, str]]) -> Iterator[Hit]:
        examples, covered, told = Examples(source, spoken=self.spoken), 0, set[tuple[int, str]]()
        given = Counter[str]()  # many mild ones must not hide a grave one
        for start, _, end, name in found:
            where = source.location(start)
            bare = self.signatures[name].bare
            if given[name] >= MAX_HITS or start < covered or (where.line, name) in told:
                continue
            if examples.has(start, end, bare=bare):
                continue
            match = identify(source.text, start, end)
            covered = max(end, start + len(match)) if self.spoken else end
            told.add((where.line, name))
            given[name] += 1
            values = {"match": brief(source.text[start:end]), "name": name}
            yield Hit(where=where, match=match, variant=name, values=values)


class Examples:
    """Tells what a file shows only to warn of it; whoever shows very many may hide an attack among them."""

    def __init__(self, source: Source, *, spoken: bool = False) -> None:
        self._page, self._left, self._spoken = Page(source), MAX_EXAMPLES, spoken

    def has(self, start: int, end: int, *, bare: bool = False) -> bool:
        """Say whether a place is one of them; a `bare` signature means nothing in code and quotes either."""
        if self._left == 0:
            return False
        taught = self._page.teaches(start, end, spoken=self._spoken)
        taught = taught or (not self._spoken and self._page.is_reason(start, end))
        shown = taught or (bare and self._page.is_shown(start))
        self._left -= shown
        return shown


def spans(signature: Signature, source: Source, *, spoken: bool = False) -> Iterator[tuple[int, int]]:
    """Give start and end of each match of a signature in a file."""
    standing = [[word for word in group if source.holds(word)] for group in signature.words]
    if not all(standing):
        return
    text = source.lower if spoken else source.joined
    pattern = compiled(signature.pattern.replace(" ", GAP) if spoken else signature.pattern)
    for first, last in surroundings(standing[0], source) if standing else ((0, len(text)),):
        for match in pattern.finditer(text, first, last):
            start, end = match.span(1 if match.re.groups and match[1] is not None else 0)
            if not spoken or not text[start - 1 : start].isalnum():
                yield start, end


def identify(text: str, start: int, end: int) -> str:
    """Return a match with the rest of its line: what a baseline knows must not hide another payload."""
    stop = text.find("\n", end, end + MAX_LINE_CHARS)
    whole = text[start : stop if stop >= 0 else end + MAX_LINE_CHARS].rstrip()
    if len(whole) <= MAX_MATCH_CHARS:
        return whole
    return f"{whole[:MAX_MATCH_CHARS]}… {digest(whole)}"


def brief(text: str) -> str:
    """Return the start of a text in one line, to be shown as code in a message."""
    line = " ".join(text.replace("`", "").split())
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"


def digest(text: str) -> str:
    """Return eight digits that tell texts apart and say nothing of them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def alphabet(signs: str) -> bytes:
    """Return the table for `long_runs` of letters, digits and signs."""
    return bytes(
        ord("x") if code < 128 and (chr(code).isalnum() or chr(code) in signs) else ord(" ")
        for code in range(256)
    )


def long_runs(text: str, table: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Give where so many characters of an alphabet stand in a row; much faster than an expression."""
    plain = text.encode("latin-1", "replace").translate(table)
    at = plain.find(b"x" * least)
    while at >= 0:
        end = plain.find(b" ", at)
        end = len(plain) if end < 0 else end
        yield at, end
        at = plain.find(b"x" * least, end)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile an expression of a rule file once."""
    return re.compile(pattern, re.MULTILINE)


# --- data that leaves --------------------------------------------------------------


class Exfiltration(Check, kw_only=True, rename="kebab"):
    """A secret is read (`reads`) within `lines` of where something is sent (`sends`), or `told` says both.

    Using a secret to log in is neither: the expressions name whole environments and files of credentials,
    and requests that carry data.
    """

    reads: Signature
    sends: Signature
    told: Signature
    lines: int = 5

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give what reads, what sends, and what says both."""
        yield from ((name, getattr(self, name).pattern) for name in ("reads", "sends", "told"))

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each place once, pairs before sentences."""
        for source in skill.sources:
            found = [(start, end, "") for start, end in self._pairs(source)]
            found += [(start, end, "told") for start, end in spans(self.told, source, spoken=True)]
            if found:
                yield from _apart(source, sorted(found))

    def _pairs(self, source: Source) -> Iterator[tuple[int, int]]:
        """Give where a secret is read and something sent, from the first to the last of the two."""
        reads = list(spans(self.reads, source))
        sends = list(spans(self.sends, source)) if reads else []
        ends = [end for _, end in sends]
        for read_start, read_end in reads:
            at = bisect.bisect_left(ends, read_start)
            for start, end in sends[max(0, at - 1) : at + 1]:
                first, last = min(start, read_start), max(end, read_end)
                if source.location(last).line - source.location(first).line <= self.lines:
                    yield first, last
                    break


def _apart(source: Source, found: Sequence[tuple[int, int, str]]) -> Iterator[Hit]:
    examples, covered, given = Examples(source), 0, Counter[str]()
    for start, end, variant in found:
        if start >= covered and given[variant] < MAX_HITS and not examples.has(start, end):
            covered = end
            given[variant] += 1
            match = identify(source.text, start, end)
            values = {"match": brief(match)}
            yield Hit(where=source.location(start), match=match, variant=variant, values=values)


# --- secrets -----------------------------------------------------------------------

_PLACEHOLDER = lazy(
    r"example|sample|dummy|fake|test|your|placeholder|redacted|change|xxx|foo|secret|token|0000|1111|1234|4321|abcd"
)
_MIN_DISTINCT = 10  # characters: forty random ones have more than twenty
_MIN_KEY = 20
_KEY_CHARS = alphabet("-_")
_KEY_BLOCK = "PRIVATE KEY-----"


class SecretKind(Struct, kw_only=True):
    """What one kind of key looks like and starts with; group 1 differs from key to key."""

    label: str
    starts: tuple[str, ...]
    pattern: str


class Secret(Check, kw_only=True, rename="kebab"):
    """A text file holds what looks like a real key. No part of it gets into a hit."""

    kinds: dict[str, SecretKind]

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give what each kind of key looks like."""
        yield from ((f"kinds.{name}", kind.pattern) for name, kind in self.kinds.items())

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each key once per file."""
        for source in skill.sources:
            text = source.text
            dense = " ".join(text[start:end] for start, end in long_runs(text, _KEY_CHARS, _MIN_KEY))
            dense += _KEY_BLOCK if _KEY_BLOCK in text else ""
            for name, kind in self.kinds.items():
                if any(start in dense for start in kind.starts):
                    yield from islice(_keys(source, name, kind), MAX_HITS)

    def places(self, source: Source) -> Iterator[tuple[int, int]]:
        """Give where the random parts of keys stand, each as often as it does."""
        for kind in self.kinds.values():
            if any(start in source.text for start in kind.starts):
                matches = compiled(kind.pattern).finditer(source.text)
                yield from (match.span(1) for match in matches if _is_random(match[1]))


def _keys(source: Source, name: str, kind: SecretKind) -> Iterator[Hit]:
    seen: set[str] = set()
    for match in compiled(kind.pattern).finditer(source.text):
        if match[1] not in seen and _is_random(match[1]):
            seen.add(match[1])
            known = f"{name} {digest(match[1])}"
            where = source.location(match.start())
            yield Hit(where=where, match=known, values={"label": kind.label}, redacted=True)


def _is_random(key: str) -> bool:
    """Tell a real key from one that was made up for a text."""
    varied = len(set(key)) >= _MIN_DISTINCT and any(map(str.isdigit, key))
    return varied and not _PLACEHOLDER.search(key.lower())


# --- commands at load --------------------------------------------------------------

_AT_LOAD = lazy(
    r"(?:^|(?<=\s))!`([^`\n]+)`|^[ \t]*`{3,}![^\S\n]*\n((?:(?![ \t]*`{3})[^\n]*\n?)*)", re.MULTILINE
)
_ALL_COMMANDS = lazy(r"\bBash\b(?!\()|\bBash\((?::?\*)?\)|(?<![\w(:*])\*(?![\w)*])")


class CommandAtLoad(Check, kw_only=True, rename="kebab"):
    r"""The body holds `` !`command` `` or a block, which Claude Code runs before the model reads the skill.

    It looks for them everywhere, so code does not excuse them. A command that matches `acts` reaches further
    than the working tree; `unasked`: the skill also allows itself every command, so that nobody is asked.
    """

    acts: str

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give what a command does that reaches further."""
        yield "acts", self.acts

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each command."""
        if "!`" not in skill.text and "`!" not in skill.text:
            return
        body = len(skill.text) - len(skill.body)
        unasked = _allows_all(skill)
        for match in islice(_AT_LOAD.finditer(skill.text, body), MAX_HITS):
            command = (match[1] or match[2] or "").strip()
            if not command:
                continue
            acts = compiled(self.acts).search(command) is not None
            variant = "acts" if acts else "unasked" if unasked else ""
            shown = identify(skill.text, match.start(), match.end())
            yield Hit(
                where=skill.source.location(match.start()),
                match=shown,
                variant=variant,
                values={"command": brief(command)},
            )


def _allows_all(skill: Skill) -> bool:
    field = skill.frontmatter.get("allowed-tools")
    if field is None:
        return False
    start, end = skill.source.offset(field.value_at), skill.source.offset(field.end_at)
    return _ALL_COMMANDS.search(skill.text[start:end]) is not None
