from __future__ import annotations

import json

import msgspec

from skillgate.core import GradeKind
from skillgate.report.suites import GraderView, SuiteView, TaskView, render, render_json, render_list

TASK = TaskView(
    name="fixtures/ours/cut-lines",
    title="Cut lines",
    difficulty="easy",
    deliverables=("ours/cut.py", "CHANGELOG.md"),
    graders=(
        GraderView(name="cut", kind=GradeKind.FAIL_TO_PASS, grades=("cut/Cut.a", "cut/Cut.b")),
        GraderView(name="kept", kind=GradeKind.PASS_TO_PASS, grades=("kept",)),
        GraderView(name="style", kind=GradeKind.FAIL_TO_PASS, grades=("style",)),
    ),
    wrong=("too-long",),
    limits="600 s, 512 MB of memory, 1 CPU, 64 processes",
    prompt="## Requirement\n\n- Cut.\n  - Not too much.\n",
)
OTHER = msgspec.structs.replace(TASK, name="fixtures/ours/wrap", title="Wrap", difficulty="hard", wrong=())
SUITE = SuiteView(
    name="fixtures/ours",
    title="ours",
    why="It asks for care.",
    environment={"repository": "repo", "image": "our-image:1"},
    tasks=(TASK, OTHER),
)
EMPTY = SuiteView(name="builtin:x", title="A much longer title", why="y", environment={}, tasks=())


def test_the_list_has_a_line_for_each_suite() -> None:
    assert render_list((SUITE, EMPTY)) == (
        "suite          tasks  easy  medium  hard  title\n"
        "fixtures/ours      2     1             1  ours\n"
        "builtin:x                                 A much longer title\n"
    )


def test_a_suite_shows_what_it_asks_for_and_what_it_runs_in() -> None:
    assert render(SUITE) == (
        "fixtures/ours: ours\n"
        "It asks for care.\n"
        "\n"
        "repository: repo\n"
        "image: our-image:1\n"
        "\n"
        "cut-lines (easy): Cut lines\n"
        "  deliverables: ours/cut.py, CHANGELOG.md\n"
        "  graders: 3 fail-to-pass, 1 pass-to-pass; 1 wrong solution\n"
        "\n"
        "wrap (hard): Wrap\n"
        "  deliverables: ours/cut.py, CHANGELOG.md\n"
        "  graders: 3 fail-to-pass, 1 pass-to-pass\n"
    )


def test_a_task_shows_each_grader_and_its_prompt_as_it_is_written() -> None:
    assert render(TASK) == (
        "fixtures/ours/cut-lines (easy): Cut lines\n"
        "deliverables: ours/cut.py, CHANGELOG.md\n"
        "graders: 3 fail-to-pass, 1 pass-to-pass; 1 wrong solution\n"
        "  cut: 2 fail-to-pass\n"
        "  kept: 1 pass-to-pass\n"
        "  style: 1 fail-to-pass\n"
        "limits: 600 s, 512 MB of memory, 1 CPU, 64 processes\n"
        "\n"
        "## Requirement\n"
        "\n"
        "- Cut.\n"
        "  - Not too much.\n"
    )


def test_nothing_that_a_suite_says_reaches_a_terminal_as_it_is() -> None:
    bad = "a\x1b[31mb\u202ec\nd"
    task = msgspec.structs.replace(TASK, name=bad, title=bad, deliverables=(bad,), prompt=f"  {bad}\x07")
    suite = SuiteView(name=bad, title=bad, why=bad, environment={"image": bad}, tasks=(task,))
    shown = render_list((suite,)) + render(suite) + render(task)
    assert [char for char in shown if char != "\n" and not char.isprintable()] == []
    assert render(task).endswith("\n  a[31mbc\nd\n")


def test_json_has_the_fields_of_the_views() -> None:
    listed = json.loads(render_json((SUITE,)))
    assert listed == {
        "schema": 1,
        "suites": [
            {
                "name": "fixtures/ours",
                "title": "ours",
                "why": "It asks for care.",
                "environment": {"repository": "repo", "image": "our-image:1"},
                "tasks": ["fixtures/ours/cut-lines", "fixtures/ours/wrap"],
                "levels": {"easy": 1, "medium": 0, "hard": 1},
            }
        ],
    }
    for view, name in ((SUITE, "suite"), (TASK, "task")):
        shown = json.loads(render_json(view))
        assert shown == {"schema": 1, name: json.loads(msgspec.json.encode(view))}
