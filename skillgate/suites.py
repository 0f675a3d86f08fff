"""What `suite list` and `suite show` tell: names of suites and tasks -> the views that report draws."""

from __future__ import annotations

from pathlib import Path

from skillgate.bench.suite import SUITE_FILE, Limits, Suite, Task
from skillgate.document import nearest
from skillgate.errors import SuiteError
from skillgate.gate.sources import BUILTIN, FolderSource, read_suites
from skillgate.report.suites import GraderView, SuiteView, TaskView
from skillgate.shipped import shipped

FOLDER = "fixtures"  # where suites of a repository lie unless somebody says where


def known_suites(here: Path, checkouts: Path | None = None) -> tuple[SuiteView, ...]:
    """Return the suites that come with the program, and those below fixtures/.

    Raises: SuiteError; PrerequisiteError when a repository that one pins cannot be fetched.
    """
    ours = shipped("fixtures")
    names = [f"{BUILTIN}{path.parent.name}" for path in sorted(ours.glob(f"*/{SUITE_FILE}"))]
    if not (here / FOLDER).exists() or not ours.samefile(here / FOLDER):
        names += [
            path.parent.relative_to(here).as_posix() for path in sorted(here.glob(f"{FOLDER}/*/{SUITE_FILE}"))
        ]
    return tuple(_view(suite) for suite in read_suites(FolderSource(here), names, checkouts))


def find_suite(name: str, here: Path, checkouts: Path | None = None) -> SuiteView | TaskView:
    """Return a suite, or a task when the name goes on with one: `SUITE/TASK` or its folder.

    Raises: SuiteError when there is none; PrerequisiteError as `known_suites`.
    """
    suite_name, task_name = _split(name.rstrip("/"), here)
    (suite,) = read_suites(FolderSource(here), [suite_name], checkouts)
    if not task_name:
        return _view(suite)
    tasks = {task.folder.name: task for task in suite.tasks}
    if task_name not in tasks:
        raise SuiteError(f"{suite_name}: no task `{task_name}`", nearest(task_name, tasks))
    return _task_view(tasks[task_name], suite)


def _split(name: str, here: Path) -> tuple[str, str]:
    parent, _, last = name.rpartition("/")
    choices = ((name, ""), (parent, last), (parent.removesuffix("/tasks"), last))
    return next((choice for choice in choices if _is_suite(choice[0], here)), (name, ""))


def _is_suite(name: str, here: Path) -> bool:
    ours = name.startswith(BUILTIN)
    folder = shipped("fixtures") / name.removeprefix(BUILTIN) if ours else here / name
    return bool(name) and (folder / SUITE_FILE).is_file()


def _view(suite: Suite) -> SuiteView:
    return SuiteView(
        name=suite.origin,
        title=suite.title,
        why=suite.why,
        environment=_environment(suite),
        tasks=tuple(_task_view(task, suite) for task in suite.tasks),
    )


def _environment(suite: Suite) -> dict[str, str]:
    source, image = suite.source, suite.image or "that of the configuration"
    if suite.dockerfile is not None:
        image = f"built from {suite.dockerfile}"
    elif suite.environment is not None:
        image = "built from the repository's manifests"
    facts = {
        "repository": f"{source.git} at {source.commit}" if source else suite.repo.name,
        "image": image,
    }
    if suite.chain:
        facts["chain"] = "the tasks share one workspace, in this order"
    if suite.attempts > 1:
        facts["attempts"] = str(suite.attempts)
    return facts


def _task_view(task: Task, suite: Suite) -> TaskView:
    return TaskView(
        name=f"{suite.origin}/{task.folder.name}",
        title=task.title,
        difficulty=task.difficulty,
        deliverables=task.deliverables,
        graders=tuple(
            GraderView(name=one.name, kind=one.kind, grades=one.grade_names) for one in task.graders
        ),
        wrong=tuple(path.stem for path in task.wrong),
        limits=_limits(task.limits),
        prompt=task.prompt,
    )


def _limits(limits: Limits) -> str:
    cpus = "1 CPU" if limits.cpus == 1 else f"{limits.cpus:g} CPUs"
    memory, disk = f"{limits.memory_mb} MB of memory", f"{limits.disk_mb} MB of disk"
    return f"{limits.timeout_s:g} s, {memory}, {disk}, {cpus}, {limits.pids} processes"
