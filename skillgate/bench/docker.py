"""The `docker` sandbox: one fresh container per session, no network, no privileges.

The container idles and each command is an exec in it. What a command started is ended by
killing the container, which needs no help from inside and spares nobody, and starting it
again. Known gap: a bind mount has no size limit, so a command can fill the host's disk.
Imported only where it is used: the Docker SDK is slow to load.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.containers import Container
from docker.types import Mount

from skillgate.bench.failure import Failure
from skillgate.bench.network import hosts
from skillgate.bench.network.netns import listen_inside, why_not
from skillgate.bench.network.tunnel import Door, Tunnel
from skillgate.bench.sandbox import (
    KILLED,
    Capture,
    CommandResult,
    Limit,
    Phase,
    Sandbox,
    SandboxFailure,
    Session,
    environment,
)
from skillgate.bench.suite import Limits, Suite
from skillgate.bench.workspace import Workspace
from skillgate.errors import PrerequisiteError

T = TypeVar("T")
LABEL = "skillgate"
WORKSPACE, HOME, TEMP = "/workspace", "/home/agent", "/tmp"  # noqa: S108 - a mount of the run's own
TESTS, RESULTS = "/skillgate/tests", "/skillgate/results"

PROXY_PORT = 3128  # on the container's own loopback
_OPEN_NETWORK = "Run as root or with passwordless sudo beside the engine, or remove `network`."

_IDLE = ["sleep", "infinity"]
_IDLE_PROCESSES = 2  # the init and `sleep`
_KEEPER = "65534:65534"  # idles as somebody else, so that no command can end the container
_UID_FOR_ROOT = 1000
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IN_ORDER = 'exec sh -c "$0" 2>&1'  # two streams would arrive in any order
_LATE_S = 0.2
_SHOW_OOM_KILLS = "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"  # v2, v1
_GET_ENGINE = "Install Docker and start it, or point DOCKER_HOST to an engine; `docker info` must answer."
_ENGINE_ERRORS = (DockerException, OSError)  # requests' errors are OSErrors


class _Image(NamedTuple):
    name: str
    id: str  # containers are made from it: a tag may move between two arms
    digest: str
    path: str


def docker_sandbox(image: str | None, network: Sequence[str] = ()) -> Sandbox:
    """Return the sandbox that runs commands in containers.

    Args:
        image: for suites that name none. It needs a shell, `env`, `sleep` and what graders call;
            no image is ever pulled.
        network: hosts and aliases that commands may reach; nothing else is.

    Raises: PrerequisiteError when no engine answers, the image is not there or the hosts cannot be opened.
    """
    sandbox = _DockerSandbox(image, hosts.hosts_of(network))
    if image is not None:
        sandbox.find_image(image)
    return sandbox


class _DockerSandbox:
    name = "docker"
    isolates = True

    def __init__(self, image: str | None, allowed: Sequence[str]) -> None:
        self._default_image = image
        self._images: dict[str, _Image] = {}
        self._interrupted = threading.Event()
        self._open: set[_DockerSession] = set()
        info = _ask(lambda client: client.info())
        self._engine, self._cpus = str(info["ServerVersion"]), int(info["NCPU"])
        self._allowed = allowed
        self._tunnel = _tunnel(allowed)

    def require(self, suite: Suite) -> None:
        self._image_of(suite.image)

    def describe(self) -> dict[str, str]:
        images = {f"image {image.name}": image.digest for image in self._images.values()}
        network = {"network": ", ".join(self._allowed)} if self._allowed else {}
        return {"sandbox": self.name, "docker-engine": self._engine} | network | images

    def interrupt(self) -> None:
        self._interrupted.set()
        for session in tuple(self._open):
            session.kill()

    @contextmanager
    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> Iterator[Session]:
        image = self._image_of(workspace.image)
        with _trouble(Failure.SANDBOX_START):
            user = _hand_over(workspace)
            client = docker.from_env()
        with closing(client):
            container = self._create(client, image, workspace, phase, limits)
            env = _environment(image, phase, self._tunnel)
            session = _DockerSession(client, container, user, env, self._interrupted, self._tunnel)
            self._open.add(session)
            try:
                session.start()
                yield session
            finally:
                self._open.discard(session)
                with suppress(*_ENGINE_ERRORS):  # an engine that died has its label to clean up by
                    container.remove(force=True, v=True)
                session.close_door()

    def _image_of(self, suite_image: str | None) -> _Image:
        name = suite_image or self._default_image
        if name is None:
            hint = "Set `run.image` in skillgate.yml, or `image` in suite.yml."
            raise PrerequisiteError("no image is named for the docker sandbox", hint)
        return self.find_image(name)

    def find_image(self, name: str) -> _Image:
        """Look an image up, once. Raises: PrerequisiteError."""
        if name not in self._images:
            found = _ask(lambda client: client.images.get(name), name)
            digest = (found.attrs.get("RepoDigests") or [found.id])[0]
            variables = (found.attrs.get("Config") or {}).get("Env") or ()
            path = dict(pair.split("=", 1) for pair in variables).get("PATH", _DEFAULT_PATH)
            self._images[name] = _Image(name, str(found.id), str(digest), path)
        return self._images[name]

    def _create(
        self,
        client: docker.DockerClient,
        image: _Image,
        workspace: Workspace,
        phase: Phase,
        limits: Limits,
    ) -> Container:
        memory = f"{limits.memory_mb}m"
        with _trouble(Failure.SANDBOX_START):
            return client.containers.create(
                image.id,
                entrypoint=_IDLE,
                init=True,
                user=_KEEPER,
                working_dir=WORKSPACE,
                mounts=_mounts(workspace, phase),
                labels={LABEL: "1"},
                network_mode="none",
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mem_limit=memory,
                memswap_limit=memory,  # the same: no swap
                nano_cpus=int(min(limits.cpus, self._cpus) * 1e9),
                pids_limit=limits.pids,
            )


class _DockerSession:
    def __init__(
        self,
        client: docker.DockerClient,
        container: Container,
        user: str,
        env: list[str],
        interrupted: threading.Event,
        tunnel: Tunnel | None,
    ) -> None:
        self._client = client
        self._container = container
        self._user = user
        self._env = env
        self._interrupted = interrupted
        self._oom_kills = 0
        self._tunnel = tunnel
        self._door: Door | None = None
        self.refused: tuple[str, ...] = ()
        self.broken: tuple[str, ...] = ()

    def start(self) -> None:
        with _trouble(Failure.SANDBOX_START):
            self._container.start()
            self._open_door()

    def _open_door(self) -> None:
        """Let the container out; it gets a new network namespace at every start."""
        if self._tunnel is None:
            return
        self._container.reload()
        pid = int(self._container.attrs["State"]["Pid"])
        self._door = self._tunnel.serve(listen_inside(pid, str(self._container.id), PROXY_PORT))

    def close_door(self) -> None:
        """End every connection, and keep what was refused or failed."""
        if self._door is not None:
            self._door.close()
            self._collect()
            self._door = None

    def _collect(self) -> None:
        if self._door is not None:
            self.refused = tuple(dict.fromkeys((*self.refused, *self._door.refused)))
            self.broken = tuple(dict.fromkeys((*self.broken, *self._door.broken)))

    def run(self, command: str, timeout_s: float) -> CommandResult:
        started = time.monotonic()
        capture, expired = Capture(), threading.Event()
        with _trouble(Failure.SANDBOX_LOST):
            self._refuse_interrupted()
            exec_id = self._stream(command, timeout_s, capture, expired)
            wall_s = time.monotonic() - started
            self._refuse_interrupted()
            self._collect()
            exit_code, limit = self._settle(exec_id, expired)
        return CommandResult(
            exit_code=exit_code,
            output=capture.text(),
            wall_s=wall_s,
            limit=limit,
            unreachable=self.broken,
        )

    def kill(self) -> bool:
        """End everything in the container, from any thread; return False when the engine does not."""
        try:
            self._container.kill()
        except _ENGINE_ERRORS:
            return False
        return True

    def _stream(self, command: str, timeout_s: float, capture: Capture, expired: threading.Event) -> str:
        """Run the command to its end, or to the container's at the deadline; return the exec's id."""
        api = self._client.api
        argv = ["env", "-i", *self._env, "sh", "-c", _IN_ORDER, command]
        exec_id = str(api.exec_create(self._container.id, argv, user=self._user, workdir=WORKSPACE)["Id"])
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
        if expired.is_set():
            self._restart()
            return KILLED, Limit.CLOCK
        exit_code = self._exit_code(exec_id)
        if self._is_idle():
            return exit_code, Limit.MEMORY if self._count_oom_kills() and exit_code else None
        if exit_code == KILLED:  # the engine tells of the end of a container later than of a command
            time.sleep(_LATE_S)
        self._container.reload()
        if self._container.status != "running":
            raise SandboxFailure(Failure.SANDBOX_LOST, "the container was ended from outside")
        self._restart()
        return exit_code, None

    def _exit_code(self, exec_id: str) -> int:
        """Return the exit code; the engine may know it a moment after the output has ended."""
        for _ in range(100):
            state = self._client.api.exec_inspect(exec_id)
            if not state["Running"]:
                return int(state["ExitCode"])
            time.sleep(0.02)
        raise SandboxFailure(Failure.SANDBOX_LOST, "the engine lost the command")

    def _count_oom_kills(self) -> int:
        """Return the processes that the kernel killed for memory since the last command."""
        output = cast(bytes, self._container.exec_run(["sh", "-c", _SHOW_OOM_KILLS]).output)
        counts = [line.split()[1] for line in output.splitlines() if line.startswith(b"oom_kill ")]
        before, self._oom_kills = self._oom_kills, sum(map(int, counts))
        return self._oom_kills - before

    def _is_idle(self) -> bool:
        try:
            return len(self._container.top()["Processes"] or ()) == _IDLE_PROCESSES
        except APIError:  # the engine's machine has no `ps`: assume the worse
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


def _ask(question: Callable[[docker.DockerClient], T], image: str = "") -> T:
    """Ask the engine before anything runs. Raises: PrerequisiteError."""
    with warnings.catch_warnings():  # the SDK leaves a socket that did not connect to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with closing(docker.from_env()) as client:
                return question(client)
        except ImageNotFound:
            hint = f"Get it with `docker pull {image}`, build it, or name another one in `run.image`."
            error = PrerequisiteError(f"the image {image} is not on this machine", hint)
        except _ENGINE_ERRORS as problem:
            error = PrerequisiteError(f"no Docker engine answers: {problem}", _GET_ENGINE)
        gc.collect()
    raise error


@contextmanager
def _trouble(kind: Failure) -> Iterator[None]:
    try:
        yield
    except _ENGINE_ERRORS as problem:
        full = "no space left" in str(problem).lower()
        raise SandboxFailure(Failure.DISK_FULL if full else kind, str(problem)) from problem


def _tunnel(allowed: Sequence[str]) -> Tunnel | None:
    if not allowed:
        return None
    reason = why_not(_ask(lambda client: str(client.api.base_url)))
    if reason is not None:
        raise PrerequisiteError(f"`network` cannot be opened on this machine: {reason}", _OPEN_NETWORK)
    return Tunnel(allowed)


def _environment(image: _Image, phase: Phase, tunnel: Tunnel | None) -> list[str]:
    names = environment(path=image.path, home=HOME, temp=TEMP, tests=TESTS, results=RESULTS, phase=phase)
    if tunnel is not None:
        names |= hosts.environment(PROXY_PORT)
    return [f"{name}={value}" for name, value in names.items()]


def _mounts(workspace: Workspace, phase: Phase) -> list[Mount]:
    """Mount the same paths in both arms and phases; only graders see tests and results."""
    mounts = [
        Mount(WORKSPACE, str(workspace.workspace), type="bind"),
        Mount(HOME, str(workspace.home), type="bind"),
        Mount(TEMP, str(workspace.temp), type="bind"),
    ]
    if phase is Phase.GRADE:
        mounts.append(Mount(TESTS, str(workspace.tests), type="bind", read_only=True))
        mounts.append(Mount(RESULTS, str(workspace.results), type="bind"))
    return mounts


def _hand_over(workspace: Workspace) -> str:
    """Return the user that commands run as, never root, and make the files its own."""
    if os.geteuid() != 0:
        return f"{os.geteuid()}:{os.getegid()}"
    for folder, names, files in os.walk(workspace.root):
        for name in (*names, *files):
            os.chown(Path(folder, name), _UID_FOR_ROOT, _UID_FOR_ROOT, follow_symlinks=False)
    return f"{_UID_FOR_ROOT}:{_UID_FOR_ROOT}"
