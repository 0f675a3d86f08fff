from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skillgate.core import ChangeKind, SkillChange
from skillgate.errors import UsageError
from skillgate.gate.changes import Subject, changed_skills, single_subject
from skillgate.git import Repository

TEXT = "---\nname: {0}\ndescription: Does {0}.\n---\n" + "A line that both versions share.\n" * 20


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "step", "--allow-empty")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "r"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name in ("one", "two"):
        write(folder / "skills" / name / "SKILL.md", TEXT.format(name))
        write(folder / "skills" / name / "scripts" / "run.sh", "echo\n")
    write(folder / "README.md", "readme\n")
    commit(folder)
    return folder


def changes(repository: Path) -> list[SkillChange]:
    commit(repository)
    return [subject.change for subject in subjects(repository)]


def subjects(repository: Path) -> tuple[Subject, ...]:
    asked = Repository(repository)
    return changed_skills(asked, asked.commit("HEAD~1"), asked.commit("HEAD"))


def rename(repository: Path) -> None:
    git(repository, "mv", "skills/one", "skills/three")


def rename_and_change(repository: Path) -> None:
    rename(repository)
    write(repository / "skills/three/SKILL.md", TEXT.format("three"))


def nested(repository: Path) -> None:
    write(repository / "skills/one/inner/SKILL.md", TEXT.format("inner"))


def replace_by_a_link(repository: Path) -> None:
    (repository / "skills/one/scripts/run.sh").unlink()
    (repository / "skills/one/scripts/run.sh").symlink_to("/etc/passwd")


def root_skill(repository: Path) -> None:
    write(repository / "SKILL.md", TEXT.format("root"))
    write(repository / ".github/workflows/ci.yml", "on: push\n")


CASES: list[tuple[Callable[[Path], None], list[SkillChange]]] = [
    (lambda r: None, []),
    (lambda r: write(r / "README.md", "changed\n"), []),
    (
        lambda r: write(r / "skills/one/SKILL.md", TEXT.format("uno")),
        [SkillChange(path="skills/one", kind=ChangeKind.CHANGED, files=("SKILL.md",))],
    ),
    (
        lambda r: write(r / "skills/one/scripts/run.sh", "echo 2\n"),
        [SkillChange(path="skills/one", kind=ChangeKind.CHANGED, files=("scripts/run.sh",))],
    ),
    (
        lambda r: (r / "skills/one/scripts/run.sh").chmod(0o755),
        [SkillChange(path="skills/one", kind=ChangeKind.CHANGED, files=("scripts/run.sh",))],
    ),
    (
        lambda r: write(r / "skills/new/SKILL.md", TEXT.format("new")),
        [SkillChange(path="skills/new", kind=ChangeKind.ADDED, files=("SKILL.md",))],
    ),
    (
        lambda r: git(r, "rm", "-rq", "skills/one"),
        [SkillChange(path="skills/one", kind=ChangeKind.DELETED, files=("SKILL.md", "scripts/run.sh"))],
    ),
    (rename, [SkillChange(path="skills/three", kind=ChangeKind.RENAMED, old_path="skills/one")]),
    (
        rename_and_change,
        [
            SkillChange(
                path="skills/three", kind=ChangeKind.RENAMED, old_path="skills/one", files=("SKILL.md",)
            )
        ],
    ),
    (nested, [SkillChange(path="skills/one/inner", kind=ChangeKind.ADDED, files=("SKILL.md",))]),
    (
        replace_by_a_link,
        [SkillChange(path="skills/one", kind=ChangeKind.CHANGED, files=("scripts/run.sh",))],
    ),
    (root_skill, [SkillChange(path=".", kind=ChangeKind.ADDED, files=("README.md", "SKILL.md"))]),
]


@pytest.mark.parametrize(("edit", "expected"), CASES)
def test_changed_skills(repository: Path, edit: Callable[[Path], None], expected: list[SkillChange]) -> None:
    edit(repository)
    assert changes(repository) == expected


def test_both_versions_are_read_and_links_are_left_out(repository: Path) -> None:
    replace_by_a_link(repository)
    commit(repository)
    (subject,) = subjects(repository)
    assert subject.base is not None
    assert subject.head is not None
    assert (subject.base.files.names, subject.head.files.names) == (
        ("SKILL.md", "scripts/run.sh"),
        ("SKILL.md",),
    )
    assert subject.is_same_content is False


def test_a_plain_rename_has_the_same_content(repository: Path) -> None:
    rename(repository)
    commit(repository)
    (subject,) = subjects(repository)
    assert subject.is_same_content is True


def test_a_skill_on_disk_against_nothing_a_revision_and_a_folder(repository: Path) -> None:
    write(repository / "skills/one/SKILL.md", TEXT.format("changed"))
    against = {a: single_subject(Path("skills/one"), a, repository) for a in ("none", "HEAD", "skills/two")}
    assert {a: (s.change.kind, s.base.name if s.base else None) for a, s in against.items()} == {
        "none": (ChangeKind.ADDED, None),
        "HEAD": (ChangeKind.CHANGED, "one"),
        "skills/two": (ChangeKind.CHANGED, "two"),
    }
    assert {s.head.name for s in against.values() if s.head} == {"changed"}


@pytest.mark.parametrize(
    ("folder", "against", "message"),
    [
        ("skills/gone", "none", "skills/gone: no skill there"),
        ("skills/one", "nope", "unknown revision `nope`"),
        ("skills/new", "HEAD", "no skill at skills/new in `HEAD`"),
    ],
)
def test_what_is_not_there_is_named(repository: Path, folder: str, against: str, message: str) -> None:
    write(repository / "skills/new/SKILL.md", TEXT.format("new"))
    with pytest.raises(UsageError, match=message):
        single_subject(Path(folder), against, repository)
