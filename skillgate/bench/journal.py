"""The record of every attempt in one SQLite file, one transaction each.

An attempt is written before it starts, with the money it holds, and again when it has ended.
What is complete is never run again; what was cut keeps its hold, since nobody knows what
it cost. A file lock keeps a second process out while a gate is running. What has ended is
sealed, so that a damaged, edited or foreign row is told from one that was written here.
"""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import msgspec

from skillgate.bench.entry import OF_BASELINES, ROW, Entry, read_entries, read_run, seal_of
from skillgate.core import Cell, Run
from skillgate.errors import PrerequisiteError, UsageError, writing
from skillgate.values import Usage

FILE_NAME = "journal.sqlite"
_SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE gates (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, started TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE attempts (
  id INTEGER PRIMARY KEY, gate INTEGER NOT NULL REFERENCES gates, evaluation TEXT NOT NULL,
  agent TEXT NOT NULL, model TEXT NOT NULL,
  task TEXT NOT NULL, arm TEXT NOT NULL, repeat INTEGER NOT NULL,
  held_usd_micros INTEGER NOT NULL, used_usd_micros INTEGER, final INTEGER NOT NULL DEFAULT 0, run BLOB,
  content TEXT NOT NULL DEFAULT '', suite TEXT NOT NULL DEFAULT '', ended TEXT, seal TEXT
);
CREATE UNIQUE INDEX one_final_run ON attempts (gate, evaluation, task, arm, repeat) WHERE final;
CREATE INDEX by_content ON attempts (content) WHERE final;
"""
_FROM_2 = """
ALTER TABLE attempts ADD COLUMN content TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN suite TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN ended TEXT;
ALTER TABLE attempts ADD COLUMN seal TEXT;
CREATE INDEX by_content ON attempts (content) WHERE final;
"""
_STEPS = {0: _SCHEMA, 2: _FROM_2}  # from a version to the present one


class Sums(NamedTuple):
    """The money of a gate so far: settled, and lost in attempts that never ended."""

    spent_usd_micros: int
    lost_usd_micros: int


class Who(NamedTuple):
    """What works in a run: costs of another agent or model say nothing about it."""

    agent: str
    model: str


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


class Journal:
    """One journal file, open for one gate.

    Args: key: seals what ends; with a secret one nobody else can. clock: tells when a run has ended, in UTC.
    """

    def __init__(self, path: Path, key: bytes = b"", clock: Callable[[], datetime] = utc_now) -> None:
        self._path, self._key, self._clock = path, key, clock
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
        """Return the final runs of an evaluation of this gate.

        Raises: UsageError when one of them was tampered with.
        """
        rows = self._entries("gate = ? AND evaluation = ?", (self._gate, evaluation))
        runs = [row.run() if row.is_sealed or (row.seal is None and not self._key) else None for row in rows]
        if None in runs:
            raise _damaged(self._path, "a finished run of this gate was edited, or sealed with another key")
        return {run.cell: run for run in runs if run is not None}

    def earlier(self, content: str) -> list[Entry]:
        """Return the final attempts of baselines with some content in earlier gates, the latest first."""
        return self._entries(f"content = ? AND gate < ? AND {OF_BASELINES}", (content, self._gate))

    def beside(self, evaluation: str, content: str, repeat: int) -> list[Entry]:
        """Return the final attempts of baselines at a repeat by other evaluations of this gate, in order."""
        where = "content = ? AND gate = ? AND evaluation != ? AND repeat = ? AND arm != 'head' ORDER BY id"
        return self._entries(where, (content, self._gate, evaluation, repeat))

    def used(self) -> tuple[Usage, int]:
        """Return what the attempts of this gate have used, and how many there are of which nobody knows."""
        rows = self._read("SELECT used_usd_micros, run FROM attempts WHERE gate = ?", (self._gate,))
        known = [read_run(blob) for used, blob in rows if used is not None]
        usages = [run.usage for run in known if run is not None]
        if len(usages) < len(known):
            raise _damaged(self._path, "a run of this gate cannot be read")
        return sum(usages, Usage()), len(rows) - len(known)

    def begin(
        self,
        evaluation: str,
        who: Who,
        cell: Cell,
        held_usd_micros: int,
        content: str = "",
        suite: str = "",
    ) -> int:
        """Write that an attempt starts, before it does; return its id.

        Args: content: a digest of all that decides the cell; runs of one content are exchangeable. suite: a
        digest of its suite.
        """
        place = (self._gate, evaluation, *who, cell.task, cell.arm, cell.repeat)
        values = (*place, held_usd_micros, content, suite)
        with self._writing() as db:
            columns = "gate, evaluation, agent, model, task, arm, repeat, held_usd_micros, content, suite"
            marks = ", ".join("?" * len(values))
            cursor = db.execute(f"INSERT INTO attempts ({columns}) VALUES ({marks})", values)  # noqa: S608
            return int(cursor.lastrowid or 0)

    def end(self, attempt: int, run: Run, *, cost_known: bool) -> None:
        """Write how an attempt ended; only a scored run is final, the rest is tried again on resume."""
        used = run.usage.usd_micros if cost_known else None
        ended = self._clock().astimezone(UTC).isoformat(timespec="microseconds")
        with self._writing() as db:
            db.execute(
                "UPDATE attempts SET used_usd_micros = ?, final = ?, run = ?, ended = ? WHERE id = ?",
                (used, run.outcome.is_scored, msgspec.json.encode(run), ended, attempt),
            )
            row = db.execute(f"SELECT {ROW} FROM attempts WHERE id = ?", (attempt,)).fetchone()  # noqa: S608
            db.execute("UPDATE attempts SET seal = ? WHERE id = ?", (seal_of(row, self._key), attempt))

    def _entries(self, where: str, values: tuple[object, ...]) -> list[Entry]:
        try:
            return read_entries(self._db, self._key, where, values)
        except sqlite3.DatabaseError as problem:
            raise _damaged(self._path, problem) from None

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
        if self._db.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone():
            raise sqlite3.DatabaseError("it has triggers")  # which could change a run before it is sealed
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == _SCHEMA_VERSION:
            return
        if version not in _STEPS:
            raise sqlite3.DatabaseError(f"version {version} of its format")
        # one transaction: a kill in the middle leaves the file as it was
        self._db.executescript(
            f"BEGIN IMMEDIATE; {_STEPS[version]} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;"
        )


def _damaged(path: Path, problem: Exception | str) -> UsageError:
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
