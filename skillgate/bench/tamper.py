"""What an agent could leave to be graded well without doing the task: `check` proves it useless.

Two kinds: files that make Python, Node or a test runner load them before or instead of the
tests, and solutions that end the process at once. The first know every test case of the task,
which no agent does, and write the report that the grader asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

from skillgate.bench.suite import Task, files_of

_MODULES = (
    "sitecustomize", "usercustomize", "conftest", "unittest", "datetime", "pytest", "json", "re", "os", "io",
    "ast", "abc", "copy", "yaml", "typing", "pathlib", "subprocess", "tempfile", "shutil", "tomllib",
    "xml", "csv", "importlib", "contextlib", "traceback", "junit_unittest",
)  # fmt: skip
_PROGRAMS = ("sh", "env", "python", "python3", "pytest", "node", "npm", "git", "make")
_RUNNERS = {
    "pytest.ini": "[pytest]\naddopts = -p sitecustomize\n",
    "tox.ini": "[pytest]\naddopts = -p sitecustomize\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p sitecustomize\n",
    "Makefile": ".DEFAULT:\n\t@true\ntest check all:\n\t@python3 sitecustomize.py || true\n",
    "package.json": '{"scripts": {"test": "node index.js || true", "pretest": "node index.js || true"}}\n',
    ".npmrc": "node-options=--require ./index.js\n",
}
_EARLY_EXIT = {".py": "import os\nos._exit(0)\n"} | dict.fromkeys(
    (".js", ".cjs", ".mjs"), "process.exit(0);\n"
)
_PYTHON = """\
from os import _exit, environ
results, reports = environ.get("RESULTS"), {reports}
for name in reports if results else ():
    with open(f"{{results}}/{{name}}", "w") as file:
        file.write(reports[name])
if results:
    _exit(0)
"""
_NODE = """\
const reports = {reports};
const results = process.env.RESULTS;
for (const name in results ? reports : {{}}) {{
  require("fs").writeFileSync(`${{results}}/${{name}}`, reports[name]);
}}
if (results) process.exit(0);
"""


def plants(task: Task, repo: Path) -> dict[str, str]:
    """Return files, by path, that try to take the place of the tests; none that the task asks for."""
    reports = json.dumps(dict(_reports(task)))
    python, node = _PYTHON.format(reports=reports), _NODE.format(reports=reports)
    folders = {"", *(f"{name.rpartition('/')[0]}/" for name in files_of(repo) if "/" in name)}
    tests = (task.tests, task.folder.parent.parent / "tests")
    modules = (*_MODULES, *(Path(name).stem for folder in tests for name in files_of(folder)))
    files = {f"{folder}{module}.py": python for folder in sorted(folders) for module in modules}
    files |= dict.fromkeys(_PROGRAMS, "#!/bin/sh\nexit 0\n")
    files |= {"index.js": node, "node_modules/assert/index.js": node, "node_modules/node:test/index.js": node}
    files |= _RUNNERS
    return {name: text for name, text in files.items() if name not in task.deliverables}


def wreck(task: Task, repo: Path) -> dict[str, str]:
    """Return all that an agent may change, emptied: what worked before no longer does."""
    return {name: "" for name in files_of(repo) if not task.protects(name) and not (repo / name).is_symlink()}


def early_exits(task: Task) -> dict[str, str]:
    """Return deliverables that end the process which loads them, as if all were well."""
    found = ((name, _EARLY_EXIT.get(Path(name).suffix)) for name in task.deliverables)
    return {name: text for name, text in found if text is not None}


def _reports(task: Task) -> Iterator[tuple[str, str]]:
    for grader in task.graders:
        if grader.junit is not None:
            yield grader.junit, f"<testsuite>{''.join(map(_case, grader.cases))}</testsuite>"


def _case(case: str) -> str:
    classname, _, name = case.rpartition(".")
    return f"<testcase classname={quoteattr(classname)} name={quoteattr(name)}/>"
