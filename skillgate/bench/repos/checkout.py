"""`repo: {git: URL, commit: ID}` of a suite -> a folder with exactly the files of that commit.

A commit is fetched once, alone, into a bare repository of its own in the cache, and written out
once. Nothing of the cache is believed: on every use the objects are hashed from the commit's id
down, and each written file is compared with its id. What does not fit is dropped and made once
more. One process at a time works on a commit; what it has not finished goes by another name.

    cache/repos/<sha256 of the URL>/<commit>, and <commit>.lock
    cache/trees/<commit>-<hash of URL and folder>
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from skillgate.bench.repos.commit import LINK, Commit, Damaged, list_files, object_hash, read_files
from skillgate.bench.repos.fetch import COMMIT, PART, fetch, refuse_source, unfinished
from skillgate.errors import PrerequisiteError, SuiteError
from skillgate.git import Entry
from skillgate.values import Struct

_BLOCK = 1024 * 1024
Text = Annotated[str, msgspec.Meta(min_length=1)]


class GitSource(Struct, kw_only=True, rename="kebab"):
    """A pinned commit of another repository; its `folder` is the root of the fixture."""

    git: Text
    commit: Annotated[str, msgspec.Meta(pattern=COMMIT)]
    folder: Text = "."


def checkout(source: GitSource, cache: Path, where: str) -> Path:
    """Return a folder of the cache with exactly the files of the commit; nobody may change what is in it.

    Args:
        where: the place that asks for it, like `suites/x/suite.yml:4`; it heads error messages.

    Raises: SuiteError for what the suite has to change; PrerequisiteError when the commit cannot
        be fetched or the cache cannot be written.
    """
    _refuse(source, where)
    store = cache / "repos" / _hash(source.git) / source.commit
    tree = cache / "trees" / f"{source.commit}-{_hash(source.git, source.folder)[:16]}"
    commit = Commit(store, source.commit, source.folder, where)
    with _writing(cache), _locked(store):
        if store.is_dir():
            with suppress(Damaged):
                return _written(commit, tree)
        _remove(store)
        fetch(source.git, source.commit, store, where)
        try:
            return _written(commit, tree)
        except Damaged as problem:
            hint = f"Remove {cache} and run this again; look for trouble with the disk."
            raise PrerequisiteError(f"{where}: the cache is damaged: {problem}", hint) from problem


def _refuse(source: GitSource, where: str) -> None:
    refuse_source(source.git, source.commit, where)
    folder = PurePosixPath(source.folder)
    if folder.is_absolute() or ".." in folder.parts or "\0" in source.folder:
        hint = "Write a path relative to the root of that repository."
        raise SuiteError(f"{where}: `folder` leaves the repository", hint)


def _hash(*parts: str) -> str:
    return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free some space." if full else "Set XDG_CACHE_HOME to a folder that you may write to."
        message = f"{cache}: the cache cannot be written ({problem.strerror})"
        raise PrerequisiteError(message, hint) from problem


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Hold the commit for this process. kill -9 frees it too: what is unfinished now was left by the dead."""
    store.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(store.with_name(f"{store.name}.lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_unfinished(store)
        yield
    finally:
        os.close(lock)


def _written(commit: Commit, tree: Path) -> Path:
    """Return `tree`, after a look at each of its files; write them (again) where one differs."""
    entries = list_files(commit)
    tree.parent.mkdir(exist_ok=True)
    _remove_unfinished(tree)
    if not _holds(tree, entries):
        with unfinished(tree) as part:
            for path, content in read_files(commit, entries):
                _write(part / path, content, entries[path].mode)
            _remove(tree)
            part.rename(tree)
    return tree


def _remove_unfinished(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}.*{PART}"):
        _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, content: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == LINK:
        path.symlink_to(os.fsdecode(content))
        return
    with path.open("xb") as file:
        file.write(content)
    path.chmod(int(mode, 8) & 0o777)


def _holds(tree: Path, entries: Mapping[str, Entry]) -> bool:
    """Say whether the folder has these files and no others, each with its content, kind and mode."""
    if tree.is_symlink() or not tree.is_dir():
        return False
    left, folders = dict(entries), [str(tree)]
    for folder in folders:  # grows while it is walked
        for item in tuple(os.scandir(folder)):
            entry = left.pop(item.path.removeprefix(f"{tree}/"), None)
            if entry is None and item.is_dir(follow_symlinks=False):
                folders.append(item.path)
            elif entry is None or not _is(item, entry):
                return False
    return not left


def _is(item: os.DirEntry[str], entry: Entry) -> bool:
    found = item.stat(follow_symlinks=False)
    made = object_hash("blob", found.st_size, entry.blob)
    if stat.S_ISLNK(found.st_mode) and entry.mode == LINK:
        made.update(os.fsencode(os.readlink(item.path)))  # noqa: PTH115 - Path would tidy up `./a//b`
    elif stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == int(entry.mode, 8) & 0o777:
        with Path(item).open("rb") as file:
            while block := file.read(_BLOCK):
                made.update(block)
    else:
        return False
    return made.hexdigest() == entry.blob
