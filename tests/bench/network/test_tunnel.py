"""The tunnel against real sockets: who gets through, and what hostile clients cannot do."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from skillgate.bench.network.hosts import environment
from skillgate.bench.network.http_connect import clip
from skillgate.bench.network.tunnel import MAX_CONNECTIONS, MAX_NOTES, Clocks, Door, Tunnel, resolve
from skillgate.errors import ConfigError
from tests.fakes.upstream import (
    HOST,
    Upstream,
    ask,
    echo,
    knock,
    rest_of,
    say_hello,
    self_signed,
    until,
    way_out,
)

CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode()
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
QUICK = Clocks(head_s=0.2, connect_s=0.4, idle_s=20, linger_s=0.5)
MALFORMED = ("a malformed request",)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with closing(Upstream(echo)) as server:
        yield server


@pytest.fixture
def way(upstream: Upstream) -> Iterator[tuple[Door, int]]:
    with way_out(upstream.port) as opened:
        yield opened


def connect_to(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()


def status_of(answer: bytes) -> str:
    return answer.split(b"\r\n", 1)[0].decode()


def body_of(answer: bytes) -> str:
    return answer.split(b"\r\n\r\n", 1)[1].decode()


@pytest.mark.parametrize("target", [f"{HOST}:443", "Allowed.EXAMPLE:443", f"{HOST}.:443"])
def test_a_listed_host_is_reached_at_the_address_that_was_checked(upstream: Upstream, target: str) -> None:
    dialled: list[tuple[str, int]] = []

    async def dial(address: str, port: int) -> socket.socket:
        dialled.append((address, port))
        client = socket.create_connection(("127.0.0.1", upstream.port))
        client.setblocking(False)
        return client

    with (
        way_out(upstream.port, addresses=["93.184.215.14"], dial=dial) as (door, port),
        knock(port) as client,
    ):
        client.sendall(connect_to(target) + b"first ")
        client.sendall(b"second")
        client.shutdown(socket.SHUT_WR)
        assert rest_of(client) == ESTABLISHED + b"first second"
    assert (dialled, door.refused, door.broken) == ([("93.184.215.14", 443)], (), ())


@pytest.mark.parametrize(
    "target",
    [
        *(
            "other.example:443",
            f"{HOST}.evil:443",
            f"sub.{HOST}:443",
            f"x{HOST}:443",
            "*:443",
            "*.example:443",
        ),
        *(f"{HOST}@evil.example:443", f"evil.example@{HOST}:443", f"{HOST}#.evil:443", f"{HOST}%00.evil:443"),
        *(f"{HOST}:80", f"{HOST}:0", f"{HOST}:99999", f"{HOST}:0443", f"{HOST}:443:443", f"{HOST}:", HOST),
        *(
            f"[{HOST}]:443",
            f"https://{HOST}:443",
            f"{HOST}:443/",
            f"{HOST}..:443",
            "xn--llowed-4nf.example:443",
        ),
        *(
            "127.0.0.1:443",
            "[::1]:443",
            "[::ffff:127.0.0.1]:443",
            "2130706433:443",
            "0x7f.1:443",
            "localhost:443",
        ),
        *("169.254.169.254:80", "93.184.215.14:443", "[::", "]:443", ":443"),
    ],
)
def test_everything_else_is_refused_by_name(upstream: Upstream, way: tuple[Door, int], target: str) -> None:
    door, port = way
    answer = ask(port, connect_to(target))
    assert status_of(answer) == "HTTP/1.1 403 Not on the allow-list"
    assert body_of(answer) == f"skillgate: {target} is not allowed. This is: CONNECT to {HOST}:443.\n"
    assert (door.refused, door.broken, upstream.connections) == ((target,), (), 0)


@pytest.mark.parametrize(
    ("line", "noted"),
    [
        (f"GET http://{HOST}/simple?token=1 HTTP/1.1", f"GET http://{HOST}"),
        (f"POST HTTP://user:password@{HOST}:80/x HTTP/1.1", f"POST HTTP://{HOST}:80"),
        ("GET ftp://files.example HTTP/1.0", "GET ftp://files.example"),
        ("GET / HTTP/1.1", "GET /"),
        ("OPTIONS * HTTP/1.1", "OPTIONS /"),
        (f"GET {HOST}:443 HTTP/1.1", "GET /"),
    ],
)
def test_only_connect_goes_through(upstream: Upstream, way: tuple[Door, int], line: str, noted: str) -> None:
    door, port = way
    answer = ask(port, f"{line}\r\nHost: {HOST}\r\n\r\n".encode())
    assert status_of(answer) == "HTTP/1.1 403 Not on the allow-list"
    assert (door.refused, door.broken, upstream.connections) == ((noted,), (), 0)


@pytest.mark.parametrize(
    "head",
    [
        *("", "hello", "\x16\x03\x01\x02\0\1", "\xff\xff", "CONNECT", "CONNECT allowed.example:443"),
        *("CONNECT allowed.example:443 HTTP/2.0", "connect allowed.example:443 HTTP/1.1"),
        *("CONNECT  allowed.example:443 HTTP/1.1", "CONNECT\tallowed.example:443 HTTP/1.1"),
        *(" CONNECT allowed.example:443 HTTP/1.1", "\r\nCONNECT allowed.example:443 HTTP/1.1"),
        *("CONNECT allowed.example\0.evil:443 HTTP/1.1", "CONNECT allowed.example\r:443 HTTP/1.1"),
        *("CONNECT allowed.example\n:443 HTTP/1.1", "CONNECT allowed.example:443\n HTTP/1.1"),
        *("CONNECT allowed.example:443 HTTP/1.1\nX: y", "CONNECT allowed.example:443 HTTP/1.1\r\nX"),
        *(
            "CONNECT allowed.example:443 HTTP/1.1\r\nX: y\r\n z",
            "CONNECT allowed.example:443 HTTP/1.1\r\n: y",
        ),
        *("CONNECT allowed.example:443 HTTP/1.1\r\nX: y\rz", "CONNECT allowed.example:443 HTTP/1.1\r\nX: \0"),
        *("CONNECT allowed.example:443 HTTP/1.1\r\nX : y", "CONNECT allowed.example:443 HTTP/1.1 x"),
        *("CONNECT \u0430llowed.example:443 HTTP/1.1", "CONNECT allowed\u3002example:443 HTTP/1.1"),
    ],
)
def test_a_malformed_head_is_no_request(upstream: Upstream, way: tuple[Door, int], head: str) -> None:
    door, port = way
    assert status_of(ask(port, head.encode() + b"\r\n\r\n")) == "HTTP/1.1 400 Bad Request"
    assert (door.refused, door.broken, upstream.connections) == (MALFORMED, (), 0)


def test_a_head_has_ten_seconds_and_eight_kilobytes(upstream: Upstream) -> None:
    assert (Clocks().head_s, Clocks().connect_s, Clocks().idle_s) == (10, 20, 300)
    with way_out(upstream.port, clocks=QUICK) as (door, port):
        started = time.monotonic()
        with knock(port) as slow:
            for byte in CONNECT[:-2]:
                slow.sendall(bytes([byte]))
            assert status_of(rest_of(slow)) == "HTTP/1.1 408 Request Timeout"
        assert 0.2 <= time.monotonic() - started < 2
        line = b"CONNECT allowed.example:443 HTTP/1.1\r\nX: "
        fits = line + b"x" * (8192 - len(line) - 4) + b"\r\n\r\n"
        with knock(port) as client:
            client.sendall(fits)
            client.shutdown(socket.SHUT_WR)
            assert rest_of(client) == ESTABLISHED
        for too_long in (line + b"x" * (8192 - len(line) - 3) + b"\r\n\r\n", line + b"x" * 2_000_000):
            with knock(port) as client:
                threading.Thread(target=send_what_it_takes, args=(client, too_long)).start()
                assert status_of(rest_of(client)) == "HTTP/1.1 431 Request Header Fields Too Large"
    assert (door.refused, door.broken) == ((), ())


def send_what_it_takes(client: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        client.sendall(data)


def test_who_leaves_early_is_nobodys_trouble(upstream: Upstream, way: tuple[Door, int]) -> None:
    door, port = way
    for part in (b"", CONNECT[:9], CONNECT):
        with knock(port) as client:
            client.sendall(part)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
    with knock(port) as client:
        client.sendall(CONNECT + b"served")
        client.shutdown(socket.SHUT_WR)
        assert rest_of(client) == ESTABLISHED + b"served"
    assert (door.refused, door.broken) == ((), ())


def test_a_second_request_behind_a_refused_one_is_not_looked_at(
    upstream: Upstream, way: tuple[Door, int]
) -> None:
    door, port = way
    smuggled = b"CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 9\r\n\r\n" + CONNECT + b"rest"
    answer = ask(port, smuggled)
    assert answer.count(b"HTTP/1.1") == 1
    assert (status_of(answer), upstream.connections) == ("HTTP/1.1 403 Not on the allow-list", 0)
    assert door.refused == ("a.example:443",)


def test_a_second_request_behind_an_allowed_one_is_the_upstreams(
    upstream: Upstream, way: tuple[Door, int]
) -> None:
    door, port = way
    second = b"CONNECT other.example:443 HTTP/1.1\r\n\r\n"
    with knock(port) as client:
        client.sendall(CONNECT + second)
        client.shutdown(socket.SHUT_WR)
        assert rest_of(client) == ESTABLISHED + second
    assert (upstream.connections, door.refused) == (1, ())


def test_more_connections_than_allowed_are_told_so(upstream: Upstream, way: tuple[Door, int]) -> None:
    door, port = way
    with ExitStack() as stack:
        clients = [stack.enter_context(knock(port)) for _ in range(100)]
        answers = []
        for client in clients:
            client.sendall(CONNECT)
            answers.append(status_of(client.recv(len(ESTABLISHED))))
        assert answers == ["HTTP/1.1 200 Connection established"] * MAX_CONNECTIONS + [
            "HTTP/1.1 503 Too many connections"
        ] * (100 - MAX_CONNECTIONS)
        assert upstream.connections == MAX_CONNECTIONS
        clients[0].shutdown(socket.SHUT_WR)
        assert rest_of(clients[0]) == b""
        until(lambda: status_of(ask_and_leave(port)) == "HTTP/1.1 200 Connection established")
    assert (door.refused, door.broken) == ((), ())


def ask_and_leave(port: int) -> bytes:
    with knock(port) as client:
        client.sendall(CONNECT)
        return client.recv(len(ESTABLISHED))


def test_notes_are_few_short_printable_and_in_order(way: tuple[Door, int]) -> None:
    door, port = way
    long = "a" * 200 + ".example:443"
    ask(port, connect_to(long))
    for number in (0, 0, *range(40)):
        ask(port, connect_to(f"h{number}.example:443"))
    assert door.refused == (
        "a" * 97 + "...",
        *(f"h{number}.example:443" for number in range(MAX_NOTES - 1)),
    )
    assert MAX_NOTES == 20


def test_what_is_shown_has_no_escape_and_no_end_of_line() -> None:
    assert clip("a\x1b[31m\r\nb\u202e\x7f\u0661 ~") == "a?[31m??b??? ~"
    assert clip("x" * 100) == "x" * 100
    assert clip("x" * 101) == "x" * 97 + "..."


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], ["::1"], ["93.184.215.14", "10.0.0.1"], ["fe80::1%lo"]]
)
def test_a_listed_name_is_no_way_into_the_hosts_network(upstream: Upstream, addresses: list[str]) -> None:
    with way_out(upstream.port, addresses=addresses) as (door, port):
        answer = ask(port, CONNECT)
    note = f"{HOST}:443 (it has an address that is not public)"
    assert (status_of(answer), body_of(answer)) == (
        "HTTP/1.1 403 Not on the allow-list",
        f"skillgate: {note}.\n",
    )
    assert (door.refused, door.broken, upstream.connections) == ((note,), (note,), 0)


def test_an_address_and_a_port_only_where_they_are_listed(upstream: Upstream) -> None:
    listener = listening()
    with closing(Tunnel([f"127.0.0.1:{upstream.port}", f"{HOST}:8443"])) as tunnel:
        door, port = tunnel.serve(listener), listener.getsockname()[1]
        with knock(port) as client:
            client.sendall(connect_to(f"127.0.0.1:{upstream.port}") + b"by the real dialler")
            client.shutdown(socket.SHUT_WR)
            assert rest_of(client) == ESTABLISHED + b"by the real dialler"
        for target in (f"{HOST}:443", "127.0.0.1:443", f"[::ffff:127.0.0.1]:{upstream.port}"):
            assert status_of(ask(port, connect_to(target))) == "HTTP/1.1 403 Not on the allow-list"
    assert door.refused == (f"{HOST}:443", "127.0.0.1:443", f"[::ffff:127.0.0.1]:{upstream.port}")


def test_hosts_have_to_be_hosts() -> None:
    with pytest.raises(ConfigError, match="is no host name"):
        Tunnel(["*.example"])


def test_names_are_resolved_as_this_machine_knows_them() -> None:
    assert "127.0.0.1" in asyncio.run(resolve("localhost", 443))


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in time"),
        (OSError("odd"), "OSError"),
    ],
)
def test_a_name_that_does_not_resolve_is_broken_not_refused(problem: OSError, why: str) -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        raise problem

    listener = listening()
    with closing(Tunnel([HOST], resolve=look_up)) as tunnel:
        door = tunnel.serve(listener)
        answer = ask(listener.getsockname()[1], CONNECT)
    assert status_of(answer) == "HTTP/1.1 502 Bad Gateway"
    assert body_of(answer) == f"skillgate: {HOST}:443 cannot be reached: {why}.\n"
    assert (door.refused, door.broken) == ((), (f"{HOST}:443 ({why})",))


def test_an_upstream_that_refuses_is_broken() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as nobody:
        free = nobody.getsockname()[1]
    with way_out(free) as (door, port):
        assert status_of(ask(port, CONNECT)) == "HTTP/1.1 502 Bad Gateway"
    assert (door.refused, door.broken) == ((), (f"{HOST}:443 (Connection refused)",))


def test_every_address_gets_its_share_of_the_time(upstream: Upstream) -> None:
    tried: list[str] = []

    async def dial(address: str, port: int) -> socket.socket:
        tried.append(address)
        if address.startswith("1."):
            await asyncio.Event().wait()
        client = socket.create_connection(("127.0.0.1", upstream.port))
        client.setblocking(False)
        return client

    with way_out(upstream.port, addresses=["1.0.0.1", "9.9.9.9"], clocks=QUICK, dial=dial) as (door, port):
        assert ask_and_leave(port) == ESTABLISHED
        assert (tried, door.broken) == (["1.0.0.1", "9.9.9.9"], ())
    with way_out(upstream.port, addresses=["1.0.0.1", "1.1.1.1"], clocks=QUICK, dial=dial) as (door, port):
        assert status_of(ask(port, CONNECT)) == "HTTP/1.1 502 Bad Gateway"
        assert door.broken == (f"{HOST}:443 (no answer in time)",)


def test_an_error_of_our_own_is_never_the_clients(upstream: Upstream) -> None:
    async def dial(address: str, port: int) -> socket.socket:
        raise TypeError("a bug")

    with way_out(upstream.port, dial=dial) as (door, port):
        assert ask(port, CONNECT) == b""
        until(lambda: door.broken)
    assert (door.refused, door.broken) == ((), ("the tunnel (TypeError)",))


def test_nothing_a_client_sends_is_logged(
    way: tuple[Door, int], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    door, port = way
    for head in (
        b"\x1b[31mred\r\n\r\n",
        connect_to("\x1b]0;evil\x07:443"),
        connect_to("h<b>&amp;.example:443"),
    ):
        ask(port, head)
    assert door.refused == (*MALFORMED, "h<b>&amp;.example:443")
    assert (caplog.records, capfd.readouterr()) == ([], ("", ""))


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def test_a_closed_door_ends_what_went_through_it_and_no_other(
    upstream: Upstream, way: tuple[Door, int]
) -> None:
    with closing(Tunnel([f"127.0.0.1:{upstream.port}"])) as tunnel:
        first, second = listening(), listening()
        ports = [listener.getsockname()[1] for listener in (first, second)]
        doors = [tunnel.serve(listener) for listener in (first, second)]
        with knock(ports[0]) as client, knock(ports[1]) as other, knock(ports[0]) as waiting:
            for one in (client, other):
                one.sendall(connect_to(f"127.0.0.1:{upstream.port}"))
                assert one.recv(len(ESTABLISHED)) == ESTABLISHED
            waiting.sendall(b"CONNECT")
            for _ in range(2):
                doors[0].close()
            assert (rest_of(client), first.fileno()) == (b"", -1)
            with pytest.raises(OSError, match="refused"):
                knock(ports[0])
            other.sendall(b"still open")
            assert other.recv(10) == b"still open"
        tunnel.close()
        tunnel.close()
        assert second.fileno() == -1
        doors[1].close()


def test_a_flood_keeps_nobody_out_and_no_door_open() -> None:
    with closing(Upstream(swallow)) as sink, way_out(sink.port) as (door, port):
        stop = threading.Event()
        flood = [threading.Thread(target=pour, args=(port, stop)) for _ in range(3)]
        knocks = [threading.Thread(target=knock_on, args=(port, stop)) for _ in range(2)]
        for thread in (*flood, *knocks):
            thread.start()
        try:
            assert (
                status_of(ask(port, connect_to("other.example:443"))) == "HTTP/1.1 403 Not on the allow-list"
            )
            started = time.monotonic()
            door.close()
            assert time.monotonic() - started < 2
        finally:
            stop.set()
            for thread in (*flood, *knocks):
                thread.join()


def swallow(client: socket.socket) -> None:
    while client.recv(1 << 20):
        pass


def pour(port: int, stop: threading.Event) -> None:
    with knock(port) as client:
        client.sendall(CONNECT)
        while not stop.is_set():
            try:
                client.sendall(b"x" * 65536)
            except OSError:
                return


def knock_on(port: int, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            knock(port).close()
        except OSError:
            return


def test_three_hundred_doors_leave_no_file_and_no_thread(upstream: Upstream) -> None:
    def in_use() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    with closing(Tunnel([f"127.0.0.1:{upstream.port}"])) as tunnel:
        before = in_use()
        for _ in range(300):
            listener = listening()
            door = tunnel.serve(listener)
            with knock(listener.getsockname()[1]) as client:
                client.sendall(connect_to(f"127.0.0.1:{upstream.port}"))
                assert client.recv(len(ESTABLISHED)) == ESTABLISHED
                door.close()
        until(lambda: in_use() <= before)
        del door
        gc.collect()
        assert list(tunnel._doors) == []
    for _ in range(20):
        Tunnel([HOST]).close()
    until(lambda: in_use()[1] < before[1])


STARVED = """
import resource, socket, time
from contextlib import closing
from skillgate.bench.network.tunnel import Tunnel
listener = socket.create_server(("127.0.0.1", 0)); listener.setblocking(False)
with closing(Tunnel(["allowed.example"])) as tunnel:
    tunnel.serve(listener)
    client = socket.socket()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
    client.connect(listener.getsockname())
    client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05, "it spins"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(client.recv(12).decode())
"""


def test_without_a_free_file_a_client_waits_and_we_do_not_spin() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr) == ("HTTP/1.1 403\n", "")


@pytest.fixture
def closed_upstream(tmp_path: Path) -> Iterator[tuple[Upstream, Path]]:
    server_side, certificate = self_signed(tmp_path)
    with closing(Upstream(say_hello, server_side)) as server:
        yield server, certificate


def test_python_goes_through_by_its_environment(
    closed_upstream: tuple[Upstream, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, certificate = closed_upstream
    with way_out(upstream.port) as (door, port):
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        trust = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"https://{HOST}/", context=trust, timeout=10) as page:
            assert page.read() == b"hello\n"
        with pytest.raises(OSError, match="403 Not on the allow-list"):
            urllib.request.urlopen("https://other.example/", timeout=10)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen("http://plain.example/path", timeout=10)
    assert (door.refused, door.broken) == (("other.example:443", "GET http://plain.example"), ())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_goes_through_by_its_environment(closed_upstream: tuple[Upstream, Path]) -> None:
    upstream, certificate = closed_upstream

    def curl(url: str) -> subprocess.CompletedProcess[str]:
        command = ["curl", "-sS", "--max-time", "10", "--cacert", str(certificate), url]
        env = {"PATH": os.environ["PATH"], **environment(port)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    with way_out(upstream.port) as (door, port):
        assert curl(f"https://{HOST}/").stdout == "hello\n"
        assert "403" in curl("https://other.example/").stderr
        assert "GET http://plain.example is not allowed" in curl("http://plain.example/x").stdout
    assert (door.refused, door.broken) == (("other.example:443", "GET http://plain.example"), ())
