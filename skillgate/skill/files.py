"""Where a skill's bytes come from: a folder on disk or a mapping, with the same names and digest.

Knows nothing of what stands in the files. Nothing is read before it is asked for, links are
never followed out of the folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from skillgate.errors import UsageError

SKILL_FILE = "SKILL.md"
MAX_PATH_BYTES = 1_000
_SKILL_FOLDERS = frozenset({"skills", "skill"})
_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


class Files:
    """The contents of one skill folder, from disk or from memory; read when asked for.

    `names` are sorted and relative with forward slashes, `links` lead out of the folder or nowhere,
    `programs` have the right to be executed (None: nobody knows). A folder below with a SKILL.md of its own
    is another skill and left out, its files are only `known`; left out too are version control, caches and
    installed packages.
    """

    def __init__(
        self,
        names: Iterable[str],
        read: Callable[[str, int], bytes],
        links: Iterable[str] = (),
        programs: Iterable[str] | None = None,
    ) -> None:
        self.programs = frozenset(programs) if programs is not None else None
        self.links = frozenset(links)
        self.known = frozenset(names) | self.links
        self._read = read
        nested = {posixpath.dirname(name) for name in self.known if name.endswith(f"/{SKILL_FILE}")}
        foreign = nested | self.links
        self._own = frozenset(n for n in self.known if n not in foreign and foreign.isdisjoint(_parents(n)))
        self.names = tuple(sorted(self._own))

    @classmethod
    def from_folder(cls, folder: Path) -> Files:
        """List a folder on disk; links are known to exist but not followed out of it.

        Raises: UsageError when there is no such folder.
        """
        if not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder", "Name a folder that holds a SKILL.md.")
        top = os.path.abspath(folder)  # noqa: PTH100  five times as fast as a Path, here and below
        names, links, programs = list[str](), list[str](), list[str]()
        for parent, prefix, folders, files in _walk(top):
            for name in (*folders, *files):
                path = os.path.join(parent, name)  # noqa: PTH118
                is_link = os.path.islink(path)  # noqa: PTH114
                if is_link and not (name in files and _target(path).is_relative_to(_target(top))):
                    links.append(prefix + name)
                elif name in files:
                    names.append(prefix + name)
                    programs += names[-1:] if os.access(path, os.X_OK) else ()

        def read(name: str, limit: int) -> bytes:
            # a pipe under this name would block for ever
            with os.fdopen(os.open(f"{top}/{name}", os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise OSError(errno.EINVAL, "not a plain file")
                return file.read(limit)

        return cls(names, read, links, programs)

    @classmethod
    def from_map(cls, content: Mapping[str, bytes], programs: Iterable[str] | None = None) -> Files:
        """Take names and contents as they are, for instance from a git tree."""
        names = [name for name in content if _SKIPPED_FOLDERS.isdisjoint(name.split("/"))]
        return cls(
            names, lambda name, limit: content[name] if limit < 0 else content[name][:limit], (), programs
        )

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them. Raises: OSError when that fails."""
        if name not in self._own:
            raise FileNotFoundError(f"{name} is not a file of this skill")
        return self._read(name, limit)

    def has(self, path: str) -> bool:
        """Say whether a file or folder of this name exists, other skills below and links included."""
        known = path in self.known or path in self._folders or path in ("", ".")
        return known or not self.links.isdisjoint(_parents(path))

    def digest(self, limit: int = -1) -> str:
        """Return the identity of the contents, of the first bytes with a limit: equal wherever it lies."""
        total = hashlib.sha256()
        for name in self.names:
            encoded = name.encode("utf-8", "surrogatepass")
            total.update(hashlib.sha256(encoded).digest() + hashlib.sha256(self.read(name, limit)).digest())
        return total.hexdigest()

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(parent for name in self.known for parent in _parents(name))


def is_too_long(name: str) -> bool:
    """Say whether a file name may not fit below the folder that a skill is installed in."""
    return len(os.fsencode(name)) > MAX_PATH_BYTES or any(len(os.fsencode(p)) > 255 for p in name.split("/"))


class Stray(NamedTuple):
    """What a person takes for a skill and a client does not: `kind` says why.

    `case`: SKILL.md is spelled otherwise; `dangling`: a link that leads nowhere or round in a circle;
    `outside`: a link to a folder that was not searched.
    """

    path: str
    kind: str


class Found(NamedTuple):
    """The skill folders below a root, and the strays."""

    skills: tuple[str, ...]
    strays: tuple[Stray, ...]


def scan(root: Path) -> Found:
    """Search a folder for skills and strays, both sorted; links are not followed."""
    skills: list[str] = []
    strays: list[Stray] = []
    for _, prefix, folders, files in _walk(str(root)):
        inside = prefix.rstrip("/") or "."
        if SKILL_FILE in files or (SKILL_FILE in folders and (root / prefix / SKILL_FILE).is_symlink()):
            skills.append(inside)  # a link too: what lies beside it is no part of another skill
        strays += [Stray(prefix + name, "case") for name in files if is_misspelt(name)]
        if SKILL_FILE in files or posixpath.basename(inside) in _SKILL_FOLDERS:
            strays += _stray_links(root, [prefix + name for name in (*folders, *files)])
    return Found(tuple(sorted(skills)), tuple(sorted(strays)))


def is_misspelt(name: str) -> bool:
    """Say whether a file name is SKILL.md in another case."""
    return name.lower() == SKILL_FILE.lower() and name != SKILL_FILE


def _stray_links(root: Path, names: Iterable[str]) -> Iterator[Stray]:
    for name in names:
        if os.path.islink(os.path.join(root, name)):  # noqa: PTH114, PTH118
            target = _target(root / name)
            if not target.exists():
                yield Stray(name, "dangling")
            elif not target.is_relative_to(_target(root)):
                yield Stray(name, "outside")


def _walk(top: str) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Walk as os.walk does, without skipped folders; the second part is the prefix of names below `top`."""
    for parent, folders, files in os.walk(top):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED_FOLDERS
            or (name[0] != "." and os.path.lexists(os.path.join(parent, name, SKILL_FILE)))  # noqa: PTH118
        )
        inside = parent[len(top) :].strip(os.sep).replace(os.sep, "/")
        yield parent, f"{inside}/" if inside else "", folders, files


def _target(link: str | Path) -> Path:
    return Path(os.path.realpath(link))  # Path.resolve raises where links form a circle


def _parents(name: str) -> Iterator[str]:
    while (parent := posixpath.dirname(name)) not in ("", name):
        yield parent
        name = parent
