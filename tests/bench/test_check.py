from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillgate.bench.check import TaskCheck, check_suite
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import Phase, Sandbox, SandboxFailure, Session, local_sandbox
from skillgate.bench.suite import Limits, Suite, files_of, load_suite, suite_digest
from skillgate.bench.workspace import Workspace
from skillgate.errors import PrerequisiteError, SuiteError

TASK = "tasks/add-double/task.yml"
ID = "tiny/add-double"


@pytest.fixture
def sandbox() -> Sandbox:
    return local_sandbox(Path(sys.executable).parent)


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def problems(folder: Path, sandbox: Sandbox) -> tuple[str, ...]:
    (check,) = check_suite(load_suite(folder), sandbox)
    assert check.task == ID
    return check.problems


def test_a_good_suite(tiny_suite: Path, sandbox: Sandbox) -> None:
    assert check_suite(load_suite(tiny_suite), sandbox) == (TaskCheck(task=ID),)


def test_every_task_is_checked_in_order_and_told(tiny_suite: Path, sandbox: Sandbox) -> None:
    for name in ("b", "a"):
        shutil.copytree(tiny_suite / "tasks/add-double", tiny_suite / "tasks" / name)
    told: list[TaskCheck] = []
    checks = check_suite(load_suite(tiny_suite), sandbox, workers=3, progress=told.append)
    assert checks == (TaskCheck(task="tiny/a"), TaskCheck(task=ID), TaskCheck(task="tiny/b"))
    assert sorted(told, key=lambda check: check.task) == list(checks)


def test_an_oracle_that_fails(tiny_suite: Path, sandbox: Sandbox) -> None:
    edit(tiny_suite, "tasks/add-double/solution.patch", "2 * ", "3 * ")
    assert problems(tiny_suite, sandbox) == (
        f"{ID}: oracle: grader `doubles/doubles.two` (fail-to-pass) should pass and did fail every time\n"
        "    failure: wrong",
    )


def test_a_no_op_that_passes_and_one_that_breaks(tiny_suite: Path, sandbox: Sandbox) -> None:
    edit(tiny_suite, TASK, "test -f calc/double.py", "exit 0")
    edit(tiny_suite, TASK, "run: python3 -IB tests/test_add.py", "run: 'echo no; exit 4'")
    broken = "grader `old-suite` (pass-to-pass) should pass and did fail every time\n    exit code 4\n    no"
    assert problems(tiny_suite, sandbox) == (
        f"{ID}: oracle: {broken}",
        f"{ID}: no-op: grader `exists` (fail-to-pass) should fail and did pass every time",
        f"{ID}: no-op: {broken}",
    )


def test_a_grader_that_changes_its_mind(tiny_suite: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    coin = f"'if mkdir {tmp_path}/coin 2>/dev/null; then exit 0; else rmdir {tmp_path}/coin; exit 1; fi'"
    edit(tiny_suite, TASK, "python3 -IB tests/test_add.py", coin)
    fickle = "(pass-to-pass) should pass and did fail 1 of 2 times: it is not deterministic"
    assert problems(tiny_suite, sandbox) == (
        f"{ID}: oracle: grader `old-suite` {fickle}\n    exit code 1",
        f"{ID}: no-op: grader `old-suite` {fickle}\n    exit code 1",
    )


def test_a_solution_that_does_not_apply(tiny_suite: Path, sandbox: Sandbox) -> None:
    edit(tiny_suite, "tasks/add-double/solution.patch", "+++ b/calc/double.py", "+++ b/calc/__init__.py")
    (problem,) = problems(tiny_suite, sandbox)
    assert problem.startswith(f"{tiny_suite}/tasks/add-double/solution.patch:1: does not apply: error: ")
    assert problem.endswith("(Make it again with `git diff` from the root of the fixture repository.)")


def test_a_solution_and_its_files(tiny_suite: Path, sandbox: Sandbox) -> None:
    edit(tiny_suite, TASK, "  - calc/double.py", "  - calc/__init__.py")
    edit(tiny_suite, TASK, "tests/**", "calc/d*")
    edit(tiny_suite, TASK, "fail-to-pass", "pass-to-pass")
    assert problems(tiny_suite, sandbox)[:3] == (
        f"{ID}: oracle: does not change the deliverable `calc/__init__.py`, only calc/double.py",
        f"{ID}: oracle: changes `calc/double.py`, which is protected and put back before grading",
        f"{ID}: no grader is fail-to-pass, so doing nothing solves the task",
    )


def wrong_patch(folder: Path, name: str, factor: str) -> None:
    """Keep the oracle with another factor as a wrong solution."""
    task = folder / "tasks/add-double"
    (task / "wrong").mkdir(exist_ok=True)
    text = (task / "solution.patch").read_text(encoding="utf-8").replace("2 * ", factor)
    (task / "wrong" / name).write_text(text, encoding="utf-8")


def test_wrong_solutions_that_are_rejected(tiny_suite: Path, sandbox: Sandbox) -> None:
    wrong_patch(tiny_suite, "triples.patch", "3 * ")
    wrong_patch(tiny_suite, "adds-two.patch", "2 + ")
    (task,) = load_suite(tiny_suite).tasks
    assert [patch.name for patch in task.wrong] == ["adds-two.patch", "triples.patch"]
    assert problems(tiny_suite, sandbox) == ()


def test_a_wrong_solution_that_no_fail_to_pass_grader_rejects(tiny_suite: Path, sandbox: Sandbox) -> None:
    wrong_patch(tiny_suite, "triples.patch", "3 * ")
    wrong_patch(tiny_suite, "shifts.patch", "4 // 2 * ")
    edit(tiny_suite, TASK, "python3 -IB tests/test_add.py", "'! grep -q // calc/double.py'")
    assert problems(tiny_suite, sandbox) == (
        f"{ID}: wrong/shifts.patch: a wrong solution that every fail-to-pass grader passes",
    )


def test_a_wrong_solution_that_does_not_apply(tiny_suite: Path, sandbox: Sandbox) -> None:
    wrong_patch(tiny_suite, "late.patch", "3 * ")
    edit(tiny_suite, "tasks/add-double/wrong/late.patch", "--- /dev/null", "--- a/calc/double.py")
    (problem,) = problems(tiny_suite, sandbox)
    assert problem.startswith(f"{tiny_suite}/tasks/add-double/wrong/late.patch:1: does not apply: error: ")


def test_a_file_that_is_no_wrong_solution(tiny_suite: Path) -> None:
    wrong_patch(tiny_suite, "triples.diff", "3 * ")
    with pytest.raises(SuiteError) as caught:
        load_suite(tiny_suite)
    path = f"{tiny_suite}/tasks/add-double/wrong/triples.diff"
    assert caught.value.message == f"{path}:1: not the patch of a wrong solution"


def test_wrong_solutions_belong_to_the_suite_and_reach_no_workspace(tiny_suite: Path) -> None:
    before = suite_digest(load_suite(tiny_suite))
    wrong_patch(tiny_suite, "triples.patch", "3 * ")
    suite = load_suite(tiny_suite)
    with Workspace.create(suite) as workspace, workspace.graded(suite.tasks[0], ()) as (clean, _):
        assert [name for name in files_of(clean.root) if "wrong" in name or "triples" in name] == []
    with_wrong = suite_digest(suite)
    wrong_patch(tiny_suite, "triples.patch", "3 + ")
    assert len({before, with_wrong, suite_digest(suite)}) == 3


def test_a_grader_whose_program_is_missing(tiny_suite: Path, sandbox: Sandbox) -> None:
    edit(tiny_suite, TASK, "run: python3 -IB", "run: no-such-program")
    assert problems(tiny_suite, sandbox) == (
        f"{ID}: grader `old-suite`: not in the sandbox: no-such-program (grader-broken)",
    )


class Stopped:
    """A sandbox whose commands run until somebody interrupts."""

    name = "stopped"
    isolates = False

    def __init__(self) -> None:
        self.event = threading.Event()

    def require(self, suite: Suite) -> None:
        if suite.image:
            raise PrerequisiteError(f"no {suite.image}")

    @contextmanager
    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> Iterator[Session]:
        assert self.event.wait(10)
        raise SandboxFailure(Failure.INTERRUPTED, "stopped")
        yield

    def describe(self) -> dict[str, str]:
        return {}

    def interrupt(self) -> None:
        self.event.set()


def test_ctrl_c_interrupts_the_sandbox(tiny_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(pending: object) -> Iterator[object]:
        raise KeyboardInterrupt

    sandbox = Stopped()
    monkeypatch.setattr("skillgate.bench.check.as_completed", stop)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        check_suite(load_suite(tiny_suite), sandbox)
    assert sandbox.event.is_set()
    assert time.monotonic() - started < 5


def test_what_the_sandbox_lacks_is_said_before_anything_runs(tiny_suite: Path) -> None:
    edit(tiny_suite, "suite.yml", "version: 1", "version: 1\nimage: example/image")
    with pytest.raises(PrerequisiteError, match="no example/image"):
        check_suite(load_suite(tiny_suite), Stopped())
