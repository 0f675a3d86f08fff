"""The folders of a run -> an end to what writes them when they hold too much: a bind mount has no size.

Free space is cheap to ask for, a count of the files is not. Since a count the folders cannot have grown
by more than what the disk lost, so they are not counted again before it lost as much as the limit leaves.
Other writers on the same disk only make counts more frequent. What somebody frees can hide growth: so a
rise counts like a fall, and every second the files are counted whatever the disk says.
It knows no Docker.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from skillgate.bench.host.tally import PATH_ONLY, Amount, Tally, identity, nameless

TICK_S = 0.05
COUNT_EVERY_S = 1.0
KEPT_FREE_BYTES = 512 * 1024 * 1024  # of a disk below 10 GiB a twentieth
_PATIENCE = 10  # while the disk is quiet, counting takes an eleventh of the time at most


class DiskWatch:
    """Watches folders while it is open; a context manager.

    `exceeded` says that the folders held more than they may. What was written in the last moment is
    found when it closes; nothing is left to end then. `full` says that the disk has next to no room
    left and that the folders are not to blame.

    Args:
        folders: all on one disk.
        limit_bytes: of allocated blocks: a sparse file is small, a file with several names counts once.
        max_files: names of every kind.
        end: ends the writers; called at most once, from another thread, when one of the two is so.
            Must not raise.
    """

    def __init__(
        self, folders: Sequence[Path], limit_bytes: int, max_files: int, end: Callable[[], object]
    ) -> None:
        self.exceeded = False
        self.full = False
        self._folders = folders
        self._limit = Amount(limit_bytes, max_files)
        self._end = end
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk watch", daemon=True)

    def __enter__(self) -> DiskWatch:
        """Start. Raises: OSError when a folder is not there."""
        self._identities = {identity(folder.stat()) for folder in self._folders}
        self._disk = os.open(self._folders[0], PATH_ONLY)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        os.close(self._disk)
        if not self.exceeded:
            self.exceeded = self._count(lambda: False, thorough=True).over

    def _watch(self) -> None:
        base, pace = None, _Pace()
        while True:
            disk, started_s = os.statvfs(self._disk), time.monotonic()
            moved = base is None or base.may_be_over(_free(disk))
            if pace.allows(started_s, urgent=moved):
                count = self._count(self._closing.is_set, thorough=moved)
                if moved:  # what was free before: whatever was written while we counted counts twice
                    base = _Base(_free(disk), count.amount, self._limit)
                pace.note(started_s, time.monotonic())
                self.exceeded = count.over
            self.full = not self.exceeded and _is_full(disk)
            if self.exceeded or self.full:
                self._end()
                return
            if self._closing.wait(TICK_S):
                return

    def _count(self, stopped: Callable[[], bool], *, thorough: bool) -> Tally:
        """Count; a thorough count, for when the disk says something, also looks for what is hidden."""
        tally = Tally(self._limit, thorough=thorough, stopped=stopped)
        for folder in self._folders:
            tally.walk(folder)
        if thorough and not tally.over:
            for facts in nameless(self._identities):
                tally.add(facts)
        return tally


class _Base(NamedTuple):
    """What was free when the folders were last counted thoroughly, and what they held."""

    free: Amount
    held: Amount
    limit: Amount

    def may_be_over(self, free: Amount) -> bool:
        """Say whether the disk changed by more than the folders may still grow."""
        return (
            abs(self.free.bytes - free.bytes) > self.limit.bytes - self.held.bytes
            or abs(self.free.files - free.files) > self.limit.files - self.held.files
        )


class _Pace:
    """When to count: a count that takes long, of many files or on a busy machine, leaves time to others."""

    def __init__(self) -> None:
        self._due_s = self._rested_s = 0.0

    def allows(self, now_s: float, *, urgent: bool) -> bool:
        return now_s >= (self._rested_s if urgent else self._due_s)

    def note(self, started_s: float, ended_s: float) -> None:
        took_s = ended_s - started_s
        self._rested_s = ended_s + took_s
        self._due_s = ended_s + max(COUNT_EVERY_S, _PATIENCE * took_s)


def _free(disk: os.statvfs_result) -> Amount:
    return Amount(disk.f_bfree * disk.f_frsize, disk.f_ffree)


def _is_full(disk: os.statvfs_result) -> bool:
    kept = min(KEPT_FREE_BYTES, disk.f_blocks * disk.f_frsize // 20)
    return disk.f_bavail * disk.f_frsize < kept
