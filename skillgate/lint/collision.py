"""Does a path that a skill fixes stand in the way of a file that a task wants elsewhere?

Same file name, or the same kind of file (a workflow, a test, ...), in another folder. That is how a published
skill lost 22.8 points of pass rate: the agent put the file where its template said (arXiv 2603.15401).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skillgate.core import TaskFacts

# Names that every folder may have: finding one elsewhere says nothing.
_COMMON = frozenset(
    (
        "__init__.py",
        "conftest.py",
        "index.html",
        "index.js",
        "index.ts",
        "index.tsx",
        "lib.rs",
        "main.go",
        "mod.rs",
    )
)
_YAML = frozenset({"yml", "yaml"})
_TEXT = frozenset({"md", "txt", "json", "html", "csv"})
_TEST = re.compile(r"(?:test_.*|.*_test|.*\.(?:test|spec)|.*Tests?)\.\w+")
_WORKFLOW_WORDS = frozenset({"workflow", "workflows", "ci", "pipeline", "pipelines"})
_REPORT_WORDS = frozenset({"report", "reports", "summary", "audit", "findings"})
_MANIFEST_WORDS = frozenset({"k8s", "kubernetes", "manifests", "manifest", "helm"})


class Collision(NamedTuple):
    """A task that wants a file in another folder; `kind` is empty when the file name is the same."""

    task: TaskFacts
    folder: str
    kind: str


def collide(path: str, tasks: Sequence[TaskFacts]) -> tuple[Collision, ...]:
    """Return the tasks that a fixed path collides with, those that want the same file name first."""
    if not posixpath.dirname(_plain(path)):
        return ()  # a bare file name claims no folder
    found = (next(_of_task(path, task), None) for task in tasks)
    return tuple(sorted((collision for collision in found if collision), key=lambda c: c.kind != ""))


def describe(collisions: Sequence[Collision]) -> dict[str, str]:
    """Return the values that the message of a collision names: the first task in full, how many more."""
    first = collisions[0]
    others = len(collisions) - 1
    more = f", {others} more {'tasks' if others > 1 else 'task'} likewise" if others else ""
    where = f"{first.task.where.path}:{first.task.where.line}"
    wanted = f"its {first.kind}" if first.kind else "it"
    return {
        "task": first.task.task,
        "folder": first.folder,
        "wanted": wanted,
        "task-line": where,
        "more": more,
    }


def _of_task(path: str, task: TaskFacts) -> Iterator[Collision]:
    wanted = [_plain(deliverable) for deliverable in task.deliverables]
    if path.startswith("/") and any("/" in other and path.endswith(f"/{other}") for other in wanted):
        return  # the part before may well be the folder of the repository
    path = _plain(path)
    if path in wanted:
        return
    elsewhere = [other for other in wanted if posixpath.dirname(other) != posixpath.dirname(path)]
    name = posixpath.basename(path)
    if name and name not in _COMMON:
        yield from (
            Collision(task, _folder(other), "") for other in elsewhere if posixpath.basename(other) == name
        )
    kind = _kind(path, "")
    if kind and len(elsewhere) == len(wanted):  # a task that wants such a file here too is served
        theme = task.task.rpartition("/")[2]
        yield from (
            Collision(task, _folder(other), kind) for other in elsewhere if _kind(other, theme) == kind
        )


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./").removeprefix("/")


def _folder(path: str) -> str:
    folder = posixpath.dirname(path)
    return f"`{folder}/`" if folder else "the root of the repository"


def _kind(path: str, theme: str) -> str:
    """Name what kind of file a path is by its suffix, its folder, its name and the name of the task."""
    folder, name = posixpath.split(path)
    suffix = name.rpartition(".")[2].lower()
    words = set(re.split(r"[\W_]+", f"{posixpath.basename(folder)} {name} {theme}".lower()))
    if suffix in _YAML and words & _WORKFLOW_WORDS:
        return "workflow"
    if suffix in _YAML and words & _MANIFEST_WORDS:
        return "manifest"
    if suffix in _TEXT and words & _REPORT_WORDS:
        return f".{suffix} report"
    return f".{suffix} test" if _TEST.fullmatch(name) else ""
