"""A session in one container: it idles, and each command is an exec in it.

What a command started is ended by killing the container, which needs no help from inside and
spares nobody, and starting it again. Whose fault an end is, is told here: a limit of the
command, the machine, or the engine.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import docker
from docker.errors import APIError, DockerException, ImageNotFound, InvalidVersion
from docker.models.containers import Container
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from skillgate.bench.failure import Failure
from skillgate.bench.host.cgroup import Account, account_of
from skillgate.bench.host.disk import DiskWatch
from skillgate.bench.images.engine import ENGINE_ERRORS
from skillgate.bench.network.doors import Doors
from skillgate.bench.sandbox import (
    KILLED,
    NO_NAMES,
    Capture,
    CommandResult,
    Limit,
    SandboxFailure,
    Serve,
    Sink,
    failure_of,
)

METER_PORT = 8080  # on the container's own loopback
_IDLE_PROCESSES = 2  # the init and `sleep`
_IN_ORDER = 'exec sh -c "$0" 2>&1'  # two streams would arrive in any order
_LATE_S = 0.2
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ
_NEVER = "0001-01-01T00:00:00Z"  # how the engine says it
_MEMORY = (  # version 2, then 1: how many were killed, and whether the limit was ever met
    "cat /sys/fs/cgroup/memory.events || cd /sys/fs/cgroup/memory && cat memory.oom_control && "
    "echo max $(($(cat memory.max_usage_in_bytes) * 50 / $(cat memory.limit_in_bytes) / 49))"
)


class ContainerSession:
    """An open container; `places` maps folders of this machine to where they are in it."""

    def __init__(
        self,
        client: docker.DockerClient,
        container: Container,
        user: str,
        folder: str,
        env: list[str],
        places: Mapping[Path, str],
        interrupted: threading.Event,
    ) -> None:
        self._client = client
        self._container = container
        self._user = user
        self._folder = folder
        self._env = env
        self._places = places
        self._interrupted = interrupted
        self._oom_kills = 0
        self._account: Account | None = None
        self._ended = _NEVER  # when it ended last, by our own doing
        self._paused = False
        self._disk: DiskWatch | None = None
        self.doors = Doors(str(container.id))

    @property
    def refused(self) -> tuple[str, ...]:
        """Return the hosts that its commands asked for and may not reach."""
        return self.doors.refused

    def listen(self, serve: Serve) -> int:
        """Let `serve` answer on the container's loopback, now and at every start. Raises: SandboxFailure."""
        with trouble(Failure.SANDBOX_START):
            self.doors.add(METER_PORT, serve)
        return METER_PORT

    def where(self, path: Path) -> str:
        """Return where a file of this machine is in the container. Raises: ValueError."""
        for folder, inside in self._places.items():
            if path.is_relative_to(folder):
                return str(Path(inside, path.relative_to(folder)))
        raise ValueError(f"{path} is not in the container")

    @contextmanager
    def started(self, disk: DiskWatch) -> Iterator[None]:
        """Start it, and watch what it writes until it is removed. Raises: SandboxFailure."""
        with trouble(Failure.SANDBOX_START):
            self._container.start()
            self._begin()
        with disk:
            self._disk = disk
            yield

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        """Run `sh -c command` in the folder of the repository. Raises: SandboxFailure."""
        argv = ["env", "-i", *self._env, *(f"{name}={value}" for name, value in env.items())]
        capture = Capture(sink)
        self._refuse_interrupted()
        started = time.monotonic()
        try:
            if not self._is_over_disk():
                return self._run([*argv, "sh", "-c", _IN_ORDER, command], timeout_s, capture)
        except SandboxFailure:  # an end that we put to it ourselves explains the loss
            self._refuse_interrupted()
            if not self._is_over_disk():
                raise
        wall_s = time.monotonic() - started
        return CommandResult(exit_code=KILLED, output="", wall_s=wall_s, limit=Limit.DISK)

    def _run(self, argv: list[str], timeout_s: float, capture: Capture) -> CommandResult:
        started = time.monotonic()
        expired = threading.Event()
        with trouble(Failure.SANDBOX_LOST):
            exit_code, limit = self._execute(argv, timeout_s, capture, expired)
            wall_s = time.monotonic() - started
        return CommandResult(
            exit_code=exit_code,
            output=capture.text(),
            wall_s=wall_s,
            limit=limit,
            unreachable=self.doors.unreachable,
        )

    def _execute(
        self, argv: list[str], timeout_s: float, capture: Capture, expired: threading.Event
    ) -> tuple[int, Limit | None]:
        try:
            exec_id = self._stream(argv, timeout_s, capture, expired)
            self._refuse_interrupted()
            self.doors.note()
            return self._settle(exec_id, expired)
        except APIError:  # we may have ended the container before the command began, or while we asked
            if (limit := self._limit_of(expired)) is None:
                raise
            self._restart()
            return KILLED, limit

    def kill(self) -> bool:
        """End everything in the container, from any thread; return False when the engine does not."""
        try:
            self._container.kill()
        except ENGINE_ERRORS:
            return False
        return True

    def _begin(self) -> None:
        """Find what belongs to the container since it was started: its account, a door into its network."""
        self._container.reload()
        container, pid = str(self._container.id), int(self._container.attrs["State"]["Pid"])
        self._ended = self._container.attrs["State"]["FinishedAt"]
        self._account = account_of(container, pid)
        self._oom_kills = 0
        self.doors.open(pid)

    def _stream(self, argv: list[str], timeout_s: float, capture: Capture, expired: threading.Event) -> str:
        """Run the command to its end, or to the container's at the deadline; return the exec's id."""
        api = self._client.api
        exec_id = str(api.exec_create(self._container.id, argv, user=self._user, workdir=self._folder)["Id"])
        stream = api.exec_start(exec_id, stream=True)

        def expire() -> None:
            expired.set()
            try:
                self._container.reload()
                self._paused = self._container.status == "paused"  # a kill ends that too
                self._container.kill()
            except ENGINE_ERRORS:
                stream.close()  # nothing else ends the wait

        clock = threading.Timer(timeout_s, expire)
        clock.start()
        try:
            for chunk in stream:
                capture.add(chunk)
        finally:
            clock.cancel()
            clock.join()
            stream._response.close()  # type: ignore[attr-defined]  # its own close() leaks the socket
        return exec_id

    def _settle(self, exec_id: str, expired: threading.Event) -> tuple[int, Limit | None]:
        """End what the command left; return its exit code and the limit that ended it."""
        if limit := self._limit_of(expired):
            self._restart()
            return KILLED, limit
        exit_code = self._exit_code(exec_id)
        is_idle = self._is_idle()
        if not is_idle:
            if exit_code == KILLED:  # the engine tells of the end of a container later than of a command
                time.sleep(_LATE_S)
            if limit := self._limit_of(expired):
                self._restart()
                return exit_code, limit
        if (not is_idle or exit_code == KILLED) and self._ended_for_memory():
            self._restart()
            return exit_code, Limit.MEMORY
        limit = Limit.MEMORY if self._ran_out_of_memory() and exit_code else None
        if limit is None and exit_code == _FILE_TOO_LARGE:
            limit = Limit.DISK
        if not is_idle or limit is Limit.MEMORY:  # shared memory may hold what it took, without a process
            self._restart()
        return exit_code, limit

    def _limit_of(self, expired: threading.Event) -> Limit | None:
        """Return what the container was killed for, by us. Raises: SandboxFailure for what is no limit."""
        if self._is_over_disk():
            return Limit.DISK
        if self._paused:
            raise SandboxFailure(Failure.SANDBOX_LOST, "the container was paused from outside")
        return Limit.CLOCK if expired.is_set() else None

    def _is_over_disk(self) -> bool:
        """Say whether it wrote too much. Raises: SandboxFailure when the disk is full and it did not."""
        if self._disk is not None and self._disk.full:
            raise SandboxFailure(Failure.DISK_FULL, "next to nothing is left of the disk with the runs")
        return self._disk is not None and self._disk.exceeded

    def _ended_for_memory(self) -> bool:
        """Say whether the kernel ended it all, as it does when files in memory met the container's limit.

        Raises: SandboxFailure when it was ended by anybody else.
        """
        self._container.reload()
        state = self._container.attrs["State"]
        if state["Status"] == "running" and state["FinishedAt"] == self._ended:
            return False
        if state["OOMKilled"] and not self._oom_kills:  # it stays true after a kill that was survived
            return True
        raise SandboxFailure(Failure.SANDBOX_LOST, "the container was ended from outside")

    def _exit_code(self, exec_id: str) -> int:
        """Return the exit code; the engine may know it a moment after the output has ended."""
        for _ in range(100):
            state = self._client.api.exec_inspect(exec_id)
            if not state["Running"]:
                return int(state["ExitCode"])
            time.sleep(0.02)
        raise SandboxFailure(Failure.SANDBOX_LOST, "the engine lost the command")

    def _ran_out_of_memory(self) -> bool:
        """Say whether the kernel killed since the last command for the container's own limit.

        Raises: SandboxFailure when it killed although the limit was never met: the machine had none left.
        """
        with suppress(OSError):  # it has ended
            if self._account is not None and self._account.oom_kills() <= self._oom_kills:
                return False
        asked = self._container.exec_run(["sh", "-c", _MEMORY])
        if asked.exit_code == KILLED:  # there is not even room for the question
            return True
        output = cast(bytes, asked.output)
        rows = [line.split() for line in output.decode("utf-8", "replace").splitlines()]
        counts = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        before, self._oom_kills = self._oom_kills, counts.get("oom_kill", 0)
        if self._oom_kills <= before:
            return False
        if not counts.get("max", 1):
            raise SandboxFailure(Failure.MACHINE_MEMORY, "the kernel killed below the limit of the sandbox")
        return True

    def _is_idle(self) -> bool:
        """Ask the kernel's count: a list of processes misses who forks and ends faster than it is made."""
        try:
            if self._account is not None:
                return self._account.processes() == _IDLE_PROCESSES
            facts = self._client.api.stats(str(self._container.id), stream=False, one_shot=True)
        except (APIError, InvalidVersion, OSError):  # it has ended, or the engine is too old
            return False
        return bool(facts.get("pids_stats", {}).get("current") == _IDLE_PROCESSES)

    def _restart(self) -> None:
        """End every process; files stay."""
        self.doors.close()
        self._container.restart(timeout=0)
        self._begin()

    def _refuse_interrupted(self) -> None:
        if self._interrupted.is_set():
            raise SandboxFailure(Failure.INTERRUPTED, "stopped by the user")


@contextmanager
def trouble(kind: Failure) -> Iterator[None]:
    """Turn an error of the engine or the host into a failure: `kind`, unless it tells more."""
    try:
        yield
    except ImageNotFound as problem:
        raise SandboxFailure(Failure.IMAGE_MISSING, str(problem)) from problem
    except (APIError, DockerException, RequestException, HTTPError) as problem:
        if "no space left" in str(problem).lower():
            raise SandboxFailure(Failure.DISK_FULL, str(problem)) from problem
        answered = isinstance(problem, APIError)
        raise SandboxFailure(kind if answered else Failure.ENGINE_LOST, str(problem)) from problem
    except OSError as problem:
        raise failure_of(problem) from problem
