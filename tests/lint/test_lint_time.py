"""Hostile text never holds the linter up: each of these once took many seconds."""

from __future__ import annotations

import time

import pytest

from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule
from skillgate.skill import Files, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n\n"
BLOCK = "```yaml\n# a/b.yml\n" + "key: value\n" * 20 + "```\n\n"
INPUTS = {
    "comment of stars": "```\n/" + "*" * 100_000 + "!\n```\n",
    "title of stars": "a" + "*" * 100_000 + ":\n\n```\nx\n```\n",
    "many blocks, many replacements": BLOCK * 500 + "replace \n" * 5_400,
    "block of blanks": "```yaml\n# a/b.yml\n" + (" " * 98 + "\n") * 9_900 + "```\n",
    "missing links": "".join(f"[x](missing-{i}.md)\n" for i in range(700)),
    "nested images": ("![" * 2_400 + "](\n\n") * 180,
    "nested emphasis": ("*a_" * 1_600 + "](\n\n") * 180,
    "lines of links": ("[x](y.md)" * 1_800 + "\n") * 50,
}


@pytest.mark.parametrize("name", INPUTS)
def test_no_text_takes_long(name: str, rules: tuple[Rule, ...]) -> None:
    content = {"SKILL.md": (HEAD + INPUTS[name]).encode()}
    content |= {f"references/file-{i}.md": b"" for i in range(500)}
    started = time.process_time()
    lint_skill(parse(Files.from_map(content), "demo"), rules)
    assert (
        time.process_time() - started < 8
    )  # no benchmark: ten times what it takes, to tell a hang on any machine
