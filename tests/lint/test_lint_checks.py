"""What the checks find and, above all, what they let pass: the traps that users of other linters hit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skillgate.core import Finding

Lint = Callable[..., tuple[Finding, ...]]


def front(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", ""])


def bare(*lines: str) -> str:
    return front(*lines) + "# Demo\n"


DESCRIPTION = "description: Turns notes into prose. Use for notes."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bare("name: demo", DESCRIPTION, "allowed-tools: [Read, Bash]", "x: 1"), ["5:1 note unknown-key x"]),
        (
            bare("name: demo", DESCRIPTION, "metadata: {tags: [a, b], version: 1}"),
            ["4:12 note field-types metadata.tags", "4:26 note field-types metadata.version"],
        ),
        (
            bare("name: demo", DESCRIPTION, "metadata:", "  parts:", "  - name: NOT IT"),
            ["5:3 note field-types metadata.parts"],
        ),
        (bare("name: demo", "description: a: b", "x: 1"), ["3:15 error frontmatter-invalid description"]),
        (bare("name: café", DESCRIPTION), ["2:7 note name-format café"]),
        (bare("name: Demo", DESCRIPTION), ["2:7 error name-format Demo"]),
        (bare("name: de--mo", DESCRIPTION), ["2:7 error name-format de--mo"]),
        (bare("name: -demo", DESCRIPTION), ["2:7 error name-format -demo"]),
        (bare(f"name: {'d' * 65}", DESCRIPTION), [f"2:7 error name-format {'d' * 65}"]),
        (bare(f"name: {'d' * 64}", DESCRIPTION), [f"2:7 error name-matches-folder {'d' * 64}"]),
        (bare("name:", DESCRIPTION), ["2:1 error name-format"]),
        (bare('name: ""', DESCRIPTION), ["2:1 error name-format"]),
        (bare("name: yes", DESCRIPTION), ["2:7 error frontmatter-invalid name"]),
        (bare("name: 2024", DESCRIPTION), ["2:7 error frontmatter-invalid name"]),
        (bare("name: demo", "description: |", "  "), ["3:1 error description-missing description"]),
        (
            bare("name: demo", f"description: {'word ' * 204}word"),
            [
                "3:14 note keyword-stuffing word",
                "3:14 note token-weight listing",
                "3:14 note vague-description description",
            ],
        ),
        (
            bare("name: demo", DESCRIPTION, "tags: [a]", "desciption: x", "alowed-tools: x"),
            ["5:1 note unknown-key tags, desciption, alowed-tools"],
        ),
        (
            "no frontmatter /Users/alice/x",
            ["1:1 error frontmatter-missing missing", "1:16 warning hardcoded-path /Users/alice"],
        ),
    ],
)
def test_frontmatter(lint: Lint, text: str, expected: list[str]) -> None:
    found = lint(text)
    assert [
        f"{f.where.line}:{f.where.column} {f.severity} {f.rule} {f.match}".strip() for f in found
    ] == expected


def test_the_limits_of_a_description_are_counted_in_characters(lint: Lint) -> None:
    assert [f.rule for f in lint(bare("name: demo", f"description: {'é' * 1025}"))] == [
        "description-length",
        "token-weight",
        "vague-description",
    ]
    assert "description-length" not in [
        f.rule for f in lint(bare("name: demo", f"description: {'é' * 1024}"))
    ]


def test_hints_name_what_to_write(lint: Lint) -> None:
    def hint(text: str, **options: object) -> str:
        (finding,) = lint(text, **options)
        return finding.hint

    assert hint(bare("name: Café Notes", DESCRIPTION)) == "Write `cafe-notes`, and name the folder so."
    assert hint(bare("name: x", DESCRIPTION)) == "Write `name: demo`, or rename the folder."
    assert hint(bare("name: my-notes", DESCRIPTION), path="skills/My_Notes").startswith(
        "Rename the folder to `my-notes`"
    )
    assert (
        hint(bare("name: demo", DESCRIPTION, "allowed_tools: x"))
        == "Did you mean `allowed-tools` instead of `allowed_tools`?"
    )


def test_a_skill_in_the_root_has_no_folder_to_match(lint: Lint) -> None:
    assert lint(bare("name: anything", DESCRIPTION), path=".") == ()


def test_lines_and_columns_are_those_of_the_bytes_on_disk(lint: Lint) -> None:
    text = front("name: demo", DESCRIPTION) + "-\té 😀 [a](gone.md) /Users/alice/x\n"
    for raw in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n").encode()):
        found = [(f.where.line, f.where.column, f.match) for f in lint(raw) if f.where.line > 1]
        assert found == [(5, 11, "gone.md"), (5, 20, "/Users/alice")]


def test_what_could_not_be_read_is_said(lint: Lint) -> None:
    text = bare("name: demo", DESCRIPTION)
    big = lint(text, files={"a.txt": "x " * 600_000, "b.md": text})
    assert [(f.where.path, f.message.partition(";")[0]) for f in big] == [
        ("skills/demo/a.txt", "only the first 1,000,000 bytes or 10,000 lines of this file were checked")
    ]
    tree = lint(text, files={f"{n:02}.txt": "x" * 900_000 for n in range(19)})
    assert [(f.where.path, f.message) for f in tree] == [
        (
            "skills/demo/17.txt",
            "this file was not checked: the text files of this skill hold more than 16,000,000 characters",
        )
    ]
    assert [f.rule for f in lint(text.encode() + b"caf\xe9 [x](gone.md)")] == [
        "not-fully-read",
        "broken-reference",
    ]
