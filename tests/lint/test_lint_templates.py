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


PATH = ".github/workflows/test.yml"
NAMED = {
    "first-line comment": f"```yaml\n# {PATH}\n{WORKFLOW}```",
    "comment with a label": f"```yaml\n# File: {PATH}\n{WORKFLOW}```",
    "comment with a path label": f"```yaml\n# Path: `{PATH}`\n{WORKFLOW}```",
    "comment with a remark": f"```yaml\n# {PATH} - runs the tests\n{WORKFLOW}```",
    "comment after the document start": f"```yaml\n---\n# {PATH}\n{WORKFLOW}```",
    "heading": f"### `{PATH}`\n\n```yaml\n{WORKFLOW}```",
    "heading without marks": f"### Tests ({PATH})\n\n```yaml\n{WORKFLOW}```",
    "heading, then a sentence": f"### `{PATH}`\n\nThis runs the tests.\n\n```yaml\n{WORKFLOW}```",
    "bold": f"**{PATH}**\n\n```yaml\n{WORKFLOW}```",
    "bold label": f"**File: `{PATH}`**\n\n```yaml\n{WORKFLOW}```",
    "title=": f'```yaml title="{PATH}"\n{WORKFLOW}```',
    "title= in braces": f'```yaml {{title="{PATH}"}}\n{WORKFLOW}```',
    "filename:": f"```yaml filename: {PATH}\n{WORKFLOW}```",
    "filename=": f"```yaml filename={PATH}\n{WORKFLOW}```",
    "after the language": f"```yaml:{PATH}\n{WORKFLOW}```",
    "alone in the info string": f"```{PATH}\n{WORKFLOW}```",
    "sentence before": f"Save it as `{PATH}`:\n\n```yaml\n{WORKFLOW}```",
    "sentence that ends": f"Create `{PATH}` with this content.\n\n```yaml\n{WORKFLOW}```",
    "sentence without marks": f"Put this into {PATH}:\n```yaml\n{WORKFLOW}```",
    "last of two sentences": f"Save it as `{PATH}`. It runs on each push:\n\n```yaml\n{WORKFLOW}```",
    "here-document": f"```bash\ncat > {PATH} <<'EOF'\n{WORKFLOW}EOF\n```",
    "here-document the other way": f"```bash\ncat <<EOF > {PATH}\n{WORKFLOW}EOF\n```",
}


@pytest.mark.parametrize("how", NAMED)
def test_a_whole_file_names_itself(hits: Hits, how: str) -> None:
    found = hits("# Templates\n\n" + NAMED[how], tasks=[("s/t", "ci/test.yml")])
    assert [hit.partition(" ")[2] for hit in found] == [f"warning template-anchoring {PATH}"]


UNNAMED = {
    "a command that is run": "Run `build/test.yml`:\n\n```bash\nmake\n```",
    "a sentence that only mentions it": f"Look at `{PATH}` first.\n\n```yaml\n{WORKFLOW}```",
    "an excerpt": f"```yaml\n# {PATH} (excerpt)\n{WORKFLOW}```",
    "another language": f"Like `{PATH}`:\n\n```python\nprint()\n```",
    "a comment in the middle": f"```yaml\n{WORKFLOW}# {PATH}\n```",
}


@pytest.mark.parametrize("how", UNNAMED)
def test_a_block_that_is_no_file_of_that_name(hits: Hits, how: str) -> None:
    assert hits("# Templates\n\n" + UNNAMED[how], tasks=[("s/t", "ci/test.yml")]) == []


MODULE = "import os\n\n" + "".join(f"def part{n}():\n    return {n}\n" for n in range(10))
SCREEN = "import a from 'a'\n\nexport function Page() {\n" + "  a()\n" * 20 + "}\n"
PACKAGE = '{\n  "name": "x",\n  "scripts": {\n' + '    "a": "b",\n' * 20 + "  }\n}\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (block(WORKFLOW, ".github/workflows/test.yml"), "3"),
        ("Adapt it.\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "2"),
        ("Do not modify it.\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "3"),
        ("Copy it as-is, adjust nothing.\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "3"),
        ("Adapt all of them.\n\n## One\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "2"),
        ("## One\n\nAdapt it.\n\n## Two\n\n" + block(WORKFLOW, ".github/workflows/test.yml"), "3"),
        (block(WORKFLOW + "# adjust to your names\n", ".github/workflows/test.yml"), "2"),
        (block(WORKFLOW + "# <name>\n", ".github/workflows/test.yml"), "2"),
        (block(WORKFLOW + "# {project name}\n", ".github/workflows/test.yml"), "2"),
        (block(LONG), "2"),
        (block(MODULE, language="python"), "2"),
        (block(SCREEN, language="tsx"), "2"),
        (block(PACKAGE, language="json"), "2"),
        (block(LONG, "test.yml"), "2"),
        (block(LONG, "<folder>/test.yml"), ""),
        ("Adapt it.\n\n" + block(WORKFLOW + "# <name>\n", "ci/test.yml"), ""),
        ("Adapt it.\n\n" + block(LONG), ""),
        ("Change `src/app.py` like this:\n\n" + block("a = 1\n" * 10, language="python"), ""),
        (block(WORKFLOW), ""),
        (block(WORKFLOW, "test.yml"), ""),
        (block("on: [push]\n", "ci/test.yml"), ""),
        (block("key: value\n" * 30), ""),
        (block("a = 1\n" * 30, language="python"), ""),
    ],
)
def test_the_weight_of_a_template(lint: Lint, body: str, expected: str) -> None:
    found = [f.message.partition("weight ")[2][:1] for f in lint(HEAD + "# Templates\n\n" + body)]
    assert found == ([expected] if expected else [])


def test_a_file_that_the_skill_has_is_no_template(lint: Lint) -> None:
    text = HEAD + block(WORKFLOW, "assets/ci.yml")
    assert [f.rule for f in lint(text)] == ["template-anchoring"]
    assert "template-anchoring" not in [f.rule for f in lint(text, files={"assets/ci.yml": WORKFLOW})]


def test_of_many_templates_the_heaviest_is_told(lint: Lint) -> None:
    blocks = [block(WORKFLOW, f"ci/{n}.yml") for n in range(7)]
    text = HEAD + "\n".join([blocks[0], block(WORKFLOW + "a: b\n", "ci/long.yml"), *blocks[1:], block(LONG)])
    (found,) = [f for f in lint(text) if f.rule == "template-anchoring"]
    assert found.where.line == 16
    assert found.message.endswith("to adapt it); 8 more at lines 5, 28, 39, 50, 61, …")
    names = [*(f"ci/{n}.yml" for n in range(7)), "ci/long.yml", "name: Test"]
    assert found.match == ", ".join(names)


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
