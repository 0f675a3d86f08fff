"""Findings -> what `lint` prints: text with the source line and a caret, or JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from skillgate.core import SCHEMA_VERSION, Finding
from skillgate.report.escape import clean
from skillgate.report.json import write
from skillgate.report.wording import tally

MAX_LINE = 110
_LEAD = 40
_TAB = 4


def render_text(
    findings: Sequence[Finding], sources: Mapping[str, str], ignored: int = 0, baselined: int = 0
) -> str:
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
    summary = " ".join(part for part in (_summary(findings), _suppressed(ignored, baselined)) if part)
    return "\n".join([*blocks, summary]) + "\n"


def render_json(findings: Sequence[Finding], skills: int, ignored: int = 0, baselined: int = 0) -> str:
    """Write the findings and how many skills were linted; field names are those of the types."""
    counts = {"skills": skills, "ignored": ignored, "baselined": baselined}
    return write({"schema": SCHEMA_VERSION, **counts, "findings": findings})


def _lines(text: str) -> list[str]:
    """Split as CommonMark does; a byte order mark is no column."""
    return re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))


def _summary(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No findings."
    files = len({finding.where.path for finding in findings})
    return f"{tally(findings)} in {files} file{'' if files == 1 else 's'}."


def _suppressed(ignored: int, baselined: int) -> str:
    """Count what is not shown, so that a silenced linter does not look like a clean skill."""
    parts = [f"{ignored:,} ignored by comments"] if ignored else []
    if baselined:
        parts.append(f"{baselined:,}{'' if parts else ' ignored'} by the baseline")
    return f"{', '.join(parts)}." if parts else ""


def _finding(finding: Finding, lines: list[str | None], with_evidence: bool) -> str:
    where = finding.where
    line = lines[where.line - 1] if 0 < where.line <= len(lines) else None
    shown = [f"{clean(str(where))}: {finding.severity}: {clean(finding.message)} [{clean(finding.rule)}]"]
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
