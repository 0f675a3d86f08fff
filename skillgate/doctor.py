"""What this machine has of what skillgate needs."""

from __future__ import annotations

import shutil
import sys
from typing import NamedTuple

from skillgate.errors import PrerequisiteError


class Part(NamedTuple):
    """One prerequisite: is it there, and what to do if not."""

    name: str
    is_there: bool
    says: str


def examine() -> tuple[Part, ...]:
    """Look at everything, all at once."""
    return (_python(), _git(), _docker())


def _python() -> Part:
    version = ".".join(map(str, sys.version_info[:3]))
    return Part("Python", sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)")


def _git() -> Part:
    path = shutil.which("git")
    return Part("git", path is not None, path or "install git: it is needed to read a range")


def _docker() -> Part:
    from skillgate.bench.docker import docker_sandbox

    try:
        sandbox = docker_sandbox(None)
    except PrerequisiteError as problem:
        return Part("Docker", False, f"{problem.message}. {problem.hint}")
    return Part("Docker", True, ", ".join(f"{key} {value}" for key, value in sandbox.describe().items()))
