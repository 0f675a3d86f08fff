from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from skillgate.bench.agents.agent import SKILL_FOLDERS
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import SandboxFailure
from skillgate.bench.suite import Suite, files_of, load_suite
from skillgate.bench.workspace import Workspace, skills_of
from skillgate.errors import PrerequisiteError, SuiteError
from skillgate.skill import Files


@pytest.fixture
def suite(tiny_suite: Path) -> Suite:
    return load_suite(tiny_suite)


@pytest.fixture
def place(suite: Suite, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.create(suite, tmp_path) as workspace:
        yield workspace


def names(folder: Path) -> list[str]:
    return list(files_of(folder))


REPO = ["run.sh", "calc/__init__.py", "tests/test_add.py"]


def test_copies_the_repository_with_modes_and_links_and_without_skills(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (suite.repo / "outside").symlink_to(tmp_path / "secret")
    (suite.repo / "folder").symlink_to("calc")
    (suite.repo / "run.sh").chmod(0o555)
    for path in (".codex/skills/a/b/SKILL.md", "sub/.agents/skills/c/SKILL.md", ".x/skill/notes.txt"):
        (suite.repo / path).parent.mkdir(parents=True)
        (suite.repo / path).write_text("")
    (suite.repo / ".claude/settings.json").write_text("{}")
    (suite.repo / "skills").mkdir()
    (suite.repo / "skills/SKILL.md").write_text("not where an agent looks")
    (suite.repo / "calc/__pycache__").mkdir()
    (suite.repo / "calc/__pycache__/x.pyc").write_text("")
    with Workspace.create(suite, tmp_path) as place:
        kept = [
            "folder",
            "outside",
            *REPO[:1],
            ".claude/settings.json",
            *REPO[1:2],
            "skills/SKILL.md",
            *REPO[2:],
        ]
        assert names(place.workspace) == kept
        assert (place.workspace / "outside").readlink() == tmp_path / "secret"
        assert (place.workspace / "folder").readlink() == Path("calc")
        assert (place.workspace / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (place.workspace / "calc/__init__.py").stat().st_mode & 0o777 == 0o644
        assert skills_of(suite.repo) == (
            ".claude/skills/old",
            ".codex/skills/a/b",
            ".x/skill",
            "sub/.agents/skills/c",
        )
        assert [
            list(folder.iterdir()) for folder in (place.home, place.temp, place.tests, place.results)
        ] == [
            [],
            [],
            [],
            [],
        ]
    assert not place.root.exists()


def test_skills_behind_links_are_removed_and_what_is_outside_stays(suite: Suite, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for folder in (outside / "skills/far", suite.repo / "agents/skills/near", suite.repo / "docs/own"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("")
    shutil.rmtree(suite.repo / ".claude")
    (suite.repo / ".claude").symlink_to("agents")
    (suite.repo / ".far").symlink_to(outside)
    (suite.repo / ".docs").mkdir()
    (suite.repo / ".docs/skills").symlink_to("../docs")
    with Workspace.create(suite, tmp_path) as place:
        assert skills_of(suite.repo) == (".claude/skills/near", ".docs/skills/own", ".far/skills/far")
        assert sorted(names(place.workspace)) == sorted([*REPO, ".claude", "docs/own/SKILL.md"])
    assert (outside / "skills/far/SKILL.md").exists()


def test_two_workspaces_do_not_share(suite: Suite, place: Workspace, tmp_path: Path) -> None:
    with Workspace.create(suite, tmp_path) as other:
        (other.workspace / "run.sh").write_text("changed")
        assert (place.workspace / "run.sh").read_text() == "#!/bin/sh\necho run\n"


def test_close_removes_what_cannot_be_entered(suite: Suite, tmp_path: Path) -> None:
    place = Workspace.create(suite, tmp_path)
    (place.workspace / "calc").chmod(0)
    place.root.chmod(0o500)
    place.close()
    assert not place.root.exists()


def test_a_host_that_cannot_write_is_a_failure_of_the_sandbox(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailure) as caught:
        Workspace.create(suite, tmp_path / "missing")
    assert caught.value.kind is Failure.SANDBOX_START


def test_a_copy_that_breaks_leaves_nothing(suite: Suite, tmp_path: Path) -> None:
    os.mkfifo(suite.repo / "pipe")
    (tmp_path / "scratch").mkdir()
    with pytest.raises(SuiteError, match="pipe: no plain file"):
        Workspace.create(suite, tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_without_git(suite: Suite, place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PrerequisiteError, match="git is not installed"):
        place.apply_patch(suite.tasks[0].solution)


def test_installs_a_skill_where_agents_look(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (place.workspace / ".agents").symlink_to(tmp_path / "outside")
    before = place.snapshot()
    place.install_skill(
        "adder", Files.from_map({"SKILL.md": b"text", "bin/run.sh": b"#!/bin/sh\n"}), SKILL_FOLDERS
    )
    skill = ["SKILL.md", "bin/run.sh"]
    assert names(place.workspace / ".claude/skills/adder") == skill
    assert names(place.workspace / ".agents/skills/adder") == skill
    assert names(tmp_path / "outside") == []
    assert os.access(place.workspace / ".claude/skills/adder/bin/run.sh", os.X_OK)
    (place.workspace / ".claude/skills/adder2").mkdir()
    (place.workspace / ".claude/skills/adder2/x").write_text("")
    assert place.changed_since(before) == (".agents", ".claude/skills/adder2/x")


def test_a_skill_cannot_write_outside_of_its_folder(place: Workspace) -> None:
    with pytest.raises(SuiteError, match="leaves the folder"):
        place.install_skill("adder", Files.from_map({"../../../../escaped": b""}), SKILL_FOLDERS)
    assert not (place.root.parent / "escaped").exists()


def test_apply_patch_inside_a_foreign_repository_and_with_foreign_settings(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitconfig").write_text("[apply]\n\twhitespace = error-all\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    patch = tmp_path / "with-blanks.patch"
    patch.write_text("--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo run\n+echo blanks  \n")
    with Workspace.create(suite, tmp_path) as place:
        before = place.snapshot()
        place.apply_patch(suite.tasks[0].solution)
        place.apply_patch(patch)
        assert place.changed_since(before) == ("calc/double.py", "run.sh")
        assert (place.workspace / "run.sh").read_bytes() == b"#!/bin/sh\necho blanks  \n"


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        "--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_a_patch_that_does_not_apply(place: Workspace, tmp_path: Path, content: str) -> None:
    patch = tmp_path / "bad.patch"
    patch.write_text(content)
    with pytest.raises(SuiteError, match=r"bad\.patch:1: does not apply: error: ") as caught:
        place.apply_patch(patch)
    assert "git diff" in caught.value.hint


def test_changed_since_sees_every_kind_of_change(place: Workspace) -> None:
    root = place.workspace
    (root / "link").symlink_to("run.sh")
    (root / "kept").write_text("same")
    before = place.snapshot()
    assert place.changed_since(before) == ()
    (root / "kept").write_text("same")
    (root / "run.sh").chmod(0o644)
    (root / "calc/__init__.py").unlink()
    (root / "link").unlink()
    (root / "link").symlink_to("kept")
    (root / "new").mkdir()
    (root / "new/file").write_text("")
    (root / "calc/__pycache__").mkdir()
    (root / "calc/__pycache__/x.pyc").write_text("")
    os.mkfifo(root / "pipe")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("")
    assert place.changed_since(before) == (
        "calc/__init__.py",
        "link",
        "new/file",
        "pipe",
        "run.sh",
        "\udcff",
    )


def graded(place: Workspace, suite: Suite, before: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return what graders get to see of the repository, and what was left out."""
    with place.graded(suite.tasks[0], place.changed_since(before)) as (clean, left_out):
        return clean.snapshot(), left_out


def test_graders_get_the_changes_in_a_new_copy(suite: Suite, place: Workspace) -> None:
    before = place.snapshot()
    place.apply_patch(suite.tasks[0].solution)
    (place.workspace / "run.sh").chmod(0o4777)
    (place.workspace / "calc/__init__.py").unlink()
    (place.workspace / "calc/link").symlink_to("../run.sh")
    (place.workspace / "unreadable").write_text("x")
    (place.workspace / "unreadable").chmod(0)
    with place.graded(suite.tasks[0], place.changed_since(before)) as (clean, left_out):
        assert left_out == []
        assert sorted(names(clean.workspace)) == [
            "calc/double.py",
            "calc/link",
            "run.sh",
            "tests/test_add.py",
            "unreadable",
        ]
        assert stat.S_IMODE((clean.workspace / "run.sh").stat().st_mode) == 0o755
        assert (clean.workspace / "calc/link").readlink() == Path("../run.sh")
        assert clean.root != place.root
    assert not clean.root.exists()


def test_a_folder_that_became_a_file_and_a_file_that_became_a_folder(suite: Suite, place: Workspace) -> None:
    before = place.snapshot()
    shutil.rmtree(place.workspace / "calc")
    (place.workspace / "calc").write_text("a file now")
    (place.workspace / "run.sh").unlink()
    (place.workspace / "run.sh").mkdir()
    (place.workspace / "run.sh/inner").write_text("")
    seen, left_out = graded(place, suite, before)
    assert (sorted(seen), left_out) == (["calc", "run.sh/inner", "tests/test_add.py"], [])


def test_what_is_protected_is_graded_as_the_suite_has_it(
    suite: Suite, place: Workspace, tmp_path: Path
) -> None:
    before = place.snapshot()
    (place.workspace / "tests/test_add.py").write_text("")
    (place.workspace / "tests/extra").mkdir()
    (place.workspace / "tests/extra/test_more.py").write_text("")
    assert graded(place, suite, before) == (before, [])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test_add.py").write_text("untouched")
    for there in (outside, Path("calc")):
        _remove_any(place.workspace / "tests")
        (place.workspace / "tests").symlink_to(there)
        assert graded(place, suite, before)[0] == before
    assert (outside / "test_add.py").read_text() == "untouched"


def _remove_any(path: Path) -> None:
    path.unlink() if path.is_symlink() else shutil.rmtree(path)


def test_nothing_else_of_the_agent_reaches_the_graders(suite: Suite, place: Workspace) -> None:
    before = place.snapshot()
    root = place.workspace
    for name in ("conftest.py", "calc/sitecustomize.py", "x.pth", "deep/pytest.ini"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    (root / "calc/__pycache__").mkdir()
    (root / "calc/__pycache__/x.pyc").write_text("")
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/hooks/pre-commit").write_text("")
    (root / "out").symlink_to("../home/secret")
    (root / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    with (root / "sparse").open("wb") as file:
        file.truncate(3 * 10**9)
    for folder in (place.home, place.temp, place.tests, place.results):
        (folder / "planted").write_text("")
    seen, left_out = graded(place, suite, before)
    assert seen == before
    assert left_out == [
        "`absolute` is a link that leads out of the repository",
        "`calc/sitecustomize.py` decides how tests run",
        "`conftest.py` decides how tests run",
        "`deep/pytest.ini` decides how tests run",
        "`out` is a link that leads out of the repository",
        "`pipe` is no plain file",
        "`sparse` claims more bytes than the disk limit",
        "`x.pth` decides how tests run",
    ]


def test_a_task_may_ask_for_a_file_that_decides_how_tests_run(suite: Suite, place: Workspace) -> None:
    before = place.snapshot()
    (place.workspace / "conftest.py").write_text("")
    task = msgspec.structs.replace(suite.tasks[0], deliverables=("conftest.py",))
    with place.graded(task, place.changed_since(before)) as (clean, left_out):
        assert (left_out, (clean.workspace / "conftest.py").exists()) == ([], True)


def test_held_out_tests_come_late_with_the_repository_as_it_was(suite: Suite, place: Workspace) -> None:
    task = suite.tasks[0]
    (task.folder / "tests/data").mkdir()
    (task.folder / "tests/data/junit.py").write_text("")
    (suite.folder / "tests/shared.py").write_text("suite")
    (task.folder / "tests/shared.py").write_text("task")
    before = place.snapshot()
    (place.workspace / "run.sh").write_text("")
    with place.graded(task, place.changed_since(before)) as (clean, _):
        originals = [(name, (clean.tests / "original" / name).read_bytes()) for name in files_of(suite.repo)]
        assert originals == [(name, (suite.repo / name).read_bytes()) for name in files_of(suite.repo)]
        held_out = [name for name in names(clean.tests) if not name.startswith("original/")]
        assert held_out == ["doubles.py", "junit.py", "shared.py", "data/junit.py"]
        assert (clean.tests / "shared.py").read_text() == "task"
        assert [list(folder.iterdir()) for folder in (clean.home, clean.temp, clean.results)] == [[], [], []]
    assert names(place.tests) == []


def test_start_over_keeps_the_folder(place: Workspace) -> None:
    (place.results / "a").write_text("")
    (place.results / "link").symlink_to(place.workspace)
    inode = place.results.stat().st_ino
    place.start_over()
    assert (list(place.results.iterdir()), place.results.stat().st_ino) == ([], inode)
    assert names(place.workspace) == REPO


def test_a_nest_too_deep_for_python_is_seen_restored_and_removed(tiny_suite: Path, tmp_path: Path) -> None:
    suite = load_suite(tiny_suite)
    (task,) = suite.tasks
    with Workspace.create(suite, tmp_path) as place:
        before = place.snapshot()
        nest = f"cd {place.workspace}; for i in $(seq 2500); do mkdir d; cd d; done; echo x > f"
        subprocess.run(["sh", "-c", nest], capture_output=True, check=True)
        with place.graded(task, place.changed_since(before)) as (clean, _):
            assert clean.snapshot() == before
    assert not place.root.exists()


@pytest.mark.parametrize("length", [1490, 1510, 2040])
def test_a_path_that_is_nearly_too_long(tiny_suite: Path, tmp_path: Path, length: int) -> None:
    suite = load_suite(tiny_suite)
    with Workspace.create(suite, tmp_path) as place:
        before = place.snapshot()
        nest = f"cd {place.workspace}; for i in $(seq {length}); do mkdir d && cd d; done; echo x > f"
        subprocess.run(["sh", "-c", nest], capture_output=True, check=True)
        with place.graded(suite.tasks[0], place.changed_since(before)) as (clean, left_out):
            assert len(clean.snapshot()) - len(before) + len(left_out) <= 1
            assert (length < 1500) == (left_out == [])


def test_a_workspace_that_became_a_link_never_reaches_its_target(tiny_suite: Path, tmp_path: Path) -> None:
    suite = load_suite(tiny_suite)
    victim = tmp_path / "victim"
    (victim / "tests" / "__pycache__").mkdir(parents=True)
    (victim / "tests" / "precious.txt").write_text("precious")
    with Workspace.create(suite, tmp_path) as place:
        before = place.snapshot()
        place.workspace.rename(tmp_path / "moved")
        place.workspace.symlink_to(victim)
        assert sorted(graded(place, suite, before)[0]) == ["tests/test_add.py"]
    assert (victim / "tests" / "precious.txt").read_text() == "precious"
    assert (victim / "tests" / "__pycache__").is_dir()


def test_a_sparse_file_is_told_by_its_size(tiny_suite: Path, tmp_path: Path) -> None:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as place:
        before = place.snapshot()
        with (place.workspace / "big").open("wb") as file:
            file.truncate(20 * 1024**3)
        assert place.changed_since(before) == ("big",)


def test_rights_that_an_agent_took_away_are_taken_back(tiny_suite: Path, tmp_path: Path) -> None:
    """Root may read everything: as root this runs in a process of nobody."""
    if os.geteuid() != 0:
        check_rights(tiny_suite, tmp_path)
        return
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 65534, 65534)
    for parent in tmp_path.parents:
        if parent != Path(tempfile.gettempdir()) and parent.is_relative_to(tempfile.gettempdir()):
            parent.chmod(0o755)
    child = multiprocessing.get_context("fork").Process(target=as_nobody, args=(tiny_suite, tmp_path))
    child.start()
    child.join(20)
    assert child.exitcode == 0


def as_nobody(tiny_suite: Path, tmp_path: Path) -> None:
    os.setuid(65534)
    check_rights(tiny_suite, tmp_path)


def check_rights(tiny_suite: Path, tmp_path: Path) -> None:
    suite = load_suite(tiny_suite)
    (task,) = suite.tasks
    with Workspace.create(suite, tmp_path) as place:
        before = place.snapshot()
        place.apply_patch(task.solution)
        (place.workspace / "calc/double.py").chmod(0)
        (place.workspace / "calc").chmod(0o333)
        (place.workspace / "tests").chmod(0)
        place.home.chmod(0)
        with place.graded(task, place.changed_since(before)) as (clean, _):
            assert sorted(clean.snapshot()) == sorted([*before, "calc/double.py"])
        place.workspace.chmod(0)
    assert not place.root.exists()
