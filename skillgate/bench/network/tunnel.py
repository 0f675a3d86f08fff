"""The way out of a sandbox without network: CONNECT to the hosts of an allow-list, nothing else.

A tunnel answers at listening sockets that others made, one door each (`netns` makes one inside
a container). Names are resolved here, on the host, and one that leads to no public address is
refused: it must not open the host's own network. What goes through is not looked at: TLS stays
closed and the name in it is not compared, so whoever shares a listed host's address (a content
network) can be reached under its name, and an allowed host is also a way out for data. Nothing
is logged; a door remembers what it refused and what failed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from skillgate.bench.network.hosts import Endpoint, endpoint, hosts_of, is_public
from skillgate.bench.network.http_connect import ESTABLISHED, Refusal, clip, read_head, target_of, turn_away
from skillgate.bench.network.relay import Relay, connect

Connect = Callable[[str, int], Awaitable[socket.socket]]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_CONNECTIONS = 64
MAX_NOTES = 20

_FORBIDDEN = "403 Not on the allow-list"  # clients show this line, and nothing of the body
_FULL = Refusal("503 Too many connections", f"only {MAX_CONNECTIONS} connections at once.").answer
_CLOSE_S = 10.0
_PAUSE_S = 0.02


class Clocks(NamedTuple):
    """How long to wait: for a head, an upstream, any byte, and a refused client to hang up."""

    head_s: float = 10.0
    connect_s: float = 20.0
    idle_s: float = 300.0
    linger_s: float = 1.0


CLOCKS = Clocks()


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name as this machine knows them. Raises: OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class _Way(NamedTuple):
    allowed: tuple[Endpoint, ...]
    connect: Connect
    resolve: Resolve
    clocks: Clocks


class Tunnel:
    """What serves the doors, in a thread of its own that ends with the process; safe for threads.

    Args:
        hosts: as `hosts_of` returns them.
        connect: opens a connection to an address.
        resolve: returns the addresses of a name.
    """

    def __init__(
        self,
        hosts: Collection[str],
        connect: Connect = connect,
        resolve: Resolve = resolve,
        clocks: Clocks = CLOCKS,
    ) -> None:
        allowed = tuple(filter(None, map(endpoint, hosts_of(tuple(hosts)))))
        self._way = _Way(allowed, connect, resolve, clocks)
        self._doors: weakref.WeakSet[Door] = weakref.WeakSet()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="skillgate-tunnel", daemon=True)
        self._thread.start()

    def serve(self, listener: socket.socket) -> Door:
        """Answer whoever connects to a socket that listens and does not block; it now belongs to the door."""
        door = Door(listener, self._loop, self._way)
        self._doors.add(door)
        return door

    def close(self) -> None:
        """Close every door and end the thread; more than once does no harm."""
        if self._loop.is_closed():
            return
        for door in tuple(self._doors):
            door.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Door:
    """One listening socket and its connections.

    `refused` holds what was asked for in vain and `broken` which allowed hosts could not be
    reached or did not answer, with the reason: each once, printable, the first MAX_NOTES. Both are
    noted before the client can know, so what a command met is there when the command has ended.
    """

    def __init__(self, listener: socket.socket, loop: asyncio.AbstractEventLoop, way: _Way) -> None:
        self.refused: tuple[str, ...] = ()  # replaced, never changed: other threads read it
        self.broken: tuple[str, ...] = ()
        self._listener = listener
        self._loop = loop
        self._way = way
        self._visits: set[asyncio.Task[None]] = set()
        loop.call_soon_threadsafe(self._watch)

    def close(self) -> None:
        """End the listener and every connection; more than once does no harm. What was noted stays."""
        if self._listener.fileno() >= 0:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CLOSE_S)

    async def _end(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        visits = tuple(self._visits)
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)

    def _watch(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _pause(self) -> None:
        """Leave who comes next to the kernel's queue for a moment."""
        self._loop.remove_reader(self._listener)
        self._loop.call_later(_PAUSE_S, self._watch)

    def _accept(self) -> None:
        """Take one client; not a task, which could be cancelled between the client and its visit."""
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # it was gone before its turn, or this process may open no more files
            self._pause()
            return
        client.setblocking(False)
        if len(self._visits) < MAX_CONNECTIONS:
            visit = self._loop.create_task(self._visit(client))
            self._visits.add(visit)
            visit.add_done_callback(partial(self._leave, client))
        else:
            with client, suppress(OSError):
                client.send(_FULL)
            self._pause()  # or a flood would cost more on this side than on its own

    def _leave(self, client: socket.socket, visit: asyncio.Task[None]) -> None:
        client.close()  # not in the visit itself, which may be cancelled before it has begun
        self._visits.discard(visit)
        if not visit.cancelled() and (bug := visit.exception()) is not None:
            self._note_broken(f"the tunnel ({type(bug).__name__})")

    async def _visit(self, client: socket.socket) -> None:
        with suppress(OSError):  # the client may leave at any time
            try:
                head, rest = await read_head(client, self._way.clocks.head_s)
                target = self._admit(head)
                upstream = await self._reach(target)
            except Refusal as refusal:
                await turn_away(client, refusal, self._way.clocks.linger_s)
                return
            with upstream:
                await self._loop.sock_sendall(client, ESTABLISHED)
                note = partial(self._note_broken, f"{target} (it did not answer)")
                await Relay(client, upstream, self._way.clocks.idle_s, note).run(rest)

    def _admit(self, head: bytes) -> Endpoint:
        target = target_of(head)
        if target is None:
            self._note_refused("a malformed request")
            raise Refusal("400 Bad Request", "this is no request to a proxy.")
        found = endpoint(target)
        if found in self._way.allowed and target.endswith(f":{found.port}"):
            return found
        self._note_refused(target)
        allowed = ", ".join(map(str, self._way.allowed))
        raise Refusal(_FORBIDDEN, f"{clip(target)} is not allowed. This is: CONNECT to {allowed}.")

    async def _reach(self, target: Endpoint) -> socket.socket:
        try:
            async with asyncio.timeout(self._way.clocks.connect_s):
                return await self._connect(await self._addresses(target), target.port)
        except OSError as problem:
            self._note_broken(f"{target} ({_why(problem)})")
            raise Refusal("502 Bad Gateway", f"{target} cannot be reached: {_why(problem)}.") from None

    async def _addresses(self, target: Endpoint) -> Sequence[str]:
        if target.is_address:
            return (target.host,)
        found = await self._way.resolve(target.host, target.port)
        if not all(map(is_public, found)):
            why = f"{target} (it has an address that is not public)"
            self._note_refused(why)
            self._note_broken(why)  # no doing of the client's: it asked for what is on the list
            raise Refusal(_FORBIDDEN, f"{why}.")
        return found

    async def _connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Return a connection to the first address that answers; each gets its share of the time."""
        problem = OSError(errno.EHOSTUNREACH, "no address")
        for address in addresses:
            try:
                async with asyncio.timeout(self._way.clocks.connect_s / len(addresses)):
                    return await self._way.connect(address, port)
            except OSError as failed:
                problem = failed
        raise problem

    def _note_refused(self, what: str) -> None:
        self.refused = _with(self.refused, what)

    def _note_broken(self, what: str) -> None:
        self.broken = _with(self.broken, what)


def _with(notes: tuple[str, ...], note: str) -> tuple[str, ...]:
    note = clip(note)
    return notes if note in notes or len(notes) >= MAX_NOTES else (*notes, note)


def _why(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, socket.gaierror) or not problem.errno:
        return problem.strerror or type(problem).__name__
    return os.strerror(problem.errno)  # asyncio puts the address into its own text
