"""Fixtures for every test: a small suite, and the gate before the tests that need Docker.

A docker test is skipped with a visible reason where no engine or image is; with
SKILLGATE_REQUIRE_DOCKER=1 it fails instead, so that CI cannot overlook it.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillgate.bench.images.engine import get_image
from skillgate.errors import PrerequisiteError

TEST_IMAGE = os.environ.get("SKILLGATE_TEST_IMAGE", "skillgate-base:bookworm-2")

SUITE = """\
version: 1
title: A tiny library
why: Small enough to run in every test.
limits: {timeout-s: 20, memory-mb: 128, pids: 64}
"""

TASK = """\
title: Add double
prompt: |
  ## Requirement
  Add `double(n)` to `calc/double.py`.
deliverables:
  - calc/double.py
protected: ["tests/**"]
difficulty: easy
graders:
  - name: doubles
    run: python3 "$TESTS/doubles.py"
    kind: fail-to-pass
    junit: doubles.xml
    cases: [doubles.zero, doubles.two]
  - name: exists
    run: test -f calc/double.py
    kind: fail-to-pass
  - name: old-suite
    run: python3 -IB tests/test_add.py
    kind: pass-to-pass
"""

DOUBLES = """\
import os, sys
sys.path.append(os.getcwd())
from junit import write
try:
    from calc.double import double
except ImportError as problem:
    sys.exit(str(problem))
write("doubles.xml", {"zero": double(0) == 0, "two": double(2) == 4})
"""

JUNIT = """\
import os
def write(name, cases):
    said = {True: "", False: '<failure message="wrong"/>'}
    rows = [f'<testcase classname="doubles" name="{c}">{said[ok]}</testcase>' for c, ok in cases.items()]
    with open(os.path.join(os.environ["RESULTS"], name), "w") as file:
        file.write(f"<testsuite>{''.join(rows)}</testsuite>")
"""

OLD_TEST = """\
import os, sys, unittest
sys.path.append(os.getcwd())
from calc import add
class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
unittest.main()
"""

SOLUTION = """\
diff --git a/calc/double.py b/calc/double.py
new file mode 100644
--- /dev/null
+++ b/calc/double.py
@@ -0,0 +1,2 @@
+def double(number_to_double):
+    return 2 * number_to_double
"""

SUITE_FILES = {
    "suite.yml": SUITE,
    "repo/calc/__init__.py": "def add(a, b):\n    return a + b\n",
    "repo/tests/test_add.py": OLD_TEST,
    "repo/run.sh": "#!/bin/sh\necho run\n",
    "repo/.claude/skills/old/SKILL.md": "---\nname: old\n---\n",
    "tests/junit.py": JUNIT,
    "tasks/add-double/task.yml": TASK,
    "tasks/add-double/solution.patch": SOLUTION,
    "tasks/add-double/tests/doubles.py": DOUBLES,
}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the linter remembers out of the home of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def tiny_suite(tmp_path: Path) -> Path:
    """Write a suite with one task, `tiny/add-double`, that passes `suite check`; return its folder."""
    folder = tmp_path / "tiny"
    for name, content in SUITE_FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (folder / "repo/run.sh").chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _no_repository_but_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a git hook GIT_DIR and its like would make tests commit into the repository of the hook."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], bool]], bool]:
    """Return what asks a question with few rights: root may do everything, so another user asks then."""

    def ask(question: Callable[[], bool]) -> bool:
        if os.geteuid() != 0:
            return question()
        child = multiprocessing.get_context("fork").Process(target=_ask_as_nobody, args=(question,))
        child.start()
        child.join(20)
        return child.exitcode == 0

    return ask


def _ask_as_nobody(question: Callable[[], bool]) -> None:
    os.setuid(65534)
    sys.exit(0 if question() else 1)


class Readme:
    """The generated sections of the README, between `<!-- name -->` and `<!-- /name -->`."""

    path = Path(__file__).parent.parent / "README.md"

    def expect(self, name: str, content: str) -> None:
        """Compare a section, or write it when SKILLGATE_UPDATE_GOLDEN=1."""
        before, start, rest = self.path.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
        section, end, after = rest.partition(f"<!-- /{name} -->")
        if os.environ.get("SKILLGATE_UPDATE_GOLDEN") == "1":
            section = content + "\n"
            self.path.write_text(before + start + section + end + after, encoding="utf-8")
        assert section == content + "\n"


@pytest.fixture
def readme() -> Readme:
    """Return the README, to compare its generated sections."""
    return Readme()


@pytest.fixture(scope="session")
def docker_image() -> str:
    """Return the image that tests marked `docker` run in."""
    return TEST_IMAGE


@pytest.fixture
def agent_cache() -> Path:
    """Return the cache with the agent programs that tests marked `agents` run."""
    return Path(os.environ["SKILLGATE_TEST_AGENTS"])


@functools.cache
def docker_trouble() -> str:
    """Return why docker tests cannot run here, or an empty string."""
    try:
        if get_image(TEST_IMAGE) is None:  # and is never pulled
            return f"the image {TEST_IMAGE} is not on this machine"
    except PrerequisiteError as problem:
        return problem.message
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine lacks something for, with the reason; CI requires it, and fails instead."""
    if item.get_closest_marker("agents") is not None and not os.environ.get("SKILLGATE_TEST_AGENTS"):
        _lacks("AGENTS", "needs the agent programs", "SKILLGATE_TEST_AGENTS names no cache with them")
    if item.get_closest_marker("docker") is not None and docker_trouble():
        _lacks("DOCKER", "needs Docker and its base image", docker_trouble())


def _lacks(what: str, need: str, trouble: str) -> None:
    if os.environ.get(f"SKILLGATE_REQUIRE_{what}") == "1":
        pytest.fail(f"SKILLGATE_REQUIRE_{what}=1 and {trouble}", pytrace=False)
    pytest.skip(f"{need}: {trouble}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless SKILLGATE_LONG=1, and let the last line say so."""
    long = [item for item in items if item.get_closest_marker("long")]
    if long and os.environ.get("SKILLGATE_LONG") != "1":
        items[:] = [item for item in items if item not in set(long)]
        config.hook.pytest_deselected(items=long)
