"""One attempt at a cell -> Run: workspace, agent, graders; of a chain its tasks, one after the other.

Nothing is raised from here: whatever breaks becomes an outcome and a reason by the table in `failure`.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from skillgate.bench.agents.agent import Agent, AgentJob, AgentResult
from skillgate.bench.failure import Failure, ruling
from skillgate.bench.grade import grade, unreached
from skillgate.bench.meter.account import TOKEN
from skillgate.bench.prompt import compose, feedback_of
from skillgate.bench.sandbox import Clocked, Phase, Sandbox, SandboxFailure
from skillgate.bench.suite import Suite, Task
from skillgate.bench.workspace import Workspace, shown
from skillgate.core import Cell, Grade, Inject, Outcome, Plan, Run, Step
from skillgate.errors import SuiteError
from skillgate.skill import Skill
from skillgate.values import Usage

MAX_REASON = 400
MAX_DIFFERENT = 5


class Evaluation(NamedTuple):
    """One skill's paired run: its key in the journal, the plan, and what the cells need.

    `units` maps the task of a cell to its suite and the tasks to do, more than one in a chain. `traces` is
    the folder for what agents say, below that of the report. `contents` maps task and arm to a digest of all
    that decides their cells: runs of one content are exchangeable, and may be reused by later gates; `suites`
    are the digests of the suites by name.
    """

    key: str
    label: str
    plan: Plan
    units: Mapping[str, tuple[Suite, tuple[Task, ...]]]
    skills: Mapping[str, Skill | None]
    agent: Agent
    sandbox: Sandbox
    traces: Path | None = None
    contents: Mapping[tuple[str, str], str] = MappingProxyType({})
    suites: Mapping[str, str] = MappingProxyType({})


class Ended(NamedTuple):
    """How an attempt ended; the cost is not known when the agent was lost."""

    run: Run
    failure: Failure | None
    cost_known: bool


class Fairness:
    """What the workspaces of one evaluation have in common: all but the skill. Safe between threads."""

    def __init__(self) -> None:
        self._first: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def check(self, unit: str, files: dict[str, str]) -> None:
        """Compare with the first workspace of this unit. Raises: SandboxFailure(UNFAIR)."""
        with self._lock:
            first = self._first.setdefault(unit, files)
        if files != first:
            differ = sorted(name for name in {*files, *first} if files.get(name) != first.get(name))
            raise SandboxFailure(Failure.UNFAIR, ", ".join(map(shown, differ[:MAX_DIFFERENT])))


def attempt(cell: Cell, evaluation: Evaluation, fairness: Fairness) -> Ended:
    """Execute a cell once."""
    tried = _Attempt(cell, evaluation)
    try:
        run, failure = tried.work(fairness)
    except Exception as problem:  # noqa: BLE001 - the one boundary: what we do not know is INVALID
        failure, detail = _classify(problem)
        run = tried.invalid(failure, detail)
    return Ended(_masked(run), failure, tried.cost_known)


def _masked(run: Run) -> Run:
    """Take tokens of the meter out of what an agent can write into a run: names, and what graders print."""
    return msgspec.json.decode(TOKEN.sub(b"[token]", msgspec.json.encode(run)), type=Run)


def trace_folder(traces: Path | None, cell: Cell) -> Path | None:
    """Return the folder for what the agent says in a cell."""
    return traces and traces / cell.task / f"{cell.arm.replace(':', '-')}-{cell.repeat}"


class _Done(NamedTuple):
    """A task that was tried: what its graders said at last, and in which attempt it passed."""

    grades: tuple[Grade, ...]
    passed_at: int | None
    failure: Failure | None


class _Attempt:
    """The state of an attempt: what the agent said and cost so far."""

    def __init__(self, cell: Cell, evaluation: Evaluation) -> None:
        self._cell = cell
        self._evaluation = evaluation
        self._suite, self._tasks = evaluation.units[cell.task]
        self._skill = evaluation.skills[cell.arm]
        self._usage = Usage()
        self._skill_used: bool | None = None
        self._remarks: list[str] = []
        self._changed: tuple[str, ...] = ()
        self._models: tuple[str, ...] = ()
        self._reported: int | None = None
        self._traces = trace_folder(evaluation.traces, cell)
        self.cost_known = True

    def work(self, fairness: Fairness) -> tuple[Run, Failure | None]:
        started = time.monotonic()
        with Workspace.create(self._suite) as workspace:
            if self._skill is not None and self._evaluation.plan.inject is Inject.SKILL:
                folders = self._evaluation.agent.skill_folders
                workspace.install_skill(self._skill.folder_name, self._skill.files, folders)
            before = workspace.snapshot()
            fairness.check(self._cell.task, workspace.without_skill(before))
            done = self._do_all(workspace, before)
        failure = done[-1].failure
        grades = self._all_grades(done)
        run = Run(
            cell=self._cell,
            outcome=_outcome(failure, grades),
            grades=grades,
            usage=self._usage,
            wall_s=round(time.monotonic() - started, 3),
            reason=_reason(failure, *self._remarks),
            skill_used=self._skill_used,
            changed_files=tuple(map(shown, self._changed)),
            steps=self._steps(done),
            planned_steps=len(self._tasks) if self._has_steps else 0,
            models=self._models,
            reported_usd_micros=self._reported,
            trace_path=self._trace_path(),
        )
        return run, failure

    def invalid(self, failure: Failure, detail: str) -> Run:
        return Run(
            cell=self._cell,
            outcome=Outcome.INVALID,
            reason=_reason(failure, detail),
            usage=self._usage,
            models=self._models,
            trace_path=self._trace_path(),
        )

    def _trace_path(self) -> str | None:
        """Return where the agent's words are, seen from the folder of the report; None when it left none."""
        if self._traces is None or self._evaluation.traces is None or not self._traces.is_dir():
            return None
        return self._traces.relative_to(self._evaluation.traces.parent.parent).as_posix()

    def _do_all(self, workspace: Workspace, before: dict[str, str]) -> list[_Done]:
        """Do the tasks in their order, up to the first that does not pass."""
        done: list[_Done] = []
        for task in self._tasks:
            done.append(self._do(task, workspace, before))
            if done[-1].passed_at is None or done[-1].failure is not None:
                break
        return done

    def _do(self, task: Task, workspace: Workspace, before: dict[str, str]) -> _Done:
        """Let the agent try a task as often as it may, each time told why the last was not enough."""
        feedback = ""
        for number in range(1, self._suite.attempts + 1):
            result = self._run_agent(task, workspace, feedback, number)
            self._changed = workspace.changed_since(before)
            grades = self._grade(task, workspace)
            passed = all(one.passed for one in grades)
            if passed or result.failure is not None:
                break
            feedback = feedback_of(grades)
        return _Done(grades, number if passed else None, result.failure)

    def _run_agent(self, task: Task, workspace: Workspace, feedback: str, number: int) -> AgentResult:
        plan = self._evaluation.plan
        limits = msgspec.structs.replace(
            task.limits, memory_mb=task.limits.memory_mb + self._evaluation.agent.memory_mb
        )
        with self._evaluation.sandbox.session(workspace, Phase.AGENT, limits) as session:
            self.cost_known = False
            result = self._evaluation.agent.run(
                AgentJob(
                    cell=self._cell,
                    task=task,
                    prompt=compose(task, self._skill, plan.inject, feedback),
                    workspace=workspace,
                    session=Clocked(session, task.limits.timeout_s),
                    skill=self._skill,
                    seed=plan.seed,
                    budget_usd_micros=plan.per_run_usd_micros - self._usage.usd_micros,
                    attempt=number,
                    inject=plan.inject,
                    trace=self._traces and self._traces / f"{task.short_id}-{number}.log",
                    used=self._usage,
                )
            )
        if session.refused:
            self._remarks.append(f"not reached, as it is not in run.network: {', '.join(session.refused)}")
        self.cost_known = True
        self._usage += result.usage
        self._models = tuple(dict.fromkeys((*self._models, *result.models)))
        if result.reported_usd_micros is not None:
            self._reported = (self._reported or 0) + result.reported_usd_micros
        self._skill_used = self._skill_used or result.skill_used
        self._remarks += [result.detail] if result.detail else []
        if result.failure is not None and ruling(result.failure).outcome is Outcome.INVALID:
            raise SandboxFailure(result.failure, result.detail)
        return result

    def _grade(self, task: Task, workspace: Workspace) -> tuple[Grade, ...]:
        """Grade what the agent changed, in a new copy of the repository and a new session."""
        with workspace.graded(task, self._changed) as (clean, left_out):
            self._remarks += [f"not graded: {sentence}" for sentence in left_out[:MAX_DIFFERENT]]
            with self._evaluation.sandbox.session(clean, Phase.GRADE, task.limits) as session:
                return grade(task, clean, session)

    def _all_grades(self, done: Sequence[_Done]) -> tuple[Grade, ...]:
        """Return the grades of all tasks, those that were not reached too: their number never varies."""
        if not self._suite.chain:
            return done[0].grades
        every = [one.grades for one in done] + [unreached(task) for task in self._tasks[len(done) :]]
        return tuple(
            msgspec.structs.replace(one, grader=f"{task.short_id}/{one.grader}")
            for task, grades in zip(self._tasks, every, strict=True)
            for one in grades
        )

    @property
    def _has_steps(self) -> bool:
        return self._suite.chain or self._suite.attempts > 1

    def _steps(self, done: Sequence[_Done]) -> tuple[Step, ...]:
        if not self._has_steps:
            return ()
        pairs = zip(self._tasks, done, strict=False)
        return tuple(Step(task=task.id, passed_at=one.passed_at) for task, one in pairs)


def _classify(problem: Exception) -> tuple[Failure, str]:
    if isinstance(problem, SandboxFailure):
        return problem.kind, problem.detail
    if isinstance(problem, SuiteError):
        return Failure.SUITE_BROKEN, problem.message
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure.DISK_FULL, str(problem)
    return Failure.UNKNOWN, f"{type(problem).__name__}: {problem}"


def _outcome(failure: Failure | None, grades: tuple[Grade, ...]) -> Outcome:
    decided = ruling(failure).outcome if failure is not None else None
    if decided is not None:
        return decided
    return Outcome.PASSED if all(grade.passed for grade in grades) else Outcome.FAILED


def _reason(failure: Failure | None, *details: str) -> str:
    sentence = ruling(failure).sentence if failure is not None else ""
    return ": ".join(filter(None, (sentence, "; ".join(filter(None, details)))))[:MAX_REASON]
