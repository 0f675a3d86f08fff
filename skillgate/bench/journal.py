"""The record of every attempt in one SQLite file, one transaction each.

An attempt is written before it starts, with the money it holds, and again when it has ended.
What is complete is never run again; what was cut keeps its hold, since nobody knows what
it cost. A file lock keeps a second process out while a gate is running.
"""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import msgspec

from skillgate.core import Cell, Run
from skillgate.errors import PrerequisiteError, UsageError, writing
from skillgate.values import Usage

FILE_NAME = "journal.sqlite"
_SCHEMA_VERSION = 2
_SCHEMA = """
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


class Sums(NamedTuple):
    """The money of a gate so far: settled, and lost in attempts that never ended."""

    spent_usd_micros: int
    lost_usd_micros: int


class Who(NamedTuple):
    """What works in a run: costs of another agent or model say nothing about it."""

    agent: str
    model: str


class Journal:
    """One journal file, open for one gate."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file_lock = _lock_file(path)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except sqlite3.OperationalError as problem:
            self._file_lock.close()
            raise _unwritable(path, problem) from None
        except sqlite3.DatabaseError as problem:
            self._file_lock.close()
            raise UsageError(
                f"{path}: not a journal of skillgate ({problem})", "Choose another --out."
            ) from None
        self._gate = 0

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._db.close()
        self._file_lock.close()

    def open_gate(self, key: str, *, resume: bool) -> bool:
        """Start a gate, or continue the latest with the same key; say whether it continues one."""
        rows = self._read("SELECT id FROM gates WHERE key = ? ORDER BY id DESC LIMIT 1", (key,))
        if resume and rows:
            self._gate = rows[0][0]
            return True
        with self._writing() as db:
            self._gate = int(db.execute("INSERT INTO gates (key) VALUES (?)", (key,)).lastrowid or 0)
        return False

    def sums(self, evaluation: str | None = None) -> Sums:
        """Return the money of this gate, or of one evaluation, from all attempts."""
        query = (
            "SELECT COALESCE(SUM(used_usd_micros), 0),"
            " COALESCE(SUM(CASE WHEN used_usd_micros IS NULL THEN held_usd_micros END), 0)"
            " FROM attempts WHERE gate = ?1 AND (?2 IS NULL OR evaluation = ?2)"
        )
        return Sums(*self._read(query, (self._gate, evaluation))[0])

    def finished(self, evaluation: str) -> dict[Cell, Run]:
        """Return the final runs of an evaluation of this gate."""
        query = "SELECT run FROM attempts WHERE gate = ? AND evaluation = ? AND final"
        rows = self._read(query, (self._gate, evaluation))
        runs = [msgspec.json.decode(blob, type=Run) for (blob,) in rows]
        return {run.cell: run for run in runs}

    def used(self) -> tuple[Usage, int]:
        """Return what the attempts of this gate have used, and how many there are of which nobody knows."""
        rows = self._read("SELECT used_usd_micros, run FROM attempts WHERE gate = ?", (self._gate,))
        known = [msgspec.json.decode(blob, type=Run).usage for used, blob in rows if used is not None]
        return sum(known, Usage()), len(rows) - len(known)

    def begin(self, evaluation: str, who: Who, cell: Cell, held_usd_micros: int) -> int:
        """Write that an attempt starts, before it does; return its id."""
        values = (self._gate, evaluation, *who, cell.task, cell.arm, cell.repeat, held_usd_micros)
        with self._writing() as db:
            columns = "gate, evaluation, agent, model, task, arm, repeat, held_usd_micros"
            cursor = db.execute(f"INSERT INTO attempts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608
            return int(cursor.lastrowid or 0)

    def end(self, attempt: int, run: Run, *, cost_known: bool) -> None:
        """Write how an attempt ended; only a scored run is final, the rest is tried again on resume."""
        used = run.usage.usd_micros if cost_known else None
        with self._writing() as db:
            db.execute(
                "UPDATE attempts SET used_usd_micros = ?, final = ?, run = ? WHERE id = ?",
                (used, run.outcome.is_scored, msgspec.json.encode(run), attempt),
            )

    def _read(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as problem:
            raise _damaged(self._path, problem) from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.OperationalError as problem:
                raise _unwritable(self._path, problem) from None
            except sqlite3.IntegrityError:
                raise
            except sqlite3.DatabaseError as problem:
                raise _damaged(self._path, problem) from None
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        elif version != _SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"version {version} of its format")


def past_costs(path: Path, who: Who, tasks: Sequence[str], *, resume: bool) -> tuple[int, ...]:
    """Return micro-dollars of the scored runs of tasks in earlier gates, none when there is no journal.

    Reads without a lock. Args: resume: the latest gate goes on, so it is no earlier one.
    """
    if not path.is_file():
        return ()
    marks = ", ".join("?" * len(tasks))
    query = (
        f"SELECT used_usd_micros FROM attempts WHERE agent = ? AND model = ? AND task IN ({marks}) AND final"  # noqa: S608
        " AND gate <= (SELECT COALESCE(MAX(id), 0) FROM gates) - ? ORDER BY id"
    )
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        try:
            return tuple(used for (used,) in db.execute(query, (*who, *tasks, int(resume))))
        except sqlite3.DatabaseError:  # of another version, or damaged: whoever opens it tells
            return ()


def _damaged(path: Path, problem: sqlite3.DatabaseError) -> UsageError:
    return UsageError(f"{path}: the journal is damaged ({problem})", "Move it away, or choose another --out.")


def _unwritable(path: Path, problem: sqlite3.OperationalError) -> PrerequisiteError:
    hint = "Free some space, then run the same command with --resume: nothing finished is lost."
    return PrerequisiteError(f"{path}: the journal cannot be written ({problem})", hint)


def _lock_file(path: Path) -> IO[bytes]:
    handle = path.with_suffix(".lock").open("ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        hint = "Wait for it, or choose another --out."
        raise UsageError(f"{path}: another skillgate is using this journal", hint) from None
    return handle
