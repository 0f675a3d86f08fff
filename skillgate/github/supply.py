"""Blobs and trees of GitHub, within limits: what is in the repository already is not asked for again.

What is too much is said before anything is fetched. Which files matter is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from skillgate.errors import GitHubUnavailable, PrerequisiteError, UsageError
from skillgate.git import Entry
from skillgate.github.answers import Tree
from skillgate.github.listing import Files
from skillgate.github.objects import Objects, check_path
from skillgate.github.patience import AGAIN
from skillgate.github.pulls import Reader


class Limits(NamedTuple):
    """What one range may cost; GitHub allows a repository's jobs 1,000 requests an hour together.

    Bytes and requests are those of what is fetched, `files` those of a commit.
    """

    requests: int = 300
    files: int = 10_000
    file_bytes: int = 1024 * 1024
    total_bytes: int = 8 * 1024 * 1024


class Supply:
    """Gets what is not there yet, within the limits."""

    def __init__(self, reader: Reader, objects: Objects, limits: Limits) -> None:
        self.objects = objects
        self._reader, self._limits = reader, limits
        self._before = reader.requests
        self._bytes_left = limits.total_bytes

    @property
    def requests_left(self) -> int:
        """Return how many requests may still be made."""
        return self._limits.requests - (self._reader.requests - self._before)

    def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        """List a tree."""
        self._require(1)
        return self._reader.tree(sha, recursive=recursive)

    def missing(self, files: Iterable[tuple[str, Entry]]) -> dict[str, tuple[str, Entry]]:
        """Map the blobs that must be fetched to a path and an entry that want them."""
        wanted = {entry.blob: (path, entry) for path, entry in files if not entry.is_submodule}
        there = self.objects.present(wanted)
        return {blob: one for blob, one in wanted.items() if blob not in there}

    def fetch(self, *sides: Files) -> None:
        """Fetch all blobs of these files, or nothing when that is too much. Raises: as fetch_range."""
        self._check(sides)
        missing = self.missing((path, entry) for files in sides for path, entry in files.items())
        self._require(len(missing))
        for path, entry in missing.values():
            self._refuse_large(path, entry)
        total = sum(entry.size for _, entry in missing.values())
        if total > self._bytes_left:
            problem = (
                f"the skills of this range hold {total:,} bytes; at most {self._bytes_left:,} are fetched"
            )
            raise UsageError(problem, "Make them smaller, or propose them in parts.")
        self._bytes_left -= total
        for blob, (path, entry) in missing.items():
            self._require(1)  # a request that was repeated counts as well
            self.get(path, blob, entry)

    def fetch_some(self, files: Files) -> set[str]:
        """Fetch as many of these files as the limits allow; return the paths of those that are there."""
        missing, paths = self.missing(files.items()), set(files)
        for blob, (path, entry) in sorted(missing.items(), key=lambda item: item[1]):
            if self.requests_left > 0 and entry.size <= min(self._limits.file_bytes, self._bytes_left):
                self._bytes_left -= entry.size
                self.get(path, blob, entry)
            else:
                paths -= {path for path, other in files.items() if other.blob == blob}
        return paths

    def get(self, path: str, blob: str, entry: Entry) -> None:
        """Fetch one blob and write it."""
        if self.objects.write(self._reader.blob(blob, entry.size)) != blob:
            raise GitHubUnavailable(f"{path[:200]!r} is not the blob {blob}", AGAIN)

    def _check(self, sides: Iterable[Files]) -> None:
        for files in sides:
            if len(files) > self._limits.files:
                problem = (
                    f"the skills of this range hold {len(files):,} files; at most {self._limits.files:,}"
                )
                raise UsageError(f"{problem} are fetched", "Propose them in parts.")
            for path in files:
                check_path(path)

    def _refuse_large(self, path: str, entry: Entry) -> None:
        if entry.size > self._limits.file_bytes:
            problem = (
                f"{path[:200]!r} has {entry.size:,} bytes; at most {self._limits.file_bytes:,} are fetched"
            )
            raise UsageError(problem, "Make it smaller, or take it out of the skill.")

    def _require(self, requests: int) -> None:
        if requests > self.requests_left:
            used = self._limits.requests - self.requests_left
            problem = (
                f"this range needs {used + requests:,} requests to GitHub or more; at most"
                f" {self._limits.requests:,} are made"
            )
            hint = "Propose the skills in parts. Files of the base cost none where the base is checked out."
            raise PrerequisiteError(problem, hint)
