"""Findings -> GitHub workflow commands, which annotate the lines of a pull request.

GitHub shows ten annotations per level and step and drops the rest without a word, so the
tenth says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from skillgate.core import Finding
from skillgate.report.escape import clean
from skillgate.report.rows import severest_first
from skillgate.values import Severity

MAX_SHOWN = 9
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(findings: Iterable[Finding]) -> str:
    """Write one command a line, the most severe first."""
    ordered = severest_first(findings)
    lines: list[str] = []
    for severity in reversed(Severity):
        level = [finding for finding in ordered if finding.severity is severity]
        lines += [_command(finding) for finding in level[:MAX_SHOWN]]
        if len(level) > MAX_SHOWN:
            lines.append(f"::{_COMMANDS[severity]} title=skillgate::and {len(level) - MAX_SHOWN} more")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    where = finding.where
    path, title = _property(clean(where.path)), _property(clean(finding.rule))
    place = f"file={path},line={where.line},col={where.column},title={title}"
    message = ". ".join(part for part in (clean(finding.statement), clean(finding.hint)) if part)
    return f"::{_COMMANDS[finding.severity]} {place}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
