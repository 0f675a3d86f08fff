"""Decoding and frontmatter: any bytes give a skill, with exact lines and columns."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.skill import Facts, Files, Skill, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose.\n---\n"


def make(content: str | bytes) -> Skill:
    raw = content if isinstance(content, bytes) else content.encode()
    return parse(Files.from_map({"SKILL.md": raw}), "skills/demo")


def marks(skill: Skill) -> dict[str, tuple[str | None, str, str]]:
    return {
        key: (
            field.text,
            f"{field.key_at.line}:{field.key_at.column}",
            f"{field.value_at.line}:{field.value_at.column}",
        )
        for key, field in skill.frontmatter.items()
    }


DEMO = {"name": ("demo", "2:1", "2:7"), "description": ("Turns notes into prose.", "3:1", "3:14")}


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (HEAD.encode(), Facts()),
        (b"\xef\xbb\xbf" + HEAD.encode(), Facts(bom=True)),
        (HEAD.replace("\n", "\r\n").encode(), Facts(crlf=True)),
        (HEAD.replace("\n", "\r").encode(), Facts(crlf=True)),
        (b"\xef\xbb\xbf" + HEAD.replace("\n", "\r\n").encode(), Facts(bom=True, crlf=True)),
        (HEAD.encode("utf-16"), Facts(bom=True, encoding="utf-16")),
        (HEAD.encode() + b"caf\xe9", Facts(encoding="cp1252")),
    ],
)
def test_marks_are_the_same_under_every_encoding(raw: bytes, facts: Facts) -> None:
    skill = make(raw)
    assert (marks(skill), skill.facts, skill.body_line, skill.problem) == (DEMO, facts, 5, None)


def test_columns_count_characters_also_with_tabs_and_wide_letters() -> None:
    skill = make('---\n"name":\t"x"\nmetadata: {emoji: "😀😀", tags: [a, b]}\nlicense:   MIT\n---\n')
    assert marks(skill) == {
        "name": ("x", "2:1", "2:9"),
        "metadata": (None, "3:1", "3:11"),
        "license": ("MIT", "4:1", "4:12"),
    }


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("", "empty", "1:1"),
        (" \n\n", "empty", "1:1"),
        ("# Demo\n", "missing", "1:1"),
        ("\n---\nname: demo\n---\n", "late", "1:1"),
        ("---\nname: demo\n\n# Demo\n", "unclosed", "1:1"),
        ("---\nname: demo\n ---\n", "unclosed", "1:1"),
        ("---\n---\n", "yaml", "2:1"),
        ("---\n- a\n---\n", "yaml", "2:1"),
        ("---\njust text\n---\n", "yaml", "2:1"),
        ("---\nname: demo\nname: demo\n---\n", "duplicate-key", "3:1"),
        ("---\nname: !!python/name:os.x\n---\n", "unsafe-tag", "2:7"),
        ("---\nmetadata: {a: !thing 1}\n---\n", "unsafe-tag", "2:15"),
        ('---\nname: "demo\n---\n', "yaml", "2:7"),
        ("---\nname: demo\ndescription: two axes: A and B\n---\n", "unquoted-colon", "3:22"),
        ("---\nname: demo\nmetadata:\n  note: two axes: A\n---\n", "unquoted-colon", "4:17"),
        ("---\nname: demo\n\tx: 1\n---\n", "yaml", "3:1"),
        ("---\nname: @demo\n---\n", "yaml", "2:7"),
        ("---\nname: a\x00b\n---\n", "yaml", "2:8"),
        (f"---\nname: {'[' * 5000}\n---\n", "yaml", "2:1"),
        (f"---\nname: {'- ' * 5000}\n---\n", "yaml", "2:7"),
        (f"---\n{'- ' * 5000}\n---\n", "yaml", "2:1"),
        (f"---\nname: {'x' * 40_000}\n---\n", "yaml", "1:1"),
    ],
)
def test_each_problem_has_its_kind_and_place(text: str, kind: str, where: str) -> None:
    problem = make(text).problem
    assert problem is not None
    assert (problem.kind, f"{problem.where.line}:{problem.where.column}") == (kind, where)


def test_one_broken_line_does_not_hide_the_other_fields() -> None:
    skill = make(
        "---\nname: demo\ndescription: two axes: A\n  and B\nallowed-tools: [Read, Bash]\n---\nbody\n"
    )
    assert marks(skill) == {
        "name": ("demo", "2:1", "2:7"),
        "description": ("two axes: A and B", "3:1", "3:14"),
        "allowed-tools": ("[Read, Bash]", "5:1", "5:16"),
    }
    assert skill.body == "body\n"


def test_dashes_inside_a_value_do_not_close_the_frontmatter() -> None:
    skill = make('---\nname: demo\ndescription: "a --- b"\nlicense: |\n  x\n  ---\n---\n\nbody\n')
    assert (skill.problem, skill.description, skill.body) == (None, "a --- b", "\nbody\n")


def test_an_alias_bomb_is_a_problem_and_is_not_expanded() -> None:
    lines = [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    skill = make("\n".join(["---", "name: demo", "k0: &a0 [x]", *lines, "---", ""]))
    assert skill.name == "demo"
    assert skill.problem is not None
    assert "expands" in skill.problem.detail


def test_half_surrogates_are_read_by_the_slower_loader() -> None:
    skill = make('---\nname: "\\ud800"\n---\n')
    assert skill.name == "\ud800"
    assert skill.problem is not None
    assert skill.problem.detail == "`\\ud800` in the value of `name` is only half of a character"


@pytest.mark.parametrize(
    ("value", "tag"),
    [("yes", "bool"), ("2024", "int"), ("[a]", "seq"), ("{a: b}", "map"), ("", "null"), ("!x y", "!x")],
)
def test_a_value_that_is_not_text_is_none(value: str, tag: str) -> None:
    field = make(f"---\nname: {value}\n---\n").frontmatter["name"]
    assert (field.text, field.tag) == (None, tag)


TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029")  # YAML folds these


@settings(deadline=None)  # the machine may be busy
@given(
    st.dictionaries(st.text(TEXT, min_size=1, max_size=8), st.text(TEXT, max_size=20), min_size=1, max_size=5)
)
def test_what_yaml_writes_is_read_back_with_its_marks(fields: dict[str, str]) -> None:
    skill = make(f"---\n{yaml.safe_dump(fields, allow_unicode=True, width=1000)}---\n".encode())
    assert {key: field.text for key, field in skill.frontmatter.items()} == fields
    for key, field in skill.frontmatter.items():
        line = skill.source.lines[field.key_at.line - 1][field.key_at.column - 1 :]
        assert line.startswith((key[0], '"', "'", "?"))


@settings(deadline=None)  # the machine may be busy
@given(
    st.binary(max_size=400)
    | st.text(max_size=200).map(lambda t: f"---\n{t}\n---\n{t}".encode("utf-8", "replace"))
)
def test_no_bytes_make_the_loader_raise(raw: bytes) -> None:
    skill = parse(Files.from_map({"SKILL.md": raw, "notes.txt": raw}), "demo")
    lines = len(skill.source.lines)
    assert skill.body in skill.text
    places = [field.value_at for field in skill.frontmatter.values()] + [link.where for link in skill.links]
    blocks = [block.line for block in skill.code_blocks] + [part.line for part in skill.slices]
    assert all(1 <= line <= lines for line in [*(place.line for place in places), *blocks])
    assert len(skill.prose) <= lines
    assert len(skill.sources) <= 2
