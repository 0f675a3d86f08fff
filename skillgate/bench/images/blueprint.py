"""What an image is built from: a Dockerfile, the images it starts from, and its build context.

From a suite's own Dockerfile or from a recipe. The key is the same when all of these are, so
that nothing is built twice. Held-out tests and oracles are in no context. Asks no engine.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from docker.utils.build import exclude_paths

from skillgate.bench.images.recipe import Environment, recipe
from skillgate.bench.suite import SUITE_FILE, files_of
from skillgate.errors import SuiteError

HELD_OUT = ("tasks", "tests")
_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)
_COPY_FROM = re.compile(r"^\s*COPY\s.*?--from=(\S+)", re.IGNORECASE | re.MULTILINE)
_MTIME = 946_684_800  # one for all; a zip file, and so a wheel, cannot hold what is before 1980


class Blueprint(NamedTuple):
    """`files` below `root` lie below `prefix` in the context, beside the Dockerfile `name`."""

    text: str
    bases: tuple[str, ...]
    network: bool
    root: Path
    files: tuple[str, ...]
    prefix: str = ""
    name: str = "Dockerfile"

    def key(self, base_ids: Sequence[str]) -> str:
        """Return the SHA-256 over all that decides what is built.

        Args:
            base_ids: what `bases` are today, in their order.

        Raises: SuiteError when a file cannot be read.
        """
        digest = hashlib.sha256()
        head = (self.text, str(self.network), self.prefix, *base_ids)
        for part in (*head, *(part for name in self.files for part in (name, self._fingerprint(name)))):
            raw = part.encode("utf-8", "surrogateescape")
            digest.update(b"%d:%b" % (len(raw), raw))  # with its length: no two lists look alike
        return digest.hexdigest()

    def pack(self, into: IO[bytes]) -> None:
        """Write the context as a tar file, and rewind it. Raises: SuiteError when a file cannot be read."""
        with tarfile.open(fileobj=into, mode="w", format=tarfile.GNU_FORMAT) as tar:
            if self.prefix:
                tar.addfile(_member(self.prefix, tarfile.DIRTYPE, 0o755))
            for name in self.files:
                self._add(tar, name)
            text = self.text.encode()
            tar.addfile(_member(self.name, tarfile.REGTYPE, 0o644, len(text)), io.BytesIO(text))
        into.seek(0)

    def _add(self, tar: tarfile.TarFile, name: str) -> None:
        path, inside = self.root / name, f"{self.prefix}/{name}" if self.prefix else name
        if path.is_symlink():
            link = _member(inside, tarfile.SYMTYPE, 0o777)
            link.linkname = os.fspath(path.readlink())
            tar.addfile(link)
            return
        with _open(path) as file:
            size = os.fstat(file.fileno()).st_size
            tar.addfile(_member(inside, tarfile.REGTYPE, _mode(path), size), file)

    def _fingerprint(self, name: str) -> str:
        path = self.root / name
        if path.is_symlink():
            return f"link {path.readlink()}"
        with _open(path) as file:  # whatever its size: a stale image would be a wrong verdict
            return f"{_mode(path):o} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def by_recipe(folder: Path, repo: Path, environment: Environment) -> Blueprint:
    """Plan the image that sets a suite's repository up. Raises: SuiteError."""
    made = recipe(repo, environment)
    _keep_answers_out(folder, repo, f"{repo.as_posix()}")
    files = tuple(_regular(repo, files_of(repo)))
    return Blueprint(made.dockerfile, (made.base,), environment.network, repo, files, prefix="repo")


def by_dockerfile(folder: Path, dockerfile: str) -> Blueprint:
    """Plan the image of a suite's own Dockerfile; its folder is the context. Raises: SuiteError."""
    where = f"{folder.as_posix()}/{SUITE_FILE}"
    path, root = folder / dockerfile, (folder / dockerfile).parent.resolve()
    if not root.is_relative_to(folder.resolve()) or path.is_symlink() or not path.is_file():
        raise SuiteError(f"{where}: no file `{dockerfile}` here", "Name a Dockerfile inside of the suite.")
    _keep_answers_out(folder, root, f"{where}: `{dockerfile}`")
    with _open(path) as file:
        text = file.read().decode("utf-8", "replace")
    names = (name for name in _not_ignored(root, path.name) if name != path.name)
    files = tuple(_regular(root, names))
    return Blueprint(text, _bases(text, path), True, root, files, name=path.name)


def _keep_answers_out(folder: Path, context: Path, where: str) -> None:
    context = context.resolve()
    for name in HELD_OUT:
        held_out = folder.resolve() / name
        if held_out.is_relative_to(context) or context.is_relative_to(held_out):
            hint = "Move the Dockerfile and what it copies into a folder of their own, such as docker/."
            raise SuiteError(f"{where} would copy {name}/, which holds the answers, into the image", hint)


def _not_ignored(root: Path, dockerfile: str) -> Iterable[str]:
    """Return the files of a context without those that its .dockerignore names."""
    ignore = root / ".dockerignore"
    if not ignore.is_file():
        return files_of(root)
    patterns = [line.strip() for line in ignore.read_text(encoding="utf-8", errors="replace").splitlines()]
    patterns = [line for line in patterns if line and not line.startswith("#")]
    kept = exclude_paths(str(root), patterns, dockerfile)
    return (name for name in files_of(root) if name in kept)


def _regular(root: Path, names: Iterable[str]) -> Iterable[str]:
    """Leave pipes, sockets and devices out."""
    return (name for name in names if (root / name).is_symlink() or (root / name).is_file())


def _bases(text: str, path: Path) -> tuple[str, ...]:
    """Return the images that a Dockerfile starts or copies from."""
    text = _CONTINUED.sub(" ", text)
    stages = {stage.lower() for _, stage in _FROM.findall(text)} | {"scratch"}
    named = [name for name, _ in _FROM.findall(text)] + _COPY_FROM.findall(text)
    bases = dict.fromkeys(name for name in named if name.lower() not in stages and not name.isdigit())
    if variable := next((name for name in bases if "$" in name), None):
        hint = "Write the image in full: what it starts from decides whether an image is built again."
        raise SuiteError(f"{path.as_posix()}: `FROM {variable}` holds a variable", hint)
    return tuple(bases)


def _member(name: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.mtime = kind, mode, size, _MTIME
    return member


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644


def _open(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except OSError as problem:
        hint = "Let the one who runs this read it."
        raise SuiteError(f"{path.as_posix()}: cannot be read ({problem.strerror})", hint) from None
