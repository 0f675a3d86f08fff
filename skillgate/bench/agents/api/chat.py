"""OpenAI's Chat Completions, asked with the standard library: texts only, no tools."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

from skillgate.bench.agents.api.calls import (
    SILENCE_S,
    CallTrouble,
    Question,
    Said,
    Stop,
    trouble_of_status,
    wait_of,
)
from skillgate.bench.failure import Failure

PATH = "/v1/chat/completions"
_STOPS = {"length": Stop.CUT, "content_filter": Stop.REFUSED}
_MAX_ERROR_BYTES = 64 * 1024
# what cuts an answer, and what answers in other shapes than they should
_ODD = (OSError, http.client.HTTPException, ValueError, TypeError, AttributeError, LookupError)


class ChatWire:
    """Asks a server at a port of this machine, with the token of the run instead of a key."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    def __repr__(self) -> str:
        return f"ChatWire({self._port})"

    def close(self) -> None:
        """Do nothing: every call has a connection of its own."""

    def ask(self, question: Question) -> Said:
        """Ask once. Raises: CallTrouble."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SILENCE_S)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request("POST", PATH, json.dumps(_body(question)).encode(), headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise _trouble(answer)
            return _gather(_events(answer))
        except (ConnectionRefusedError, TimeoutError):
            raise CallTrouble(Failure.API_UNREACHABLE, "the meter did not answer", again=True) from None
        except _ODD as problem:
            sentence = f"the answer broke ({type(problem).__name__})"
            raise CallTrouble(Failure.API_SERVER, sentence, again=True) from None
        finally:
            connection.close()


def _body(question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": question.model,
        "messages": [{"role": "system", "content": question.system}, *question.messages],
        "max_tokens": question.output,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": question.temperature,
        "seed": question.seed,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _trouble(answer: http.client.HTTPResponse) -> CallTrouble:
    try:
        error = json.loads(answer.read(_MAX_ERROR_BYTES))["error"]
        kind, sentence = str(error.get("type")), str(error.get("message"))
    except (ValueError, LookupError, TypeError, AttributeError):
        kind, sentence = "", "no error that can be read"
    retry = answer.getheader("x-should-retry", "")
    if kind == "insufficient_quota":  # nothing that waiting gives back
        retry = "false"
    return trouble_of_status(answer.status, sentence, retry, wait_of(answer.headers))


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream, or the one of an answer that is none."""
    if answer.headers.get_content_type() != "text/event-stream":
        yield _as_event(answer.read())
        return
    for line in answer:
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data != b"[DONE]":
            yield _as_event(data)


def _as_event(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object")
    if found.get("error"):
        raise trouble_of_status(200, "the answer ended in an error")
    return found


def _gather(events: Iterator[dict[str, Any]]) -> Said:
    pieces: list[str] = []
    reason = ""
    for event in events:
        for choice in event.get("choices") or ():
            said = choice.get("delta") or choice.get("message") or {}
            pieces.append(said.get("content") or "")
            reason = choice.get("finish_reason") or reason
            reason = "content_filter" if said.get("refusal") else reason
    if not reason:
        raise CallTrouble(Failure.API_SERVER, "the answer has no end", again=True)
    text = "".join(pieces)
    return Said(_STOPS.get(reason, Stop.END), text, ({"type": "text", "text": text},))
