"""One turn of a script -> what each provider's API answers: a whole answer, or the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from skillgate.values import Struct

Event = tuple[str, dict[str, Any]]  # the name is empty where the wire has no names


class Used(Struct, kw_only=True, rename="kebab"):
    """What the answer says it used; `worst` is as much as the request can have."""

    input: int = 10
    output: int = 5
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    worst: bool = False

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h


class Tool(Struct, kw_only=True):
    """A tool that the model wants to use."""

    name: str
    input: dict[str, Any]


class Turn(Struct, kw_only=True, rename="kebab"):
    """How one call is answered. `status` other than 200 is an error with `error` as its type and text.

    `cut-after`, `hang-after` and `error-after` count events of a stream; a whole answer is cut or
    hangs before its first byte.
    """

    text: str = "Done."
    tool: Tool | None = None
    stop: str = "end"  # end, tool, max-tokens, refusal
    used: Used | None = Used()
    status: int = 200
    error: str = ""
    message: str = "scripted"
    headers: dict[str, str] = {}
    cut_after: int | None = None
    hang_after: int | None = None
    error_after: int | None = None
    bytes_per_piece: Annotated[int, msgspec.Meta(ge=1)] | None = None
    model: str = ""  # the one that was asked for, when empty
    number: int = 1  # of answers in the conversation: programs take two of the same id for one


STOPS = {
    "anthropic": {"end": "end_turn", "tool": "tool_use", "max-tokens": "max_tokens", "refusal": "refusal"},
    "chat": {"end": "stop", "tool": "tool_calls", "max-tokens": "length", "refusal": "content_filter"},
    "gemini": {"end": "STOP", "tool": "STOP", "max-tokens": "MAX_TOKENS", "refusal": "SAFETY"},
}


def anthropic_usage(used: Used) -> dict[str, Any]:
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write + used.cache_write_1h,
        "cache_read_input_tokens": used.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": used.cache_write,
            "ephemeral_1h_input_tokens": used.cache_write_1h,
        },
        "output_tokens": used.output,
        "service_tier": "standard",
    }


def anthropic_blocks(turn: Turn) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    if turn.tool:
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_{turn.number:02}",
                "name": turn.tool.name,
                "input": turn.tool.input,
            }
        )
    return blocks


def anthropic_message(turn: Turn, model: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": f"msg_{turn.number:02}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": anthropic_blocks(turn),
        "stop_reason": STOPS["anthropic"][turn.stop],
        "stop_sequence": None,
    }
    return body | ({"usage": anthropic_usage(turn.used)} if turn.used else {})


def anthropic_events(turn: Turn, model: str, _: Mapping[str, Any]) -> list[Event]:
    message = anthropic_message(turn, model) | {"content": [], "stop_reason": None}
    if turn.used:
        message["usage"]["output_tokens"] = 1
    events: list[Event] = [("message_start", {"message": message})]
    for index, block in enumerate(anthropic_blocks(turn)):
        events += _anthropic_block(index, block)
    delta: dict[str, Any] = {"delta": {"stop_reason": STOPS["anthropic"][turn.stop], "stop_sequence": None}}
    if turn.used:
        delta["usage"] = {"output_tokens": turn.used.output}
    events += [("message_delta", delta), ("message_stop", {})]
    return [(name, {"type": name, **data}) for name, data in events]


def _anthropic_block(index: int, block: dict[str, Any]) -> list[Event]:
    if block["type"] == "text":
        start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        ("content_block_start", {"index": index, "content_block": start}),
        ("ping", {}),
        ("content_block_delta", {"index": index, "delta": delta}),
        ("content_block_stop", {"index": index}),
    ]


def responses_usage(used: Used) -> dict[str, Any]:
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": {"cached_tokens": used.cache_read},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.prompt + used.output,
    }


def responses_items(turn: Turn) -> list[dict[str, Any]]:
    part = {"type": "output_text", "text": turn.text, "annotations": []}
    if turn.stop == "refusal":
        part = {"type": "refusal", "refusal": turn.text}
    message = {
        "type": "message",
        "id": f"msg_{turn.number:02}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    items: list[dict[str, Any]] = [message] if turn.text else []
    if turn.tool:
        call = {
            "type": "function_call",
            "id": f"fc_{turn.number:02}",
            "call_id": f"call_{turn.number:02}",
            "status": "completed",
        }
        items.append(call | {"name": turn.tool.name, "arguments": json.dumps(turn.tool.input)})
    return items


def responses_object(turn: Turn, model: str) -> dict[str, Any]:
    cut = turn.stop == "max-tokens"
    return {
        "id": f"resp_{turn.number:02}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": model,
        "output": responses_items(turn),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "default",
        "usage": responses_usage(turn.used) if turn.used else None,
    }


def responses_events(turn: Turn, model: str, _: Mapping[str, Any]) -> list[Event]:
    whole = responses_object(turn, model)
    begun = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[Event] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(responses_items(turn)):
        events += _responses_item(index, item)
    events.append((f"response.{whole['status']}", {"response": whole}))
    return [(name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(events)]


def _responses_item(index: int, item: dict[str, Any]) -> list[Event]:
    at: dict[str, Any] = {"output_index": index, "item_id": item["id"]}
    added = item | {"status": "in_progress"}
    if item["type"] == "function_call":
        said = {"arguments": item["arguments"]}
        middle: list[Event] = [
            ("response.function_call_arguments.delta", at | {"delta": item["arguments"]}),
            ("response.function_call_arguments.done", at | said),
        ]
        added |= {"arguments": ""}
    else:
        (part,) = item["content"]
        kind = "text" if part["type"] == "output_text" else "refusal"
        text, at = part[kind], at | {"content_index": 0}
        name = "output_text" if kind == "text" else "refusal"
        middle = [
            ("response.content_part.added", at | {"part": part | {kind: ""}}),
            (f"response.{name}.delta", at | {"delta": text}),
            (f"response.{name}.done", at | {kind: text}),
            ("response.content_part.done", at | {"part": part}),
        ]
        added |= {"content": []}
    first: Event = ("response.output_item.added", {"output_index": index, "item": added})
    return [first, *middle, ("response.output_item.done", {"output_index": index, "item": item})]


def chat_usage(used: Used) -> dict[str, Any]:
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.output,
        "total_tokens": used.prompt + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cache_read},
    }


def _chat_call(turn: Turn) -> list[dict[str, Any]]:
    if turn.tool is None:
        return []
    function = {"name": turn.tool.name, "arguments": json.dumps(turn.tool.input)}
    return [{"index": 0, "id": f"call_{turn.number:02}", "type": "function", "function": function}]


def chat_object(turn: Turn, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if calls := _chat_call(turn):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": STOPS["chat"][turn.stop], "logprobs": None}
    body = {
        "id": f"chatcmpl-{turn.number:02}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
    }
    return body | {"choices": [choice]} | ({"usage": chat_usage(turn.used)} if turn.used else {})


def chat_events(turn: Turn, model: str, request: Mapping[str, Any]) -> list[Event]:
    wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": turn.text}] if turn.text else []
    deltas += [{"tool_calls": calls}] if (calls := _chat_call(turn)) else []
    head = {
        "id": f"chatcmpl-{turn.number:02}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
    }
    head |= {"usage": None} if wants_usage else {}
    pairs = [*((delta, None) for delta in deltas), ({}, STOPS["chat"][turn.stop])]
    chunks = [head | {"choices": [{"index": 0, "delta": d, "finish_reason": f}]} for d, f in pairs]
    if wants_usage and turn.used:
        chunks.append(head | {"choices": [], "usage": chat_usage(turn.used)})
    return [("", chunk) for chunk in chunks]


def gemini_usage(used: Used) -> dict[str, Any]:
    found = {"promptTokenCount": used.prompt, "candidatesTokenCount": used.output}
    found |= {"cachedContentTokenCount": used.cache_read} if used.cache_read else {}
    return found | {"totalTokenCount": used.prompt + used.output}


def _gemini_chunk(turn: Turn, model: str, parts: list[dict[str, Any]], last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    candidate |= {"finishReason": STOPS["gemini"][turn.stop]} if last else {}
    body: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": model,
        "responseId": f"r{turn.number:02}",
    }
    if turn.used:
        used = turn.used if last else msgspec.structs.replace(turn.used, output=1)
        body["usageMetadata"] = gemini_usage(used)
    return body


def _gemini_parts(turn: Turn) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text else []
    if turn.tool:
        parts.append({"functionCall": {"name": turn.tool.name, "args": turn.tool.input}})
    return parts


def gemini_object(turn: Turn, model: str) -> dict[str, Any]:
    return _gemini_chunk(turn, model, _gemini_parts(turn), last=True)


def gemini_events(turn: Turn, model: str, _: Mapping[str, Any]) -> list[Event]:
    parts = _gemini_parts(turn)
    chunks = [_gemini_chunk(turn, model, [part], last=False) for part in parts]
    return [("", chunk) for chunk in [*chunks, _gemini_chunk(turn, model, [{"text": ""}], last=True)]]
