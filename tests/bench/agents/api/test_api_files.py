"""Files and the editor of the agent `api`: everything is done by commands in the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.agents.api.calls import End
from skillgate.bench.agents.api.editor import edit
from skillgate.bench.agents.api.files import MAX_FILE_BYTES, FileProblem, Hands
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import KILLED, CommandResult, Limit, Phase
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace
from tests.fakes.agent_jobs import LOCAL

ODD_NAMES = ("a b.txt", "-rf", "it's", "$(touch x)", "`id`", "new\nline", "é.txt", 'q"q', "deep/er/file", "*")


class Place:
    """A workspace and hands that work in it."""

    def __init__(self, root: Path, hands: Hands) -> None:
        self.root, self.hands = root, hands

    def edit(self, command: str, **members: Any) -> str:
        return edit(self.hands, {"command": command, **members})


@pytest.fixture
def place(tiny_suite: Path) -> Iterator[Place]:
    with (
        Workspace.create(load_suite(tiny_suite)) as workspace,
        LOCAL.session(workspace, Phase.AGENT, Limits()) as s,
    ):
        yield Place(workspace.workspace, Hands(s))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_is_only_a_name(place: Place, name: str) -> None:
    before = {one.name for one in place.root.iterdir()}
    place.hands.write(name, b"one\n")
    assert (place.root / name).read_bytes() == b"one\n"
    assert place.hands.read(name) == b"one\n"
    assert {one.name for one in place.root.iterdir()} == before | {name.split("/")[0]}


@pytest.mark.parametrize("size", [0, 1, 43_999, 44_000, 44_001, 66_000, 66_001, 200_000, MAX_FILE_BYTES])
def test_any_bytes_come_back(place: Place, size: int) -> None:
    content = bytes(number * number % 251 for number in range(size))
    place.hands.write("data", content)
    assert (place.root / "data").read_bytes() == content
    assert place.hands.read("data") == content


def test_what_cannot_be_read(place: Place) -> None:
    os.mkfifo(place.root / "pipe")
    (place.root / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    problems = {
        "calc": "is a folder",
        "none": "does not exist",
        "pipe": "is no plain file",
        "large": f"has {MAX_FILE_BYTES + 1} bytes, too many; look at parts of it with a command",
    }
    for path, why in problems.items():
        with pytest.raises(FileProblem) as caught:
            place.hands.read(path)
        assert str(caught.value) == f"{path} {why}"
    for path in ("", "a\0b", "x" * 4000):
        with pytest.raises(FileProblem, match="this is no path"):
            place.hands.read(path)


def test_what_cannot_be_written(place: Place) -> None:
    for path, why in (("calc", "calc is a folder"), ("run.sh/more", "run.sh/more failed: .*")):
        with pytest.raises(FileProblem, match=why):
            place.hands.write(path, b"x")


def test_written_through_a_link_only_where_it_may(place: Place, tmp_path: Path) -> None:
    (place.root / "link").symlink_to(place.root / "calc")
    place.hands.write("link/a", b"1")
    assert (place.root / "calc/a").read_bytes() == b"1"
    for path in ("link/b", "./link/b", "link"):
        with pytest.raises(FileProblem, match="is a link, or lies behind one"):
            place.hands.write(path, b"1", follow=False)
    assert not (place.root / "calc/b").exists()


def test_names_are_sorted_plain_files_without_skills(place: Place) -> None:
    for name in (
        ".claude/skills/a/SKILL.md",
        ".agents/skills/a/SKILL.md",
        ".git/config",
        ".claude/rules.md",
        "Z",
        "a",
    ):
        place.hands.write(name, b"")
    (place.root / "link").symlink_to("run.sh")
    assert place.hands.names() == [
        ".claude/rules.md",
        "Z",
        "a",
        "calc/__init__.py",
        "run.sh",
        "tests/test_add.py",
    ]


@pytest.mark.parametrize(
    ("limit", "failure"), [(Limit.DISK, Failure.AGENT_DISK), (Limit.MEMORY, Failure.AGENT_MEMORY)]
)
def test_a_limit_of_the_sandbox_ends_the_agent(limit: Limit, failure: Failure) -> None:
    class Full:
        refused = ()

        def run(self, command: str, timeout_s: float) -> CommandResult:
            return CommandResult(exit_code=KILLED, output="", wall_s=0, limit=limit)

    with pytest.raises(End) as end:
        Hands(Full()).write("a", b"x")
    assert end.value.failure is failure


def test_odd_output_is_a_problem_and_no_crash() -> None:
    class Odd:
        refused = ()

        def run(self, command: str, timeout_s: float) -> CommandResult:
            return CommandResult(exit_code=0, output="many\n%%%", wall_s=0)

    with pytest.raises(FileProblem, match="cannot be read"):
        Hands(Odd()).read("a")


def test_view(place: Place) -> None:
    place.hands.write("f", b"one\ntwo\nthree")
    assert place.edit("view", path="f") == "     1\tone\n     2\ttwo\n     3\tthree"
    assert place.edit("view", path="f", view_range=[2, 2]) == "     2\ttwo\n"
    assert place.edit("view", path="f", view_range=[2, -1]) == "     2\ttwo\n     3\tthree"
    assert place.edit("view", path="f", view_range=[3, 99]) == "     3\tthree"
    wrongs: tuple[object, ...] = ([0, 1], [4, 5], [2, 1], [1], "1", [1.0, 2], {})
    for wrong in wrongs:
        with pytest.raises(FileProblem, match="view_range"):
            place.edit("view", path="f", view_range=wrong)
    assert place.edit("view", path="calc") == ".\n./__init__.py\n"
    names = ("", "/calc", "/calc/__init__.py", "/f", "/run.sh", "/tests", "/tests/test_add.py")
    assert place.edit("view", path=".") == "".join(f".{name}\n" for name in names)


def test_create_keeps_what_is_given(place: Place) -> None:
    assert place.edit("create", path="new/f.txt", file_text="é\r\nno end") == "Wrote new/f.txt."
    assert (place.root / "new/f.txt").read_bytes() == "é\r\nno end".encode()
    place.edit("create", path="new/f.txt", file_text="")
    assert (place.root / "new/f.txt").read_bytes() == b""


def test_str_replace(place: Place) -> None:
    place.hands.write("f", b"a = 1\nb = 1\n\xff\nc = 2\n")
    assert place.edit("str_replace", path="f", old_str="c = 2", new_str="c = 3") == "Changed f at line 4."
    assert place.hands.read("f") == b"a = 1\nb = 1\n\xff\nc = 3\n"
    assert place.edit("str_replace", path="f", old_str="c = 3\n") == "Changed f at line 4."
    for old, why in {
        "= 1": "`old_str` occurs 2 times in f, at lines 1, 2",
        "zz": "`old_str` does not occur in f letter by letter",
        "": "`old_str` does not occur in f letter by letter",
    }.items():
        with pytest.raises(FileProblem) as caught:
            place.edit("str_replace", path="f", old_str=old, new_str="x")
        assert str(caught.value) == f"nothing replaced: {why}"
    assert place.hands.read("f") == b"a = 1\nb = 1\n\xff\n"


@pytest.mark.parametrize(
    ("line", "text", "now"),
    [
        (0, "x\n", "x\na\nb"),
        (0, "x", "x\na\nb"),
        (1, "x\ny", "a\nx\ny\nb"),
        (2, "x", "a\nb\nx"),
    ],
)
def test_insert(place: Place, line: int, text: str, now: str) -> None:
    place.hands.write("f", b"a\nb")
    assert (
        place.edit("insert", path="f", insert_line=line, insert_text=text)
        == f"Inserted into f after line {line}."
    )
    assert place.hands.read("f").decode() == now


def test_what_the_editor_is_not_told(place: Place) -> None:
    place.hands.write("f", b"a\nb")
    for line in (-1, 3, True, "1", None):
        with pytest.raises(FileProblem, match="from 0 to 2"):
            place.edit("insert", path="f", insert_line=line, insert_text="x")
    for command, members in (
        ("view", {}),
        ("create", {"path": "f"}),
        ("str_replace", {"path": "f", "old_str": 1}),
    ):
        with pytest.raises(FileProblem, match="is missing, or no text"):
            place.edit(command, **members)
    with pytest.raises(FileProblem, match="`command` is none of"):
        place.edit("undo_edit", path="f")
