"""Findings -> what `lint` prints: text with the source line and a caret, or JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skillgate.core import SCHEMA_VERSION, Finding
from skillgate.report.escape import clean, no_commands
from skillgate.report.json import write
from skillgate.report.wording import count, tally

MAX_LINE = 110
_LEAD = 40
_TAB = 4


class Counts(NamedTuple):
    """What a summary counts beside the findings: of `skills`, so many are `told` of.

    `hidden` findings are below the level to show, `stale` lines of the baseline match nothing any more,
    `mendable` findings can be mended.
    """

    skills: int = 0
    told: int = 0
    ignored: int = 0
    baselined: int = 0
    stale: int = 0
    hidden: int = 0
    mendable: int = 0


NO_COUNTS = Counts()


def render_text(findings: Sequence[Finding], sources: Mapping[str, str], counts: Counts = NO_COUNTS) -> str:
    """Write each finding with its source line where `sources` (path -> text) has it, and a summary."""
    lines: dict[str, list[str | None]] = {path: [*_lines(text)] for path, text in sources.items()}
    for finding in findings:
        if finding.redacted and finding.where.path in lines:  # nor may another finding show this line
            lines[finding.where.path][finding.where.line - 1 : finding.where.line] = [None]
    first_of = {finding.rule: at for at, finding in reversed(list(enumerate(findings)))}
    blocks = [
        _finding(finding, lines.get(finding.where.path, []), with_evidence=first_of[finding.rule] == at)
        for at, finding in enumerate(findings)
    ]
    summary = " ".join([_summary(findings, counts), *_suppressed(counts)])
    return no_commands("\n".join([*blocks, summary]) + "\n")


def render_json(findings: Sequence[Finding], counts: Counts) -> str:
    """Write the findings and how many skills were linted; field names are those of the types."""
    shown = {name: getattr(counts, name) for name in ("skills", "ignored", "baselined", "stale")}
    return write({"schema": SCHEMA_VERSION, **shown, "findings": findings})


def _lines(text: str) -> list[str]:
    """Split as CommonMark does; a byte order mark is no column."""
    return re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))


def _summary(findings: Sequence[Finding], counts: Counts) -> str:
    skills = count(counts.skills, "skill")
    if not findings:
        return f"No findings in {skills}."
    among = f"{counts.told:,} of " if counts.told else ""
    mendable = f"; {counts.mendable:,} can be mended with --fix" if counts.mendable else ""
    return f"{tally(findings)} in {among}{skills}{mendable}."


def _suppressed(counts: Counts) -> Iterator[str]:
    """Count what is not shown, so that a silenced linter does not look like a clean skill."""
    if counts.hidden:
        yield f"{counts.hidden:,} below this level not shown."
    parts = [f"{counts.ignored:,} ignored by comments"] if counts.ignored else []
    if counts.baselined:
        parts.append(f"{counts.baselined:,}{'' if parts else ' ignored'} by the baseline")
    if parts:
        yield f"{', '.join(parts)}."
    if counts.stale:
        verb = "matches" if counts.stale == 1 else "match"
        yield f"{count(counts.stale, 'line')} of the baseline {verb} nothing any more: write it again."


def _finding(finding: Finding, lines: list[str | None], with_evidence: bool) -> str:
    where = finding.where
    line = lines[where.line - 1] if 0 < where.line <= len(lines) else None
    shown = [f"{clean(str(where))}: {finding.severity}: {clean(finding.statement)} [{clean(finding.rule)}]"]
    if line is not None:
        shown += _excerpt(where.line, where.column, line, finding.match)
    remarks = {"hint": finding.hint, "evidence": finding.evidence if with_evidence else ""}
    shown += [f"  {name}: {clean(text)}" for name, text in remarks.items() if text]
    return "\n".join([*shown, ""])


def _excerpt(number: int, column: int, line: str, match: str) -> list[str]:
    """Return the line and a caret under `column`, however wide the characters before it are."""
    start = min(column - 1, len(line))
    matched = _lines(match)[0]
    length = len(matched) if matched and line.startswith(matched, start) else 1
    first = max(0, start - _LEAD) if len(line) > MAX_LINE else 0
    window = line[first : first + MAX_LINE]
    before = _layout(window[: start - first])
    marked = _layout(window[start - first : start - first + length], before.width)
    rest = _layout(window[start - first + length :], before.width + marked.width)
    cut = "…" if first else ""
    gutter = f"{number:>5} | "
    source = (
        f"{gutter}{cut}{before.text}{marked.text}{rest.text}{'…' if first + MAX_LINE < len(line) else ''}"
    )
    caret = " " * (len(gutter) - 2) + "| " + " " * (len(cut) + before.width) + "^" + "~" * (marked.width - 1)
    return [source.rstrip(), caret]


class _Layout(NamedTuple):
    text: str
    width: int


def _layout(text: str, start: int = 0) -> _Layout:
    """Expand tabs, spell invisible characters out, and count the cells this takes."""
    shown, width = "", 0
    for character in text:
        if character == "\t":
            piece = " " * (_TAB - (start + width) % _TAB)
        elif character.isprintable():
            piece = character
        else:
            piece = f"<U+{ord(character):04X}>"
        shown += piece
        width += sum(_cells(part) for part in piece)
    return _Layout(shown, width)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
