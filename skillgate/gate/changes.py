"""A git range -> the skills it adds, changes, renames or deletes.

A skill is a folder with a SKILL.md; a file beside it (but not in a nested skill) belongs to
it, so a change to a bundled script is a change of the skill.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from skillgate.core import NONE_ARM, ChangeKind, SkillChange
from skillgate.errors import UsageError
from skillgate.gate.sources import relative
from skillgate.git import Entry, Repository
from skillgate.lint.check import Library, listed
from skillgate.skill import SKILL_FILE, Files, Skill, parse
from skillgate.skill.files import is_misspelt

_LINK = "120000"
Tree = Mapping[str, Entry]


class Subject(NamedTuple):
    """One changed skill: what happened to it, and its two versions."""

    change: SkillChange
    base: Skill | None
    head: Skill | None

    @property
    def paths(self) -> tuple[str, ...]:
        """Return where it lies, and where it lay before a rename: patterns of either one hold."""
        return tuple(path for path in (self.change.path, self.change.old_path) if path is not None)

    @property
    def is_same_content(self) -> bool:
        """Say whether both versions hold the same bytes."""
        return (
            self.base is not None
            and self.head is not None
            and self.base.files.digest() == self.head.files.digest()
        )


def changed_skills(repository: Repository, base: str, head: str) -> tuple[Subject, ...]:
    """Compare two commits; return the changed skills sorted by path."""
    trees = repository.tree(base), repository.tree(head)
    old, new = (skill_folders(tree) for tree in trees)
    moved = _moved(repository.renames(base, head), old, new)
    subjects = []
    for folder in sorted(old.keys() | new.keys()):
        if folder in moved.values() or old.get(folder) == new.get(folder):
            continue
        before = moved.get(folder, folder)
        change = _change(folder, old.get(before, {}), new.get(folder, {}), moved.get(folder))
        base_skill = _read(repository, before, old.get(before))
        subjects.append(Subject(change, base_skill, _read(repository, folder, new.get(folder))))
    return tuple(subjects)


def all_skills(repository: Repository, commit: str) -> tuple[Subject, ...]:
    """Return every skill of a commit as if it were new, sorted by path."""
    found = sorted(skill_folders(repository.tree(commit)).items())
    return tuple(
        Subject(_change(folder, {}, files, None), None, _read(repository, folder, files))
        for folder, files in found
    )


def misspelt_files(repository: Repository, base: str, head: str) -> tuple[str, ...]:
    """Return the files that a range brings and that are SKILL.md but for the case of their letters."""
    new = repository.tree(head).keys() - repository.tree(base).keys()
    return tuple(sorted(path for path in new if is_misspelt(PurePosixPath(path).name)))


def library_at(repository: Repository, commit: str, changed: Collection[str]) -> Library:
    """Return the skills of a commit as the others see them; those that changed come last."""
    tree = repository.tree(commit)
    folders = {folder: files[SKILL_FILE] for folder, files in skill_folders(tree).items()}
    texts = repository.blobs({folder: file for folder, file in folders.items() if file.is_regular})
    ordered = sorted(texts, key=lambda folder: (folder in changed, folder))
    return Library(
        tuple(listed(parse(Files.from_map({SKILL_FILE: texts[folder]}), folder)) for folder in ordered)
    )


def changed_on_disk(root: Path, since: str, folders: Iterable[str]) -> list[str]:
    """Return the skill folders on disk whose files differ from a revision, without those that git ignores.

    Contents are compared by us: git would run what the repository configures to filter them. Line ends
    make no difference, as a checkout may change them.
    """
    repository = Repository(root)
    tree = repository.tree(repository.merge_base(repository.commit(since), repository.commit("HEAD")))
    inside = PurePosixPath(repository.prefix())
    before, there = skill_folders(tree), repository.files()
    changed = []
    for folder in folders:
        path = posixpath.normpath(inside / folder)
        if _differs(root / folder, path, before.get(path, {}), there):
            changed.append(folder)
    return changed


def _differs(folder: Path, path: str, before: Tree, there: Collection[str]) -> bool:
    """Compare a skill on disk with its files in a tree; one that git knows nothing of differs."""
    files = Files.from_folder(folder)
    names = {name for name in (*files.names, *files.links) if posixpath.normpath(f"{path}/{name}") in there}
    if path == ".":
        names = {name for name in names if not name.startswith(".")}  # as in a tree
    old = {name: entry for name, entry in before.items() if not entry.is_submodule}
    if not names or names != set(Files.from_map(dict.fromkeys(old, b"")).names):
        return True
    try:
        if any((old[name].mode == _LINK) != (folder / name).is_symlink() for name in names):
            return True  # a link has the content of a text that names its target
        return any(old[name].blob not in _ids(files, folder / name, name, old[name]) for name in names)
    except OSError:
        return True


def _ids(files: Files, path: Path, name: str, entry: Entry) -> Iterator[str]:
    """Return the ids that git may give a file on disk: as it is, and with the line ends of a repository."""
    raw = os.fsencode(path.readlink()) if path.is_symlink() else files.read(name)
    for content in (raw, raw.replace(b"\r\n", b"\n")):
        blob = b"blob %d\0" % len(content) + content
        algorithm = "sha1" if len(entry.blob) == 40 else "sha256"
        yield hashlib.new(algorithm, blob, usedforsecurity=False).hexdigest()


def single_subject(folder: Path, against: str, root: Path) -> Subject:
    """Compare a skill on disk with nothing, with a git revision of itself, or with another folder.

    Raises: UsageError when a folder holds no skill or the revision is unknown.
    """
    head = _read_folder(folder, root)
    base = None
    if against != NONE_ARM:
        is_folder = (root / against).is_dir()
        base = _read_folder(Path(against), root) if is_folder else _read_at(against, root / folder)
    before, after = _contents(base), _contents(head)
    kind = ChangeKind.CHANGED if base is not None else ChangeKind.ADDED
    return Subject(SkillChange(path=head.path, kind=kind, files=_different(before, after)), base, head)


def _contents(skill: Skill | None) -> dict[str, bytes]:
    return {name: skill.files.read(name) for name in skill.files.names} if skill is not None else {}


def _read_folder(folder: Path, root: Path) -> Skill:
    folder = relative(folder, root)
    if not (root / folder / SKILL_FILE).is_file():
        raise UsageError(
            f"{folder}: no skill there (no {SKILL_FILE})", "Name the folder that holds its SKILL.md."
        )
    return parse(Files.from_folder(root / folder), folder.as_posix())


def _read_at(revision: str, folder: Path) -> Skill:
    repository = Repository(folder)
    inside = repository.prefix()
    files = skill_folders(repository.tree(repository.commit(revision))).get(inside)
    if files is None:
        raise UsageError(f"no skill at {inside} in `{revision}`", "Use --against none for a new skill.")
    skill = _read(repository, inside, files)
    assert skill is not None
    return skill


def skill_folders(tree: Tree) -> dict[str, dict[str, Entry]]:
    """Map each skill folder of a tree to its files, by path relative to the folder."""
    folders = {str(PurePosixPath(path).parent) for path in tree if PurePosixPath(path).name == SKILL_FILE}
    found: dict[str, dict[str, Entry]] = {folder: {} for folder in folders}
    for path, entry in tree.items():
        owner = _owner(path, folders)
        if owner is not None:
            found[owner][str(PurePosixPath(path).relative_to(owner))] = entry
    return found


def _owner(path: str, folders: set[str]) -> str | None:
    """Return the nearest skill folder above a path; a dot folder never belongs to a root skill."""
    for parent in PurePosixPath(path).parents:
        if str(parent) in folders:
            inside = PurePosixPath(path).relative_to(parent).parts
            return None if str(parent) == "." and inside[0].startswith(".") else str(parent)
    return None


def _moved(
    renames: Mapping[str, str], old: Mapping[str, object], new: Mapping[str, object]
) -> dict[str, str]:
    """Map new folder -> old folder where a SKILL.md was renamed and nothing took its old place."""
    moved = {}
    for after, before in renames.items():
        if PurePosixPath(after).name == PurePosixPath(before).name == SKILL_FILE:
            target, source = str(PurePosixPath(after).parent), str(PurePosixPath(before).parent)
            if target not in old and source not in new:
                moved[target] = source
    return moved


def _change(folder: str, before: Tree, after: Tree, old_path: str | None) -> SkillChange:
    if not after:
        kind = ChangeKind.DELETED
    elif old_path is not None:
        kind = ChangeKind.RENAMED
    else:
        kind = ChangeKind.CHANGED if before else ChangeKind.ADDED
    return SkillChange(path=folder, kind=kind, old_path=old_path, files=_different(before, after))


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n)))


def _read(repository: Repository, folder: str, files: Tree | None) -> Skill | None:
    """Read a skill's regular files; a symlink may lead anywhere and is left out."""
    if files is None:
        return None
    regular = {name: entry for name, entry in files.items() if entry.is_regular}
    programs = [name for name, entry in regular.items() if entry.mode == "100755"]
    return parse(Files.from_map(repository.blobs(regular), programs), folder)
