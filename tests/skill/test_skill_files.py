"""A skill's files are the same from disk and from memory; nothing outside is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillgate.config import matches
from skillgate.errors import UsageError
from skillgate.skill import Files, scan


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}\n", encoding="utf-8")


TREE = ("SKILL.md", "scripts/run.py", "references/a.md", "nested/SKILL.md", "nested/x.md", ".git/config")


def test_disk_and_memory_give_the_same_names_contents_and_digest(tmp_path: Path) -> None:
    write(tmp_path, *TREE, "node_modules/x/index.js")
    disk = Files.from_folder(tmp_path)
    memory = Files.from_map({name: f"text of {name}\n".encode() for name in TREE})
    assert disk.names == memory.names == ("SKILL.md", "references/a.md", "scripts/run.py")
    assert disk.read("scripts/run.py") == b"text of scripts/run.py\n"
    assert disk.read("scripts/run.py", 4) == memory.read("scripts/run.py", 4) == b"text"
    assert disk.digest() == memory.digest()


@pytest.mark.parametrize(
    "other",
    [
        {"SKILL.md": b"x", "b": b"y"},
        {"SKILL.md": b"x", "a": b"z"},
        {"SKILL.md": b"xa", "a": b"y"},
        {"SKILL.md": b"x"},
    ],
)
def test_the_digest_tells_contents_apart(other: dict[str, bytes]) -> None:
    assert Files.from_map(other).digest() != Files.from_map({"SKILL.md": b"x", "a": b"y"}).digest()


def test_other_skills_below_are_known_but_not_read() -> None:
    files = Files.from_map({"SKILL.md": b"", "skills/a/SKILL.md": b"", "skills/a/x.md": b"", "b.md": b""})
    assert files.names == ("SKILL.md", "b.md")
    known = [
        name
        for name in ("skills/a/x.md", "skills", "skills/a/", "b.md", "", "c.md", "/b.md")
        if files.has(name)
    ]
    assert known == ["skills/a/x.md", "skills", "b.md", ""]
    with pytest.raises(FileNotFoundError):
        files.read("skills/a/x.md")


def test_links_out_of_the_folder_are_known_but_not_read(tmp_path: Path) -> None:
    write(tmp_path, "secret.txt", "shared/x.md", "skill/SKILL.md", "skill/real.md")
    skill = tmp_path / "skill"
    (skill / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (skill / "shared").symlink_to(tmp_path / "shared")
    (skill / "same.md").symlink_to(skill / "real.md")
    (skill / "loop").symlink_to(skill)
    (skill / "gone.md").symlink_to(skill / "nowhere.md")
    files = Files.from_folder(skill)
    assert files.names == ("SKILL.md", "gone.md", "real.md", "same.md")
    assert files.read("same.md") == b"text of skill/real.md\n"
    assert files.has("shared/x.md")
    with pytest.raises(FileNotFoundError):
        files.read("leak.txt")


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        Files.from_folder(tmp_path / "gone")


def test_scany_takes_the_exact_name_only_and_follows_no_links(tmp_path: Path) -> None:
    write(
        tmp_path,
        "SKILL.md",
        "skills/a/SKILL.md",
        "skills/b/skill.md",
        ".claude/skills/c/SKILL.md",
        "d/SKILL.MD",
    )
    write(tmp_path, "node_modules/x/SKILL.md", ".git/SKILL.md", "skills/a/nested/SKILL.md")
    (tmp_path / "skills" / "link").symlink_to(tmp_path / "skills" / "a")
    (tmp_path / "skills" / "loop").symlink_to(tmp_path)
    assert scan(tmp_path).skills == (".", ".claude/skills/c", "skills/a", "skills/a/nested")
    assert tuple(folder for folder in scan(tmp_path).skills if matches(folder, "skills/*")) == (
        "skills/a",
        "skills/a/nested",
    )
    assert scan(tmp_path / "skills" / "b").skills == ()
