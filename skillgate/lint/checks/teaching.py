"""Does a text carry an attack, or does it teach defence? The words around a place of a file decide.

A review of security quotes attacks. What its sentence says not to do, and what stands as an example below a
title, an introduction or a comment that calls it bad, is none. Bare text below such a title is one.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from functools import cached_property

from skillgate.skill import Source

_STAYS = r"(?!\b(?:and|then|but|just|instead)\s\w)"  # what follows these words is another order
_REACH = rf"(?:{_STAYS}(?:[^.,;:!?\n]|[.:](?!\s)|,(?=\s(?:[`\"'“*]|or\b|nor\b)))){{0,120}}"
_DENIED = re.compile(
    r"\b(?:never|don['’]?t|do\snot|does\snot|must\snot|mustn['’]t|should\snot|shouldn['’]t|cannot|can['’]t|may\snot"
    rf"|nobody|no\sone)\b(?!\s(?:hesitate|forget|fail|worry|mind|stop|only|just)\b)(?:,[^,.;:!?]{{1,40}},)?{_REACH}$",
    re.IGNORECASE,
)
_ORDERS = r"\b(?:run|execute|use|type|paste|call|issue|first|do|follow|obey)\s"
_GUARDED = re.compile(
    r"(?:\b(?:avoid\w*|prevent\w*|refus\w+|reject\w*|resist\w*|forbid\w*|prohibit\w*|disallow\w*|block\w*|den(?:y|ies)"
    r"|detect\w*|flag(?:s|ged)?|warn(?:s|ing)?\s(?:about|against|on|of)|instead\sof|rather\sthan|against|triggers?\son"
    rf"|attack\w*|inject\w*|danger\w*|malicious)\b:?|[❌✗✘🚫⛔])(?!{_REACH}{_ORDERS}){_REACH}$",
    re.IGNORECASE,
)
_CITED = re.compile(
    r"\b(?:such\sas|like|e\.g\.|for\sexample|say(?:s|ing)?|phrases?|contain\w*|match\w*|treat"
    rf"|look\w*\sfor|search\w*\sfor)\b:?{_REACH}$",
    re.IGNORECASE,
)
_TELLS = r"(?:tell|ask|say|instruct|direct|contain|attempt|claim|demand|want|make|tr[iy])(?:s|es|ing)?"
_REPORTED = re.compile(
    r"\b(?:if|when|whenever|any|attempts?|attacker\w*|injected|embedded|untrusted"
    r"|(?:text|content|pages?|documents?|comments?|input|messages?|entry|entries|anything|something)\s(?:that|which))\b"
    rf"[^.!?\n]{{0,120}}\b{_TELLS}\b(?:[^.,;!?\n]{{0,40}}|\s(?:you|the\s\w+)\s(?:to\b)?[^.;!?\n]{{0,160}})$"
    rf"|\binstructions?\sthat\s{_TELLS}\s(?:an?|the)\s(?:ai|agent|assistant|llm|model)\b[^.;!?\n]{{0,80}}$",
    re.IGNORECASE,
)
_BAD_WORDS = (
    r"bad|wrong|unsafe|insecure|danger\w*|destructive|harmful|malicious\w*|suspicious|evil|attack\w*|inject\w+"
    r"|exploit\w*|vulnerab\w+|jailbreak\w*|red[ -]team\w*|threats?|payloads?|adversar\w+|forbidden|prohibited"
    r"|disallowed|block(?:s|ed)|denied|hijack\w*|backdoors?|red\sflags?|anti-?patterns?|pitfalls?|mistakes?|not\srecommended|not\ssecure|not\sfor\sproduction"
)
_BAD = re.compile(
    rf"\b(?:{_BAD_WORDS})\b|[❌✗✘🚫⛔]|^\W*(?:never|don['’]?t|do\snot|avoid)\b(?!\s(?:forget|worry|panic|miss)\b)",
    re.IGNORECASE,
)
_JUDGED = re.compile(
    rf"[^.!?\n]{{0,60}}?\b(?:is|are|as)\b[^.!?\n]{{0,40}}?\b(?:{_BAD_WORDS}|data)\b", re.IGNORECASE
)
_BAD_NAME = re.compile(
    r"(?:inject|attack|jailbreak|malicious|danger|suspicious|block|forbid|deny|threat)\w*\s*[=:(\[{]",
    re.IGNORECASE,
)
_FENCE = re.compile(
    r"^[ \t>]{0,20}(?:(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?(?P<fence>`{3,}(?![^\n]*`)|~{3,})(?P<info>[^\n]*)$",
    re.MULTILINE,
)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]{0,200})", re.MULTILINE)
_ITEM = re.compile(r"[-*+|>]|\d{1,3}[.)]\s|`{3}|~{3}")
_COMMENT = re.compile(r"\s*(?:#|//|--|/\*|<!--|;|%|::|REM\b)")
_BESIDE = re.compile(r"\s(?:#|//|--|/\*|<!--)\s.*")
_LINES_ABOVE, _LINE_CHARS = 12, 300


class Page:
    """What stands around a place of a file: code, headings, the sentence, what introduces it."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def teaches(self, start: int, end: int, *, spoken: bool = False) -> bool:
        """Say whether the text shows what stands there only to warn of it; `spoken` words may be cited."""
        before = self._sentence(start)
        if _DENIED.search(before) or _REPORTED.search(before):
            return True
        if not self.source.is_markdown:
            return self._is_listed(start)
        if not self.is_shown(start):
            return False
        judged = _GUARDED.search(before) or _JUDGED.match(self.source.around(start, end)[1])
        if judged or (spoken and _CITED.search(before)):
            return True
        introduction = self._introduction(start)
        denied = _DENIED.search(introduction.rstrip(":*_ "))
        return denied is not None or any(map(_BAD.search, [introduction, *self._frame(start, end)]))

    def is_shown(self, start: int) -> bool:
        """Say whether a place stands in code, quotes, brackets or a table: it is shown, not said."""
        before = self.source.around(start, start)[0]
        return self.block(start) is not None or _is_row(before) or _is_quoted(before)

    def is_code(self, start: int) -> bool:
        """Say whether a place of Markdown stands in a code block or a code span."""
        return self.block(start) is not None or self.source.around(start, start)[0].count("`") % 2 == 1

    def block(self, offset: int) -> int | None:
        """Return the start of the fenced code that a place stands in."""
        at = bisect.bisect_right(self._blocks, (offset, len(self.source.text))) - 1
        return self._blocks[at][0] if at >= 0 and offset < self._blocks[at][1] else None

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        """Return where fenced code starts and ends; a fence that is never closed runs to the end."""
        found: list[tuple[int, int]] = []
        start, fence = -1, ""
        for line in _FENCE.finditer(self.source.text) if self.source.is_markdown else ():
            if not fence:
                start, fence = line.start(), line["fence"]
            elif line["fence"].startswith(fence) and not line["info"].strip():
                found.append((start, line.end()))
                fence = ""
        return [*found, (start, len(self.source.text))] if fence else found

    @cached_property
    def _headings(self) -> list[tuple[int, str, int]]:
        """Return offset, title and the index of the heading above of each heading."""
        found: list[tuple[int, str, int]] = []
        above: list[tuple[int, int]] = []
        for line in _HEADING.finditer(self.source.text):
            if self.block(line.start()) is None:
                while above and above[-1][0] >= len(line[1]):
                    above.pop()
                found.append((line.start(), line[2], above[-1][1] if above else -1))
                above.append((len(line[1]), len(found) - 1))
        return found

    def _frame(self, start: int, end: int) -> Iterator[str]:
        """Give the name of the file, the headings, the comments on a line of code, the row of a table."""
        yield re.sub(r"[-_]", " ", self.source.path.rpartition("/")[2])
        at = bisect.bisect_right(self._headings, (start, "\U0010ffff", 0)) - 1
        while at >= 0:
            _, title, at = self._headings[at]
            yield title
        before, after = self.source.around(start, end)
        if self.block(start) is not None:
            yield from self._remarks(start)
        elif _is_row(before):
            yield before
            yield after

    def _sentence(self, start: int) -> str:
        """Return what stands before a place in its line, after what leads to it: a line, or `Never:`."""
        before = self.source.around(start, start)[0]
        own = before.lstrip()
        if self.block(start) is not None or own.startswith("#"):
            return before
        above = self._introduction(start) if _ITEM.match(own) else self._line_above(start).strip()
        if _ITEM.match(own) and not above.endswith(":"):
            return before
        return (
            f"{above.rstrip(':*_ ')} {own.lstrip('-*+ 0123456789.)')}"
            if _ITEM.match(own)
            else f"{above} {own}"
        )

    def _line_above(self, start: int) -> str:
        number = self.source.location(start).line
        return self.source.lines[number - 2][-_LINE_CHARS:] if number > 1 else ""

    def _introduction(self, start: int) -> str:
        """Return the line that introduces the list, table or code which a place stands in."""
        block = self.block(start)
        number = self.source.location(start if block is None else block).line - 1
        for line in reversed(self.source.lines[max(0, number - _LINES_ABOVE) : number]):
            text = line.strip()[:_LINE_CHARS]
            if text and (not _ITEM.match(text) or text.endswith(":")):
                return text
        return ""

    def _remarks(self, start: int) -> Iterator[str]:
        """Give the comments on a line of code: just above and beside it."""
        above = self._line_above(start)
        if _COMMENT.match(above):
            yield above
        beside = _BESIDE.search(self.source.around(start, start)[1])
        if beside:
            yield beside[0]

    def _is_listed(self, start: int) -> bool:
        """Say whether a program only compares with what stands there, or calls it bad."""
        number = self.source.location(start).line
        lines = self.source.lines[max(0, number - _LINES_ABOVE) : number]
        if any(_BAD_NAME.search(line[:_LINE_CHARS]) for line in lines):
            return True
        before, after = self.source.around(start, start)
        file = self.source.path.rpartition("/")[2].replace("_", " ")
        told = [before, after] if _is_quoted(before) else []
        told += [file] if file.endswith((".yml", ".yaml", ".json", ".txt")) else []
        return any(map(_BAD.search, [*told, *self._remarks(start)]))


def _is_row(before: str) -> bool:
    return before.lstrip().startswith("|")


def _is_quoted(before: str) -> bool:
    odd = any(before.count(sign) % 2 for sign in '`"')
    return odd or any(before.rfind(opening) > before.rfind(closing) for opening, closing in ("“”", "()"))
