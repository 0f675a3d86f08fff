from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from skillgate.bench.journal import Journal, Sums, Who, past_costs
from skillgate.core import Cell, Grade, GradeKind, Outcome, Run
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.values import Usage

WHO = Who("a", "m")
CELL = Cell(task="s/t", arm="head", repeat=0)
OTHER = Cell(task="s/t", arm="base", repeat=0)
GRADES = (Grade(grader="g", kind=GradeKind.FAIL_TO_PASS, passed=True),)
RUN = Run(cell=CELL, outcome=Outcome.PASSED, grades=GRADES, usage=Usage(usd_micros=30))


def test_a_finished_run_comes_back_whole_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.sqlite"
    with Journal(path) as journal:
        assert journal.open_gate("k", resume=False) is False
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
    with Journal(path) as journal:
        assert journal.open_gate("k", resume=True) is True
        assert journal.finished("e") == {CELL: RUN}
        assert journal.finished("another evaluation") == {}


def test_without_resume_and_with_another_key_a_gate_starts_empty(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
        for key, resume in (("k", False), ("other", True)):
            assert journal.open_gate(key, resume=resume) is False
            assert (journal.finished("e"), journal.sums()) == ({}, Sums(0, 0))


def test_an_attempt_that_never_ended_keeps_its_hold(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.begin("e", WHO, OTHER, 70)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=True)
        assert (journal.sums(), set(journal.finished("e"))) == (Sums(30, 70), {CELL})
        assert (journal.sums("e"), journal.sums("another")) == (Sums(30, 70), Sums(0, 0))


def test_a_lost_cost_stays_held_and_an_unscored_run_is_not_finished(tmp_path: Path) -> None:
    invalid = Run(cell=CELL, outcome=Outcome.INVALID, reason="outage", usage=Usage(usd_micros=5))
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), invalid, cost_known=False)
        journal.end(journal.begin("e", WHO, CELL, 100), invalid, cost_known=True)
        assert (journal.sums(), journal.finished("e")) == (Sums(5, 100), {})


def test_a_cell_has_one_final_run(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
        with pytest.raises(sqlite3.IntegrityError):
            journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    code = "import sys, pathlib, skillgate.bench.journal as j; j.Journal(pathlib.Path(sys.argv[1]))"
    with Journal(tmp_path / "j"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "j")], capture_output=True, text=True
        )
    assert "another skillgate is using this journal" in done.stderr
    with Journal(tmp_path / "j"):
        pass


def test_a_file_that_is_no_journal_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"something else entirely" * 50)
    with pytest.raises(UsageError, match="not a journal of skillgate"):
        Journal(path)
    assert path.read_bytes() == b"something else entirely" * 50


def test_a_full_disk_says_how_to_go_on_and_loses_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
        pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
        journal._db.execute(f"PRAGMA max_page_count = {pages}")
        big = Run(cell=OTHER, outcome=Outcome.FAILED, grades=GRADES, reason="x" * 100_000)
        with pytest.raises(PrerequisiteError) as caught:
            journal.end(journal.begin("e", WHO, OTHER, 100), big, cost_known=True)
    assert "full" in caught.value.message
    assert "--resume" in caught.value.hint
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=True)
        assert (journal.finished("e"), journal.sums()) == ({CELL: RUN}, Sums(30, 100))


def test_a_damaged_journal_is_named_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.open_gate("k", resume=False)
        for _ in range(200):
            journal.begin("e", WHO, CELL, 100)
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="the journal is damaged"), Journal(path) as journal:
        journal.open_gate("k", resume=True)


def test_past_costs_are_those_of_scored_runs_of_these_tasks_and_this_agent(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert past_costs(path, WHO, ["s/t"], resume=False) == ()
    with Journal(path) as journal:
        for key in ("first", "second"):
            journal.open_gate(key, resume=False)
            journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
            journal.end(journal.begin("e", Who("a", "other"), OTHER, 100), RUN, cost_known=True)
            journal.begin("e", WHO, OTHER, 100)
        assert past_costs(path, WHO, ["s/t", "s/u"], resume=False) == (30, 30)
        assert past_costs(path, WHO, ["s/t"], resume=True) == (30,)
        assert past_costs(path, WHO, ["s/u"], resume=False) == ()
    path.write_bytes(b"x" * 5000)
    assert past_costs(path, WHO, ["s/t"], resume=False) == ()
