"""Workflow commands: escaped, most severe first, never more than GitHub shows."""

from __future__ import annotations

from skillgate.core import Finding
from skillgate.report.annotations import render
from skillgate.values import Location, Severity


def finding(severity: Severity, line: int = 1, **fields: str) -> Finding:
    values = {"rule": "r", "scope": "spec", "message": "m"} | fields
    path = values.pop("path", "SKILL.md")
    return Finding(severity=severity, where=Location(path=path, line=line, column=2), **values)


def test_one_of_each_level() -> None:
    found = [finding(Severity.NOTE), finding(Severity.ERROR, hint="Do this."), finding(Severity.WARNING)]
    assert render(found) == (
        "::error file=SKILL.md,line=1,col=2,title=r::m. Do this.\n"
        "::warning file=SKILL.md,line=1,col=2,title=r::m\n"
        "::notice file=SKILL.md,line=1,col=2,title=r::m\n"
    )


def test_nothing_is_nothing() -> None:
    assert render([]) == ""


def test_properties_and_message_are_escaped() -> None:
    found = finding(
        Severity.ERROR,
        path="a,b:c%/SKILL.md",
        rule="x::y,z",
        message="100 %\r\n::error::injected\n##[error]\u202eagain: a, b",
    )
    assert render([found]) == (
        "::error file=a%2Cb%3Ac%25/SKILL.md,line=1,col=2,title=x%3A%3Ay%2Cz"
        "::100 %25 ::error::injected ##[error]again: a, b\n"
    )


def test_nine_and_how_many_more_per_level() -> None:
    errors = [finding(Severity.ERROR, line) for line in range(12, 0, -1)]
    warnings = [finding(Severity.WARNING, line) for line in range(1, 10)]
    lines = render([*warnings, *errors]).splitlines()
    assert lines[:10] == [
        *(f"::error file=SKILL.md,line={n},col=2,title=r::m" for n in range(1, 10)),
        "::error title=skillgate::and 3 more",
    ]
    assert lines[10:] == [f"::warning file=SKILL.md,line={n},col=2,title=r::m" for n in range(1, 10)]
