"""Code of the agent that runs inside the graders, hostile suites and skills: no grade, no host file changes hands.

What holds without a container is tried in the local sandbox too. A module that the tests import can do to its own
process what it likes: graders guard against that themselves, and `suite check` looks. Here is what it must not
reach: the next grader, the held-out tests, the reports as they are read, and this machine.
"""

# ruff: noqa: E501 - a command is easier to read in one piece
from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillgate.bench.check import check_suite
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import Limit, Phase, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Outcome
from tests.fakes.attacker import Arena, Attacker, arena

NAMES = ("doubles/doubles.zero", "doubles/doubles.two", "exists", "old-suite")
NOTHING = (False, False, False, True)
EXISTS = (False, False, True, True)
BROKEN = (False, False, True, False)
LIMITS = "limits: {timeout-s: 20, memory-mb: 48, pids: 40, disk-mb: 64}"
BOTH = pytest.mark.parametrize("kind", ["local", pytest.param("docker", marks=pytest.mark.docker)])
Enter = Callable[[str], Arena]


@pytest.fixture
def enter(
    tiny_suite: Path, docker_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Enter]:
    path = tiny_suite / "suite.yml"
    path.write_text(re.sub("limits: .*", LIMITS, path.read_text()))
    task = tiny_suite / "tasks/add-double/task.yml"
    task.write_text(
        task.read_text().replace("cases: [doubles.zero", "timeout-s: 3\n    cases: [doubles.zero")
    )
    opened = []

    def enter(kind: str) -> Arena:
        sandbox = (
            local_sandbox(Path(sys.executable).parent) if kind == "local" else docker_sandbox(docker_image)
        )
        opened.append(arena(tiny_suite, sandbox, tmp_path, monkeypatch))
        return opened[-1].__enter__()

    yield enter
    for one in opened:
        one.__exit__(None, None, None)


def leave(code: str, *more: str) -> str:
    """Return commands that leave a solution which runs code when a test imports it, and no other time."""
    end = "END"
    body = (
        "import os, sys\nif 'RESULTS' in os.environ:\n    R, T = os.environ['RESULTS'], os.environ['TESTS']\n"
    )
    body += "".join(f"    {line}\n" for line in code.splitlines()) + "double = None\n"
    return "\n".join([f"cat > calc/double.py <<'{end}'\n{body}{end}", *more])


def verdict(place: Arena, *commands: str) -> tuple[tuple[bool, ...], str, list[str]]:
    """Return the grades, the reason, and what each grader said."""
    (run, failure, _), _ = place.attack(*commands)
    assert failure is None, run.reason
    assert tuple(one.grader for one in run.grades) == NAMES
    return (
        tuple(one.passed for one in run.grades),
        run.reason,
        [one.detail for one in run.grades],
    )


BREAK = "echo 'def add(a, b): return 0' > calc/__init__.py"
PASS = "def load_tests(*_): raise SystemExit(0)"
NEXT_GRADER = {
    "the tests": f"open('tests/test_add.py', 'w').write('{PASS}')",
    "the code": "os.rename('calc/__init__.py', 'x'); open('calc/__init__.py', 'w').write('def add(a, b): return a + b')",
    "what runs the tests": "open('unittest.py', 'w').write('raise SystemExit(0)')",
    "bytecode": (
        f"open('ok.py', 'w').write('{PASS}')\nimport py_compile as p; os.mkdir('tests/__pycache__')\n"
        "n = f'tests/__pycache__/test_add.cpython-{sys.version_info[0]}{sys.version_info[1]}.pyc'\n"
        "p.compile('ok.py', n, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH); os.remove('ok.py')"
    ),
    "the home": (
        "import site; d = site.getusersitepackages(); os.makedirs(d)\n"
        "open(d + '/usercustomize.py', 'w').write('import os; os._exit(0)')"
    ),
    "a link for a folder": (
        "os.rename('tests', 'old'); os.mkdir('n'); os.symlink('n', 'tests')\n"
        f"open('n/test_add.py', 'w').write('{PASS}'); os.chmod('.', 0o500)"
    ),
}


@BOTH
@pytest.mark.parametrize("name", NEXT_GRADER)
def test_code_in_a_grader_does_not_decide_what_the_next_one_sees(enter: Enter, kind: str, name: str) -> None:
    grades, reason, _ = verdict(enter(kind), leave(NEXT_GRADER[name], BREAK))
    assert (grades, reason) == (BROKEN, "")


REPORT = "<s>" + "".join(f'<testcase classname="doubles" name="{n}"/>' for n in ("zero", "two")) + "</s>"
REPORTS = {
    "a link": ("open('r', 'w').write(X); os.symlink(os.path.abspath('r'), F)", "no usable report"),
    "a pipe": ("os.mkfifo(F)", "no usable report doubles.xml: not a plain file"),
    "a folder": ("os.mkdir(F)", "no usable report"),
    "too large": (
        "open(F, 'w').write(X + ' ' * 2**23)",
        "no usable report doubles.xml: larger than 4,194,304 bytes",
    ),
    "sparse": ("open(F, 'w').truncate(2**25)", "no usable report doubles.xml: larger than 4,194,304 bytes"),
    "entities": (
        "open(F, 'w').write('<!DOCTYPE s [<!ENTITY a \"b\">]>' + X)",
        "no usable report doubles.xml: it has a document type declaration",
    ),
    "closed": ("open(F, 'w').write('<s/>'); os.chmod(F, 0); os.chmod(R, 0)", ""),
}


@pytest.mark.docker
@pytest.mark.parametrize("name", REPORTS)
def test_a_hostile_report_is_none(enter: Enter, name: str) -> None:
    code, said = REPORTS[name]
    grades, reason, details = verdict(
        enter("docker"), leave(f"F, X = R + '/doubles.xml', '{REPORT}'\n{code}\nos._exit(0)")
    )
    assert (grades, reason) == (EXISTS, "")
    assert details[0].startswith(said)


STOPPERS = {
    "kills its parent": ("os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)", EXISTS, "exit code 137"),
    "kills everybody": ("os.kill(-1, 9)", EXISTS, "exit code 137"),
    "stops its parent": ("os.kill(os.getppid(), 19)", EXISTS, "ran out of its 3 s"),
    "burns": ("while True: pass", EXISTS, "ran out of its 3 s"),
    "takes the memory": ("x = b'x' * 10**9", EXISTS, "ran out of memory"),
    "forks": ("while True:\n    try: os.fork()\n    except OSError: pass", EXISTS, "ran out of its 3 s"),
    "talks": ("while True: print('::error::owned', flush=True)", EXISTS, "ran out of its 3 s"),
    "fills the disk": ("open('big', 'wb').write(b'x' * 10**6)\nwhile True: os.system('cat big >> ~/b')", None, ""),
    "writes where it may not": (
        "for f in (T + '/junit.py', T + '/original/calc/__init__.py', '/usr/bin/python3', '/skillgate/MARK'):\n"
        "    try: open(f, 'a').write('x'); print('wrote', f)\n    except OSError: pass\n"
        "    try: os.chmod(f, 0o777); os.remove(f); print('removed', f)\n    except OSError: pass\n"
        "raise SystemExit(3)",
        EXISTS,
        "no usable report",
    ),
}  # fmt: skip


@pytest.mark.docker
@pytest.mark.parametrize("name", STOPPERS)
def test_code_in_a_grader_that_does_not_end_well_fails_only_that_grader(enter: Enter, name: str) -> None:
    code, expected, said = STOPPERS[name]
    grades, reason, details = verdict(enter("docker"), leave(code))
    assert reason == ""
    if expected is None:  # one limit for all of its graders
        assert grades == (False,) * 4
        assert {one.split("\n")[0] for one in details} == {"ran out of disk"}
    else:
        assert grades == expected
        assert said in details[0]
        assert "wrote" not in details[0]


@BOTH
def test_a_link_in_the_place_of_a_folder_shows_no_file_of_the_host(
    enter: Enter, kind: str, tmp_path: Path
) -> None:
    """The repository has `calc/__init__.py`, so nobody may take the host's for it; nor change its rights."""
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "__init__.py"
    secret.write_text("def add(a, b):\n    return 3\n")
    secret.chmod(0o200)
    grades, reason, _ = verdict(
        enter(kind), f"rm -r calc; ln -s {outside} calc; mkdir -p x; ln -s {outside} x/y"
    )
    assert (grades, secret.stat().st_mode & 0o777) == ((False,) * 4, 0o200)
    leads_out = "is a link that leads out of the repository"
    assert reason == f"not graded: `calc` {leads_out}; not graded: `x/y` {leads_out}"


@BOTH
def test_a_workspace_that_is_a_link_shows_no_file_of_the_host(
    enter: Enter, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "outside/calc").mkdir(parents=True)
    (tmp_path / "outside/calc/__init__.py").write_text("def add(a, b):\n    return 3\n")
    command = f"cd ..; rm -rf workspace; ln -s {tmp_path}/outside workspace"
    grades, *_ = verdict(enter(kind), command)
    assert grades == (False,) * 4


@BOTH
def test_links_that_lead_out_by_way_of_others_are_cut(enter: Enter, kind: str) -> None:
    """Each link stays inside as it is written; `up` is the root of the repository, and above it are the tests."""
    command = (
        "mkdir -p a/b/c; ln -s ../../.. a/b/c/up; ln -s a/b/c/up/../tests t; "
        "ln -s ../a/b/c/up/../skillgate/tests/doubles.py calc/double.py; ln -s a/b/c/up/calc fine"
    )
    grades, reason, _ = verdict(enter(kind), command)
    why = "is a link that leads out of the repository"
    assert (grades, reason) == (NOTHING, f"not graded: `calc/double.py` {why}; not graded: `t` {why}")


@pytest.mark.docker
def test_a_container_that_is_over_its_disk_before_it_works_is_no_fault_of_ours(enter: Enter) -> None:
    """An agent leaves a file that fits just so: graders fail, where `lost` would make the run count for nothing."""
    place = enter("docker")
    suite = load_suite(place.folder)
    for _ in range(5):
        with Workspace.create(suite) as workspace:
            (workspace.workspace / "calc/double.py").write_bytes(b"#" * 64_000_001)
            with place.sandbox.session(workspace, Phase.GRADE, suite.tasks[0].limits) as session:
                results = [session.run("sleep 0.02", 5) for _ in range(12)]
            assert {one.limit for one in results} <= {None, Limit.DISK}
            assert results[-1].limit is Limit.DISK


def test_a_suite_of_devices_and_links(tiny_suite: Path, enter: Enter) -> None:
    """Links are copied as links; what is no plain file is refused, not read without end."""
    place = enter("local")
    (tiny_suite / "repo/out").symlink_to("../tasks/add-double/solution.patch")
    (tiny_suite / "repo/etc").symlink_to("/etc")
    assert verdict(place)[0] == NOTHING
    os.mkfifo(tiny_suite / "repo/pipe")
    run, failure, _ = place.play(Attacker([]))
    assert (run.outcome, failure) == (Outcome.INVALID, Failure.SUITE_BROKEN)
    assert run.reason == f"the suite is broken: {tiny_suite}/repo/pipe: no plain file"


OLD_TEST = """\
import unittest
from calc import add
class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
CHECKED = "tiny/add-double: tampering: grader `old-suite` passes when an agent leaves a certain `unittest.py`"


def test_suite_check_refuses_a_pass_to_pass_grader_that_a_plant_fools(tiny_suite: Path) -> None:
    """It passes when an agent broke what worked and hides that: doing nothing shows no difference."""
    path = tiny_suite / "tasks/add-double/task.yml"
    path.write_text(
        path.read_text().replace("python3 -IB tests/test_add.py", "python3 -m unittest discover -s tests")
    )
    (tiny_suite / "repo/tests/test_add.py").write_text(OLD_TEST)
    (check,) = check_suite(load_suite(tiny_suite), local_sandbox(Path(sys.executable).parent))
    assert [problem.partition(":")[0] for problem in check.problems] == ["tiny/add-double"]
    assert check.problems[0].startswith(CHECKED)
