"""What folders hold, counted while somebody hostile may be writing them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillgate.bench.host.tally import Amount, Tally, identity, nameless

KIB = 1024
PLENTY = Amount(1 << 40, 1 << 20)


def tally(top: Path, limit: Amount = PLENTY, *, thorough: bool = False) -> Amount:
    counted = Tally(limit, thorough=thorough, stopped=lambda: False)
    counted.walk(top)
    return counted.amount


def tally_while(top: Path, act: Callable[[], object], moment: int) -> Amount:
    """Count, and call `act` before the folder number `moment` is entered."""
    entered = iter(range(1, 1 << 20))

    def stopped() -> bool:
        if next(entered) == moment:
            act()
        return False

    counted = Tally(PLENTY, thorough=False, stopped=stopped)
    counted.walk(top)
    return counted.amount


def blocks(*paths: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in paths)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def put(path: Path, size: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "top"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)  # pytest cannot remove a very deep tree


@pytest.fixture
def deep(top: Path) -> int:
    """Nest folders deeper than a path or a stack can be; return how many."""
    levels, name = 1500, "d" * 50
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    return levels


def test_an_empty_folder_holds_nothing_and_a_missing_one_neither(top: Path) -> None:
    assert tally(top) == tally(top / "missing") == Amount(0, 0)


def test_every_name_counts_and_its_blocks(top: Path) -> None:
    file, small = put(top / "a/b/file", 100 * KIB), put(top / "small", 1)
    os.mkfifo(top / "pipe")
    folders = (top / "a", top / "a/b")
    assert tally(top) == Amount(blocks(file, small, *folders), 5)
    assert blocks(file) == 100 * KIB


def test_a_sparse_file_is_small(top: Path) -> None:
    os.truncate(put(top / "sparse"), 1 << 40)
    assert tally(top) == Amount(0, 1)


def test_a_file_with_many_names_counts_once_across_folders(top: Path) -> None:
    file = put(top / "a/file", 100 * KIB)
    (top / "b").mkdir()
    (top / "a/again").hardlink_to(file)
    (top / "b/again").hardlink_to(file)
    counted = Tally(PLENTY, thorough=False, stopped=lambda: False)
    for folder in (top / "a", top / "b"):
        counted.walk(folder)
    assert counted.amount == Amount(100 * KIB, 3)


def test_links_are_never_followed(top: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside/big", 100 * KIB)
    (top / "folder").symlink_to(tmp_path / "outside")
    (top / "file").symlink_to(tmp_path / "outside/big")
    (top / "loop").symlink_to(".")
    assert tally(top) == Amount(blocks(*top.iterdir()), 3)  # a long target takes a block
    (tmp_path / "link").symlink_to(top)
    assert tally(tmp_path / "link") == Amount(0, 0)


@pytest.mark.parametrize(("limit", "files"), [(Amount(1 << 40, 10), 11), (Amount(250 * KIB, 1 << 20), 3)])
def test_it_stops_once_it_is_over(top: Path, limit: Amount, files: int) -> None:
    for number in range(100):
        put(top / str(number), 100 * KIB)
    counted = Tally(limit, thorough=False, stopped=lambda: False)
    counted.walk(top)
    assert (counted.over, counted.amount.files) == (True, files)


def test_it_stops_when_it_is_told(top: Path) -> None:
    put(top / "a/b/c")
    counted = Tally(PLENTY, thorough=False, stopped=lambda: True)
    counted.walk(top)
    assert counted.amount.files == 1


def test_a_very_deep_tree_is_counted_with_few_open_folders(top: Path, deep: int) -> None:
    most = 0

    def stopped() -> bool:
        nonlocal most
        most = max(most, open_files())
        return False

    before = open_files()
    counted = Tally(PLENTY, thorough=True, stopped=stopped)
    counted.walk(top)
    assert counted.amount.files == deep
    assert most - before < 50
    assert open_files() == before


def test_what_lies_beside_the_way_down_is_counted_too(top: Path) -> None:
    names, here = 0, top
    for _ in range(100):
        put(here / "a/file")
        put(here / "z/file")
        names += 4
        here = here / ("a" if names % 3 else "z")
    assert tally(top) == Amount(blocks(*top.rglob("*")), names)


class Moving(Tally):
    """Moves a folder away when it has come to another one."""

    def __init__(self, here: Path, folder: Path, away: Path) -> None:
        super().__init__(PLENTY, thorough=False, stopped=lambda: False)
        self._here, self._folder, self._away = identity(here.stat()), folder, away

    def _list(self, folder: int) -> Iterator[str]:
        yield from super()._list(folder)
        if identity(os.fstat(folder)) == self._here:
            self._folder.rename(self._away)


def test_a_folder_that_is_moved_away_leads_nowhere_else(top: Path, tmp_path: Path) -> None:
    """Else the way up from the moved folder would end in folders that are not ours."""
    bottom, above = top / "/".join(["d"] * 100), top / "/".join(["d"] * 59)
    bottom.mkdir(parents=True)
    for number in range(20):  # some of them are entered after what is deep
        (above / str(number)).mkdir()
        put(tmp_path / str(number) / "big", 100 * KIB)
    counted = Moving(bottom, above / "d", tmp_path / "away")
    counted.walk(top)
    assert counted.amount == Amount(120 * blocks(top), 120)
    assert (tmp_path / "away").is_dir()


def test_what_vanishes_or_becomes_a_link_is_left_out(top: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        put(top / name / "file")
    put(tmp_path / "outside/big", 100 * KIB)

    def change() -> None:
        for name in ("a", "b", "c"):
            (top / name / "file").unlink()
            (top / name).rmdir()
            (top / name).symlink_to(tmp_path / "outside")

    folders = blocks(*(top / name for name in ("a", "b", "c")))
    assert tally_while(top, change, moment=1) == Amount(folders, 3)


def test_a_file_that_vanishes_while_its_folder_is_listed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(top / "stays")
    put(top / "goes")
    real = os.scandir

    class Late:
        def __init__(self, folder: int) -> None:
            with real(folder) as entries:
                self._entries = list(entries)
            (top / "goes").unlink(missing_ok=True)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Late)
    assert tally(top) == Amount(0, 1)


def closed_trees() -> bool:
    """Ask as somebody with few rights what is found in folders that are closed to their owner."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for mode in (0o000, 0o100, 0o400):
            put(top / f"{mode:o}/in/file", 100 * KIB)
            (top / f"{mode:o}").chmod(mode)
        put(top / "open/file", 100 * KIB)
        ordinary, thorough = tally(top), tally(top, thorough=True)
        modes = [(top / name).stat().st_mode & 0o777 for name in ("0", "100", "400")]
        return (ordinary, thorough, modes) == (  # of 400 the names are seen: `in`
            Amount(100 * KIB + 4 * blocks(top), 4 + 1 + 1),
            Amount(4 * 100 * KIB + 7 * blocks(top), 7 + 4),
            [0o700] * 3,
        )


def test_folders_that_their_owner_closed_hide_nothing_from_a_thorough_count(
    as_nobody: Callable[[Callable[[], bool]], bool],
) -> None:
    assert as_nobody(closed_trees)


def test_folders_of_others_are_left_as_they_are(
    as_nobody: Callable[[Callable[[], bool]], bool], top: Path
) -> None:
    (top / "closed").mkdir(mode=0o700)
    before = (top / "closed").stat()
    assert as_nobody(lambda: tally(top, thorough=True).files in (0, 1))
    assert (top / "closed").stat() == before


def test_nothing_without_a_name_is_found_where_no_container_has_the_folder(top: Path) -> None:
    with put(top / "file", KIB).open() as file:
        (top / "file").unlink()
        assert os.fstat(file.fileno()).st_nlink == 0
        assert list(nameless([identity(top.stat())])) == []
