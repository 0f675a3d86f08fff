"""What earlier gates left in a journal -> costs, scores and runs, for plans and calibration.

Reads without a lock. A journal that is missing, of another version or damaged has no history: whoever
opens it for a gate tells.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from skillgate.bench.entry import OF_BASELINES, Entry, read_entries
from skillgate.bench.journal import Who
from skillgate.core import Run

_EARLIER = "gate <= (SELECT COALESCE(MAX(id), 0) FROM gates) - ?"
"""Takes whether the latest gate goes on, and so is no earlier one."""
_Row = TypeVar("_Row")


class Scored(NamedTuple):
    """A scored run and what worked in it; `arm` names what it was an arm of.

    Runs of one task with the same `content` differ in nothing that decides them; `suite` is the digest of
    its suite.
    """

    content: str
    arm: str
    suite: str
    who: Who
    run: Run


def past_task_costs(
    path: Path, who: Who, tasks: Sequence[str], *, resume: bool
) -> dict[str, tuple[int, ...]]:
    """Return micro-dollars of the scored runs of earlier gates, by task; no key for a task without one.

    Args: resume: the latest gate goes on, so it is no earlier one.
    """
    query = (
        "SELECT task, used_usd_micros FROM attempts WHERE final AND agent = ? AND model = ?"  # noqa: S608
        f" AND task IN ({_marks(tasks)}) AND {_EARLIER}"
        " AND typeof(used_usd_micros) = 'integer' AND used_usd_micros >= 0 ORDER BY id"
    )
    found: dict[str, tuple[int, ...]] = {}
    values = (*who, *tasks, int(resume))
    for task, used in _read(path, lambda db: db.execute(query, values).fetchall()):
        found[task] = (*found.get(task, ()), used)
    return found


def past_scores(
    path: Path, who: Who, tasks: Sequence[str], *, resume: bool, key: bytes = b""
) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Return pass ratios of the scored runs of earlier gates, by task, a tuple for each content.

    Within one content nothing differs but chance. Args: resume: see `past_task_costs`; key: the journal's.
    """
    where = (
        f"agent = ? AND model = ? AND task IN ({_marks(tasks)}) AND content != '' AND {_EARLIER} ORDER BY id"
    )
    groups: dict[tuple[str, str], list[float]] = {}
    for one in _scored(entries_of(path, key, where, (*who, *tasks, int(resume)))):
        ratio = one.run.pass_ratio
        if ratio is not None:
            groups.setdefault((one.run.cell.task, one.content), []).append(ratio)
    found: dict[str, tuple[tuple[float, ...], ...]] = {}
    for (task, _), ratios in groups.items():
        found[task] = (*found.get(task, ()), tuple(ratios))
    return found


def scored_runs(path: Path, key: bytes = b"") -> Iterator[Scored]:
    """Return all scored runs whose content is known and whose seal fits, in the order they started."""
    yield from _scored(entries_of(path, key, "content != '' ORDER BY id", ()))


def earlier_entries(path: Path, key: bytes, content: str, *, resume: bool) -> list[Entry]:
    """Return the final attempts of baselines in earlier gates whose content starts so, the latest first."""
    where = f"content GLOB ? || '*' AND {_EARLIER} AND {OF_BASELINES}"
    return entries_of(path, key, where, (content, int(resume)))


def entries_of(path: Path, key: bytes, where: str, values: Sequence[object]) -> list[Entry]:
    """Return final attempts, none when the journal cannot be read."""
    return _read(path, lambda db: read_entries(db, key, where, values))


def _scored(entries: Sequence[Entry]) -> Iterator[Scored]:
    for entry in entries:
        run = entry.run() if entry.is_sealed else None
        if run is not None and run.pass_ratio is not None:
            who = Who(_text(entry.agent), _text(entry.model))
            arm = f"{_text(entry.evaluation)}/{_text(entry.arm)}"
            yield Scored(_text(entry.content), arm, _text(entry.suite), who, run)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _read(path: Path, read: Callable[[sqlite3.Connection], list[_Row]]) -> list[_Row]:
    """Read all at once, as a reader that lingers keeps the writer out."""
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return read(db)
    except sqlite3.DatabaseError:
        return []


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
