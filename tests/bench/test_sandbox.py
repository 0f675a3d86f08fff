from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import (
    OUTPUT_LIMIT,
    Capture,
    Limit,
    Phase,
    Sandbox,
    SandboxFailure,
    Session,
    failure_of,
    local_sandbox,
)
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace

PYTHON_BIN = Path(sys.executable).parent


@pytest.fixture
def place(tiny_suite: Path, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        yield workspace


@pytest.fixture
def sandbox() -> Sandbox:
    return local_sandbox(PYTHON_BIN)


@pytest.fixture
def session(sandbox: Sandbox, place: Workspace) -> Iterator[Session]:
    with sandbox.session(place, Phase.GRADE, Limits()) as opened:
        yield opened


def wait_for_pid(path: Path) -> int:
    for _ in range(200):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"nothing wrote {path}")


def is_alive(pid: int) -> bool:
    """A zombie of another parent is dead; give the kernel a moment."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state in "ZX":
            return False
        time.sleep(0.01)
    return True


def test_what_it_says_of_itself(sandbox: Sandbox) -> None:
    assert (sandbox.name, sandbox.isolates, sandbox.describe()) == ("local", False, {"sandbox": "local"})


@pytest.mark.parametrize("phase", list(Phase))
def test_the_environment_is_ours_alone(
    sandbox: Sandbox, place: Workspace, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "key")
    with sandbox.session(place, phase, Limits()) as session:
        result = session.run("env -u PWD -u OLDPWD -u _ -u SHLVL; pwd", 10)
    *pairs, folder = result.output.splitlines()
    held_out = {"TESTS": str(place.tests), "RESULTS": str(place.results)}
    assert dict(pair.split("=", 1) for pair in pairs) == {
        "PATH": f"{PYTHON_BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(place.home),
        "TMPDIR": str(place.temp),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(held_out if phase is Phase.GRADE else {}),
    }
    assert folder == str(place.workspace)


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("true", 0, ""),
        ("exit 3", 3, ""),
        ("kill -9 $$", 137, ""),
        ("kill -TERM $$", 143, ""),
        ("echo out; echo err >&2; echo out", 0, "out\nerr\nout\n"),
        ("printf 'a\\377b'", 0, "a\ufffdb"),
        ("cat", 0, ""),
        ("python3 -c 'import yaml; print(yaml.__name__)'", 0, "yaml\n"),
        ("no-such-program 2>/dev/null", 127, ""),
    ],
)
def test_runs_a_command(session: Session, command: str, exit_code: int, output: str) -> None:
    result = session.run(command, 10)
    assert (result.exit_code, result.output, result.limit) == (exit_code, output, None)


def test_commands_of_a_session_share_the_workspace(session: Session, place: Workspace) -> None:
    session.run("echo 1 > file", 10)
    assert session.run("cat file", 10).output == "1\n"
    assert (place.workspace / "file").exists()


@pytest.mark.parametrize(
    "child",
    [
        "sleep 60",
        "setsid sleep 60",
        "env -i sleep 60",
        "setsid sh -c 'sleep 60 & wait'",
        "trap '' TERM; sleep 60",
    ],
)
def test_the_time_limit_ends_everything(session: Session, place: Workspace, child: str) -> None:
    started = time.monotonic()
    result = session.run(f"({child}) & echo $! > pid; wait", 0.3)
    assert (result.limit, result.exit_code) == (Limit.CLOCK, 137)
    assert 0.3 <= result.wall_s < 1.5
    assert time.monotonic() - started < 2
    assert not is_alive(wait_for_pid(place.workspace / "pid"))


@pytest.mark.parametrize("child", ["sleep 60", "setsid sleep 60", "env -i sleep 60", "yes"])
def test_what_a_command_left_behind_ends_with_it(session: Session, place: Workspace, child: str) -> None:
    result = session.run(f"{child} & echo $! > pid", 30)
    assert (result.limit, result.exit_code) == (None, 0)
    assert result.wall_s < 2
    assert not is_alive(wait_for_pid(place.workspace / "pid"))


def test_the_last_words_of_a_command_are_read(session: Session) -> None:
    said = [session.run("(sleep 60 & exec sleep 60) & echo last words", 10).output for _ in range(20)]
    assert said == ["last words\n"] * 20


def test_a_command_that_closes_its_output_is_waited_for(session: Session) -> None:
    result = session.run("exec >&- 2>&-; sleep 0.2; exit 5", 10)
    assert (result.exit_code, result.output) == (5, "")
    assert result.wall_s >= 0.2


def test_endless_output_fills_no_memory_and_ends_in_time(session: Session) -> None:
    result = session.run("echo first; yes; echo never", 0.5)
    assert result.limit is Limit.CLOCK
    assert 0.5 <= result.wall_s < 1.5
    assert len(result.output) <= OUTPUT_LIMIT
    assert result.output.startswith("first\ny\n")
    assert "bytes left out]" in result.output


def test_long_output_keeps_head_and_tail(session: Session) -> None:
    result = session.run("echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last", 10)
    assert (result.exit_code, len(result.output) <= OUTPUT_LIMIT) == (0, True)
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")


@pytest.mark.parametrize(
    "size", [0, 1, OUTPUT_LIMIT // 2, OUTPUT_LIMIT - 200, OUTPUT_LIMIT + 1, 3 * OUTPUT_LIMIT]
)
@pytest.mark.parametrize("step", [7001, 10**6])
def test_capture_keeps_all_it_can_and_counts_the_rest(size: int, step: int) -> None:
    data = bytes(ord("a") + n % 26 for n in range(size))
    capture = Capture()
    for start in range(0, size, step):
        capture.add(data[start : start + step])
    text = capture.text()
    head, gap, tail = text.partition("\n[")
    left_out, _, tail = tail.partition(" bytes left out]\n")
    assert len(text) <= OUTPUT_LIMIT
    assert data.decode().startswith(head)
    assert data.decode().endswith(tail)
    assert len(head) + len(tail) + int(left_out or 0) == size
    assert bool(gap) == (size > OUTPUT_LIMIT)


def test_two_sessions_at_once_do_not_kill_each_other(
    sandbox: Sandbox, place: Workspace, tiny_suite: Path, tmp_path: Path
) -> None:
    with (
        Workspace.create(load_suite(tiny_suite), tmp_path) as other,
        sandbox.session(place, Phase.GRADE, Limits()) as first,
        sandbox.session(other, Phase.GRADE, Limits()) as second,
    ):
        results: list[str] = []
        thread = threading.Thread(
            target=lambda: results.append(first.run("setsid sleep 0.4; echo on", 10).output)
        )
        thread.start()
        assert second.run("sleep 60", 0.2).limit is Limit.CLOCK
        thread.join()
    assert results == ["on\n"]


def test_interrupt_ends_what_runs_and_what_would(sandbox: Sandbox, place: Workspace) -> None:
    with sandbox.session(place, Phase.GRADE, Limits()) as session:
        timer = threading.Timer(0.2, sandbox.interrupt)
        timer.start()
        started = time.monotonic()
        for _ in range(2):
            with pytest.raises(SandboxFailure) as caught:
                session.run("echo $$ > pid; sleep 60", 30)
            assert caught.value.kind is Failure.INTERRUPTED
        timer.join()
    assert time.monotonic() - started < 2
    assert not is_alive(wait_for_pid(place.workspace / "pid"))


CTRL_C = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
from skillgate.bench.sandbox import Phase, local_sandbox
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace
with Workspace.create(load_suite(Path(sys.argv[1])), Path(sys.argv[2])) as place:
    with local_sandbox(Path(sys.executable).parent).session(place, Phase.AGENT, Limits()) as session:
        session.run("setsid sleep 60 & echo $! > ../../pid; wait", 30)
"""


def test_ctrl_c_leaves_no_process_and_no_folder(tiny_suite: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", CTRL_C, str(tiny_suite), str(scratch)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={"PYTHONPATH": str(Path.cwd())}) as process:
        pid = wait_for_pid(scratch / "pid")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert b"KeyboardInterrupt" in errors
    assert not is_alive(pid)
    assert [path.name for path in scratch.iterdir()] == ["pid"]


def test_a_workspace_that_vanished_is_a_failure_of_the_sandbox(session: Session, place: Workspace) -> None:
    place.close()
    with pytest.raises(SandboxFailure, match=r"sandbox-start: .*No such file") as caught:
        session.run("true", 10)
    assert caught.value.kind is Failure.SANDBOX_START


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, Failure.DISK_FULL),
        (errno.EDQUOT, Failure.DISK_FULL),
        (errno.ENOMEM, Failure.SANDBOX_START),
    ],
)
def test_a_full_disk_has_its_own_name(number: int, kind: Failure) -> None:
    assert failure_of(OSError(number, "told")).kind is kind
