"""The agents of this machine: which there are, and how their programs get here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from skillgate.bench.agents.install import catalog, install, installed, pinned
from skillgate.errors import PrerequisiteError
from skillgate.gate.agents import OURS, key_name


def describe(cache: Path | None) -> str:
    """Say which agents `run.agent` can name, a line each."""
    lines = [f"{name:12} {says}" for name, says in OURS.items()]
    for one in catalog():
        there = cache is not None and installed(one.name, cache) is not None
        state = "installed" if there else f"not installed: skillgate agents install {one.name}"
        lines.append(f"{one.name:12} {one.version}, key in {key_name(one.name)}, {state}")
    return "\n".join(lines) + "\n"


def install_all(names: Sequence[str], cache: Path | None) -> Iterator[str]:
    """Install programs one by one, a line for each. Raises: UsageError, PrerequisiteError."""
    if cache is None:
        raise PrerequisiteError("this user has no home folder to install into", "Set XDG_CACHE_HOME.")
    for name in names:
        pinned(name)  # a wrong name is told before anything is fetched
    for name in names:
        yield f"{name} {pinned(name).version}: {install(name, cache)}\n"
