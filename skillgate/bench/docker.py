"""The `docker` sandbox: one fresh container per session, no privileges, no network of its own.

Both arms get the same image, by its id, at the same paths; skills and settings that are baked
into it are hidden in both. Imported only where it is used: the Docker SDK is slow to load.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import docker
from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import Mount, Ulimit

from skillgate.bench.agents.agent import NO_PROGRAMS
from skillgate.bench.container import ContainerSession, trouble
from skillgate.bench.failure import Failure
from skillgate.bench.host.disk import DiskWatch
from skillgate.bench.host.owner import owner_labels
from skillgate.bench.host.reaper import reap
from skillgate.bench.images.engine import ENGINE_ERRORS, ImageBuildFailed, ImageMissing, ask_engine
from skillgate.bench.images.images import Image, Images, masks
from skillgate.bench.network import hosts
from skillgate.bench.network.netns import why_not
from skillgate.bench.network.tunnel import Tunnel
from skillgate.bench.sandbox import Phase, Sandbox, SandboxFailure, Session, environment
from skillgate.bench.suite import Limits, Suite
from skillgate.bench.workspace import Workspace
from skillgate.errors import PrerequisiteError

WORKSPACE, HOME, TEMP = "/workspace", "/home/agent", "/tmp"  # noqa: S108 - a mount of the run's own
TESTS, RESULTS = "/skillgate/tests", "/skillgate/results"
GIVEN, PROGRAMS = "/skillgate/given", "/skillgate/agents"
PROXY_PORT = 3128  # on the container's own loopback
MAX_FILES = 200_000

_IDLE = ["sleep", "infinity"]
_KEEPER = "65534:65534"  # idles as somebody else, so that no command can end the container
_UID_FOR_ROOT = 1000
_PATH_MAX = 4096 - 256 - 1  # with the longest name in it
_OPEN_NETWORK = "Run as root or with passwordless sudo beside the engine, which runs on this machine."
_NO_NETWORK = ("GOPROXY", "GOSUMDB", "CARGO_NET_OFFLINE", "UV_OFFLINE", "MAVEN_ARGS")


def docker_sandbox(
    image: str | None, network: Sequence[str] = (), programs: Mapping[str, Path] = NO_PROGRAMS
) -> Sandbox:
    """Return the sandbox that runs commands in containers, and remove what killed ones left.

    Args:
        image: for suites that name none. It needs a shell, `env`, `sleep` and what graders call.
        network: hosts that commands may reach; nothing else is.
        programs: folders that an agent's commands find below `PROGRAMS`; such an agent listens there too.

    Raises: PrerequisiteError when no engine answers, the image cannot be had or hosts cannot be opened;
        ConfigError for a host that cannot be one.
    """
    sandbox = _DockerSandbox(image, hosts.hosts_of(network), programs)
    if image is not None:
        sandbox.images.find(image)
    ask_engine(reap)
    return sandbox


class _DockerSandbox:
    name = "docker"
    isolates = True

    def __init__(self, image: str | None, allowed: Sequence[str], programs: Mapping[str, Path]) -> None:
        self.images = Images()
        self._default_image = image
        self._interrupted = threading.Event()
        self._open: set[ContainerSession] = set()
        self._left: set[str] = set()
        info, self._api_version = ask_engine(lambda client: (client.info(), client.api.api_version))
        self._engine, self._cpus = str(info["ServerVersion"]), int(info["NCPU"])
        self._allowed = allowed
        if allowed or programs:
            _require_doors("the model API" if programs else "`network`")
        self._tunnel = Tunnel(allowed) if allowed else None
        self._programs = {folder: f"{PROGRAMS}/{name}" for name, folder in programs.items()}

    def require(self, suite: Suite) -> None:
        self.images.of(suite, self._default_image)

    def baked(self, suite: Suite) -> tuple[str, ...]:
        return self.images.of(suite, self._default_image).skills

    def describe(self) -> dict[str, str]:
        network = {"network": ", ".join(self._allowed)} if self._allowed else {}
        return {"sandbox": self.name, "docker-engine": self._engine} | network | self.images.describe()

    def interrupt(self) -> None:
        self._interrupted.set()
        for session in tuple(self._open):
            session.kill()

    @contextmanager
    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> Iterator[Session]:
        image = self._image_of(workspace.suite)
        with trouble(Failure.SANDBOX_START):
            user = _hand_over(workspace)
            client = docker.from_env(version=self._api_version)  # else each asks the engine for it
        with closing(client):
            with trouble(Failure.SANDBOX_START):
                container = self._create(client, image, workspace, phase, limits)
            session = ContainerSession(
                client,
                container,
                user,
                WORKSPACE,
                _environment(image, phase, self._tunnel),
                {
                    workspace.home: HOME,
                    workspace.workspace: WORKSPACE,
                    workspace.given: GIVEN,
                    **self._programs,
                },
                self._interrupted,
            )
            if self._tunnel is not None:
                session.doors.add(PROXY_PORT, self._tunnel.serve)
            self._open.add(session)
            try:
                with session.started(_watch(workspace, limits, session)):
                    yield session
            finally:
                self._open.discard(session)
                self._remove(client, str(container.id))
                session.doors.close()

    def _remove(self, client: docker.DockerClient, container: str) -> None:
        """Remove a container, and what an engine that was gone could not; a reaper finds the rest."""
        self._left.add(container)
        for left in tuple(self._left):
            with suppress(*ENGINE_ERRORS):
                with suppress(NotFound):
                    client.api.remove_container(left, force=True, v=True)
                self._left.discard(left)

    def _image_of(self, suite: Suite) -> Image:
        """Return the image, which was there before anything ran. Raises: SandboxFailure."""
        try:
            return self.images.of(suite, self._default_image)
        except ImageBuildFailed as problem:
            raise SandboxFailure(Failure.IMAGE_BUILD, problem.message) from problem
        except ImageMissing as problem:
            raise SandboxFailure(Failure.IMAGE_MISSING, problem.message) from problem
        except PrerequisiteError as problem:
            raise SandboxFailure(Failure.ENGINE_LOST, problem.message) from problem

    def _create(
        self,
        client: docker.DockerClient,
        image: Image,
        workspace: Workspace,
        phase: Phase,
        limits: Limits,
    ) -> Container:
        memory = f"{limits.memory_mb}m"
        disk = limits.disk_mb * 1_000_000
        return client.containers.create(
            image.id,
            entrypoint=_IDLE,
            init=True,
            user=_KEEPER,
            working_dir=WORKSPACE,
            mounts=[*_mounts(workspace, phase, self._programs), *masks(image)],
            labels=owner_labels(),
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=memory,
            memswap_limit=memory,  # the same: no swap
            nano_cpus=int(min(limits.cpus, self._cpus) * 1e9),
            pids_limit=limits.pids,
            ulimits=[Ulimit(name="fsize", soft=disk, hard=disk), Ulimit(name="core", soft=0, hard=0)],
        )


def _watch(workspace: Workspace, limits: Limits, session: ContainerSession) -> DiskWatch:
    folders = (workspace.workspace, workspace.home, workspace.temp, workspace.results)
    return DiskWatch(folders, limits.disk_mb * 1_000_000, MAX_FILES, session.kill)


def _require_doors(what: str) -> None:
    """Make sure that something can answer inside a container. Raises: PrerequisiteError."""
    reason = why_not(ask_engine(lambda client: str(client.api.base_url)))
    if reason is not None:
        raise PrerequisiteError(f"{what} cannot be opened to a container: {reason}", _OPEN_NETWORK)


def _environment(image: Image, phase: Phase, tunnel: Tunnel | None) -> list[str]:
    """Return the image's own variables, and over them ours: nothing of the host's is in it."""
    baked = dict(pair.split("=", 1) for pair in image.env)
    names = environment(path=image.path, home=HOME, temp=TEMP, tests=TESTS, results=RESULTS, phase=phase)
    if tunnel is not None:
        baked = {name: value for name, value in baked.items() if name not in _NO_NETWORK}
        names |= hosts.environment(PROXY_PORT)
    return [f"{name}={value}" for name, value in (baked | names).items()]


def _mounts(workspace: Workspace, phase: Phase, programs: Mapping[Path, str]) -> list[Mount]:
    """Mount the same paths in both arms; only graders see tests and results, only agents their programs."""
    mounts = [
        Mount(WORKSPACE, str(workspace.workspace), type="bind"),
        Mount(HOME, str(workspace.home), type="bind"),
        Mount(TEMP, str(workspace.temp), type="bind"),
    ]
    if phase is Phase.GRADE:
        mounts.append(Mount(TESTS, str(workspace.tests), type="bind", read_only=True))
        mounts.append(Mount(RESULTS, str(workspace.results), type="bind"))
    else:
        given = {workspace.given: GIVEN, **programs}
        mounts += [Mount(at, str(folder), type="bind", read_only=True) for folder, at in given.items()]
    return mounts


def _hand_over(workspace: Workspace) -> str:
    """Return the user that commands run as, never root, and make the files its own."""
    if os.geteuid() != 0:
        return f"{os.geteuid()}:{os.getegid()}"
    folders = [str(workspace.root)]
    for folder in folders:  # grows while it is walked: os.walk recurses, and an agent nests by the thousand
        if len(os.fsencode(folder)) >= _PATH_MAX:  # only an agent gets there, and it is its own
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                os.chown(entry.path, _UID_FOR_ROOT, _UID_FOR_ROOT, follow_symlinks=False)
                folders += [entry.path] if entry.is_dir(follow_symlinks=False) else []
    return f"{_UID_FOR_ROOT}:{_UID_FOR_ROOT}"
