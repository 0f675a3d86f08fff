"""Whose a thing is, asked of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from skillgate.bench.host import owner
from skillgate.bench.host.owner import OWNER_FILE, Fate, booted_s, fate, mark, marked, owner_labels

ROOT = Path(__file__).parents[2]
SAY_AND_WAIT = (
    "import sys\nfrom skillgate.bench.host.owner import owner\nprint(owner(), flush=True)\nsys.stdin.read()"
)


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start another process; return it and its name."""
    command = [sys.executable, "-c", SAY_AND_WAIT]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def parts() -> list[str]:
    return owner.owner().split(":")


def test_a_process_has_one_name_and_lives() -> None:
    assert owner_labels() == {"skillgate": "1", "skillgate.owner": owner.owner()}
    assert len(parts()) == 4
    assert int(parts()[2]) == os.getpid()
    assert fate(owner.owner()) is Fate.ALIVE


def test_another_process_lives_until_it_is_killed(other: tuple[subprocess.Popen[str], str]) -> None:
    process, name = other
    assert fate(name) is Fate.ALIVE
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and its parent has not asked yet
    assert Path(f"/proc/{process.pid}/stat").exists()
    assert fate(name) is Fate.DEAD
    process.wait()
    assert fate(name) is Fate.DEAD


def test_a_stopped_process_lives(other: tuple[subprocess.Popen[str], str]) -> None:
    process, name = other
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert fate(name) is Fate.ALIVE


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    boot, space, pid, started = parts()
    assert fate(f"{boot}:{space}:{pid}:{int(started) - 1}") is Fate.DEAD


@pytest.mark.parametrize("name", ["", "x", "::::", "a:b:c:d", "random-4a", "1:2:3:4:5", "\0:\0:\0:\0"])
def test_of_what_we_did_not_write_nothing_is_known(name: str) -> None:
    assert fate(name) in (Fate.UNKNOWN, Fate.OTHER_BOOT)


def test_other_boots_and_namespaces_are_not_ours_to_judge() -> None:
    boot, space, pid, started = parts()
    dead = int(started) - 1
    assert fate(f"{boot[:-1]}x:{space}:{pid}:{dead}") is Fate.OTHER_BOOT
    assert fate(f"{boot}:{space}0:{pid}:{dead}") is Fate.UNKNOWN
    assert fate(f"{boot}:{space}:no:{dead}") is Fate.UNKNOWN


def test_a_process_that_proc_hides_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(pid: int) -> str:
        raise FileNotFoundError

    name = owner.owner()
    monkeypatch.setattr(owner, "_started", hidden)
    assert fate(name) is Fate.UNKNOWN


def proc_of(process: str, folder: Path) -> None:
    """Write what owners are made of as the /proc of a process namespace shows it to a process."""
    for path in ("sys/kernel/random/boot_id", f"{process}/ns/pid", f"{os.getpid()}/stat"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"1 (x) {' '.join(['R', *'0' * 30])}")
    (folder / "self").symlink_to(process)


def test_a_process_is_named_by_its_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc_of(str(os.getpid()), tmp_path)
    monkeypatch.setattr(owner, "_PROC", tmp_path)
    assert fate(owner.owner()) is Fate.ALIVE


@pytest.mark.parametrize("process", [None, "1"])
def test_without_a_proc_of_its_own_a_process_has_a_random_name(
    process: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if process:  # as in a new process namespace that sees the old /proc
        proc_of(process, tmp_path)
    monkeypatch.setattr(owner, "_PROC", tmp_path)
    name = owner.owner()
    assert name.startswith("random-")
    assert owner.owner() == name
    assert fate(name) is Fate.UNKNOWN


def test_a_name_says_when_the_process_started_and_the_machine_before_it() -> None:
    before_s, now_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    done = subprocess.run(
        [sys.executable, "-c", SAY_AND_WAIT],
        cwd=ROOT,
        input="",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    started_s = int(done.stdout.split(":")[3]) / os.sysconf("SC_CLK_TCK")
    assert before_s - 0.1 < started_s < time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(booted_s() + before_s - now_s) < 2


def test_a_folder_says_whose_it_is(tmp_path: Path) -> None:
    assert marked(tmp_path) == ""
    mark(tmp_path)
    assert marked(tmp_path) == owner.owner()


def test_a_mark_that_is_no_plain_small_file_says_nothing_and_does_not_hang(tmp_path: Path) -> None:
    mark(tmp_path)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / OWNER_FILE).symlink_to(tmp_path / OWNER_FILE)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / OWNER_FILE)
    (tmp_path / "folder" / OWNER_FILE).mkdir(parents=True)
    (tmp_path / "large").mkdir()
    with (tmp_path / "large" / OWNER_FILE).open("wb") as file:
        file.truncate(1 << 40)
    said = {name: marked(tmp_path / name).strip("\0") for name in ("link", "pipe", "folder", "large")}
    assert set(said.values()) == {""}


@pytest.mark.docker
def test_a_process_in_a_container_is_not_judged_from_outside_nor_we_from_inside(docker_image: str) -> None:
    ask = "import runpy; o = runpy.run_path('/owner.py'); print(o['owner'](), o['fate']({!r}).name)"
    boot, space, pid, started = parts()
    dead = f"{boot}:{space}:{pid}:{int(started) - 1}"
    with closing(docker.from_env()) as client:
        said = client.containers.run(
            docker_image,
            ["python3", "-c", ask.format(dead)],
            volumes={owner.__file__: {"bind": "/owner.py", "mode": "ro"}},
            network_mode="none",
            labels=owner_labels(),
            remove=True,
        )
    inner, judged = said.decode().split()
    assert inner.split(":")[0] == boot
    assert (fate(inner), judged) == (Fate.UNKNOWN, "UNKNOWN")
