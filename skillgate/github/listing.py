"""Which files a commit has, as far as they were listed, and which of them are skills'.

A tree that is too large for one answer is opened folder by folder, where somebody wants to look.
Only names, modes and ids are known here, no contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Protocol

from skillgate.errors import UsageError
from skillgate.git import Entry
from skillgate.github.answers import Tree
from skillgate.skill import SKILL_FILE

Files = Mapping[str, Entry]


class Lister(Protocol):
    """Lists trees."""

    def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        """List a tree, with all that lies below when it can."""


class Listing:
    """The files of a tree by path; `closed` maps the folders that were not listed to their ids."""

    def __init__(self, lister: Lister, sha: str) -> None:
        self.files: dict[str, Entry] = {}
        self.closed: dict[str, str] = {}
        self._lister, self._name = lister, sha[:12]
        self._list(sha, "")

    def open(self, wanted: Callable[[str, str], bool]) -> None:
        """List the closed folders, by path and id, that are wanted, and those in them."""
        while chosen := [path for path, sha in self.closed.items() if wanted(path, sha)]:
            for path in chosen:
                self._list(self.closed.pop(path), f"{path}/")

    def _list(self, sha: str, prefix: str) -> None:
        found, is_deep = self._lister.tree(sha), True
        if found.truncated:
            found, is_deep = self._lister.tree(sha, recursive=False), False
        if found.truncated:
            raise UsageError(f"{prefix or 'the repository'} holds too many files to be listed", _FEWER)
        for node in found.tree:
            path = prefix + node.path
            if path in self.files or path in self.closed:  # tools would not agree on which of the two counts
                raise UsageError(
                    f"the tree of {self._name} names {path[:200]!r} twice", "Make the commit again."
                )
            if node.type != "tree":
                self.files[path] = Entry(node.mode, node.sha, node.size if node.type == "blob" else 0)
            elif not is_deep:
                self.closed[path] = node.sha


_FEWER = "Spread them over several folders."


def open_differences(one: Listing, other: Listing) -> None:
    """Open all in which two trees differ; what stays closed is the same in both."""
    while differing := one.closed.items() ^ other.closed.items():
        _open(one, differing)
        _open(other, differing)


def _open(listing: Listing, chosen: Set[tuple[str, str]]) -> None:
    listing.open(lambda path, sha: (path, sha) in chosen)


def skill_folders(files: Files) -> dict[str, dict[str, Entry]]:
    """Map each skill folder to the files that belong to it, by their whole paths."""
    splits = (path.rpartition("/") for path in files)
    folders = {folder for folder, _, name in splits if name == SKILL_FILE}
    found: dict[str, dict[str, Entry]] = {folder: {} for folder in folders}
    for path, entry in files.items():
        if (owner := owner_of(path, folders)) is not None:
            found[owner][path] = entry
    return found


def owner_of(path: str, folders: Iterable[str]) -> str | None:
    """Return the nearest of the skill folders above a path; a dot folder never belongs to a root skill."""
    for folder in _parents(path):
        if folder in folders:
            return None if folder == "" and path.startswith(".") else folder
    return None


def changed_folders(one: Files, other: Files) -> set[str]:
    """Return the skill folders that differ, or that only one side has."""
    old, new = skill_folders(one), skill_folders(other)
    return {folder for folder in old.keys() | new.keys() if old.get(folder) != new.get(folder)}


def is_below(path: str, folder: str) -> bool:
    """Say whether a path lies in a folder, which is `""` for the root."""
    return folder == "" or path.startswith(f"{folder}/")


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
