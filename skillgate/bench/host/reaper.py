"""What runs left behind whose skillgate was killed -> nothing: containers, networks, volumes, folders.

At once goes only what certainly has no owner any more: a process of this machine, on an engine of this
machine, that has ended. Where that cannot be told (machines share an engine, a runner in a container has
process ids of its own) a thing goes when it is older than any run. Images stay.
"""

from __future__ import annotations

import functools
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skillgate.bench.host.owner import (
    IMAGE_LABEL,
    LABEL,
    OWNER_FILE,
    OWNER_LABEL,
    Fate,
    booted_s,
    fate,
    marked,
)
from skillgate.bench.workspace import remove

if TYPE_CHECKING:  # the SDK is slow to load, and folders do not need it
    import docker

_WANTED = {"label": f"{LABEL}=1"}
OLD_S = 24 * 3600.0
# of a run; the last is of a gate
_PARTS = frozenset({"workspace", "home", "tmp", "given", "tests", "results", "trace", "tree"})
_RUN_FOLDER = re.compile(r"skillgate-[a-z0-9_]{8}")  # as workspace.py and tempfile name it
_SOCKET = "http+docker://localhost"  # what the SDK calls a socket of this machine


def reap(client: docker.DockerClient) -> tuple[str, ...]:
    """Remove containers, networks and volumes that have no owner; return what went: "container <id>".

    It never fails: what an engine refuses, or another reaper takes first, is left out.
    """
    from docker.errors import DockerException

    gone: list[str] = []
    engine = _Engine(client)
    for kind, listed in engine.kinds.items():  # containers first: they hold the rest
        with suppress(DockerException, OSError):  # requests' errors are OSErrors
            for thing in listed():
                with suppress(DockerException, OSError):
                    if engine.is_orphan(thing):
                        thing.remove()
                        gone.append(f"{kind} {thing.id}")
    return tuple(gone)


class _Thing(NamedTuple):
    """A container, network or volume of some skillgate; `made_s` is by the clock of the engine."""

    id: str
    owner: str
    made_s: float
    remove: Callable[[], object]


class _Engine:
    """What an engine has of any skillgate."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._api = client.api
        self._is_here = client.api.base_url == _SOCKET
        self.kinds = {"container": self._containers, "network": self._networks, "volume": self._volumes}

    def is_orphan(self, thing: _Thing) -> bool:
        """Say whether nobody can need it any more; machines that share an engine may look alike."""
        owner = fate(thing.owner)
        if owner is Fate.ALIVE:
            return False
        if self._is_here and owner is Fate.DEAD:
            return True
        if self._is_here and owner is Fate.OTHER_BOOT and thing.made_s < booted_s():
            return True
        return thing.made_s < self._now_s - OLD_S

    @functools.cached_property
    def _now_s(self) -> float:
        return _epoch_s(self._api.info().get("SystemTime"), -math.inf)

    def _containers(self) -> Iterator[_Thing]:
        for facts in self._api.containers(all=True, filters=_WANTED):
            if facts["Labels"].get(OWNER_LABEL) or IMAGE_LABEL not in facts["Labels"]:  # else a person's own
                remove = functools.partial(self._api.remove_container, facts["Id"], force=True, v=True)
                yield _thing(facts, facts["Id"], facts["Created"], remove)

    def _networks(self) -> Iterator[_Thing]:
        for facts in self._api.networks(filters=_WANTED):
            remove = functools.partial(self._api.remove_network, facts["Id"])
            yield _thing(facts, facts["Id"], facts.get("Created"), remove)

    def _volumes(self) -> Iterator[_Thing]:
        for facts in self._api.volumes(filters=_WANTED)["Volumes"] or ():
            remove = functools.partial(self._api.remove_volume, facts["Name"], force=True)
            yield _thing(facts, facts["Name"], facts.get("CreatedAt"), remove)


def _thing(facts: dict[str, Any], name: str, made: object, remove: Callable[[], object]) -> _Thing:
    owner = (facts.get("Labels") or {}).get(OWNER_LABEL, "")
    return _Thing(name, owner, _epoch_s(made, math.inf), remove)


def _epoch_s(moment: object, otherwise: float) -> float:
    """Read seconds, or a date and time, as engines write them."""
    if isinstance(moment, int):
        return moment
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return otherwise


def reap_folders(parent: Path) -> tuple[Path, ...]:
    """Remove the folders of runs that have no owner; return what went. It never fails.

    Everybody may write to a folder for temporary files. What another user made, what others may enter,
    and what holds anything but the parts of a run is not ours, whatever it says.
    """
    gone = []
    for folder in sorted(_run_folders(parent)):
        with suppress(OSError):
            if _is_orphan(folder):
                for part in _PARTS:  # the mark last: a reaper may be killed too
                    remove(folder / part)
                remove(folder)
                gone.append(folder)
    return tuple(folder for folder in gone if not folder.exists())


def _run_folders(parent: Path) -> Iterator[Path]:
    with suppress(OSError):
        for entry in os.scandir(parent):
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
                closed = stat.S_IMODE(facts.st_mode) == stat.S_IRWXU
                if ours and closed and _RUN_FOLDER.fullmatch(entry.name):
                    yield Path(entry)


def _is_orphan(folder: Path) -> bool:
    """Say whether nobody can need it; the folder of another boot may be of a machine that shares the disk."""
    if not {item.name for item in folder.iterdir()} <= {*_PARTS, OWNER_FILE}:
        return False
    owner = fate(marked(folder))
    old = folder.stat().st_mtime < time.time() - OLD_S
    return owner is Fate.DEAD or (old and owner is not Fate.ALIVE)
