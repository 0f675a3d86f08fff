"""A row of the journal -> a sealed entry, or one that is not to be trusted.

What lies in the file may be damaged, edited, or of another machine: every column is read as bytes, so
that nothing in it can break the reading, and counts only when its seal fits. Knows no gate and no money.
"""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec

from skillgate.core import Run

_PLACE = ("id", "gate", "evaluation", "agent", "model", "task", "arm", "repeat")
_COLUMNS = (*_PLACE, "content", "suite", "used_usd_micros", "final", "ended", "run")
ROW = ", ".join(f"CAST({column} AS BLOB)" for column in _COLUMNS)
"""The columns that a seal covers, to SELECT; the place of a row is among them, so a copy has no seal."""


OF_BASELINES = "arm != 'head' ORDER BY ended DESC, id DESC"
"""Which attempts may be reused, the latest first. A head that was merged was lucky more often than not, and
would make the next change look worse: only runs that were a baseline already are of no choice."""


def seal_of(row: Sequence[bytes | None], key: bytes) -> str:
    """Return the HMAC-SHA256 of the columns of ROW."""
    return hmac.new(key, msgspec.msgpack.encode(list(row)), sha256).hexdigest()


def read_run(blob: bytes | None) -> Run | None:
    """Return the run of a row, None when it cannot be read."""
    try:
        return msgspec.json.decode(blob or b"", type=Run)
    except (msgspec.DecodeError, TypeError):
        return None


class Entry(NamedTuple):
    """A final attempt as it stands in the file, as bytes; trust it only if `is_sealed`."""

    number: bytes | None
    evaluation: bytes | None
    arm: bytes | None
    suite: bytes | None
    agent: bytes | None
    model: bytes | None
    task: bytes | None
    content: bytes | None
    used_usd_micros: bytes | None
    ended: bytes | None
    blob: bytes | None
    seal: bytes | None
    is_sealed: bool

    def run(self) -> Run | None:
        """Return the run, None when it cannot be read."""
        return read_run(self.blob)

    def moment(self) -> datetime | None:
        """Return when it ended, None when that cannot be read or has no time zone."""
        try:
            found = datetime.fromisoformat((self.ended or b"").decode())
        except ValueError:
            return None
        return found if found.tzinfo is not None else None


def read_entries(db: sqlite3.Connection, key: bytes, where: str, values: Sequence[object]) -> list[Entry]:
    """Return final attempts. Args: where: a condition, and an order. Raises: sqlite3.DatabaseError."""
    query = f"SELECT {ROW}, CAST(seal AS BLOB) FROM attempts WHERE final AND {where}"  # noqa: S608
    return [_entry(row, key) for row in db.execute(query, tuple(values))]


def _entry(values: Sequence[bytes | None], key: bytes) -> Entry:
    *row, seal = values
    named = dict(zip(_COLUMNS, row, strict=True))
    return Entry(
        number=named["id"],
        evaluation=named["evaluation"],
        arm=named["arm"],
        suite=named["suite"],
        agent=named["agent"],
        model=named["model"],
        task=named["task"],
        content=named["content"],
        used_usd_micros=named["used_usd_micros"],
        ended=named["ended"],
        blob=named["run"],
        seal=seal,
        is_sealed=hmac.compare_digest(seal or b"", seal_of(row, key).encode()),
    )
