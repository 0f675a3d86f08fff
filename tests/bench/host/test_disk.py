"""The watch over the disk, alone and over a real container whose user fills it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import docker
import pytest
from docker.models.containers import Container
from docker.types import Mount, Ulimit
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.host import disk
from skillgate.bench.host.disk import DiskWatch
from skillgate.bench.host.tally import Amount

KIB, MIB = 1024, 1024 * 1024
LIMIT = 32 * MIB
MAX_FILES = 5000
USER = f"{os.geteuid() or 1000}:{os.getegid() or 1000}"  # who may remove it again


class Ended:
    """The `end` of a watch: counts its calls."""

    def __init__(self) -> None:
        self.times = 0
        self._happened = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self._happened.set()

    def wait(self) -> bool:
        return self._happened.wait(20)


@pytest.fixture
def end() -> Ended:
    return Ended()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note every count of a watch: whether it was a thorough one."""
    noted: list[bool] = []
    count = DiskWatch._count

    def noting(self: DiskWatch, stopped: Callable[[], bool], *, thorough: bool) -> object:
        noted.append(thorough)
        return count(self, stopped, thorough=thorough)

    monkeypatch.setattr(DiskWatch, "_count", noting)
    return noted


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what waits for that many ticks of the watch."""
    passed = threading.Semaphore(0)

    def tick(_: object) -> bool:
        passed.release()
        return False

    monkeypatch.setattr(disk, "_is_full", tick)

    def wait(number: int) -> None:
        for _ in range(number):
            assert passed.acquire(timeout=20)

    return wait


def test_folders_below_their_limits_are_left_alone(tmp_path: Path, end: Ended, ticks: Callable) -> None:
    (tmp_path / "file").write_bytes(b"x" * 90 * KIB)
    os.truncate(tmp_path / "file", 1 << 40)
    with DiskWatch([tmp_path], 100 * KIB, 1, end) as watch:
        ticks(3)
    assert (watch.exceeded, watch.full, end.times) == (False, False, 0)


def test_more_bytes_than_the_limit_in_all_folders_end_it_once(tmp_path: Path, end: Ended) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with DiskWatch(folders, 100 * KIB, 100, end) as watch:
        (tmp_path / "a/1").write_bytes(b"x" * 60 * KIB)
        (tmp_path / "b/1").write_bytes(b"x" * 60 * KIB)
        assert end.wait()
        assert watch.exceeded
        watch._thread.join(20)
        assert not watch._thread.is_alive()
    assert (watch.exceeded, watch.full, end.times) == (True, False, 1)


def test_more_files_than_the_limit_end_it(tmp_path: Path, end: Ended) -> None:
    with DiskWatch([tmp_path], LIMIT, 10, end) as watch:
        for number in range(11):
            (tmp_path / str(number)).touch()
        assert end.wait()
    assert (watch.exceeded, end.times) == (True, 1)


def test_what_was_there_before_counts(tmp_path: Path, end: Ended) -> None:
    (tmp_path / "file").write_bytes(b"x" * 101 * KIB)
    with DiskWatch([tmp_path], 100 * KIB, 10, end) as watch:
        assert end.wait()
    assert watch.exceeded


def test_what_was_written_in_the_last_moment_is_found_when_it_closes(
    tmp_path: Path, end: Ended, ticks: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "TICK_S", 60)
    with DiskWatch([tmp_path], 100 * KIB, 10, end) as watch:
        ticks(1)
        (tmp_path / "file").write_bytes(b"x" * 101 * KIB)
    assert (watch.exceeded, end.times) == (True, 0)


def test_a_quiet_disk_costs_one_count(
    tmp_path: Path, end: Ended, ticks: Callable, counts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "COUNT_EVERY_S", 3600)
    with DiskWatch([tmp_path], 1 << 50, 1 << 50, end):
        ticks(10)
        assert counts == [True]
    assert counts == [True, True]


def test_growth_that_the_disk_does_not_show_is_found_all_the_same(
    tmp_path: Path, end: Ended, ticks: Callable, counts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may free what the folders take."""
    monkeypatch.setattr(disk, "COUNT_EVERY_S", 0.1)
    monkeypatch.setattr(disk, "_free", lambda _: Amount(0, 0))
    with DiskWatch([tmp_path], 100 * KIB, 10, end) as watch:
        ticks(1)
        (tmp_path / "file").write_bytes(b"x" * 101 * KIB)
        assert end.wait()
    assert watch.exceeded
    assert set(counts[1:]) == {False}


class Disk(NamedTuple):
    """What `statvfs` says of a disk of 100 GiB."""

    f_bavail: int
    f_blocks: int = 100 * 2**20
    f_frsize: int = KIB


@pytest.mark.parametrize(
    ("facts", "full"),
    [
        (Disk(512 * KIB), False),
        (Disk(512 * KIB - 1), True),
        (Disk(50, 1000), False),
        (Disk(49, 1000), True),
        (Disk(0, 0), False),  # says nothing
    ],
)
def test_when_a_disk_is_full(facts: Disk, full: bool) -> None:
    assert disk._is_full(facts) == full  # type: ignore[arg-type]


def test_a_full_disk_ends_it_and_is_not_the_folders_fault(
    tmp_path: Path, end: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_is_full", lambda _: True)
    with DiskWatch([tmp_path], LIMIT, 10, end) as watch:
        assert end.wait()
    assert (watch.exceeded, watch.full, end.times) == (False, True, 1)


def test_a_disk_that_the_folders_filled_is_their_fault(
    tmp_path: Path, end: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_is_full", lambda _: True)
    (tmp_path / "file").write_bytes(b"x" * 101 * KIB)
    with DiskWatch([tmp_path], 100 * KIB, 10, end) as watch:
        assert end.wait()
    assert (watch.exceeded, watch.full) == (True, False)


def test_a_folder_that_is_not_there_leaves_nothing_open(tmp_path: Path, end: Ended) -> None:
    before = (threading.active_count(), sorted(Path("/proc/self/fd").iterdir()))
    for folders in ([tmp_path / "no"], [tmp_path, tmp_path / "no"]):
        with pytest.raises(FileNotFoundError), DiskWatch(folders, LIMIT, 10, end):
            pass
    with DiskWatch([tmp_path], LIMIT, 10, end):
        pass
    assert (threading.active_count(), sorted(Path("/proc/self/fd").iterdir())) == before


STEPS = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 50)), max_size=30)


@given(steps=STEPS, held=st.integers(0, 100), limit=st.integers(0, 100))
def test_without_anybody_freeing_space_no_growth_over_the_limit_is_missed(
    steps: list[tuple[int, int]], held: int, limit: int
) -> None:
    """Steps are what the folders grew by and what others wrote."""
    free, now = 10_000, held
    base = disk._Base(Amount(free, free), Amount(held, 0), Amount(limit, 10_000))
    for own, others in steps:
        own = max(own, -now)
        now, free = now + own, free - own - others
        if now > limit:
            assert base.may_be_over(Amount(free, 10_000))


def test_what_moves_the_disk_less_than_the_limit_leaves_is_not_counted() -> None:
    base = disk._Base(Amount(1000, 100), Amount(30, 5), Amount(100, 10))
    asked = [Amount(930, 100), Amount(929, 100), Amount(1070, 100), Amount(1071, 100)]
    assert [base.may_be_over(free) for free in asked] == [False, True, False, True]
    asked = [Amount(1000, 95), Amount(1000, 94), Amount(1000, 105), Amount(1000, 106)]
    assert [base.may_be_over(free) for free in asked] == [False, True, False, True]


def test_a_long_count_leaves_time_to_others() -> None:
    pace = disk._Pace()
    assert [pace.allows(0.0, urgent=urgent) for urgent in (True, False)] == [True, True]
    pace.note(10.0, 10.01)
    asked = ((10.015, True), (10.021, True), (10.9, False), (11.02, False))
    assert [pace.allows(now, urgent=urgent) for now, urgent in asked] == [False, True, False, True]
    pace.note(20.0, 22.0)
    asked = ((23.9, True), (24.0, True), (41.9, False), (42.0, False))
    assert [pace.allows(now, urgent=urgent) for now, urgent in asked] == [False, True, False, True]


# ---- over a real container


class Box(NamedTuple):
    """A container whose user writes to two folders of the host."""

    container: Container
    folders: list[Path]

    def end(self) -> None:
        self.container.kill()

    def watched(self, command: str) -> tuple[int, DiskWatch]:
        with DiskWatch(self.folders, LIMIT, MAX_FILES, self.end) as watch:
            code = self.container.exec_run(["python3", "-c", command], user=USER).exit_code
        return int(code or 0), watch


@pytest.fixture
def box(tmp_path: Path, docker_image: str) -> Iterator[Box]:
    folders = [tmp_path / "workspace", tmp_path / "tmp"]
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o777)
    with closing(docker.from_env()) as client:
        container = client.containers.create(
            docker_image,
            entrypoint=["sleep", "infinity"],
            init=True,
            network_mode="none",
            mounts=[Mount(f"/{folder.name}", str(folder), type="bind") for folder in folders],
            working_dir="/workspace",
            labels={"skillgate": "1"},
            mem_limit="512m",
            pids_limit=64,
            ulimits=[Ulimit(name="fsize", soft=LIMIT, hard=LIMIT)],
        )
        try:
            container.start()
            yield Box(container, folders)
        finally:
            container.remove(force=True, v=True)
            subprocess.run(["rm", "-rf", "--", *map(str, folders)], check=True)  # too deep for pytest


BLOCK = "import os, time; block = b'x' * 2**20"
MAPPED = "mapped files without a name"
FILLS = {
    "many files": """
for number in range(10_000):
    open(f"/tmp/{number}" if number % 2 else f"{number}", "wb").write(block)
""",
    "empty files": "for number in range(10**7): open(str(number), 'wb').close()",
    "folders in folders": """
for number in range(10**7):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
""",
    "files without a name": """
kept = []
for number in range(1000):
    kept.append(open("file", "wb"))
    os.unlink("file")
    for _ in range(20):
        kept[-1].write(block)
""",
    "files without a name, slowly": """
kept = []
while True:
    kept.append(open("file", "wb"))
    os.unlink("file")
    kept[-1].write(block[:2**18])
    kept[-1].flush()
    time.sleep(0.01)
""",
    MAPPED: """
import ctypes
call = ctypes.CDLL(None).mmap  # the mmap of Python keeps the file open
call.restype, word = ctypes.c_void_p, ctypes.c_long
call.argtypes = [ctypes.c_void_p, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, word]
for number in range(1000):
    with open("file", "w+b") as file:
        os.unlink("file")
        file.truncate(2**24)
        place = call(None, 2**24, 3, 1, file.fileno(), 0)
    ctypes.memset(place, 120, 2**24)
time.sleep(60)
""",
    "a reservation past the limit of a file": """
import ctypes
call = ctypes.CDLL(None).fallocate
call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
file = open("file", "wb")
assert call(file.fileno(), 1, 0, 2**28) == 0
time.sleep(60)
""",
}
INNOCENT = """
for number in range(20):
    with open("file", "wb") as file:
        for _ in range(10): file.write(block)
    os.unlink("file")
with open("sparse", "wb") as file: file.truncate(2**25)
for number in range(100): os.link("sparse", str(number))
"""
ONE_BIG_FILE = "dd if=/dev/zero of=big bs=1M count=10240 2>/dev/null"


@pytest.mark.docker
@pytest.mark.parametrize("fill", FILLS)
def test_who_fills_the_disk_is_ended(box: Box, fill: str) -> None:
    if fill == MAPPED and os.geteuid() != 0:
        pytest.skip("only root sees what others have mapped")
    code, watch = box.watched(f"{BLOCK}\n{FILLS[fill]}")
    assert (code, watch.exceeded, watch.full) == (137, True, False)
    box.container.reload()
    assert box.container.status == "exited"


@pytest.mark.docker
def test_who_writes_much_and_keeps_little_is_not(box: Box) -> None:
    code, watch = box.watched(f"{BLOCK}\n{INNOCENT}")
    assert (code, watch.exceeded, watch.full) == (0, False, False)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"exec {ONE_BIG_FILE}", 128 + 25),  # SIGXFSZ
        (f"{ONE_BIG_FILE}; echo $?", 0),
        ("python3 -c \"open('big', 'wb').write(bytes(2**26))\"", 1),  # Python ignores the signal: EFBIG
    ],
)
def test_one_file_ends_at_the_limit_whoever_watches(box: Box, command: str, code: int) -> None:
    done = box.container.exec_run(["sh", "-c", command], user=USER)
    assert done.exit_code == code
    assert (box.folders[0] / "big").stat().st_size == LIMIT
