"""A commit of a git repository -> its files, every object of it proven by its id.

What lies in a cache may be damaged or planted, and git believes most of what it reads from a
disk. An id is the hash of what it names, so the commit, its trees and its blobs are hashed
again from the commit's id downwards. Git is asked for bytes only and checks nothing out: no
filter, no attribute and no hook of the repository has a say.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from skillgate.errors import SuiteError, UsageError
from skillgate.git import Entry, Repository

MAX_FILES, MAX_DEPTH = 50_000, 200  # trees that share subtrees can name billions in a few kilobytes
MAX_BYTES = 1024 * 1024 * 1024
MAX_NAME, MAX_PATH = 255, 2048
LINK = "120000"
_FOLDER = 0o40000
_BATCH_BYTES = 16 * 1024 * 1024


class Damaged(Exception):
    """What lies on the disk is not what its id says."""


class Commit(NamedTuple):
    """What to read, and how error messages name the place that asks for it."""

    repository: Path
    id: str
    folder: str
    where: str


def list_files(commit: Commit) -> Mapping[str, Entry]:
    """Map the path of every file in the folder of the commit to its entry.

    Raises: SuiteError for what cannot be a fixture; Damaged.
    """
    with _believing_nothing():
        repository = Repository(commit.repository)
        root = _root(repository, commit)
        _prove_trees(repository, root, commit)
        entries = repository.tree(root)
    _refuse_entries(entries, commit)
    return entries


def read_files(commit: Commit, entries: Mapping[str, Entry]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file, a few megabytes at a time.

    Raises: SuiteError for a link that no file system takes; Damaged.
    """
    with _believing_nothing():
        repository = Repository(commit.repository)
        for batch in _batches(entries):
            for path, content in repository.blobs(batch).items():
                _prove("blob", content, batch[path].blob)
                _refuse_link(path, content, batch[path], commit)
                yield path, content


def object_hash(kind: str, size: int, like: str) -> hashlib._Hash:
    """Return the hash that gives an object its id, its header taken in; `like` is an id as long as it."""
    # SHA-1 is what a 40-digit id is made of; git itself refuses the known collisions when it fetches
    made = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
    made.update(f"{kind} {size}\0".encode())
    return made


@contextmanager
def _believing_nothing() -> Iterator[None]:
    try:
        yield
    except (UsageError, ValueError) as problem:  # git or we could not read what was written whole
        raise Damaged(str(problem)) from problem


def _prove(kind: str, content: bytes, name: str) -> None:
    made = object_hash(kind, len(content), name)
    made.update(content)
    if made.hexdigest() != name:
        raise Damaged(f"the {kind} {name} has another content than its id says")


def _read(repository: Repository, kind: str, names: Iterable[str]) -> dict[str, bytes]:
    contents = repository.blobs({name: Entry("", name, 0) for name in names})
    for name, content in contents.items():
        _prove(kind, content, name)
    return contents


def _root(repository: Repository, commit: Commit) -> str:
    """Return the id of the tree that `folder` names in the commit."""
    content = _read(repository, "commit", [commit.id])[commit.id]
    tree = content.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii", "replace")
    for part in posixpath.normpath(commit.folder).split("/"):
        if part != ".":
            rows = _rows(_read(repository, "tree", [tree])[tree], commit)
            tree = next((name for mode, key, name in rows if (mode, key) == (_FOLDER, part.encode())), "")
        if not tree:
            hint = "`folder` is a path inside the repository; leave it out to take all of it."
            raise _error(commit, f"commit {commit.id[:12]} has no folder `{commit.folder}`", hint)
    return tree


def _prove_trees(repository: Repository, root: str, commit: Commit) -> None:
    """Hash every tree below `root`, each once, and count what they name before anybody lists it."""
    known: dict[str, list[tuple[int, bytes, str]]] = {}
    level, total, depth = Counter([root]), 0, 0  # how many paths lead to each tree of this level
    while level:
        contents = _read(repository, "tree", [tree for tree in level if tree not in known])
        known |= {tree: _rows(content, commit) for tree, content in contents.items()}
        below: Counter[str] = Counter()
        for tree, times in level.items():
            total += times * len(known[tree])
            for mode, _, name in known[tree]:
                below[name] += times * (mode == _FOLDER)
        depth += 1
        if total > MAX_FILES or depth > MAX_DEPTH:
            message = f"commit {commit.id[:12]} has more than {MAX_FILES:,} files, or {MAX_DEPTH} levels"
            raise _error(commit, message, "Name a part of it with `folder`, or take a smaller repository.")
        level = +below


def _rows(tree: bytes, commit: Commit) -> list[tuple[int, bytes, str]]:
    """Return the mode, the name and the id of every row of a tree object."""
    rows, at, size = [], 0, len(commit.id) // 2
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, name = tree[at:end].partition(b" ")
        rows.append((int(mode, 8), name, tree[end + 1 : end + 1 + size].hex()))
        at = end + 1 + size
    if len({name for _, name, _ in rows}) < len(rows):  # a link and a folder of one name: a way out
        raise _error(commit, f"commit {commit.id[:12]} names a file twice", "Make the commit again.")
    return rows


def _refuse_entries(entries: Mapping[str, Entry], commit: Commit) -> None:
    modules = [path for path, entry in entries.items() if entry.is_submodule]
    if modules:
        hint = "Submodules are not fetched: name a commit or a `folder` without any."
        raise _error(commit, f"commit {commit.id[:12]} has the submodule {_quoted(modules)}", hint)
    odd = [path for path in entries if len(path) > MAX_PATH or any(map(_is_odd, path.split("/")))]
    if odd:
        hint = "No part of a path may be `..`, `.git` or too long: make the commit again without it."
        raise _error(commit, f"commit {commit.id[:12]} has the path {_quoted(odd)}", hint)
    if sum(entry.size for entry in entries.values()) > MAX_BYTES:
        message = f"the files of commit {commit.id[:12]} hold more than {MAX_BYTES:,} bytes"
        raise _error(commit, message, "Name a part of it with `folder`, or take a smaller repository.")


def _is_odd(part: str) -> bool:
    return part in ("", ".", "..") or part.lower() == ".git" or len(os.fsencode(part)) > MAX_NAME


def _refuse_link(path: str, target: bytes, entry: Entry, commit: Commit) -> None:
    if entry.mode == LINK and (not 0 < len(target) <= MAX_PATH or b"\0" in target):
        message = f"commit {commit.id[:12]} has a link that leads nowhere, {_quoted([path])}"
        raise _error(commit, message, "Make the commit again without it.")


def _quoted(paths: list[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(f"`{path[:200]}`" for path in paths[:3]) + more


def _batches(entries: Mapping[str, Entry]) -> Iterator[dict[str, Entry]]:
    batch: dict[str, Entry] = {}
    held = 0
    for path, entry in entries.items():
        if batch and held + entry.size > _BATCH_BYTES:
            yield batch
            batch, held = {}, 0
        batch[path] = entry
        held += entry.size
    if batch:
        yield batch


def _error(commit: Commit, message: str, hint: str) -> SuiteError:
    return SuiteError(f"{commit.where}: {message}", hint)
