"""What each wire refuses and what it clamps; nothing that may cost something else is forwarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillgate.bench.meter.body import parse_body
from skillgate.bench.meter.dialect import Ask, Denied, Route, Trouble
from skillgate.bench.meter.proxy import DIALECTS
from skillgate.prices import CacheUse
from tests.fakes.metering import SAMPLES

USER: dict[str, Any] = {"role": "user"}


def route_of(wire: str) -> Route:
    sample = SAMPLES[wire]
    route = DIALECTS[sample.kind].route("POST", sample.path)
    assert route is not None
    return route


def ask(wire: str, **members: Any) -> Ask:
    sample = SAMPLES[wire]
    body = {name: value for name, value in {**sample.body, **members}.items() if value != "missing"}
    return DIALECTS[sample.kind].ask(route_of(wire), parse_body(json.dumps(body).encode()))


def said(content: Any) -> dict[str, Any]:
    return {"messages": [{**USER, "content": content}]}


def parts(*found: Any) -> dict[str, Any]:
    return {"contents": [{**USER, "parts": list(found)}]}


def generation(**members: Any) -> dict[str, Any]:
    return {"generationConfig": {"maxOutputTokens": 1000, **members}}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}

STOPPED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", said([{**IMAGE, "source": {"type": "url", "url": "x"}}])),
    ("anthropic", said([{**TOOL_RESULT, "content": [{"type": "image", "source": {"type": "file"}}]}])),
    ("anthropic", said([{**IMAGE, "source": None}])),
    ("anthropic", said([{"type": "document", "source": {}}])),
    ("anthropic", said([{"type": "container_upload", "file_id": "f"}])),
    ("anthropic", said([{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}])),
    ("anthropic", said([{"no": "type"}])),
    ("anthropic", said([{"type": ["text"]}])),
    ("anthropic", {"system": [IMAGE]}),
    *(("anthropic", {"tools": [{"type": kind, "name": "t"}]}) for kind in (
        "web_search_20250305", "web_fetch_20250910", "code_execution_20250825", "computer_20250124",
        "tool_search_tool_regex_20251119", "mcp_toolset", "", None, 1)),
    ("anthropic", {"mcp_servers": []}),
    ("anthropic", {"container": "c"}),
    ("anthropic", {"inference_geo": "us"}),
    ("anthropic", {"speed": "fast"}),
    ("anthropic", {"service_tier": "priority"}),
    ("anthropic", {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
    ("anthropic", {"Max_Tokens": 1}),
    ("responses", {"input": [{**USER, "content": [{"type": "input_image", "image_url": "x"}]}]}),
    ("responses", {"input": [{**USER, "content": [{"type": "input_file", "file_id": "x"}]}]}),
    ("responses", {"input": [{"type": "item_reference", "id": "x"}]}),
    ("responses", {"input": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]}),
    ("responses", {"input": [{"type": "web_search_call"}]}),
    *(("responses", {"tools": [{"type": kind}]}) for kind in (
        "web_search", "file_search", "code_interpreter", "image_generation", "computer_use_preview", "mcp",
        "shell")),
    ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}),
    ("responses", {"input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]}),
    ("responses", {"background": True}),
    ("responses", {"previous_response_id": "resp_1"}),
    ("responses", {"conversation": "c"}),
    ("responses", {"prompt": {"id": "p"}}),
    ("responses", {"service_tier": "flex"}),
    ("responses", {"n": 2}),
    ("chat", said([{"type": "image_url", "image_url": {"url": "x"}}])),
    ("chat", said([{"type": "input_audio"}])),
    ("chat", {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}),
    ("chat", {"n": 2}),
    ("chat", {"n": True}),
    ("chat", {"web_search_options": {}}),
    ("chat", {"modalities": ["text", "audio"]}),
    ("chat", {"prediction": {}}),
    ("chat", {"service_tier": "priority"}),
    ("chat", {"tools": [{"type": "web_search"}]}),
    ("gemini", parts({"inlineData": {"data": "AA=="}})),
    ("gemini", parts({"inline_data": {"data": "AA=="}})),
    ("gemini", parts({"fileData": {"fileUri": "x"}})),
    ("gemini", parts({"functionResponse": {"name": "f", "response": {}, "parts": [{"inlineData": {}}]}})),
    ("gemini", {"systemInstruction": {"parts": [{"inlineData": {}}]}}),
    *(("gemini", {"tools": [{name: {}}]}) for name in (
        "googleSearch", "google_search", "codeExecution", "urlContext")),
    ("gemini", {"cachedContent": "c"}),
    ("gemini", {"generation_config": {}}),
    ("gemini", generation(candidateCount=2)),
    ("gemini", generation(max_output_tokens=9)),
    ("gemini", generation(responseModalities=["AUDIO"])),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "members"), STOPPED, ids=lambda value: str(value)[:60])
def test_what_may_cost_something_else_stops_the_client(wire: str, members: dict[str, Any]) -> None:
    with pytest.raises(Denied) as denied:
        ask(wire, **members)
    assert denied.value.trouble is Trouble.STOP
    assert any(word in denied.value.sentence for word in ("leave", "send", "allow only"))


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    *(("anthropic", {"max_tokens": value}) for value in ("1e9", 1e3, -1, True, [1], 10**9, "missing")),
    ("anthropic", {"model": 1}),
    ("anthropic", {"model": "missing"}),
    ("anthropic", {"stream": "true"}),
    ("anthropic", {"messages": {}}),
    ("anthropic", {"messages": ["x"]}),
    ("anthropic", said({"type": "image"})),
    ("anthropic", {"tools": {}}),
    *(("responses", {"max_output_tokens": value}) for value in ("1e9", 1.5, -1)),
    ("responses", {"input": {}}),
    ("responses", {"input": [{**USER, "content": {"type": "input_image"}}]}),
    ("chat", {"max_tokens": "9"}),
    ("chat", said({"type": "image_url"})),
    ("gemini", {"generationConfig": []}),
    ("gemini", generation(maxOutputTokens="99")),
    ("gemini", {"contents": {}}),
]


@pytest.mark.parametrize(("wire", "members"), MALFORMED, ids=lambda value: str(value)[:60])
def test_a_wrong_type_is_no_request(wire: str, members: dict[str, Any]) -> None:
    with pytest.raises(Denied) as denied:
        ask(wire, **members)
    assert denied.value.trouble is Trouble.MALFORMED


ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", said([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])),
    ("anthropic", said([{"type": "tool_result", "content": [{"type": "text", "text": "x"}]}])),
    ("anthropic", said([{"type": "thinking"}, {"type": "tool_use", "input": {"type": "image"}}])),
    ("anthropic", {"tools": [{"name": "t", "input_schema": {"properties": {"image": {"type": "image"}}}}]}),
    ("anthropic", said([IMAGE, TOOL_RESULT])),
    ("anthropic", {"tools": [{"type": "bash_20250124"}, {"type": "text_editor_20250728", "name": "e"}]}),
    ("anthropic", {"service_tier": "standard_only", "speed": "standard", "thinking": {"type": "adaptive"}}),
    ("responses", {"input": [{**USER, "content": "x"}, {"type": "reasoning", "summary": []}]}),
    ("responses", {"input": [{"type": "function_call_output", "output": [{"type": "input_text"}]}]}),
    ("responses", {"tools": [{"type": "custom", "name": "a"}, {"type": "local_shell"}], "store": False}),
    ("responses", {"background": False, "previous_response_id": None, "service_tier": "auto"}),
    ("responses", {"input": [{"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}]}),
    ("chat", {"n": 1, "messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}]}),
    ("gemini", parts({"text": "x", "thoughtSignature": "s"}, {"functionResponse": {"name": "f"}})),
    ("gemini", {"tools": [{"functionDeclarations": [{"name": "googleSearch"}]}]}),
    ("gemini", generation(candidateCount=1, thinkingConfig={"thinkingBudget": -1})),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "members"), ALLOWED, ids=lambda value: str(value)[:60])
def test_what_agents_send_is_served(wire: str, members: dict[str, Any]) -> None:
    assert ask(wire, **members).output == 1000


@pytest.mark.parametrize(
    ("members", "cache_use"),
    [
        ({}, CacheUse.NONE),
        ({"cache_control": {"type": "ephemeral"}}, CacheUse.SHORT),
        ({"system": [{"type": "text", "text": "x", "cache_control": {"ttl": "5m"}}]}, CacheUse.SHORT),
        ({"tools": [{"name": "t", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}, CacheUse.LONG),
        ({"tools": [{"name": "t", "cache_control": {"type": "ephemeral", "ttl": "later"}}]}, CacheUse.LONG),
    ],
)
def test_the_dearest_write_that_is_asked_for_is_held(members: dict[str, Any], cache_use: CacheUse) -> None:
    assert ask("anthropic", **members).cache_use is cache_use


def test_every_tool_may_add_a_prompt_that_is_not_in_the_body() -> None:
    tools = [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728", "name": "e"}]
    assert [ask("anthropic").added, ask("anthropic", tools=tools).added] == [1024, 3 * 1024]


def test_tools_in_the_middle_of_the_input_count_as_tools() -> None:
    more = {"type": "additional_tools", "tools": [{"type": "custom", "name": "a"}, {"type": "function"}]}
    assert ask("responses", input=[more, USER], tools=[{"type": "function"}]).added == 4 * 1024


def test_an_image_may_cost_more_than_its_bytes() -> None:
    assert (
        ask("anthropic", **said([IMAGE, TOOL_RESULT, {"type": "text", "text": "x"}])).added == 1024 + 2 * 8192
    )


THINKING = {"type": "enabled", "budget_tokens": 4000}
ABOUT_THINKING = {"includeThoughts": True, "thinkingBudget": 4000}
CLAMPS: list[tuple[str, dict[str, Any], int, dict[str, Any]]] = [
    ("anthropic", {"max_tokens": 8000}, 8000, {}),
    ("anthropic", {"max_tokens": 8000}, 7999, {"max_tokens": 7999}),
    ("anthropic", {"max_tokens": 8000, "thinking": THINKING}, 5000, {"max_tokens": 5000}),
    ("anthropic", {"max_tokens": 8000, "thinking": THINKING}, 4000,
     {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 3999}}),
    ("responses", {"max_output_tokens": "missing"}, 700, {"max_output_tokens": 700}),
    ("responses", {"max_output_tokens": None}, 700, {"max_output_tokens": 700}),
    ("responses", {"stream": True}, 999, {"max_output_tokens": 999}),
    ("responses", {"stream": True}, 1000, {}),
    ("chat", {"max_completion_tokens": "missing"}, 700, {"max_completion_tokens": 700}),
    ("chat", {"max_tokens": 600}, 700, {"max_completion_tokens": 700}),
    ("chat", {"max_tokens": 900}, 700, {"max_completion_tokens": 700, "max_tokens": 700}),
    ("chat", {"stream": True}, 1000, {"stream_options": {"include_usage": True}}),
    ("chat", {"stream": True, "stream_options": {"include_usage": False, "x": 1}}, 1000,
     {"stream_options": {"include_usage": True, "x": 1}}),
    ("chat", {"stream": True, "stream_options": {"include_usage": True}}, 1000, {}),
    ("gemini", {}, 1000, {}),
    ("gemini", generation(topK=1), 700, generation(maxOutputTokens=700, topK=1)),
    ("gemini", {"generationConfig": "missing"}, 700, {"generationConfig": {"maxOutputTokens": 700}}),
    ("gemini", generation(maxOutputTokens=8000, thinkingConfig=ABOUT_THINKING), 700,
     generation(maxOutputTokens=700, thinkingConfig={**ABOUT_THINKING, "thinkingBudget": 699})),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "members", "output", "changes"), CLAMPS, ids=lambda value: str(value)[:40])
def test_the_answer_is_clamped_to_what_is_paid_for(
    wire: str, members: dict[str, Any], output: int, changes: dict[str, Any]
) -> None:
    sample = SAMPLES[wire]
    body = {name: value for name, value in {**sample.body, **members}.items() if value != "missing"}
    parsed = parse_body(json.dumps(body).encode())
    dialect = DIALECTS[sample.kind]
    assert dialect.changes(parsed, dialect.ask(route_of(wire), parsed), output) == changes


def test_a_budget_of_thinking_has_to_fit() -> None:
    assert [ask("anthropic").minimum, ask("anthropic", thinking=THINKING).minimum] == [512, 1025]


@pytest.mark.parametrize(
    ("kind", "method", "path"),
    [
        ("anthropic", "GET", "/v1/messages"),
        ("anthropic", "POST", "/v1/messages/"),
        ("anthropic", "POST", "//v1/messages"),
        ("anthropic", "POST", "/v1/messages/batches"),
        ("anthropic", "POST", "/v1/complete"),
        ("anthropic", "POST", "/v1/files"),
        ("anthropic", "POST", "/v1/%6dessages"),
        ("anthropic", "POST", "/v1/x/%2e%2e/messages"),
        ("anthropic", "POST", "/v1/x/../messages"),
        ("anthropic", "POST", "http://127.0.0.1/v1/messages"),
        ("anthropic", "POST", "/v1/chat/completions"),
        ("openai", "POST", "/v1/models"),
        ("openai", "GET", "/v1/models/gpt-test"),
        ("openai", "POST", "/v1/responses/resp_1/cancel"),
        ("openai", "POST", "/v1/embeddings"),
        ("openai", "POST", "/v1/batches"),
        ("gemini", "POST", "/v1beta/models/gemini-test:embedContent"),
        ("gemini", "POST", "/v1beta/models/../x:generateContent"),
        ("gemini", "POST", "/v1beta/models/a%2fb:generateContent"),
        ("gemini", "POST", "/v1beta/models/gemini-test:generateContent\n"),
        ("gemini", "POST", "/v1beta/cachedContents"),
    ],
)
def test_what_is_not_on_the_list_is_not_served(kind: str, method: str, path: str) -> None:
    assert DIALECTS[kind].route(method, path) is None
