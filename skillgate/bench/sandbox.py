"""Where commands of an agent or a grader run: the protocol, and `local`, which isolates nothing.

A session runs commands one after the other in the same workspace. Whatever a command starts
ends with it. Trouble of the machine itself is a SandboxFailure, never a result.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from skillgate.bench.failure import Failure
from skillgate.bench.suite import Limits, Suite
from skillgate.values import Struct

if TYPE_CHECKING:  # the workspace raises SandboxFailure, so it imports this module
    from skillgate.bench.workspace import Workspace

OUTPUT_LIMIT = 64 * 1024
KILLED = 128 + signal.SIGKILL
_HALF = OUTPUT_LIMIT // 2 - 40
_TICK_S = 0.05
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
Sink = Callable[[bytes], None]
NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Phase(StrEnum):
    """Who is at work; only graders see the held-out tests."""

    AGENT = "agent"
    GRADE = "grade"


class Limit(StrEnum):
    """What a command was ended for."""

    CLOCK = "clock"
    MEMORY = "memory"
    DISK = "disk"


class CommandResult(Struct, kw_only=True):
    """How a command ended, by itself unless `limit` says at which limit.

    `output` is stdout and stderr as they came, its middle left out beyond 64 KiB; `unreachable` are
    allowed hosts that did not answer.
    """

    exit_code: int
    output: str
    wall_s: float
    limit: Limit | None = None
    unreachable: tuple[str, ...] = ()


class SandboxFailure(Exception):
    """Something else than the command failed; what runs cells looks `kind` up in the failure table."""

    def __init__(self, kind: Failure, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Door(Protocol):
    """What answers at a socket in a sandbox; it knows which hosts it refused and which did not answer."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Return each once."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Return each once."""

    def close(self) -> None:
        """End the listener and every connection; more than once does no harm."""


Serve = Callable[[socket.socket], Door]


class Session(Protocol):
    """An open sandbox; `refused` are the hosts that its commands asked for and may not reach."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Return each once, in the order they were asked for."""

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        """Run `sh -c command` in the workspace. Raises: SandboxFailure.

        Args: env: variables beside those of the sandbox. sink: gets all of the output as it comes.
        """

    def listen(self, serve: Serve) -> int:
        """Let `serve` answer on the loopback of commands; return the port. Raises: SandboxFailure."""

    def where(self, path: Path) -> str:
        """Return what commands call a file of this machine. Raises: ValueError when they cannot see it."""


class Clocked:
    """A session whose commands together end at a deadline, however many there are."""

    def __init__(self, session: Session, timeout_s: float) -> None:
        self._session = session
        self._deadline = time.monotonic() + timeout_s

    @property
    def refused(self) -> tuple[str, ...]:
        """Return what the session itself refused."""
        return self._session.refused

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        """Run a command for what is left of the time, at most."""
        rest_s = self._deadline - time.monotonic()
        if rest_s <= 0:
            return CommandResult(exit_code=KILLED, output="", wall_s=0.0, limit=Limit.CLOCK)
        return self._session.run(command, min(timeout_s, rest_s), env, sink)

    def listen(self, serve: Serve) -> int:
        """Listen in the session itself."""
        return self._session.listen(serve)

    def where(self, path: Path) -> str:
        """Ask the session itself."""
        return self._session.where(path)


class Sandbox(Protocol):
    """A kind of sandbox; safe to use from several threads."""

    @property
    def name(self) -> str:
        """Return `local` or `docker`."""

    @property
    def isolates(self) -> bool:
        """Say whether commands of a model's choice may run in it."""

    def require(self, suite: Suite) -> None:
        """Look for what the suite's commands need. Raises: PrerequisiteError."""

    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> AbstractContextManager[Session]:
        """Open a fresh sandbox on the workspace. Raises: SandboxFailure."""

    def baked(self, suite: Suite) -> tuple[str, ...]:
        """Return the skills that its environment brings along; they are hidden in every arm."""

    def describe(self) -> dict[str, str]:
        """Return what identifies this environment, for the report's `versions`."""

    def interrupt(self) -> None:
        """End what runs in every session, from any thread; they raise INTERRUPTED from now on."""


class Capture:
    """The head and the tail of an output of any length, in bounded memory; a sink gets all of it."""

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._sink is not None:
            self._sink(chunk)
        self._size += len(chunk)
        room = _HALF - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-_HALF]

    def text(self) -> str:
        """Return what was kept, with a line that says how much was not."""
        left_out = self._size - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", "replace")


def environment(*, path: str, home: str, temp: str, tests: str, results: str, phase: Phase) -> dict[str, str]:
    """Return the whole environment of a command: nothing of the host's is in it."""
    names = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": temp,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return names | ({"TESTS": tests, "RESULTS": results} if phase is Phase.GRADE else {})


def failure_of(problem: OSError) -> SandboxFailure:
    """Turn an error of the host's files or processes into a failure."""
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
    return SandboxFailure(Failure.DISK_FULL if full else Failure.SANDBOX_START, str(problem))


def local_sandbox(python_bin: Path) -> Sandbox:
    """Return the sandbox that runs commands as plain processes of this user.

    It gives a clean environment and ends what it started, but hides neither files nor network
    and limits neither memory nor CPU. Only a process that left its process group *and* wiped
    its environment (off Linux: the former alone) escapes the kill.

    Args:
        python_bin: the folder whose `python3` commands get, one that has PyYAML.
    """
    return _LocalSandbox(python_bin)


class _LocalSandbox:
    name = "local"
    isolates = False

    def __init__(self, python_bin: Path) -> None:
        self._path = f"{python_bin}:{_SYSTEM_PATH}"
        self._interrupted = threading.Event()

    def require(self, suite: Suite) -> None:
        """Need nothing: the graders' programs are the user's own."""

    @contextmanager
    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> Iterator[Session]:
        env = environment(
            path=self._path,
            home=str(workspace.home),
            temp=str(workspace.temp),
            tests=str(workspace.tests),
            results=str(workspace.results),
            phase=phase,
        )
        session = _LocalSession(workspace.workspace, env, self._interrupted)
        try:
            yield session
        finally:
            session.close_doors()

    def baked(self, suite: Suite) -> tuple[str, ...]:
        return ()

    def describe(self) -> dict[str, str]:
        return {"sandbox": self.name}

    def interrupt(self) -> None:
        self._interrupted.set()


class _LocalSession:
    refused: tuple[str, ...] = ()

    def __init__(self, folder: Path, env: dict[str, str], interrupted: threading.Event) -> None:
        self._folder = folder
        self._env = env
        self._interrupted = interrupted
        self._doors: list[Door] = []

    def listen(self, serve: Serve) -> int:
        try:
            listener = socket.create_server(("127.0.0.1", 0))
        except OSError as problem:
            raise failure_of(problem) from problem
        port = int(listener.getsockname()[1])
        self._doors.append(serve(listener))
        return port

    def where(self, path: Path) -> str:
        return str(path)

    def close_doors(self) -> None:
        for door in self._doors:
            door.close()

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        started = time.monotonic()
        capture = Capture(sink)
        with self._start(command, env) as process:
            try:
                timed_out = self._watch(process, capture, started + timeout_s)
            finally:
                self._kill(process)
            _read_rest(process, capture)
        code = process.returncode
        return CommandResult(
            exit_code=code if code >= 0 else 128 - code,
            output=capture.text(),
            wall_s=time.monotonic() - started,
            limit=Limit.CLOCK if timed_out else None,
        )

    def _start(self, command: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._folder,
                env={**self._env, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as problem:
            raise failure_of(problem) from problem

    def _watch(self, process: subprocess.Popen[bytes], capture: Capture, deadline: float) -> bool:
        """Read until the shell ends; return True when the deadline came first."""
        pipe = _pipe(process)
        tick_s = _TICK_S
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while process.poll() is None:
                if self._interrupted.is_set():
                    raise SandboxFailure(Failure.INTERRUPTED, "stopped by the user")
                rest_s = deadline - time.monotonic()
                if rest_s <= 0:
                    return True
                if selector.select(min(rest_s, tick_s)):
                    chunk = os.read(pipe, OUTPUT_LIMIT)
                    capture.add(chunk)
                    if not chunk:  # its output is closed, most often because it is just ending
                        selector.unregister(pipe)
                        tick_s = _TICK_S / 10
        return False

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        looks = (
            2 if process.poll() is None else 1
        )  # what is cut in the middle of an exec shows no environment
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        marker = f"HOME={self._env['HOME']}".encode()
        for _ in range(20):  # whoever forks while we look is found in the next round
            strays = [pid for pid in _processes() if marker in _environ(pid)]
            looks -= not strays
            if not looks:
                break
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_TICK_S / 10)
        process.wait()


def _pipe(process: subprocess.Popen[bytes]) -> int:
    if process.stdout is None:
        raise AssertionError("started with a pipe")
    return process.stdout.fileno()


def _read_rest(process: subprocess.Popen[bytes], capture: Capture) -> None:
    """Read what is left in the pipe, without waiting for an escaped process that holds it open."""
    pipe = _pipe(process)
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):
            chunk = os.read(pipe, OUTPUT_LIMIT)
            if not chunk:
                break
            capture.add(chunk)


def _processes() -> list[int]:
    """Return every process id; none where there is no /proc."""
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
