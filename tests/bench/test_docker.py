"""The docker sandbox against a real engine: isolation is asked from inside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import msgspec
import pytest
from docker.errors import DockerException

from skillgate.bench.check import TaskCheck, check_suite
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.host.owner import LABEL
from skillgate.bench.images.recipe import Environment
from skillgate.bench.sandbox import OUTPUT_LIMIT, Limit, Phase, Sandbox, SandboxFailure, Session
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace
from skillgate.errors import ExitCode, PrerequisiteError

LIMITS = Limits(memory_mb=64, pids=32)
ROOT = Path(__file__).parents[2]
NOWHERE = "unix:///nonexistent/docker.sock"


@pytest.fixture
def place(tiny_suite: Path, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        yield workspace


@pytest.fixture
def sandbox(docker_image: str) -> Sandbox:
    return docker_sandbox(docker_image)


@pytest.fixture
def session(sandbox: Sandbox, place: Workspace) -> Iterator[Session]:
    with sandbox.session(place, Phase.GRADE, LIMITS) as opened:
        yield opened


def containers_on(place: Workspace) -> list[docker.models.containers.Container]:
    with closing(docker.from_env()) as client:
        wanted = {"label": f"{LABEL}=1"}  # those of other tests may go while we look
        found = client.containers.list(all=True, filters=wanted, ignore_removed=True)
        root = str(place.root)
        return [c for c in found if any(m["Source"].startswith(root) for m in c.attrs["Mounts"])]


def said(session: Session, command: str) -> str:
    result = session.run(command, 20)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.docker
def test_it_says_which_image_it_runs(sandbox: Sandbox, docker_image: str) -> None:
    with closing(docker.from_env()) as client:
        image, version = client.images.get(docker_image), client.version()["Version"]
    digest = (image.attrs["RepoDigests"] or [image.id])[0]
    assert (sandbox.name, sandbox.isolates) == ("docker", True)
    assert sandbox.describe() == {
        "sandbox": "docker",
        "docker-engine": version,
        f"image {docker_image}": digest,
    }


@pytest.mark.docker
def test_no_network(session: Session) -> None:
    assert said(session, "ls /sys/class/net").split() == ["lo"]
    assert len(said(session, "cat /proc/net/route").splitlines()) <= 1
    assert said(session, "cat /proc/net/ipv6_route 2>/dev/null | grep -v ' lo$' || true") == ""
    connect = "import socket; socket.create_connection(('1.1.1.1', 53), 2)"
    assert "Network is unreachable" in session.run(f'python3 -c "{connect}"', 10).output


@pytest.mark.docker
def test_no_privileges(session: Session) -> None:
    status = dict(line.split(":\t", 1) for line in said(session, "cat /proc/self/status").splitlines())
    assert {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "CapInh": 0,
        "CapPrm": 0,
        "CapEff": 0,
        "CapBnd": 0,
        "CapAmb": 0,
    }
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in {*status["Uid"].split(), *status["Gid"].split()}
    for forbidden in ("touch /x", "touch /usr/bin/x", "mount -t tmpfs none /tmp", "cat /etc/shadow"):
        assert session.run(forbidden, 10).exit_code != 0, forbidden


@pytest.mark.docker
def test_the_limits_of_the_task_hold(session: Session, place: Workspace) -> None:
    v2_or_v1 = "memory.max,pids.max,memory/memory.limit_in_bytes,pids/pids.max"
    numbers = session.run(f"bash -c 'cat /sys/fs/cgroup/{{{v2_or_v1}}} 2>/dev/null'", 10).output.split()
    assert sorted(map(int, numbers)) == [32, 64 * 1024 * 1024]
    (container,) = containers_on(place)
    host = container.attrs["HostConfig"]
    assert (host["MemorySwap"], host["NanoCpus"], host["Init"]) == (host["Memory"], 10**9, True)


@pytest.mark.docker
@pytest.mark.parametrize("phase", list(Phase))
def test_nothing_of_the_host_is_inside(
    sandbox: Sandbox, place: Workspace, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "key")
    with sandbox.session(place, phase, LIMITS) as session:
        pairs = said(session, "env -u PWD -u OLDPWD -u _ -u SHLVL").splitlines()
        everyone = said(session, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' || true")
        mounts = said(session, "cut -d' ' -f2,4 /proc/mounts").splitlines()
    held_out = {"TESTS": "/skillgate/tests", "RESULTS": "/skillgate/results"}
    names = dict(pair.split("=", 1) for pair in pairs)
    assert names.pop("PATH").split(":")
    assert names == {
        "HOME": "/home/agent",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(held_out if phase is Phase.GRADE else {}),
    }
    assert "A_SECRET" not in everyone
    ours = {mount.split()[0]: mount.split()[1].split(",")[0] for mount in mounts}
    grading = {"/skillgate/tests": "ro", "/skillgate/results": "rw"}
    given = grading if phase is Phase.GRADE else {"/skillgate/given": "ro"}
    expected = {"/": "ro", "/workspace": "rw", "/home/agent": "rw", "/tmp": "rw", **given}
    system = ("/proc", "/sys", "/dev", "/etc", "/usr/sbin/docker-init", "/sbin/docker-init")
    assert {path: mode for path, mode in ours.items() if not path.startswith(system)} == expected


@pytest.mark.docker
def test_the_workspace_is_shared_and_the_tests_are_not_writable(session: Session, place: Workspace) -> None:
    (place.tests / "late.py").write_text("")
    write = "echo made > made; echo r > $RESULTS/r; echo h > ~/h; echo t > $TMPDIR/t"
    assert said(session, f"pwd; cat run.sh; ls $TESTS; {write}") == (
        "/workspace\n#!/bin/sh\necho run\nlate.py\n"
    )
    files = (place.workspace / "made", place.results / "r", place.home / "h", place.temp / "t")
    assert [path.read_text() for path in files] == ["made\n", "r\n", "h\n", "t\n"]
    assert session.run("touch $TESTS/x", 10).exit_code != 0
    assert session.run("rm $TESTS/late.py", 10).exit_code != 0
    (place.workspace / "made").chmod(0o600)
    place.start_over()
    assert said(session, "ls $RESULTS; cat made") == "made\n"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("exit 3", 3, ""),
        ("kill -9 $$", 137, ""),
        ("echo out; echo err >&2; echo out", 0, "out\nerr\nout\n"),
        ("cat", 0, ""),
        ("git --version | cut -c1-3; python3 -c 'import yaml'", 0, "git\n"),
        ("kill -9 -1; echo still here", 0, "still here\n"),
    ],
)
def test_runs_a_command(session: Session, command: str, exit_code: int, output: str) -> None:
    result = session.run(command, 20)
    assert (result.exit_code, result.output, result.limit) == (exit_code, output, None)
    assert said(session, "echo next") == "next\n"


@pytest.mark.docker
def test_too_much_memory_is_killed_and_said_of_the_right_command(session: Session) -> None:
    hog = "python3 -c 'x = bytearray(10**9)'"
    result = session.run(hog, 20)
    assert (result.exit_code, result.limit) == (137, Limit.MEMORY)
    result = session.run(f"{hog} || true", 20)
    assert (result.exit_code, result.limit) == (0, None)
    result = session.run("exit 1", 20)
    assert (result.exit_code, result.limit) == (1, None)


@pytest.mark.docker
def test_the_time_limit_ends_everything_and_the_next_command_runs(session: Session) -> None:
    said(session, "echo kept > kept; echo kept > $TMPDIR/kept")
    result = session.run("setsid sleep 60 & trap '' TERM; echo on it; sleep 60", 0.5)
    assert (result.limit, result.exit_code, result.output) == (Limit.CLOCK, 137, "on it\n")
    assert 0.5 <= result.wall_s < 2
    assert "60" not in said(session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert said(session, "cat kept $TMPDIR/kept") == "kept\nkept\n"


@pytest.mark.docker
def test_what_a_command_left_behind_ends_with_it(session: Session) -> None:
    assert session.run("setsid sleep 61 >/dev/null 2>&1 & echo hi", 20).output == "hi\n"
    assert "61" not in said(session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


@pytest.mark.docker
def test_a_fork_bomb_stays_inside(session: Session) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = session.run(f"python3 -c '{bomb}'", 0.5)
    assert result.limit is Limit.CLOCK
    assert said(session, "echo next") == "next\n"


@pytest.mark.docker
def test_endless_output_fills_no_memory(session: Session) -> None:
    result = session.run("echo first; yes", 0.5)
    assert result.limit is Limit.CLOCK
    assert result.output.startswith("first\ny\n")
    assert len(result.output) <= OUTPUT_LIMIT


@pytest.mark.docker
def test_a_silent_command_outlives_the_timeout_of_the_engines_api(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session._client.api.timeout = 0.2  # type: ignore[attr-defined]  # stands for its 60 s
    assert said(session, "sleep 0.5; echo done") == "done\n"


@pytest.mark.docker
def test_no_container_is_left_whatever_happens(sandbox: Sandbox, place: Workspace) -> None:
    with sandbox.session(place, Phase.AGENT, LIMITS) as session:
        session.run("true", 10)
        assert len(containers_on(place)) == 1
    assert containers_on(place) == []
    with pytest.raises(KeyboardInterrupt), sandbox.session(place, Phase.AGENT, LIMITS):
        raise KeyboardInterrupt
    assert containers_on(place) == []
    with pytest.raises(SandboxFailure) as caught, sandbox.session(place, Phase.AGENT, Limits(memory_mb=1)):
        pass
    assert (caught.value.kind, containers_on(place)) == (Failure.SANDBOX_START, [])


@pytest.mark.docker
def test_a_container_that_was_taken_away_is_lost_not_failed(session: Session, place: Workspace) -> None:
    (container,) = containers_on(place)
    timer = threading.Timer(
        0.3, lambda: subprocess.run(["docker", "kill", container.id], capture_output=True)
    )
    timer.start()
    with pytest.raises(SandboxFailure, match="the container was ended from outside") as caught:
        session.run("sleep 60", 20)
    timer.join()
    assert caught.value.kind is Failure.SANDBOX_LOST
    with pytest.raises(SandboxFailure) as caught:
        session.run("true", 20)
    assert caught.value.kind is Failure.SANDBOX_LOST


class Unkillable:
    """A container of an engine that no longer answers `kill`."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def kill(self) -> None:
        raise DockerException("timed out")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.docker
def test_an_engine_that_cannot_kill_does_not_hang_us(session: Any) -> None:
    session._container = Unkillable(session._container)
    result = session.run("sleep 60", 0.3)
    assert (result.limit, result.wall_s < 5) == (Limit.CLOCK, True)


@pytest.mark.docker
def test_interrupt_ends_what_runs(sandbox: Sandbox, place: Workspace) -> None:
    timer = threading.Timer(0.3, sandbox.interrupt)
    started = time.monotonic()
    with sandbox.session(place, Phase.AGENT, LIMITS) as session:
        timer.start()
        for _ in range(2):
            with pytest.raises(SandboxFailure) as caught:
                session.run("sleep 60", 30)
            assert caught.value.kind is Failure.INTERRUPTED
    timer.join()
    assert time.monotonic() - started < 5
    assert containers_on(place) == []


@pytest.mark.docker
def test_a_suite_is_checked_in_containers(tiny_suite: Path, sandbox: Sandbox) -> None:
    assert check_suite(load_suite(tiny_suite), sandbox) == (TaskCheck(task="tiny/add-double"),)


@pytest.mark.docker
def test_the_suites_own_image_comes_first(tiny_suite: Path, docker_image: str) -> None:
    suite = msgspec.structs.replace(load_suite(tiny_suite), image=docker_image)
    sandbox = docker_sandbox(None)
    sandbox.require(suite)
    assert f"image {docker_image}" in sandbox.describe()
    with Workspace.create(suite) as place, sandbox.session(place, Phase.AGENT, LIMITS) as session:
        assert said(session, "echo ran") == "ran\n"


@pytest.mark.docker
def test_a_suite_that_sets_its_repository_up(tiny_suite: Path, docker_image: str, tmp_path: Path) -> None:
    setup = (
        "mkdir -p /opt/x/.claude/skills/baked; touch /opt/x/.claude/skills/baked/SKILL.md; echo 1 > /opt/x/y"
    )
    made = Environment(base=docker_image, setup=setup, network=False)
    suite = msgspec.structs.replace(load_suite(tiny_suite), environment=made)
    sandbox = docker_sandbox(None)
    sandbox.require(suite)
    (built,) = {name.split()[1] for name in sandbox.describe() if "skillgate-built" in name}
    try:
        with (
            Workspace.create(suite, tmp_path) as place,
            sandbox.session(place, Phase.AGENT, LIMITS) as session,
        ):
            assert said(session, "cat /opt/x/y; ls -A /opt/x/.claude/skills; pwd; ls") == (
                "1\n/workspace\ncalc\nrun.sh\ntests\n"
            )
    finally:
        with closing(docker.from_env()) as client:
            client.images.remove(built)


@pytest.mark.docker
def test_an_image_that_is_not_there(tiny_suite: Path, docker_image: str) -> None:
    name = "127.0.0.1:9/no-such/image"  # no registry listens there
    with pytest.raises(PrerequisiteError, match=f"the image {name}:1 is not on this machine") as caught:
        docker_sandbox(f"{name}:1")
    assert f"docker pull {name}:1" in caught.value.hint
    other = msgspec.structs.replace(load_suite(tiny_suite), image=f"{name}:2")
    with pytest.raises(PrerequisiteError, match=f"{name}:2 is not on this machine"):
        docker_sandbox(docker_image).require(other)
    with pytest.raises(PrerequisiteError, match="no image is named") as caught:
        docker_sandbox(None).require(load_suite(tiny_suite))
    assert "run.image" in caught.value.hint


def test_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    with pytest.raises(PrerequisiteError, match="no Docker engine answers: ") as caught:
        docker_sandbox("any")
    assert caught.value.exit_code is ExitCode.PREREQUISITE
    assert "Install Docker" in caught.value.hint


@pytest.mark.parametrize(
    ("required", "exit_code", "lines"),
    [
        ("0", 0, ["SKIPPED [1] ", "no Docker engine answers", "1 skipped"]),
        ("1", 1, ["SKILLGATE_REQUIRE_DOCKER=1 and no Docker engine answers"]),
    ],
)
def test_a_docker_test_without_an_engine_is_never_overlooked(
    required: str, exit_code: int, lines: list[str]
) -> None:
    env = os.environ | {"DOCKER_HOST": NOWHERE, "SKILLGATE_REQUIRE_DOCKER": required}
    one = f"{__file__}::test_no_network"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", one]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stdout
    for line in lines:
        assert line in done.stdout
