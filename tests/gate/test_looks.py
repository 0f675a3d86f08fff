"""A paired run that stops when the answer is known: real runs of the scripted agent, look by look."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skillgate.bench.entry import ROW, seal_of
from skillgate.bench.runner import Quiet
from skillgate.core import Decision, GateReport, Metric, Outcome, Report, Run, Stop
from skillgate.errors import PrerequisiteError
from skillgate.gate.pipeline import Options, describe_plan, gate_range
from skillgate.report import json as report_json
from skillgate.values import Secret

PYTHON_BIN = Path(sys.executable).parent
NOTHING = "{moves: {nothing: 1}, input: {median: 9000}, output: {median: 900}}"
ORACLE = "{moves: {oracle: 1}, input: {median: 9000}, output: {median: 900}}"
MIXED = "{moves: {oracle: 1, nothing: 1}, input: {median: 9000}, output: {median: 900}}"
TASKS = tuple(f"task-{letter}" for letter in "abcdef")


def script(none: str, base: str, head: str) -> str:
    arms = f"  none: {none}\n  base: {base}\n  head: {head}\n"
    return f"price: {{input: 2.0, output: 10.0}}\narms:\n{arms}"


class Notes(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def six(repo: Any) -> Any:
    """A repository whose suite has six tasks, and plays what a test writes."""
    tasks = repo.folder / "suites/tiny/tasks"
    for name in TASKS:
        shutil.copytree(tasks / "add-double", tasks / name)
    shutil.rmtree(tasks / "add-double")
    return repo


def play(six: Any, none: str, base: str, head: str) -> None:
    six.write("script.yml", script(none, base, head))
    six.commit()
    six.skill("calc", "Write `double` first.")
    six.commit()


def another_head(six: Any) -> None:
    """Keep the base, and let the head be another one."""
    six.skill("calc", "Another text.")
    six.git("add", "-A")
    six.git("commit", "-q", "--amend", "--no-edit")


def gate(repo: Any, out: Path, notes: Notes | None = None, **run: Any) -> GateReport:
    run = {"repeats": 5, "budget_usd": 50.0, **run}
    resume = run.pop("resume", False)
    options = Options(out=out, python_bin=PYTHON_BIN, run=run, resume=resume)
    return gate_range(repo.folder, "HEAD~1", "HEAD", options, notes or Notes())


def repeats_of(report: Report) -> dict[str, int]:
    """Count by arm how many repeats ran."""
    found = Counter(run.cell.arm for run in report.runs if run.outcome is not Outcome.SKIPPED)
    return {arm: runs / len(TASKS) for arm, runs in found.items()}


def test_it_stops_at_the_first_look_when_the_answer_is_plain(six: Any, tmp_path: Path) -> None:
    play(six, NOTHING, NOTHING, ORACLE)
    (report,) = gate(six, tmp_path / "out").reports

    assert report.verdict.decision is Decision.MERGE
    (look,) = report.looks
    assert (look.repeats, look.planned, look.stop) == (2, 5, Stop.DECIDED)
    assert look.level == pytest.approx(1 - 0.000788, abs=1e-5)
    assert repeats_of(report) == {"base": 2, "head": 2, "none": 2}
    assert report.plan is not None
    assert report.spend.saved_runs == len(report.plan.cells) - len(report.runs) == 54
    assert report.spend.saved_usd_micros == 54 * report.plan.expected_run_usd_micros
    scores = report.comparison(Metric.PASS_RATIO)
    assert scores is not None
    assert scores.interval is not None
    assert (scores.interval.level, scores.n_dropped) == (look.level, 0)


def test_a_drop_blocks_at_the_first_look(six: Any, tmp_path: Path) -> None:
    play(six, NOTHING, ORACLE, NOTHING)
    (report,) = gate(six, tmp_path / "out").reports
    assert (report.verdict.decision, [look.stop for look in report.looks]) == (
        Decision.BLOCK,
        [Stop.DECIDED],
    )


@pytest.mark.long
def test_without_early_stops_or_with_three_repeats_there_is_one_look(six: Any, tmp_path: Path) -> None:
    play(six, NOTHING, NOTHING, ORACLE)
    (whole,) = gate(six, tmp_path / "a", stop_early=False).reports
    assert [(look.repeats, look.stop) for look in whole.looks] == [(5, Stop.LAST)]
    assert whole.looks[0].level == pytest.approx(0.95)
    (short,) = gate(six, tmp_path / "b", repeats=3).reports
    assert [(look.repeats, look.stop) for look in short.looks] == [(3, Stop.LAST)]
    assert (whole.spend.saved_runs, short.spend.saved_runs) == (0, 0)


@pytest.mark.long
def test_an_open_question_is_looked_at_until_the_end(six: Any, tmp_path: Path) -> None:
    play(six, MIXED, MIXED, MIXED)
    (report,) = gate(six, tmp_path / "out").reports
    stops = [look.stop for look in report.looks]
    assert len(stops) > 1
    assert stops[:-1] == [None] * (len(stops) - 1)
    assert [look.repeats for look in report.looks] == [2, 3, 4, 5][: len(stops)]
    levels = [look.level for look in report.looks]
    assert levels == sorted(levels, reverse=True)
    assert set(repeats_of(report).values()) == {report.looks[-1].repeats}


def test_graders_that_nothing_can_pass_end_it_at_once(six: Any, tmp_path: Path) -> None:
    for name in TASKS:
        task = six.folder / f"suites/tiny/tasks/{name}/task.yml"
        task.write_text(task.read_text().replace("python3 -IB tests/test_add.py", "exit 1"))
    play(six, NOTHING, NOTHING, ORACLE)
    (report,) = gate(six, tmp_path / "out").reports
    assert (report.verdict.decision, report.looks[-1].stop) == (Decision.INCONCLUSIVE, Stop.BROKEN)
    assert set(repeats_of(report)) == {"base", "head"}  # nothing more was spent on a third arm


def test_money_that_ends_in_the_middle_leaves_the_look_that_was_under_way(six: Any, tmp_path: Path) -> None:
    costly = MIXED.replace("9000", "40000")
    play(six, costly, costly, costly)
    (report,) = gate(six, tmp_path / "out", budget_usd=3.2, per_run_usd=0.3).reports
    look = report.looks[-1]
    assert look.stop is Stop.CUT
    assert report.spend.skipped_runs > 0
    assert report.spend.spent_usd_micros + report.spend.held_usd_micros <= 3_200_000
    scores = report.comparison(Metric.PASS_RATIO)
    assert scores is not None
    assert scores.n_dropped == 0  # what the money did not reach was not lost by a fault
    assert scores.tasks == len(TASKS)


@pytest.mark.long
def test_a_resumed_gate_takes_the_same_looks(six: Any, tmp_path: Path) -> None:
    play(six, MIXED, MIXED, MIXED)
    first = gate(six, tmp_path / "out")
    again = gate(six, tmp_path / "out", resume=True)
    assert (again.reports[0].looks, again.reports[0].verdict) == (
        first.reports[0].looks,
        first.reports[0].verdict,
    )
    assert again.spend == first.spend


def test_a_second_gate_reuses_the_baseline_and_pays_for_the_head_and_one_fresh_repeat(
    six: Any, tmp_path: Path
) -> None:
    play(six, MIXED, MIXED, MIXED)
    out = tmp_path / "out"
    (first,) = gate(six, out, stop_early=False).reports
    another_head(six)
    (second,) = gate(six, out, stop_early=False).reports

    assert first.spend.reused_runs == 0
    # all but the first repeat of base and none, and a fifth of the base beyond the five of the head
    assert second.spend.reused_runs == len(TASKS) * (4 * 2 + 1)
    scores = second.comparison(Metric.PASS_RATIO)
    assert scores is not None
    assert (scores.n_pairs, scores.n_unpaired) == (5 * len(TASKS), len(TASKS))
    fresh = [run for run in second.runs if run.cell.arm == "base" and run.cell.repeat == 0]
    assert len(fresh) == len(TASKS)
    assert second.spend.runs == len(TASKS) * (5 + 1 + 1)
    assert second.spend.spent_usd_micros < first.spend.spent_usd_micros / 2
    cached = {(r.cell, r.usage, r.grades) for r in first.runs if r.cell.arm == "base"}
    assert {r.usage for r in second.runs if r.cell.arm == "base"} <= {usage for _, usage, _ in cached}
    (third,) = gate(six, out, stop_early=False, cache_days=0).reports
    assert third.spend.reused_runs == 0


@pytest.mark.long
def test_a_baseline_that_no_longer_holds_is_run_again(six: Any, tmp_path: Path) -> None:
    """The script is the same file; what the agent does with it is not what the journal says."""
    play(six, ORACLE, ORACLE, ORACLE)
    out = tmp_path / "out"
    gate(six, out, stop_early=False, seed=1)
    another_head(six)
    spoil(out / "journal.sqlite")
    report = gate(six, out, stop_early=False, seed=1)
    (one,) = report.reports
    assert one.spend.reused_runs == 0
    assert repeats_of(one)["base"] == 5
    assert any("were not reused" in reason for reason in one.verdict.reasons)


@pytest.mark.long
def test_doubt_about_a_third_arm_leaves_the_pair_that_decided(six: Any, tmp_path: Path) -> None:
    play(six, ORACLE, ORACLE, ORACLE)
    out = tmp_path / "out"
    gate(six, out, stop_early=False, repeats=3)
    another_head(six)
    spoil(out / "journal.sqlite", "none")
    (one,) = gate(six, out, stop_early=False, repeats=3).reports
    assert one.spend.reused_runs == len(TASKS) * 3  # of the base, one of each task beyond the head's
    assert one.spend.runs == len(TASKS) * (3 + 1 + 3)
    assert sum("were not reused" in reason for reason in one.verdict.reasons) == 1


def spoil(path: Path, arm: str = "%") -> None:
    """Make all earlier runs failures, as a weaker model would have, and seal them well."""
    with closing(sqlite3.connect(path)) as db, db:
        for number, blob in db.execute("SELECT id, run FROM attempts WHERE arm LIKE ?", (arm,)).fetchall():
            run = msgspec.json.decode(blob, type=Run)
            grades = tuple(msgspec.structs.replace(grade, passed=False) for grade in run.grades)
            worse = msgspec.structs.replace(run, grades=grades, outcome=Outcome.FAILED)
            db.execute("UPDATE attempts SET run = ? WHERE id = ?", (msgspec.json.encode(worse), number))
            row = db.execute(f"SELECT {ROW} FROM attempts WHERE id = ?", (number,)).fetchone()
            db.execute("UPDATE attempts SET seal = ? WHERE id = ?", (seal_of(row, b""), number))


def test_a_journal_that_was_edited_is_not_believed(six: Any, tmp_path: Path) -> None:
    play(six, ORACLE, ORACLE, ORACLE)
    out = tmp_path / "out"
    gate(six, out, stop_early=False, repeats=2)
    another_head(six)
    with closing(sqlite3.connect(out / "journal.sqlite")) as db, db:
        db.execute("UPDATE attempts SET run = replace(run, 'passed', 'failed') WHERE arm = 'base'")
    (one,) = gate(six, out, stop_early=False, repeats=2).reports
    assert one.spend.reused_runs == len(TASKS) * 1  # of the arm none alone
    assert any("earlier runs refused: " in reason for reason in one.verdict.reasons)


def test_skills_of_one_gate_share_the_runs_without_a_skill(six: Any, tmp_path: Path) -> None:
    six.write("script.yml", script(NOTHING, NOTHING, ORACLE))
    six.commit()
    six.skill("one", "One.")
    six.skill("two", "Two.")
    six.commit()
    report = gate(six, tmp_path / "out", stop_early=False, repeats=2)
    assert [one.skill for one in report.reports] == ["skills/one", "skills/two"]
    assert [one.spend.reused_runs for one in report.reports] == [0, 2 * len(TASKS)]
    assert report.spend.runs == 2 * len(TASKS) * 3
    assert {one.verdict.decision for one in report.reports} == {Decision.MERGE}
    assert [one.skills_compared for one in report.reports] == [2, 2]
    assert report.spend.spent_usd_micros == sum(one.spend.spent_usd_micros for one in report.reports)


def test_money_that_one_skill_did_not_need_flows_on(six: Any, tmp_path: Path) -> None:
    six.write("script.yml", script(NOTHING, NOTHING, ORACLE))
    six.commit()
    six.skill("one", "One.")
    six.skill("two", "Two.")
    six.commit()
    report = gate(six, tmp_path / "out", budget_usd=3.0, per_run_usd=0.2, cache_days=0)
    first, second = report.reports
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.repeats < 5  # its part did not pay all
    assert second.plan.cap_usd_micros > first.plan.cap_usd_micros
    assert sum(second.plan.task_repeats.values()) > sum(first.plan.task_repeats.values())


def test_a_plan_says_what_it_can_show_and_what_would_do(six: Any, tmp_path: Path) -> None:
    play(six, MIXED, MIXED, MIXED)

    def told(**run: Any) -> str:
        options = Options(out=tmp_path / "out", python_bin=PYTHON_BIN, run=run)
        return describe_plan(Path("skills/calc"), "HEAD~1", six.folder, options)

    small = told(repeats=2, budget_usd=20)
    assert "TOO SMALL to call an unchanged skill no worse (margin 10 points, power 0.8)" in small
    assert "run.repeats 10 and run.budget-usd 4.96 would do, or more tasks" in small
    assert "power 0.8, sd 0.16 assumed" in small
    assert "enough to call an unchanged skill no worse" in told(repeats=10, budget_usd=20)
    with pytest.raises(PrerequisiteError, match="cannot pay two repeats of 6 tasks in 2 arms") as caught:
        told(budget_usd=1.11)
    assert "at least 1.12" in caught.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_plan_takes_the_spread_from_runs_that_were_sealed_with_our_key(six: Any, tmp_path: Path) -> None:
    play(six, MIXED, MIXED, MIXED)
    sealed = Options(out=tmp_path / "out", python_bin=PYTHON_BIN, journal_key=Secret("ours"))
    run = {"repeats": 3, "budget_usd": 50.0}
    gate_range(six.folder, "HEAD~1", "HEAD", sealed._replace(run=run), Notes())
    told = describe_plan(Path("skills/calc"), "HEAD~1", six.folder, sealed)
    assert "from earlier runs of these tasks)" in told
    other = sealed._replace(journal_key=Secret("theirs"))
    assert "sd 0.16 assumed" in describe_plan(Path("skills/calc"), "HEAD~1", six.folder, other)


def test_a_report_with_looks_round_trips(six: Any, tmp_path: Path) -> None:
    play(six, NOTHING, NOTHING, ORACLE)
    report = gate(six, tmp_path / "out")
    text = (tmp_path / "out/report.json").read_text(encoding="utf-8")
    assert report_json.load(text, "report.json") == report


class Stopper(Notes):
    """Sends a signal to this process when so many runs have ended."""

    def __init__(self, at: int, number: int) -> None:
        super().__init__()
        self.at, self.number, self.done = at, number, 0

    def finish_run(self, run: Run, ledger: Any) -> None:
        self.done += 1
        if self.done == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_end_of_a_wave_starts_no_other_one(six: Any, tmp_path: Path, number: int) -> None:
    play(six, MIXED, MIXED, MIXED)
    stopper = Stopper(2 * 2 * len(TASKS), number)  # the last run of the first wave
    report = gate(six, tmp_path / "out", stopper, workers=1)
    assert (stopper.done, report.is_partial, report.passes) == (stopper.at, True, False)
    assert report.reports[0].looks[-1].stop is Stop.CUT


def test_a_signal_between_two_waves_leaves_a_partial_report(
    six: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(six, MIXED, MIXED, MIXED)

    def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("skillgate.gate.paired.examine", interrupted)
    report = gate(six, tmp_path / "out")
    assert (report.is_partial, report.verdict.decision) == (True, Decision.INCONCLUSIVE)
    assert repeats_of(report.reports[0]) == {"base": 2, "head": 2}
