"""An upstream's answer -> the client, piece by piece, and what it says of usage on its way.

A stream is passed on as it comes. One that breaks, breaks for the client too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from skillgate.bench.failure import Failure
from skillgate.bench.meter.admission import ClientGone
from skillgate.bench.meter.dialect import Dialect, Reading
from skillgate.bench.meter.headers import returned
from skillgate.bench.meter.stream import Events, Scrubber

MAX_ANSWER_BYTES = 64 * 1024 * 1024


async def read_whole(upstream: aiohttp.ClientResponse) -> bytes:
    """Read an answer to its end. Raises: aiohttp.ClientError."""
    data = bytearray()
    async for chunk in upstream.content.iter_any():
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    return bytes(data)


def as_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object, an empty one for anything else: it says nothing of usage then."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def pass_whole(upstream: aiohttp.ClientResponse, body: bytes, key: str) -> web.Response:
    """Return an answer as it is, without the key."""
    secret = key.encode()
    body = body.replace(secret, b"*" * len(secret)) if secret else body
    headers = CIMultiDict(returned(upstream.headers.items(), key))
    return web.Response(status=upstream.status, body=body, headers=headers)


class _Broken(Exception):
    """The upstream ended in the middle."""


async def _pieces(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield what comes; what breaks here is the upstream, elsewhere the client."""
    try:
        async for chunk in upstream.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError):
        raise _Broken from None


class StreamRelay:
    """One answer in events: passed on, and read."""

    def __init__(self, request: web.BaseRequest, dialect: Dialect, reading: Reading, key: str) -> None:
        self._request = request
        self._dialect = dialect
        self._reading = reading
        self._key = key
        self._events = Events()
        self._scrubber = Scrubber(key.encode())

    async def run(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass the answer on to its end. Raises: ClientGone, CancelledError."""
        headers = CIMultiDict(returned(upstream.headers.items(), self._key))
        answer = web.StreamResponse(status=upstream.status, headers=headers)
        try:
            await self._pass(upstream, answer)
        except _Broken:
            self._reading.fault = self._reading.fault or Failure.API_SERVER
            self._cut()
        except ConnectionError:
            raise ClientGone from None
        except asyncio.CancelledError:
            self._cut()
            raise
        return answer

    async def _pass(self, upstream: aiohttp.ClientResponse, answer: web.StreamResponse) -> None:
        await answer.prepare(self._request)
        async for chunk in _pieces(upstream):
            self._read(chunk)
            if passed := self._scrubber.feed(chunk):
                await answer.write(passed)
        if rest := self._scrubber.rest():
            await answer.write(rest)
        if not self._reading.done and self._reading.fault is None:
            self._reading.fault = Failure.API_SERVER

    def _read(self, chunk: bytes) -> None:
        for data in self._events.feed(chunk):
            if any(mark in data for mark in self._dialect.marks):
                self._dialect.read(self._reading, as_object(data))

    def _cut(self) -> None:
        """Close the connection without an end of the answer, so that the client knows."""
        if self._request.transport is not None:
            self._request.transport.close()
