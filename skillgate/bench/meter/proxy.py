"""The meter: what holds a provider's key and serves each run at a socket of its own, within its account.

It has a thread of its own, like the tunnel. Only the provider's host is asked, no redirect is
followed, no proxy of the environment is used, nothing is logged.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import yarl
from aiohttp import web

from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.anthropic import Anthropic
from skillgate.bench.meter.dialect import Dialect
from skillgate.bench.meter.exchange import Exchange
from skillgate.bench.meter.gemini import Gemini
from skillgate.bench.meter.openai import OpenAI
from skillgate.bench.meter.way import Way
from skillgate.errors import ConfigError
from skillgate.prices import Price

MAX_CONNECTIONS = 128
DIALECTS: dict[str, Dialect] = {"anthropic": Anthropic(), "openai": OpenAI(), "gemini": Gemini()}

_VERSIONS = ("/v1beta", "/v1")  # which many write at the end of a base URL; the paths have them too
_CLOSE_S = 10.0
_POOLED_S = 15.0
_END_S = 0.1
_PAUSE_S = 0.02
_SILENT = logging.Logger("skillgate-meter", logging.CRITICAL + 1)
_T = TypeVar("_T")


class Clocks(NamedTuple):
    """How long to wait for an upstream: to connect, and for any byte."""

    connect_s: float = 20.0
    read_s: float = 300.0


CLOCKS = Clocks()


class Provider(NamedTuple):
    """Whose wire is spoken, where, and the real key; an empty one for servers that want none."""

    kind: str
    base_url: str
    key: str = ""

    def __repr__(self) -> str:
        return f"Provider({self.kind}, {self.base_url})"

    def check(self) -> None:
        """Make sure that it can be asked. Raises: ConfigError."""
        if self.kind not in DIALECTS:
            raise ConfigError(f"no provider is of kind `{self.kind}`", f"Use one of {', '.join(DIALECTS)}.")
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ConfigError(
                "the base URL of the provider cannot be used", "Give http(s)://host[:port][/path]."
            )
        if not all("!" <= letter <= "~" for letter in self.key):
            raise ConfigError(
                "the key of the provider has a letter that no header takes", "Set it again, without blanks."
            )

    def url(self, path: str, query: str) -> str:
        """Return where a path of the wire is at this provider."""
        base = self.base_url.rstrip("/")
        for version in _VERSIONS:
            if base.endswith(version) and path.startswith(f"{version}/"):
                base = base.removesuffix(version)
        return f"{base}{path}{query}"


class Meter:
    """What serves the doors; safe for threads.

    Args:
        price: what a model costs, None when nobody knows.

    Raises: ConfigError.
    """

    def __init__(
        self, provider: Provider, price: Callable[[str], Price | None], clocks: Clocks = CLOCKS
    ) -> None:
        provider.check()
        self._provider = provider
        self._price = price
        self._doors: weakref.WeakSet[MeterDoor] = weakref.WeakSet()
        self._lock = threading.Lock()  # a set that grows while it is read raises
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # it would print what was sent
        self._thread = threading.Thread(target=self._loop.run_forever, name="skillgate-meter", daemon=True)
        self._thread.start()
        self._session = self._do(_session(clocks))

    def serve(self, listener: socket.socket, account: Account) -> MeterDoor:
        """Answer whoever connects to a socket that listens; it now belongs to the door."""
        door = self._do(self._open(listener, account))
        with self._lock:
            self._doors.add(door)
        return door

    @property
    def open_usd_micros(self) -> int:
        """Return what the accounts of the doors that are open have to pay."""
        accounts = {id(door.account): door.account for door in self._known() if door.is_open}
        return sum(account.booked_usd_micros for account in accounts.values())

    def close(self) -> None:
        """Close every door and end the thread; more than once does no harm."""
        if self._loop.is_closed():
            return
        for door in self._known():
            door.close()
        self._do(self._session.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _known(self) -> tuple[MeterDoor, ...]:
        with self._lock:
            return tuple(self._doors)

    async def _open(self, listener: socket.socket, account: Account) -> MeterDoor:
        way = Way(
            url=lambda path, query: yarl.URL(self._provider.url(path, query), encoded=True),
            key=self._provider.key,
            dialect=DIALECTS[self._provider.kind],
            price=self._price,
            session=self._session,
            account=account,
            closed=asyncio.Condition(),
            counts={},
        )
        return MeterDoor(listener, self._loop, way)

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CLOSE_S)


class MeterDoor:
    """One run's socket; `account` has what it used, and why it was refused. It leads to no host by name."""

    refused: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    def __init__(self, listener: socket.socket, loop: asyncio.AbstractEventLoop, way: Way) -> None:
        self.account = way.account
        self._listener = listener
        self._loop = loop
        self._way = way
        self._tasks: set[asyncio.Task[Any]] = set()
        self._web = web.Server(
            self._visit,
            loop=loop,
            handler_cancellation=True,
            access_log=None,
            logger=_SILENT,
            lingering_time=1.0,
        )
        listener.setblocking(False)
        loop.call_soon_threadsafe(self._watch)

    @property
    def is_open(self) -> bool:
        """Say whether it listens."""
        return self._listener.fileno() >= 0

    def close(self) -> None:
        """End the listener and every call, whose holds are booked; more than once does no harm."""
        if self.is_open:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CLOSE_S)

    async def _end(self) -> None:
        if not self.is_open:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(tuple(self._tasks))
        await self._web.shutdown(_END_S)

    def _watch(self) -> None:
        if self.is_open:
            self._loop.add_reader(self._listener, self._accept)

    def _pause(self) -> None:
        """Leave who comes next to the kernel's queue for a moment."""
        self._loop.remove_reader(self._listener)
        self._loop.call_later(_PAUSE_S, self._watch)

    def _accept(self) -> None:
        """Take one client. The servers of asyncio forget whoever comes while they are closed."""
        if len(self._web.connections) >= MAX_CONNECTIONS:
            self._pause()
            return
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # it was gone before its turn, or this process may open no more files
            self._pause()
            return
        client.setblocking(False)
        greeting = self._loop.create_task(self._greet(client))
        greeting.add_done_callback(partial(_drop, client))
        self._keep(greeting)

    async def _greet(self, client: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._web, client)

    async def _visit(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer in a task of its own, which can be ended and awaited."""
        if not self.is_open:
            raise asyncio.CancelledError  # it came while the door was closing
        visit = self._loop.create_task(Exchange(self._way, request).run())
        self._keep(visit)
        return await visit

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.account.note(f"the meter failed ({type(bug).__name__})")
            if not isinstance(bug, ConnectionError):  # a client that is gone is no fault of ours
                self.account.blame(Failure.UNKNOWN)


def _drop(client: socket.socket, greeting: asyncio.Task[None]) -> None:
    """Close a client that is in nobody's hands; not in the task, which may be cancelled before it began."""
    if greeting.cancelled() or greeting.exception() is not None:
        client.close()


async def _session(clocks: Clocks) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_POOLED_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=clocks.connect_s, sock_read=clocks.read_s),
        trust_env=False,
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
    )


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Listen where no container is: for agents that run on this machine."""
    with suppress(OSError):
        return socket.create_server((host, port))
    raise ConfigError(f"{host}:{port} cannot be listened at", "Choose another port.")
