"""What `--fix` writes: the same file but for what was wrong, or nothing where that is in doubt."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.lint.fix import FIXES, Fixed, fix
from skillgate.lint.rule import Rule
from skillgate.skill import MAX_FILE_BYTES, MAX_LINES, Files, Skill, parse

ALL = tuple(FIXES)
QUOTES = bytes.maketrans(b"", b""), b"\"'"
GOOD = "---\nname: demo\ndescription: Turns notes into prose.\n---\n\nBody.\n"


def read(raw: bytes) -> Skill:
    return parse(Files.from_map({"SKILL.md": raw}), "skills/demo")


def with_line(line: str) -> str:
    return f"---\nname: demo\n{line}\nlicense: MIT\n---\n\nBody: it's.\n"


@pytest.mark.parametrize(
    ("line", "quoted", "text"),
    [
        ("description: two axes: A and B", 'description: "two axes: A and B"', "two axes: A and B"),
        ("description: Use for:", 'description: "Use for:"', "Use for:"),
        ("description:  a: b \t ", 'description:  "a: b" \t ', "a: b"),
        ("description: a: b's", 'description: "a: b\'s"', "a: b's"),
        ('description: a: "b"', "description: 'a: \"b\"'", 'a: "b"'),
        ('description: it\'s "a": b', "description: 'it''s \"a\": b'", 'it\'s "a": b'),
        ("description: a\\n: b", "description: 'a\\n: b'", "a\\n: b"),
        ("description: a: b\\", "description: 'a: b\\'", "a: b\\"),
        ("description: C#: a language", 'description: "C#: a language"', "C#: a language"),
        ("description: a: b - c, [d], {e} | > & * % @ `f`", None, None),
        ("description: a: b\u2028c", 'description: "a: b\u2028c"', "a: b\u2028c"),
        ("description: größer: 50 % 😀", 'description: "größer: 50 % 😀"', "größer: 50 % 😀"),
        ("description: Also --- this: here", 'description: "Also --- this: here"', "Also --- this: here"),
        (
            "description: a: b\n  and more\n\tof it",
            'description: "a: b\n  and more\n\tof it"',
            "a: b and more of it",
        ),
        ('description: a: b \n  it\'s "so" ', "description: 'a: b \n  it''s \"so\"' ", 'a: b it\'s "so"'),
        (
            "description: a: b\n  and for this: c",
            'description: "a: b\n  and for this: c"',
            "a: b and for this: c",
        ),
        ("when_to_use: a: b\ndescription: c: d", 'when_to_use: "a: b"\ndescription: "c: d"', "c: d"),
    ],
)
def test_an_unquoted_colon_is_quoted(line: str, quoted: str | None, text: str | None) -> None:
    if quoted is None or text is None:
        quoted, text = line.replace("a: b", '"a: b') + '"', line.removeprefix("description: ")
    fixed = fix(with_line(line).encode(), "skills/demo", ALL)
    assert (fixed.raw.decode(), fixed.rules) == (with_line(quoted), ("frontmatter-invalid",))
    skill = read(fixed.raw)
    assert (skill.problem, skill.description, skill.body) == (None, text, read(with_line(line).encode()).body)
    assert skill.frontmatter["license"].text == "MIT"


@pytest.mark.parametrize(
    "line",
    [
        "description: a: b # and a comment",
        "description: fix the bug: see #5, or #6: both",
        "description: Use for:\n  - a\n  - b: c",
        "description: a: b\n  model: c",
        "description: Turns notes into prose.license: MIT",
        "description: 笔记转为文章。license: Apache-2.0",
        "description: Turns notes into prose. allowed-tools: Read",
        "description: Use for metadata: titles and tags",
        "description: Turns notes\n  into prose. model:\n  x",
        "description: a: b\n\n  and more",
        "description: a: b\n# not the end\n  and more",
        "description: a: b\n  # a comment",
        "description: prose\n  and for: this: or that",
        "description: a: b\ndescription: c: d",
        "description: a: b\nmodel: [",
        "description: a: b\x07",
        "metadata: author: me",
        "metadata:\n  author: me: you",
        "metadata: {a: b, c: d: e}",
        "hooks: a: b",
        "- description: a: b",
        "description: 'a: b",
        "description: |\n  a: b\n c: d: e",
    ],
)
def test_what_is_in_doubt_is_left_to_the_author(line: str) -> None:
    raw = with_line(line).encode()
    assert read(raw).problem is not None
    assert fix(raw, "skills/demo", ALL) == Fixed(raw, ())


def test_twenty_values_are_quoted_and_no_more() -> None:
    """Each costs a parse of the whole."""
    for count, mended in ((20, ("frontmatter-invalid",)), (21, ()), (3_000, ())):
        lines = "\n".join(f"k{n}: a: b" for n in range(count))
        assert fix(with_line(lines).encode(), "skills/demo", ALL).rules == mended


@pytest.mark.parametrize(
    ("path", "line", "renamed"),
    [
        ("skills/demo", "name: other", "name: demo"),
        ("demo", "name:   other  # why", "name:   demo  # why"),
        ("skills/demo", "name: 'other'", "name: 'demo'"),
        ("skills/demo", '"name": "other" # why', '"name": "demo" # why'),
        ("skills/demo", "name:\n  other", "name:\n  demo"),
        ("skills/2026-11-29", "name: other", 'name: "2026-11-29"'),
        ("skills/1e3", "name: other", 'name: "1e3"'),
        ("skills/yes", "name: other", 'name: "yes"'),
        ("skills/yes", "name: 'other'", "name: 'yes'"),
        ("skills/null", "name: other", 'name: "null"'),
        (".", "name: other", None),
        ("skills/Demo", "name: other", None),
        ("skills/a_b", "name: other", None),
        (f"skills/{'a' * 65}", "name: other", None),
        ("skills/demo", "name: Other", None),
        ("skills/demo", "name: [other]", None),
        ("skills/demo", "name: &x other\nlicense: *x", None),
        ("skills/demo", "license: &x other\nname: *x", None),
        ("skills/demo", "name: !!str other", None),
        ("skills/demo", 'name: "\\x6fther"', None),
        ("skills/demo", "name: >-\n  other", None),
        ("skills/demo", "name: other\nname: another", None),
        ("skills/demo", "metadata: {name: other}", None),
        ("skills/demo", "name: other\nmodel: [", None),
    ],
)
def test_the_name_becomes_that_of_the_folder(path: str, line: str, renamed: str | None) -> None:
    text = f"---\n{line}\ndescription: Turns other notes into prose.\n---\n\nname: other\n"
    expected = text.replace(line, renamed, 1) if renamed else text
    fixed = fix(text.encode(), path, ALL)
    assert (fixed.raw.decode(), fixed.rules) == (expected, ("name-matches-folder",) if renamed else ())
    if renamed:
        assert read(fixed.raw).name == path.rpartition("/")[2]


@pytest.mark.parametrize(
    ("raw", "rules", "expected"),
    [
        (b"\xef\xbb\xbfa\r\nb\rc\n", ("byte-order-mark",), b"a\r\nb\rc\n"),
        (b"\xef\xbb\xbfa\r\nb\rc\n", ("line-endings",), b"\xef\xbb\xbfa\nb\nc\n"),
        (b"\xef\xbb\xbfa\r\r\n\nb", ALL, b"a\n\n\nb"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", ALL, b"\xef\xbb\xbf\xef\xbb\xbfa"),
        (b"a\xef\xbb\xbf\x0b\x0c\xc2\x85\xe2\x80\xa8\n", ALL, b"a\xef\xbb\xbf\x0b\x0c\xc2\x85\xe2\x80\xa8\n"),
        (b"", ALL, b""),
        (b"\xef\xbb\xbf", ALL, b""),
        (
            b"\xef\xbb\xbf---\r\nname: x\r\ndescription: a: b\r\n  c\r\n---\rBody\r\n",
            ("frontmatter-invalid", "name-matches-folder"),
            b'\xef\xbb\xbf---\r\nname: demo\r\ndescription: "a: b\r\n  c"\r\n---\rBody\r\n',
        ),
    ],
)
def test_marks_and_line_ends_go_alone(raw: bytes, rules: tuple[str, ...], expected: bytes) -> None:
    assert fix(raw, "skills/demo", rules).raw == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf---\r\nname: caf\xe9\r\n---\r\n",
        "\ufeff---\r\nname: other\r\n---\r\n".encode("utf-16-le"),
        GOOD.replace("demo", "other").replace("\n", "\r\n").encode() + b"x" * MAX_FILE_BYTES,
        GOOD.replace("demo", "other").encode() + b"\r\n" * MAX_LINES,
    ],
)
def test_what_is_not_utf_8_or_not_read_as_a_whole_is_not_touched(raw: bytes) -> None:
    assert fix(raw, "skills/demo", ALL) == Fixed(raw, ())


def test_only_what_is_found_is_mended() -> None:
    raw = b"\xef\xbb\xbf---\r\nname: other\r\ndescription: a: b\r\n---\r\n"
    assert fix(raw, "skills/demo", ("description-length", "hardcoded-path")) == Fixed(raw, ())
    assert set(fix(raw, "skills/demo", ALL).rules) == set(ALL)


WORDS = st.sampled_from(
    [*"ab:#'\"\\-?>|&*!%@`[]{},\t ", ": ", " #", "é", "😀", "\x85", "\u2028", "\x07", "- ", "b:"]
)
VALUES = st.lists(WORDS, max_size=8).map("".join)
LINES = st.one_of(
    st.builds("{}: {}".format, st.sampled_from(["description", "license", "metadata", "x"]), VALUES),
    st.builds("{}: a: b{}".format, st.sampled_from(["description", "license", "x"]), VALUES.map(str.strip)),
    st.builds(
        "name: {}".format, st.sampled_from(["other", "'other'", '"other" # x', "demo", "&a o", "Other"])
    ),
    st.builds("  {}".format, VALUES),
    st.sampled_from(["", "---", "# x: y", "x: |", "x: >-", "x: 'a", "x: {a: b,", "}"]),
)
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@st.composite
def skills(draw: st.DrawFn) -> bytes:
    lines = ["---", *draw(st.lists(LINES, max_size=4)), "---", draw(VALUES)]
    text = "".join(line + draw(ENDS) for line in lines)
    return (draw(st.sampled_from(["", "", "\ufeff", "\ufeff\ufeff"])) + text).encode()


@settings(deadline=None, max_examples=400)
@given(skills() | st.binary(max_size=60), st.sets(st.sampled_from(ALL)))
def test_mending_is_idempotent_and_changes_nothing_else(raw: bytes, rules: set[str]) -> None:
    fixed = fix(raw, "skills/demo", rules)
    assert set(fixed.rules) <= rules
    assert (fixed.raw != raw) == bool(fixed.rules)
    assert fix(fixed.raw, "skills/demo", rules) == Fixed(fixed.raw, ())
    before, after = read(raw), read(fixed.raw)
    assert after.body == before.body
    kept = {key: field.text for key, field in after.frontmatter.items() if key != "name"}
    if "frontmatter-invalid" in fixed.rules:
        assert (before.problem is None, after.problem) == (False, None)
    else:
        assert kept == {key: field.text for key, field in before.frontmatter.items() if key != "name"}
        assert (before.problem is None) == (after.problem is None)
    if "name-matches-folder" in fixed.rules:
        assert after.name == "demo"
    elif "frontmatter-invalid" not in fixed.rules:
        assert after.name == before.name
    if set(fixed.rules) == {"frontmatter-invalid"}:
        assert fixed.raw.translate(None, b"'\"") == raw.translate(None, b"'\"")


@settings(deadline=None, max_examples=300)
@given(st.lists(VALUES.map(str.strip).filter(bool), min_size=1, max_size=3))
def test_a_quoted_value_says_what_the_author_wrote(lines: list[str]) -> None:
    raw = with_line("description: a: " + "\n  ".join(lines)).encode()
    fixed = fix(raw, "skills/demo", ALL)
    if fixed.rules:
        assert read(fixed.raw).description == " ".join(["a:", *(line.strip(" \t") for line in lines)])


def test_the_rule_files_say_what_is_mended(rules: tuple[Rule, ...]) -> None:
    assert {rule.id for rule in rules if rule.fix} == set(ALL)
