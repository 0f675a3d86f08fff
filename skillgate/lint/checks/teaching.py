"""Does a text carry an attack, or does it teach defence? The words around a place of a file decide.

A review of security quotes attacks. What its sentence says not to do, and what stands as an example below a
title, an introduction or a remark in code that tells to avoid it, is none. Bare text below one is an attack.
Only words that a person sees count: no HTML comment, no target of a link, no `skillgate: ignore`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from functools import cached_property

from skillgate.lint.lazy import lazy
from skillgate.skill import Source

_STAYS = r"(?!\b(?:and|then|but|just|instead)\s\w)"  # what follows these words is another order
_REACH = rf"(?:{_STAYS}(?:[^.,;:!?\n]|[.:](?!\s)|,(?=\s(?:[`\"'“*]|or\b|nor\b)))){{0,120}}"
_DENIED = lazy(
    r"\b(?:never|don['’]?t|do\snot|does\snot|must\snot|mustn['’]t|should\snot|shouldn['’]t|cannot|can['’]t|may\snot"
    rf"|nobody|no\sone)\b(?!\s(?:hesitate|forget|fail|worry|mind|stop|only|just)\b)(?:,[^,.;:!?]{{1,40}},)?{_REACH}$",
    re.IGNORECASE,
)
_ORDERS = r"\b(?:run|execute|use|type|paste|call|issue|first|do|follow|obey)\s"
_BY = r"\b(?:by|with|via|using)\s"  # names the means, not what is refused
_GUARDED = lazy(
    r"(?:\b(?:avoid\w*|prevent\w*|refus\w+|reject\w*|resist\w*|forbid\w*|prohibit\w*|disallow\w*|block\w*|den(?:y|ies)"
    r"|detect\w*|flag(?:s|ged)?|warn(?:s|ing)?\s(?:about|against|on|of)|instead\sof|rather\sthan|against|triggers?\son"
    rf"|attack\w*|inject\w*|danger\w*|malicious)\b:?|[❌✗✘🚫⛔])(?!{_REACH}(?:{_ORDERS}|{_BY})){_REACH}$",
    re.IGNORECASE,
)
_CITED = lazy(
    r"\b(?:such\sas|like|e\.g\.|for\sexample|say(?:s|ing)?|phrases?|contain\w*|match\w*|treat"
    rf"|look\w*\sfor|search\w*\sfor)\b:?{_REACH}$",
    re.IGNORECASE,
)
_TELLS = r"(?:tell|ask|say|instruct|direct|contain|attempt|claim|demand|want|make|tr[iy])(?:s|es|ing)?"
_REPORTED = lazy(
    r"\b(?:if|when|whenever|any|attempts?|attacker\w*|injected|embedded|untrusted"
    r"|(?:text|content|pages?|documents?|comments?|input|messages?|entry|entries|anything|something)\s(?:that|which))\b"
    rf"[^.!?\n]{{0,120}}\b{_TELLS}\b(?:[^.,;!?\n]{{0,40}}|\s(?:you|the\s\w+)\s(?:to\b)?[^.;!?\n]{{0,160}})$"
    rf"|\binstructions?\sthat\s{_TELLS}\s(?:an?|the)\s(?:ai|agent|assistant|llm|model)\b[^.;!?\n]{{0,80}}$",
    re.IGNORECASE,
)
_ATTACKS = (
    r"malicious\w*|attack\w*|(?<!dependency\s)inject\w+|exploit\w*|vulnerab\w+|exfiltrat\w+|obfuscat\w+"
    r"|jailbreak\w*|red[ -]team\w*|adversar\w+|forbidden|prohibited|disallowed|block(?:s|ed)|hijack\w*"
    r"|backdoors?|red\sflags?|anti-?patterns?|not\sto\s(?:do|run|use|write)|not\srecommended|not\ssecure"
    r"|not\sfor\sproduction"
)
_FAULTS = (
    r"bad|(?<!went\s)(?<!goes\s)(?<!gone\s)wrong|unsafe|insecure|suspicious|evil|threats?|payloads?|denied"
    r"|pitfalls?|mistakes?"
)
_BAD_WORDS = rf"{_ATTACKS}|{_FAULTS}|danger\w*|destructive|harmful"
_BAD = lazy(rf"\b(?:{_BAD_WORDS})\b|[❌✗✘🚫⛔]", re.IGNORECASE)
_SHOWS = r"(?:examples?|patterns?|practices?|ways?|code|commands?|usages?|approach(?:es)?|inputs?|requests?)"
_AVOIDED = lazy(
    rf"\b(?:{_ATTACKS})\b|[❌✗✘🚫⛔]|\b(?:{_FAULTS})\b(?:\s{_SHOWS}\b|\W*$|\s?[:(—–])"
    r"|^\W*(?:never|don['’]?ts?|do\snot|avoid)(?:\W*$|\W*:)"
    r"|\b(?:never|don['’]?t|(?:do|must|should|may|does)\snot|cannot|avoid|refus\w+|reject\w*|detect\w*)\s(?:\w+\s)?"
    r"(?:do|run|use|execute|type|paste|call|write|commit|ship|follow|obey|this|these|the\sfollowing|like)\b",
    re.IGNORECASE,
)
_NEEDS = lazy(  # who stops an attack, or has had one, runs what follows
    r"\b(?:if|when|whenever|after|until|unless|against|prevent\w*|stop\w*|fix\w*|mitigat\w*|defen[cds]\w*"
    r"|protect\w*|recover\w*|clean\w*|avoid(?:s|ed|ing)?\s(?=\w)|(?:is|are)\s(?:no|not|never)|isn['’]t|aren['’]t"
    r"|without|nothing)\b",
    re.IGNORECASE,
)
_JUDGED = lazy(
    rf"[^.!?\n]{{0,60}}?\b(?:is|are|as)\b[^.!?\n]{{0,40}}?\b(?:{_BAD_WORDS}|data)\b", re.IGNORECASE
)
_BAD_NAME = lazy(
    r"(?:inject|attack|jailbreak|malicious|danger|suspicious|block|forbid|deny|threat)\w*\s*[=:(\[{]",
    re.IGNORECASE,
)
_SIGNS = lazy(
    r"^[ \t>]{0,20}(?:(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?(?P<fence>`{3,}(?![^\n]*`)|~{3,})(?P<info>[^\n]*)$"
    r"|<!--",
    re.MULTILINE,
)
_UNSEEN = r"<!--[^\n<>]*|(?:#|//)[ \t]*skillgate:[ \t]*ignore\b[^\n]*"
_UNSEEN_IN_CODE = lazy(_UNSEEN)
_UNSEEN_ON_PAGE = lazy(
    rf"{_UNSEEN}|^ {{0,3}}\[[^\]\n]{{1,60}}\]:[^\n]*|\]\([^()\n]*\)|</?[a-zA-Z][^<>\n]*>"
    r"|\{/\*[^\n{]*\*/\}",
    re.MULTILINE,
)
_HEADING = lazy(r"^ {0,3}(#{1,6})[ \t]+([^\n]{0,200})", re.MULTILINE)
_ITEM = lazy(r"[-*+|>]|\d{1,3}[.)]\s|`{3}|~{3}")
_REMARK = lazy(r"\s*(?:#|//|--|/\*|;|%|::|REM\b)")
_DATA = lazy(r"\.(?:cfg|conf|ini|json|rst|toml|txt|xml|ya?ml)$", re.IGNORECASE)  # nobody runs them
_RUN = lazy(
    r"""\$\([^)]*$|(?:\b(?:system|[pP]open|run|call|check_\w+|exec\w*|spawn\w*|eval)\s?\(\s?\w?"""
    r"""|\b(?:eval|\w{0,4}sh\s+-\w*c)\s{1,9})["'`][^"'`]*$"""
)
_BESIDE = lazy(r"\s(?:#|//|--|/\*)\s.*")
_CODE_SIGNS = lazy(r"[=&|;]")
_LABEL = lazy(r"\*\*[^*]{1,80}\*\*|__[^_]{1,80}__")
_SILENCE = lazy(
    r"<!--[ \t]*skillgate:[ \t]*ignore[ \t]+[a-z-]{1,40}(?:[ \t]*,[ \t]*[a-z-]{1,40}){0,20}[ \t]*:"
    r"(?=[^\n]{1,200}-->)"
)
_INK = lazy(r"[^\n]+")
_LINES_ABOVE, _LINE_CHARS = 12, 300

Span = tuple[int, int]


class Page:
    """What stands around a place of a file: code, headings, the sentence, what introduces it."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def teaches(self, start: int, end: int, *, spoken: bool = False) -> bool:
        """Say whether the text shows what stands there only to warn of it; `spoken` words may be cited."""
        if not spoken and self._is_run(start, end):
            return False
        before = self._sentence(start)
        if _DENIED.search(before) or _REPORTED.search(before):
            return True
        if not self.source.is_markdown:
            return self._is_listed(start)
        if not self.is_shown(start):
            return False
        own = self._before(start) if self.block(start) is None else before
        judged = _GUARDED.search(own) or _JUDGED.match(self._seen.around(start, end)[1])
        if judged or (spoken and _CITED.search(before)):
            return True
        return (
            self._is_introduced(start) or any(map(_warns, self._frame(start))) or self._is_bad_row(start, end)
        )

    def _is_run(self, start: int, end: int) -> bool:
        """Say whether a program runs what stands there: no remark of its own makes that harmless."""
        before, after = self._seen.around(start, end)
        if self.source.is_markdown or _DATA.search(self.source.path) or _REMARK.match(before):
            return False
        quoted = any(before.count(sign) % 2 and sign in after for sign in "\"'")
        return not quoted or _RUN.search(before) is not None

    def is_shown(self, start: int) -> bool:
        """Say whether a place stands in code, quotes, brackets or a table: it is shown, not said."""
        before = self._before(start)
        return self.block(start) is not None or _is_row(before) or _is_quoted(before)

    def is_code(self, start: int) -> bool:
        """Say whether a place of Markdown stands in a code block or a code span."""
        return self.block(start) is not None or self._before(start).count("`") % 2 == 1

    def block(self, offset: int) -> int | None:
        """Return the start of the fenced code that a place stands in."""
        at = bisect.bisect_right(self._blocks, (offset, len(self.source.text))) - 1
        return self._blocks[at][0] if at >= 0 and offset < self._blocks[at][1] else None

    @property
    def comments(self) -> list[Span]:
        """Return where HTML comments start and end; one that is never closed hides all that follows."""
        return self._structure[1]

    def is_reason(self, start: int, end: int) -> bool:
        """Say whether a place stands in the reason of a comment that silences findings."""
        at = bisect.bisect_right(self.comments, (start, len(self.source.text))) - 1
        first, last = self.comments[at] if at >= 0 else (0, 0)
        return end <= last and reason_start(self.source.text, first, last) > first

    @property
    def _blocks(self) -> list[Span]:
        """Return where fenced code starts and ends; a fence that is never closed runs to the end."""
        return self._structure[0]

    @cached_property
    def _structure(self) -> tuple[list[Span], list[Span]]:
        """Return fenced code and comments: neither starts in the other."""
        blocks: list[Span] = []
        hidden: list[Span] = []
        start, fence, at = -1, "", 0
        for sign in _SIGNS.finditer(self.source.text) if self.source.is_markdown else ():
            if sign.start() < at:
                continue
            if not sign["fence"]:
                if fence and _leaves(self.source.text, start, sign.start()):
                    blocks.append((start, sign.start()))
                    fence = ""
                at = 0 if fence else self._end_of_comment(sign.start())
                hidden += [(sign.start(), at)] if at else []
            elif not fence:
                start, fence = sign.start(), sign["fence"]
            elif sign["fence"].startswith(fence) and not sign["info"].strip():
                blocks.append((start, sign.end()))
                fence = ""
        return ([*blocks, (start, len(self.source.text))] if fence else blocks), hidden

    def _end_of_comment(self, start: int) -> int:
        """Return where the comment ends that starts here, 0 where a page shows it as text."""
        before, text = self.source.around(start, start)[0], self.source.text
        if before.count("`") % 2:
            return 0
        front = self._front
        end = text.find("-->", start + 4) + 3 if start < self._last_closing else len(text)
        is_open = start >= self._last_closing and (before.strip() or len(before) > 3)
        return 0 if is_open or start < front < end else end

    @cached_property
    def _last_closing(self) -> int:
        return self.source.text.rfind("-->")

    @cached_property
    def _front(self) -> int:
        """Return where the frontmatter ends: no comment starts in it and ends in the body."""
        text = self.source.text
        return max(0, text.find("\n---", 3)) if text.startswith("---\n") else 0

    @cached_property
    def _seen(self) -> Source:
        """Return the file as a person sees it, with blanks for the rest: offsets are those of the file."""
        text, parts, end = self.source.text, [], 0
        for first, last in self.comments:
            parts += [text[end:first], _blank(text[first:last])]
            end = last
        unseen = _UNSEEN_ON_PAGE if self.source.is_markdown else _UNSEEN_IN_CODE
        seen = unseen.sub(lambda found: _blank(found[0]), "".join([*parts, text[end:]]))
        return Source(self.source.path, seen, self.source.facts)

    def _before(self, start: int) -> str:
        return self._seen.around(start, start)[0]

    @cached_property
    def _headings(self) -> list[tuple[int, str, int]]:
        """Return offset, title and the index of the heading above of each heading."""
        found: list[tuple[int, str, int]] = []
        above: list[tuple[int, int]] = []
        for line in _HEADING.finditer(self._seen.text):
            if self.block(line.start()) is None:
                while above and above[-1][0] >= len(line[1]):
                    above.pop()
                found.append((line.start(), line[2], above[-1][1] if above else -1))
                above.append((len(line[1]), len(found) - 1))
        return found

    def _frame(self, start: int) -> Iterator[str]:
        """Give the name of the file, the headings above a place, the remarks on a line of code."""
        yield re.sub(r"[-_]", " ", self.source.path.rpartition("/")[2])
        at = bisect.bisect_right(self._headings, (start, "\U0010ffff", 0)) - 1
        while at >= 0:
            _, title, at = self._headings[at]
            yield title
        if self.block(start) is not None:
            yield from self._remarks(start)

    def _is_bad_row(self, start: int, end: int) -> bool:
        """Say whether the row of a table calls bad what stands in one of its cells."""
        row = self._seen.around(start, end)
        return self.block(start) is None and _is_row(row[0]) and any(map(_BAD.search, row))

    def _sentence(self, start: int) -> str:
        """Return what stands before a place in its line, after what leads to it: a line, or `Never:`."""
        before = self._before(start)
        own = before.lstrip()
        if self.block(start) is not None:
            return "" if _CODE_SIGNS.search(before) else before
        if own.startswith("#"):
            return before
        if not _ITEM.match(own):
            above = self._line_above(start).strip()
            return own if above.startswith(("#", "|", "```", "~~~")) else f"{above} {own}"
        above = self._introduction(start)
        return f"{above.rstrip(':*_ ')} {own.lstrip('-*+ 0123456789.)')}" if above else before

    def _line_above(self, start: int) -> str:
        number = self.source.location(start).line
        return self._seen.lines[number - 2][-_LINE_CHARS:] if number > 1 else ""

    def _is_introduced(self, start: int) -> bool:
        """Say whether what introduces code, a list or a table tells to avoid what stands there."""
        said = re.split(r"[.!?]\s", self._introduction(start))[-1].rstrip(":*_ ")
        return _warns(said)

    def _introduction(self, start: int) -> str:
        """Return the line right above a list, a table or code, if it ends in a colon or is a label."""
        block = self.block(start)
        number = self.source.location(start if block is None else block).line - 1
        for line in reversed(self._seen.lines[max(0, number - _LINES_ABOVE) : number]):
            text = line.strip()[-_LINE_CHARS:]
            introduces = text.rstrip("*_ ").endswith(":") or _LABEL.fullmatch(text)
            if text and (introduces or block is not None or not _ITEM.match(text)):
                return text if introduces else ""
        return ""

    def _remarks(self, start: int) -> Iterator[str]:
        """Give the remarks on a line of code: just above and beside it."""
        above = self._line_above(start)
        if _REMARK.match(above):
            yield above
        beside = _BESIDE.search(self._seen.around(start, start)[1])
        if beside:
            yield beside[0]

    def _is_listed(self, start: int) -> bool:
        """Say whether a program only compares with what stands there, or calls it bad."""
        number = self.source.location(start).line
        lines = self._seen.lines[max(0, number - _LINES_ABOVE) : number]
        if any(_BAD_NAME.search(line[:_LINE_CHARS]) for line in lines):
            return True
        before, after = self._seen.around(start, start)
        file = self.source.path.rpartition("/")[2].replace("_", " ")
        told = [file] if file.endswith((".yml", ".yaml", ".json", ".txt")) else []
        quoted = _is_quoted(before) and any(map(_BAD.search, (before, after)))
        return quoted or any(map(_warns, [*told, *self._remarks(start)]))


def reason_start(text: str, start: int, end: int) -> int:
    """Return where the reason starts if a comment is all `skillgate: ignore`, else where the comment does."""
    silence = _SILENCE.match(text, start, end)
    return silence.end() - 1 if silence else start


def _warns(text: str) -> bool:
    """Say whether a title, an introduction or a remark tells to avoid what follows."""
    found = _AVOIDED.search(text)
    return found is not None and not _NEEDS.search(text[: found.start()])


def _leaves(text: str, fence: int, comment: int) -> bool:
    """Say whether a comment ends the list or quote, or the indented text, that a fence stands in."""
    return text[fence : fence + 2].strip(" \t>-*+") == "" and text[comment - 1 : comment] in ("", "\n")


def _blank(text: str) -> str:
    return _INK.sub(lambda run: " " * len(run[0]), text)


def _is_row(before: str) -> bool:
    return before.lstrip().startswith("|")


def _is_quoted(before: str) -> bool:
    odd = any(before.count(sign) % 2 for sign in '`"')
    return odd or any(before.rfind(opening) > before.rfind(closing) for opening, closing in ("“”", "()"))
