from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillgate.bench import scaffold
from skillgate.bench.check import check_suite
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.sandbox import local_sandbox
from skillgate.bench.scaffold import new_suite
from skillgate.bench.suite import Suite, files_of, load_suite
from skillgate.errors import UsageError
from skillgate.shipped import shipped
from tests.fixtures.grading import failed_grades

TEMPLATE = shipped("fixtures") / "template"
FILES = [
    "repo/README.md",
    "repo/sizes.py",
    "repo/tests/test_sizes.py",
    "suite.yml",
    "tasks/exact-sizes/solution.patch",
    "tasks/exact-sizes/task.yml",
    "tasks/exact-sizes/tests/test_exact.py",
    "tasks/exact-sizes/wrong/cut-to-bytes.patch",
    "tasks/format-sizes/solution.patch",
    "tasks/format-sizes/task.yml",
    "tasks/format-sizes/tests/test_format.py",
    "tasks/format-sizes/wrong/unit-before-rounding.patch",
    "tests/junit_unittest.py",
    "tests/test_old_suite.py",
]
OTHER_FORMAT = """\
UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


def parse_size(text):
    \"\"\"Return how many bytes a text such as `1.5 kB` names.\"\"\"
    number, _, unit = text.strip().partition(" ")
    return int(float(number) * UNITS[unit])


def format_size(size: int) -> str:
    \"\"\"Write a number of bytes for people.\"\"\"
    units, factor = list(UNITS), 1
    while (size * 10 + factor // 2) // factor >= 10_000 and len(units) > 1:
        units.pop(0)
        factor *= 1000
    text = str((size * 10 + factor // 2) // factor)
    return f"{text[:-1] or 0}{'.' + text[-1] if text[-1] != '0' else ''} {units[0]}"
"""
OTHER_EXACT = """\
import re

ZEROS = {"B": 0, "kB": 3, "MB": 6, "GB": 9}


def parse_size(text):
    \"\"\"Return how many bytes a text such as `1.5 kB` names.\"\"\"
    found = re.fullmatch(r"\\s*([0-9]+)(?:[.]([0-9]*))? (B|kB|MB|GB)\\s*", text)
    places = (found[2] or "").rstrip("0") if found else ""
    if not found or len(places) > ZEROS[found[3]]:
        raise ValueError("cannot read " + repr(text))
    return int(found[1] + places.ljust(ZEROS[found[3]], "0"))
"""


def problems(suite: Suite) -> dict[str, tuple[str, ...]]:
    sandbox = local_sandbox(Path(sys.executable).parent)
    return {found.task: found.problems for found in check_suite(suite, sandbox)}


def test_a_new_suite_passes_its_check_at_once(tmp_path: Path) -> None:
    made = new_suite(tmp_path / "deep" / "our-sizes")
    assert made == tuple(tmp_path / "deep/our-sizes" / name for name in FILES)
    suite = load_suite(tmp_path / "deep/our-sizes")
    assert (suite.name, suite.title) == ("our-sizes", "our-sizes")
    assert problems(suite) == {"our-sizes/exact-sizes": (), "our-sizes/format-sizes": ()}
    assert [len(task.wrong) for task in suite.tasks] == [1, 1]


@pytest.mark.docker
def test_a_new_suite_passes_its_check_in_docker(tmp_path: Path, docker_image: str) -> None:
    new_suite(tmp_path / "our-sizes")
    found = check_suite(load_suite(tmp_path / "our-sizes"), docker_sandbox(docker_image))
    assert [task.problems for task in found] == [(), ()]


def test_it_is_the_template_under_another_title(tmp_path: Path) -> None:
    new_suite(tmp_path / "x1")
    changed = [
        name
        for name in files_of(TEMPLATE)
        if (TEMPLATE / name).read_bytes() != (tmp_path / "x1" / name).read_bytes()
    ]
    assert changed == ["suite.yml"]
    assert (tmp_path / "x1/suite.yml").read_text().splitlines()[:2] == ["version: 1", 'title: "x1"']


@pytest.mark.parametrize("name", ["123", "true", "null", "1e3", "a", "a-b-c"])
def test_whatever_yaml_makes_of_a_name_it_stays_a_title(tmp_path: Path, name: str) -> None:
    new_suite(tmp_path / name)
    assert load_suite(tmp_path / name).title == name


@pytest.mark.parametrize("name", ["Our", "our_suite", "-a", "a-", "a--b", "a b", "a.b", "é", "a\n"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        new_suite(tmp_path / name)
    assert caught.value.message == f"`{name}` is not the name of a suite"
    assert list(tmp_path.iterdir()) == []


def test_only_a_new_or_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/.keep").write_text("")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "nowhere").symlink_to("gone")
    for name in ("full", "file", "link", "nowhere"):
        with pytest.raises(UsageError) as caught:
            new_suite(tmp_path / name)
        assert caught.value.message == f"{tmp_path / name}: is there already"
    before = sorted(path.name for path in tmp_path.iterdir())
    assert len(new_suite(tmp_path / "empty")) == len(FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert [path.name for path in (tmp_path / "full").iterdir()] == [".keep"]


def test_what_breaks_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_after(name: str) -> Callable[..., None]:
        copy = scaffold.shutil.copyfile

        def copy_file(source: Path, target: Path) -> None:
            if source.name == name:
                raise OSError(28, "No space left on device")
            copy(source, target)

        return copy_file

    monkeypatch.setattr(scaffold.shutil, "copyfile", break_after("sizes.py"))
    with pytest.raises(Exception, match="the disk is full"):
        new_suite(tmp_path / "ours")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        new_suite(tmp_path / "file/ours")
    assert caught.value.message == f"{tmp_path / 'file/ours'}: cannot be written (File exists)"
    assert "--into" in caught.value.hint


@pytest.mark.parametrize(
    ("task", "answer", "row"),
    [
        ("format-sizes", OTHER_FORMAT, "| `format_size` | Write a number of bytes for people. |"),
        ("exact-sizes", OTHER_EXACT, ""),
    ],
)
def test_right_answers_that_differ_from_the_oracle_pass(task: str, answer: str, row: str) -> None:
    def change(workspace: Path) -> None:
        (workspace / "sizes.py").write_text(answer)
        page = (TEMPLATE / "repo/README.md").read_text()
        (workspace / "README.md").write_text(page.replace("names. |\n", f"names. |\n{row}\n"))

    assert failed_grades(load_suite(TEMPLATE), task, change) == []


@pytest.mark.parametrize(
    ("task", "grades"),
    [
        ("format-sizes", ["format/Format.test_rounding"]),
        ("exact-sizes", ["exact/Exact.test_parts_of_a_byte"]),
    ],
)
def test_a_wrong_solution_fails_what_it_is_there_to_fail(task: str, grades: list[str]) -> None:
    suite = load_suite(TEMPLATE)
    wrong = {one.folder.name: one.wrong for one in suite.tasks}[task]
    assert [failed_grades(suite, task, lambda _: None, patch) for patch in wrong] == [grades]
