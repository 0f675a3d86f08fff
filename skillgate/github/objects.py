"""Objects written into a git repository: blobs, trees, commits. Nothing is ever checked out.

git runs with an environment and a configuration of its own, and no hook, filter or signature. The
names in a tree come from a stranger, so what could mean something else to some tool is refused.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from skillgate.errors import PrerequisiteError, UsageError
from skillgate.git import Entry, Repository, clean_environment

MAX_PATH_BYTES = 4_000
_WHO, _WHEN = ("skillgate", "skillgate@localhost.invalid"), "946684800 +0000"
# Some file systems ignore these in a name, so that it is `.git` there.
_IGNORED = dict.fromkeys((0xFEFF, *range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070)))


class _Row(NamedTuple):
    mode: str
    type: str
    sha: str
    name: bytes


class Objects:
    """The objects of a repository: an existing one, or a bare one that is made in an empty folder.

    Args:
        digits: how long an object id is, 40 or 64.
    Raises: UsageError when the folder holds something else.
    """

    def __init__(self, folder: Path, digits: int = 40) -> None:
        self._folder = folder
        if not folder.exists() or not any(folder.iterdir()):
            kind = "sha1" if digits == 40 else "sha256"
            options = ("--bare", "--quiet", "--template=", f"--object-format={kind}")
            folder.mkdir(parents=True, exist_ok=True)
            self._ask("init", *options, "--initial-branch=main", "--", str(folder.resolve()))
        Repository(folder)  # says it well when git cannot use it

    def present(self, blobs: Iterable[str]) -> set[str]:
        """Return which of these blobs are there already."""
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        out = self._ask("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
        return {name for name, kind in map(str.split, out.decode().splitlines()) if kind == "blob"}

    def read(self, blob: str) -> bytes:
        """Return the bytes of a blob that is there."""
        return self._ask("cat-file", "blob", blob)

    def write(self, content: bytes) -> str:
        """Write a blob and return its id."""
        return self._ask("hash-object", "-w", "-t", "blob", "--stdin", stdin=content).decode().strip()

    def commit(self, files: Mapping[str, Entry], parents: Iterable[str], message: str) -> str:
        """Write a commit with these files by path; the same ones give the same id. Raises: UsageError."""
        chain = [part for parent in parents for part in ("-p", parent)]
        arguments = ("commit-tree", "--no-gpg-sign", *chain, self._tree(files))
        return self._ask(*arguments, stdin=message.encode()).decode().strip()

    def _tree(self, files: Mapping[str, Entry]) -> str:
        """Write the trees from the deepest up, all of one depth at once: depth costs a stranger nothing."""
        folders: dict[str, list[_Row]] = {"": []}
        for path, entry in files.items():
            check_path(path)
            kind = "commit" if entry.is_submodule else "blob"
            _folder(folders, path).append(_Row(entry.mode, kind, entry.blob, _name(path)))
        by_depth: dict[int, list[str]] = {}
        for folder in folders:
            by_depth.setdefault(len(folder.split("/")) if folder else 0, []).append(folder)
        for _, level in sorted(by_depth.items(), reverse=True):
            trees = self._make_trees([folders[folder] for folder in level])
            for folder, tree in zip(level, trees, strict=True):
                if folder:
                    folders[folder.rpartition("/")[0]].append(_Row("040000", "tree", tree, _name(folder)))
        return trees[0]

    def _make_trees(self, trees: Iterable[list[_Row]]) -> list[str]:
        said = bytearray()
        for rows in trees:
            if len({row.name for row in rows}) < len(rows):
                raise UsageError("a tree has a file and a folder of one name", "Make the commit again.")
            for row in rows:
                said += f"{row.mode} {row.type} {row.sha}\t".encode() + row.name + b"\0"
            said += b"\0"
        return self._ask("mktree", "-z", "--batch", stdin=bytes(said)).decode().split()

    def _ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        # `Repository` has asked already whether git trusts the owner, with the user's own configuration
        options = (
            "-c",
            f"core.hooksPath={os.devnull}",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "safe.directory=*",
        )
        command = ["git", "-C", str(self._folder), "--no-replace-objects", *options, *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=_environment())
        except FileNotFoundError:
            raise PrerequisiteError("git is not installed", "Install git and run this again.") from None
        if done.returncode:
            raise UsageError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()[:300]}")
        return done.stdout


def check_path(path: str) -> None:
    """Refuse a path that some tool would take for another one. Raises: UsageError that names it."""
    try:
        length = len(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        length = MAX_PATH_BYTES + 1
    if length > MAX_PATH_BYTES or "\0" in path or any(map(_is_special, path.split("/"))):
        hint = "Rename it: no `.`, `..` or `.git` in a path, and no more than 4,000 bytes."
        raise UsageError(f"{path[:200]!r} is no path for a file of a skill", hint)


def _is_special(part: str) -> bool:
    plain = part.translate(_IGNORED).partition(":")[0].rstrip(". ").lower()
    return part in ("", ".", "..") or plain in (".git", "git~1")


def _name(path: str) -> bytes:
    return path.rpartition("/")[2].encode("utf-8", "surrogateescape")


def _folder(folders: dict[str, list[_Row]], path: str) -> list[_Row]:
    """Return the rows of the folder that a path lies in, and see that all above it are there."""
    inside = folder = path.rpartition("/")[0]
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition("/")[0]
    return folders[inside]


def _environment() -> dict[str, str]:
    mine = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _identity()}
    return (
        clean_environment()
        | mine
        | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
        }
    )


def _identity() -> Iterable[tuple[str, str]]:
    return zip(("NAME", "EMAIL", "DATE"), (*_WHO, _WHEN), strict=True)
