"""docs/suites.md is followed to the letter, and its tables list every key that there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest

from skillgate import config
from skillgate.bench.suite import Grader, Limits, SuiteFile, TaskFile, TaskLimits, load_suite
from skillgate.values import Struct

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/suites.md").read_text(encoding="utf-8")


def struct_of(key: str) -> type[Struct]:
    """Return the type of a key of suite.yml that may be a mapping."""
    return next(kind for kind in get_args(get_type_hints(SuiteFile)[key]) if issubclass(kind, Struct))


TABLES = {
    "Keys of `suite.yml`": SuiteFile,
    "`repo` as a pinned commit": struct_of("repo"),
    "`environment`": struct_of("environment"),
    "`limits`": Limits,
    "Keys of `task.yml`": TaskFile,
    "`graders`": Grader,
}


class Step(NamedTuple):
    """A file to write, or a command (`path` is empty) and what it prints."""

    path: str
    text: str
    output: str = ""


def steps(page: str) -> Iterator[Step]:
    """Yield what the page asks its reader to do, in order."""
    blocks = re.finditer(r"(?:^`([^`\n]+)`:\n)?^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for path, language, body in (block.groups() for block in blocks):
        if language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Step("", command, output)
        else:
            assert path, f"a block without a path: {body[:60]!r}"
            yield Step(path, body)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a reader who has installed skillgate."""
    program = tmp_path / "bin/skillgate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skillgate "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


def test_who_follows_the_page_gets_what_it_shows(tmp_path: Path, shell: dict[str, str]) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for step in steps(PAGE):
        if step.path:
            (here / step.path).parent.mkdir(parents=True, exist_ok=True)
            (here / step.path).write_text(step.text, encoding="utf-8")
            continue
        done = subprocess.run(["sh", "-c", step.text], cwd=here, env=shell, capture_output=True, text=True)
        shown = (step.text, sorted(step.output.splitlines()), 2 if "FAIL" in step.output else 0)
        assert (step.text, sorted(done.stdout.splitlines()), done.returncode) == shown, done.stderr
    suite = load_suite(here / "fixtures/our-library")
    assert [(task.id, len(task.wrong)) for task in suite.tasks] == [("our-library/thousands", 1)]
    configured = config.parse((here / "skillgate.yml").read_text(encoding="utf-8"), "skillgate.yml")
    assert [*configured.suites.values()] == [("fixtures/our-library",)]


def test_the_page_has_steps_of_both_kinds() -> None:
    found = list(steps(PAGE))
    assert [step.path for step in found if step.path] == [
        "fixtures/our-library/tasks/thousands/task.yml",
        "fixtures/our-library/tasks/thousands/tests/test_thousands.py",
        "work/sizes.py",
        "work/sizes.py",
        "fixtures/our-library/tasks/thousands/tests/test_thousands.py",
        "skillgate.yml",
    ]
    assert sum("skillgate suite" in step.text for step in found if not step.path) == 7


def table(heading: str) -> dict[str, str]:
    """Return the keys of the table below a heading, and their defaults as they are shown."""
    section = re.split(rf"^##+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^##", section, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| .* \|$", section, re.MULTILINE)
    assert len(rows) == len(dict(rows)), f"{heading}: a key stands there twice"
    return dict(rows)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if isinstance(field.default, Limits):
        return "see below"
    if field.default in (None, TaskLimits()):
        return "none"
    return f"`{spelled(field.default)}`"


def spelled(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case ():
            return "[]"
        case _:
            return str(value)


@pytest.mark.parametrize("heading", TABLES)
def test_the_tables_list_every_key_and_its_default(heading: str) -> None:
    fields = msgspec.structs.fields(TABLES[heading])
    assert table(heading) == {field.encode_name: default_of(field) for field in fields}


def test_a_task_may_replace_every_limit() -> None:
    assert set(table("`limits`")) == set(TaskLimits.__struct_encode_fields__)
