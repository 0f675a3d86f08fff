"""Answers of models in plain text, as sloppy as small ones write them, and the files in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.agents.api.blocks import parse

KNOWN = ("calc/double.py", "README.md", "Makefile")
X = {"a/b.py": "x = 1\n"}


@pytest.mark.parametrize(
    "answer",
    [
        "a/b.py\n```python\nx = 1\n```\n",
        "a/b.py\r\n```python\r\nx = 1\r\n```\r\n",
        "**a/b.py**\n\n```\nx = 1\n```\n",
        "### `a/b.py`\n```\nx = 1\n```",
        "- `a/b.py`:\n```\nx = 1\n```",
        "1. a/b.py\n```\nx = 1\n```",
        "File: a/b.py\n```\nx = 1\n```",
        "**File name:** `a/b.py`\n```\nx = 1\n```",
        "Here is the new `a/b.py` with the change:\n```\nx = 1\n```",
        "```python a/b.py\nx = 1\n```",
        "```a/b.py\nx = 1\n```",
        "```python:a/b.py\nx = 1\n```",
        '```python title="a/b.py"\nx = 1\n```',
        "```python\n# a/b.py\nx = 1\n```",
        "```python\n# File: a/b.py\nx = 1\n```",
        "```js\n// a/b.py\nx = 1\n```",
        "```html\n<!-- a/b.py -->\nx = 1\n```",
        "./a/b.py\n~~~\nx = 1\n~~~",
        "a/b.py\n````\nx = 1\n````\nThat is all.",
        "a/b.py\n```\nx = 1\n",
        "```\na/b.py\n```\n\n```python\nx = 1\n```",
        "```\nother.py\n```\n```\na/b.py\n```\nThis is it:\n```python\nx = 1\n```",
        "a/b.py\n```\nx = 0\n```\nNo, better:\na/b.py\n```\nx = 1\n```\n",
    ],
)
def test_where_a_path_may_stand(answer: str) -> None:
    assert parse(answer, KNOWN) == X


@pytest.mark.parametrize(
    ("answer", "files"),
    [
        ("", {}),
        ("I cannot.", {}),
        ("```\nx = 1\n```", {}),
        ("Use Python 3.11 here:\n```\nx = 1\n```", {}),
        ("The function `format.duration` is:\n```\nx = 1\n```", {}),
        ("```python\n# Adds numbers\nx = 1\n```", {}),
        ("```sh\n#!/usr/bin/env sh\nls\n```", {}),
        ("Makefile\n```\nall:\n```", {"Makefile": "all:\n"}),
        ("Then change the Makefile.\n```\nall:\n```", {"Makefile": "all:\n"}),
        ("setup.cfg\n```\n```", {"setup.cfg": ""}),
        (".editorconfig\n```\nroot = true\n```", {".editorconfig": "root = true\n"}),
        ("a.py\n```\n1\n```\nb.py\n```\n2\n```", {"a.py": "1\n", "b.py": "2\n"}),
        ("/etc/passwd\n```\nx\n```", {"/etc/passwd": "x\n"}),
        ("../up.py\n```\nx\n```", {"../up.py": "x\n"}),
        (
            "README.md\n```markdown\n# Hi\n```sh\nls\n```\nBye.\n```\na.py\n```\n1\n```",
            {"README.md": "# Hi\n```sh\nls\n```\nBye.\n", "a.py": "1\n"},
        ),
        ("README.md\n````\n```\nls\n```\n````", {"README.md": "```\nls\n```\n"}),
    ],
)
def test_what_is_found(answer: str, files: dict[str, str]) -> None:
    assert parse(answer, KNOWN) == files


def test_a_single_block_without_a_name_is_the_one_file_that_is_wanted() -> None:
    assert parse("Sure:\n```python\nx = 1\n```", KNOWN, "a/b.py") == X
    assert parse("```\n1\n```\n```\n2\n```", KNOWN, "a/b.py") == {}
    assert parse("```\n\n```", KNOWN, "a/b.py") == {}
    assert parse("```\na/b.py\n```", KNOWN, "a/b.py") == {}
    assert parse("a/b.py\n```\nx = 1\n```\nRun it:\n```sh\npython\n```", KNOWN, "a/b.py") == X


def test_half_a_file_is_none() -> None:
    cut = "a/b.py\n```\nx = 1\n```\nc.py\n```\nde"
    assert parse(cut, KNOWN, is_cut=True) == X
    assert parse(cut, KNOWN) == X | {"c.py": "de\n"}


@given(st.text(alphabet="`~# /.\nab:*", max_size=200))
def test_no_answer_makes_it_fail(answer: str) -> None:
    for path, text in parse(answer, KNOWN, "only.py").items():
        assert path
        assert "\n" not in path
        assert text == "" or text.endswith("\n")


@given(st.lists(st.text(alphabet="abc #=\t", max_size=20), max_size=10))
def test_what_is_written_comes_back(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    assert parse(f"a/b.py\n```\n{text}```\n", KNOWN) == {"a/b.py": text}
