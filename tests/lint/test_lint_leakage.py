"""A skill must not be written to the tests: what leaks is told, what teaches is not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillgate.bench.suite import load_suite, task_facts
from skillgate.core import Answer, TaskFacts
from skillgate.lint.check import Hit
from skillgate.lint.checks.leakage import AnswerLeakage
from skillgate.shipped import shipped
from skillgate.skill import Files, parse, scan
from skillgate.values import Location

HEAD = "---\nname: demo\ndescription: Changes a Python library. Use for small changes.\n---\n\n"
SUITES = ("ci-workflows", "textkit")


@pytest.fixture(scope="module")
def tasks() -> tuple[TaskFacts, ...]:
    """The tasks of the suites that travel with the package, with their real answers."""
    folder = shipped("fixtures")
    return tuple(fact for name in SUITES for fact in task_facts(load_suite(folder / name, name)))


def leaks(text: str, tasks: tuple[TaskFacts, ...], files: Mapping[str, str] | None = None) -> list[Hit]:
    raw = {"SKILL.md": HEAD + text, **(files or {})}
    skill = parse(Files.from_map({name: content.encode() for name, content in raw.items()}), "demo")
    return list(AnswerLeakage()(skill, tasks))


SOLUTION = """\
Cut like this:

```python
def _cut(slug: str, limit: int) -> str:
    # the whole, when it fits
    if len(slug) <= limit:
        return slug
    end = slug.rfind("-", 0, limit + 1)
    return slug[: end if end > 0 else limit]
```
"""
LEAKING = [
    (SOLUTION, "textkit/cut-slugs-at-words", "def _cut(slug: str, limit: int) -> str: …", "the oracle"),
    (
        "The tests are test_never_ends_in_a_hyphen and test_longer_number_fits.",
        "textkit/cut-slugs-at-words",
        "test_never_ends_in_a_hyphen",
        "the held-out tests",
    ),
    (
        "See `test_renamed.py`; the name is textkit.fill, test_old_name_warns says so.",
        "textkit/deprecate-fill",
        "test_old_name_warns",
        "the held-out tests",
    ),
    (
        "Warn that `textkit.fill is deprecated, use textkit.wrap_text`.",
        "textkit/deprecate-fill",
        "textkit.fill is deprecated, use textkit.wrap_text",
        "the oracle",
    ),
    (
        "Write durations for 1209600 and 86401 seconds.",
        "textkit/add-format-duration",
        "1209600",
        "the held-out tests",
    ),
    (
        "Two pull requests never do what 'two runs of one pull request are in different groups' says.",
        "ci-workflows/add-concurrency",
        "two runs of one pull request are in different groups",
        "the held-out tests",
    ),
]


@pytest.mark.parametrize(("text", "task", "told", "source"), LEAKING)
def test_a_skill_that_knows_the_answer(
    tasks: tuple[TaskFacts, ...], text: str, task: str, told: str, source: str
) -> None:
    (hit,) = leaks(text, tasks)
    assert (hit.values["task"], hit.values["text"], hit.values["source"]) == (task, told, source)


def test_a_script_leaks_too(tasks: tuple[TaskFacts, ...]) -> None:
    script = "import sys\n\n" + SOLUTION.partition("```python\n")[2].partition("```")[0]
    (hit,) = leaks("Run `scripts/cut.py`.", tasks, {"scripts/cut.py": script})
    assert hit.where == Location(path="demo/scripts/cut.py", line=3, column=1)


TEACHING = {
    "cutting": """\
Cutting at a limit: a piece that fits exactly stays whole. Look for the last hyphen at or before the limit
with `rfind`; where there is none, cut hard. Leave room for a number before you cut; test one character more.

```python
def shorten(text, width):
    if len(text) <= width:
        return text
    last = text.rfind(" ", 0, width + 1)
    return text[:last] if last > 0 else text[:width]
```
""",
    "deprecating": """\
A deprecated name stays one release, is used nowhere inside, and warns at its caller:

```python
def old_name(*args, **kwargs):
    warnings.warn("old_name is deprecated, use new_name", DeprecationWarning, stacklevel=2)
    return new_name(*args, **kwargs)
```

Name both in the changelog, under "Added" and "Deprecated". Test it with `pytest.warns(DeprecationWarning)`.
""",
    "workflows": """\
```yaml
name: CI
on: [push, pull_request]
permissions:
  contents: read
concurrency:
  group: ${{ github.workflow }}-${{ github.event.pull_request.number || github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}
jobs:
  test:
    runs-on: ${{ matrix.os }}
    strategy:
      fail-fast: false
      matrix:
        os: [ubuntu-latest, macos-latest]
        python-version: ["3.11", "3.12", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python-version }}
      - run: python -m pip install -r requirements-dev.txt
      - run: python -m coverage run -m unittest discover
      - run: echo "total=$(python -m coverage report --format=total)" >> "$GITHUB_OUTPUT"
```

Release with `gh release create "$GITHUB_REF_NAME" --generate-notes`; `gh issue create --title` opens issues.
A last job with `if: always()` fails unless `needs.*.result` is `success`; a scheduled run has no inputs.
""",
    "tests": "Run `pytest tests/test_cut.py tests/test_format.py -q`; name tests `test_empty_input`.",
    "numbers": "Try 0, 1, 59, 60, 3600, 86400, 604800, 65535, 65536, 1000000 and 2147483647 seconds.",
}


@pytest.mark.parametrize("name", TEACHING)
def test_a_skill_that_teaches(tasks: tuple[TaskFacts, ...], name: str) -> None:
    assert leaks(TEACHING[name], tasks) == []


def test_our_own_skills_know_no_answer(tasks: tuple[TaskFacts, ...]) -> None:
    folder = shipped("fixtures") / "skills"
    skills = [parse(Files.from_folder(folder / name), name) for name in scan(folder).skills]
    assert len(skills) == 3
    assert [hit for skill in skills for hit in AnswerLeakage()(skill, tasks)] == []


def task(*answers: str) -> TaskFacts:
    where = Location(path="kit/tasks/a/task.yml")
    return TaskFacts(
        task="kit/a", where=where, answers=tuple(Answer(text=a, source="the oracle") for a in answers)
    )


LONG = "the wind blows from the north west"
ENOUGH = [
    (LONG, [LONG], True),
    ("The wind blows\nfrom the north west", [LONG], False),
    ("short_but_own_name", ["short_but_own_name"], False),
    ("short_but_own_name 481516", ["short_but_own_name", "481516"], True),
    ("my_short_but_own_name 481516", ["short_but_own_name", "481516"], False),
    ("test_winds.py test_rains.py", ["test_winds.py", "test_rains.py"], False),
    ("test_winds.py 481516", ["test_winds.py", "481516"], True),
    ("wind --blow from --the north west coast", ["wind --blow from --the north west coast"], False),
    ("SELECT name FROM winds WHERE coast = 1", ["SELECT name FROM winds WHERE coast = 1"], False),
    ("a north wind\n    # then\n    a south wind", ["a north wind\na south wind"], True),
    ("a south wind, a north wind", ["a north wind\na south wind"], False),
    ("a north wind" + " " * 500 + "a south wind", ["a north wind\na south wind"], False),
    ("a north wind" + " " * 500 + "a north wind, a south wind", ["a north wind\na south wind"], True),
    ("wind_from_the_north_west and 48", ["wind_from_the_north_west", "the_north"], False),
]


@pytest.mark.parametrize(("text", "answers", "told"), ENOUGH)
def test_one_long_or_two_short_texts(text: str, answers: list[str], told: bool) -> None:
    assert bool(leaks(text, (task(*answers),))) is told


def test_the_strongest_text_comes_first_and_overlaps_count_once() -> None:
    lines = ["the first line of it", "the second line of it", "the third line of it", "the fourth line of it"]
    answers = [
        "\n".join(lines[:3]),
        "\n".join(lines[1:]),
        lines[1],
        "481516",
        "a_name_of_its_own",
        "test_winds.py",
    ]
    text = "481516, a_name_of_its_own, `test_winds.py`:\n\n" + "\n".join(lines) + "\n\nonce more: 481516"
    (hit,) = leaks(text, (task(*answers),))
    assert hit.where.line == 8
    assert hit.values["text"] == "the first line of it …"
    assert hit.values["more"] == " (3 more: `a_name_of_its_own`, `test_winds.py`, `481516`)"


def test_one_hit_per_task_and_none_without_answers() -> None:
    other = TaskFacts(task="kit/b", where=Location(path="b"))
    assert [hit.values["task"] for hit in leaks(LONG, (task(LONG), other, task(LONG)))] == ["kit/a", "kit/a"]
    assert leaks(LONG, (other,)) == []


def test_no_skill_takes_long(tmp_path: Path) -> None:
    answers = [f"number {n} of the many texts of this kind" for n in range(5_000)] + ["a b\nc d", "x\ny"]
    text = "number of the many texts of this kind " * 20_000 + "a b " * 20_000 + "x" * 100_000 + "\n"
    started = time.process_time()
    assert leaks(text + " ".join(map(str, range(5_000))), (task(*answers),)) == []
    assert time.process_time() - started < 8
