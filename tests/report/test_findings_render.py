"""What `lint` prints: the caret under the exact character, the summary, the JSON."""

from __future__ import annotations

import json

import pytest

from skillgate.core import Finding
from skillgate.report.findings import Counts, render_json, render_text
from skillgate.values import Location, Severity

PATH = "skills/x/SKILL.md"


def finding(line: int = 1, column: int = 1, match: str = "", **fields: object) -> Finding:
    values = {
        "rule": "hardcoded-path",
        "severity": Severity.WARNING,
        "scope": "evidence",
        "message": "a fixed path",
    }
    return Finding(**(values | fields), where=Location(path=PATH, line=line, column=column), match=match)


def excerpt(text: str, line: int, column: int, match: str = "") -> list[str]:
    """Return source line and caret, without what frames them."""
    lines = render_text([finding(line, column, match)], {PATH: text}, Counts(3, 2)).split("\n")
    return [shown[8:] for shown in lines[1:3]]


@pytest.mark.parametrize(
    ("text", "line", "column", "match", "expected"),
    [
        ("one\nwrite to /tmp/x now\n", 2, 10, "/tmp/x", ["write to /tmp/x now", "         ^~~~~~"]),
        ("one\r\nab /tmp\r\n", 2, 4, "/tmp", ["ab /tmp", "   ^~~~"]),
        ("one\rab /tmp\r", 2, 4, "/tmp", ["ab /tmp", "   ^~~~"]),
        ("\ufeff---\n", 1, 1, "---", ["---", "^~~"]),
        ("\tx\ty", 1, 4, "y", ["    x   y", "        ^"]),
        ("a\tb", 1, 2, "\t", ["a   b", " ^~~"]),
        ("漢字 x", 1, 4, "x", ["漢字 x", "     ^"]),
        ("e\u0301 x", 1, 4, "x", ["e\u0301 x", "  ^"]),
        ("a\u200bb", 1, 2, "\u200b", ["a<U+200B>b", " ^~~~~~~~"]),
        ("a\x1b[31mb", 1, 8, "", ["a<U+001B>[31mb", "              ^"]),
        ("two\nlines", 1, 1, "two\nlines", ["two", "^~~"]),
        ("short", 1, 99, "", ["short", "     ^"]),
        ("other text", 1, 1, "not here", ["other text", "^"]),
        ("\n\n", 2, 1, "", ["", "^"]),
    ],
)
def test_caret(text: str, line: int, column: int, match: str, expected: list[str]) -> None:
    assert excerpt(text, line, column, match) == expected


def test_a_long_line_is_shown_around_the_caret() -> None:
    source, caret = excerpt("a" * 300 + "HERE" + "b" * 300, 1, 301, "HERE")
    assert source == "…" + "a" * 40 + "HERE" + "b" * 66 + "…"
    assert caret == " " * 41 + "^~~~"


def test_whole_text() -> None:
    found = [
        finding(3, 7, "/tmp/x", hint="Leave the path to the task.", evidence="arXiv 2603.15401"),
        finding(9, 1, severity=Severity.ERROR, message="not\nin the \x1b[31msource", rule="r"),
        Finding(
            rule="n", severity=Severity.NOTE, scope="s", message="m", where=Location(path="other/SKILL.md")
        ),
    ]
    assert render_text(found, {PATH: "---\n---\nWrite /tmp/x\n"}, Counts(3, 2)) == (
        "skills/x/SKILL.md:3:7: warning: a fixed path [hardcoded-path]\n"
        "    3 | Write /tmp/x\n"
        "      |       ^~~~~~\n"
        "  hint: Leave the path to the task.\n"
        "  evidence: arXiv 2603.15401\n"
        "\n"
        "skills/x/SKILL.md:9:1: error: not in the [31msource [r]\n"
        "\n"
        "other/SKILL.md:1:1: note: m [n]\n"
        "\n"
        "1 error, 1 warning, 1 note in 2 of 3 skills.\n"
    )


def test_no_other_finding_shows_the_line_of_a_secret() -> None:
    found = [
        finding(2, 1, "key", rule="r"),
        finding(2, 7, redacted=True),
        finding(9, 1, rule="r", redacted=True),
    ]
    assert "s3cr3t" not in render_text(found, {PATH: "key:\nkey = s3cr3t\n"}, Counts(3, 2))


def test_the_line_of_a_secret_is_never_shown() -> None:
    found = [finding(2, 7, redacted=True, message="this may be a key"), finding(1, 1, "key", rule="r")]
    shown = render_text(found, {PATH: "key:\nkey = s3cr3t\n"}, Counts(3, 2))
    assert shown == (
        "skills/x/SKILL.md:2:7: warning: this may be a key [hardcoded-path]\n"
        "\n"
        "skills/x/SKILL.md:1:1: warning: a fixed path [r]\n"
        "    1 | key:\n"
        "      | ^~~\n"
        "\n"
        "2 warnings in 2 of 3 skills.\n"
    )


def test_the_evidence_of_a_rule_is_told_once() -> None:
    found = [finding(line, rule=rule, evidence=f"of {rule}") for line, rule in enumerate("abab", 1)]
    remarks = [line for line in render_text(found, {}, Counts(3, 2)).splitlines() if line.startswith(" ")]
    assert remarks == ["  evidence: of a", "  evidence: of b"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (Counts(3), " in 3 skills."),
        (Counts(0), " in 0 skills."),
        (Counts(1, ignored=4), " in 1 skill. 4 ignored by comments."),
        (Counts(1, baselined=2), " in 1 skill. 2 ignored by the baseline."),
        (Counts(1, ignored=4, baselined=1_200), " in 1 skill. 4 ignored by comments, 1,200 by the baseline."),
        (Counts(1, hidden=5, ignored=4), " in 1 skill. 5 below this level not shown. 4 ignored by comments."),
        (Counts(1, stale=1), " in 1 skill. 1 line of the baseline matches nothing any more: write it again."),
        (Counts(1, stale=3), " in 1 skill. 3 lines of the baseline match nothing any more: write it again."),
        (Counts(50, told=2, mendable=1), " in 2 of 50 skills; 1 can be mended with --fix."),
    ],
)
def test_what_is_not_shown_is_counted(counts: Counts, expected: str) -> None:
    if not counts.told:
        assert render_text([], {}, counts) == f"No findings{expected}\n"
    assert render_text([finding()], {}, counts).endswith(f"\n\n1 warning{expected}\n")


def test_nothing_found() -> None:
    assert json.loads(render_json([], Counts(3, ignored=4, baselined=2, stale=1))) == {
        "schema": 1,
        "skills": 3,
        "ignored": 4,
        "baselined": 2,
        "stale": 1,
        "findings": [],
    }


def test_json_has_the_names_of_the_types() -> None:
    assert json.loads(render_json([finding(3, 7, "/tmp/x")], Counts(1))) == {
        "schema": 1,
        "skills": 1,
        "ignored": 0,
        "baselined": 0,
        "stale": 0,
        "findings": [
            {
                "rule": "hardcoded-path",
                "severity": "warning",
                "scope": "evidence",
                "message": "a fixed path",
                "where": {"path": PATH, "line": 3, "column": 7},
                "hint": "",
                "evidence": "",
                "match": "/tmp/x",
                "redacted": False,
                "at_base": False,
            }
        ],
    }
