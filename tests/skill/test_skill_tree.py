"""How SKILL.md leads to the other files of a skill."""

from __future__ import annotations

import pytest

from skillgate.skill import Files, Step, parse
from skillgate.skill.tree import is_aside, stem


def steps(**files: str) -> dict[str, Step]:
    raw = {name.replace("__", "/").replace("_", "."): text.encode() for name, text in files.items()}
    return dict(parse(Files.from_map(raw), ".").steps)


def test_files_are_reached_in_the_fewest_steps() -> None:
    texts = {"one-x_md": "two, three", "two_md": "four", "three_md": "one-x", "four_md": ""}
    assert steps(SKILL_md="See one-x and three.", **texts) == {
        "SKILL.md": Step(0, ""),
        "one-x.md": Step(1, "SKILL.md"),
        "three.md": Step(1, "SKILL.md"),
        "two.md": Step(2, "one-x.md"),
        "four.md": Step(3, "two.md"),
    }


def test_what_lies_aside_leads_to_what_is_left() -> None:
    assert steps(SKILL_md="one", one_md="", README_md="one, two", two_md="three", three_md="") == {
        "SKILL.md": Step(0, ""),
        "README.md": Step(0, ""),
        "one.md": Step(1, "SKILL.md"),
        "two.md": Step(1, "README.md"),
        "three.md": Step(2, "two.md"),
    }


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("docs/", True),
        ("a/docs/*.md", True),
        ("`docs`", True),
        ("`a/docs`", True),
        ("DOCS/", True),
        ("See docs/.", True),
        ("docs/.hidden", False),
        ("docs", False),
        ("docs/b.md", False),
        ("mydocs/", False),
    ],
)
def test_a_folder_leads_to_its_files(text: str, is_named: bool) -> None:
    assert ("docs/words.md" in steps(SKILL_md=text, docs__words_md="")) is is_named


def test_the_longest_word_of_a_name_stands_for_it() -> None:
    names = ("a/B-c.test.md", "my file+x.md", "é.md", "++.md")
    assert [stem(name) for name in names] == ["b-c", "file", "é", "++"]


def test_which_files_need_no_mention() -> None:
    aside = (
        "LICENSE.txt",
        "docs/README.zh.md",
        "security.md",
        "tests/a.py",
        "a.test.ts",
        "x/__init__.py",
        ".env",
    )
    told = ("licenses.md", "security-x.md", "latest.md", "test.md", "contest_a.py")
    assert [name for name in (*aside, *told) if not is_aside(name)] == list(told)
