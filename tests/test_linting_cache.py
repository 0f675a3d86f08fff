"""The cache and the processes of `lint`: faster, and never another answer."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skillgate import linting
from skillgate.lint import cache as lint_cache
from skillgate.lint.cache import Cache
from skillgate.linting import Linted, Request, lint_paths, render
from skillgate.run_options import cache_folder
from skillgate.shipped import shipped

GOOD = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder of skills with all that a finding can hold."""
    bodies = {
        "a": "See [b](b/SKILL.md), [none](none.md) and `/Users/alice/x`.\n",
        "a/b": "<!-- skillgate: ignore hardcoded-path: it is so -->\nRun `/Users/alice/x`.\n",
        "c": "<!-- skillgate: ignore hardcoded-path: not any more -->\nRun it.\n",
    }
    for folder, body in bodies.items():
        write(tmp_path / "root" / folder, GOOD.format("wrong") + body)
    write(tmp_path / "root/broken", "---\nname: [\n")
    write(tmp_path / "root/not-text", GOOD.format("not-text").encode() + b"\xff\x00\n")
    (tmp_path / "root/a/link").symlink_to("/nowhere")
    return tmp_path / "root"


def write(folder: Path, text: str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())


def lint(root: Path, cache: Path | None = None) -> Linted:
    return lint_paths(Request([], root, cache=cache))


def shown(linted: Linted) -> list[str]:
    return [render(linted, style) for style in ("text", "json", "sarif", "github")]


def spoil(cache: Path) -> None:
    """Change what is remembered, so that whoever reads it says so."""
    (file,) = cache.glob("*.msgpack")
    content = file.read_bytes()
    changed = content.replace(b"Adds two numbers", b"SPOILED NUMBERS!").replace(
        b"is a folder of one", b"SPOILED MESSAGES!!"
    )
    assert changed != content
    file.write_bytes(changed)


def is_spoiled(linted: Linted) -> bool:
    return any("SPOILED" in finding.message for finding in linted.findings)


def test_what_is_remembered_is_what_would_be_found(root: Path, tmp_path: Path) -> None:
    plain = shown(lint(root))
    assert "hardcoded-path" in plain[1]
    cold, warm = (shown(lint(root, tmp_path / "cache")) for _ in range(2))
    assert cold == plain
    assert warm == plain
    spoil(tmp_path / "cache")
    assert is_spoiled(lint(root, tmp_path / "cache")), "or nothing was remembered"


def test_a_change_anywhere_in_a_skill_is_seen(root: Path, tmp_path: Path) -> None:
    cache, told = tmp_path / "cache", list[list[str]]()
    lint(root, cache)
    for change in (
        lambda: write(root / "a", (root / "a/SKILL.md").read_text().replace("none.md", "other.md")),
        lambda: (root / "a/other.md").touch(),
        lambda: (root / "a/b/SKILL.md").unlink(),  # of another skill, and known to this one
        lambda: (root / "a").rename(root / "moved"),
    ):
        change()
        found = lint(root, cache)
        assert render(found, "json") == render(lint(root), "json")
        told.append([f.match for f in found.findings if f.rule == "broken-reference"])
    assert told == [["other.md"], [], ["b/SKILL.md"], ["b/SKILL.md"]]


@pytest.mark.parametrize(
    "config",
    [
        "lint: {rules: {hardcoded-path: off}}",
        "lint: {rules: {hardcoded-path: error}}",
        "lint: {paths: {'a/**': {hardcoded-path: off}}}",
        "suites: {'**': ['builtin:textkit']}",
    ],
)
def test_another_configuration_is_seen(root: Path, tmp_path: Path, config: str) -> None:
    lint(root, tmp_path / "cache")
    (root / "skillgate.yml").write_text(config)
    found = lint(root, tmp_path / "cache")
    assert render(found, "json") == render(lint(root), "json")


def test_what_only_a_part_of_the_skills_needed_is_kept_beside_the_rest(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    lint(root, cache)
    write(root / "c", GOOD.format("c"))
    lint_paths(Request([root / "c"], root, cache=cache))
    spoil(cache)
    assert is_spoiled(lint(root, cache))


def test_another_version_remembers_nothing_of_this_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint(root, tmp_path / "cache")
    spoil(tmp_path / "cache")
    monkeypatch.setattr(lint_cache, "__version__", "0.0.0")
    assert shown(lint(root, tmp_path / "cache")) == shown(lint(root))


def test_two_roots_do_not_share(root: Path, tmp_path: Path) -> None:
    lint(root, tmp_path / "cache")
    spoil(tmp_path / "cache")
    root.rename(tmp_path / "other")
    assert not is_spoiled(lint(tmp_path / "other", tmp_path / "cache"))
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:-1],
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw + b"\x00",
        lambda raw: b"\xff" * 1000,
        lambda raw: b"\x91" * 100_000,
        lambda raw: b"\xdf\xff\xff\xff\xff",
        lambda raw: raw.replace(b"broken", b"brok\xff\xff"),
        lambda raw: raw.replace(b"checked", b"Checked"),
        lambda raw: msgspec.msgpack.encode([1, 2]),
        lambda raw: msgspec.msgpack.encode({"a": 1}),
    ],
)
def test_a_damaged_cache_is_none_and_is_written_again(
    root: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = tmp_path / "cache"
    plain = shown(lint(root, cache))
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert shown(lint(root, cache)) == plain
    assert file.read_bytes() == whole
    assert list(cache.iterdir()) == [file]


def test_a_folder_that_cannot_hold_a_cache_changes_nothing(root: Path, tmp_path: Path) -> None:
    plain = shown(lint(root))
    (tmp_path / "file").touch()
    (tmp_path / "taken").mkdir()
    name = Cache(tmp_path, root, ())._file
    assert name is not None
    (tmp_path / "taken" / name.name / "x").mkdir(parents=True)
    for cache in (tmp_path / "file", tmp_path / "file/below", Path("/dev/null/x"), tmp_path / "taken"):
        assert shown(lint(root, cache)) == plain
    assert [path.name for path in (tmp_path / "taken").iterdir()] == [name.name]


def test_a_cache_folder_of_somebody_else_changes_nothing(root: Path, as_nobody: Any) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        shutil.copytree(root, Path(open_to_all, "root"), symlinks=True)
        root, cache = Path(open_to_all, "root"), Path(open_to_all, "cache")
        lint(root, cache)
        write(root / "c", GOOD.format("c"))
        plain = shown(lint(root))
        for path, mode in ((cache, 0o555), (next(cache.iterdir()), 0), (cache, 0)):
            path.chmod(mode)
            assert as_nobody(lambda: shown(lint(root, cache)) == plain)
        cache.chmod(0o755)


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    assert cache_folder(os.environ) == Path(os.environ["XDG_CACHE_HOME"], "skillgate")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder(os.environ) is None


def test_several_processes_at_once_agree(root: Path, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(Path(linting.__file__).parent.parent),
    }
    (root / "skillgate.yml").touch()
    command = [sys.executable, "-m", "skillgate", "lint", "--format", "json"]
    started = [subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    said = {process.communicate()[0].decode() for process in started}
    assert said == {shown(lint(root))[1]}
    assert [path.suffix for path in (tmp_path / "home/skillgate").iterdir()] == [".msgpack"]
    assert shown(lint(root, tmp_path / "home/skillgate")) == shown(lint(root))


def test_what_is_no_text_is_not_remembered_and_keeps_nothing_else_from_it(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write(root / "caf\udce9", GOOD.format("x"))
    write(
        root / "half", '---\nname: half\ndescription: "\\ud83d. Use when a sum is asked for."\n---\n\nBody.\n'
    )
    plain = shown(lint(root))
    assert [shown(lint(root, cache)), shown(lint(root, cache))] == [plain, plain]
    spoil(cache)
    assert is_spoiled(lint(root, cache))


def test_a_pipe_in_a_skill_does_not_hang(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "c/notes.md")
    write(root / "d", "")
    (root / "d/SKILL.md").unlink()
    os.mkfifo(root / "d/SKILL.md")
    plain = shown(lint(root))
    assert "not a plain file" in plain[0]
    assert [shown(lint(root, tmp_path / "cache")), shown(lint(root, tmp_path / "cache"))] == [plain, plain]


def test_all_cores_find_what_one_finds(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(linting.FEW * 2):
        write(
            root / f"many/{number}", GOOD.format("wrong") + f"Run `/Users/alice/{number}`.\n" * (number % 3)
        )
    write(root / "many/half", '---\nname: "\\ud83d"\ndescription: x\n---\n')
    (root / "skillgate.yml").write_text(
        "suites: {'many/**': ['builtin:textkit'], 'a': ['builtin:ci-workflows']}"
    )
    several = shown(lint(root))
    monkeypatch.setattr(linting, "FEW", 1_000)
    assert shown(lint(root)) == several


def test_our_own_skills_give_the_same_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shipped("fixtures")
    plain = shown(lint(folder))
    assert [shown(lint(folder, tmp_path)), shown(lint(folder, tmp_path))] == [plain, plain]
    monkeypatch.setattr(linting, "FEW", 1)
    assert shown(lint(folder)) == plain
