"""A real engine or its machine fails in mid-run: the run is INVALID, and tried again where that can help."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.runner import Quiet
from skillgate.bench.sandbox import Phase, SandboxFailure
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Outcome, Run
from tests.fakes.private_engine import IMAGE, PrivateEngine, eventually, private_engine, require_engine
from tests.fakes.struck import (
    FILES,
    HOLD,
    SUITE,
    TASK,
    USED,
    Blow,
    Shell,
    Struck,
    Trial,
    try_cells,
    write_suite,
)

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    # the SDK leaves a socket that did not connect to the collector
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PASSED, FAILED, LIMIT, INVALID = Outcome.PASSED, Outcome.FAILED, Outcome.LIMIT, Outcome.INVALID
ANSWER = "echo 42 > answer"
EAT = "tail /dev/zero > /dev/null"
LOST = "the sandbox was lost"
GONE = "the Docker engine went away"
FULL = "the disk of this machine is full"


@pytest.fixture(scope="module")
def one_engine() -> Iterator[PrivateEngine]:
    require_engine()
    with private_engine() as engine:
        yield engine


@pytest.fixture
def engine(
    one_engine: PrivateEngine, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrivateEngine]:
    """Return an engine that answers; at the end nothing of the runs may be left, on it or in this process."""
    one_engine.ensure()
    monkeypatch.setenv("DOCKER_HOST", one_engine.host)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = kept()
    yield one_engine
    one_engine.ensure()
    left = one_engine.ours(), list(scratch.iterdir()), kept()
    one_engine.clear()  # so that one test fails, not every one after it
    assert left == ([], [], before)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def kept() -> tuple[int, int]:
    """Return how many threads and sockets this process has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    sockets = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one of the folder itself
            sockets += str(file.readlink()).startswith("socket:")
    return threading.active_count(), sockets


@pytest.fixture
def cells(engine: PrivateEngine, tmp_path: Path) -> Callable[..., Trial]:
    """Return what runs the shell's task, its files changed as told, with an agent that runs a command."""

    def run(command: str = ANSWER, blow: Blow | None = None, **options: Any) -> Trial:
        suite = write_suite(tmp_path / "suite", FILES | options.pop("files", {}))
        sandbox = docker_sandbox(options.pop("image", IMAGE))
        before = options.pop("before", None)
        if before is not None:
            sandbox.require(load_suite(suite))
            before()
        struck = sandbox if blow is None else Struck(sandbox, blow)
        return try_cells(suite, struck, Shell(command), tmp_path / "journal", **options)

    return run


def told(trial: Trial) -> list[tuple[Outcome, str, int | None]]:
    """Return every attempt with its sentence, without the details."""
    return [(one.outcome, one.reason.partition(":")[0], one.used) for one in trial.attempts]


def grades(trial: Trial) -> list[tuple[str, bool, str]]:
    return [(one.grader, one.passed, one.detail.partition("\n")[0]) for one in trial.runs[0].grades]


class After(Quiet):
    """Does something when the first run has ended."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._acts = [act]

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        while self._acts:
            self._acts.pop()()


# ---- the engine


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("phase", list(Phase))
def test_an_engine_that_comes_back_costs_an_attempt(
    cells: Callable[..., Trial], engine: PrivateEngine, phase: Phase, end: str
) -> None:
    def bounce(_: str) -> None:
        getattr(engine, end)()
        engine.start()

    trial = cells(blow=Blow(phase, bounce))
    used = None if phase is Phase.AGENT else USED  # nobody knows what an agent that was cut has cost
    assert told(trial) == [(INVALID, GONE, used), (PASSED, "", USED)]
    assert [run.outcome for run in trial.runs] == [PASSED]
    assert (trial.spent, trial.held) == ((USED, HOLD) if used is None else (2 * USED, 0))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_engine_that_stays_away_scores_nothing_and_what_it_kept_goes_when_it_is_back(
    cells: Callable[..., Trial], engine: PrivateEngine, end: str
) -> None:
    blow = Blow(Phase.AGENT, lambda _: getattr(engine, end)())
    trial = cells(blow=blow, arms=["none", "head"], progress=After(engine.start))
    assert told(trial) == [(INVALID, GONE, None), *[(INVALID, GONE, 0)] * 2, (PASSED, "", USED)]
    assert [(run.outcome, run.pass_ratio) for run in trial.runs] == [(INVALID, None), (PASSED, 1.0)]
    assert (trial.spent, trial.held, engine.ours()) == (USED, HOLD, [])


@pytest.mark.parametrize("phase", list(Phase))
def test_an_engine_that_hangs_is_given_up(
    cells: Callable[..., Trial], engine: PrivateEngine, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docker.client.DEFAULT_TIMEOUT_SECONDS", 1)
    blow = Blow(phase, lambda _: engine.freeze(), timeout_s=2)
    trial = cells(blow=blow, arms=["none", "head"], progress=After(engine.thaw))
    used = None if phase is Phase.AGENT else USED
    assert told(trial) == [(INVALID, GONE, used), *[(INVALID, GONE, 0)] * 2, (PASSED, "", USED)]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_engine_that_is_restarted_between_two_runs_costs_nothing(
    cells: Callable[..., Trial], engine: PrivateEngine, end: str
) -> None:
    def bounce() -> None:
        getattr(engine, end)()
        engine.start()

    trial = cells(arms=["none", "head"], progress=After(bounce))
    assert told(trial) == [(PASSED, "", USED)] * 2


# ---- its containers and images


@pytest.mark.parametrize(
    ("act", "options"),
    [
        ("kill", {}),
        ("stop", {"timeout": 5}),
        ("restart", {"timeout": 5}),
        ("remove", {"force": True}),
        ("pause", {}),
    ],
)
@pytest.mark.parametrize("phase", list(Phase))
def test_a_container_that_somebody_else_touched_is_lost_and_tried_again(
    cells: Callable[..., Trial], engine: PrivateEngine, phase: Phase, act: str, options: dict[str, Any]
) -> None:
    def touch(container: str) -> None:
        with engine.client() as client:
            getattr(client.containers.get(container), act)(**options)

    trial = cells(blow=Blow(phase, touch, timeout_s=2 if act == "pause" else 15))
    used = None if phase is Phase.AGENT else USED
    assert told(trial) == [(INVALID, LOST, used), (PASSED, "", USED)]


def test_an_image_that_is_removed_after_the_plan(cells: Callable[..., Trial], engine: PrivateEngine) -> None:
    def remove() -> None:
        with engine.client() as client:
            client.images.remove(IMAGE, force=True)

    trial = cells(before=remove)
    assert told(trial) == [(INVALID, "the image is gone or could not be pulled", 0)] * 3
    assert (trial.spent, trial.held) == (0, 0)


@pytest.mark.parametrize(
    ("line", "sentence", "tries"),
    [
        ("image: 127.0.0.1:9/no/image:1", "the image is gone or could not be pulled", 3),
        (
            f"environment: {{base: '{IMAGE}', setup: exit 3, network: false}}",
            "the image could not be built",
            1,
        ),
    ],
    ids=["pull", "build"],
)
def test_an_image_that_nobody_asked_for_before_and_that_cannot_be_had(
    cells: Callable[..., Trial], line: str, sentence: str, tries: int
) -> None:
    trial = cells(files={"suite.yml": f"{SUITE}{line}\n"})
    assert told(trial) == [(INVALID, sentence, 0)] * tries
    assert (trial.spent, trial.held) == (0, 0)


# ---- its memory


def with_grader(command: str, suite: str = SUITE) -> dict[str, str]:
    return {"tasks/answer/task.yml": TASK.replace("test -f answer", command), "suite.yml": suite}


@pytest.mark.parametrize(
    "greed",
    [f"{EAT}; exit 1", "head -c 60m /dev/zero > /dev/shm/x; exit 1"],
    ids=["process", "files in memory, which only the end of all processes frees"],
)
def test_memory_that_the_agent_used_up_is_its_own_affair(cells: Callable[..., Trial], greed: str) -> None:
    trial = cells(f"{ANSWER}; {greed}")
    assert told(trial) == [(LIMIT, "the agent used up its memory", USED)]
    assert [passed for _, passed, _ in grades(trial)] == [True, True]


def test_memory_that_a_grader_used_up_fails_it(cells: Callable[..., Trial]) -> None:
    trial = cells(files=with_grader(EAT))
    assert told(trial) == [(FAILED, "", USED)]
    assert grades(trial) == [("answered", False, "ran out of memory"), ("alive", True, "")]


@pytest.mark.parametrize("phase", list(Phase))
def test_memory_that_the_machine_has_not_is_ours(
    cells: Callable[..., Trial], engine: PrivateEngine, phase: Phase
) -> None:
    roomy = SUITE.replace("memory-mb: 32", "memory-mb: 512")
    with engine.small_machine(48):
        if phase is Phase.AGENT:
            trial = cells(f"{ANSWER}; {EAT}", files={"suite.yml": roomy})
        else:
            trial = cells(files=with_grader(EAT, roomy))
    used = None if phase is Phase.AGENT else USED
    assert told(trial) == [(INVALID, "this machine ran out of memory", used)] * 3


def test_a_process_that_somebody_kills_from_the_host_cannot_be_told_from_one_that_ends_itself(
    cells: Callable[..., Trial], engine: PrivateEngine
) -> None:
    def kill(container: str) -> None:
        with engine.client() as client:
            pids = sorted(int(row[1]) for row in client.api.top(container)["Processes"])
        for pid in pids[2:]:  # not those that keep it; the shell before what it started
            os.kill(pid, signal.SIGKILL)

    trial = cells(blow=Blow(Phase.GRADE, kill))
    assert told(trial) == [(FAILED, "", USED)]
    assert grades(trial) == [("answered", False, "exit code 137"), ("alive", True, "")]


# ---- the disk with the runs


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


FILL = "head -c 100m /dev/zero > big; sleep 1"
ROOMY = SUITE.replace("memory-mb: 32", "memory-mb: 256")  # the small disk is in memory too


@pytest.mark.parametrize(
    ("command", "grader", "used"),
    [(f"{ANSWER}; {FILL}", "test -f answer", None), (ANSWER, FILL, USED)],
    ids=list(Phase),
)
def test_a_disk_that_fills_up_is_ours_and_not_tried_again(
    cells: Callable[..., Trial], scratch: Path, command: str, grader: str, used: int | None
) -> None:
    with small_disk(scratch):
        trial = cells(command, files=with_grader(grader, ROOMY))
        assert list(scratch.iterdir()) == []
    assert told(trial) == [(INVALID, FULL, used)]


def test_a_disk_that_is_full_already(cells: Callable[..., Trial], scratch: Path) -> None:
    with small_disk(scratch):
        fill(scratch)
        trial = cells()
    assert told(trial) == [(INVALID, FULL, 0)]


def test_a_disk_that_is_full_between_two_commands(
    engine: PrivateEngine, scratch: Path, tmp_path: Path
) -> None:
    suite = load_suite(write_suite(tmp_path / "suite"))
    with small_disk(scratch):
        with (
            Workspace.create(suite) as place,
            docker_sandbox(IMAGE).session(place, Phase.AGENT, suite.tasks[0].limits) as session,
        ):
            assert session.run("true", 10).exit_code == 0
            fill(scratch)
            eventually(lambda: not engine.running(), "the watch ended it")
            with pytest.raises(SandboxFailure) as caught:
                session.run("true", 10)
        (scratch / "ballast").unlink()
    assert caught.value.kind is Failure.DISK_FULL


def fill(folder: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (folder / "ballast").write_bytes(bytes(100_000_000))


def test_disk_that_the_agent_used_up_is_its_own_affair(cells: Callable[..., Trial]) -> None:
    trial = cells(f"{ANSWER}; {FILL}", files={"suite.yml": SUITE.replace("pids:", "disk-mb: 10, pids:")})
    assert told(trial) == [(LIMIT, "the agent used up its disk", USED)]
    assert [passed for _, passed, _ in grades(trial)] == [True, True]


def test_disk_that_a_grader_used_up_fails_it(cells: Callable[..., Trial]) -> None:
    trial = cells(files=with_grader(FILL, SUITE.replace("pids:", "disk-mb: 10, pids:")))
    assert told(trial) == [(FAILED, "", USED)]
    assert [(passed, detail) for _, passed, detail in grades(trial)] == [(False, "ran out of disk")] * 2
