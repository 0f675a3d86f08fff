"""What a killed skillgate leaves: real processes, containers, folders, and a table of who is judged how."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException, NotFound

from skillgate.bench.host import owner, reaper
from skillgate.bench.host.owner import OWNER_FILE, mark, owner_labels
from skillgate.bench.host.reaper import OLD_S, reap, reap_folders
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace

ROOT = Path(__file__).parents[2]
NOW = 2_000_000_000
YOUNG, OLD = NOW - 60, NOW - int(OLD_S) - 60

LEAVE = """
import os, sys
from pathlib import Path
import docker
from skillgate.bench.host.owner import mark, owner_labels
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace

image, suite, parent = sys.argv[1:]
workspace = Workspace.create(load_suite(Path(suite)), Path(parent))
mark(workspace.root)
made = [str(workspace.root)]
if image:
    client, labels = docker.from_env(), owner_labels()
    network = client.networks.create(f"skillgate-test-{os.getpid()}", internal=True, labels=labels)
    volume = client.volumes.create(labels=labels)
    places = {volume.name: "/kept", str(workspace.root): "/run/here"}
    volumes = {place: {"bind": inside, "mode": "rw"} for place, inside in places.items()}
    container = client.containers.run(
        image, ["sleep", "infinity"], detach=True, network=network.name, volumes=volumes, labels=labels
    )
    made += [container.id, network.id, volume.name]
print(*made, flush=True)
sys.stdin.read()
"""


class Other:
    """Another skillgate: a process with a run folder and, given an image, a container, network and volume."""

    def __init__(self, image: str, suite: Path, parent: Path) -> None:
        command = [sys.executable, "-c", LEAVE, image, str(suite), str(parent)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        folder, *self.ids = self._process.stdout.readline().split()
        self.folder = Path(folder)

    def kill(self) -> None:
        """End it as `kill -9` does; its parent does not ask how it ended, so it stays a zombie."""
        self._process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def others(tiny_suite: Path, tmp_path: Path) -> Iterator[Callable[[str], Other]]:
    """Return what starts another skillgate, with its run folder in `places`; all are ended."""
    started: list[Other] = []
    (tmp_path / "places").mkdir()

    def start(image: str) -> Other:
        started.append(Other(image, tiny_suite, tmp_path / "places"))
        return started[-1]

    yield start
    for other in started:
        other.close()
    if any(other.ids for other in started):
        with closing(docker.from_env()) as client:
            reap(client)


@pytest.fixture
def client(docker_image: str) -> Iterator[docker.DockerClient]:
    with closing(docker.from_env()) as opened:
        yield opened


def left(client: docker.DockerClient, ids: list[str]) -> list[str]:
    """Return which of them the engine still has."""
    listed = client.api.containers(all=True), client.api.networks()
    there = {facts["Id"] for found in listed for facts in found}
    there |= {facts["Name"] for facts in client.api.volumes()["Volumes"]}
    return [name for name in ids if name in there]


@pytest.mark.docker
def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(
    client: docker.DockerClient, docker_image: str, others: Callable[[str], Other], tmp_path: Path
) -> None:
    places = tmp_path / "places"
    dead, living = others(docker_image), others(docker_image)
    own = client.containers.create(docker_image, ["true"], labels=owner_labels())
    try:
        reap(client)
        assert left(client, dead.ids) == dead.ids
        dead.kill()
        reap(client)  # another reaper may be first: what it returns is the affair of other tests
        assert left(client, dead.ids) == []
        assert left(client, [*living.ids, own.id]) == [*living.ids, own.id]
        assert reap_folders(places) == (dead.folder,)
        assert list(places.iterdir()) == [living.folder]
    finally:
        own.remove(force=True)


class Api:
    """An engine as its API shows it, with four containers, a network and a volume of one owner each."""

    def __init__(self, name: str = "", made_s: int = YOUNG, **options: Any) -> None:
        self.base_url = options.get("url", "http+docker://localhost")
        labels = options.get("labels", {}) | ({"skillgate.owner": name} if name else {})
        self.labels: dict[str, str] = {"skillgate": "1", **labels}
        self.broken = options.get("broken", ())
        self.clock = options.get("clock", time.strftime("%Y-%m-%dT%H:%M:%S.067064543Z", time.gmtime(NOW)))
        made = time.gmtime(made_s)
        self.made: list[Any] = options.get("made") or [
            made_s,
            time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", made),
            time.strftime("%Y-%m-%dT%H:%M:%S+00:00", made),
        ]
        self.removed: list[str] = []

    def containers(self, **asked: Any) -> list[dict[str, Any]]:
        assert asked == {"all": True, "filters": {"label": "skillgate=1"}}
        self._ask("containers")
        return [{"Id": name, "Labels": self.labels, "Created": self.made[0]} for name in ("c1", "c2")]

    def networks(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        self._ask("networks")
        return [{"Id": "n", "Labels": self.labels, "Created": self.made[1]}]

    def volumes(self, filters: dict[str, str]) -> dict[str, Any]:
        self._ask("volumes")
        return {"Volumes": [{"Name": "v", "Labels": self.labels, "CreatedAt": self.made[2]}]}

    def info(self) -> dict[str, str]:
        self._ask("info")
        return {"SystemTime": self.clock}

    def remove_container(self, name: str, **asked: Any) -> None:
        assert asked == {"force": True, "v": True}
        self._remove(name)

    def remove_network(self, name: str) -> None:
        self._remove(name)

    def remove_volume(self, name: str, force: bool) -> None:
        self._remove(name)

    def _ask(self, what: str) -> None:
        if what in self.broken:
            raise DockerException("the engine is gone")

    def _remove(self, name: str) -> None:
        if name in self.broken:
            raise NotFound("somebody else was first")
        self.removed.append(name)


class Engine:
    def __init__(self, api: Api) -> None:
        self.api = api


ALL = ("container c1", "container c2", "network n", "volume v")
REMOTE = "http://10.0.0.1:2376"


def name(who: str) -> str:
    boot, space, pid, started = owner.owner().split(":")
    return {
        "me": f"{boot}:{space}:{pid}:{started}",
        "dead": f"{boot}:{space}:{pid}:1",
        "other namespace": f"{boot}:1:{pid}:1",
        "other boot": f"{boot[::-1]}:{space}:{pid}:1",
        "random": "random-1",
        "nobody": "",
    }[who]


@pytest.mark.parametrize(
    ("who", "young", "old", "remote_young", "remote_old"),
    [
        ("me", (), (), (), ()),
        ("dead", ALL, ALL, (), ALL),
        ("other namespace", (), ALL, (), ALL),
        ("other boot", (), ALL, (), ALL),
        ("random", (), ALL, (), ALL),
        ("nobody", (), ALL, (), ALL),
    ],
)
def test_who_is_judged_how(
    who: str, young: tuple[str, ...], old: tuple[str, ...], remote_young: tuple[str, ...], remote_old: Any
) -> None:
    apis = [Api(name(who), made, url=url) for url in (Api().base_url, REMOTE) for made in (YOUNG, OLD)]
    assert [reap(Engine(api)) for api in apis] == [young, old, remote_young, remote_old]  # type: ignore[arg-type]
    removed = [tuple(api.removed) for api in apis]
    assert removed == [
        tuple(gone.split()[1] for gone in all_) for all_ in (young, old, remote_young, remote_old)
    ]


def test_what_another_boot_left_goes_when_it_is_older_than_this_one() -> None:
    booted = int(owner.booted_s())
    made = {"before": booted - 60, "after": booted + 60}
    gone = {
        (when, url): reap(Engine(Api(name("other boot"), made[when], url=url, broken=["info"])))  # type: ignore[arg-type]
        for when in made
        for url in (Api().base_url, REMOTE)
    }
    assert {case for case, things in gone.items() if things} == {("before", Api().base_url)}
    assert gone["before", Api().base_url] == ALL


def test_a_container_that_somebody_made_from_an_image_of_ours_is_his() -> None:
    api = Api(made_s=OLD, labels={"skillgate.key": "k"})
    assert reap(Engine(api)) == ("network n", "volume v")  # type: ignore[arg-type]
    api = Api(name("dead"), labels={"skillgate.key": "k"})
    assert reap(Engine(api)) == ALL  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "gone"),
    [
        (["c1"], ("container c2", "network n", "volume v")),
        (["containers", "n"], ("volume v",)),
        (["containers", "networks", "volumes"], ()),
    ],
)
def test_what_an_engine_refuses_is_left_out(broken: list[str], gone: tuple[str, ...]) -> None:
    assert reap(Engine(Api(name("dead"), broken=broken))) == gone  # type: ignore[arg-type]


def test_an_age_that_cannot_be_told_is_no_reason() -> None:
    assert reap(Engine(Api(name("nobody"), OLD, broken=["info"]))) == ()  # type: ignore[arg-type]
    assert reap(Engine(Api(name("nobody"), OLD, clock=None))) == ()  # type: ignore[arg-type]
    assert reap(Engine(Api(name("nobody"), made=["soon"] * 3))) == ()  # type: ignore[arg-type]


def test_an_engine_that_does_not_answer_is_no_error() -> None:
    nowhere = "unix:///nonexistent/docker.sock"
    with warnings.catch_warnings(), closing(docker.DockerClient(base_url=nowhere, version="1.41")) as client:
        warnings.simplefilter("ignore", ResourceWarning)  # the SDK does not close what does not connect
        assert reap(client) == ()
        gc.collect()


# ---- folders


def run_folder(parent: Path, who: str = "dead", suffix: str = "abcd_123", age_s: float = 0.0) -> Path:
    folder = parent / f"skillgate-{suffix}"
    (folder / "workspace").mkdir(parents=True)
    (folder / "tests").mkdir()
    folder.chmod(0o700)
    (folder / "workspace/file").write_text("x")
    if who != "nobody":
        (folder / OWNER_FILE).write_text(name(who))
    os.utime(folder, (time.time() - age_s, time.time() - age_s))
    return folder


@pytest.mark.parametrize(
    ("who", "young_goes", "old_goes"),
    [
        ("me", False, False),
        ("dead", True, True),
        ("other namespace", False, True),
        ("other boot", False, True),
        ("random", False, True),
        ("nobody", False, True),
    ],
)
def test_whose_folders_go(tmp_path: Path, who: str, young_goes: bool, old_goes: bool) -> None:
    young = run_folder(tmp_path, who, "young___", age_s=OLD_S - 60)
    old = run_folder(tmp_path, who, "old_____", age_s=OLD_S + 60)
    gone = ((old,) if old_goes else ()) + ((young,) if young_goes else ())
    assert reap_folders(tmp_path) == gone
    assert [folder for folder in (old, young) if not folder.exists()] == list(gone)


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(
    tiny_suite: Path, others: Callable[[str], Other], tmp_path: Path
) -> None:
    places = tmp_path / "places"
    dead, living = others(""), others("")
    with Workspace.create(load_suite(tiny_suite), places) as mine:
        mark(mine.root)
        dead.kill()
        assert reap_folders(places) == (dead.folder,)
        assert set(places.iterdir()) == {living.folder, mine.root}


def test_what_only_looks_like_a_run_stays(tmp_path: Path) -> None:
    for suffix in ("demo", "abcd_1234", "ABCD_123"):
        run_folder(tmp_path, suffix=suffix)
    run_folder(tmp_path, suffix="entered_").chmod(0o755)
    (run_folder(tmp_path, suffix="notes___") / "notes.txt").write_text("mine")
    (tmp_path / "skillgate-filefile").write_text("x")
    target = run_folder(tmp_path / "elsewhere", suffix="target__")
    (tmp_path / "skillgate-link____").symlink_to(target)
    before = sorted(tmp_path.rglob("*"))
    assert reap_folders(tmp_path) == ()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(tmp_path, age_s=OLD_S + 60)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert (reap_folders(tmp_path), folder.exists()) == ((), True)


def test_a_mark_that_leads_elsewhere_is_none(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    (folder / OWNER_FILE).rename(tmp_path / "planted")
    (folder / OWNER_FILE).symlink_to(tmp_path / "planted")
    assert (reap_folders(tmp_path), folder.exists()) == ((), True)


def test_links_in_a_folder_that_goes_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "outside.txt").write_text("x")
    folder = run_folder(tmp_path)
    shutil.rmtree(folder / "tests")
    (folder / "tests").symlink_to(outside)
    (folder / "workspace/link").symlink_to(outside)
    (folder / "workspace/file").unlink()
    (folder / "workspace/file").symlink_to(tmp_path / "outside.txt")
    assert reap_folders(tmp_path) == (folder,)
    assert (outside.stat().st_mode & 0o777, (tmp_path / "outside.txt").read_text()) == (0o500, "x")


def test_a_hostile_tree_goes_too(tmp_path: Path) -> None:
    here = os.open(run_folder(tmp_path) / "workspace", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert len(reap_folders(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_several_reapers_at_once(tmp_path: Path) -> None:
    folders = {run_folder(tmp_path, suffix=f"number{number:02}") for number in range(30)}
    with ThreadPoolExecutor(4) as pool:
        gone = list(pool.map(lambda _: reap_folders(tmp_path), range(4)))
    assert {folder for some in gone for folder in some} == folders
    assert list(tmp_path.iterdir()) == []


def test_a_reaper_that_is_killed_itself_leaves_the_mark_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []

    def stop_at_last(path: Path) -> None:
        if path == folder:
            raise KeyboardInterrupt
        removed.append(path)

    folder = run_folder(tmp_path)
    monkeypatch.setattr("skillgate.bench.host.reaper.remove", stop_at_last)
    with pytest.raises(KeyboardInterrupt):
        reap_folders(tmp_path)
    parts = {"workspace", "home", "tmp", "given", "tests", "results", "trace", "tree"}
    assert {path.name for path in removed} == parts


def test_a_parent_that_is_not_there(tmp_path: Path) -> None:
    assert reap_folders(tmp_path / "no") == ()


def test_folders_are_reaped_without_loading_the_sdk() -> None:
    probe = "import sys, skillgate.bench.host.reaper; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_part_of_a_workspace_is_one_that_is_reaped(tiny_suite: Path, tmp_path: Path) -> None:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        parts = {path.name for path in workspace.root.iterdir()}
    assert parts - {OWNER_FILE} <= reaper._PARTS
