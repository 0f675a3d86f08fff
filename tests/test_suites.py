from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.errors import ExitCode
from skillgate.shipped import shipped

OURS = ["ci-workflows", "hourbook", "notesboard", "relaydesk", "template", "textkit"]
BUILTIN = [f"builtin:{name}" for name in OURS]


@pytest.fixture
def here(tmp_path: Path, tiny_suite: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "fixtures/skills").mkdir(parents=True)
    shutil.move(tiny_suite, folder / "fixtures/tiny")
    monkeypatch.chdir(folder)
    return folder


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["suite", "list", "--format", "json"]) == ExitCode.OK
    return [suite["name"] for suite in json.loads(capsys.readouterr().out)["suites"]]


def test_the_list_has_ours_and_yours(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(capsys) == [*BUILTIN, "fixtures/tiny"]
    assert main(["suite", "list"]) == ExitCode.OK
    rows = capsys.readouterr().out.splitlines()
    assert (len(rows), rows[0].split()) == (8, ["suite", "tasks", "easy", "medium", "hard", "title"])
    assert rows[-1].split() == ["fixtures/tiny", "1", "1", "A", "tiny", "library"]
    monkeypatch.chdir(here / "fixtures")
    assert listed(capsys) == BUILTIN
    monkeypatch.chdir(shipped("fixtures").parent)
    assert listed(capsys) == BUILTIN  # they are the same folders


def test_a_broken_suite_is_named_by_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "fixtures/tiny/suite.yml").write_text("version: 1\ntitle: x\nwhyy: y\n")
    assert main(["suite", "list"]) == ExitCode.USAGE
    assert "fixtures/tiny/suite.yml:3: unknown key `whyy`" in capsys.readouterr().err


def test_a_suite_is_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("fixtures/tiny", "fixtures/tiny/", str(here / "fixtures/tiny")):
        assert main(["suite", "show", name]) == ExitCode.OK
        assert capsys.readouterr().out == (
            f"{name.rstrip('/')}: A tiny library\n"
            "Small enough to run in every test.\n"
            "\n"
            "repository: repo\n"
            "image: that of the configuration\n"
            "\n"
            "add-double (easy): Add double\n"
            "  deliverables: calc/double.py\n"
            "  graders: 3 fail-to-pass, 1 pass-to-pass\n"
        )


def test_a_task_is_shown_by_its_id_and_by_its_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("fixtures/tiny/add-double", "fixtures/tiny/tasks/add-double/"):
        assert main(["suite", "show", name]) == ExitCode.OK
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == "fixtures/tiny/add-double (easy): Add double"
        assert shown[-4:] == [
            "limits: 20 s, 128 MB of memory, 2048 MB of disk, 1 CPU, 64 processes",
            "",
            "## Requirement",
            "Add `double(n)` to `calc/double.py`.",
        ]
    assert main(["suite", "show", "builtin:textkit/cut-slugs-at-words", "--format", "json"]) == ExitCode.OK
    task = json.loads(capsys.readouterr().out)["task"]
    assert (task["name"], task["difficulty"], len(task["graders"])) == (
        "builtin:textkit/cut-slugs-at-words",
        "easy",
        2,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere: no suite there (no suite.yml)"),
        ("fixtures/nowhere/x", "fixtures/nowhere/x: no suite there (no suite.yml)"),
        ("builtin:nope", "builtin:nope: no suite there (no suite.yml)"),
        ("builtin:", "builtin:: no suite there (no suite.yml)"),
        ("/", ": no suite there (no suite.yml)"),
        ("fixtures/tiny/add-dubble", "fixtures/tiny: no task `add-dubble`\n  Did you mean `add-double`?"),
        ("builtin:textkit/nope", "builtin:textkit: no task `nope`"),
    ],
)
def test_what_is_not_there_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert main(["suite", "show", name]) == ExitCode.USAGE
    assert f"skillgate: {message}" in capsys.readouterr().err


def test_inside_of_a_suite_it_is_called_dot(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("fixtures/tiny")
    assert main(["suite", "show", "./add-double"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("./add-double (easy): Add double\n")
    assert main(["suite", "show", "add-double"]) == ExitCode.USAGE
    assert "add-double: no suite there" in capsys.readouterr().err


def test_a_new_suite_is_written_where_the_others_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "new", "ours"]) == ExitCode.OK
    said = capsys.readouterr()
    written = sorted(str(path) for path in Path("fixtures/ours").rglob("*") if path.is_file())
    assert said.out.splitlines() == written
    assert said.err == "Prove it with `skillgate suite check fixtures/ours`.\n"
    assert main(["suite", "new", "more", "--into", "suites/deep"]) == ExitCode.OK
    assert Path("suites/deep/more/suite.yml").is_file()
    capsys.readouterr()
    assert listed(capsys) == [*BUILTIN, "fixtures/ours", "fixtures/tiny"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny", "fixtures/tiny: is there already"),
        ("../ours", "`../ours` is not the name of a suite"),
        ("a/b", "`a/b` is not the name of a suite"),
        ("Ours", "`Ours` is not the name of a suite"),
    ],
)
def test_a_new_suite_never_lands_elsewhere(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    before = sorted(here.rglob("*"))
    assert main(["suite", "new", name]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"skillgate: {message}\n  ")
    assert sorted(here.rglob("*")) == before
