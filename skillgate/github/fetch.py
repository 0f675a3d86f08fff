"""A range on GitHub -> the same range in a git repository, cut down to what a gate reads.

The repository gets three commits: where head left base, the base with everything that judges, and
the head. A gate finds in them what it would find in a clone. Every blob is verified by its id and
none is ever checked out: what comes from the head is an object, not a file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from skillgate.config import FILE_NAME, Config, LintConfig, parse
from skillgate.errors import ConfigError, UsageError
from skillgate.git import Entry
from skillgate.github.listing import (
    Listing,
    changed_folders,
    is_below,
    open_differences,
    owner_of,
    skill_folders,
)
from skillgate.github.objects import Objects, check_path
from skillgate.github.pulls import Reader
from skillgate.github.supply import Limits, Supply
from skillgate.skill import SKILL_FILE
from skillgate.skill.files import is_misspelt

_BUILTIN = "builtin:"
_LIMITS = Limits()


class Fetched(NamedTuple):
    """The commits to gate, made here, and the real one where head left base; `notes` say what is left out."""

    base: str
    head: str
    merge_base: str
    notes: tuple[str, ...]


def fetch_range(
    reader: Reader,
    repository: Path,
    base_sha: str,
    head_sha: str,
    *,
    keep: Callable[[str], bool] = lambda path: False,
    config: str = FILE_NAME,
    limits: Limits = _LIMITS,
) -> Fetched:
    """Write the skills that differ, and what judges them, into a git repository.

    The configuration, the rules, the baseline and the suites that it names are found by themselves.

    Args:
        repository: a new folder, or a repository whose objects need not be fetched again.
        keep: what else of the base is needed; where a tree is too large to list it is asked of folders too.
    Raises: GitHubUnavailable; PrerequisiteError when the limits do not suffice; UsageError for a file
        that is too large or has no decent name.
    """
    supply = Supply(reader, Objects(repository, len(head_sha)), limits)
    sides = _Sides.list(reader, supply, base_sha, head_sha)
    skills = _open_skills(sides)
    read = _read_config(sides, supply, config)
    judges, new_judges = _judges(sides, _Judges.of(read, config, skills), keep)
    paths = _with_owners(sides, skills.paths | new_judges)
    supply.fetch(_files(sides.start, paths), _files(sides.base, judges), _files(sides.head, paths))
    others, notes = _others(sides, supply, paths)
    return _write(sides, supply, judges, paths | others, notes)


class _Sides(NamedTuple):
    """The three trees, `start` where head left base."""

    start: Listing
    base: Listing
    head: Listing
    ids: tuple[str, str, str]

    @classmethod
    def list(cls, reader: Reader, supply: Supply, base_sha: str, head_sha: str) -> _Sides:
        start_sha = reader.merge_base(base_sha, head_sha)
        start, head = Listing(supply, start_sha), Listing(supply, head_sha)
        base = start if base_sha == start_sha else Listing(supply, base_sha)
        return cls(start, base, head, (start_sha, base_sha, head_sha))


class _Skills(NamedTuple):
    """The skill folders that differ between start and head, and the paths of their files on both sides.

    With these comes what only looks like a skill.
    """

    folders: tuple[str, ...]
    paths: frozenset[str]


def _open_skills(sides: _Sides) -> _Skills:
    """Find the skills that differ, and list all that lies in them."""
    open_differences(sides.start, sides.head)
    start, head = sides.start.files, sides.head.files
    changed = changed_folders(start, head)
    for side in (sides.start, sides.head):
        side.open(lambda path, sha: any(is_below(path, f) and not _is_dotted(path, f) for f in changed))
    changed = changed_folders(start, head)
    owned = [skill_folders(files) for files in (start, head)]
    paths = {path for folders in owned for name in changed for path in folders.get(name, ())}
    strays = {path for path in head.keys() - start.keys() if is_misspelt(posixpath.basename(path))}
    return _Skills(tuple(sorted(changed)), frozenset(paths | strays))


def _is_dotted(path: str, folder: str) -> bool:
    return folder == "" and path.startswith(".")


# --- what judges -------------------------------------------------------------------


class _Judges(NamedTuple):
    """The files and the folders that the configuration names, as paths in the repository."""

    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def of(cls, read: Config, config: str, skills: _Skills) -> _Judges:
        names = dict.fromkeys(name for f in skills.folders for name in read.suites_for(f or "."))
        suites = (name for name in names if not name.startswith(_BUILTIN))
        files = (config, read.lint.baseline, read.run.script)
        return cls(
            tuple(posixpath.normpath(name) for name in files if name),
            tuple(posixpath.normpath(name) for name in (*read.lint.rule_files, *suites)),
        )


def _read_config(sides: _Sides, supply: Supply, name: str) -> Config:
    """Read what names the other judges; what is wrong with it is for the gate to say."""
    path = posixpath.normpath(name)
    for side in (sides.base, sides.head):
        _open_way(side, path)
        entry = side.files.get(path)
        if entry is None:
            continue
        if not entry.is_regular:
            return Config()
        supply.fetch({path: entry})
        try:
            found = parse(supply.objects.read(entry.blob).decode("utf-8-sig"), name)
        except (ConfigError, UnicodeDecodeError):
            return Config()
        if side is sides.head and path not in sides.base.files:
            found = msgspec.structs.replace(found, lint=LintConfig())  # a change must not choose its rules
        return found
    return Config()


def _judges(sides: _Sides, named: _Judges, keep: Callable[[str], bool]) -> tuple[set[str], set[str]]:
    """Return which files judge at the base, and which at the head because the base has none of that name."""
    base, head = set[str](), set[str]()
    wanted = [(name, False) for name in named.files] + [(name, True) for name in named.folders]
    for name, is_folder in wanted:
        if found := _found(sides.base, name, is_folder=is_folder):
            base |= found
        else:
            _found(sides.start, name, is_folder=is_folder)  # lists as much as in the head, to be compared
            brought = _found(sides.head, name, is_folder=is_folder)
            head |= {path for path in brought if sides.head.files[path].is_regular}
    sides.base.open(lambda path, sha: keep(path))
    return base | {path for path in sides.base.files if keep(path)}, head


def _found(side: Listing, name: str, *, is_folder: bool) -> set[str]:
    _open_way(side, name)
    if not is_folder:
        return {name} & side.files.keys()
    side.open(lambda path, sha: is_below(path, name) or path == name)
    return {path for path in side.files if is_below(path, name)}


def _open_way(side: Listing, name: str) -> None:
    side.open(lambda path, sha: is_below(name, path))


# --- what is written ----------------------------------------------------------------


def _with_owners(sides: _Sides, paths: Iterable[str]) -> set[str]:
    """Add the SKILL.md of the skills that the files belong to, or they would belong to another one."""
    paths, owners = set(paths), set[str]()
    for side in (sides.start, sides.head):
        folders = skill_folders(side.files).keys()
        owners |= {folder for path in paths if (folder := owner_of(path, folders)) is not None}
    return paths | {_skill_file(folder) for folder in owners}


def _skill_file(folder: str) -> str:
    return f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE


def _files(side: Listing, paths: Iterable[str]) -> dict[str, Entry]:
    return {path: side.files[path] for path in paths if path in side.files}


def _others(sides: _Sides, supply: Supply, paths: set[str]) -> tuple[set[str], list[str]]:
    """Fetch the SKILL.md of the skills that did not change, for the rules that compare skills."""
    names = (_skill_file(folder) for folder in skill_folders(sides.head.files))
    others = _files(sides.head, (name for name in names if name not in paths))
    plain = {path: entry for path, entry in others.items() if entry.is_regular and _is_decent(path)}
    there = supply.fetch_some(plain)
    notes = list[str]()
    if left_out := len(plain) - len(there):
        notes.append(f"{left_out} skills that did not change were not compared with: too many requests.")
    if sides.head.closed:
        notes.append("The tree is too large to list whole: not all skills were compared with each other.")
    return there, notes


def _is_decent(path: str) -> bool:
    try:
        check_path(path)
    except UsageError:
        return False
    return True


def _write(sides: _Sides, supply: Supply, judges: set[str], paths: set[str], notes: list[str]) -> Fetched:
    commit, (start_sha, base_sha, head_sha) = supply.objects.commit, sides.ids
    start = commit(_files(sides.start, paths), (), f"What skillgate reads of {start_sha}\n")
    base = commit(_files(sides.base, judges), (start,), f"What skillgate reads of {base_sha}\n")
    head = commit(_files(sides.head, paths), (start,), f"What skillgate reads of {head_sha}\n")
    return Fetched(base, head, start_sha, tuple(notes))
