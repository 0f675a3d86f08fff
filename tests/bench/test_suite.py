from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from skillgate.bench.suite import (
    Difficulty,
    Grader,
    Limits,
    Suite,
    Task,
    files_of,
    load_suite,
    suite_digest,
    task_facts,
)
from skillgate.core import Answer, GradeKind, TaskFacts
from skillgate.errors import SuiteError
from skillgate.values import Location

TASK = "tasks/add-double/task.yml"


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("second", ["dockerfile: Dockerfile", "environment: {}"])
def test_a_suite_has_one_way_to_its_image(tiny_suite: Path, second: str) -> None:
    edit(tiny_suite, "suite.yml", "version: 1", f"version: 1\nimage: example/image:1\n{second}")
    key = second.partition(":")[0]
    with pytest.raises(SuiteError) as caught:
        load_suite(tiny_suite)
    assert caught.value.message == f"{tiny_suite}/suite.yml:3: both `image` and `{key}`"


def test_loads_everything(tiny_suite: Path) -> None:
    edit(tiny_suite, TASK, "difficulty: easy", "difficulty: hard\nlimits: {cpus: 2, memory-mb: 64}")
    edit(tiny_suite, "suite.yml", "version: 1", "version: 1\nimage: example/image:1")
    task = Task(
        id="tiny/add-double",
        title="Add double",
        prompt="## Requirement\nAdd `double(n)` to `calc/double.py`.\n",
        deliverables=("calc/double.py",),
        graders=(
            Grader(
                name="doubles",
                run='python3 "$TESTS/doubles.py"',
                kind=GradeKind.FAIL_TO_PASS,
                junit="doubles.xml",
                cases=("doubles.zero", "doubles.two"),
            ),
            Grader(name="exists", run="test -f calc/double.py", kind=GradeKind.FAIL_TO_PASS),
            Grader(name="old-suite", run="python3 -IB tests/test_add.py", kind=GradeKind.PASS_TO_PASS),
        ),
        protected=("tests/**",),
        difficulty=Difficulty.HARD,
        limits=Limits(timeout_s=20, memory_mb=64, cpus=2, pids=64),
        folder=tiny_suite / "tasks/add-double",
    )
    assert load_suite(tiny_suite) == Suite(
        name="tiny",
        origin=tiny_suite.as_posix(),
        title="A tiny library",
        why="Small enough to run in every test.",
        folder=tiny_suite,
        repo=tiny_suite / "repo",
        image="example/image:1",
        tasks=(task,),
    )
    assert [name for grader in task.graders for name in grader.grade_names] == [
        "doubles/doubles.zero",
        "doubles/doubles.two",
        "exists",
        "old-suite",
    ]


def test_tasks_are_in_the_order_of_their_ids(tiny_suite: Path) -> None:
    for name in ("zebra", "a-task", "__pycache__"):
        shutil.copytree(tiny_suite / "tasks/add-double", tiny_suite / "tasks" / name)
    (tiny_suite / "tasks/README.md").write_text("notes")
    assert [task.id for task in load_suite(tiny_suite).tasks] == [
        "tiny/a-task",
        "tiny/add-double",
        "tiny/zebra",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "message", "hint"),
    [
        ("suite.yml", "why:", "wy:", "suite.yml:3: unknown key `wy`", "Did you mean `why`?"),
        ("suite.yml", "version: 1", "version: 2", "suite.yml:1: `version`: invalid enum value 2", ""),
        ("suite.yml", "pids: 64", "pid: 64", "suite.yml:4: unknown key `pid`", "Did you mean `pids`?"),
        ("suite.yml", "why:", "repo: code\nwhy:", "suite.yml:3: no folder `code` here", "beside suite.yml"),
        ("suite.yml", "why:", "repo: ../tiny/repo\nwhy:", "suite.yml:3: no folder `../tiny/repo` here", ""),
        (TASK, "graders:", "grader:", "task.yml:9: unknown key `grader`", "Did you mean `graders`?"),
        (TASK, "fail-to-pass", "fail", "task.yml:12: `graders[0].kind`: invalid enum value 'fail'", ""),
        (
            TASK,
            "name: exists",
            "name: It Exists",
            "task.yml:15: `graders[1].name`: expected `str` matching",
            "",
        ),
        (TASK, "name: exists", "name: doubles", "task.yml:15: two graders are called `doubles`", "its own"),
        (
            TASK,
            "    junit: doubles.xml\n",
            "",
            "task.yml:10: `doubles` has only one of `junit` and `cases`",
            "",
        ),
        (
            TASK,
            "    cases: [doubles.zero, doubles.two]\n",
            "",
            "task.yml:10: `doubles` has only one",
            "list every",
        ),
        (
            TASK,
            "doubles.two]",
            "doubles.zero]",
            "task.yml:10: `doubles` lists the case `doubles.zero` twice",
            "",
        ),
        (
            TASK,
            "junit: doubles.xml",
            "junit: ../x.xml",
            "task.yml:13: `graders[0].junit`: expected `str`",
            "",
        ),
        (
            TASK,
            "- calc/double.py",
            "- ../double.py",
            "task.yml:6: `../double.py` leaves the repo",
            "relative",
        ),
        (TASK, "- calc/double.py", "- /etc/passwd", "task.yml:6: `/etc/passwd` leaves the repository", ""),
        (TASK, 'protected: ["tests/**"]', "protected: [a/../../b]", "task.yml:7: `a/../../b` leaves the", ""),
        (TASK, "title: Add double", "title: 3", "task.yml:1: `title`: expected `str`, got `int`", ""),
        (TASK, "title:", "\ttitle:", "task.yml:1: found character '\\t'", "Correct the YAML."),
    ],
)
def test_says_where_and_what(
    tiny_suite: Path, file: str, old: str, new: str, message: str, hint: str
) -> None:
    edit(tiny_suite, file, old, new)
    with pytest.raises(SuiteError, match=re.escape(message)) as caught:
        load_suite(tiny_suite)
    assert caught.value.message.startswith(f"{(tiny_suite / file).as_posix()}:")
    assert hint in caught.value.hint != ""


def test_a_task_without_graders(tiny_suite: Path) -> None:
    path = tiny_suite / TASK
    text = path.read_text()
    path.write_text(text[: text.index("graders:")] + "graders: []\n")
    with pytest.raises(SuiteError, match=r"task\.yml:9: the task has no graders") as caught:
        load_suite(tiny_suite)
    assert caught.value.hint.startswith("Add `graders:`")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("suite.yml", "tiny/suite.yml:1: no such file"),
        ("repo", "tiny/suite.yml:1: no folder `repo` here"),
        ("tasks", "tiny/suite.yml:1: the suite has no task"),
        (TASK, "add-double/task.yml:1: no such file"),
        ("tasks/add-double/solution.patch", "add-double/task.yml:1: no solution.patch beside it"),
    ],
)
def test_what_is_missing(tiny_suite: Path, gone: str, message: str) -> None:
    path = tiny_suite / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(SuiteError, match=re.escape(message)):
        load_suite(tiny_suite)


def test_a_task_id_is_kebab_case(tiny_suite: Path) -> None:
    (tiny_suite / "tasks/add-double").rename(tiny_suite / "tasks/Add_Double")
    with pytest.raises(SuiteError, match=r"Add_Double/task\.yml:1: `Add_Double` is not a task id"):
        load_suite(tiny_suite)


def test_text_that_is_not_utf8(tiny_suite: Path) -> None:
    (tiny_suite / TASK).write_bytes(b"title: \xff")
    with pytest.raises(SuiteError, match=r"task.yml:1: cannot be read: .*utf-8"):
        load_suite(tiny_suite)


def test_the_digest_covers_names_contents_modes_and_links(tiny_suite: Path) -> None:
    suite = load_suite(tiny_suite)
    digests = [suite_digest(suite)]

    def changed() -> bool:
        digests.append(suite_digest(suite))
        return digests[-1] not in digests[:-1]

    (tiny_suite / "repo/__pycache__").mkdir()
    (tiny_suite / "repo/__pycache__/x.pyc").write_bytes(b"1")
    (tiny_suite / ".DS_Store").write_bytes(b"1")
    assert not changed()
    (tiny_suite / "tests/junit.py").write_text("pass")
    assert changed()
    (tiny_suite / "repo/run.sh").chmod(0o644)
    assert changed()
    (tiny_suite / "repo/run.sh").rename(tiny_suite / "repo/go.sh")
    assert changed()
    (tiny_suite / "repo/link").symlink_to("go.sh")
    assert changed()
    (tiny_suite / "repo/link").unlink()
    (tiny_suite / "repo/link").symlink_to("calc")
    assert changed()


def test_the_digest_does_not_depend_on_the_place(tiny_suite: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_suite, tmp_path / "elsewhere/tiny")
    assert suite_digest(load_suite(tmp_path / "elsewhere/tiny")) == suite_digest(load_suite(tiny_suite))


def test_links_are_files_and_never_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (root / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("")
    (root / "b/file").write_text("")
    (root / "a-link").symlink_to(outside)
    (root / "gone").symlink_to("nowhere")
    assert list(files_of(root)) == ["a-link", "gone", "b/file"]


def test_task_facts_are_deliverables_and_texts_that_only_this_answer_has(tiny_suite: Path) -> None:
    other = tiny_suite / "tasks/other"
    shutil.copytree(tiny_suite / "tasks/add-double", other)
    added = [
        "+def number_times_two_plus_one(n):",
        "+    # twice as much as ever before",
        "+    return 'twice as much as it was then', 'it stands in the old file', 'it stands in the prompt'",
        "-removed_name_of_old_times = 'removed with all it said'",
        "+++ b/not_an_addition_of_mine.py",
    ]
    (other / "solution.patch").write_text("\n".join(added))
    (other / "tests/test_doubling.py").write_text(
        "assert double(240758) == 481516, 'doubles what is doubled'\n"
    )
    (tiny_suite / "tests/shared.py").write_text("SAID = 'doubles what is doubled'\n")
    (tiny_suite / "repo/old.py").write_text("# it stands in the old file\n")
    edit(other, "task.yml", "## Requirement", "## Requirement\n  Here it stands in the prompt.\n")
    grep = "grep -q 'a text that has to be there' calc/double.py"
    edit(other, "task.yml", "test -f calc/double.py", grep)
    facts = task_facts(load_suite(tiny_suite))
    oracle = [
        "\n".join(line[1:].strip() for line in added[:3]),
        "number_times_two_plus_one",
        "twice as much as it was then",
    ]
    tests = ["240758", "481516", "a text that has to be there", grep, "test_doubling.py"]
    answers = [Answer(text=text, source="the oracle") for text in oracle]
    answers += [Answer(text=text, source="the held-out tests") for text in tests]
    assert facts == (
        TaskFacts(
            task="tiny/add-double",
            where=Location(path=f"{tiny_suite}/tasks/add-double/task.yml", line=5),
            deliverables=("calc/double.py",),
        ),
        TaskFacts(
            task="tiny/other",
            where=Location(path=f"{tiny_suite}/tasks/other/task.yml", line=7),
            deliverables=("calc/double.py",),
            answers=tuple(sorted(answers, key=lambda answer: answer.text)),
        ),
    )


def test_a_text_of_two_answers_is_the_answer_of_neither(tiny_suite: Path) -> None:
    shutil.copytree(tiny_suite / "tasks/add-double", tiny_suite / "tasks/other")
    assert [fact.answers for fact in task_facts(load_suite(tiny_suite))] == [(), ()]
    (tiny_suite / "tasks/other/solution.patch").write_text("+doubled_like_this_one = 1\n")
    found = [fact.answers for fact in task_facts(load_suite(tiny_suite))]
    assert found == [(), (Answer(text="doubled_like_this_one", source="the oracle"),)]


def test_facts_are_located_as_the_user_names_the_suite(tiny_suite: Path) -> None:
    (fact,) = task_facts(load_suite(tiny_suite, "fixtures/tiny"))
    assert fact.where == Location(path="fixtures/tiny/tasks/add-double/task.yml", line=5)


@pytest.mark.parametrize(
    ("glob", "path", "protects"),
    [
        ("tests/**", "tests/a/b.py", True),
        ("tests/**", "tests2/a.py", False),
        ("tests", "tests/a.py", True),
        ("tests/", "tests/a.py", True),
        ("**/conftest.py", "conftest.py", True),
        ("**/conftest.py", "a/b/conftest.py", True),
        ("*.cfg", "setup.cfg", True),
        ("setup.cfg", "a/setup.cfg", False),
    ],
)
def test_protects(tiny_suite: Path, glob: str, path: str, protects: bool) -> None:
    edit(tiny_suite, TASK, '"tests/**"', f'"{glob}"')
    assert load_suite(tiny_suite).tasks[0].protects(path) is protects
