"""What `skillgate rules --check` says of the examples of a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.errors import ExitCode

RULE = """\
id: no-x
title: An x
severity: error
scope: evidence
check: pattern
with: {where: all, patterns: {x: "XX[0-9]"}}
message: "`{match}` is an x"
hint: Remove it.
why: It harms.
evidence: [{source: our handbook, says: no x}]
since: 1.0.0
examples: {bad: ["see XX1", "and XX2"], good: ["see xx", "or x"]}
"""


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (("", ""), []),
        (("XX2", "XX"), ["bad example 2 does not give `no-x`"]),
        (("see xx", "see XX3"), ["good example 1 gives `no-x`, line 1: `XX3` is an x"]),
        (("or x", "or {match} XX4"), ["good example 2 gives `no-x`, line 1: `XX4` is an x"]),
        (
            ("Remove it", "Remove {what}"),
            ["`{what}` is filled by nothing: the check `pattern` gives no such value"],
        ),
    ],
)
def test_a_rule_of_ones_own_is_checked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    wrong: list[str],
) -> None:
    (tmp_path / "skillgate.yml").write_text("lint: {rule-files: [house]}")
    (tmp_path / "house").mkdir()
    (tmp_path / "house/no-x.yml").write_text(RULE.replace(*change) if change[0] else RULE)
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "no-x", "--check"]) == (ExitCode.USAGE if wrong else ExitCode.OK)
    said = capsys.readouterr().out.splitlines()
    path = tmp_path / "house/no-x.yml"
    assert said == ([f"{path}: {one}" for one in wrong] or ["The examples of 1 rules are right."])


def test_all_rules_are_checked_ours_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "--check"]) == ExitCode.OK
    assert capsys.readouterr().out.endswith(" rules are right.\n")
    assert main(["rules", "broken-referenc"]) == ExitCode.USAGE
    assert "Did you mean `broken-reference`?" in capsys.readouterr().err
    assert main(["rules", "zzzz"]) == ExitCode.USAGE
    assert "List them with `skillgate rules`." in capsys.readouterr().err
