"""Plan -> runs: cells in parallel, money reserved before and settled after each attempt.

Nothing is raised across here from inside a run: it becomes an outcome and a reason by the
table in `failure`. Every attempt is in the journal before it starts and after it has ended.
"""

from __future__ import annotations

import errno
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

from skillgate.bench.agents.scripted import Agent, AgentJob, AgentResult
from skillgate.bench.failure import Failure, ruling
from skillgate.bench.grade import grade
from skillgate.bench.journal import Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.sandbox import Phase, Sandbox, SandboxFailure
from skillgate.bench.suite import Suite, Task
from skillgate.bench.workspace import Workspace
from skillgate.core import Cell, Grade, Outcome, Plan, Run, Usage
from skillgate.errors import Interrupted, SuiteError
from skillgate.skill import Skill

MAX_ATTEMPTS = 3
MAX_REASON = 400
_TICK_S = 0.5  # how soon a signal is noticed
SKIPPED_REASON = "not started: the rest of the budget could not pay for it"


class Progress(Protocol):
    """Who watches; called from the main thread only."""

    def start(self, label: str, total: int, done: int) -> None:
        """Say that an evaluation of `total` cells starts, `done` of them known already."""

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        """Say that a run has ended."""

    def note(self, message: str) -> None:
        """Tell something worth a line."""


class Quiet:
    """The silent progress."""

    def start(self, label: str, total: int, done: int) -> None:
        """Say nothing."""

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""


class Evaluation(NamedTuple):
    """One skill's paired run: its key in the journal, the plan, and what the cells need."""

    key: str
    label: str
    plan: Plan
    tasks: Mapping[str, tuple[Suite, Task]]
    skills: Mapping[str, Skill | None]
    agent: Agent
    sandbox: Sandbox


class Bench(NamedTuple):
    """What runs one evaluation: the journal of its gate, and the part of the money it may use."""

    journal: Journal
    ledger: Ledger
    progress: Progress
    workers: int = 2
    backoff_s: float = 1.0


def execute(evaluation: Evaluation, bench: Bench) -> tuple[Run, ...]:
    """Run every cell that is not finished; return all runs in the order of the plan.

    Raises: Interrupted on Ctrl-C and SIGTERM, after the runs in flight have ended; PrerequisiteError
    when the journal cannot be written.
    """
    runs = {
        c: r for c, r in bench.journal.finished(evaluation.key).items() if c in set(evaluation.plan.cells)
    }
    bench.progress.start(evaluation.label, len(evaluation.plan.cells), len(runs))
    waiting = [cell for cell in evaluation.plan.cells if cell not in runs]
    for run in _run_all(waiting, evaluation, bench):
        runs[run.cell] = run
    return tuple(runs.get(cell, _skipped(cell)) for cell in evaluation.plan.cells)


def _skipped(cell: Cell) -> Run:
    return Run(cell=cell, outcome=Outcome.SKIPPED, reason=SKIPPED_REASON)


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


def _run_all(cells: list[Cell], evaluation: Evaluation, bench: Bench) -> list[Run]:
    """Start cells in order while the ledger can pay; stop starting at the first it never can."""
    done: list[Run] = []
    pending: set[Future[Run]] = set()
    hold = evaluation.plan.per_run_usd_micros
    with _Signals(evaluation.sandbox) as signals, ThreadPoolExecutor(bench.workers) as pool:
        for cell in cells:
            if not _wait_for_turn(hold, pending, done, bench, signals):
                break
            pending.add(pool.submit(_run_cell, cell, evaluation, bench))
        if signals.asked and pending:
            bench.progress.note(f"stopping: {len(pending)} runs in flight may end; Ctrl-C again kills them")
        while pending:
            _collect(pending, done, bench)
    if signals.asked:
        hint = "Run the same command with --resume to continue."
        raise Interrupted("interrupted; every finished run is in the journal", hint)
    return done


def _wait_for_turn(
    hold: int, pending: set[Future[Run]], done: list[Run], bench: Bench, signals: _Signals
) -> bool:
    """Wait until a worker is free and `hold` is reserved; False when nothing more may start."""
    while not signals.asked:
        if len(pending) < bench.workers and bench.ledger.reserve(hold):
            return True
        if not pending:
            return False
        _collect(pending, done, bench)
    return False


def _collect(pending: set[Future[Run]], done: list[Run], bench: Bench) -> None:
    """Take the runs that have ended; wait a moment for the first."""
    ended, _ = wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
    for future in ended:
        pending.remove(future)
        done.append(future.result())
        bench.progress.finish_run(done[-1], bench.ledger)


def _run_cell(cell: Cell, evaluation: Evaluation, bench: Bench) -> Run:
    """Try a cell, its first reservation made already, until it is scored or given up."""
    hold = evaluation.plan.per_run_usd_micros
    for attempt in range(1, MAX_ATTEMPTS + 1):
        number = bench.journal.begin(evaluation.key, cell, hold)
        run, failure, cost_known = _attempt(cell, evaluation)
        if cost_known:
            bench.ledger.settle(hold, run.usage.usd_micros)
        else:
            bench.ledger.lose(hold)
        bench.journal.end(number, run, cost_known=cost_known)
        retry = failure is not None and ruling(failure).retry and attempt < MAX_ATTEMPTS
        if not retry or not bench.ledger.reserve(hold):
            break
        time.sleep(bench.backoff_s * 4 ** (attempt - 1))
    return run


class _Trail:
    """How far an attempt came: what its agent said, and whether it may have cost something."""

    agent_started = False
    result: AgentResult | None = None

    @property
    def cost_known(self) -> bool:
        return not self.agent_started or self.result is not None

    def broken(self, cell: Cell, failure: Failure, detail: str) -> Run:
        usage = self.result.usage if self.result is not None else Usage()
        return Run(cell=cell, outcome=Outcome.INVALID, reason=_reason(failure, detail), usage=usage)


def _attempt(cell: Cell, evaluation: Evaluation) -> tuple[Run, Failure | None, bool]:
    """Execute a cell once: sandbox, agent, graders. Whatever breaks becomes an outcome.

    Returns: the run, what failed, and whether its cost is known (not when the agent was lost).
    """
    trail = _Trail()
    try:
        run, failure = _work(cell, evaluation, trail)
    except Exception as problem:  # noqa: BLE001 - the one boundary: what we do not know is INVALID
        failure, detail = _classify(problem)
        run = trail.broken(cell, failure, detail)
    return run, failure, trail.cost_known


def _work(cell: Cell, evaluation: Evaluation, trail: _Trail) -> tuple[Run, Failure | None]:
    suite, task = evaluation.tasks[cell.task]
    started = time.monotonic()
    with Workspace.create(suite) as workspace:
        result, changed = _run_agent(cell, task, workspace, evaluation, trail)
        failure = result.failure
        if failure is not None and ruling(failure).outcome is Outcome.INVALID:
            return trail.broken(cell, failure, result.detail), failure
        grades = _grade(suite, task, workspace, evaluation.sandbox)
    run = Run(
        cell=cell,
        outcome=_outcome(failure, grades),
        grades=grades,
        usage=result.usage,
        wall_s=round(time.monotonic() - started, 3),
        reason=_reason(failure, result.detail),
        skill_used=result.skill_used,
        changed_files=changed,
    )
    return run, failure


def _classify(problem: Exception) -> tuple[Failure, str]:
    if isinstance(problem, SandboxFailure):
        return problem.kind, problem.detail
    if isinstance(problem, SuiteError):
        return Failure.SUITE_BROKEN, problem.message
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure.DISK_FULL, str(problem)
    return Failure.UNKNOWN, f"{type(problem).__name__}: {problem}"


def _run_agent(
    cell: Cell, task: Task, workspace: Workspace, evaluation: Evaluation, trail: _Trail
) -> tuple[AgentResult, tuple[str, ...]]:
    skill, plan = evaluation.skills[cell.arm], evaluation.plan
    if skill is not None:
        workspace.install_skill(skill.folder_name, skill.files)
    before = workspace.snapshot()
    with evaluation.sandbox.session(workspace, Phase.AGENT, task.limits) as session:
        trail.agent_started = True
        trail.result = evaluation.agent.run(
            AgentJob(cell, task, workspace, session, skill, plan.seed, plan.per_run_usd_micros)
        )
    return trail.result, workspace.changed_since(before)


def _grade(suite: Suite, task: Task, workspace: Workspace, sandbox: Sandbox) -> tuple[Grade, ...]:
    """Grade after the agent has ended: protected files back, held-out tests in, a new session."""
    workspace.restore_protected(task, suite)
    workspace.add_tests(task, suite)
    with sandbox.session(workspace, Phase.GRADE, task.limits) as session:
        return grade(task, workspace, session)


def _outcome(failure: Failure | None, grades: tuple[Grade, ...]) -> Outcome:
    decided = ruling(failure).outcome if failure is not None else None
    if decided is not None:
        return decided
    return Outcome.PASSED if all(grade.passed for grade in grades) else Outcome.FAILED


def _reason(failure: Failure | None, detail: str) -> str:
    sentence = ruling(failure).sentence if failure is not None else ""
    return ": ".join(filter(None, (sentence, detail)))[:MAX_REASON]
