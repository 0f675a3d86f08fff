from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from skillgate.bench.history import scored_runs
from skillgate.bench.journal import Journal, Sums, Who
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


VERSION_2 = """
CREATE TABLE gates (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, started TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE attempts (
  id INTEGER PRIMARY KEY, gate INTEGER NOT NULL REFERENCES gates, evaluation TEXT NOT NULL,
  agent TEXT NOT NULL, model TEXT NOT NULL,
  task TEXT NOT NULL, arm TEXT NOT NULL, repeat INTEGER NOT NULL,
  held_usd_micros INTEGER NOT NULL, used_usd_micros INTEGER, final INTEGER NOT NULL DEFAULT 0, run BLOB
);
CREATE UNIQUE INDEX one_final_run ON attempts (gate, evaluation, task, arm, repeat) WHERE final;
"""


def write_version_2(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_2 + "PRAGMA user_version = 2;")
        db.execute("INSERT INTO gates (key) VALUES ('k')")
        columns = (
            "gate, evaluation, agent, model, task, arm, repeat, held_usd_micros, used_usd_micros, final, run"
        )
        rows = [
            (1, "e", "a", "m", "s/t", "head", 0, 100, 30, 1, msgspec.json.encode(RUN)),
            (1, "e", "a", "m", "s/t", "base", 0, 70, None, 0, None),
        ]
        db.executemany(f"INSERT INTO attempts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        db.commit()


def shape(path: Path) -> tuple[object, ...]:
    with closing(sqlite3.connect(path)) as db:
        columns = db.execute(
            "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('attempts')"
        )
        indexes = db.execute("SELECT sql FROM sqlite_master WHERE type = 'index' ORDER BY name")
        version = db.execute("PRAGMA user_version").fetchone()
        return columns.fetchall(), indexes.fetchall(), version


def test_a_journal_of_version_2_goes_on_as_one_of_today_and_its_runs_are_never_reused(tmp_path: Path) -> None:
    write_version_2(tmp_path / "old")
    with Journal(tmp_path / "old") as journal:
        assert journal.open_gate("k", resume=True) is True
        assert (journal.finished("e"), journal.sums()) == ({CELL: RUN}, Sums(30, 70))
        assert journal.used() == (RUN.usage, 1)
        journal.open_gate("next", resume=False)
        assert list(scored_runs(tmp_path / "old")) == []
        journal.end(journal.begin("e", WHO, CELL, 100, "c"), RUN, cost_known=True)
    assert [one.content for one in scored_runs(tmp_path / "old")] == ["c"]
    with Journal(tmp_path / "new"):
        pass
    assert shape(tmp_path / "old") == shape(tmp_path / "new")


KILLED_AT = """
import os, pathlib, signal, sqlite3, sys
import skillgate.bench.journal as journal
class Watched(sqlite3.Connection):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.execute("PRAGMA cache_size = 1")
        self.set_trace_callback(self.see)
    def see(self, statement):
        if sys.argv[2] in statement:
            os.kill(os.getpid(), signal.SIGKILL)
connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Watched, **options)
journal.Journal(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "at", ["COLUMN content", "COLUMN seal", "INDEX by_content", "user_version = 3", "COMMIT"]
)
def test_a_kill_in_the_middle_of_the_change_of_version_leaves_a_usable_file(at: str, tmp_path: Path) -> None:
    path = tmp_path / "j"
    write_version_2(path)
    before = shape(path)
    done = subprocess.run([sys.executable, "-c", KILLED_AT, str(path), at], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert shape(path) == before
    with Journal(path) as journal:
        assert journal.open_gate("k", resume=True)
        assert journal.finished("e") == {CELL: RUN}


def test_a_journal_of_an_unknown_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for version in (1, 4):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        content = path.read_bytes()
        with pytest.raises(UsageError, match=f"version {version} of its format"):
            Journal(path)
        assert path.read_bytes() == content


def test_a_finished_run_that_was_edited_stops_a_resumed_gate(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, b"key") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
    better = msgspec.json.encode(RUN).replace(b'"usd_micros":30', b'"usd_micros":31')
    for change, values in (
        ("run = ?", (better,)),
        ("run = 'no run'", ()),
        ("seal = NULL", ()),
        ("used_usd_micros = 0", ()),
        ("repeat = 1", ()),
    ):
        with closing(sqlite3.connect(path)) as db, Journal(path, b"key") as journal:
            journal.open_gate("k", resume=True)
            assert journal.finished("e") == {CELL: RUN}
            kept = db.execute("SELECT run, seal, used_usd_micros, repeat FROM attempts").fetchone()
            db.execute(f"UPDATE attempts SET {change}", values)
            db.commit()
            with pytest.raises(UsageError, match="edited, or sealed with another key"):
                journal.finished("e")
            db.execute("UPDATE attempts SET run = ?, seal = ?, used_usd_micros = ?, repeat = ?", kept)
            db.commit()
    with Journal(path, b"other") as journal:
        journal.open_gate("k", resume=True)
        with pytest.raises(UsageError, match="edited, or sealed with another key"):
            journal.finished("e")


def test_a_journal_that_would_edit_a_run_before_it_is_sealed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, b"key") as journal:
        journal._db.execute(
            "CREATE TRIGGER t AFTER UPDATE OF run ON attempts BEGIN UPDATE attempts SET run = 'good'; END"
        )
    with pytest.raises(UsageError, match="it has triggers"):
        Journal(path, b"key")


@pytest.mark.parametrize("blob", ["X'ff00'", "5", "NULL", "CAST(X'ff' AS TEXT)"])
def test_what_cannot_be_read_is_a_damaged_journal_not_a_crash(blob: str, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.open_gate("k", resume=False)
        journal.end(journal.begin("e", WHO, CELL, 100), RUN, cost_known=True)
        journal._db.execute(f"UPDATE attempts SET run = {blob}, seal = NULL")
        for read in (lambda: journal.finished("e"), journal.used):
            with pytest.raises(UsageError, match="the journal is damaged"):
                read()


def test_what_has_ended_is_sealed_with_its_place_and_its_moment(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    with Journal(tmp_path / "j", b"key", lambda: moment) as journal:
        journal.open_gate("k", resume=False)
        for cell in (CELL, OTHER):
            run = msgspec.structs.replace(RUN, cell=cell)
            journal.end(journal.begin("e", WHO, cell, 100, "c"), run, cost_known=True)
        journal.begin("e", WHO, CELL, 100, "c")
        rows = journal._db.execute("SELECT ended, seal FROM attempts ORDER BY id").fetchall()
    assert [ended for ended, _ in rows] == ["2026-03-01T10:00:00.000005+00:00"] * 2 + [None]
    assert [len(seal) for _, seal in rows[:2]] == [64, 64]
    assert rows[0][1] != rows[1][1]
    assert rows[2][1] is None
