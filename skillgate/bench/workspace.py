"""The host folders of one run: the repository's copy, a home, held-out tests, results.

Both arms get the same: the suite's repository without any skill it came with, plus the one
skill under test. What an agent did to its copy is never trusted: links are not followed, and
what graders rely on is put back before they run.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from skillgate.bench.host.owner import mark
from skillgate.bench.sandbox import failure_of
from skillgate.bench.suite import Suite, Task, files_of, fingerprint
from skillgate.errors import PrerequisiteError, SuiteError

if TYPE_CHECKING:
    from skillgate.skill import Files

ORIGINAL = "original"  # the folder below the tests with the repository as the suite has it
MAX_PATH_BYTES = 3000  # the kernel takes 4096, with the folder of the run
DECIDE_HOW_TESTS_RUN = (
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pyvenv.cfg",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    ".coveragerc",
    ".npmrc",
    ".mocharc*",
    "jest.config.*",
    "vitest.config.*",
)
"""Names of files that are graded only where a task asks for them: they speak for no solution."""
_LEADS_OUT = "is a link that leads out of the repository"


@contextmanager
def _host_files() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise failure_of(problem) from problem


class Workspace:
    """The folders of one run; a context manager that removes them.

    `workspace` is the agent's working folder, `given` what it may read beside it, `suite` what it was made
    for. Methods raise SandboxFailure when the host's disk fails.
    """

    def __init__(self, root: Path, suite: Suite) -> None:
        self.root = root
        self.suite = suite
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.temp = root / "tmp"
        self.given = root / "given"
        self.tests = root / "tests"
        self.results = root / "results"
        self._installed: tuple[str, ...] = ()
        self._fill: Callable[[], list[str]] | None = None  # puts an agent's changes in
        self._given: dict[str, tuple[int, int]] | None = None  # what the last grader got

    @classmethod
    @_host_files()
    def create(cls, suite: Suite, parent: Path | None = None) -> Workspace:
        """Copy the suite's repository into a new folder below `parent`, without its skills."""
        made = cls(Path(tempfile.mkdtemp(prefix="skillgate-", dir=parent)).resolve(), suite)
        try:
            mark(made.root)
            for folder in (made.workspace, made.home, made.temp, made.given, made.tests, made.results):
                folder.mkdir()
            _copy_tree(suite.repo, made.workspace)
            _strip_skills(made.workspace)
        except BaseException:
            made.close()
            raise
        return made

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove every folder of this run, whatever an agent made of them; never raises."""
        with suppress(OSError):
            remove(self.root)

    @_host_files()
    def install_skill(self, name: str, files: Files, folders: Sequence[str]) -> None:
        """Put the skill into the folders where an agent looks for one."""
        for parent in folders:
            remove(_clear_way(self.workspace, f"{parent}/{name}"))
            for file in files.names:
                content = files.read(file)
                path = _clear_way(self.workspace, f"{parent}/{name}/{file}")
                path.write_bytes(content)
                path.chmod(0o755 if content.startswith(b"#!") else 0o644)  # a skill's bytes carry no modes
            self._installed += (f"{parent}/{name}/",)

    @_host_files()
    def apply_patch(self, patch: Path) -> None:
        """Apply a patch as `git apply` does. Raises: SuiteError when it does not apply."""
        git = shutil.which("git")
        if git is None:
            raise PrerequisiteError("git is not installed", "Install git.")
        env = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(self.home),  # without the user's settings
            "GIT_CONFIG_NOSYSTEM": "1",
            # inside somebody's repository `git apply` would skip every file without a word
            "GIT_CEILING_DIRECTORIES": str(self.root),
        }
        command = [git, "apply", "--whitespace=nowarn", str(patch.resolve())]
        done = subprocess.run(command, cwd=self.workspace, env=env, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            hint = "Make it again with `git diff` from the root of the fixture repository."
            raise SuiteError(f"{patch.as_posix()}:1: does not apply: {said}", hint)

    @_host_files()
    def write(self, files: Mapping[str, str]) -> None:
        """Write text files, executable if they start with `#!`."""
        for name, text in files.items():
            path = _clear_way(self.workspace, name)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if text.startswith("#!") else 0o644)

    @_host_files()
    def snapshot(self) -> dict[str, str]:
        """Return what every file of the working folder is now."""
        return {name: fingerprint(self.workspace / name) for name in files_of(self.workspace)}

    def changed_since(self, snapshot: dict[str, str]) -> tuple[str, ...]:
        """Return the files added, changed or deleted since, without the installed skill."""
        now: dict[str, str] = {}
        if self.workspace.is_dir() and not self.workspace.is_symlink():  # an agent may have replaced it
            _open_up(self.workspace)
            now = self.snapshot()
        names = (name for name in {*now, *snapshot} if now.get(name) != snapshot.get(name))
        return tuple(sorted(name for name in names if not name.startswith(self._installed)))

    def without_skill(self, snapshot: dict[str, str]) -> dict[str, str]:
        """Return what in a snapshot is not the installed skill: the same in every arm."""
        return {name: is_now for name, is_now in snapshot.items() if not name.startswith(self._installed)}

    @contextmanager
    def graded(self, task: Task, changed: Sequence[str]) -> Iterator[tuple[Workspace, list[str]]]:
        """Give graders a new copy of the suite's repository with the changes that count, and the tests.

        Nothing else that the agent left reaches them: no home, no bytecode, no `.git`, no modes, no links
        that lead out. What is protected is as the suite has it.

        Returns: the copy, and a sentence for each change that was left out.
        """
        with Workspace.create(self.suite, self.root.parent) as clean:
            clean._fill = partial(clean._put_in, self, changed, task)
            left_out = clean._fill()
            clean._add_tests(task)
            yield clean, left_out

    def _put_in(self, other: Workspace, changed: Sequence[str], task: Task) -> list[str]:
        left_out = self._take(other, changed, task)
        self._protect(task)
        return left_out + self._cut_links(changed)

    @_host_files()
    def _take(self, other: Workspace, changed: Sequence[str], task: Task) -> list[str]:
        """Take changes over, deletions first, as a folder may have become a file and a file a folder."""
        room = task.limits.disk_mb * 1_000_000
        names = [name for name in changed if not task.protects(name) and not _is_long(name)]
        left_out = [f"`{shown(name)[:40]}...` has too long a path" for name in changed if _is_long(name)]
        there = {name: other.workspace / name for name in names if _is_there(other.workspace, name)}
        for name in sorted(names, key=there.__contains__):
            source = there.get(name)
            if why_not := _why_not(source, name, task, room):
                left_out.append(f"`{shown(name)}` {why_not}")
            elif source is None:
                remove(self.workspace / name)
            else:
                room -= source.lstat().st_size
                if not source.is_symlink():
                    _allow(source, stat.S_IRUSR)  # the agent may have taken it away
                _copy(source, _clear_way(self.workspace, name))
        return left_out

    @_host_files()
    def _cut_links(self, names: Sequence[str]) -> list[str]:
        """Remove the links that lead out by way of other links, which shows only when all are in place."""
        links = [name for name in names if not _is_long(name) and (self.workspace / name).is_symlink()]
        out = [name for name in links if not self._holds(self.workspace / name)]
        for name in out:
            remove(self.workspace / name)
        return [f"`{shown(name)}` {_LEADS_OUT}" for name in out]

    def _holds(self, link: Path) -> bool:
        return Path(os.path.realpath(link)).is_relative_to(self.workspace)

    @_host_files()
    def _protect(self, task: Task) -> None:
        """Put back what a link or a file in the place of a folder may have hidden."""
        for name in files_of(self.suite.repo):
            if task.protects(name):
                _copy(self.suite.repo / name, _clear_way(self.workspace, name))

    @_host_files()
    def _add_tests(self, task: Task) -> None:
        """Put the held-out tests in, the task's over the suite's, with the repository as it was."""
        (self.tests / ORIGINAL).mkdir()
        _copy_tree(self.suite.repo, self.tests / ORIGINAL)
        for source in (self.suite.folder / "tests", task.folder / "tests"):
            _copy_tree(source, self.tests)

    @_host_files()
    def start_over(self) -> None:
        """Give the next grader what the first one got, whatever code of the agent did in between."""
        _empty(self.results)
        if self._fill is None:
            return
        before, self._given = self._given, _changes_of(self.workspace)
        if before is None:
            return
        _empty(self.home)
        _empty(self.temp)
        if self._given != before:
            _empty(self.workspace)
            _copy_tree(self.suite.repo, self.workspace)
            _strip_skills(self.workspace)
            self._fill()
            _give(self.workspace)
            self._given = _changes_of(self.workspace)


def _why_not(source: Path | None, name: str, task: Task, room: int) -> str:
    """Say why a change is not graded, an empty string when it is."""
    if name not in task.deliverables and any(
        fnmatchcase(Path(name).name, one) for one in DECIDE_HOW_TESTS_RUN
    ):
        return "decides how tests run"
    if source is None:  # deleted
        return ""
    facts = source.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return "" if _stays_inside(name, source) else _LEADS_OUT
    if not stat.S_ISREG(facts.st_mode):
        return "is no plain file"
    return "" if facts.st_size <= room else "claims more bytes than the disk limit"


def _stays_inside(name: str, link: Path) -> bool:
    target = Path(os.path.normpath(Path(name).parent / link.readlink()))
    return not target.is_absolute() and target.parts[:1] != (os.pardir,)


def _is_long(name: str) -> bool:
    return len(os.fsencode(name)) > MAX_PATH_BYTES


def _is_there(root: Path, name: str) -> bool:
    """Say whether a file, or a link, has this name; what is seen through a link to a folder has another."""
    path = root / name
    if any((root / parent).is_symlink() for parent in PurePosixPath(name).parents):
        return False
    return path.is_symlink() or (path.exists() and not path.is_dir())


def shown(name: str) -> str:
    """Return a file name as text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _allow(path: Path, right: int) -> None:
    with suppress(OSError):  # a path may be too long for any call
        path.chmod(path.stat().st_mode | right)


def _open_up(root: Path) -> list[Path]:
    """Give ourselves the right to read and change every folder below `root`; return them, the root first."""
    folders = [root]
    for folder in folders:  # grows while it is walked: no recursion, however deep an agent nested
        _allow(folder, stat.S_IRWXU)
        with suppress(OSError):
            folders += [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return folders


def _changes_of(root: Path) -> dict[str, tuple[int, int]]:
    """Return when everything below `root` was last changed, by the clock that nobody can set back."""
    found: dict[str, tuple[int, int]] = {}
    folders = [os.fspath(root)]
    for folder in folders:  # grows while it is walked
        with suppress(OSError), os.scandir(folder) as entries:  # one that was closed has changed itself
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                found[entry.path] = facts.st_ino, facts.st_ctime_ns
                folders += [entry.path] if stat.S_ISDIR(facts.st_mode) else []
    return found


def _give(folder: Path) -> None:
    """Let everything below belong to whom the folder belongs: to the user of a sandbox, if we are root."""
    owner = folder.stat()
    for path in _changes_of(folder) if os.geteuid() == 0 else ():
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def skills_of(root: Path) -> tuple[str, ...]:
    """Return the folders of skills that a repository brings along, in any agent's folder at any depth."""
    found = (skill.parent for folder in _skill_folders(root) for skill in _skills_in(folder))
    return tuple(sorted(folder.relative_to(root).as_posix() for folder in found))


def _skills_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("SKILL.md")) or [folder / "SKILL.md"]


def _skill_folders(root: Path) -> Iterator[Path]:
    """Find .claude/skills, .codex/skills and the like."""
    for folder, names, _ in os.walk(root):
        for agent, name in itertools.product(names, ("skill", "skills")):
            path = Path(folder, agent, name)
            if agent.startswith(".") and path.is_dir():
                yield path


def _strip_skills(root: Path) -> None:
    for path in list(_skill_folders(root)):
        inside = path.parent.resolve().is_relative_to(root)
        remove(path if inside else path.parent)


def _copy_tree(source: Path, target: Path) -> None:
    for name in files_of(source):
        _copy(source / name, _clear_way(target, name))


def _copy(source: Path, target: Path) -> None:
    """Copy content and exec bit; a link stays a link. Modes and owner are the run's own."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if not source.is_file():  # a device or a pipe may have no end
        raise SuiteError(f"{source.as_posix()}: no plain file", "Remove it from the suite.")
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _clear_way(root: Path, name: str) -> Path:
    """Return `root/name`, free to write: real folders above it, nothing in its place."""
    parts = PurePosixPath(name).parts
    if ".." in parts or PurePosixPath(name).is_absolute():
        raise SuiteError(f"{name}: leaves the folder it belongs in", "Use relative paths.")
    path = root
    for part in parts[:-1]:
        path /= part
        if path.is_symlink() or not path.is_dir():
            remove(path)
            path.mkdir()
    remove(path / parts[-1])
    return path / parts[-1]


def _empty(folder: Path) -> None:
    """Empty a folder and keep it: a container may have it mounted."""
    _open_up(folder)
    for item in folder.iterdir():
        remove(item)


def remove(path: Path) -> None:
    """Remove a file, a link or a tree, even one that was made read-only, too deep or too long for Python."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _open_up(path)
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        subprocess.run(["rm", "-rf", "--", str(path)], capture_output=True, check=False)
