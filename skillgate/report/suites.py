"""Suites and tasks -> what `suite list` and `suite show` print: text, or JSON.

It draws its own small views, not the suites themselves: reports do not know the bench.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from skillgate.core import SCHEMA_VERSION, GradeKind
from skillgate.report.escape import clean
from skillgate.report.json import write
from skillgate.report.wording import count
from skillgate.values import Struct

_LEVELS = ("easy", "medium", "hard")
_WIDE = 2000


class GraderView(Struct, kw_only=True):
    """One grader and the names of its grades."""

    name: str
    kind: GradeKind
    grades: tuple[str, ...]


class TaskView(Struct, kw_only=True):
    """One task; `wrong` names its wrong solutions, `limits` says what a run may use."""

    name: str
    title: str
    difficulty: str
    deliverables: tuple[str, ...]
    graders: tuple[GraderView, ...]
    wrong: tuple[str, ...]
    limits: str
    prompt: str


class SuiteView(Struct, kw_only=True):
    """One suite, called as its user calls it; `environment` says what it runs in."""

    name: str
    title: str
    why: str
    environment: Mapping[str, str]
    tasks: tuple[TaskView, ...]

    @property
    def levels(self) -> dict[str, int]:
        """Return how many tasks there are of each difficulty."""
        found = Counter(task.difficulty for task in self.tasks)
        return {level: found[level] for level in _LEVELS}


def render_list(suites: Sequence[SuiteView]) -> str:
    """Write one line for each suite."""
    rows = [("suite", "tasks", *_LEVELS, "title"), *map(_row, suites)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(f"{_align(row, widths)}\n" for row in rows)


def render(view: SuiteView | TaskView) -> str:
    """Write a suite with its tasks, or a task with its prompt."""
    return "\n".join(_suite(view) if isinstance(view, SuiteView) else _task(view)) + "\n"


def render_json(value: SuiteView | TaskView | Sequence[SuiteView]) -> str:
    """Write the same as JSON; field names are those of the views."""
    if isinstance(value, SuiteView | TaskView):
        name = "suite" if isinstance(value, SuiteView) else "task"
        return write({"schema": SCHEMA_VERSION, name: value})
    return write({"schema": SCHEMA_VERSION, "suites": [_summary(suite) for suite in value]})


def _summary(suite: SuiteView) -> dict[str, Any]:
    fields = msgspec.structs.asdict(suite)
    return fields | {"tasks": [task.name for task in suite.tasks], "levels": suite.levels}


def _row(suite: SuiteView) -> tuple[str, ...]:
    numbers = (len(suite.tasks), *suite.levels.values())
    return (clean(suite.name), *(str(number or "") for number in numbers), clean(suite.title))


def _align(row: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers, title = row
    aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)]
    return "  ".join([name.ljust(widths[0]), *aligned, title])


def _suite(suite: SuiteView) -> list[str]:
    lines = [f"{clean(suite.name)}: {clean(suite.title)}", clean(suite.why, _WIDE), ""]
    lines += [f"{name}: {clean(value)}" for name, value in suite.environment.items()]
    for task in suite.tasks:
        lines += ["", _heading(task, task.name.rpartition("/")[2]), *(f"  {line}" for line in _facts(task))]
    return lines


def _task(task: TaskView) -> list[str]:
    graders = [f"  {clean(grader.name)}: {_grades([grader])}" for grader in task.graders]
    prompt = [_line(line) for line in task.prompt.rstrip().splitlines()]
    return [_heading(task, task.name), *_facts(task), *graders, f"limits: {task.limits}", "", *prompt]


def _heading(task: TaskView, name: str) -> str:
    return f"{clean(name)} ({task.difficulty}): {clean(task.title)}"


def _facts(task: TaskView) -> list[str]:
    wrong = f"; {count(len(task.wrong), 'wrong solution')}" if task.wrong else ""
    deliverables = clean(", ".join(task.deliverables), _WIDE)
    return [f"deliverables: {deliverables}", f"graders: {_grades(task.graders)}{wrong}"]


def _grades(graders: Sequence[GraderView]) -> str:
    found = Counter({grader.kind: 0 for grader in graders})
    for grader in graders:
        found[grader.kind] += len(grader.grades)
    return ", ".join(f"{number} {kind}" for kind, number in found.items())


def _line(line: str) -> str:
    """Clean a line of a prompt, its indentation kept."""
    return " " * (len(line) - len(line.lstrip(" "))) + clean(line, _WIDE)
