"""The wire of Anthropic: Messages, streamed or not, and the free count of tokens. Pure."""

from __future__ import annotations

import json
from typing import Any

from skillgate.bench.failure import Failure
from skillgate.bench.meter.anthropic_usage import fault_of, read
from skillgate.bench.meter.body import Body
from skillgate.bench.meter.dialect import (
    ADDED_TOKENS,
    ADDED_TOKENS_PER_IMAGE,
    ADDED_TOKENS_PER_TOOL,
    MIN_OUTPUT,
    Answer,
    Ask,
    Json,
    Reading,
    Route,
    Service,
    Trouble,
    count_of,
    deny,
    each_type,
    flag_of,
    has_key,
    malformed,
    numbers,
    objects,
    only,
    say,
    text_of,
)
from skillgate.prices import CacheUse

_MIN_THINKING = 1024  # tokens; the API takes no smaller budget
_PROMPT = frozenset({"messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"})
_KNOWN = _PROMPT | {
    "cache_control",
    "context_management",
    "diagnostics",
    "max_tokens",
    "metadata",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
}
_TEXT = frozenset({"text"})
_RESULT = _TEXT | {"image", "tool_reference"}
_CONTENT = _RESULT | {"redacted_thinking", "thinking", "tool_result", "tool_use"}
_TOOLS = ("bash_", "text_editor_", "memory_")  # what the client runs; every other type is a server's
_EDITS = frozenset({"clear_thinking_20251015", "clear_tool_uses_20250919"})
_SERVED = {"/v1/messages": Service.CALL, "/v1/messages/count_tokens": Service.COUNT}
_ERRORS = {
    Trouble.TOKEN: (401, "authentication_error"),
    Trouble.PATH: (404, "not_found_error"),
    Trouble.MALFORMED: (400, "invalid_request_error"),
    Trouble.TOO_LARGE: (413, "request_too_large"),
    Trouble.STOP: (402, "billing_error"),  # claude asks once; it asks again after 400, 401 and 500
    Trouble.UNREACHABLE: (502, "api_error"),
    Trouble.TIMEOUT: (504, "timeout_error"),
}


class Anthropic:
    """Anthropic's Messages."""

    credentials = ("x-api-key", "authorization")
    marks = (b'"usage"', b'"error"', b'"message_stop"')

    def route(self, method: str, path: str) -> Route | None:
        """Return what a path is for, None when it is not served."""
        if method != "POST" or path not in _SERVED:
            return None
        return Route(path, _SERVED[path], frozenset({"beta"}))

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry a key."""
        return {"x-api-key": key}

    def ask(self, route: Route, body: Body) -> Ask:
        """Read what a call wants. Raises: Denied."""
        members = body.members
        only(members, _KNOWN, "the body")
        if members.get("service_tier") not in (None, "auto", "standard_only"):
            raise deny("this `service_tier` is not metered; leave it out")
        if members.get("speed") not in (None, "standard"):
            raise deny("fast mode is not metered; leave `speed` out")
        images = _check_content(members)
        _check_tools(members)
        output = count_of(members, "max_tokens")
        if output is None:
            raise malformed("`max_tokens` is missing")
        tools = len(objects(members.get("tools"), "`tools`"))
        return Ask(
            model=text_of(members, "model"),
            output=output,
            streams=flag_of(members, "stream"),
            added=ADDED_TOKENS + ADDED_TOKENS_PER_TOOL * tools + ADDED_TOKENS_PER_IMAGE * images,
            cache_use=_cache_use(body),
            minimum=max(MIN_OUTPUT, _MIN_THINKING + 1 if _thinks(members) else 0),
        )

    def changes(self, body: Body, ask: Ask, output: int) -> dict[str, Any]:
        """Return the members to change so that the answer has at most `output` tokens."""
        if output >= ask.output:
            return {}
        changed: dict[str, Any] = {"max_tokens": output}
        budget = _thinking(body.members).get("budget_tokens")
        if isinstance(budget, int) and budget >= output:
            changed["thinking"] = {**_thinking(body.members), "budget_tokens": output - 1}
        return changed

    def prompt_members(self, route: Route) -> frozenset[str]:
        """Return the members that decide how long the prompt is."""
        return _PROMPT

    def count(self, route: Route, body: Body) -> tuple[Route, bytes] | None:
        """Return the free request that counts a call's prompt."""
        asked = {name: value for name, value in body.members.items() if name in _PROMPT}
        return Route("/v1/messages/count_tokens", Service.COUNT), json.dumps(asked).encode()

    def counted(self, answer: Json) -> int | None:
        """Return the number in the answer to a count."""
        found = numbers(answer, "input_tokens")
        return found[0] if found and found[0] else None

    def read(self, reading: Reading, event: Json) -> None:
        """Take what a whole answer, or an event of a stream, says of usage, model and faults."""
        read(reading, event)

    def fault(self, status: int, error: Json) -> Failure | None:
        """Return what an upstream's error means; None for what the client did wrong."""
        return fault_of(status, error)

    def answer(self, trouble: Trouble, sentence: str, path: str = "") -> Answer:
        """Return an answer of the proxy's own in the shape that clients of a path know."""
        status, kind = _ERRORS[trouble]
        body = {"type": "error", "error": {"type": kind, "message": sentence}}
        return say(status, body, **({"x_should_retry": "false"} if status < 500 else {}))


def _check_content(members: Json) -> int:
    """Return how many images there are. Raises: Denied."""
    if not isinstance(members.get("system"), str):
        each_type(objects(members.get("system"), "`system`"), _TEXT, "`system`")
    images = 0
    for message in objects(members.get("messages"), "`messages`"):
        blocks = _blocks(message, "`content`", _CONTENT, "a message")
        for block in blocks:
            if block["type"] == "tool_result":
                blocks = blocks + _blocks(block, "the content of a tool result", _RESULT, "a tool result")
        images += sum(map(_is_image, blocks))
    return images


def _blocks(members: Json, name: str, known: frozenset[str], where: str) -> list[dict[str, Any]]:
    if isinstance(members.get("content"), str):
        return []
    blocks = objects(members.get("content"), name)
    each_type(blocks, known, where)
    return blocks


def _is_image(block: Json) -> bool:
    """Say whether a block is an image that is in the request itself. Raises: Denied."""
    if block["type"] != "image":
        return False
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        raise deny("an image that is somewhere else is not metered; send its bytes")
    return True


def _check_tools(members: Json) -> None:
    for tool in objects(members.get("tools"), "`tools`"):
        kind = tool.get("type", "custom")
        if not isinstance(kind, str) or not (kind == "custom" or kind.startswith(_TOOLS)):
            raise deny("a tool that the server runs is not metered; allow only tools that the client runs")
    management = members.get("context_management")
    if isinstance(management, dict):
        each_type(objects(management.get("edits"), "`edits`"), _EDITS, "`context_management`")


def _thinking(members: Json) -> dict[str, Any]:
    found = members.get("thinking")
    return found if isinstance(found, dict) else {}


def _thinks(members: Json) -> bool:
    return _thinking(members).get("budget_tokens") is not None


def _cache_use(body: Body) -> CacheUse:
    """Return which writes may be caused: `cache_control` may be anywhere, its `ttl` too."""
    if "cache_control" not in body.inner and "cache_control" not in body.members:
        return CacheUse.NONE
    long = "ttl" in body.inner and has_key(body.members, lambda name, found: name == "ttl" and found != "5m")
    return CacheUse.LONG if long else CacheUse.SHORT
