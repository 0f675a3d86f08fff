"""A Docker engine of a test's own, to be stopped, killed and started again, with one tiny image."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import docker
import pytest

from skillgate.bench.host.owner import LABEL

IMAGE = "busybox:faults"
_CGROUP = "skillgate-test-{}"
_APART = ("unshare", "--net")  # with `--bridge=none` it would remove the bridge of another engine
_FLAGS = (
    "--exec-opt=native.cgroupdriver=cgroupfs",
    "--bridge=none",
    *(f"--{name}=false" for name in ("iptables", "ip6tables", "ip-forward", "ip-masq")),
)
_USERS = b"root:x:0:0::/:/bin/sh\n"
_PATIENCE_S = 30.0


def why_no_engine() -> str:
    """Return why no engine can be started here, or an empty string."""
    if os.geteuid() != 0:
        return "only root can start a Docker engine"
    missing = [name for name in ("dockerd", "busybox") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def require_engine() -> None:
    """Skip the test where no engine can be started; fail it where that must not be overlooked."""
    if reason := why_no_engine():
        if os.environ.get("SKILLGATE_REQUIRE_DOCKER") == "1":
            pytest.fail(f"SKILLGATE_REQUIRE_DOCKER=1 and {reason}", pytrace=False)
        pytest.skip(reason)


def eventually(question: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is a true one, and return it."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return answer


class PrivateEngine:
    """An engine, its socket and its folders; `host` is what DOCKER_HOST names it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.host = f"unix://{folder}/docker.sock"
        self.cgroup = _CGROUP.format(folder.name)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        places = ("data-root", "exec-root", "pidfile")
        options = [f"--{name}={self._folder / name}" for name in places]
        (self._folder / "pidfile").unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            command = [
                *_APART,
                "dockerd",
                f"--host={self.host}",
                f"--cgroup-parent=/{self.cgroup}",
                *options,
                *_FLAGS,
            ]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        eventually(self._answers, "the engine answers")

    def ensure(self) -> None:
        """Start it if it was ended, and have the image."""
        if not self.runs:
            self.start()
        self.bring_image()

    def stop(self) -> None:
        """End it as a machine that is shut down does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self._end(signal.SIGKILL)

    @property
    def runs(self) -> bool:
        """Say whether it was started and not ended."""
        return self._process is not None

    def freeze(self) -> None:
        """Let it take every question and answer none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def small_machine(self, megabytes: int) -> Iterator[None]:
        """Let all containers together have little memory, as if the machine had no more."""
        names = (f"memory/{self.cgroup}/memory.limit_in_bytes", f"{self.cgroup}/memory.max")
        limit = next(path for name in names if (path := Path("/sys/fs/cgroup", name)).exists())
        before = limit.read_text()
        limit.write_text(str(megabytes * 1024 * 1024))
        try:
            yield
        finally:
            limit.write_text(before)

    @contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        """Return a client of it."""
        with closing(docker.DockerClient(base_url=self.host)) as client:
            yield client

    def ours(self) -> list[str]:
        """Return what skillgate has on it: containers, networks and volumes."""
        wanted = {"label": f"{LABEL}=1"}
        with self.client() as client:
            containers = client.api.containers(all=True, filters=wanted)
            networks = client.api.networks(filters=wanted)
            volumes = client.api.volumes(filters=wanted)["Volumes"] or []
        return [str(one.get("Id") or one.get("Name")) for one in (*containers, *networks, *volumes)]

    def running(self) -> list[str]:
        """Return every container that runs, also those that build images."""
        with self.client() as client:
            return [str(facts["Id"]) for facts in client.api.containers()]

    def bring_image(self) -> str:
        """Make the image, if it is not there; return its id."""
        with self.client() as client:
            if not client.images.list(IMAGE):
                repository, tag = IMAGE.split(":")
                client.api.import_image_from_data(_busybox(), repository=repository, tag=tag)
            return str(client.images.get(IMAGE).id)

    def clear(self) -> None:
        """Remove every container."""
        with self.client() as client:
            for facts in client.api.containers(all=True):
                client.api.remove_container(facts["Id"], force=True, v=True)

    def close(self) -> None:
        """Leave nothing behind, not even of a killed one."""
        if not self.runs:
            self.start()
        self.clear()
        self.stop()
        for pid in _processes_of(self._folder):
            os.kill(pid, signal.SIGKILL)
        for mounted in _mounts_below(self._folder):  # a killed one leaves some, even of its own folder
            subprocess.run(["umount", mounted], check=True)
        for group in sorted(Path("/sys/fs/cgroup").glob(f"**/{self.cgroup}/**/"), reverse=True):
            eventually(partial(_remove_group, group), f"{group} is empty")

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(_PATIENCE_S)
        self._process = None
        # what it started has ended with it, but where nobody asks how, its id is still taken
        (self._folder / "exec-root/containerd/containerd.pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with socket.socket(socket.AF_UNIX) as asked, suppress(OSError):  # the SDK leaves what did not connect
            asked.connect(self.host.removeprefix("unix://"))
            asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 OK" in asked.recv(100)
        return False


@contextmanager
def private_engine() -> Iterator[PrivateEngine]:
    """Start an engine in a folder of its own and bring its image; its socket needs a short path."""
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
    engine = PrivateEngine(folder)
    try:
        engine.start()
        engine.bring_image()
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder)


def _processes_of(folder: Path) -> list[int]:
    """Return what a killed engine left: the keepers of containers that it was just making."""
    found = []
    for entry in (entry for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        with suppress(OSError):
            if os.fsencode(f"{folder}/") in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def _remove_group(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _mounts_below(folder: Path) -> list[str]:
    """Return what is mounted below a folder, the last one first."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [place for place in reversed(places) if place.startswith(f"{folder}/")]


def _busybox() -> bytes:
    """Return the files of the image as a tar: one static program under all its names."""
    program = shutil.which("busybox")
    assert program is not None
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        users = tarfile.TarInfo("etc/passwd")
        users.size = len(_USERS)
        tar.addfile(users, io.BytesIO(_USERS))
        tar.add(program, "bin/busybox")
        for name in sorted({*names} - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return packed.getvalue()
