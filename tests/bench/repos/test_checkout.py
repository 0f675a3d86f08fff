from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.repos import checkout as module
from skillgate.bench.repos import fetch as fetch_module
from skillgate.bench.repos.checkout import GitSource, checkout
from skillgate.document import decode
from skillgate.errors import PrerequisiteError, SuiteError
from tests.fakes.git_origin import FILES, WHERE, Origin, commit_all, found, git, make_repository, unfinished


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def test_has_exactly_the_files_of_the_commit_whatever_attributes_say(origin: Origin) -> None:
    before = os.umask(0o077)
    try:
        tree = origin.checkout()
    finally:
        os.umask(before)
    assert found(tree) == FILES
    assert tree.is_relative_to(origin.cache / "trees")
    assert origin.checkout() == tree
    assert unfinished(origin.cache) == []


def test_later_commits_do_not_matter_and_each_commit_has_its_own_folder(origin: Origin) -> None:
    (origin.folder / "empty").write_text("full now")
    later = commit_all(origin.folder)
    assert found(origin.checkout()) == FILES
    assert found(origin.checkout(later)) == FILES | {"empty": ("644", b"full now")}
    assert found(origin.checkout()) == FILES


def test_what_suite_yml_says_is_checked_when_it_is_read() -> None:
    text = f"git: https://127.0.0.1/r.git\ncommit: {'a' * 64}\nfolder: pkg\n"
    assert decode(text, GitSource, "suite.yml", SuiteError) == GitSource(
        git="https://127.0.0.1/r.git", commit="a" * 64, folder="pkg"
    )
    with pytest.raises(SuiteError, match="branch"):
        decode(text + "branch: main\n", GitSource, "suite.yml", SuiteError)


def test_a_repository_with_long_ids(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    commit = make_repository(folder, FILES, "--object-format=sha256")
    source = GitSource(git=f"file://{folder}", commit=commit)
    trees = [checkout(source, tmp_path / "cache", WHERE) for _ in "12"]
    assert (len(commit), [found(tree) for tree in trees]) == (64, [FILES] * 2)


def test_a_second_use_needs_no_origin(origin: Origin) -> None:
    tree = origin.checkout()
    shutil.rmtree(origin.folder)
    assert found(origin.checkout()) == FILES
    shutil.rmtree(tree)
    assert found(origin.checkout()) == FILES
    assert len(found(origin.checkout(folder="sub"))) == 2


def flip_pack(origin: Origin) -> None:
    (pack,) = origin.store().glob("objects/pack/*.pack")
    pack.chmod(0o644)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 0xFF
    pack.write_bytes(content)


def loosen(origin: Origin) -> None:
    """Turn the pack of the cache, if there is one, into one file per object."""
    for pack in origin.store().glob("objects/pack/*.pack"):
        git(origin.store(), "unpack-objects", "-q", content=pack.rename(origin.cache / "pack").read_bytes())
    shutil.rmtree(origin.store() / "objects/pack")


def loose(origin: Origin, name: str) -> Path:
    loosen(origin)
    found_id = git(origin.folder, "rev-parse", name)
    path = origin.store() / "objects" / found_id[:2] / found_id[2:]
    path.chmod(0o644)
    return path


def flip_object(origin: Origin) -> None:
    path = loose(origin, "HEAD:hidden")
    content = bytearray(path.read_bytes())
    content[-3] ^= 0xFF
    path.write_bytes(content)


def plant_blob(origin: Origin) -> None:
    loose(origin, "HEAD:hidden").write_bytes(zlib.compress(b"blob 7\0planted"))


def plant_tree(origin: Origin) -> None:
    path = loose(origin, "HEAD:sub/deep")
    _, _, tree = zlib.decompress(path.read_bytes()).partition(b"\0")
    tree = tree.replace(b"100644 file", b"100755 evil")
    path.write_bytes(zlib.compress(f"tree {len(tree)}\0".encode() + tree))


def plant_commit(origin: Origin) -> None:
    sub = git(origin.folder, "rev-parse", "HEAD:sub")
    commit = git(origin.folder, "cat-file", "commit", "HEAD").encode()
    commit = commit.replace(git(origin.folder, "rev-parse", "HEAD^{tree}").encode(), sub.encode()) + b"\n"
    loose(origin, "HEAD").write_bytes(zlib.compress(f"commit {len(commit)}\0".encode() + commit))


def lose_object(origin: Origin) -> None:
    loose(origin, "HEAD:bin").unlink()


def lose_objects(origin: Origin) -> None:
    shutil.rmtree(origin.store() / "objects")


def lose_head(origin: Origin) -> None:
    (origin.store() / "HEAD").write_text("nonsense")


def store_as_a_file(origin: Origin) -> None:
    shutil.rmtree(origin.store())
    origin.store().write_text("")


@pytest.mark.parametrize(
    "damage",
    [
        flip_pack,
        flip_object,
        plant_blob,
        plant_tree,
        plant_commit,
        lose_object,
        lose_objects,
        lose_head,
        store_as_a_file,
    ],
)
def test_a_damaged_or_planted_cache_is_found_and_fetched_again(
    origin: Origin, damage: Callable[[Origin], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small fetches leave loose objects, large ones a pack."""
    if damage is flip_pack:
        options = (*fetch_module._OPTIONS, "-c", "fetch.unpackLimit=1")
        monkeypatch.setattr(fetch_module, "_OPTIONS", options)
    shutil.rmtree(origin.checkout())
    damage(origin)
    assert found(origin.checkout()) == FILES
    assert unfinished(origin.cache) == []

    shutil.rmtree(origin.checkout())
    damage(origin)
    shutil.rmtree(origin.folder)
    problem = origin.refused()
    assert isinstance(problem, PrerequisiteError)
    assert "does not appear to be a git repository" in problem.message


def test_a_replace_ref_in_the_cache_does_not_count(origin: Origin) -> None:
    shutil.rmtree(origin.checkout())
    git(origin.store(), "update-ref", "refs/heads/main", origin.commit)
    other = git(origin.store(), "commit-tree", f"{origin.commit}:sub", "-m", "x")
    git(origin.store(), "replace", origin.commit, other)
    shutil.rmtree(origin.folder)
    assert found(origin.checkout()) == FILES


def test_damage_that_comes_back_names_the_cache(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = origin.checkout()
    plant_blob(origin)
    bad = origin.store().rename(origin.cache / "bad")
    monkeypatch.setattr(module, "fetch", lambda url, commit, store, where: shutil.copytree(bad, store))
    assert found(origin.checkout()) == FILES  # trees are proven, and no blob has to be read
    shutil.rmtree(tree)
    problem = origin.refused()
    assert isinstance(problem, PrerequisiteError)
    assert "the cache is damaged: the blob " in problem.message
    assert str(origin.cache) in problem.hint


def change(tree: Path) -> None:
    (tree / "hidden").write_text("still gone")


def change_mode(tree: Path) -> None:
    (tree / "hidden").chmod(0o755)


def add(tree: Path) -> None:
    (tree / "sub/__pycache__").mkdir()
    (tree / "sub/__pycache__/x.pyc").write_text("planted")


def lose(tree: Path) -> None:
    (tree / "empty").unlink()


def bend(tree: Path) -> None:
    (tree / "link-in").unlink()
    (tree / "link-in").symlink_to("bin/run")


def link_file(tree: Path) -> None:
    (tree / "hidden").rename(tree.parent / "elsewhere")
    (tree / "hidden").symlink_to(tree.parent / "elsewhere")


def link_folder(tree: Path) -> None:
    (tree / "sub").rename(tree.parent / "elsewhere")
    (tree / "sub").symlink_to(tree.parent / "elsewhere")


def link_root(tree: Path) -> None:
    tree.rename(tree.parent / "elsewhere")
    tree.symlink_to(tree.parent / "elsewhere")


def pipe(tree: Path) -> None:
    (tree / "empty").unlink()
    os.mkfifo(tree / "empty")


def file_as_folder(tree: Path) -> None:
    (tree / "empty").unlink()
    (tree / "empty").mkdir()


def root_as_file(tree: Path) -> None:
    shutil.rmtree(tree)
    tree.write_text("")


@pytest.mark.parametrize(
    "damage",
    [
        change,
        change_mode,
        add,
        lose,
        bend,
        link_file,
        link_folder,
        link_root,
        pipe,
        file_as_folder,
        root_as_file,
    ],
)
def test_written_files_are_compared_and_written_again(origin: Origin, damage: Callable[[Path], None]) -> None:
    tree = origin.checkout()
    damage(tree)
    shutil.rmtree(origin.folder)
    assert origin.checkout() == tree
    assert (found(tree), tree.is_symlink()) == (FILES, False)
    assert unfinished(origin.cache) == []


def test_whole_files_are_used_again_not_written_again(origin: Origin) -> None:
    inodes = [(origin.checkout().stat().st_ino, origin.store().stat().st_ino) for _ in "123"]
    assert len(set(inodes)) == 1


PROGRAM = """\
import os, signal, sys
from pathlib import Path
from skillgate.bench.repos import checkout, fetch
written = checkout._write
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def write(path, content, mode):
    written(path, content, mode)
    if path.name == "hidden":
        die()
if sys.argv[4] == "die-writing":
    checkout._write = write
if sys.argv[4] == "die-fetching":
    fetch._refuse_object = die
source = checkout.GitSource(git=sys.argv[1], commit=sys.argv[2])
sys.stdin.readline()
print(checkout.checkout(source, Path(sys.argv[3]), "suite.yml:1"))
"""


def start(origin: Origin, how: str = "") -> subprocess.Popen[str]:
    source = origin.source()
    command = [sys.executable, "-c", PROGRAM, source.git, source.commit, str(origin.cache), how]
    root = Path(__file__).parents[2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=root, **pipes)


def test_several_processes_at_once_get_one_folder(origin: Origin) -> None:
    started = [start(origin) for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0] for process in started]
    assert answers == [f"{origin.checkout()}\n"] * 4
    assert found(origin.checkout()) == FILES
    assert [len(list((origin.cache / "trees").iterdir())), unfinished(origin.cache)] == [1, []]


@pytest.mark.parametrize("how", ["die-writing", "die-fetching"])
def test_kill_in_the_middle_leaves_nothing_that_is_taken_for_whole(origin: Origin, how: str) -> None:
    process = start(origin, how)
    process.communicate("go\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert len(unfinished(origin.cache)) == 1
    assert found(origin.checkout()) == FILES
    assert unfinished(origin.cache) == []


def test_a_commit_is_locked_while_it_is_fetched_and_written(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def watch(*arguments: Any) -> None:
            seen.append((name, is_locked(origin)))
            function(*arguments)

        return watch

    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(fetch_module, "_refuse_object", watched("fetch", fetch_module._refuse_object))
    monkeypatch.setattr(module, "_write", watched("write", module._write))
    origin.checkout()
    assert seen == [("fetch", True), *[("write", True)] * len(FILES)]
    assert not is_locked(origin)


def is_locked(origin: Origin) -> bool:
    with origin.store().with_name(f"{origin.commit}.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_cache_that_cannot_be_written(
    origin: Origin, tmp_path: Path, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PrerequisiteError) as caught:
        checkout(origin.source(), tmp_path / "file", WHERE)
    assert caught.value.message == f"{tmp_path / 'file'}: the cache cannot be written (Not a directory)"
    assert "XDG_CACHE_HOME" in caught.value.hint

    (tmp_path / "closed").mkdir(mode=0o555)

    def is_told() -> bool:
        try:
            checkout(origin.source(), tmp_path / "closed", WHERE)
        except PrerequisiteError as problem:
            return "the cache cannot be written (Permission denied)" in problem.message
        return False

    assert as_nobody(is_told)
