"""Agent programs of a pinned version -> folders in the cache, fetched by npm and checked by hash.

A folder is there whole or not at all: it is unpacked beside its place, its manifest is written last,
and then it is renamed. One process at a time works on an agent; what a killed one left is removed.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skillgate.bench.agents.pinned import Package, Pinned, catalog, pinned, platform_of
from skillgate.errors import PrerequisiteError, writing

__all__ = ["Pinned", "catalog", "install", "installed", "pinned", "platform_of", "verify"]

MANIFEST = "manifest.json"
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
_NEW = ".new-"
_HINT = "Make it writable, or set XDG_CACHE_HOME to another folder."


def run_npm(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing on its stdin. Raises: OSError."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def install(name: str, cache: Path, run: Run = run_npm, machine: str = "") -> Path:
    """Return the folder of an agent program in the cache; fetch it when it is missing or was changed.

    Raises: UsageError, PrerequisiteError.
    """
    agent = pinned(name, machine)
    target = _place(agent, cache)
    with writing(target, _HINT):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target):
            if not _changes(target):
                return target
            new = Path(tempfile.mkdtemp(prefix=f"{_NEW}{target.name}-", dir=target.parent))
            try:
                _fill(new / "tree", agent, new, run)
                shutil.rmtree(target, ignore_errors=True)
                (new / "tree").rename(target)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return target


def installed(name: str, cache: Path, machine: str = "") -> Path | None:
    """Return the folder of an agent program, None when it is not there.

    Raises: UsageError, PrerequisiteError.
    """
    target = _place(pinned(name, machine), cache)
    return target if (target / MANIFEST).is_file() else None


def verify(name: str, cache: Path, machine: str = "") -> Path:
    """Return the folder of an agent program that has not changed since it was installed.

    Reads all of it: about a second for 400 MB. Raises: UsageError, PrerequisiteError.
    """
    hint = f"Run `skillgate agents install {name}`."
    folder = installed(name, cache, machine)
    if folder is None:
        raise PrerequisiteError(f"the agent program {name} is not installed", hint)
    if changed := _changes(folder):
        raise PrerequisiteError(f"the installed {name} was changed: {', '.join(changed[:3])}", hint)
    return folder


def _place(agent: Pinned, cache: Path) -> Path:
    return cache / "agents" / agent.folder_name


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Let one process at a time work on a target; the lock ends with its process, however that ends."""
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in target.parent.glob(f"{_NEW}{target.name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _fill(tree: Path, agent: Pinned, scratch: Path, run: Run) -> None:
    tree.mkdir()
    for number, package in enumerate(agent.packages):
        archive = _fetch(package, scratch / f"package-{number}", run)
        _unpack(archive, package, tree / package.folder)
    _open_to_all(tree)
    manifest = json.dumps({"packages": [p.spec for p in agent.packages], "files": _hashes(tree)}, indent=1)
    (tree / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
    (tree / MANIFEST).chmod(0o644)


def _fetch(package: Package, folder: Path, run: Run) -> Path:
    """Return the archive of a package whose bytes are the pinned ones. Raises: PrerequisiteError."""
    folder.mkdir()
    # npm reads the .npmrc of its prefix, else of the current folder: it may name a host and a variable
    where = str(folder.absolute())
    options = ("--pack-destination", where, "--prefix", where, "--ignore-scripts", "--silent")
    command = ["npm", "pack", package.spec, *options]
    try:
        done = run(command)
    except FileNotFoundError:
        hint = "Install Node.js 18 or newer, which brings it, or copy the cache of a machine that has it."
        raise PrerequisiteError("npm, which fetches agent programs, is not on this machine", hint) from None
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        said = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
        raise PrerequisiteError(
            f"npm could not fetch {package.spec}: {said}", "Check the network and npm's registry."
        )
    with archives[0].open("rb") as file:
        found = base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
    if f"sha512-{found}" != package.integrity:
        raise PrerequisiteError(
            f"{package.spec} is not the package that was pinned: its bytes are sha512-{found}",
            "Do not use it. Look at npm's registry setting; a mirror may have changed it.",
        )
    return archives[0]


def _unpack(archive: Path, package: Package, folder: Path) -> None:
    """Unpack what is kept, without the one folder that npm puts around it. Raises: PrerequisiteError."""

    def place(member: tarfile.TarInfo, where: str) -> tarfile.TarInfo | None:
        _, _, inner = member.name.partition("/")
        if not inner or not package.keeps(inner) or not member.isfile():
            return None  # folders come with their files; npm packs no links
        return tarfile.data_filter(member.replace(name=inner, deep=False), where)

    folder.mkdir(parents=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(folder, filter=place)  # noqa: S202 - through data_filter
    except (tarfile.TarError, EOFError, ValueError) as problem:
        raise PrerequisiteError(f"{package.spec} cannot be unpacked: {problem}", "Report it.") from None


def _open_to_all(tree: Path) -> None:
    """Let the user of a sandbox, who is not the owner, read all of it and run what can be run."""
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _files(tree: Path) -> dict[str, Path]:
    found = (path for path in sorted(tree.rglob("*")) if path.is_symlink() or not path.is_dir())
    return {path.relative_to(tree).as_posix(): path for path in found if path != tree / MANIFEST}


def _hashes(tree: Path) -> dict[str, str]:
    return {name: _hash(path) for name, path in _files(tree).items()}


def _hash(path: Path) -> str:
    """Return the hash of a plain file with the right to run it, something else for anything else."""
    if path.is_symlink() or not path.is_file():
        return "not a file"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{digest} x" if path.stat().st_mode & 0o001 else digest


def _changes(folder: Path) -> list[str]:
    """Return what is not as it was installed; the manifest when there is none."""
    try:
        was = json.loads((folder / MANIFEST).read_bytes())["files"]
        now = _hashes(folder)
    except (OSError, ValueError, LookupError, TypeError):
        return [MANIFEST]
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
