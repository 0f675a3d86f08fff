"""Journals in, records out: which runs are taken, what is refused, and what a record speaks of."""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skillgate.bench.entry import ROW, seal_of
from skillgate.bench.journal import FILE_NAME as JOURNAL_NAME
from skillgate.bench.journal import Journal, Who
from skillgate.bench.runner import Quiet
from skillgate.core import Calibration, Cell, Grade, GradeKind, Outcome, Policy, Run
from skillgate.errors import ExitCode, PrerequisiteError, UsageError
from skillgate.gate.calibration import Found, Request, calibrate_journal, run_for, save
from skillgate.gate.calibration_record import FILE_NAME, fitting, load_record
from skillgate.gate.case import SAME_CONTENT
from skillgate.gate.contents import ASK, HOW, NOT_MEASURED, Wanted
from skillgate.gate.pipeline import Options, gate_skill
from skillgate.values import Usage

WHO = Who("api", "small")
PYTHON_BIN = Path(sys.executable).parent


def run(task: str, arm: str, repeat: int, passed: int) -> Run:
    """A run that passes so many of four graders."""
    grades = (
        Grade(grader=f"g{number}", kind=GradeKind.FAIL_TO_PASS, passed=number < passed) for number in range(4)
    )
    cell = Cell(task=task, arm=arm, repeat=repeat)
    return Run(cell=cell, outcome=Outcome.FAILED, grades=tuple(grades), usage=Usage(usd_micros=1000 + repeat))


def reseal(db: sqlite3.Connection) -> None:
    """Seal all runs again after a test has changed them."""
    for (number,) in db.execute("SELECT id FROM attempts").fetchall():
        row = db.execute(f"SELECT {ROW} FROM attempts WHERE id = ?", (number,)).fetchone()
        db.execute("UPDATE attempts SET seal = ? WHERE id = ?", (seal_of(row, b""), number))


class Book:
    """A journal that tests write to."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._rng = random.Random(3)

    def add(
        self,
        evaluation: str,
        repeats: int = 4,
        *,
        tasks: tuple[str, ...] = ("s/a", "s/b"),
        arms: tuple[str, ...] = ("none",),
        who: Who = WHO,
        suite: str = "1" * 16,
    ) -> None:
        """Write a gate of one evaluation with random scores."""
        with Journal(self.out / JOURNAL_NAME) as journal:
            journal.open_gate(evaluation, resume=False)
            for task in tasks:
                for arm in arms:
                    for repeat in range(repeats):
                        one = run(task, arm, repeat, self._rng.randrange(5))
                        content = f"{evaluation}/{arm}"
                        number = journal.begin(evaluation, who, one.cell, 10, content, suite)
                        journal.end(number, one, cost_known=True)

    def name_contents(self, *rules: tuple[str, str, str]) -> None:
        """Give runs a content: (evaluation, arm) -> content, each task its own."""
        with closing(sqlite3.connect(self.out / JOURNAL_NAME)) as db, db:
            for evaluation, arm, content in rules:
                db.execute(
                    "UPDATE attempts SET content = ? || task WHERE evaluation = ? AND arm = ?",
                    (content, evaluation, arm),
                )
            reseal(db)

    def calibrate(self, *wanted: Any, **options: Any) -> Found:
        request = Request(self.out, Wanted(*wanted), splits=options.pop("splits", 100), **options)
        return calibrate_journal(request)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "out")


def test_runs_of_two_arms_become_a_record(book: Book) -> None:
    book.add("e", arms=("base", "head"))
    found = book.calibrate(policy=Policy(margin=0.07, level=0.9), seed=5)

    record = found.record
    assert (record.agent, record.model, record.suites) == ("api", "small", {"s": "1" * 16})
    assert (record.tasks, record.runs, record.repeats, record.splits) == (2, 16, 2, 100)
    assert (record.seed, record.margin, record.level) == (5, 0.07, 0.9)
    assert record.called_different.trials == 100
    assert record.sd > 0
    assert {task.task for task in record.flaky} <= {"s/a", "s/b"}
    assert found.notes == (
        "2 sets of like runs (a skill, or none), each split by itself.",
        "There are only 72 different splits: more runs would say more.",
    )


def test_runs_of_one_content_count_together_whatever_gate_they_are_of(book: Book) -> None:
    book.add("first", 3)
    book.add("second", 3)
    with pytest.raises(PrerequisiteError):
        book.calibrate()
    book.name_contents(("first", "none", "x"), ("second", "none", "x"))
    found = book.calibrate()

    assert (found.record.runs, found.record.repeats) == (12, 3)
    assert found.notes == ()


def test_no_run_counts_twice(book: Book) -> None:
    book.add("whole", 4, tasks=("s/a", "s/b", "s/c"))
    book.add("part", 4, tasks=("s/a", "s/b", "s/d"))
    book.name_contents(("whole", "none", "x"), ("part", "none", "x"))

    found = book.calibrate()
    assert (found.record.runs, found.record.tasks, found.notes) == (24, 4, ())


def test_runs_of_a_task_that_did_not_change_count_in_a_new_version_of_the_suite(book: Book) -> None:
    book.add("old", 4, tasks=("s/a", "s/b", "s/gone"), suite="0" * 16)
    book.add("new", 4, tasks=("s/a", "s/b"), suite="2" * 16)
    book.name_contents(("old", "none", "x"), ("new", "none", "y"))
    with closing(sqlite3.connect(book.out / JOURNAL_NAME)) as db, db:
        db.execute("UPDATE attempts SET content = 'same' WHERE task = 's/a'")
        reseal(db)

    found = book.calibrate()
    assert (found.record.suites, found.record.runs, found.record.tasks) == ({"s": "2" * 16}, 12, 2)
    assert found.notes[0] == "Not used: 8 runs of another version."


def test_of_two_versions_of_a_task_the_newer_counts(book: Book) -> None:
    book.add("old", 6, tasks=("s/a", "s/b"))
    book.add("new", 4, tasks=("s/a", "s/b"))
    book.name_contents(("old", "none", "x"), ("new", "none", "y"))
    with closing(sqlite3.connect(book.out / JOURNAL_NAME)) as db, db:
        db.execute("UPDATE attempts SET content = 'same' WHERE task = 's/a'")
        reseal(db)

    found = book.calibrate()
    assert (found.record.runs, found.notes[0]) == (14, "Not used: 6 runs of another version.")


def test_the_agent_and_model_with_most_runs_are_taken_and_the_others_named(book: Book) -> None:
    book.add("e", 4, who=Who("api", "other"))
    book.add("e", 5)
    book.add("e", 8, who=Who("scripted", "scripted"))

    assert book.calibrate().record.model == "small"
    assert book.calibrate().notes[0] == "Not used: 8 runs of api with other."
    assert book.calibrate((), None, "other").record.model == "other"
    scripted = book.calibrate((), None, None, True).record
    assert (scripted.agent, scripted.runs) == ("scripted", 16)


def test_scripted_runs_are_refused_unless_asked_for(book: Book) -> None:
    book.add("e", who=Who("scripted", "scripted"))
    for wanted in (Wanted(), Wanted(agent="scripted")):
        with pytest.raises(UsageError) as caught:
            calibrate_journal(Request(book.out, wanted))
        assert (caught.value.message, caught.value.hint) == (NOT_MEASURED, ASK)


def test_suites_that_are_judged_together_are_one_gate(book: Book) -> None:
    book.add("both", 6, tasks=("s/a", "u/b"))
    book.add("one", 4, tasks=("s/a",))

    found = book.calibrate()
    assert found.record.suites == {"s": "1" * 16, "u": "1" * 16}
    assert found.notes[0] == "Not used: 4 runs of s; name it with --suite."
    alone = book.calibrate(("s",))
    assert (alone.record.suites, alone.record.runs) == ({"s": "1" * 16}, 10)
    with pytest.raises(UsageError, match="no runs of the suite `t`"):
        book.calibrate(("t",))


def test_runs_of_an_older_version_of_the_suite_are_left_aside(book: Book) -> None:
    book.add("old", 8, suite="0" * 16)
    book.add("new", 4, suite="2" * 16)
    found = book.calibrate()
    assert (found.record.suites, found.record.runs) == ({"s": "2" * 16}, 8)
    assert found.notes[0] == "Not used: 16 runs of another version."


def test_runs_without_a_score_do_not_count(book: Book) -> None:
    book.add("e", 4)
    with Journal(book.out / JOURNAL_NAME) as journal:
        journal.open_gate("e", resume=True)
        cell = Cell(task="s/a", arm="none", repeat=7)
        broken = Run(cell=cell, outcome=Outcome.INVALID, reason="outage")
        journal.end(journal.begin("e", WHO, cell, 10), broken, cost_known=True)
        journal.begin("e", WHO, cell, 10)
    assert book.calibrate().record.runs == 8


def test_too_few_runs_say_how_many_more_and_how_to_get_them(book: Book) -> None:
    book.add("e", 3)
    with pytest.raises(PrerequisiteError) as caught:
        book.calibrate()
    assert caught.value.message == (
        "too few runs to calibrate on: a task needs 4 of the same skill, no task has more than 3; "
        "2 more would do"
    )
    assert (caught.value.hint, caught.value.exit_code) == (HOW, ExitCode.PREREQUISITE)
    assert "skillgate calibrate --run --skill DIR" in HOW
    with pytest.raises(PrerequisiteError, match="needs 6 of the same skill"):
        book.calibrate(repeats=3)


@pytest.mark.parametrize("content", [b"something else" * 500, b""])
def test_what_is_no_journal_is_named(book: Book, content: bytes) -> None:
    with pytest.raises(PrerequisiteError, match="there is no journal"):
        book.calibrate()
    book.out.mkdir()
    (book.out / JOURNAL_NAME).write_bytes(content)
    with pytest.raises(PrerequisiteError, match=r"no such runs \(scored: none\)"):
        book.calibrate()


def test_a_damaged_run_does_not_count_and_an_empty_journal_has_nothing(book: Book) -> None:
    book.add("e", 0)
    with pytest.raises(PrerequisiteError, match=r"no such runs \(scored: none\)"):
        book.calibrate()
    book.add("e", 4)
    with closing(sqlite3.connect(book.out / JOURNAL_NAME)) as db, db:
        db.execute("UPDATE attempts SET run = '{}' WHERE id = 3")
    with pytest.raises(PrerequisiteError, match="no task has more than 4"):
        book.calibrate(repeats=3)
    assert book.calibrate().record.tasks == 1


def test_a_gate_that_is_running_does_not_stand_in_the_way(book: Book) -> None:
    book.add("e", 4)
    with Journal(book.out / JOURNAL_NAME):
        assert book.calibrate().record.runs == 8


# --- records ----------------------------------------------------------------------


@pytest.fixture
def record(book: Book) -> Calibration:
    book.add("e", 5)
    return book.calibrate().record


def test_a_record_comes_back_whole(record: Calibration, tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert load_record(out / FILE_NAME) is None
    path = save(record, out)
    assert (path, load_record(path)) == (out / FILE_NAME, record)
    save(replace(record, seed=9), out)
    assert load_record(path) == replace(record, seed=9)
    assert sorted(item.name for item in out.iterdir()) == [".gitignore", FILE_NAME]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a calibration that can be read"),
        ("[]", "not a calibration that can be read"),
        ('{"schema": 1}', "not a calibration that can be read"),
        ('{"schema": 2}', r"of another version of skillgate \(schema 2\)"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        load_record(path)
    assert str(path) in caught.value.message
    assert "skillgate calibrate" in caught.value.hint


@pytest.mark.parametrize(
    ("suites", "agent", "model", "why"),
    [
        ({"s": "1" * 16}, "api", "small", ""),
        ({"s": "2" * 16}, "api", "small", "the suite s has changed since it was calibrated"),
        ({"s": "1" * 16}, "codex", "small", "the calibration is of the agent api, not codex"),
        ({"s": "1" * 16}, "api", "big", "the calibration is of the model small, not big"),
        ({"s": "1" * 16, "u": "1"}, "api", "small", "the calibration is of the suites s, not s, u"),
        ({"u": "1" * 16}, "api", "small", "the calibration is of the suites s, not u"),
    ],
)
def test_a_record_speaks_of_its_suites_agent_and_model_only(
    record: Calibration, suites: dict[str, str], agent: str, model: str, why: str
) -> None:
    assert fitting(record, suites, agent, model) == (None if why else record, why)


def test_a_record_of_an_unknown_version_fits_nothing(record: Calibration) -> None:
    found, why = fitting(replace(record, suites={"s": ""}), {"s": "1" * 16}, "api", "small")
    assert found is None
    assert why == "the calibration does not know of which version of the suite s its runs are"
    assert fitting(None, {}, "api", "small") == (
        None,
        "nobody has calibrated these suites: `skillgate calibrate`",
    )


# --- fresh runs -------------------------------------------------------------------


def options(tmp_path: Path, **run: Any) -> Options:
    return Options(out=tmp_path / "out", python_bin=PYTHON_BIN, run=run)


def test_a_skill_runs_against_itself_in_two_arms_and_leaves_no_report(repo: Any, tmp_path: Path) -> None:
    request = Request(tmp_path / "out", Wanted(scripted=True, agent="scripted"), splits=100)
    ready = run_for(request, Path("skills/calc"), repo.folder, options(tmp_path, repeats=4), Quiet())

    assert ready.wanted == Wanted(("tiny",), "scripted", "scripted", True)
    assert not (tmp_path / "out" / "report.json").exists()
    with closing(sqlite3.connect(tmp_path / "out" / JOURNAL_NAME)) as db:
        arms = dict(db.execute("SELECT arm, COUNT(*) FROM attempts WHERE final GROUP BY arm"))
        suites = {suite for (suite,) in db.execute("SELECT suite FROM attempts")}
    assert arms == {"base": 4, "head": 4}
    found = calibrate_journal(ready).record
    assert (found.runs, found.tasks, found.agent) == (8, 1, "scripted")
    report = gate_skill(
        Path("skills/calc"), "none", repo.folder, options(tmp_path / "gate", repeats=1), Quiet()
    )
    digest = report.reports[0].versions["suite tiny"]
    assert (suites, found.suites) == ({digest}, {"tiny": digest})
    assert fitting(found, {"tiny": digest}, "scripted", "scripted") == (found, "")


def test_a_gate_still_has_nothing_to_compare_in_a_skill_with_itself(repo: Any, tmp_path: Path) -> None:
    report = gate_skill(Path("skills/calc"), "skills/calc", repo.folder, options(tmp_path), Quiet())
    assert report.reports[0].verdict.reasons == (SAME_CONTENT,)


def test_what_would_show_nothing_is_refused_before_it_runs(repo: Any, tmp_path: Path) -> None:
    request = Request(tmp_path / "out", Wanted(agent="scripted"))
    folder = Path("skills/calc")
    with pytest.raises(UsageError, match=NOT_MEASURED):
        run_for(request, folder, repo.folder, options(tmp_path), Quiet())
    request = request._replace(wanted=Wanted(agent="scripted", scripted=True))
    with pytest.raises(UsageError, match="one repeat shows nothing"):
        run_for(request, folder, repo.folder, options(tmp_path, repeats=1), Quiet())
    repo.write("skillgate.yml", "run: {agent: scripted, script: script.yml, sandbox: local}")
    with pytest.raises(UsageError, match="nothing was run: no suite judges this skill"):
        run_for(request, folder, repo.folder, options(tmp_path), Quiet())
    assert not (tmp_path / "out").exists()
