"""What the rules of the specification find and let pass: the traps that users of other linters hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from skillgate.config import LintConfig
from skillgate.core import Finding
from skillgate.lint.check import Library, listed
from skillgate.lint.engine import lint_library, lint_skill
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, Stray, parse, scan

Lint = Callable[..., tuple[Finding, ...]]
DESCRIPTION = "description: Turns notes into prose. Use for notes."


def front(*lines: str) -> str:
    return "\n".join(["---", "name: demo", DESCRIPTION, *lines, "---", "", "# Demo", ""])


GOOD = front()


def short(found: Sequence[Finding]) -> list[str]:
    return [f"{f.where.line}:{f.where.column} {f.severity} {f.rule} {f.match}".strip() for f in found]


# --- bytes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (GOOD.encode(), []),
        (b"\xef\xbb\xbf" + GOOD.encode(), ["1:1 warning byte-order-mark BOM"]),
        (GOOD.replace("\n", "\r\n").encode(), ["1:1 note line-endings crlf"]),
        (GOOD.replace("\n", "\r").encode(), ["1:1 note line-endings crlf"]),
        (GOOD.replace("---\n", "---\r\n").encode(), ["1:1 note line-endings mixed"]),
        (
            b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(),
            ["1:1 warning byte-order-mark BOM", "1:1 note line-endings crlf"],
        ),
        (GOOD.encode("utf-16"), ["1:1 warning not-fully-read encoding"]),
        (GOOD.encode() + b"caf\xe9\x1b", ["1:1 warning not-fully-read encoding"]),
        (GOOD.encode() + b"a\0b \x1b[31m\0", ["7:2 warning control-character U+0000, U+001B"]),
        (GOOD.encode() + "\x85 \x9b".encode(), ["7:1 warning control-character U+0085, U+009B"]),
        (GOOD.encode() + "\t می‌خواهم 👩‍💻\n".encode(), []),
        (GOOD.replace("notes into", "no\x1btes into").encode(), ["3:22 error frontmatter-invalid yaml"]),
        (b"", ["1:1 error frontmatter-missing empty"]),
    ],
)
def test_bytes_that_clients_trip_over(lint: Lint, raw: bytes, expected: list[str]) -> None:
    assert short(lint(raw)) == expected


def test_bytes_of_other_files(lint: Lint) -> None:
    files = {
        "run.sh": "#!/bin/sh\r\necho\r\n",
        "data.csv": "a\r\nb\r\n",
        "words.md": "a\x07b\r\n",
        "colours.sh": "#!/bin/sh\necho '\x1b[31m'\n",
    }
    found = [
        (f.where.path, f.severity, f.rule) for f in lint(GOOD + "Read [the words](words.md).\n", files=files)
    ]
    wanted = {"byte-order-mark", "line-endings", "control-character"}
    assert [each for each in found if each[2] in wanted] == [
        ("skills/demo/run.sh", "warning", "line-endings"),
        ("skills/demo/words.md", "warning", "control-character"),
    ]


def test_one_file_of_another_encoding_does_not_stop_the_rest(lint: Lint) -> None:
    latin = (GOOD + "caf\xe9 [x](gone.md)\n").encode("latin-1")
    assert [f.rule for f in lint(latin)] == ["not-fully-read", "broken-reference"]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("../../SKILL.md", "../../SKILL.md"),
        ("../../../.agents/skills/demo/SKILL.md", "../../../.agents/skills/demo/SKILL.md"),
        ("../../SKILL.md\n", ""),  # git writes no line end
        ("SKILL.md", ""),
        ("see ../../SKILL.md", ""),
        ("../../README", ""),
    ],
)
def test_a_link_that_became_text(lint: Lint, text: str, target: str) -> None:
    (found,) = lint(text)
    rule = "link-as-text" if target else "frontmatter-missing"
    assert (found.rule, found.severity, found.match) == (rule, "error", target or "missing")


def test_bundled_files_that_are_links_as_text(lint: Lint) -> None:
    files = {"a.md": "../x/a.md", "b.py": "../b.py", "scripts": "../x/scripts", "c.txt": "c.md", "d": "x/y"}
    body = "Read [a](a.md), [c](c.txt) and run `b.py`.\n"
    found = [(f.where.path, f.match) for f in lint(GOOD + body, files=files) if f.rule == "link-as-text"]
    assert found == [
        ("skills/demo/a.md", "../x/a.md"),
        ("skills/demo/b.py", "../b.py"),
        ("skills/demo/scripts", "../x/scripts"),
    ]


# --- frontmatter ------------------------------------------------------------------


def test_an_unquoted_colon_is_one_finding_that_names_what_is_lost(lint: Lint) -> None:
    text = front("allowed-tools: Read").replace(DESCRIPTION, "description: two axes: A and B")
    (found,) = lint(text)
    assert (found.where.line, found.where.column, found.match) == (3, 22, "description")
    assert found.message.endswith("a client may lose every field, allowed-tools too")
    assert found.hint == 'Quote the value: `description: "..."`.'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["license: MIT", "license: MIT"], "5:1 error frontmatter-invalid license"),
        (["metadata:", "  a: x", "  a: y"], "6:3 error frontmatter-invalid a"),
        (["license: !!python/object/apply:os.system [true]"], "4:10 error frontmatter-invalid unsafe-tag"),
        (["metadata: {a: !secret x}"], "4:15 error frontmatter-invalid unsafe-tag"),
        ([r'license: "a \ud800"'], "4:10 error frontmatter-invalid license"),
        ([r'license: "a \ud83d\ude00"'], "4:10 error frontmatter-invalid license"),
        ([r'license: "a \U0001F600"'], ""),
        (["license: !!str 2"], ""),
        (["license: 'a: b'"], ""),
        (["hooks: {Stop: [{name: NOT IT, name2: x}]}"], ""),
        (["allowed-tools: [Read, Bash]"], ""),
        (["license: [*a]"], "4:11 error frontmatter-invalid yaml"),
    ],
)
def test_yaml_that_some_loaders_refuse(lint: Lint, lines: list[str], expected: str) -> None:
    assert short(lint(front(*lines))) == ([expected] if expected else [])


def test_an_alias_bomb_is_one_finding(lint: Lint) -> None:
    bomb = [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    assert short(lint(front("k0: &a0 [x]", *bomb))) == ["2:1 error frontmatter-invalid yaml"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("yes", "2:7 error frontmatter-invalid name"),
        ("2024", "2:7 error frontmatter-invalid name"),
        ("1.5", "2:7 error frontmatter-invalid name"),
        ("2024-01-31", "2:7 error frontmatter-invalid name"),
        ("[demo]", "2:7 error frontmatter-invalid name"),
        ("null", "2:1 error name-format"),
        ("~", "2:1 error name-format"),
        ("", "2:1 error name-format"),
        ("café", "2:7 note name-format café"),
        ("de_mo", "2:7 error name-format de_mo"),
        ('"demo"', ""),
    ],
)
def test_names_that_yaml_takes_for_something_else(lint: Lint, name: str, expected: str) -> None:
    assert short(lint(front().replace("name: demo", f"name: {name}"))) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["license: MIT"], []),
        (["license: 2"], ["4:1 note field-types license"]),
        (["license: [MIT]"], ["4:1 note field-types license"]),
        (["license:"], []),
        (["compatibility: {needs: git}"], ["4:1 note field-types compatibility"]),
        (["allowed-tools: Read Bash"], []),
        (["allowed-tools:", "  - Read", '  - "Bash(git:*)"'], []),
        (["allowed-tools:"], []),
        (["allowed-tools: [Read, 2]"], ["4:1 warning field-types allowed-tools"]),
        (["allowed-tools: {Read: x}", "x: 1"], [
            "4:1 warning field-types allowed-tools", "5:1 note unknown-key x"]),
        (["metadata: text"], ["4:1 note field-types metadata"]),
        (["metadata: [a]"], ["4:1 note field-types metadata"]),
        (["metadata:", "  version: 1.10", "  on: 2026-01-31", "  tags: [a]"], [
            "5:3 note field-types metadata.version",
            "6:3 note field-types metadata.on",
            "7:3 note field-types metadata.tags"]),
        (["metadata:", "  version: '1.10'", "  openclaw: {requires: {bins: [git]}}", "  empty:"], []),
        (["model: 2", "paths: [a]", "effort: 3"], []),
    ],
)  # fmt: skip
def test_types_of_fields(lint: Lint, lines: list[str], expected: list[str]) -> None:
    assert sorted(short(lint(front(*lines)))) == sorted(expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.10", "is the number 1.1 and not the text `1.10`; a client may show that or refuse it"),
        ("1.5", "is a number, the specification has text there; a client may refuse it"),
        ("7", "is a number, the specification has text there; a client may refuse it"),
        (
            "2026-01-31",
            "is a date, the specification has text there; a client may refuse it or show it with a time",
        ),
        ("no", "is a yes/no value, the specification has text there; a client may refuse it or show `True`"),
    ],
)
def test_each_value_is_called_what_it_is_and_given_back_in_quotes(
    lint: Lint, value: str, message: str
) -> None:
    (found,) = lint(front("metadata:", f"  key: {value}"))
    assert found.message == f"`metadata.key` {message}"
    assert found.hint == f'Quote it: `key: "{value}"`.'


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("tools: Read, Bash", "Did you mean `allowed-tools` instead of `tools`?"),
        ("tools: [Read]", "Did you mean `allowed-tools` instead of `tools`?"),
        ("tools: [claude, cursor]", "Facts of your own belong under `metadata:`."),
    ],
)
def test_tools_as_other_files_name_them(lint: Lint, line: str, hint: str) -> None:
    (found,) = lint(front(line))
    assert (found.rule, found.hint) == ("unknown-key", hint)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("c" * 500, []),
        ("c" * 501, ["4:16 warning compatibility-length compatibility"]),
        ("é" * 500, []),
        ('""', ["4:1 warning compatibility-length compatibility"]),
        ('"  "', ["4:1 warning compatibility-length compatibility"]),
        ("", ["4:1 warning compatibility-length compatibility"]),
    ],
)
def test_the_length_of_compatibility(lint: Lint, value: str, expected: list[str]) -> None:
    assert short(lint(front(f"compatibility: {value}"))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD.replace("\n# Demo\n", ""), ["5:1 warning body-missing body"]),
        (GOOD.replace("# Demo", "  \n\t"), ["8:1 warning body-missing body"]),
        (GOOD.replace("# Demo", "x"), []),
        ("---\nname: demo\n", ["1:1 error frontmatter-missing unclosed"]),
    ],
)
def test_a_skill_without_a_body(lint: Lint, text: str, expected: list[str]) -> None:
    assert short(lint(text)) == expected


# --- folders ----------------------------------------------------------------------


def library_of(root: Path) -> Library:
    found = scan(root)
    skills = [parse(Files.from_folder(root / folder), folder) for folder in found.skills]
    return Library(tuple(map(listed, skills)), found.strays)


def write(root: Path, *names: str) -> None:
    for name in names:
        file = root / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(GOOD.replace("name: demo", f"name: {name.rpartition('/')[2]}"), encoding="utf-8")


def test_links_on_a_disk(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    root, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    write(root, "skills/demo")
    write(elsewhere, "other")
    (root / "skills/twin").symlink_to("demo")  # inside: the same skill once more
    (root / "skills/out").symlink_to(elsewhere / "other")
    (root / "skills/gone").symlink_to("nowhere")
    (root / "skills/round").symlink_to("round")
    (root / "skills/demo/up").symlink_to("..")
    (root / "skills/demo/words.md").symlink_to("old/words.md")
    found = lint_library(library_of(root), rules)
    assert [(f.where.path, f.severity, f.rule, f.message.partition(";")[0]) for f in found] == [
        (
            "skills/demo/words.md",
            "warning",
            "broken-link",
            "the symbolic link `words.md` leads nowhere, or round in a circle",
        ),
        (
            "skills/gone",
            "warning",
            "broken-link",
            "the symbolic link `gone` leads nowhere, or round in a circle",
        ),
        (
            "skills/out",
            "warning",
            "broken-link",
            "the symbolic link `out` leads out of the folder that was searched, so what it holds was"
            " not checked",
        ),
        (
            "skills/round",
            "warning",
            "broken-link",
            "the symbolic link `round` leads nowhere, or round in a circle",
        ),
    ]


def test_a_misspelt_file_on_a_disk(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    write(tmp_path, "skills/demo", "skills/a", "skills/b")
    (tmp_path / "skills/a/SKILL.md").rename(tmp_path / "skills/a/skill.md")
    (tmp_path / "skills/b/SKILL.md").rename(tmp_path / "skills/b/SKILL.MD")
    found = lint_library(library_of(tmp_path), rules)
    assert [(f.where.path, f.severity, f.rule, f.hint) for f in found] == [
        (
            "skills/a/skill.md",
            "error",
            "skill-file-name",
            "Rename it: `git mv skills/a/skill.md skills/a/SKILL.md`.",
        ),
        (
            "skills/b/SKILL.MD",
            "error",
            "skill-file-name",
            "Rename it: `git mv skills/b/SKILL.MD skills/b/SKILL.md`.",
        ),
    ]


@pytest.mark.parametrize(
    ("skills", "strays", "expected"),
    [
        ((), (), ["error no-skills-found ."]),
        ((), ("demo/skill.md",), ["error no-skills-found demo/skill.md"]),
        (("demo",), ("demo/skill.md",), ["warning skill-file-name skill.md"]),
        ((".",), ("Skill.md",), ["warning skill-file-name Skill.md"]),
        ((".",), ("demo/skill.md",), ["error skill-file-name skill.md"]),
    ],
)
def test_misspelt_beside_right_and_alone(
    rules: tuple[Rule, ...], skills: tuple[str, ...], strays: tuple[str, ...], expected: list[str]
) -> None:
    found = [listed(parse(Files.from_map({"SKILL.md": GOOD.encode()}), path)) for path in skills]
    library = Library(tuple(found), tuple(Stray(path, "case") for path in strays))
    assert [f"{f.severity} {f.rule} {f.match}" for f in lint_library(library, rules)] == expected


def test_a_skill_in_the_root_and_others_below(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    write(tmp_path, "skills/demo", "skills/other")
    (tmp_path / "SKILL.md").write_text(GOOD + "Read [the notes](notes.md).\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("Notes.\n", encoding="utf-8")  # a flat layout
    folders = scan(tmp_path).skills
    assert folders == (".", "skills/demo", "skills/other")
    skills = [parse(Files.from_folder(tmp_path / folder), folder) for folder in folders]
    assert [skill.files.names for skill in skills] == [("SKILL.md", "notes.md"), ("SKILL.md",), ("SKILL.md",)]
    assert [lint_skill(skill, rules) for skill in skills] == [(), (), ()]


# --- the reference validator ------------------------------------------------------


@pytest.fixture(scope="module")
def strict() -> tuple[Rule, ...]:
    on = {"reference-validator": True}
    return tuple(r for r in configure(load_rules(shipped("rules")), LintConfig(rules=on)) if r.id in on)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, []),
        (front("allowed-tools: [Read, Bash]"), ["4:16 flow"]),
        (front("metadata: {a: b}", "allowed-tools: [&a Read, *a]"), ["4:11 flow", "5:17 anchor"]),
        (front("metadata:", "  a: &x one", "  b: *x"), ["5:6 anchor"]),
        (front("license: !!str 2"), ["4:10 tag"]),
        (front("metadata:", "  version: 1.0", "  nested:", "    a: b"), []),
        (front("allowed-tools:", "- Read"), []),
        (front('license: "a [b] {c} & *d !e"'), []),
        (front("license: a --- b"), ["4:12 ---"]),
        (front('license: "a --- b"'), ["4:13 ---"]),
        (front("license: |", "  a", "  ---"), ["6:3 ---"]),
        (front("# --- a comment"), ["4:3 ---"]),
        (GOOD + "\n---\n", []),
        (front().replace("---\n", "---  \n"), []),
        (front("argument-hint: x", "version: 1"), ["4:1 argument-hint, version"]),
        (front("license: a: b"), []),  # not valid in the first place
    ],
)
def test_what_the_reference_validator_rejects(
    strict: tuple[Rule, ...], text: str, expected: list[str]
) -> None:
    """Each was given to skills-ref 0.1.1: it rejects what is expected here, but cuts unquoted dashes."""
    skill = parse(Files.from_map({"SKILL.md": text.encode()}), "demo")
    found = lint_skill(skill, strict)
    assert [f"{f.where.line}:{f.where.column} {f.match}" for f in found] == expected
    assert {f.severity.value for f in found} <= {"note"}
