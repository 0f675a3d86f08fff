"""Who made a container or a folder: a process of a boot of a machine, written down so that others can ask.

A process id alone is used again: with the boot, the namespace that counts the ids, and the start time it
is one process for good.
"""

from __future__ import annotations

import functools
import os
import uuid
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

LABEL = "skillgate"
OWNER_LABEL = "skillgate.owner"
IMAGE_LABEL = "skillgate.key"  # of images that we build; a container that a person makes from one inherits it
OWNER_FILE = "owner"

_PROC = Path("/proc")
_ENDED = ("Z", "X")  # states of a process that only waits for its parent to ask how it ended
_MAX_BYTES = 200


class Fate(Enum):
    """What became of an owner, as far as this process can tell."""

    ALIVE = auto()
    DEAD = auto()
    OTHER_BOOT = auto()  # of this machine before it was started, or of another machine
    UNKNOWN = auto()  # of another process namespace, say, or nothing that we wrote


def owner() -> str:
    """Return what names this process: boot, process namespace, id and start time.

    Off Linux it is a random name: then nobody can tell later whether the process still lives.
    """
    try:
        boot, space = _here()
        return f"{boot}:{space}:{os.getpid()}:{_started(os.getpid())}"
    except OSError:
        return _random_name()


def owner_labels() -> dict[str, str]:
    """Return the labels of every container, network and volume that this process makes.

    Not of an image: whatever container somebody makes from it inherits them.
    """
    return {LABEL: "1", OWNER_LABEL: owner()}


def mark(folder: Path) -> None:
    """Write into a folder whose it is. Raises: OSError."""
    (folder / OWNER_FILE).write_text(owner(), encoding="ascii")


def marked(folder: Path) -> str:
    """Return who made a folder, an empty text when it does not say."""
    with suppress(OSError):
        file = os.open(folder / OWNER_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(file, _MAX_BYTES).decode("ascii", "replace")
        finally:
            os.close(file)
    return ""


def fate(name: str) -> Fate:
    """Say what became of the process with this name."""
    try:
        here = _here()
        boot, space, pid, started = name.split(":")
        if boot != here[0]:
            return Fate.OTHER_BOOT
        if space != here[1]:
            return Fate.UNKNOWN
        return _fate_of_process(int(pid), started)
    except (OSError, ValueError):
        return Fate.UNKNOWN


def booted_s() -> float:
    """Return when this machine was started, in seconds of the epoch. Raises: OSError where it cannot say."""
    for line in (_PROC / "stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise OSError("no btime in /proc/stat")


def _fate_of_process(pid: int, started: str) -> Fate:
    try:
        return Fate.ALIVE if _started(pid) == started else Fate.DEAD
    except (FileNotFoundError, ProcessLookupError):
        return Fate.UNKNOWN if _exists(pid) else Fate.DEAD


def _exists(pid: int) -> bool:
    """Say whether there is a process, also where /proc hides those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _here() -> tuple[str, str]:
    """Return the boot and the process namespace. Raises: OSError when /proc cannot say."""
    if str((_PROC / "self").readlink()) != str(os.getpid()):
        raise OSError("this /proc is of another process namespace")
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return boot, str((_PROC / "self/ns/pid").stat().st_ino)


def _started(pid: int) -> str:
    """Return when a process was started, in ticks since the boot; nothing for one that has ended."""
    facts = (_PROC / str(pid) / "stat").read_bytes()
    state, *rest = facts[facts.rindex(b")") + 1 :].decode("ascii").split()
    return "" if state in _ENDED else rest[18]  # see proc(5): fields 3 and 22


@functools.cache
def _random_name() -> str:
    return f"random-{uuid.uuid4()}"
