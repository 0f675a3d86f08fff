"""A model API on 127.0.0.1 that plays a YAML script, on the wires of three providers.

Calls take the turns of the script in order, the last one again and again. It keeps what it was
sent. Everything is answered in the shapes that the providers' own clients want.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from skillgate.document import decode
from skillgate.values import Struct
from tests.fakes import wires
from tests.fakes.wires import Event, Turn, Used

_GEMINI = re.compile(r"/v1beta/models/([^:/]+):(\w+)")
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class Case(Struct, kw_only=True):
    """The turns of conversations in whose requests a text stands; each takes them from the first on."""

    when: str = ""
    turns: tuple[Turn, ...]


class Script(Struct, kw_only=True):
    """All of a script; the first of its `cases` that fits goes before `turns`.

    `counted` is what the counts of tokens answer, None for none.
    """

    turns: tuple[Turn, ...] = (Turn(),)
    cases: tuple[Case, ...] = ()
    counted: int | None = None


class Seen(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire(NamedTuple):
    """How one path answers."""

    whole: Callable[[Turn, str], dict[str, Any]]
    events: Callable[[Turn, str, Mapping[str, Any]], list[Event]]
    error: Callable[[int, str, str], dict[str, Any]]


def _anthropic_error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind or "api_error", "message": message}}


def _openai_error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {
        "error": {"type": kind or "server_error", "code": kind or None, "message": message, "param": None}
    }


def _gemini_error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {
        "error": {"code": status, "message": message, "status": kind or _STATUS_NAMES.get(status, "INTERNAL")}
    }


ANTHROPIC = Wire(wires.anthropic_message, wires.anthropic_events, _anthropic_error)
RESPONSES = Wire(wires.responses_object, wires.responses_events, _openai_error)
CHAT = Wire(wires.chat_object, wires.chat_events, _openai_error)
GEMINI = Wire(wires.gemini_object, wires.gemini_events, _gemini_error)
_PATHS = {"/v1/messages": ANTHROPIC, "/v1/responses": RESPONSES, "/v1/chat/completions": CHAT}


class ModelApi:
    """The server, in a thread of its own while its `with` lasts."""

    def __init__(self, script: str | Script = Script()) -> None:  # noqa: B008 - frozen
        self.script = decode(script, Script, "script.yml") if isinstance(script, str) else script
        self.seen: list[Seen] = []
        self.hangs = threading.Event()  # a client was left hanging
        self.left = threading.Event()  # and has gone away
        self._played = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ModelApi:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def calls(self) -> list[Seen]:
        """Return the requests that cost something."""
        return [one for one in self.seen if one.method == "POST" and "ount" not in one.path]

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._web = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._server = await self._loop.create_server(self._web, "127.0.0.1", 0, backlog=256)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def _stop(self) -> None:
        self._server.close()
        await self._web.shutdown(0.1)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers), body))
        path = request.raw_path.partition("?")[0]
        if path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})
        if path.endswith(("/count_tokens", ":countTokens")):
            return self._count(path)
        gemini = _GEMINI.fullmatch(path)
        wire = GEMINI if gemini else _PATHS.get(path)
        if wire is None:
            return web.json_response({"error": "no such path"}, status=404)
        asked = json.loads(body)
        streams = gemini[2] == "streamGenerateContent" if gemini else bool(asked.get("stream"))
        return await self._play(
            request, wire, asked, gemini[1] if gemini else asked.get("model", ""), streams, body
        )

    def _count(self, path: str) -> web.Response:
        if self.script.counted is None:
            return web.json_response({"error": {"type": "not_found_error", "message": "no"}}, status=404)
        return web.json_response({"totalTokens" if "v1beta" in path else "input_tokens": self.script.counted})

    def _next(self, asked: Mapping[str, Any], body: bytes) -> Turn:
        case = next((case for case in self.script.cases if case.when.encode() in body), None)
        turns, number = (case.turns, _said(asked)) if case else (self.script.turns, self._played)
        turn = turns[min(number, len(turns) - 1)]
        self._played += case is None
        turn = msgspec.structs.replace(turn, number=1 + _said(asked))
        if turn.used is None or not turn.used.worst:
            return turn
        return msgspec.structs.replace(turn, used=Used(input=len(body), output=_most(asked)))

    async def _play(
        self,
        request: web.BaseRequest,
        wire: Wire,
        asked: Mapping[str, Any],
        model: str,
        streams: bool,
        body: bytes,
    ) -> web.StreamResponse:
        turn = self._next(asked, body)
        if turn.status != 200:
            error = wire.error(turn.status, turn.error, turn.message)
            return web.json_response(error, status=turn.status, headers=turn.headers)
        if streams:
            return await self._stream(request, wire, turn, wire.events(turn, turn.model or model, asked))
        if turn.hang_after is not None:
            await self._hang()
        if turn.cut_after is not None and request.transport is not None:
            request.transport.abort()
        return web.json_response(wire.whole(turn, turn.model or model), headers=turn.headers)

    async def _stream(
        self, request: web.BaseRequest, wire: Wire, turn: Turn, events: list[Event]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream", **turn.headers})
        await answer.prepare(request)
        for number, (name, data) in enumerate(events):
            if number == turn.hang_after:
                await self._hang()
            if number == turn.cut_after and request.transport is not None:
                request.transport.close()
                return answer
            if number == turn.error_after:
                error = wire.error(500, turn.error, turn.message)
                if wire is RESPONSES:
                    error = {"sequence_number": number, **error["error"], "type": "error"}
                await self._write(answer, turn, "error" if name else "", error)
                return answer
            await self._write(answer, turn, name, data)
        if wire is CHAT:
            await answer.write(b"data: [DONE]\n\n")
        return answer

    async def _write(self, answer: web.StreamResponse, turn: Turn, name: str, data: dict[str, Any]) -> None:
        text = f"event: {name}\n" if name else ""
        piece = f"{text}data: {json.dumps(data)}\n\n".encode()
        size = turn.bytes_per_piece or len(piece)
        for at in range(0, len(piece), size):
            await answer.write(piece[at : at + size])

    async def _hang(self) -> None:
        self.hangs.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


def _said(asked: Mapping[str, Any]) -> int:
    """Count the answers that a conversation has already, on any wire."""
    spoken = asked.get("messages") or asked.get("contents") or asked.get("input") or []
    parts = [(one.get("role"), one.get("type")) for one in spoken if isinstance(one, dict)]
    return sum(role in ("assistant", "model") or str(kind).endswith("_call") for role, kind in parts)


def _most(asked: Mapping[str, Any]) -> int:
    """Return the most output that a request allows."""
    generation = asked.get("generationConfig") or {}
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    return int(
        max([asked[name] for name in names if name in asked] or [generation.get("maxOutputTokens", 0)])
    )
