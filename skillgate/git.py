"""Read-only questions to git: revisions, trees and blobs of a repository.

Lists, never shell strings; NUL-separated output, so any file name survives; nothing is
checked out, so the working tree and its hooks and filters never matter.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from skillgate.errors import PrerequisiteError, UsageError

_REGULAR = ("100644", "100755")
_SUBMODULE = "160000"

PARENT = "HEAD~1"


class Entry(NamedTuple):
    """One file of a tree: its mode, blob id and size in bytes (0 for a submodule)."""

    mode: str
    blob: str
    size: int

    @property
    def is_regular(self) -> bool:
        """Say whether it is a plain file: no symlink, no submodule."""
        return self.mode in _REGULAR

    @property
    def is_submodule(self) -> bool:
        """Say whether it is another repository."""
        return self.mode == _SUBMODULE


def clean_environment() -> dict[str, str]:
    """Return the environment without git's own: inside a hook GIT_DIR names another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C"}


class Repository:
    """A git repository, bare or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trees: dict[str, Mapping[str, Entry]] = {}
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "Name the folder of a git repository with --repo.")
        done = self._git("rev-parse", "--git-dir")
        if b"dubious ownership" in done.stderr:
            hint = f"Say `git config --global --add safe.directory {folder.resolve()}`."
            raise UsageError(f"{folder}: git refuses a repository of another owner", hint)
        if done.returncode:
            hint = "Name one with --repo, or run `git init` there."
            raise UsageError(f"{folder}: not a git repository", hint)

    def commit(self, revision: str) -> str:
        """Resolve a revision to a full commit id. Raises: UsageError when git does not know it."""
        found = self._try("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if found is None:
            hint = "Fetch it first (a shallow clone has only the newest commit), or correct the name."
            raise UsageError(f"unknown revision `{revision}` in {self.folder}", hint)
        return found.decode().strip()

    def merge_base(self, base: str, head: str) -> str:
        """Return the commit where head left base. Raises: UsageError when there is none."""
        found = self._try("merge-base", base, head)
        if found is None:
            hint = "Fetch the whole history (`fetch-depth: 0`), or name a base that head grew from."
            raise UsageError(f"no common ancestor of {base[:12]} and {head[:12]}", hint)
        return found.decode().strip()

    def prefix(self) -> str:
        """Return where `folder` lies in its repository, `.` for the root."""
        return self._ask("rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").strip("/\n") or "."

    def default_base(self) -> str:
        """Return what a range starts from when nobody said: the main branch, else the parent."""
        for name in ("origin/HEAD", "origin/main", "origin/master", "main", "master", PARENT):
            found = self._try("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            if found is not None and found.decode().strip() != self.commit("HEAD"):
                return name
        hint = "Name one with --base; in a shallow clone fetch more first (`fetch-depth: 0`)."
        raise UsageError("no base to compare with: the history here has one commit", hint)

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Map every path of a commit, named by its full id, to its entry; git is asked once."""
        if commit not in self._trees:
            self._trees[commit] = self._read_tree(commit)
        return self._trees[commit]

    def _read_tree(self, commit: str) -> dict[str, Entry]:
        out = self._ask("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        entries: dict[str, Entry] = {}
        for row in filter(None, out.split(b"\0")):
            facts, _, raw = row.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            path = raw.decode("utf-8", "surrogateescape")
            if path in entries:  # a crafted tree: tools would not agree on which of the two counts
                raise UsageError(f"the tree of {commit[:12]} names {path!r} twice", "Make the commit again.")
            entries[path] = Entry(mode, blob, int(size) if size.isdigit() else 0)
        return entries

    def files(self) -> frozenset[str]:
        """Return the paths of the working tree that git tracks, or would: what it ignores is left out."""
        out = self._ask("ls-files", "-z", "--full-name", "--cached", "--others", "--exclude-standard", ":/")
        return frozenset(out.decode("utf-8", "surrogateescape").split("\0"))

    def renames(self, base: str, head: str) -> dict[str, str]:
        """Map the new path of each renamed file to its old path."""
        out = self._ask("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", base, head)
        fields = [field.decode("utf-8", "surrogateescape") for field in out.split(b"\0") if field]
        return {fields[i + 2]: fields[i + 1] for i in range(0, len(fields) - 2, 3)}

    def blobs(self, entries: Mapping[str, Entry]) -> dict[str, bytes]:
        """Read the contents of entries, keyed as they are."""
        wanted = list(dict.fromkeys(entry.blob for entry in entries.values()))
        contents = self._batch(wanted)
        return {path: contents[entry.blob] for path, entry in entries.items()}

    def _batch(self, blobs: Iterable[str]) -> dict[str, bytes]:
        out = self._ask("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
        contents, at = {}, 0
        while at < len(out):
            end = out.index(b"\n", at)
            header = out[at:end].split()
            if len(header) != 3:
                raise UsageError(
                    f"{self.folder}: object {header[0].decode()} is missing", "Fetch the whole history."
                )
            size = int(header[2])
            contents[header[0].decode()] = out[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return contents

    def _ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._git(*arguments, stdin=stdin)
        if done.returncode:
            raise UsageError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()[:300]}")
        return done.stdout

    def _try(self, *arguments: str) -> bytes | None:
        done = self._git(*arguments)
        return done.stdout if done.returncode == 0 else None

    def _git(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        options = ("--no-replace-objects", "-c", "core.fsmonitor=false")
        command = ["git", "-C", str(self.folder), *options, *arguments]
        # nothing that the repository configures may run, also not to fetch what it lacks
        env = clean_environment() | {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
        try:
            return subprocess.run(command, input=stdin, capture_output=True, check=False, env=env)
        except FileNotFoundError:
            raise PrerequisiteError("git is not installed", "Install git and run this again.") from None
