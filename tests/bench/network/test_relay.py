"""Bytes through a tunnel: none lost, none hoarded, and whose fault an end is."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

import pytest

from skillgate.bench.network.http_connect import Refusal, turn_away
from skillgate.bench.network.relay import Relay
from skillgate.bench.network.tunnel import Clocks, Door
from tests.fakes.upstream import HOST, Upstream, echo, knock, rest_of, way_out

CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n".encode()
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
RESET = (socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
SILENT = (f"{HOST}:443 (it did not answer)",)
BLOCK = 1 << 20


def client_hello() -> bytes:
    """Return the first record of a real TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@contextmanager
def through(
    serve: Callable[[socket.socket], None], idle_s: float = 20
) -> Iterator[tuple[Door, socket.socket]]:
    """Connect to `serve` through a tunnel."""
    with closing(Upstream(serve)) as upstream, way_out(upstream.port, clocks=Clocks(idle_s=idle_s)) as way:
        door, port = way
        with knock(port) as client:
            client.sendall(CONNECT)
            assert client.recv(len(ESTABLISHED)) == ESTABLISHED
            yield door, client


def test_the_client_ends_first_and_still_gets_its_answer() -> None:
    def count(upstream: socket.socket) -> None:
        upstream.sendall(str(len(rest_of(upstream))).encode())

    with through(count) as (door, client):
        client.sendall(b"x" * 5_000_000)
        client.shutdown(socket.SHUT_WR)
        assert rest_of(client) == b"5000000"
    assert door.broken == ()


def test_the_upstream_ends_first_and_still_gets_what_comes() -> None:
    got: list[bytes] = []

    def speak_first(upstream: socket.socket) -> None:
        upstream.sendall(b"that is all")
        upstream.shutdown(socket.SHUT_WR)
        got.append(rest_of(upstream))

    with through(speak_first) as (door, client):
        assert rest_of(client) == b"that is all"
        client.sendall(b"and yet")
    assert (got, door.broken) == ([b"and yet"], ())


def test_both_ways_at_once_lose_nothing() -> None:
    data = bytes(range(256)) * 40_000
    with through(echo) as (_, client):
        writer = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        writer.start()
        assert rest_of(client) == data
        writer.join()


@pytest.mark.parametrize("writer", ["client", "upstream"])
def test_who_does_not_read_holds_the_writer_up(writer: str) -> None:
    """What is on its way is in buffers of the kernel; the tunnel itself has one chunk."""
    sizes: dict[str, int] = {}
    written = threading.Event()

    def write(side: socket.socket) -> None:
        sizes["written"] = fill(side)
        written.set()
        rest_of(side)  # until the reader has it all

    def read(side: socket.socket) -> None:
        assert written.wait(10)
        sizes["read"] = len(rest_of(side))
        side.shutdown(socket.SHUT_WR)

    with through(read if writer == "client" else write) as (_, client):
        (write if writer == "client" else read)(client)
    assert sizes["read"] == sizes["written"]
    assert 0 < sizes["written"] < 256 * BLOCK


def fill(writer: socket.socket) -> int:
    """Write until nothing moves for a while, then end; return how much was taken."""
    writer.settimeout(0.5)
    sent = 0
    try:
        while sent < 256 * BLOCK:
            sent += writer.send(b"x" * BLOCK)
    except TimeoutError:
        pass
    writer.shutdown(socket.SHUT_WR)
    return sent


class Endless:
    """A socket that is always ready: it has bytes whenever asked, and takes all it gets."""

    def __init__(self, silent: bool = False) -> None:
        self.silent = silent
        self.calls = 0

    def recv(self, size: int) -> bytes:
        if self.silent:
            raise BlockingIOError
        self.calls += 1
        assert self.calls < 10_000, "nobody else gets a turn"
        return bytes(size)

    def send(self, data: bytes) -> int:
        return len(data)

    def setsockopt(self, *_: int) -> None:
        pass

    def shutdown(self, _: int) -> None:
        pass

    def fileno(self) -> int:
        return self._end.fileno()

    def __enter__(self) -> Endless:
        self._end, self._other = socket.socketpair()  # never ready to be read
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()
        self._other.close()


@pytest.mark.parametrize("silent", ["client", "upstream", ""])
def test_a_connection_that_never_pauses_leaves_turns_to_others(silent: str) -> None:
    async def others() -> None:
        with Endless(silent == "client") as client, Endless(silent == "upstream") as upstream:
            relay = Relay(cast(Any, client), cast(Any, upstream), 20, lambda: None)
            task = asyncio.create_task(relay.run(b""))
            for _ in range(100):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert client.calls + upstream.calls > 50

    asyncio.run(others())


def test_a_refused_client_that_never_stops_is_left() -> None:
    with Endless() as client:
        client.calls = -1_000_000  # it sends as long as the time lasts
        refusal = Refusal("403 Forbidden", "no.")
        with pytest.raises(TimeoutError):
            asyncio.run(turn_away(cast(Any, client), refusal, 0.1))


def test_silence_ends_a_connection_and_a_byte_now_and_then_keeps_it() -> None:
    with through(echo, idle_s=0.5) as (door, client):
        started = time.monotonic()
        for _ in range(8):
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            time.sleep(0.1)  # the point is the time that passes
        assert time.monotonic() - started > 0.5
        assert rest_of(client) == b""
        assert 0.5 <= time.monotonic() - started < 5
    assert door.broken == ()


def hang_up(upstream: socket.socket) -> None:
    """End before any byte."""
    upstream.recv(BLOCK)


def reset(upstream: socket.socket) -> None:
    upstream.recv(BLOCK)
    upstream.setsockopt(*RESET)


def say_nothing(upstream: socket.socket) -> None:
    rest_of(upstream)


def answer_then_reset(upstream: socket.socket) -> None:
    upstream.recv(BLOCK)
    upstream.sendall(b"\x15")
    upstream.setsockopt(*RESET)


def reset_at_once(upstream: socket.socket) -> None:
    upstream.setsockopt(*RESET)


@pytest.mark.parametrize(
    ("serve", "said", "broken"),
    [
        (hang_up, HELLO, SILENT),
        (reset, HELLO, SILENT),
        (say_nothing, HELLO, SILENT),
        (hang_up, HELLO + b"and more", SILENT),
        (answer_then_reset, HELLO, ()),
        # what a client can bring about by itself is not the upstream's failure
        (hang_up, HELLO[:-1], ()),
        (reset, HELLO[:5], ()),
        (say_nothing, HELLO[:7], ()),
        (reset, b"\x16", ()),
        (reset, b"GET / HTTP/1.1\r\n\r\n", ()),
        (hang_up, b"\x17" + HELLO[1:], ()),
        (hang_up, HELLO[:5] + b"\x02" + HELLO[6:], ()),
        (hang_up, HELLO[:6] + b"\xff" + HELLO[7:], ()),  # the message goes on in a record that never comes
        (say_nothing, b"", ()),
    ],
)
def test_only_an_upstream_that_was_asked_and_gave_nothing_is_broken(
    serve: Callable[[socket.socket], None], said: bytes, broken: tuple[str, ...]
) -> None:
    with through(serve, idle_s=0.4) as (door, client):
        client.sendall(said)
        try:
            assert rest_of(client) in (b"", b"\x15")
        except ConnectionResetError:
            assert serve is not say_nothing
        assert door.broken == broken  # it is noted before the client knows
        door.close()
    assert door.broken == broken
    assert len(HELLO) > 100


def test_a_hello_may_come_in_pieces() -> None:
    with through(lambda upstream: reading(upstream, len(HELLO))) as (door, client):
        for byte in HELLO:
            client.sendall(bytes([byte]))
        assert rest_of(client) == b""
        door.close()
    assert door.broken == SILENT


def reading(upstream: socket.socket, size: int) -> None:
    """Read so many bytes, then end without an answer."""
    while size:
        size -= len(upstream.recv(size))


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_client_that_ended_first_gets_no_answer_by_its_own_choice(how: str) -> None:
    ended = threading.Event()

    def serve(upstream: socket.socket) -> None:
        say_nothing(upstream)
        ended.set()

    with through(serve) as (door, client):
        client.sendall(HELLO)
        if how == "reset":
            client.setsockopt(*RESET)
            client.close()
        else:
            client.shutdown(socket.SHUT_WR)
            assert rest_of(client) == b""
        assert ended.wait(10)
        door.close()
    assert door.broken == ()
