"""Where configuration, suites and scripts come from: a git range or a folder.

In a range everything that judges is read at the tip of the base, so a pull request cannot soften
its own judge, not by branching off early either; what the base does not have yet is read at the
head, and `notes` says so.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skillgate.config import FILE_NAME, Config, find_root, is_root, parse
from skillgate.document import line_of
from skillgate.errors import ConfigError, OptionError, PrerequisiteError, SuiteError
from skillgate.git import Entry, Repository
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.lint.sift import NOTHING_KNOWN, Baseline, read_baseline
from skillgate.shipped import shipped

if TYPE_CHECKING:
    from skillgate.bench.suite import Suite

BUILTIN = "builtin:"
MAX_BYTES = 10_000_000


class Source(Protocol):
    """Reads what the configuration names."""

    notes: list[str]

    def read(self, path: str) -> bytes | None:
        """Return a file by its path in the repository, None when there is none."""

    def folder(self, path: str) -> Path | None:
        """Return a folder of the repository on disk, None when there is none."""

    def brings(self, path: str) -> bool:
        """Say whether a file comes with the change that is judged, which must not choose its own rules."""


class FolderSource:
    """Reads from a folder on disk: for `skillgate run`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file below the root (or at an absolute path)."""
        target = self.root / path
        if not target.exists():
            return None
        if not target.is_file() or target.stat().st_size > MAX_BYTES:
            raise _unreadable(path)
        return target.read_bytes()

    def brings(self, path: str) -> bool:
        """Say no: nobody judges here but the user."""
        return False

    def folder(self, path: str) -> Path | None:
        """Return a folder below the root (or at an absolute path)."""
        target = self.root / path
        return target if target.is_dir() else None


class RangeSource:
    """Reads from two commits, the base first; folders are written out below `scratch`."""

    def __init__(self, repository: Repository, base: str, head: str, scratch: Path) -> None:
        self._repository = repository
        self._trees = repository.tree(base), repository.tree(head)
        self._scratch = scratch
        self.notes: list[str] = []

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a regular file at the base, or at the head when it is new."""
        found = self._entries(path, "")
        if not found:
            return None
        (entry,) = found.values()
        if not entry.is_regular or entry.size > MAX_BYTES:
            raise _unreadable(path)
        return self._repository.blobs({path: entry})[path]

    def brings(self, path: str) -> bool:
        """Say whether the head has this file and the base does not."""
        base, head = self._trees
        return posixpath.normpath(path) not in base and posixpath.normpath(path) in head

    def folder(self, path: str) -> Path | None:
        """Write a folder out and return it."""
        entries = {name: e for name, e in self._entries(path, "/").items() if ".." not in name.split("/")}
        target = self._scratch / "tree" / posixpath.normpath(path)
        if not target.exists():
            contents = self._repository.blobs(entries)
            for name in sorted(contents, key=lambda n: entries[n].mode):  # links (12...) after files (10...)
                _write(self._scratch / "tree" / name, contents[name], entries[name].mode)
        return target if entries else None

    def _entries(self, path: str, suffix: str) -> dict[str, Entry]:
        prefix = posixpath.normpath(path) + suffix
        for tree, is_new in zip(self._trees, (False, True), strict=True):
            found = {n: e for n, e in tree.items() if n == prefix or (suffix and n.startswith(prefix))}
            if found:
                note = f"`{path}` is new in this range: the change brings its own judge here."
                if is_new and note not in self.notes:
                    self.notes.append(note)
                return found
        return {}


def relative(path: Path, root: Path) -> Path:
    """Spell a path (absolute, or as seen from the root) as seen from the root, without detours."""
    return Path(os.path.relpath(root / path, root))


def root_of(here: Path, paths: Sequence[Path]) -> Path:
    """Return the root of what is to be linted: that of the current folder, else that of the first path.

    The second where the current folder belongs to no repository, or the path lies in another one.
    """
    root = find_root(here)
    first = Path(os.path.normpath(here / paths[0])) if paths else here
    if is_root(root) and first.is_relative_to(root):
        return root
    other = find_root(first if first.is_dir() else first.parent)
    return other if is_root(other) else root


def read_config(source: Source, path: str | None = None) -> Config:
    """Read skillgate.yml, or the file that the user named; the defaults when there is none.

    Raises: ConfigError with path:line, also when the named file is not there.
    """
    content = source.read(path or FILE_NAME)
    if content is None and path is not None:
        raise ConfigError(f"{path}: no such file", "Name a file of the repository with --config.")
    return (
        parse(decode_text(content, path or FILE_NAME), path or FILE_NAME) if content is not None else Config()
    )


def read_suites(source: Source, names: Sequence[str], cache: Path | None = None) -> tuple[Suite, ...]:
    """Load suites by folder, or by `builtin:NAME`; `cache` keeps the repositories that they pin.

    Raises: SuiteError; PrerequisiteError when a repository cannot be fetched.
    """
    return tuple(_read_suite(_suite_folder(source, name), name, cache) for name in names)


def read_every_rule(source: Source, config: Config) -> tuple[Rule, ...]:
    """Load our rules and those of the user, whether they are on or not. Raises: RuleError with path:line."""
    return load_rules(*rule_folders(source, config))


def read_rules(source: Source, config: Config, path: str | None = None) -> tuple[Rule, ...]:
    """Load the rules that are on, as the configuration wants them.

    Raises: ConfigError and RuleError with path:line.
    """
    try:
        return configure(read_every_rule(source, config), config.lint)
    except OptionError as problem:
        text = decode_text(source.read(path or FILE_NAME) or b"", path or FILE_NAME)
        line = line_of(text, problem.keys)
        raise ConfigError(f"{path or FILE_NAME}:{line}: {problem.message}", problem.hint) from None


def rule_folders(source: Source, config: Config) -> Iterator[Path]:
    """Give the folder of our rules, then those of the user. Raises: ConfigError."""
    yield shipped("rules")
    for name in config.lint.rule_files:
        folder = source.folder(name)
        if folder is None:
            raise ConfigError(f"`lint.rule-files` names `{name}`, which is no folder", "Correct the name.")
        yield folder


def read_known(source: Source, config: Config) -> Baseline:
    """Read the baseline that the configuration names, if it names one. Raises: ConfigError with path:line."""
    path = config.lint.baseline
    if path is None or source.brings(path):
        return NOTHING_KNOWN
    content = source.read(path)
    if content is None:
        hint = "Write it with `skillgate lint --write-baseline FILE`."
        raise ConfigError(f"`lint.baseline` names `{path}`, which is no file", hint)
    return read_baseline(decode_text(content, path), path)


def _unreadable(path: str) -> ConfigError:
    hint = f"Make it a plain file of at most {MAX_BYTES:,} bytes."
    return ConfigError(f"{path}:1: a link, a folder, or too large", hint)


def decode_text(content: bytes, path: str) -> str:
    """Decode UTF-8. Raises: ConfigError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:1: not UTF-8 text", "Save it as UTF-8.") from None


def _read_suite(folder: Path, name: str, cache: Path | None) -> Suite:
    from skillgate.bench.suite import load_suite  # here, as most skills are linted without a suite

    try:
        return load_suite(folder, name, cache)
    except (SuiteError, PrerequisiteError) as problem:  # known by its name, not by where it was written
        raise type(problem)(problem.message.replace(folder.as_posix(), name), problem.hint) from None


def _suite_folder(source: Source, name: str) -> Path:
    if name.startswith(BUILTIN):
        folder: Path | None = shipped("fixtures") / name.removeprefix(BUILTIN)
    else:
        folder = source.folder(name)
    if folder is None or not (folder / "suite.yml").is_file():
        known = ", ".join(
            BUILTIN + path.parent.name for path in sorted(shipped("fixtures").glob("*/suite.yml"))
        )
        raise SuiteError(f"{name}: no suite there (no suite.yml)", f"Name its folder, or one of: {known}.")
    return folder


def _write(path: Path, content: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "120000":
        path.symlink_to(content.decode("utf-8", "surrogateescape"))
        return
    path.write_bytes(content)
    path.chmod(0o755 if mode == "100755" else 0o644)
