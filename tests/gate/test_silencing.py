"""What a pull request may silence: never the rules that guard against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.runner import Quiet
from skillgate.core import GateReport
from skillgate.gate.pipeline import Options, gate_range
from skillgate.lint.sift import write_baseline
from skillgate.linting import Request, lint_paths

GUARD = """\
id: guard
title: A security rule
severity: error
scope: security
check: pattern
with: {patterns: {guard: "EVIL[0-9]"}, where: all}
message: "{match} stands here"
hint: Remove it.
why: It harms.
evidence: [{source: us, says: so}]
since: 0.2.0
examples: {bad: [x], good: [y]}
"""
CONFIG = "lint: {rule-files: [house]}\n"
COMMENT = "<!-- skillgate: ignore guard, hardcoded-path: it is so -->\n"
BAD = "EVIL1 `/Users/alice/x`\n"
KNOWN = ("guard", "hardcoded-path", "suppression")


@pytest.fixture
def guarded(repo: Any) -> Any:
    repo.write("house/guard.yml", GUARD)
    repo.write("skillgate.yml", CONFIG)
    repo.commit()
    return repo


def gate(repo: Any, tmp_path: Path) -> GateReport:
    repo.commit()
    options = Options(out=tmp_path / "out", why_not="lint only", python_bin=Path("/usr/bin"))
    return gate_range(repo.folder, "HEAD~1", "HEAD", options, Quiet())


def told(repo: Any, tmp_path: Path) -> list[str]:
    (report,) = gate(repo, tmp_path).reports
    return [f"{f.where.line} {f.rule}" for f in report.findings if f.rule in KNOWN]


def test_a_new_comment_silences_all_but_security(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", COMMENT + BAD)
    assert told(guarded, tmp_path) == ["9 guard"]


def test_a_comment_counts_where_the_base_had_the_same_finding_silenced(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", COMMENT + BAD)
    guarded.commit()
    guarded.skill("calc", f"First.\n\n{COMMENT}{BAD}Then EVIL2.\n")
    assert told(guarded, tmp_path) == ["12 guard"]
    guarded.skill("calc", BAD + "Then EVIL2.\n")
    assert told(guarded, tmp_path) == ["8 guard", "8 hardcoded-path", "9 guard"]
    guarded.skill("calc", COMMENT + BAD)
    assert told(guarded, tmp_path) == ["9 guard"], "the base has it, and no comment there"


def test_a_comment_without_a_reason_at_the_base_gives_no_right(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", COMMENT.replace(": it is so", "") + BAD)
    guarded.commit()
    guarded.skill("calc", COMMENT + BAD)
    assert told(guarded, tmp_path) == ["9 guard"]


def test_a_skill_that_moved_is_judged_anew(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", COMMENT + BAD)
    guarded.commit()
    guarded.git("mv", "skills/calc", "skills/other")
    assert told(guarded, tmp_path) == ["9 guard"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("skillgate.yml", "lint: {rule-files: [house], rules: {guard: off}}"),
        ("skillgate.yml", "lint: {rule-files: [house], rules: {guard: note}}"),
        ("skillgate.yml", "lint: {rule-files: [house], paths: {'**': {guard: off}}}"),
        ("skillgate.yml", "lint: {rule-files: [house], fail-on: none}"),
        ("skillgate.yml", "lint: {rule-files: [house], baseline: known.json}"),
        ("skillgate.yml", "{}"),
        ("house/guard.yml", GUARD.replace("EVIL", "GOOD")),
        ("house/guard.yml", GUARD.replace("security", "style")),
        ("house/guard.yml", "nonsense"),
    ],
)
def test_what_judges_is_read_at_the_base(guarded: Any, tmp_path: Path, path: str, text: str) -> None:
    guarded.skill("calc", BAD)
    guarded.write("known.json", known(guarded))
    guarded.write(path, text)
    report = gate(guarded, tmp_path)
    (one,) = report.reports
    assert [(f.rule, f.severity.value) for f in one.findings if f.rule == "guard"] == [("guard", "error")]
    assert not report.passes


def known(repo: Any) -> str:
    """Write down what a baseline would need to silence the finding."""
    return write_baseline(lint_paths(Request([], repo.folder)).findings)


def test_the_baseline_of_the_base_holds_for_security_too(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", BAD)
    guarded.write("known.json", known(guarded))
    guarded.write("skillgate.yml", "lint: {rule-files: [house], baseline: known.json}")
    guarded.commit()
    guarded.skill("calc", f"First.\n\n{BAD}\nThen EVIL2.\n")
    guarded.write("known.json", known(guarded))
    assert told(guarded, tmp_path) == ["12 guard"]


def test_a_change_that_brings_the_configuration_or_the_baseline_does_not_choose_its_rules(
    repo: Any, tmp_path: Path
) -> None:
    repo.git("rm", "-q", "skillgate.yml")
    repo.skill("calc", "Run `/Users/alice/x`.")
    repo.commit()
    repo.write("skillgate.yml", "lint: {rules: {hardcoded-path: off}, fail-on: none}\n")
    repo.skill("calc", "Then run `/Users/alice/x`.")
    assert told(repo, tmp_path) == ["8 hardcoded-path"]
    repo.write("skillgate.yml", "lint: {baseline: known.json}\n")
    repo.commit()
    found = lint_paths(Request([repo.folder / "skills"], repo.folder, forget=True))
    repo.write("known.json", write_baseline(found.sifted.findings))
    repo.skill("calc", "Now run `/Users/alice/x`.")
    assert told(repo, tmp_path) == ["8 hardcoded-path"]


def test_what_the_base_has_too_is_marked_and_told_last(repo: Any, tmp_path: Path) -> None:
    repo.skill("calc", "First `/Users/alice/x`.")
    repo.commit()
    repo.git("mv", "skills/calc", "skills/other")
    repo.skill("other", "First `/Users/alice/x`.\n\nThen `/Users/bob/x`.")
    report = gate(repo, tmp_path)
    (one,) = report.reports
    told = [(f.where.line, f.at_base) for f in one.findings if f.rule == "hardcoded-path"]
    assert told == [(8, True), (10, False)]
    assert one.change.old_path == "skills/calc"


def test_the_headline_names_what_is_new(guarded: Any, tmp_path: Path) -> None:
    guarded.skill("calc", "EVIL1\n")
    guarded.commit()
    guarded.skill("calc", "EVIL1\n\nEVIL1 and EVIL2\n")
    report = gate(guarded, tmp_path)
    (one,) = report.reports
    assert [f.statement for f in one.findings if f.rule == "guard"] == [
        "EVIL1 stands here (already there before this change)",
        "EVIL1 stands here",
        "EVIL2 stands here",
    ]
    assert one.verdict.reasons[0].startswith("3 findings block at fail-on `error`; worst: guard at ")
    assert one.verdict.reasons[0].endswith(":10:1: EVIL1 stands here")
    assert not report.passes
