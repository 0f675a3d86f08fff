"""Entries of a journal -> runs that need not be paid again.

A run may stand for another when the digest of all that decides it is the same. What is in the file is
nobody's word: an entry that does not fit in every respect is refused and counted, never an error.
Whether a baseline still holds is for a fresh repeat to show: `canary`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from skillgate.bench.entry import Entry
from skillgate.bench.history import earlier_entries
from skillgate.bench.journal import Journal, utc_now
from skillgate.bench.suite import Suite, Task
from skillgate.core import Cell, Grade, GradeKind, Run

MAX_REUSED = 10
"""Of one content; more hardly help, and one stale baseline would weigh on every change."""

Graders = tuple[tuple[str, GradeKind], ...]


class Refusal(StrEnum):
    """Why an earlier run may not stand for a new one."""

    SEAL = "with a broken seal"
    DAMAGED = "damaged"
    FUTURE = "dated in the future"
    EXPIRED = "expired"
    TASK = "of another task"
    SCORE = "without a score"
    GRADERS = "with other graders"
    COST = "with an impossible cost"
    MODELS = "of another model"


class Terms(NamedTuple):
    """What an earlier run must be like. `graders` maps tasks to names and kinds of their grades, sorted."""

    graders: Mapping[str, Graders]
    per_run_usd_micros: int
    max_age_s: float
    clock: Callable[[], datetime] = utc_now


def graders_of(suite: Suite, tasks: Sequence[Task]) -> Graders:
    """Return names and kinds of the grades of every run of some tasks, sorted."""
    named = (
        (f"{task.short_id}/{name}" if suite.chain else name, grader.kind)
        for task in tasks
        for grader in task.graders
        for name in grader.grade_names
    )
    return tuple(sorted(named))


class Baselines:
    """The runs that one evaluation of a gate need not pay for. For one thread.

    Args: contents: digests of what decides a cell by task and arm; where there is none nothing is reused.
    """

    def __init__(
        self, journal: Journal, evaluation: str, contents: Mapping[tuple[str, str], str], terms: Terms
    ) -> None:
        self._journal, self._evaluation = journal, evaluation
        self._contents, self._terms = contents, terms
        self._pools: dict[tuple[str, str], list[Run]] = {}
        self._given: dict[tuple[str, str], list[Cell]] = {}
        self._refused: dict[bytes | None, Refusal] = {}
        self._is_trusted = True

    @property
    def refused(self) -> Counter[Refusal]:
        """Return how many entries were looked at and refused, by reason."""
        return Counter(self._refused.values())

    def candidates(self, arm: str) -> dict[str, tuple[Run, ...]]:
        """Return by task what `earlier` chooses from for an arm: what a canary is held against."""
        tasks = [task for task, of in self._contents if of == arm]
        return {task: tuple(self._pool(task, arm)) for task in tasks}

    def earlier(self, cell: Cell) -> Run | None:
        """Return a run of an earlier gate for a cell, another one for each cell; None when there is no more.

        The same cells asked for in the same order get the same runs, also when a gate is resumed.
        """
        pool = self._pool(cell.task, cell.arm) if self._is_trusted else []
        given = self._given.setdefault((cell.task, self._contents.get((cell.task, cell.arm), "")), [])
        if cell not in given:
            given.append(cell)
        number = given.index(cell)
        # what the agent said then lies with the report of then
        return (
            msgspec.structs.replace(pool[number], cell=cell, trace_path=None) if number < len(pool) else None
        )

    def distrust(self) -> list[Cell]:
        """Give no more earlier runs; return the cells that were asked for so far."""
        self._is_trusted = False
        return [cell for given in self._given.values() for cell in given]

    def _pool(self, task: str, arm: str) -> list[Run]:
        content = self._contents.get((task, arm), "")
        if (task, content) not in self._pools:
            entries = self._journal.earlier(content) if content else []
            self._pools[task, content] = self._sifted(entries, task)
        return self._pools[task, content]

    def shared(self, cell: Cell) -> Run | None:
        """Return the run of this repeat by another evaluation of this gate, None when there is none.

        It is as fresh as one of our own, so it may be the canary.
        """
        content = self._contents.get((cell.task, cell.arm), "")
        if not content:
            return None
        entries = self._journal.beside(self._evaluation, content, cell.repeat)
        found = self._sifted(entries, cell.task)
        return msgspec.structs.replace(found[0], cell=cell) if found else None

    def _sifted(self, entries: Iterable[Entry], task: str) -> list[Run]:
        runs, refused = _sift(entries, task, self._terms)
        self._refused |= refused
        return runs


def cached_counts(
    path: Path,
    contents: Mapping[tuple[str, str], str],
    terms: Terms,
    *,
    resume: bool,
    key: bytes = b"",
) -> dict[tuple[str, str], int]:
    """Return how many runs of earlier gates may stand for new ones, by task and arm. Reads without a lock.

    Args: resume: the latest gate goes on, so it is no earlier one. key: the journal's.
    """
    found = {}
    for (task, arm), content in contents.items():
        entries = earlier_entries(path, key, content, resume=resume) if content else []
        found[task, arm] = len(_sift(entries, task, terms)[0])
    return found


def describe_refused(refused: Mapping[Refusal, int]) -> str:
    """Return a sentence on entries that were refused, empty when none was."""
    total = sum(refused.values())
    if not total:
        return ""
    reasons = ", ".join(f"{refused[reason]} {reason}" for reason in Refusal if refused.get(reason))
    return f"{total} earlier run{'s' * (total > 1)} refused: {reasons}."


def _sift(entries: Iterable[Entry], task: str, terms: Terms) -> tuple[list[Run], dict[bytes | None, Refusal]]:
    """Return the first runs that may be reused, and why those before them may not."""
    runs: list[Run] = []
    refused: dict[bytes | None, Refusal] = {}
    now = terms.clock()
    for entry in entries:
        if len(runs) == MAX_REUSED:
            break
        found = _examined(entry, task, terms, now)
        if isinstance(found, Run) and runs and set(found.models) != set(runs[0].models):
            found = Refusal.MODELS
        if isinstance(found, Run):
            runs.append(found)
        else:
            refused[entry.number] = found
    return runs, refused


def _examined(entry: Entry, task: str, terms: Terms, now: datetime) -> Run | Refusal:
    """Return the run of an entry, or the first reason against it."""
    if not entry.is_sealed:
        return Refusal.SEAL
    ended, run = entry.moment(), entry.run()
    if ended is None or run is None:
        return Refusal.DAMAGED
    if ended > now:
        return Refusal.FUTURE
    if (now - ended).total_seconds() > terms.max_age_s:
        return Refusal.EXPIRED
    if task != run.cell.task or task.encode() != entry.task:
        return Refusal.TASK
    if run.pass_ratio is None:
        return Refusal.SCORE
    if _graders(run.grades) != terms.graders.get(task):
        return Refusal.GRADERS
    return run if _is_possible(run, entry, terms) else Refusal.COST


def _graders(grades: Iterable[Grade]) -> Graders:
    return tuple(sorted((grade.grader, grade.kind) for grade in grades))


def _is_possible(run: Run, entry: Entry, terms: Terms) -> bool:
    """Say whether a run can have used what it says, and was booked at."""
    used = (*msgspec.structs.astuple(run.usage), run.wall_s)
    booked = entry.used_usd_micros == str(run.usage.usd_micros).encode()
    return min(used) >= 0 and run.usage.usd_micros <= terms.per_run_usd_micros and booked
