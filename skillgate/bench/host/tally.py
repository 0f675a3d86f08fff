"""Folders that somebody hostile may be writing -> how many bytes and files they hold.

No recursion, no long paths, no links, nothing that must exist: a tree may be thousands of folders deep,
closed to us, and changing while it is counted. What is moved about just then may be missed; a count that
has to be right is taken when nobody writes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

Identity = tuple[int, int]

_BLOCK = 512  # the unit of st_blocks, whatever the file system's own is
_OPEN_LEVELS = 32  # of a deep tree; what lies above is found again through `..`
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Amount(NamedTuple):
    """Bytes and files: how much there is, or may be."""

    bytes: int
    files: int


class Tally:
    """Adds files up until there are more than `limit`, or `stopped` says so.

    Bytes are allocated blocks: a sparse file is small, a file with several names counts once.

    Args:
        thorough: open the folders that their owner, when that is us, closed to itself.
    """

    def __init__(self, limit: Amount, *, thorough: bool, stopped: Callable[[], bool]) -> None:
        self.bytes = 0
        self.files = 0
        self._limit = limit
        self._thorough = thorough
        self._stopped = stopped
        self._linked: set[Identity] = set()

    @property
    def amount(self) -> Amount:
        """Return what was added so far."""
        return Amount(self.bytes, self.files)

    @property
    def over(self) -> bool:
        """Say whether it is more than the limit."""
        return self.bytes > self._limit.bytes or self.files > self._limit.files

    def add(self, facts: os.stat_result) -> None:
        """Take one file."""
        self.files += 1
        if facts.st_nlink != 1 and not stat.S_ISDIR(facts.st_mode):
            if identity(facts) in self._linked:
                return
            self._linked.add(identity(facts))
        self.bytes += facts.st_blocks * _BLOCK

    def walk(self, top: Path) -> None:
        """Add everything below a folder, as far as we may look."""
        path = _Path()
        with suppress(OSError), path:
            self._enter(path, str(top))
            while path.levels and not self.over and not self._stopped():
                waiting = path.levels[-1].waiting
                if not waiting:
                    path.leave()
                    continue
                with suppress(OSError):  # out of sight, or gone
                    self._enter(path, waiting.pop())

    def _enter(self, path: _Path, name: str) -> None:
        if self._thorough:
            with suppress(OSError):
                _give_rights(name, path.last)
        folder = path.enter(name)
        with suppress(OSError):
            path.levels[-1].waiting.extend(self._list(folder))

    def _list(self, folder: int) -> Iterator[str]:
        """Add what is in a folder; yield its folders."""
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except PermissionError:
                    self.files += 1
                    continue
                except OSError:  # gone
                    continue
                self.add(facts)
                if stat.S_ISDIR(facts.st_mode):
                    yield entry.name
                if self.over:
                    return


class _Level(NamedTuple):
    folder: Identity
    waiting: list[str]  # its folders that were not entered yet


class _Path:
    """The way down to the folder that is being counted; only its last levels are open."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []
        self._open: list[int] = []

    @property
    def last(self) -> int | None:
        return self._open[-1] if self._open else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for folder in self._open:
            os.close(folder)

    def enter(self, name: str) -> int:
        folder = os.open(name, _FOLDER, dir_fd=self.last)
        self._open.append(folder)
        self.levels.append(_Level(identity(os.fstat(folder)), []))
        if len(self._open) > _OPEN_LEVELS:
            os.close(self._open.pop(0))
        return folder

    def leave(self) -> None:
        """Go one level up. Raises: OSError when the folder was moved and something else is above it."""
        self.levels.pop()
        if self.levels and len(self._open) == 1:
            self._open.insert(0, os.open("..", _FOLDER, dir_fd=self._open[0]))
            if identity(os.fstat(self._open[0])) != self.levels[-1].folder:
                raise OSError
        os.close(self._open.pop())


def identity(facts: os.stat_result) -> Identity:
    """Return what tells a file from every other that exists."""
    return facts.st_dev, facts.st_ino


def nameless(folders: Collection[Identity]) -> Iterator[os.stat_result]:
    """Yield the files without a name that containers with one of these folders hold open or mapped.

    It yields none off Linux, of processes that we may not look into, or in flight between sockets; of what
    is mapped and closed, only to root.
    """
    devices = {device for device, _ in folders}
    for process in _sharers(folders):
        for kind in ("fd", "map_files"):
            with suppress(OSError):
                for entry in os.scandir(f"{process}/{kind}"):
                    with suppress(OSError):
                        facts = entry.stat()
                        if facts.st_nlink == 0 and facts.st_dev in devices:
                            yield facts


def _sharers(folders: Collection[Identity]) -> Iterator[str]:
    """Yield the processes of other mount namespaces that see one of the folders."""
    sees: dict[int, bool] = {}
    with suppress(OSError):
        sees[Path("/proc/self/ns/mnt").stat().st_ino] = False
        for process in (entry.path for entry in os.scandir("/proc") if entry.name.isdigit()):
            with suppress(OSError):
                space = os.stat(f"{process}/ns/mnt").st_ino  # noqa: PTH116 - often, and a Path is slow
                if space not in sees:
                    sees[space] = _sees(process, folders)
                if sees[space]:
                    yield process


def _sees(process: str, folders: Collection[Identity]) -> bool:
    for mount in Path(process, "mountinfo").read_bytes().splitlines():
        with suppress(OSError):
            point = os.fsdecode(mount.split()[4])
            if identity(Path(f"{process}/root{point}").stat()) in folders:
                return True
    return False


def _give_rights(name: str, above: int | None) -> None:
    """Let the owner of a folder, if it is us, look into it; never through a link."""
    folder = os.open(name, PATH_ONLY, dir_fd=above)
    try:
        facts = os.fstat(folder)
        missing = stat.S_IRWXU & ~facts.st_mode
        if missing and facts.st_uid == os.geteuid() != 0:  # root needs no rights
            Path(f"/proc/self/fd/{folder}").chmod(stat.S_IMODE(facts.st_mode) | missing)
    finally:
        os.close(folder)
