"""What the answers of Anthropic's wire say: usage with its caches, and what went wrong. Pure.

Usage is in `message_start` (the prompt, with its caches) and in the last `message_delta` (output,
and the whole prompt again where a server has it).
"""

from __future__ import annotations

from skillgate.bench.failure import Failure
from skillgate.bench.meter.dialect import Json, Reading, has_key, numbers
from skillgate.prices import Tokens

_FAULTS = {
    "authentication_error": Failure.API_AUTH,
    "permission_error": Failure.API_AUTH,
    "billing_error": Failure.API_CREDIT,
    "rate_limit_error": Failure.API_RATE_LIMIT,
    "overloaded_error": Failure.API_OVERLOADED,
    "api_error": Failure.API_SERVER,
    "timeout_error": Failure.API_SERVER,
}
_BY_STATUS = {
    401: Failure.API_AUTH,
    402: Failure.API_CREDIT,
    403: Failure.API_AUTH,
    429: Failure.API_RATE_LIMIT,
    529: Failure.API_OVERLOADED,
}


def fault_of(status: int, error: Json) -> Failure | None:
    """Return what an error means; None for what the client did wrong."""
    if status == 400 and "credit balance" in str(error.get("error")):
        return Failure.API_CREDIT
    if status >= 500:
        return _BY_STATUS.get(status) or _said(error) or Failure.API_SERVER
    return _BY_STATUS.get(status)


def read(reading: Reading, event: Json) -> None:
    """Take what a whole answer, or an event of a stream, says."""
    kind = event.get("type")
    if kind == "error":
        reading.fault = _said(event) or Failure.API_SERVER
    elif kind == "message_start":
        _read_message(reading, event.get("message"))
    elif kind == "message_delta":
        _read_delta(reading, event.get("usage"))
    elif kind == "message":
        _read_message(reading, event)
        reading.done = bool(reading.tokens.prompt)


def _read_message(reading: Reading, message: object) -> None:
    if not isinstance(message, dict):
        return
    reading.model = str(message.get("model", ""))
    usage = message.get("usage")
    found = numbers(
        usage, "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    )
    if found is None or not isinstance(usage, dict):
        return
    read, output, cached, written = found
    split = numbers(usage.get("cache_creation"), "ephemeral_1h_input_tokens") or [0]
    long = min(written, split[0])
    reading.tokens = Tokens(read, output, cached, written - long, long)
    reading.odd = reading.odd or _odd(usage)


def _read_delta(reading: Reading, usage: object) -> None:
    """Take the final count of output, and of what the prompt had more than was said at first."""
    found = numbers(
        usage, "output_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    )
    if found is None or not isinstance(usage, dict) or usage.get("output_tokens") is None:
        return
    output, read, cached, written = found
    at_first = reading.tokens
    reading.tokens = Tokens(
        max(read, at_first.input),
        max(output, at_first.output),
        max(cached, at_first.cache_read),
        max(written - at_first.cache_write_1h, at_first.cache_write),
        at_first.cache_write_1h,
    )
    reading.done = bool(reading.tokens.prompt)
    reading.odd = reading.odd or _odd(usage)


def _odd(usage: Json) -> str:
    if usage.get("service_tier") not in (None, "standard"):
        return "the answer was charged by another service tier"
    if usage.get("speed") not in (None, "standard"):
        return "the answer was charged as fast mode"
    if usage.get("inference_geo") not in (None, "", "global", "not_available"):
        return "the answer was charged for its region"
    if has_key(usage.get("server_tool_use"), lambda _, found: found not in (0, None)):
        return "the answer was charged for tools of the server"
    return ""


def _said(event: Json) -> Failure | None:
    error = event.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return _FAULTS.get(kind) if isinstance(kind, str) else None
