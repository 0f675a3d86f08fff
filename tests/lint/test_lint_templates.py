"""Templates: which blocks anchor, how much, and which task they collide with, both lines named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skillgate.core import Finding

Lint = Callable[..., tuple[Finding, ...]]
Hits = Callable[..., list[str]]
HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"

WORKFLOW = """\
name: Test
on: [push]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: make test
"""
LONG = WORKFLOW + "".join(f"      - run: make part{n}\n" for n in range(15))


def block(content: str, path: str = "", language: str = "yaml") -> str:
    first = f"# {path}\n" if path else ""
    return f"```{language}\n{first}{content}```\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (block(WORKFLOW, ".github/workflows/test.yml"), "3"),
        ("Adapt it.\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "2"),
        (block(WORKFLOW + "# <name>\n", ".github/workflows/test.yml"), "2"),
        (block(LONG), "2"),
        (block(LONG, "test.yml"), "2"),
        (block(LONG, "<folder>/test.yml"), ""),
        ("Adapt it.\n\n" + block(WORKFLOW + "# <name>\n", "ci/test.yml"), ""),
        ("Adapt it.\n\n" + block(LONG), ""),
        (block(WORKFLOW), ""),
        (block(WORKFLOW, "test.yml"), ""),
        (block("on: [push]\n", "ci/test.yml"), ""),
        (block("key: value\n" * 30), ""),
    ],
)
def test_the_weight_of_a_template(lint: Lint, body: str, expected: str) -> None:
    found = [f.message.partition("weight ")[2][:1] for f in lint(HEAD + "# Templates\n\n" + body)]
    assert found == ([expected] if expected else [])


def test_the_note_says_why(lint: Lint) -> None:
    (found,) = lint(
        HEAD + "# Adapt\n\nAdapt this.\n\n# Copy\n\n" + block(WORKFLOW, ".github/workflows/test.yml")
    )
    assert (found.severity, found.where.line, found.match) == ("note", 11, ".github/workflows/test.yml")
    assert found.message == (
        "this block is a whole file of 8 lines for `.github/workflows/test.yml`; an agent may copy it as it"
        " stands where the task wants something else (weight 3 of 3: its path is fixed, it holds no"
        " placeholder, no sentence says to adapt it)"
    )


TEMPLATE = block(WORKFLOW, ".github/workflows/reusable-test.yml")


def test_a_collision_names_both_lines(lint: Lint) -> None:
    tasks = [
        ("ci-workflows/docs", "docs/ci.md"),
        ("ci-workflows/nightly", "ci/nightly.yml"),
        ("ci-workflows/reusable", "ci/reusable-test.yml"),
    ]
    (found,) = lint(HEAD + "\n" * 182 + TEMPLATE, tasks=tasks)
    assert (found.severity, found.rule, found.where.line) == ("warning", "template-anchoring", 188)
    assert found.message == (
        "SKILL.md:188 puts it at `.github/workflows/reusable-test.yml`; task `ci-workflows/reusable` wants it"
        " in `ci/` (fixtures/ci-workflows/tasks/reusable/task.yml:12), 1 more task likewise;"
        " an agent may follow the template and miss the deliverable"
    )


@pytest.mark.parametrize(
    ("path", "task", "wants"),
    [
        (".github/workflows/a.yml", ("s/t", "ci/a.yml"), "it in `ci/`"),
        (".github/workflows/a.yml", ("s/t", "ci/b.yml"), "its workflow in `ci/`"),
        (".github/workflows/a.yml", ("s/nightly-workflow", "build/b.yaml"), "its workflow in `build/`"),
        (
            ".github/actions/setup/action.yml",
            ("s/t", "ci/actions/setup/action.yml"),
            "it in `ci/actions/setup/`",
        ),
        ("k8s/web.yaml", ("s/t", "deploy/manifests/api.yaml"), "its manifest in `deploy/manifests/`"),
        ("tests/test_a.py", ("s/t", "checks/test_b.py"), "its .py test in `checks/`"),
        ("docs/Dockerfile", ("s/t", "Dockerfile"), "it in the root of the repository"),
        (".github/workflows/a.yml", ("s/t", ".github/workflows/b.yml"), None),
        (".github/workflows/a.yml", ("s/t", ".github/workflows/a.yml", "ci/a.yml"), None),
        (".github/workflows/a.yml", ("s/t", ".github/workflows/b.yml", "ci/c.yml"), None),
        (".github/workflows/a.yml", ("ci-workflows/t", "ci/config/pins.yml"), None),
        (".github/workflows/a.yml", ("s/t", "config/settings.yml"), None),
        ("src/app/models.py", ("s/t", "textkit/slugs.py"), None),
        ("src/app/__init__.py", ("s/t", "textkit/__init__.py"), None),
        ("tests/test_a.py", ("s/t", "checks/b.test.ts"), None),
        ("a.yml", ("s/t", "ci/a.yml"), None),
        ("<folder>/a.yml", ("s/t", "ci/a.yml"), None),
        ("/app/ci/a.yml", ("s/t", "ci/a.yml"), None),
        ("/app/out/a.yml", ("s/t", "ci/a.yml"), "it in `ci/`"),
    ],
)
def test_what_collides(lint: Lint, path: str, task: tuple[str, ...], wants: str | None) -> None:
    found = [
        f.message for f in lint(HEAD + block(WORKFLOW, path, ""), tasks=[task]) if f.severity == "warning"
    ]
    assert [f"wants {wants} (" in message for message in found] == ([True] if wants else [])


def test_one_place_is_told_once(hits: Hits) -> None:
    body = "Save it as `.github/workflows/reusable-test.yml`:\n\n" + TEMPLATE
    assert hits(body, tasks=[("s/t", "ci/reusable-test.yml")]) == [
        "8:3 warning template-anchoring .github/workflows/reusable-test.yml"
    ]
