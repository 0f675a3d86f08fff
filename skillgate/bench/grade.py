"""A workspace as the agent left it -> grades: every grader of the task, in its order.

The number of grades of a task never varies: a missing report, a missing test case, a skip, a
timeout are failed grades. Only a grader whose own program is missing is our fault.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path
from xml.etree import ElementTree

from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import CommandResult, Limit, SandboxFailure, Session
from skillgate.bench.suite import Grader, Task
from skillgate.bench.workspace import Workspace
from skillgate.core import Grade

MAX_DETAIL = 500
MAX_REPORT_BYTES = 4 * 1024 * 1024
_PROBE_TIMEOUT_S = 30.0
NOT_REACHED = "not reached: a task before it did not pass"
_NOT_RUN = "the report does not list this test case"


def grade(task: Task, workspace: Workspace, session: Session) -> tuple[Grade, ...]:
    """Run the graders one by one, each with the same files and empty results.

    Raises: SandboxFailure(GRADER_BROKEN) when a grader's program is not in the sandbox.
    """
    return tuple(found for grader in task.graders for found in _grade(grader, workspace, session))


def unreached(task: Task) -> tuple[Grade, ...]:
    """Return the grades of a task of a chain that an earlier one kept from being tried: all failed."""
    return tuple(
        Grade(grader=name, kind=grader.kind, passed=False, detail=NOT_REACHED)
        for grader in task.graders
        for name in grader.grade_names
    )


def _grade(grader: Grader, workspace: Workspace, session: Session) -> tuple[Grade, ...]:
    workspace.start_over()
    result = session.run(grader.run, grader.timeout_s)
    if result.exit_code in (126, 127) and (missing := _missing_programs(grader, session)):
        detail = f"grader `{grader.name}`: not in the sandbox: {', '.join(missing)}"
        raise SandboxFailure(Failure.GRADER_BROKEN, detail)
    if grader.junit is None:
        grades: tuple[Grade, ...] = (_of_exit_code(grader, result),)
    else:
        grades = _of_report(grader, result, workspace.results / grader.junit)
    if result.unreachable and not all(grade.passed for grade in grades):
        raise SandboxFailure(Failure.NETWORK_LOST, f"grader `{grader.name}`: {', '.join(result.unreachable)}")
    return grades


def _of_exit_code(grader: Grader, result: CommandResult) -> Grade:
    passed = result.exit_code == 0 and result.limit is None
    detail = "" if passed else _said(grader, result)
    return Grade(grader=grader.name, kind=grader.kind, passed=passed, detail=detail)


def _of_report(grader: Grader, result: CommandResult, report: Path) -> tuple[Grade, ...]:
    problems: dict[str, str] = {}
    trouble = ""
    if result.limit is not None:
        trouble = _said(grader, result)
    else:
        try:
            problems = read_junit(report)
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem  # no path of this machine
            trouble = f"no usable report {report.name}: {why}\n{_said(grader, result)}"
    details = {case: trouble or problems.get(case, _NOT_RUN) for case in grader.cases}
    return tuple(
        Grade(grader=f"{grader.name}/{case}", kind=grader.kind, passed=not detail, detail=_short(detail))
        for case, detail in details.items()
    )


def read_junit(report: Path) -> dict[str, str]:
    """Return per test case ("classname.name") why it did not pass, an empty string when it did.

    Raises: ValueError when it is not a JUnit report of a sane size, OSError when unreadable.
    """
    problems: dict[str, str] = {}
    for case in _parse(_read(report)).iter("testcase"):
        key = f"{case.get('classname', '')}.{case.get('name', '')}".removeprefix(".")
        bad = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if bad is not None:
            problems[key] = f"{bad.tag}: {bad.get('message') or (bad.text or '').strip()}".strip()
        else:
            problems.setdefault(key, "")  # of two with one name, both must pass
    return problems


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses the only way to declare entities."""

    def doctype(self, name: str, pubid: str, system: str) -> None:
        raise ValueError("it has a document type declaration")


def _parse(content: bytes) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314 - no entities: see _NoDoctype
    try:
        parser.feed(content)
        root = parser.close()
    except (ElementTree.ParseError, LookupError) as problem:
        raise ValueError(f"not XML: {problem}") from None
    if not isinstance(root, ElementTree.Element):
        raise ValueError("not XML: empty")
    return root


def _read(report: Path) -> bytes:
    """Read a file that a grader, maybe run over an agent's code, wrote: no link, pipe or flood."""
    with os.fdopen(os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a plain file")
        content = file.read(MAX_REPORT_BYTES + 1)
    if len(content) > MAX_REPORT_BYTES:
        raise ValueError(f"larger than {MAX_REPORT_BYTES:,} bytes")
    return content


def _missing_programs(grader: Grader, session: Session) -> list[str]:
    """Return the programs the grader names that the sandbox lacks; a path is the agent's affair."""
    words = [shlex.quote(word) for word in _programs(grader.run)]
    if not words:
        return []
    probe = f'for p in {" ".join(words)}; do command -v "$p" >/dev/null || echo "missing:$p"; done'
    output = session.run(probe, _PROBE_TIMEOUT_S).output
    return [line.removeprefix("missing:") for line in output.splitlines() if line.startswith("missing:")]


def _programs(command: str) -> list[str]:
    """Return the bare words in command position: no paths, variables or assignments."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found, first = [], True
    try:
        for token in lexer:
            if set(token) <= set("();<>|&"):
                first = not set(token) & set("<>")
            elif first and not re.match(r"\w+=", token):
                found.append(token)
                first = False
    except ValueError:  # quotes that a shell may understand and we do not
        return []
    return [word for word in dict.fromkeys(found) if re.fullmatch(r"[\w.+-]+", word)]


def _said(grader: Grader, result: CommandResult) -> str:
    match result.limit:
        case None:
            reason = f"exit code {result.exit_code}"
        case Limit.CLOCK:
            reason = f"ran out of its {grader.timeout_s:g} s"
        case Limit.MEMORY | Limit.DISK:
            reason = f"ran out of {result.limit}"
    return f"{reason}\n{_last(result.output, MAX_DETAIL - len(reason) - 1)}".strip()


def _last(output: str, room: int) -> str:
    """Return the last whole lines that fit; the end of the last line when not even that fits."""
    text = output.strip()
    if len(text) <= room:
        return text
    tail = text[-room:]
    return tail.partition("\n")[2] or tail


def _short(detail: str) -> str:
    return detail if len(detail) <= MAX_DETAIL else detail[: MAX_DETAIL - 1] + "…"
