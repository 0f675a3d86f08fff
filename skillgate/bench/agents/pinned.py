"""data/agents.yml -> the agent programs that can be installed: versions, packages, what their bytes must be.

Pure but for reading that file and asking for the machine's architecture. Sandboxes run Linux whatever
this machine runs, so a platform is Linux on this architecture.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from skillgate.document import decode, nearest
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.values import Struct

_TABLE = Path(__file__).parents[2] / "data" / "agents.yml"
_ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Package(Struct, kw_only=True):
    """An npm package; `folder` is where it is unpacked, `keep` what of it, everything when empty."""

    name: str
    version: str
    folder: str
    integrity: Annotated[str, msgspec.Meta(pattern="^sha512-[A-Za-z0-9+/]{86}==$")]
    keep: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """Return what npm calls it."""
        return f"{self.name}@{self.version}"

    def keeps(self, path: str) -> bool:
        """Say whether a path below the package's root is unpacked."""
        return not self.keep or any(path == one or path.startswith(f"{one}/") for one in self.keep)


class Pinned(Struct, kw_only=True):
    """An agent program in the one version that is installed, and its packages for one platform."""

    name: str
    version: str
    platform: str
    packages: tuple[Package, ...]

    @property
    def folder_name(self) -> str:
        """Return the folder in the cache: another pin never takes the place of this one."""
        pins = "\n".join(" ".join((p.spec, p.folder, p.integrity, *p.keep)) for p in self.packages)
        return f"{self.name}-{self.version}-{hashlib.sha256(pins.encode()).hexdigest()[:8]}"


class _Entry(Struct, kw_only=True):
    version: str
    packages: dict[str, tuple[Package, ...]]


class _Table(Struct, kw_only=True):
    version: int
    agents: dict[str, _Entry]


def platform_of(machine: str) -> str:
    """Return the platform of a sandbox on such a machine. Raises: PrerequisiteError."""
    architecture = _ARCHITECTURES.get(machine.lower())
    if architecture is None:
        known = ", ".join(sorted(set(_ARCHITECTURES.values())))
        raise PrerequisiteError(
            f"no agent program is pinned for the architecture {machine}", f"Use a machine with {known}."
        )
    return f"linux-{architecture}"


def catalog(machine: str = "") -> tuple[Pinned, ...]:
    """Return what can be installed on this machine, by name. Raises: PrerequisiteError."""
    where = platform_of(machine or platform.machine())
    return tuple(
        Pinned(name=name, version=entry.version, platform=where, packages=entry.packages[where])
        for name, entry in _table().agents.items()
        if where in entry.packages
    )


def pinned(name: str, machine: str = "") -> Pinned:
    """Look an agent up. Raises: UsageError, PrerequisiteError."""
    found = next((one for one in catalog(machine) if one.name == name), None)
    if found is not None:
        return found
    entry = _table().agents.get(name)
    if entry is None:
        raise UsageError(f"no agent program `{name}` can be installed", nearest(name, _table().agents))
    where = platform_of(machine or platform.machine())
    raise PrerequisiteError(
        f"{name} {entry.version} is not published for {where}", f"Use {' or '.join(entry.packages)}."
    )


@cache
def _table() -> _Table:
    return decode(_TABLE.read_text(encoding="utf-8"), _Table, str(_TABLE), is_ours=True)
