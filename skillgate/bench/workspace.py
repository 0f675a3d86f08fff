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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from skillgate.bench.sandbox import failure_of
from skillgate.bench.suite import Suite, Task, files_of, fingerprint
from skillgate.errors import PrerequisiteError, SuiteError

if TYPE_CHECKING:
    from skillgate.skill import Files

ORIGINAL = "original"  # the folder below the tests with the repository as the suite has it
SKILL_FOLDERS = (".claude/skills", ".agents/skills")


@contextmanager
def _host_files() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise failure_of(problem) from problem


class Workspace:
    """The folders of one run; a context manager that removes them.

    `workspace` is the agent's working folder, `stripped` the skill folders that its copy came
    with, `image` what the suite names. Methods raise SandboxFailure when the host's disk fails.
    """

    def __init__(self, root: Path, image: str | None = None) -> None:
        self.root = root
        self.image = image
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.temp = root / "tmp"
        self.tests = root / "tests"
        self.results = root / "results"
        self.stripped: tuple[str, ...] = ()
        self._installed: tuple[str, ...] = ()

    @classmethod
    @_host_files()
    def create(cls, suite: Suite, parent: Path | None = None) -> Workspace:
        """Copy the suite's repository into a new folder below `parent`, without its skills."""
        made = cls(Path(tempfile.mkdtemp(prefix="skillgate-", dir=parent)).resolve(), suite.image)
        try:
            for folder in (made.workspace, made.home, made.temp, made.tests, made.results):
                folder.mkdir()
            _copy_tree(suite.repo, made.workspace)
            made.stripped = _strip_skills(made.workspace)
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
            _remove(self.root)

    @_host_files()
    def install_skill(self, name: str, files: Files) -> None:
        """Put the skill where coding agents look for one."""
        for parent in SKILL_FOLDERS:
            _remove(_clear_way(self.workspace, f"{parent}/{name}"))
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
    def snapshot(self) -> dict[str, str]:
        """Return what every file of the working folder is now."""
        return {name: fingerprint(self.workspace / name) for name in files_of(self.workspace)}

    def changed_since(self, snapshot: dict[str, str]) -> tuple[str, ...]:
        """Return the files added, changed or deleted since, without the installed skill."""
        now = self.snapshot()
        names = {name for name in {*now, *snapshot} if now.get(name) != snapshot.get(name)}
        shown = (os.fsencode(name).decode("utf-8", "backslashreplace") for name in names)
        return tuple(sorted(name for name in shown if not name.startswith(self._installed)))

    @_host_files()
    def restore_protected(self, task: Task, suite: Suite) -> None:
        """Put the files that graders rely on back as the suite has them; remove added ones.

        Bytecode goes everywhere: a planted cache would run in place of a restored source.
        """
        if self.workspace.is_symlink() or not self.workspace.is_dir():
            _remove(self.workspace)
            self.workspace.mkdir()
        for folder in _open_up(self.workspace):
            _remove(folder / "__pycache__")
        for name in [name for name in files_of(self.workspace) if task.protects(name)]:
            _remove(self.workspace / name)
        for name in files_of(suite.repo):
            if task.protects(name):
                _copy(suite.repo / name, _clear_way(self.workspace, name))

    @_host_files()
    def add_tests(self, task: Task, suite: Suite) -> None:
        """Put the held-out tests in, the task's over the suite's; call it when the agent has ended.

        Beside them lies the repository as the suite has it.

        The home, the temporary files and the results start empty: nothing that the agent left
        outside of the repository reaches a grader.
        """
        for folder in (self.tests, self.home, self.temp, self.results):
            _empty(folder)
        (self.tests / ORIGINAL).mkdir()
        _copy_tree(suite.repo, self.tests / ORIGINAL)
        for source in (suite.folder / "tests", task.folder / "tests"):
            _copy_tree(source, self.tests)

    @_host_files()
    def clear_results(self) -> None:
        """Empty the results folder for the next grader."""
        _empty(self.results)


def _open_up(root: Path) -> list[Path]:
    """Give ourselves the right to read and change every folder below `root`; return them, the root first."""
    folders = [root]
    for folder in folders:  # grows while it is walked: no recursion, however deep an agent nested
        with suppress(OSError):  # a path may be too long for any call
            folder.chmod(folder.stat().st_mode | stat.S_IRWXU)
            folders += [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return folders


def _strip_skills(root: Path) -> tuple[str, ...]:
    """Remove the skills of every agent's folder (.claude/skills, .codex/skills, ...) at any depth."""
    stripped = []
    for folder, names, _ in os.walk(root):
        for agent, name in itertools.product(names, ("skill", "skills")):
            path = Path(folder, agent, name)
            if not agent.startswith(".") or not path.is_dir():
                continue
            found = sorted(path.rglob("SKILL.md")) or [path / "SKILL.md"]
            stripped += [skill.parent.relative_to(root).as_posix() for skill in found]
            inside = path.parent.resolve().is_relative_to(root)
            _remove(path if inside else path.parent)
    return tuple(sorted(stripped))


def _copy_tree(source: Path, target: Path) -> None:
    for name in files_of(source):
        _copy(source / name, _clear_way(target, name))


def _copy(source: Path, target: Path) -> None:
    """Copy content and exec bit; a link stays a link. Modes and owner are the run's own."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
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
            _remove(path)
            path.mkdir()
    _remove(path / parts[-1])
    return path / parts[-1]


def _empty(folder: Path) -> None:
    """Empty a folder and keep it: a container may have it mounted."""
    _open_up(folder)
    for item in folder.iterdir():
        _remove(item)


def _remove(path: Path) -> None:
    """Remove a file, a link or a tree, even one that was made read-only, too deep or too long for Python."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _open_up(path)
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        subprocess.run(["rm", "-rf", "--", str(path)], capture_output=True, check=False)
