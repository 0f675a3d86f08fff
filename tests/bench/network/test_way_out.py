"""The whole way out of the docker sandbox: a command, the door, the allow-list, an upstream."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from skillgate.bench import docker as under_test
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.network.relay import connect
from skillgate.bench.network.tunnel import Tunnel
from skillgate.bench.sandbox import Limit, Phase, Sandbox
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace
from skillgate.errors import ConfigError
from tests.fakes.upstream import HOST, PUBLIC, Upstream, say_hello, self_signed

DOWN = "down.example"
GET = (
    'python3 -c "import ssl, urllib.request as r; c = ssl._create_unverified_context(); '
    "print(r.urlopen('https://{}/', context=c).read())\""
)


@pytest.fixture
def sandbox(docker_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """Return a sandbox that may reach two names: one leads to a server of this test, one to nothing."""
    context, _ = self_signed(tmp_path)
    with closing(Upstream(say_hello, context)) as upstream:

        async def dial(address: str, port: int) -> socket.socket:
            if address != PUBLIC:
                raise ConnectionRefusedError(111, "nobody there")
            return await connect("127.0.0.1", upstream.port)

        async def look_up(host: str, port: int) -> list[str]:
            return [PUBLIC if host == HOST else "9.9.9.9"]

        tunnels = []

        def tunnel(allowed: tuple[str, ...]) -> Tunnel:
            tunnels.append(Tunnel(allowed, dial, look_up))
            return tunnels[0]

        monkeypatch.setattr(under_test, "Tunnel", tunnel)
        yield docker_sandbox(docker_image, [HOST, DOWN])
        tunnels[0].close()


@pytest.mark.docker
def test_only_listed_hosts_are_reached_and_the_rest_is_told(
    sandbox: Sandbox, tiny_suite: Path, tmp_path: Path
) -> None:
    assert sandbox.describe()["network"] == f"{HOST}, {DOWN}"
    with (
        Workspace.create(load_suite(tiny_suite), tmp_path) as place,
        sandbox.session(place, Phase.GRADE, Limits(memory_mb=128, pids=64)) as session,
    ):
        for before in ("true", "sleep 30", "(sleep 60 >/dev/null 2>&1 &)"):  # two restart the container
            assert session.run(before, 0.7).limit is (Limit.CLOCK if before == "sleep 30" else None)
            result = session.run(GET.format(HOST), 20)
            assert (result.exit_code, result.output, result.unreachable) == (0, "b'hello\\n'\n", ())
        result = session.run(GET.format("other.example"), 20)
        assert (result.exit_code, result.unreachable) == (1, ())
        assert "403 Not on the allow-list" in result.output
        result = session.run(GET.format(DOWN), 20)
        assert (result.exit_code, result.unreachable) == (1, (f"{DOWN}:443 (Connection refused)",))
        assert session.run("ls /sys/class/net; tail -n +2 /proc/net/route", 20).output == "lo\n"
    assert session.refused == ("other.example:443",)


@pytest.mark.docker
def test_a_host_that_cannot_be_one_is_refused_before_anything_runs(docker_image: str) -> None:
    with pytest.raises(ConfigError, match="pipy") as caught:
        docker_sandbox(docker_image, ["pipy"])
    assert "exact host name" in caught.value.hint
