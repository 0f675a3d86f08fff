"""The wire of OpenAI: Responses, Chat Completions, streamed or not, and the list of models. Pure.

Many servers speak Chat Completions. A stream of it has a usage only when that is asked for, so it is, and the
client sees one more chunk. The prompt includes what was cached, the output what was reasoned.
"""

from __future__ import annotations

from typing import Any

from skillgate.bench.failure import Failure
from skillgate.bench.meter.body import Body
from skillgate.bench.meter.dialect import (
    ADDED_TOKENS,
    ADDED_TOKENS_PER_TOOL,
    DEFAULT_OUTPUT,
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
    malformed,
    objects,
    only,
    say,
    text_of,
)
from skillgate.bench.meter.openai_usage import fault_of, read
from skillgate.prices import CacheUse

RESPONSES, CHAT, MODELS = "/v1/responses", "/v1/chat/completions", "/v1/models"
_BOTH = frozenset(
    [
        "metadata",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    ]
)
_RESPONSES = _BOTH | frozenset(
    [
        "background",
        "client_metadata",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "text",
        "truncation",
    ]
)
_CHAT = _BOTH | frozenset(
    [
        "chat_template_kwargs",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "min_p",
        "n",
        "presence_penalty",
        "reasoning_effort",
        "repeat_penalty",
        "response_format",
        "seed",
        "stop",
        "top_k",
        "verbosity",
    ]
)
_STORED = ("background", "conversation", "previous_response_id", "prompt")
_TOOLS = frozenset({"apply_patch", "custom", "function", "local_shell"})
_TEXT = frozenset({"input_text", "output_text", "reasoning_text", "refusal", "summary_text", "text"})
_CALLS = ("apply_patch_call", "custom_tool_call", "function_call", "local_shell_call")
_ITEMS = frozenset(
    [
        "additional_tools",  # tools in the middle of the input: so Codex sends them to newer models
        "message",
        "reasoning",
        *_CALLS,
        *(f"{name}_output" for name in _CALLS),
    ]
)
# Codex asks once after 429 and six times after 402, opencode once after 402 and for a minute after 429: each
# has its own path. When a figure in the text looks like a status opencode asks again, and so at once.
_STOP_CHAT, _STOP_HEADERS = 402, {"x_should_retry": "false", "retry_after_ms": "1"}
_LIMITS = {RESPONSES: ("max_output_tokens",), CHAT: ("max_completion_tokens", "max_tokens")}
_PROMPTS = {
    RESPONSES: frozenset({"input", "instructions", "model", "reasoning", "text", "tool_choice", "tools"}),
    CHAT: frozenset({"messages", "model", "response_format", "tool_choice", "tools"}),
}
_ERRORS = {
    Trouble.TOKEN: (401, "invalid_request_error", "invalid_api_key"),
    Trouble.PATH: (404, "invalid_request_error", "not_found"),
    Trouble.MALFORMED: (400, "invalid_request_error", "invalid_request"),
    Trouble.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    Trouble.STOP: (429, "insufficient_quota", "insufficient_quota"),
    Trouble.UNREACHABLE: (502, "server_error", "unreachable"),
    Trouble.TIMEOUT: (504, "server_error", "timeout"),
}


class OpenAI:
    """OpenAI's Responses and Chat Completions."""

    credentials = ("authorization", "x-api-key")
    marks = (b'"usage"', b'"error"', b'"finish_reason"', b'"response.failed"')

    def route(self, method: str, path: str) -> Route | None:
        """Return what a path is for, None when it is not served."""
        if method == "POST" and path in (RESPONSES, CHAT):
            return Route(path, Service.CALL)
        if method == "GET" and path == MODELS:
            return Route(path, Service.LIST, frozenset({"client_version"}))
        return None

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry a key."""
        return {"authorization": f"Bearer {key}"}

    def ask(self, route: Route, body: Body) -> Ask:
        """Read what a call wants. Raises: Denied."""
        members = body.members
        only(members, _CHAT if route.path == CHAT else _RESPONSES, "the body")
        if members.get("service_tier") not in (None, "auto", "default"):
            raise deny("this `service_tier` is not metered; leave it out")
        _check_tools(members.get("tools"))
        if route.path == CHAT:
            _check_chat(members)
        else:
            _check_responses(members)
        named = [found for name in _LIMITS[route.path] if (found := count_of(members, name)) is not None]
        return Ask(
            model=text_of(members, "model"),
            output=max(named, default=DEFAULT_OUTPUT),
            streams=flag_of(members, "stream"),
            added=ADDED_TOKENS + ADDED_TOKENS_PER_TOOL * _count_tools(members),
            cache_use=CacheUse.SHORT,
        )

    def changes(self, body: Body, ask: Ask, output: int) -> dict[str, Any]:
        """Return the members to change so that the answer has at most `output` tokens. Raises: Denied."""
        members = body.members
        is_chat = "messages" in members
        names = _LIMITS[CHAT if is_chat else RESPONSES]
        given = [name for name in names if members.get(name) is not None]
        changed: dict[str, Any] = {name: output for name in given if members[name] > output}
        if not given:
            changed[names[0]] = output
        if is_chat and ask.streams:
            found = members.get("stream_options")
            options = found if isinstance(found, dict) else {}
            if options.get("include_usage") is not True:
                changed["stream_options"] = {**options, "include_usage": True}
        return changed

    def prompt_members(self, route: Route) -> frozenset[str]:
        """Return the members that decide how long the prompt is."""
        return _PROMPTS.get(route.path, frozenset())

    def count(self, route: Route, body: Body) -> tuple[Route, bytes] | None:
        """Return None: not every server of this wire counts for nothing."""
        return None

    def counted(self, answer: Json) -> int | None:
        """Return None: nothing is counted."""
        return None

    def read(self, reading: Reading, event: Json) -> None:
        """Take what a whole answer, or an event of a stream, says of usage, model and faults."""
        read(reading, event)

    def fault(self, status: int, error: Json) -> Failure | None:
        """Return what an upstream's error means; None for what the client did wrong."""
        return fault_of(status, error)

    def answer(self, trouble: Trouble, sentence: str, path: str = "") -> Answer:
        """Return an answer of the proxy's own in the shape that clients of a path know."""
        status, kind, code = _ERRORS[trouble]
        stops = trouble is Trouble.STOP
        body = {"error": {"message": sentence, "type": kind, "param": None, "code": code}}
        return say(_STOP_CHAT if stops and path == CHAT else status, body, **(_STOP_HEADERS if stops else {}))


def _count_tools(members: Json) -> int:
    found = members.get("input")
    items = objects(found, "`input`") if isinstance(found, list) else []
    return sum(len(objects(one.get("tools"), "`tools`")) for one in (members, *items))


def _check_tools(found: object) -> None:
    for tool in objects(found, "`tools`"):
        if tool.get("type") == "namespace":
            _check_tools(tool.get("tools"))
        else:
            each_type([tool], _TOOLS, "`tools`")


def _check_chat(members: Json) -> None:
    if members.get("n") not in (None, 1) or isinstance(members.get("n"), bool):
        raise deny("more than one answer at once is not metered; leave `n` out")
    for message in objects(members.get("messages"), "`messages`"):
        if message.get("audio") is not None:
            raise deny("audio is not metered; leave it out")
        if not isinstance(message.get("content"), str):
            each_type(objects(message.get("content"), "`content`"), _TEXT, "a message")


def _check_responses(members: Json) -> None:
    for name in _STORED:
        if members.get(name) not in (None, False):
            raise deny(
                f"`{name}` is not metered, because its cost cannot be known before; send the whole input"
            )
    if isinstance(members.get("input"), str):
        return
    for item in objects(members.get("input"), "`input`"):
        each_type([item], _ITEMS, "`input`", default="message")
        _check_tools(item.get("tools"))
        for name in ("content", "output", "summary"):
            if isinstance(item.get(name), list):
                each_type(objects(item[name], f"`{name}`"), _TEXT, "`input`")
            elif isinstance(item.get(name), dict):
                raise malformed(f"`{name}` is neither a text nor a list")
