"""A container -> its processes and its kills for memory, as the kernel of this machine counts them.

It spares two calls and an exec of the engine after every command. Where the container runs on another
machine, or this process sees other process ids than the engine, there is no account to read.
"""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_KILLS = {"": "memory.events", "memory": "memory.oom_control"}  # versions 2 and 1


class Account:
    """What the kernel keeps of one container while it runs. Methods raise OSError when it does not run."""

    def __init__(self, processes: Path, kills: Path) -> None:
        self._processes = processes
        self._kills = kills

    def processes(self) -> int:
        """Return how many processes there are, those that have ended left out."""
        return len(self._processes.read_bytes().split())

    def oom_kills(self) -> int:
        """Return how many were killed for memory since the container was started."""
        pairs = (line.split() for line in self._kills.read_bytes().splitlines())
        return sum(int(pair[1]) for pair in pairs if pair[0] == b"oom_kill")


def account_of(container: str, pid: int) -> Account | None:
    """Return the account of a running container, given its whole id and the id of its first process."""
    try:
        lines = (_PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for _, controllers, path in (line.split(":", 2) for line in lines):
        kills = _KILLS.get(controllers)
        folder = _CGROUPS / controllers / path.lstrip("/")
        # that id in another machine's engine would be of some other process here
        if kills is not None and container in path and (folder / kills).exists():
            return Account(folder / "cgroup.procs", folder / kills)
    return None
