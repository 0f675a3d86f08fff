"""What the kernel says of a container, beside what the engine and the processes themselves say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from skillgate.bench.host import cgroup
from skillgate.bench.host.cgroup import account_of
from skillgate.bench.host.owner import owner_labels

ID = "c0ffee" * 10


@pytest.fixture
def container(docker_image: str) -> Iterator[Container]:
    with closing(docker.from_env()) as client:
        made = client.containers.create(
            docker_image,
            entrypoint=["sleep", "infinity"],
            init=True,
            network_mode="none",
            labels=owner_labels(),
            mem_limit="64m",
            memswap_limit="64m",
        )
        try:
            made.start()
            wait_for_sleepers(made, 1)  # its init starts it a moment later
            yield made
        finally:
            made.remove(force=True)


def wait_for_sleepers(container: Container, number: int) -> None:
    count = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c ^sleep"
    container.exec_run(["timeout", "20", "sh", "-c", f"until [ $({count}) = {number} ]; do :; done"])


def pid_of(container: Container) -> int:
    container.reload()
    return int(container.attrs["State"]["Pid"])


@pytest.mark.docker
def test_it_counts_the_processes_of_the_container_alone(container: Container) -> None:
    account = account_of(str(container.id), pid_of(container))
    assert account is not None
    assert account.processes() == 2 == len(container.top()["Processes"])
    container.exec_run(["sh", "-c", "exit 3"])
    assert account.processes() == 2
    container.exec_run(["sh", "-c", "sleep 60 & sleep 60 &"], detach=True)
    wait_for_sleepers(container, 3)
    assert account.processes() == 4


@pytest.mark.docker
def test_it_counts_kills_for_memory_until_a_restart(container: Container) -> None:
    account = account_of(str(container.id), pid_of(container))
    assert account is not None
    counts = [account.oom_kills()]
    for _ in range(2):
        assert container.exec_run(["python3", "-c", "x = bytearray(10**9)"]).exit_code == 137
        counts.append(account.oom_kills())
    container.restart(timeout=0)
    wait_for_sleepers(container, 1)
    again = account_of(str(container.id), pid_of(container))
    assert again is not None
    assert ([*counts, again.oom_kills()], again.processes()) == ([0, 1, 2, 0], 2)


@pytest.mark.docker
def test_of_a_container_that_does_not_run_there_is_none(container: Container) -> None:
    pid = pid_of(container)
    account = account_of(str(container.id), pid)
    assert account is not None
    container.kill()
    container.wait()
    for ask in (account.processes, account.oom_kills):
        with pytest.raises(OSError, match=r"cgroup\.procs|memory\."):
            ask()
    assert account_of(str(container.id), pid) is None


def test_a_process_of_this_machine_is_no_container_of_another() -> None:
    assert account_of(ID, os.getpid()) is None
    assert account_of(ID, 2**30) is None


@pytest.mark.parametrize(
    ("lines", "folder", "file"),
    [
        (f"0::/system.slice/docker-{ID}.scope", f"system.slice/docker-{ID}.scope", "memory.events"),
        (
            f"3:cpu:/docker/{ID}\n2:memory:/docker/{ID}\n0::/docker/{ID}",
            f"memory/docker/{ID}",
            "memory.oom_control",
        ),
    ],
)
def test_where_both_versions_keep_it(
    lines: str, folder: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroup, "_CGROUPS", tmp_path / "cgroup")
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(lines + "\n")
    assert account_of(ID, 7) is None
    here = tmp_path / "cgroup" / folder
    here.mkdir(parents=True)
    (here / file).write_text("low 0\noom 9\noom_kill 3\noom_group_kill 1\n")
    (here / "cgroup.procs").write_text("1\n7\n")
    account = account_of(ID, 7)
    assert account is not None
    assert (account.processes(), account.oom_kills()) == (2, 3)
    assert account_of(ID[::-1], 7) is None
