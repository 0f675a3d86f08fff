from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from skillgate.bench.failure import Failure
from skillgate.bench.grade import MAX_DETAIL, MAX_REPORT_BYTES, grade, read_junit
from skillgate.bench.sandbox import CommandResult, Limit, Phase, SandboxFailure, Session, local_sandbox
from skillgate.bench.suite import Grader, Limits, Task, load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Grade, GradeKind

F2P, P2P = GradeKind.FAIL_TO_PASS, GradeKind.PASS_TO_PASS
CASE = '<testcase classname="t.A" name="one"/>'


class Recorded:
    """A session that says what it is told to; a callable also writes the report."""

    def __init__(self, *results: CommandResult, write: Callable[[], object] = lambda: None) -> None:
        self._results = list(results)
        self._write = write
        self.commands: list[str] = []

    def run(self, command: str, timeout_s: float) -> CommandResult:
        self.commands.append(command)
        self._write()
        return self._results.pop(0)


def ended(exit_code: int = 0, output: str = "", limit: Limit | None = None) -> CommandResult:
    return CommandResult(exit_code=exit_code, output=output, wall_s=0.1, limit=limit)


@pytest.fixture
def place(tiny_suite: Path, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        yield workspace


@pytest.fixture
def local(place: Workspace) -> Iterator[Session]:
    with local_sandbox(Path(sys.executable).parent).session(place, Phase.GRADE, Limits()) as session:
        yield session


@pytest.fixture
def with_graders(tiny_suite: Path) -> Callable[..., Task]:
    task = load_suite(tiny_suite).tasks[0]
    return lambda *graders: msgspec.structs.replace(task, graders=graders)


Make = Callable[..., Task]


def plain(run: str = "check", **more: object) -> Grader:
    return Grader(name="g", run=run, kind=F2P, **more)  # type: ignore[arg-type]  # values of one field each


def junit(run: str = "check") -> Grader:
    return plain(run, junit="r.xml", cases=("t.A.one", "t.A.two"))


@pytest.mark.parametrize(
    ("result", "passed", "detail"),
    [
        (ended(), True, ""),
        (ended(0, "noise"), True, ""),
        (ended(1, "why\n"), False, "exit code 1\nwhy"),
        (ended(0, "so far", Limit.CLOCK), False, "ran out of its 60 s\nso far"),
        (ended(137, "", Limit.MEMORY), False, "ran out of memory"),
        (ended(137, "", Limit.DISK), False, "ran out of disk"),
        (ended(137, ""), False, "exit code 137"),
    ],
)
def test_the_exit_code_decides(
    with_graders: Make, place: Workspace, result: CommandResult, passed: bool, detail: str
) -> None:
    session = Recorded(result)
    expected = Grade(grader="g", kind=F2P, passed=passed, detail=detail)
    assert grade(with_graders(plain()), place, session) == (expected,)
    assert session.commands == ["check"]


def test_a_detail_is_the_last_whole_lines(with_graders: Make, place: Workspace) -> None:
    output = "".join(f"line {n}\n" for n in range(1000))
    (found,) = grade(with_graders(plain()), place, Recorded(ended(1, output)))
    assert len(found.detail) <= MAX_DETAIL
    assert re.fullmatch(r"exit code 1\n(line \d+\n)+line 999", found.detail)
    (found,) = grade(with_graders(plain()), place, Recorded(ended(1, "x" * 9999)))
    assert len(found.detail) == MAX_DETAIL


def grades(details: dict[str, str]) -> tuple[Grade, ...]:
    return tuple(Grade(grader=f"g/{case}", kind=F2P, passed=not d, detail=d) for case, d in details.items())


def report_of(two: str) -> str:
    return f"<testsuites><testsuite>{CASE}{two}</testsuite></testsuites>"


def case_two(inside: str) -> str:
    return report_of(f'<testcase classname="t.A" name="two">{inside}</testcase>')


AGAIN = '<testcase classname="t.A" name="one"><failure message="b"/></testcase>'
LATE = "ran out of its 60 s\nw"


@pytest.mark.parametrize(
    ("report", "result", "one", "two"),
    [
        (case_two(""), ended(), "", ""),
        (report_of(""), ended(), "", "the report does not list this test case"),
        (case_two('<failure message="no"/>'), ended(1), "", "failure: no"),
        (case_two("<error>trace</error>"), ended(1), "", "error: trace"),
        (case_two("<skipped/>"), ended(), "", "skipped:"),
        (case_two("").replace(CASE, CASE + AGAIN), ended(), "failure: b", ""),
        (case_two("").replace(CASE, AGAIN + CASE), ended(), "failure: b", ""),
        (report_of('<testcase name="t.A.two"/><testcase classname="x" name="y"/>'), ended(), "", ""),
        (case_two(""), ended(9, "w", Limit.CLOCK), LATE, LATE),
    ],
)
def test_every_listed_case_is_a_grade(
    with_graders: Make, place: Workspace, report: str, result: CommandResult, one: str, two: str
) -> None:
    session = Recorded(result, write=lambda: (place.results / "r.xml").write_text(report))
    assert grade(with_graders(junit()), place, session) == grades({"t.A.one": one, "t.A.two": two})


def test_no_report_fails_every_case(with_graders: Make, place: Workspace) -> None:
    found = grade(with_graders(junit()), place, Recorded(ended(1, "boom")))
    assert [(g.grader, g.passed) for g in found] == [("g/t.A.one", False), ("g/t.A.two", False)]
    assert re.fullmatch(r"no usable report r\.xml: .*No such file.*\nexit code 1\nboom", found[0].detail)


def test_a_report_of_an_earlier_grader_does_not_count(
    with_graders: Make, place: Workspace, local: Session
) -> None:
    write = f"""echo '<s>{CASE}<testcase classname="t.A" name="two"/></s>' > "$RESULTS/r.xml" """
    task = with_graders(junit(write), junit("true"))
    assert [g.passed for g in grade(task, place, local)] == [True, True, False, False]


def test_the_real_graders(tiny_suite: Path, place: Workspace, local: Session) -> None:
    suite = load_suite(tiny_suite)
    for tests in (suite.folder / "tests", suite.tasks[0].tests):
        shutil.copytree(tests, place.tests, dirs_exist_ok=True)
    before = grade(suite.tasks[0], place, local)
    assert [(g.grader, g.kind, g.passed) for g in before] == [
        ("doubles/doubles.zero", F2P, False),
        ("doubles/doubles.two", F2P, False),
        ("exists", F2P, False),
        ("old-suite", P2P, True),
    ]
    (place.workspace / "calc/double.py").write_text("def double(n):\n    return n\n")
    after = grade(suite.tasks[0], place, local)
    assert [(g.grader, g.detail) for g in after] == [
        ("doubles/doubles.zero", ""),
        ("doubles/doubles.two", "failure: wrong"),
        ("exists", ""),
        ("old-suite", ""),
    ]


def test_a_timeout_fails_one_grader_and_the_next_still_runs(
    with_graders: Make, place: Workspace, local: Session
) -> None:
    task = with_graders(plain("echo on it; sleep 60", timeout_s=0.2), plain("true"))
    assert [(g.passed, g.detail) for g in grade(task, place, local)] == [
        (False, "ran out of its 0.2 s\non it"),
        (True, ""),
    ]


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("no-such-program x", "no-such-program"),
        ("cd calc && A=1 no-such-program", "no-such-program"),
        ("true; no-such-one | no-such-two", "no-such-one, no-such-two"),
        ("(no-such-program)", "no-such-program"),
        ("no-such-program > out 2>&1", "no-such-program"),
        ("true\nno-such-program", "no-such-program"),
    ],
)
def test_a_missing_program_is_our_fault(
    with_graders: Make, place: Workspace, local: Session, run: str, missing: str
) -> None:
    with pytest.raises(SandboxFailure) as caught:
        grade(with_graders(plain(run)), place, local)
    assert caught.value.kind is Failure.GRADER_BROKEN
    assert caught.value.detail == f"grader `g`: not in the sandbox: {missing}"


@pytest.mark.parametrize(
    "run",
    [
        "./build.sh",
        "sh calc/missing.sh",
        "./run.sh",
        '"$TESTS/missing.sh"',
        "exit 127",
        "sh -c 'no-such-program; exit 127'",
        "python3 -c 'import sys; sys.exit(126)'",
        "echo 'unclosed",
    ],
)
def test_what_is_missing_in_the_workspace_is_a_failed_grade(
    with_graders: Make, place: Workspace, local: Session, run: str
) -> None:
    (place.workspace / "run.sh").chmod(0o644)
    (found,) = grade(with_graders(plain(run)), place, local)
    assert (found.passed, found.detail.split("\n")[0]) in [
        (False, "exit code 127"),
        (False, "exit code 126"),
        (False, "exit code 2"),
    ]


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not XML"),
        (b"<s>", "not XML"),
        (b"\x00\xff", "not XML"),
        (b'<?xml version="1.0" encoding="no-such"?><s/>', "not XML"),
        (f'<!DOCTYPE s [<!ENTITY a0 "x">{BOMB}]><s>&a8;</s>'.encode(), "document type declaration"),
        (b'<!DOCTYPE s SYSTEM "file:///etc/passwd"><s/>', "document type declaration"),
        ('<!DOCTYPE s [<!ENTITY a "x">]><s>&a;</s>'.encode("utf-16"), "document type declaration"),
        (b"<s>" + b" " * MAX_REPORT_BYTES + b"</s>", "larger than"),
    ],
)
def test_a_report_that_is_not_one(tmp_path: Path, content: bytes, problem: str) -> None:
    report = tmp_path / "r.xml"
    report.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        read_junit(report)


def test_a_deep_report_does_not_end_the_program(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_bytes(b"<a>" * 500_000 + CASE.encode() + b"</a>" * 500_000)
    assert read_junit(report) == {"t.A.one": ""}


def test_a_report_is_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "real.xml").write_text(f"<s>{CASE}</s>")
    (tmp_path / "link.xml").symlink_to("real.xml")
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "folder.xml").mkdir()
    assert read_junit(tmp_path / "real.xml") == {"t.A.one": ""}
    with pytest.raises(OSError, match="symbolic links"):
        read_junit(tmp_path / "link.xml")
    with pytest.raises(ValueError, match="not a plain file"):
        read_junit(tmp_path / "pipe.xml")
    with pytest.raises((OSError, ValueError), match=r"directory|plain"):
        read_junit(tmp_path / "folder.xml")
