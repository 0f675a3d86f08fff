"""Plan -> runs: cells in parallel, money reserved before and settled after each attempt.

Nothing is raised across here from inside a run: it becomes an outcome and a reason by the
table in `failure`. Every attempt is in the journal before it starts and after it has ended.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from skillgate.bench.attempt import Evaluation, Fairness, attempt
from skillgate.bench.failure import ruling
from skillgate.bench.journal import Journal, Who
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import Limited, Purse
from skillgate.bench.sandbox import Sandbox
from skillgate.core import Cell, Outcome, Run
from skillgate.errors import Interrupted

MAX_ATTEMPTS = 3
_TICK_S = 0.5  # how soon a signal is noticed


class Progress(Protocol):
    """Who watches; called from the main thread only."""

    def start(self, label: str, total: int, done: int) -> None:
        """Say that an evaluation of `total` cells starts, or goes on, with `done` of them known already."""

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        """Say that a run has ended."""

    def tick(self, ledger: Ledger, open_usd_micros: int) -> None:
        """Say that time has passed, and what the runs in flight have cost so far."""

    def note(self, message: str) -> None:
        """Tell something worth a line."""


class Quiet:
    """The silent progress."""

    def start(self, label: str, total: int, done: int) -> None:
        """Say nothing."""

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        """Say nothing."""

    def tick(self, ledger: Ledger, open_usd_micros: int) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""


class Bench(NamedTuple):
    """What runs one evaluation: the journal of its gate, and the part of the money it may use.

    `traces` is the folder for what agents say, `limited` what the gate's runs share beside money.
    """

    journal: Journal
    ledger: Ledger
    progress: Progress
    workers: int = 2
    backoff_s: float = 1.0
    traces: Path | None = None
    limited: Limited = Limited()


Reuse = Callable[[Cell], Run | None]
"""Finds an earlier run that may stand for a cell, None when there is none."""


def no_reuse(cell: Cell) -> Run | None:
    """Find nothing."""
    return None


def execute(evaluation: Evaluation, bench: Bench) -> tuple[Run, ...]:
    """Run every cell of the plan in one wave. Returns and raises: see `Execution.run`."""
    with Execution(evaluation, bench) as execution:
        return execution.run(evaluation.plan.cells)


class Execution:
    """One evaluation under way, wave by wave.

    `reused` maps the cells that `reuse` filled to their runs. These cost nothing and are not in the journal:
    when a gate is resumed they are looked for again, and what is gone by then is run.
    """

    def __init__(self, evaluation: Evaluation, bench: Bench, reuse: Reuse = no_reuse) -> None:
        self.reused: dict[Cell, Run] = {}
        self._evaluation, self._bench, self._reuse = evaluation, bench, reuse
        self._known = bench.journal.finished(evaluation.key)
        self._left_out: set[Cell] = set()
        self._purse = Purse(bench.ledger, evaluation.plan.per_run_usd_micros, bench.limited)
        self._fairness = Fairness()
        self._signals = _Signals(evaluation.sandbox)

    def __enter__(self) -> Execution:
        """Take note of Ctrl-C and SIGTERM from now on, between waves too."""
        self._signals.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self._signals.__exit__(*reason)

    def run(self, cells: Sequence[Cell], optional: Container[Cell] = ()) -> tuple[Run, ...]:
        """Run those of some planned cells that are not known; return the runs in the order of the cells.

        Args: optional: cells that are left out, not run, when no earlier run fills them.
        Raises: Interrupted on Ctrl-C and SIGTERM, after the runs in flight have ended; PrerequisiteError
        when the journal cannot be written.
        """
        waiting = [cell for cell in cells if not self._fill(cell, optional)]
        planned = [cell for cell in self._evaluation.plan.cells if cell not in self._left_out]
        done = sum(cell in self._known for cell in planned)
        self._bench.progress.start(self._evaluation.label, len(planned), done)
        runs = _run_all(waiting, self._evaluation, self._bench, self._purse, self._fairness, self._signals)
        self._known |= {run.cell: run for run in runs}
        wanted = [cell for cell in cells if cell not in self._left_out]
        return tuple(self._known.get(cell) or _skipped(cell, self._purse.why_not) for cell in wanted)

    def _fill(self, cell: Cell, optional: Container[Cell]) -> bool:
        """Say whether a cell needs no run: it has one, an earlier one stands for it, or it is left out."""
        if cell in self._known:
            return True
        run = self._reuse(cell)
        self._left_out.discard(cell)
        if run is not None:
            self._known[cell] = self.reused[cell] = run
        elif cell in optional:
            self._left_out.add(cell)
        return run is not None or cell in optional

    def finished(self, cells: Sequence[Cell], why: str) -> tuple[Run, ...]:
        """Return what some cells have after an interruption; the others were not started, for `why`."""
        self._known |= self._bench.journal.finished(self._evaluation.key)
        wanted = [cell for cell in cells if cell not in self._left_out]
        return tuple(self._known.get(cell) or _skipped(cell, why) for cell in wanted)

    def forget(self, cells: Iterable[Cell]) -> None:
        """Drop the earlier runs of some cells, which a canary has refuted: asked for again, they are run."""
        for cell in cells:
            if self.reused.pop(cell, None) is not None:
                del self._known[cell]


def _skipped(cell: Cell, why: str) -> Run:
    return Run(cell=cell, outcome=Outcome.SKIPPED, reason=why)


class _Signals:
    """Ctrl-C and SIGTERM while cells run: asked about between runs, never raised in the middle of one.

    Ctrl-C lets the runs in flight end, a second one and SIGTERM end them.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.asked = False
        self._sandbox = sandbox
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.asked or number == signal.SIGTERM:
            self._sandbox.interrupt()
        self.asked = True


def _run_all(
    cells: Sequence[Cell],
    evaluation: Evaluation,
    bench: Bench,
    purse: Purse,
    fairness: Fairness,
    signals: _Signals,
) -> list[Run]:
    """Start cells in order while the purse can pay; stop starting at the first it never can."""
    done: list[Run] = []
    pending: set[Future[Run]] = set()

    def collect() -> None:
        """Take the runs that have ended; wait a moment for the first."""
        ended, _ = wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        for future in ended:
            pending.remove(future)
            done.append(future.result())
            bench.progress.finish_run(done[-1], bench.ledger)
        if not ended:
            bench.progress.tick(bench.ledger, evaluation.agent.open_usd_micros)

    with ThreadPoolExecutor(bench.workers) as pool:
        for cell in cells:
            if not _wait_for_turn(purse, pending, collect, bench, signals):
                break
            pending.add(pool.submit(_run_cell, cell, evaluation, bench, purse, fairness))
        if signals.asked and pending:
            bench.progress.note(f"stopping: {len(pending)} runs in flight may end; Ctrl-C again kills them")
        while pending:
            collect()
    if signals.asked:
        hint = "Run the same command with --resume to continue."
        raise Interrupted("interrupted; every finished run is in the journal", hint)
    return done


def _wait_for_turn(
    purse: Purse, pending: set[Future[Run]], collect: Callable[[], None], bench: Bench, signals: _Signals
) -> bool:
    """Wait until a worker is free and a run is paid for; False when nothing more may start."""
    while not signals.asked:
        if len(pending) < bench.workers and purse.reserve():
            return True
        if not pending:
            return False
        collect()
    return False


def _run_cell(cell: Cell, evaluation: Evaluation, bench: Bench, purse: Purse, fairness: Fairness) -> Run:
    """Try a cell, its first reservation made already, until it is scored or given up."""
    hold = evaluation.plan.per_run_usd_micros
    who = Who(evaluation.plan.agent, evaluation.plan.model)
    content = evaluation.contents.get((cell.task, cell.arm), "")
    suite = evaluation.suites.get(cell.task.partition("/")[0], "")
    for tried in range(1, MAX_ATTEMPTS + 1):
        number = bench.journal.begin(evaluation.key, who, cell, hold, content, suite)
        run, failure, cost_known = attempt(cell, evaluation, fairness)
        if cost_known:
            purse.settle(run.usage)
        else:
            purse.lose()
        bench.journal.end(number, run, cost_known=cost_known)
        retry = failure is not None and ruling(failure).retry and tried < MAX_ATTEMPTS
        if not retry or not purse.reserve():
            break
        time.sleep(bench.backoff_s * 4 ** (tried - 1))
    return run
