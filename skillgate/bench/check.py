"""A suite -> what is wrong with it: the oracle must pass every grader, doing nothing must not.

Each task is run four times, the oracle and the no-op twice; a grade that changes its mind is a
problem of its own. Each wrong solution of a task is run once and must fail a fail-to-pass grade.
No agent, no model, no money.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from skillgate.bench.grade import grade
from skillgate.bench.sandbox import Phase, Sandbox, SandboxFailure
from skillgate.bench.suite import Suite, Task
from skillgate.bench.workspace import Workspace
from skillgate.core import Grade, GradeKind
from skillgate.errors import SuiteError
from skillgate.values import Struct

TIMES = 2


class TaskCheck(Struct, kw_only=True):
    """One checked task; no problems means it may judge a skill."""

    task: str
    problems: tuple[str, ...] = ()


class _Attempt(Struct, kw_only=True):
    grades: tuple[Grade, ...]
    changed: tuple[str, ...]


def check_suite(
    suite: Suite,
    sandbox: Sandbox,
    workers: int = 2,
    progress: Callable[[TaskCheck], None] | None = None,
) -> tuple[TaskCheck, ...]:
    """Check every task, several at a time; results are in the order of the suite.

    Args:
        progress: called in this thread with each task as it is done.

    Raises: PrerequisiteError when the sandbox lacks what the suite needs.
    """
    sandbox.require(suite)
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(_check_task, task, suite, sandbox) for task in suite.tasks]
        try:
            for done in as_completed(pending):
                if progress is not None:
                    progress(done.result())
        except BaseException:  # Ctrl-C must not wait for a hanging grader
            sandbox.interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(future.result() for future in pending)


def _check_task(task: Task, suite: Suite, sandbox: Sandbox) -> TaskCheck:
    try:
        oracle = [_attempt(task, suite, sandbox, task.solution) for _ in range(TIMES)]
        no_op = [_attempt(task, suite, sandbox, None) for _ in range(TIMES)]
        wrong = [(patch, _attempt(task, suite, sandbox, patch)) for patch in task.wrong]
    except SuiteError as problem:
        return TaskCheck(task=task.id, problems=(f"{problem.message} ({problem.hint})",))
    except SandboxFailure as failure:
        return TaskCheck(task=task.id, problems=(f"{task.id}: {failure.detail} ({failure.kind})",))
    problems = (
        *_of_files(task, oracle[0].changed),
        *_of_grades(task, "oracle", oracle, lambda kind: True),
        *_of_grades(task, "no-op", no_op, lambda kind: kind is GradeKind.PASS_TO_PASS),
        *_of_wrong(task, wrong),
    )
    return TaskCheck(task=task.id, problems=problems)


def _attempt(task: Task, suite: Suite, sandbox: Sandbox, patch: Path | None) -> _Attempt:
    with Workspace.create(suite) as workspace:
        before = workspace.snapshot()
        if patch is not None:
            workspace.apply_patch(patch)
        changed = workspace.changed_since(before)
        workspace.restore_protected(task, suite)
        workspace.add_tests(task, suite)
        with sandbox.session(workspace, Phase.GRADE, task.limits) as session:
            return _Attempt(grades=grade(task, workspace, session), changed=changed)


def _of_files(task: Task, changed: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(set(task.deliverables) - set(changed)):
        yield f"{task.id}: oracle: does not change the deliverable `{path}`, only {', '.join(changed)}"
    for path in filter(task.protects, changed):
        yield f"{task.id}: oracle: changes `{path}`, which is protected and put back before grading"
    if not any(grader.kind is GradeKind.FAIL_TO_PASS for grader in task.graders):
        yield f"{task.id}: no grader is fail-to-pass, so doing nothing solves the task"


def _of_grades(
    task: Task, who: str, attempts: list[_Attempt], wanted: Callable[[GradeKind], bool]
) -> Iterator[str]:
    for same in zip(*(attempt.grades for attempt in attempts), strict=True):
        expected = wanted(same[0].kind)
        wrong = [one for one in same if one.passed != expected]
        if not wrong:
            continue
        again = (
            "every time"
            if len(wrong) == len(same)
            else f"{len(wrong)} of {len(same)} times: it is not deterministic"
        )
        yield (
            f"{task.id}: {who}: grader `{same[0].grader}` ({same[0].kind}) should {_verb(expected)} "
            f"and did {_verb(not expected)} {again}{_output(wrong[0])}"
        )


def _of_wrong(task: Task, wrong: list[tuple[Path, _Attempt]]) -> Iterator[str]:
    for patch, attempt in wrong:
        if all(one.passed for one in attempt.grades if one.kind is GradeKind.FAIL_TO_PASS):
            name = patch.relative_to(task.folder).as_posix()
            yield f"{task.id}: {name}: a wrong solution that every fail-to-pass grader passes"


def _verb(passes: bool) -> str:
    return "pass" if passes else "fail"


def _output(wrong: Grade) -> str:
    return "\n    " + wrong.detail.replace("\n", "\n    ") if wrong.detail else ""
