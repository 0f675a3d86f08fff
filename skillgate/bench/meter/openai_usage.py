"""What the answers of OpenAI's wire say: usage, in every shape, and what went wrong. Pure."""

from __future__ import annotations

from skillgate.bench.failure import Failure
from skillgate.bench.meter.dialect import Json, Reading, has_key, numbers
from skillgate.prices import Tokens

_FAULTS = {
    "insufficient_quota": Failure.API_CREDIT,
    "invalid_api_key": Failure.API_AUTH,
    "rate_limit_exceeded": Failure.API_RATE_LIMIT,
    "server_is_overloaded": Failure.API_OVERLOADED,
}
_BY_STATUS = {
    401: Failure.API_AUTH,
    402: Failure.API_CREDIT,
    403: Failure.API_AUTH,
    429: Failure.API_RATE_LIMIT,
    503: Failure.API_OVERLOADED,
    529: Failure.API_OVERLOADED,
}


def fault_of(status: int, error: Json) -> Failure | None:
    """Return what an error means; None for what the client did wrong."""
    found = error.get("error")
    said = found if isinstance(found, dict) else error
    for name in ("code", "type"):
        if isinstance(said.get(name), str) and said[name] in _FAULTS:
            return _FAULTS[said[name]]
    return _BY_STATUS.get(status, Failure.API_SERVER if status >= 500 else None)


def read(reading: Reading, event: Json) -> None:
    """Take what a whole answer, or an event of a stream, says."""
    kind = event.get("type")
    if kind == "error" or (event.get("error") is not None and "object" not in event):
        reading.fault = fault_of(500, event)
    elif isinstance(event.get("response"), dict):
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            _read_response(reading, event["response"])
    elif event.get("object") == "response":
        _read_response(reading, event)
    elif "choices" in event:
        _read_chat(reading, event)


def _read_response(reading: Reading, response: Json) -> None:
    reading.model = str(response.get("model", ""))
    reading.odd = reading.odd or _odd(response)
    if response.get("status") == "failed":
        reading.fault = fault_of(500, response)
    usage = response.get("usage")
    if (found := numbers(usage, "input_tokens", "output_tokens")) and isinstance(usage, dict):
        _take(reading, found, usage.get("input_tokens_details"))
        reading.done = response.get("status") in ("completed", "incomplete")


def _read_chat(reading: Reading, chunk: Json) -> None:
    """Take a chunk, or a whole answer. Usage is in the last chunk or, on other servers, in every one."""
    reading.model = str(chunk.get("model") or reading.model)
    choices = chunk.get("choices")
    if isinstance(choices, list):
        reading.ended |= any(isinstance(one, dict) and one.get("finish_reason") for one in choices)
    usage = chunk.get("usage")
    if (found := numbers(usage, "prompt_tokens", "completion_tokens")) and isinstance(usage, dict):
        _take(reading, found, usage.get("prompt_tokens_details"))
        reading.odd = reading.odd or _odd(chunk)
    reading.done = reading.ended and reading.tokens.prompt > 0


def _take(reading: Reading, found: list[int], details: object) -> None:
    prompt, output = found
    cached, written = numbers(details, "cached_tokens", "cache_write_tokens") or [0, 0]
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    reading.tokens = Tokens(prompt - cached - written, output, cached, written)


def _odd(answer: Json) -> str:
    if answer.get("service_tier") not in (None, "auto", "default", "standard"):
        return "the answer was charged by another service tier"
    audio = has_key(
        answer.get("usage"), lambda name, n: name in ("audio_tokens", "image_tokens") and n not in (0, None)
    )
    return "the answer was charged for audio or images" if audio else ""
