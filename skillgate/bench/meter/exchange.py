"""One request of a client -> one request to the upstream, and its answer back: reserved before, booked after.

Nothing of a body or a header is logged or put into an error.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

import aiohttp
from aiohttp import web

from skillgate.bench.failure import Failure
from skillgate.bench.meter.admission import ClientGone, admit, read_body
from skillgate.bench.meter.body import Body, BodyError, parse_body
from skillgate.bench.meter.call import Call
from skillgate.bench.meter.dialect import (
    ADDED_TOKENS,
    Answer,
    Ask,
    Denied,
    Json,
    Reading,
    Route,
    Service,
    Trouble,
    clip,
    deny,
    malformed,
)
from skillgate.bench.meter.headers import forwarded
from skillgate.bench.meter.limits import Stopped, Want
from skillgate.bench.meter.relay import StreamRelay, as_object, pass_whole, read_whole
from skillgate.bench.meter.way import Way
from skillgate.prices import Price

MAX_COUNTS = 64
_LARGE_BYTES = 1024 * 1024  # aiohttp wants what is above as a file
_SLOW_BYTES = 512 * 1024  # a body above is read in another thread: it would keep all clients waiting
_FINAL = (Failure.API_AUTH, Failure.API_CREDIT)  # no retry helps, so the client is told to stop


class Exchange:
    """One request and its answer."""

    def __init__(self, way: Way, request: web.BaseRequest) -> None:
        self._way = way
        self._request = request
        self._dialect = way.dialect
        self._account = way.account
        self._query = ""

    async def run(self) -> web.StreamResponse:
        """Answer the request, by the upstream or by a refusal. Raises: CancelledError."""
        try:
            async with asyncio.timeout(self._account.remaining_s or None):  # with none left it is refused
                return await self._answer()
        except Denied as denied:
            if denied.trouble is Trouble.STOP:
                self._account.deny()
            return self._refuse(denied.trouble, denied.sentence)
        except Stopped as stopped:
            return self._refuse(Trouble.STOP, stopped.sentence)
        except TimeoutError:
            self._account.stop(Failure.AGENT_CLOCK, f"this run's {self._account.limits.wall_s:g} s are over")
            return self._refuse(Trouble.STOP, "this run's time is over")
        except ClientGone:
            return web.Response(status=499)

    async def _answer(self) -> web.StreamResponse:
        route, self._query = admit(self._request, self._dialect, self._account)
        data = await read_body(self._request)
        if route.service is not Service.CALL:
            return await self._pass_free(route, data)
        body = await _parse(data)
        ask = self._dialect.ask(route, body)
        price = self._price(ask.model)
        call = await self._open(route, body, ask, price, len(data))
        reading = Reading()
        try:
            with call:
                try:
                    changes = self._dialect.changes(body, ask, call.output)
                    changed = body.edited(changes).encode() if changes else data
                    return await self._forward(route, changed, call, reading)
                finally:
                    self._book(call, reading, ask.model)
        finally:
            async with self._way.closed:
                self._way.closed.notify_all()

    def _price(self, model: str) -> Price:
        allowed = self._account.limits.models
        price = self._way.price(model)
        if allowed and model not in allowed:
            raise deny(
                f"the model `{clip(model)}` is not the one of this run; use {', '.join(sorted(allowed))}"
            )
        if price is None:
            raise deny(
                f"no price is known for the model `{clip(model)}`; give it in skillgate.yml under `prices`"
            )
        return price

    async def _open(self, route: Route, body: Body, ask: Ask, price: Price, size: int) -> Call:
        """Reserve; count the prompt where its bytes are too many, wait for open calls. Raises: Stopped."""
        want = Want(size + ask.added, ask.output, ask.minimum, ask.cache_use)
        if not self._account.pays(price, want):
            digest = body.digest(self._dialect.prompt_members(route))
            if digest not in self._way.counts:
                await self._count(route, body, digest)
            want = self._counted(want, digest)
        async with self._way.closed:
            while True:
                try:
                    return self._account.open(price, want)
                except Stopped as stopped:
                    if not stopped.may_change:
                        raise
                await self._way.closed.wait()

    def _counted(self, want: Want, digest: str) -> Want:
        """Lower the bound to what the provider counted; a count is no promise, hence the margin."""
        count = self._way.counts.get(digest)
        if count is None:
            return want
        return want._replace(prompt_bound=min(want.prompt_bound, count + count // 20 + ADDED_TOKENS))

    async def _count(self, route: Route, body: Body, digest: str) -> None:
        asked = self._dialect.count(route, body)
        if asked is None:
            return
        self._account.count_request()
        try:
            async with self._send(asked[0].path, asked[1], "") as upstream:
                answer = as_object(await read_whole(upstream)) if upstream.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError):
            return  # the bytes are a bound too
        self._remember(digest, self._dialect.counted(answer))

    def _remember(self, digest: str, count: int | None) -> None:
        if count is not None:
            self._way.counts[digest] = count
        while len(self._way.counts) > MAX_COUNTS:
            del self._way.counts[next(iter(self._way.counts))]

    async def _pass_free(self, route: Route, data: bytes) -> web.StreamResponse:
        self._account.count_request()
        try:
            async with self._send(route.path, data or None, self._query) as upstream:
                body = await read_whole(upstream)
                if upstream.status == 200 and route.service is Service.COUNT:
                    self._take_count(route, data, body)
                fault = None if upstream.status < 300 else self._fault(upstream.status, as_object(body))
                return self._pass_whole(upstream, body, fault)
        except aiohttp.ClientError:
            raise Denied(Trouble.UNREACHABLE, "the model API could not be reached") from None

    def _take_count(self, route: Route, data: bytes, answer: bytes) -> None:
        try:
            digest = parse_body(data).digest(self._dialect.prompt_members(route))
        except BodyError:
            return
        self._remember(digest, self._dialect.counted(as_object(answer)))

    def _send(self, path: str, data: bytes | None, query: str) -> Any:
        given = self._request.headers.items()
        return self._way.session.request(
            self._request.method,
            self._way.url(path, query),
            data=io.BytesIO(data) if data and len(data) > _LARGE_BYTES else data,
            headers=forwarded(given, self._dialect, self._way.key, self._account.token),
            allow_redirects=False,
        )

    async def _forward(self, route: Route, data: bytes, call: Call, reading: Reading) -> web.StreamResponse:
        try:
            async with self._send(route.path, data, self._query) as upstream:
                if upstream.status >= 300:
                    body = await read_whole(upstream)
                    fault = self._fault(upstream.status, as_object(body))
                    call.free(fault)
                    self._account.check()
                    return self._pass_whole(upstream, body, fault)
                if upstream.content_type == "text/event-stream":
                    return await StreamRelay(self._request, self._dialect, reading, self._way.key).run(
                        upstream
                    )
                body = await read_whole(upstream)
                self._dialect.read(reading, as_object(body))
                return self._pass_whole(upstream, body, None)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            call.free(Failure.API_UNREACHABLE)  # nothing was sent
            raise Denied(Trouble.UNREACHABLE, "the model API could not be reached") from None
        except aiohttp.ServerTimeoutError:
            reading.fault = Failure.API_UNREACHABLE
            raise Denied(Trouble.TIMEOUT, "the model API did not answer in time") from None
        except aiohttp.ClientError:
            reading.fault = Failure.API_SERVER
            raise Denied(Trouble.UNREACHABLE, "the model API broke the connection") from None

    def _fault(self, status: int, error: Json) -> Failure | None:
        if status < 400:
            return Failure.API_UNREACHABLE
        fault = self._dialect.fault(status, error)
        if fault in _FINAL:
            self._account.stop(fault, "the model API refused the key or the account of skillgate")
        return fault

    def _pass_whole(
        self, upstream: aiohttp.ClientResponse, body: bytes, fault: Failure | None
    ) -> web.Response:
        if fault in _FINAL:
            raise Denied(Trouble.STOP, "the model API refused the key or the account of skillgate")
        if 300 <= upstream.status < 400:
            raise Denied(Trouble.UNREACHABLE, "the model API redirects, which is not followed")
        return pass_whole(upstream, body, self._way.key)

    def _book(self, call: Call, reading: Reading, model: str) -> None:
        if reading.model:
            self._account.resolve(model, clip(reading.model))
        if reading.odd:
            self._account.note(reading.odd)
        if not call.is_open:
            return
        if reading.done and reading.fault is None and not reading.odd:
            call.settle(reading.tokens)
        else:
            call.lose(reading.tokens, reading.fault)

    def _refuse(self, trouble: Trouble, sentence: str) -> web.Response:
        self._account.note(sentence)
        path = self._request.raw_path.partition("?")[0]
        answer: Answer = self._dialect.answer(trouble, f"skillgate: {sentence}", path)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


async def _parse(data: bytes) -> Body:
    try:
        return parse_body(data) if len(data) <= _SLOW_BYTES else await asyncio.to_thread(parse_body, data)
    except BodyError as wrong:
        raise malformed(str(wrong)) from None
