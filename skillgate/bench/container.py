"""A session in one container: it idles, and each command is an exec in it.

What a command started is ended by killing the container, which needs no help from inside and
spares nobody, and starting it again. Whose fault an end is, is told here: a limit of the
command, the machine, or the engine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.containers import Container
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from skillgate.bench.failure import Failure
from skillgate.bench.host.disk import DiskWatch
from skillgate.bench.images.engine import ENGINE_ERRORS
from skillgate.bench.network.netns import listen_inside
from skillgate.bench.network.tunnel import Door, Tunnel
from skillgate.bench.sandbox import KILLED, Capture, CommandResult, Limit, SandboxFailure, failure_of

_IDLE_PROCESSES = 2  # the init and `sleep`
_IN_ORDER = 'exec sh -c "$0" 2>&1'  # two streams would arrive in any order
_LATE_S = 0.2
_MEMORY = (  # version 2, then 1: how many were killed, and whether the limit was ever met
    "cat /sys/fs/cgroup/memory.events || cd /sys/fs/cgroup/memory && cat memory.oom_control && "
    "echo max $(($(cat memory.max_usage_in_bytes) * 50 / $(cat memory.limit_in_bytes) / 49))"
)


class ContainerSession:
    """An open container; `refused` and `unreachable` are hosts that its commands asked for in vain."""

    def __init__(
        self,
        client: docker.DockerClient,
        container: Container,
        user: str,
        folder: str,
        env: list[str],
        interrupted: threading.Event,
    ) -> None:
        self._client = client
        self._container = container
        self._user = user
        self._folder = folder
        self._env = env
        self._interrupted = interrupted
        self._oom_kills = 0
        self._tunnel: tuple[Tunnel, int] | None = None
        self._door: Door | None = None
        self._disk: DiskWatch | None = None
        self.refused: tuple[str, ...] = ()
        self.unreachable: tuple[str, ...] = ()

    def let_out(self, tunnel: Tunnel, port: int) -> None:
        """Open a door of the tunnel on the container's loopback, at every start."""
        self._tunnel = tunnel, port

    @contextmanager
    def started(self, disk: DiskWatch) -> Iterator[None]:
        """Start it, and watch what it writes until it is removed. Raises: SandboxFailure."""
        with trouble(Failure.SANDBOX_START):
            self._container.start()
            self._open_door()
        with disk:
            self._disk = disk
            yield

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run `sh -c command` in the folder of the repository. Raises: SandboxFailure."""
        self._refuse_interrupted()
        if self._disk is not None and self._disk.exceeded:
            return CommandResult(exit_code=KILLED, output="", wall_s=0.0, limit=Limit.DISK)
        started = time.monotonic()
        capture, expired = Capture(), threading.Event()
        with trouble(Failure.SANDBOX_LOST):
            exec_id = self._stream(command, timeout_s, capture, expired)
            wall_s = time.monotonic() - started
            self._refuse_interrupted()
            self._note_doors()
            exit_code, limit = self._settle(exec_id, expired)
        return CommandResult(
            exit_code=exit_code,
            output=capture.text(),
            wall_s=wall_s,
            limit=limit,
            unreachable=self.unreachable,
        )

    def kill(self) -> bool:
        """End everything in the container, from any thread; return False when the engine does not."""
        try:
            self._container.kill()
        except ENGINE_ERRORS:
            return False
        return True

    def close_door(self) -> None:
        """End every connection, and keep what was refused or failed."""
        if self._door is not None:
            self._door.close()
            self._note_doors()
            self._door = None

    def _open_door(self) -> None:
        """Let the container out; it gets a new network namespace at every start."""
        if self._tunnel is None:
            return
        tunnel, port = self._tunnel
        self._container.reload()
        pid = int(self._container.attrs["State"]["Pid"])
        self._door = tunnel.serve(listen_inside(pid, str(self._container.id), port))

    def _note_doors(self) -> None:
        if self._door is not None:
            self.refused = tuple(dict.fromkeys((*self.refused, *self._door.refused)))
            self.unreachable = tuple(dict.fromkeys((*self.unreachable, *self._door.broken)))

    def _stream(self, command: str, timeout_s: float, capture: Capture, expired: threading.Event) -> str:
        """Run the command to its end, or to the container's at the deadline; return the exec's id."""
        api = self._client.api
        argv = ["env", "-i", *self._env, "sh", "-c", _IN_ORDER, command]
        exec_id = str(api.exec_create(self._container.id, argv, user=self._user, workdir=self._folder)["Id"])
        stream = api.exec_start(exec_id, stream=True)

        def expire() -> None:
            expired.set()
            if not self.kill():
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
            self._refuse_lost()
        limit = Limit.MEMORY if self._ran_out_of_memory() and exit_code else None
        if not is_idle:
            self._restart()
        return exit_code, limit

    def _limit_of(self, expired: threading.Event) -> Limit | None:
        """Return what the container was killed for, by us. Raises: SandboxFailure when the disk is full."""
        if self._disk is not None and self._disk.full:
            raise SandboxFailure(Failure.DISK_FULL, "next to nothing is left of the disk with the runs")
        if self._disk is not None and self._disk.exceeded:
            return Limit.DISK
        return Limit.CLOCK if expired.is_set() else None

    def _refuse_lost(self) -> None:
        self._container.reload()
        if self._container.status != "running":
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
        output = cast(bytes, self._container.exec_run(["sh", "-c", _MEMORY]).output)
        rows = [line.split() for line in output.decode("utf-8", "replace").splitlines()]
        counts = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        before, self._oom_kills = self._oom_kills, counts.get("oom_kill", 0)
        if self._oom_kills <= before:
            return False
        if not counts.get("max", 1):
            raise SandboxFailure(Failure.MACHINE_MEMORY, "the kernel killed below the limit of the sandbox")
        return True

    def _is_idle(self) -> bool:
        try:
            return len(self._container.top()["Processes"] or ()) == _IDLE_PROCESSES
        except APIError:  # it has ended, or the engine's machine has no `ps`: assume the worse
            return False

    def _restart(self) -> None:
        """End every process; files stay."""
        self.close_door()
        self._container.restart(timeout=0)
        self._open_door()
        self._oom_kills = 0

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
