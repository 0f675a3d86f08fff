"""What an agent's program reaches from inside its container: the meter, and nothing else.

Told by the kernel's own tables of the container, and by asking its loopback. No other address is asked.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from skillgate.bench.container import METER_PORT
from skillgate.bench.docker import PROXY_PORT, docker_sandbox
from skillgate.bench.host.owner import LABEL
from skillgate.core import Outcome
from tests.fakes.model_api import ModelApi
from tests.fakes.private_engine import eventually
from tests.fakes.shell_program import Place, ShellProgram

pytestmark = pytest.mark.docker

_LOOK = """
import socket

def rows(path):
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []

def port_of(row):
    return int(row.split()[1].rpartition(":")[2], 16)

def is_open(port):
    with socket.socket() as one:
        one.settimeout(5)
        # a port that the kernel just chose for this end too connects to itself
        return one.connect_ex(("127.0.0.1", port)) == 0 and one.getsockname() != one.getpeername()

ask()
tcp = rows("/proc/net/tcp")[1:] + rows("/proc/net/tcp6")[1:]
trie = rows("/proc/net/fib_trie")
say(
    "found",
    routes=rows("/proc/net/route")[1:],
    routes6=[row for row in rows("/proc/net/ipv6_route") if row.split()[-1] != "lo"],
    addresses6=[row for row in rows("/proc/net/if_inet6") if row.split()[-1] != "lo"],
    addresses=sorted({trie[n - 1].split()[-1] for n, row in enumerate(trie) if "host LOCAL" in row}),
    links=os.listdir("/sys/class/net"),
    listening=sorted(row.split()[1] for row in tcp if row.split()[3] == "0A"),
    udp=rows("/proc/net/udp")[1:] + rows("/proc/net/udp6")[1:],
    raw=rows("/proc/net/raw")[1:] + rows("/proc/net/packet")[1:],
    unix=[row.split()[-1] for row in rows("/proc/net/unix") if "@" in row],
    nameservers=[row.split()[1] for row in rows("/etc/resolv.conf") if row.startswith("nameserver")],
    proxies=sorted({value for name, value in os.environ.items() if name.lower().endswith("_proxy")}),
    ports=[port for port in range(1, 65536) if is_open(port)],
)
while not os.path.exists("go"):
    time.sleep(0.01)
deliver(); end()
"""


def in_hex(port: int) -> str:
    return f"0100007F:{port:04X}"


def look(place: Place, network: list[str], image: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the program; return what it found, and what the engine says of its container."""
    sandbox = docker_sandbox(image, network, {"shell": place.folder})
    inspected: list[dict[str, Any]] = []

    def container() -> Any:
        with closing(docker.from_env()) as client:
            for one in client.containers.list(filters={"label": f"{LABEL}=1"}, ignore_removed=True):
                mounts = {mount["Destination"]: mount["Source"] for mount in one.attrs["Mounts"]}
                if str(place.folder) in mounts.values():
                    return one.attrs, mounts
        return None

    def inspect(api: ModelApi) -> None:
        eventually(lambda: api.calls, "the program runs")
        attrs, mounts = eventually(container, "its container")
        inspected.append(attrs)
        Path(mounts["/workspace"], "go").touch()

    with ModelApi() as api:
        thread = threading.Thread(target=inspect, args=(api,))
        thread.start()
        run, failure, _ = place.play(ShellProgram(_LOOK), api, sandbox)
        thread.join()
    assert (run.outcome, failure) == (Outcome.PASSED, None), run.reason
    found = [json.loads(line) for line in place.trace().splitlines()]
    return found[1], inspected[0]


@pytest.fixture
def place(tiny_suite: Path, tmp_path: Path) -> Place:
    (tmp_path / "program").mkdir()
    return Place(tiny_suite, tmp_path / "program")


@pytest.mark.parametrize(
    ("network", "ports"),
    [([], [METER_PORT]), pytest.param(["host.invalid"], [PROXY_PORT, METER_PORT], marks=pytest.mark.long)],
    ids=["no network", "a host"],
)
def test_nothing_answers_inside_but_our_doors(
    place: Place, docker_image: str, network: list[str], ports: list[int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:  # a service of the host
        on_host = ours.getsockname()[1]
        found, inspected = look(place, network, docker_image)
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.accept()  # nobody came
    assert found["ports"] == ports
    assert on_host not in found["ports"]
    assert found["listening"] == sorted(map(in_hex, ports))
    assert (found["routes"], found["routes6"], found["addresses6"]) == ([], [], [])
    assert found["links"] == ["lo"]
    assert {address for address in found["addresses"] if not address.startswith("127.")} == set()
    assert (found["udp"], found["raw"], found["unix"]) == ([], [], [])
    # whichever resolver the engine writes down: without a route it has to be on the loopback, where none is
    assert all(not one.startswith("127.") for one in found["nameservers"])
    proxy = [f"http://127.0.0.1:{PROXY_PORT}"] if network else []
    assert [one for one in found["proxies"] if one.startswith("http")] == proxy
    host, settings = inspected["HostConfig"], inspected["NetworkSettings"]
    assert (host["NetworkMode"], list(settings["Networks"])) == ("none", ["none"])
    assert (settings["IPAddress"], settings["Gateway"], settings["Ports"]) == ("", "", {})
    assert (host["Privileged"], host["CapDrop"], host["PidMode"], host["IpcMode"]) == (
        False, ["ALL"], "", "private",
    )  # fmt: skip
