"""A suite folder -> Suite: the fixture repository, its tasks and the graders that decide them.

Everything a suite author can get wrong is a SuiteError with path:line and what to write
instead; what needs a run (does the oracle pass?) is `bench.check`. Reads files, runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeVar

import msgspec

from skillgate.bench.answers import Public, added, answers, file_answers
from skillgate.bench.images.recipe import Environment
from skillgate.bench.repos.checkout import GitSource, checkout
from skillgate.config import matches
from skillgate.core import Answer, GradeKind, TaskFacts
from skillgate.document import decode
from skillgate.errors import PrerequisiteError, SuiteError
from skillgate.values import Location, Positive, Struct

SUITE_FILE = "suite.yml"
TASK_FILE = "task.yml"
SOLUTION_FILE = "solution.patch"
WRONG_FOLDER = "wrong"
CHAIN = "chain"
IGNORED = frozenset({".git", "__pycache__", ".DS_Store"})
MAX_HASHED_BYTES = 64 * 1024 * 1024
MAX_TEXT_CHARS = 200_000

_KEBAB = r"^[a-z0-9]+(-[a-z0-9]+)*$"
Text = Annotated[str, msgspec.Meta(min_length=1)]
T = TypeVar("T")


class Difficulty(StrEnum):
    """What the author expects of an agent without a skill."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class Grader(Struct, kw_only=True, rename="kebab"):
    """One `sh -c` command, run in the workspace with $TESTS and an empty $RESULTS.

    With `junit` (a file it writes into $RESULTS) each of `cases` ("classname.name") is one
    grade; without, its exit code is the one grade.
    """

    name: Annotated[str, msgspec.Meta(pattern=_KEBAB)]
    run: Text
    kind: GradeKind
    junit: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+$")] | None = None
    cases: tuple[Text, ...] = ()
    timeout_s: Positive = 60.0

    @property
    def grade_names(self) -> tuple[str, ...]:
        """Return the names of its grades, the same in every run."""
        return tuple(f"{self.name}/{case}" for case in self.cases) or (self.name,)


class Limits(Struct, kw_only=True, rename="kebab"):
    """What one run may use; `timeout_s` is the agent's clock, `disk_mb` what its files take up."""

    timeout_s: Positive = 600.0
    memory_mb: Annotated[int, msgspec.Meta(ge=16)] = 2048
    disk_mb: Annotated[int, msgspec.Meta(ge=1)] = 2048
    cpus: Positive = 1.0
    pids: Annotated[int, msgspec.Meta(ge=16)] = 256


class TaskLimits(Struct, kw_only=True, rename="kebab"):
    """The limits of the suite that one task replaces."""

    timeout_s: Positive | None = None
    memory_mb: Annotated[int, msgspec.Meta(ge=16)] | None = None
    disk_mb: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cpus: Positive | None = None
    pids: Annotated[int, msgspec.Meta(ge=16)] | None = None

    def over(self, limits: Limits) -> Limits:
        """Return `limits` with what is set here in its place."""
        mine = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(limits, **mine)


class TaskFile(Struct, kw_only=True, rename="kebab"):
    """The keys of `task.yml`."""

    title: Text
    prompt: Text
    deliverables: tuple[Text, ...]
    graders: tuple[Grader, ...] = ()
    protected: tuple[Text, ...] = ()
    difficulty: Difficulty = Difficulty.MEDIUM
    limits: TaskLimits = TaskLimits()


class SuiteFile(Struct, kw_only=True, rename="kebab"):
    """The keys of `suite.yml`.

    In a `chain` the tasks share one workspace, in the order of their ids. With `attempts` an agent
    that failed a task is told what the graders said and tries again.
    """

    version: Literal[1]
    title: Text
    why: Text
    repo: Text | GitSource = "repo"
    image: Text | None = None
    dockerfile: Text | None = None
    environment: Environment | None = None
    chain: bool = False
    attempts: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    limits: Limits = Limits()


class Task(Struct, kw_only=True):
    """One thing to do in the fixture repository; `id` is "suite/task"."""

    id: str
    title: str
    prompt: str
    deliverables: tuple[str, ...]
    graders: tuple[Grader, ...]
    protected: tuple[str, ...] = ()
    difficulty: Difficulty = Difficulty.MEDIUM
    limits: Limits = Limits()
    folder: Path

    @property
    def short_id(self) -> str:
        """Return the id within the suite."""
        return self.folder.name

    @property
    def solution(self) -> Path:
        """Return the oracle, a patch for the fixture repository."""
        return self.folder / SOLUTION_FILE

    @property
    def tests(self) -> Path:
        """Return the folder of the held-out tests, which may be missing."""
        return self.folder / "tests"

    @property
    def wrong(self) -> tuple[Path, ...]:
        """Return the plausible wrong solutions, patches that a fail-to-pass grader has to reject."""
        folder = self.folder / WRONG_FOLDER
        return tuple(folder / name for name in files_of(folder))

    def protects(self, path: str) -> bool:
        """Say whether graders need this file as the suite has it; a folder protects what is in it."""
        return any(matches(path, glob) or path.startswith(glob.rstrip("/") + "/") for glob in self.protected)


class Suite(Struct, kw_only=True):
    """A pinned fixture repository and its tasks, in the order of their ids."""

    name: str
    origin: str
    title: str
    why: str
    folder: Path
    repo: Path
    source: GitSource | None = None
    image: str | None = None
    dockerfile: str | None = None
    environment: Environment | None = None
    chain: bool = False
    attempts: int = 1
    tasks: tuple[Task, ...]

    @property
    def units(self) -> dict[str, tuple[Task, ...]]:
        """Map what one cell executes to its tasks: each task by itself, or the whole chain."""
        if self.chain:
            return {f"{self.name}/{CHAIN}": self.tasks}
        return {task.id: (task,) for task in self.tasks}


def load_suite(folder: Path, origin: str = "", cache: Path | None = None) -> Suite:
    """Read a suite folder; `origin` is how its user named it, if not by this path.

    Args:
        cache: where pinned commits of other repositories are kept; a suite that names one needs it.

    Raises: SuiteError with path:line; PrerequisiteError when a pinned commit cannot be fetched.
    """
    path = folder / SUITE_FILE
    text, file = _read(path, SuiteFile, "A suite is a folder with suite.yml, repo/ and tasks/.")
    _refuse_links(folder, file.repo)
    repo = _repo(file.repo, folder, cache, f"{path.as_posix()}:{_line(text, r'^repo:')}")
    _check_image(file, text, path)
    folders = sorted(
        item for item in (folder / "tasks").glob("*") if item.is_dir() and item.name not in IGNORED
    )
    tasks = tuple(_load_task(item, folder.resolve().name, file.limits) for item in folders)
    if not tasks:
        raise _error(path, 1, "the suite has no task", "Add tasks/<id>/task.yml.")
    return Suite(
        name=folder.resolve().name,
        origin=origin or folder.as_posix(),
        title=file.title,
        why=file.why,
        folder=folder,
        repo=repo,
        source=file.repo if isinstance(file.repo, GitSource) else None,
        image=file.image,
        dockerfile=file.dockerfile,
        environment=file.environment,
        chain=file.chain,
        attempts=file.attempts,
        tasks=tasks,
    )


def _repo(repo: str | GitSource, folder: Path, cache: Path | None, where: str) -> Path:
    if isinstance(repo, GitSource):
        if cache is None:
            hint = "Set XDG_CACHE_HOME, or HOME, to a folder that you may write to."
            raise PrerequisiteError(f"{where}: there is no cache to keep the repository in", hint)
        return checkout(repo, cache, where)
    if _escapes(repo) or not (folder / repo).is_dir():
        hint = "`repo` names the folder with the fixture repository, beside suite.yml."
        raise SuiteError(f"{where}: no folder `{repo}` here", hint)
    return folder / repo


def suite_digest(suite: Suite) -> str:
    """Return the SHA-256 over every file's name, content and exec bit: same digest, same suite."""
    return _digest(suite, files_of(suite.folder))


def unit_digest(suite: Suite, tasks: Sequence[Task]) -> str:
    """Return the same without the folders of all other tasks: what decides a run of these."""
    others = tuple(f"tasks/{task.short_id}/" for task in suite.tasks if task not in tasks)
    names = (name for name in files_of(suite.folder) if not name.startswith(others))
    return _digest(suite, names)


def _digest(suite: Suite, names: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\0{fingerprint(suite.folder / name)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def task_facts(suite: Suite) -> tuple[TaskFacts, ...]:
    """Return what the linter may know: where the files belong, and texts that only this task's answer has."""
    found = {task.id: _answers(task) for task in suite.tasks}
    tasks_with = Counter(text for texts in found.values() for text in texts)
    public = Public([*_texts(suite.repo), *_texts(suite.folder / "tests")])
    own = {
        task: {text: source for text, source in texts.items() if tasks_with[text] == 1}
        for task, texts in found.items()
    }
    return tuple(_facts(task, suite, own[task.id], public) for task in suite.tasks)


def _facts(task: Task, suite: Suite, texts: Mapping[str, str], public: Public) -> TaskFacts:
    prompt = Public([task.prompt])
    return TaskFacts(
        task=task.id,
        where=_where(task, suite),
        deliverables=task.deliverables,
        answers=tuple(
            Answer(text=text, source=source)
            for text, source in sorted(texts.items())
            if not prompt.holds(text) and not public.holds(text)
        ),
    )


def files_of(root: Path) -> Iterator[str]:
    """Yield the paths below `root`, sorted per folder; a symlink is a file, never followed.

    What an agent made unreadable or too long for a path is left out.
    """
    waiting = [root]
    while waiting:  # no recursion: an agent may nest folders by the thousand
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name not in IGNORED and not entry.is_dir(follow_symlinks=False):
                yield Path(entry).relative_to(root).as_posix()
        inner = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [Path(entry) for entry in reversed(inner) if entry.name not in IGNORED]


def fingerprint(path: Path) -> str:
    """Identify a file's content and exec bit, a symlink's target; other kinds are only named."""
    try:
        if path.is_symlink():
            return f"link {path.readlink()}"
        if not path.is_file():
            return "special"
        facts = path.stat()
        if facts.st_size > MAX_HASHED_BYTES:  # a sparse file can claim any size
            return f"large {facts.st_size} {facts.st_mtime_ns}"
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{'exec' if os.access(path, os.X_OK) else 'file'} {content}"
    except OSError as problem:  # an agent may take away its own right to read
        return f"unreadable {problem.errno}"


def _load_task(folder: Path, suite: str, limits: Limits) -> Task:
    path = folder / TASK_FILE
    text, file = _read(path, TaskFile, "A task is a folder with task.yml, solution.patch and tests/.")
    if not re.match(_KEBAB, folder.name):
        hint = "Use lower-case letters, digits and single hyphens."
        raise _error(path, 1, f"`{folder.name}` is not a task id", hint)
    if not (folder / SOLUTION_FILE).is_file():
        hint = "Add the oracle, a patch for repo/ that `git apply` takes."
        raise _error(path, 1, f"no {SOLUTION_FILE} beside it", hint)
    _check_wrong(folder / WRONG_FOLDER)
    _check_paths(file, text, path)
    _check_graders(file, text, path)
    return Task(
        id=f"{suite}/{folder.name}",
        title=file.title,
        prompt=file.prompt,
        deliverables=file.deliverables,
        graders=file.graders,
        protected=file.protected,
        difficulty=file.difficulty,
        limits=file.limits.over(limits),
        folder=folder,
    )


def _check_image(file: SuiteFile, text: str, path: Path) -> None:
    named = [key for key in ("image", "dockerfile", "environment") if getattr(file, key) is not None]
    if len(named) > 1:
        line = _line(text, rf"^{named[1]}:")
        raise _error(path, line, f"both `{named[0]}` and `{named[1]}`", "Keep one of them.")


def _check_wrong(folder: Path) -> None:
    for name in files_of(folder):
        if not re.fullmatch(r"[a-z0-9-]+\.patch", name):
            hint = "Name it <name>.patch, in lower-case letters, digits and hyphens."
            raise _error(folder / name, 1, "not the patch of a wrong solution", hint)


def _check_paths(file: TaskFile, text: str, path: Path) -> None:
    for name in (*file.deliverables, *file.protected):
        if _escapes(name):
            hint = "Write a path relative to the root of the fixture repository."
            raise _error(path, _line(text, re.escape(name)), f"`{name}` leaves the repository", hint)


def _check_graders(file: TaskFile, text: str, path: Path) -> None:
    if not file.graders:
        hint = "Add `graders:`, commands that decide whether the task is done."
        raise _error(path, _line(text, r"^graders:"), "the task has no graders", hint)
    if twice := _first_twice(grader.name for grader in file.graders):
        line = _line(text, rf"\bname:\s*[\"']?{re.escape(twice)}[\"']?\s*(#|,|$|\}})", nth=1)
        raise _error(path, line, f"two graders are called `{twice}`", "Give each its own name.")
    for grader in file.graders:
        line = _line(text, rf"\bname:\s*[\"']?{re.escape(grader.name)}\b")
        if (grader.junit is None) != (not grader.cases):
            hint = "Name the JUnit file in `junit` and list every expected test case in `cases`, or neither."
            raise _error(path, line, f"`{grader.name}` has only one of `junit` and `cases`", hint)
        if again := _first_twice(grader.cases):
            raise _error(path, line, f"`{grader.name}` lists the case `{again}` twice", "Remove one.")


def _refuse_links(folder: Path, repo: str | GitSource) -> None:
    """A link may lead to any file of this machine; only the fixture repository may hold some."""
    inside = f"{repo.rstrip('/')}/" if isinstance(repo, str) else "\0"  # "\0": in no file name
    for name in files_of(folder):
        if (folder / name).is_symlink() and not name.startswith(inside):
            raise _error(folder / name, 1, "a link", "Put the file itself there.")


def _read(path: Path, kind: type[T], hint: str) -> tuple[str, T]:
    if path.is_symlink():
        raise _error(path, 1, "a link", "Put the file itself there.")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _error(path, 1, "no such file", hint) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise _error(path, 1, f"cannot be read: {problem}", "Save it as UTF-8 text.") from None
    return text, decode(text, kind, path.as_posix(), SuiteError)


def _error(path: Path, line: int, message: str, hint: str) -> SuiteError:
    return SuiteError(f"{path.as_posix()}:{line}: {message}", hint)


def _line(text: str, pattern: str, nth: int = 0) -> int:
    """Return the line of the nth match, 1 when there is none."""
    lines = [n for n, line in enumerate(text.splitlines(), 1) if re.search(pattern, line)]
    return lines[nth] if nth < len(lines) else 1


def _escapes(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts


def _first_twice(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _where(task: Task, suite: Suite) -> Location:
    path = task.folder / TASK_FILE
    shown = f"{suite.origin}/{path.relative_to(suite.folder).as_posix()}"
    return Location(path=shown, line=_line(_text(path), r"^deliverables:"))


def _text(path: Path) -> str:
    return "" if path.is_symlink() else path.read_text(encoding="utf-8", errors="replace")


def _answers(task: Task) -> dict[str, str]:
    """Return the texts that give a task away, each with where it stands; the oracle comes first."""
    tests = (*_texts(task.tests), *(grader.run for grader in task.graders))
    held_out = chain(file_answers(files_of(task.tests)), *map(answers, tests))
    oracle = answers(added(_text(task.solution)))
    return dict.fromkeys(held_out, "the held-out tests") | dict.fromkeys(oracle, "the oracle")


def _texts(folder: Path) -> Iterator[str]:
    for name in files_of(folder):
        yield _text(folder / name)[:MAX_TEXT_CHARS]
