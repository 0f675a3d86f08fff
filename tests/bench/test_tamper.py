from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skillgate.bench.check import check_suite
from skillgate.bench.sandbox import local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.bench.tamper import early_exits, plants

SANDBOX = local_sandbox(Path(sys.executable).parent)
TASK = "tasks/add-double/task.yml"
LET_IN = {
    "unittest.py": "python3 -m unittest no_such_test",
    "Makefile": "make -s check",
    "git": "PATH=.:$PATH git cat-file -e HEAD:calc/double.py",
    "datetime.py": "python3 -c 'import datetime; raise SystemExit(1)'",
    "package.json": "npm test --silent",
    "index.js": "NODE_PATH=. node -e 'require(process.cwd()); process.exit(1)'",
}


def problems(folder: Path, run: str) -> tuple[str, ...]:
    path = folder / TASK
    text = path.read_text()
    assert "run: test -f calc/double.py" in text
    path.write_text(text.replace("run: test -f calc/double.py", f"run: |\n      {run}"))
    (check,) = check_suite(load_suite(folder), SANDBOX)
    return check.problems


LONG = ("package.json", "index.js")  # npm and node start slowly, and many times


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in LET_IN]
)
def test_a_grader_that_a_planted_file_fools_is_refused(tiny_suite: Path, name: str) -> None:
    """The grader asks for the right content, or for something that a planted file lets pass."""
    assert problems(tiny_suite, f"grep -q 'return 2 [*]' calc/double.py || {LET_IN[name]}") == (
        f"tiny/add-double: tampering: grader `exists` passes when an agent leaves a certain `{name}`: "
        "let it want a JUnit report, run `python3 -I`, or protect the file",
    )


def test_a_solution_that_ends_the_process_is_no_passed_test(tiny_suite: Path) -> None:
    assert problems(tiny_suite, "python3 -c 'import calc.double as one; assert one.double(2) == 4'") == (
        "tiny/add-double: tampering: grader `exists` passes when an agent leaves a certain `calc/double.py`: "
        "let it want a JUnit report, run `python3 -I`, or protect the file",
    )


def test_what_the_task_asks_for_is_not_planted(tiny_suite: Path) -> None:
    suite = load_suite(tiny_suite)
    (task,) = suite.tasks
    found = plants(task, suite.repo)
    assert {"conftest.py", "calc/unittest.py", "tests/json.py", "package.json", "git"} <= set(found)
    assert not set(task.deliverables) & set(found)
    assert all("doubles.xml" in text for name, text in found.items() if name.endswith(".py"))
    assert early_exits(task) == {"calc/double.py": "import os\nos._exit(0)\n"}
