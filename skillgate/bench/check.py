"""A suite -> what is wrong with it: the oracle must pass every grader, doing nothing must not.

Each task is run four times, the oracle and the no-op twice; a grade that changes its mind is a
problem of its own. Each wrong solution of a task is run once and must fail a fail-to-pass grade.
No agent, no model, no money.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from skillgate.bench.grade import grade
from skillgate.bench.sandbox import Phase, Sandbox, SandboxFailure
from skillgate.bench.suite import Suite, Task
from skillgate.bench.tamper import early_exits, plants, wreck
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
    left_out: tuple[str, ...] = ()


_MEND = "let it want a JUnit report, run `python3 -I`, or protect the file"
Try = Callable[..., _Attempt]
"""Grades a task with `patch=` or `files=`, or with neither."""


def check_suite(
    suite: Suite,
    sandbox: Sandbox,
    workers: int = 2,
    times: int = TIMES,
    progress: Callable[[TaskCheck], None] | None = None,
) -> tuple[TaskCheck, ...]:
    """Check every task, several at a time; results are in the order of the suite.

    Args:
        times: how often the oracle and the no-op are graded; more finds rarer flaws.
        progress: called in this thread with each task as it is done.

    Raises: PrerequisiteError when the sandbox lacks what the suite needs.
    """
    sandbox.require(suite)
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(_check_task, task, suite, sandbox, times) for task in suite.tasks]
        try:
            for done in as_completed(pending):
                if progress is not None:
                    progress(done.result())
        except BaseException:  # Ctrl-C must not wait for a hanging grader
            sandbox.interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(future.result() for future in pending)


def _check_task(task: Task, suite: Suite, sandbox: Sandbox, times: int) -> TaskCheck:
    try:
        tried = partial(_attempt, task, suite, sandbox)
        problems = tuple(_flaws(task, tried, times)) or tuple(_fooled(task, suite, tried))
    except SuiteError as problem:
        problems = (f"{problem.message} ({problem.hint})",)
    except SandboxFailure as failure:
        problems = (f"{task.id}: {failure.detail} ({failure.kind})",)
    return TaskCheck(task=task.id, problems=problems)


def _flaws(task: Task, tried: Try, times: int) -> Iterator[str]:
    oracle = [tried(patch=task.solution) for _ in range(times)]
    yield from _of_files(task, oracle[0])
    yield from _of_grades(task, "oracle", oracle, lambda kind: True)
    no_op = [tried() for _ in range(times)]
    yield from _of_grades(task, "no-op", no_op, lambda kind: kind is GradeKind.PASS_TO_PASS)
    for patch in task.wrong:
        if _passes(tried(patch=patch)):
            name = patch.relative_to(task.folder).as_posix()
            yield f"{task.id}: {name}: a wrong solution that every fail-to-pass grader passes"


def _fooled(task: Task, suite: Suite, tried: Try) -> Iterator[str]:
    """Try to be graded well without doing the task."""
    planted = plants(task, suite.repo)
    found = list(_of_tampering(task, planted, {}, tried))
    found += _of_tampering(task, planted, wreck(task, suite.repo), tried)
    if exits := early_exits(task):
        found += _of_tampering(task, exits, dict.fromkeys(exits, ""), tried)
    yield from dict.fromkeys(found)


def _attempt(
    task: Task,
    suite: Suite,
    sandbox: Sandbox,
    patch: Path | None = None,
    files: Mapping[str, str] | None = None,
) -> _Attempt:
    """Grade a workspace with a patch, or with files; in a chain, on top of the oracles before."""
    with Workspace.create(suite) as workspace:
        fresh = workspace.snapshot()
        for earlier in suite.tasks[: suite.tasks.index(task)] if suite.chain else ():
            workspace.apply_patch(earlier.solution)
        start = workspace.snapshot()
        if patch is not None:
            workspace.apply_patch(patch)
        workspace.write(files or {})
        changed = workspace.changed_since(start)
        with (
            workspace.graded(task, workspace.changed_since(fresh)) as (clean, left_out),
            sandbox.session(clean, Phase.GRADE, task.limits) as session,
        ):
            return _Attempt(grades=grade(task, clean, session), changed=changed, left_out=tuple(left_out))


def _passes(attempt: _Attempt) -> bool:
    return all(one.passed for one in attempt.grades if one.kind is GradeKind.FAIL_TO_PASS)


def _of_tampering(task: Task, files: Mapping[str, str], base: Mapping[str, str], tried: Try) -> Iterator[str]:
    """Say which grader that `base` fails lets itself be fooled into passing, and by which of the files."""
    failed = {one.grader for one in tried(files=base).grades if not one.passed}
    fooled = _passed_of(failed, tried(files={**base, **files}))
    while fooled:
        grader = min(fooled)
        names = list(files)
        while len(names) > 1:  # halve them while one half is enough
            halves = names[: len(names) // 2], names[len(names) // 2 :]
            tries = ((half, {**base, **{name: files[name] for name in half}}) for half in halves)
            names = next((half for half, some in tries if _passed_of({grader}, tried(files=some))), [])
        if names:
            what = f"a certain `{names[0]}`"
            found = _passed_of(fooled, tried(files={**base, names[0]: files[names[0]]}))
        else:
            what, found = "certain files together", {grader}
        for one in sorted(found):
            yield f"{task.id}: tampering: grader `{one}` passes when an agent leaves {what}: {_MEND}"
        fooled -= found or {grader}


def _passed_of(graders: set[str], attempt: _Attempt) -> set[str]:
    return {one.grader for one in attempt.grades if one.passed} & graders


def _of_files(task: Task, oracle: _Attempt) -> Iterator[str]:
    changed = oracle.changed
    for path in sorted(set(task.deliverables) - set(changed)):
        yield f"{task.id}: oracle: does not change the deliverable `{path}`, only {', '.join(changed)}"
    for path in filter(task.protects, changed):
        yield f"{task.id}: oracle: changes `{path}`, which is protected and put back before grading"
    for sentence in oracle.left_out:
        hint = "so it is not graded; if it belongs to the task, make it a deliverable"
        yield f"{task.id}: oracle: {sentence}, {hint}"
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


def _verb(passes: bool) -> str:
    return "pass" if passes else "fail"


def _output(wrong: Grade) -> str:
    return "\n    " + wrong.detail.replace("\n", "\n    ") if wrong.detail else ""
