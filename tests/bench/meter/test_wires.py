"""Every wire x every way that a call can go: what the client gets, what is booked, what it means."""

from __future__ import annotations

import json
import math
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import MAX_FAULTS
from skillgate.bench.meter.anthropic import Anthropic
from skillgate.bench.meter.dialect import Reading
from skillgate.bench.meter.gemini import Gemini
from skillgate.bench.meter.proxy import Clocks
from skillgate.prices import Tokens
from skillgate.values import Usage
from tests.fakes.metering import KEY, SAMPLES, Metered, metered
from tests.fakes.upstream import until

WIRES = tuple(SAMPLES)


class Case(NamedTuple):
    """A turn, whether it is streamed, and what comes of it; `cost` None is the whole hold."""

    turn: str
    streams: bool
    status: int
    cost: int | None
    failure: Failure | None = None
    whole: bool = True


USED = "used: {input: 100, output: 40}"
TOOL = f"{{{USED}, stop: tool, tool: {{name: bash, input: {{command: ls}}}}}}"
AWAY = "{status: 302, headers: {location: /v1/models}}"
COST = 100 + 40 * 5
CASES = {
    "plain": Case(f"{{{USED}}}", False, 200, COST),
    "stream": Case(f"{{{USED}}}", True, 200, COST),
    "tool": Case(TOOL, True, 200, COST),
    "plain tool": Case(TOOL, False, 200, COST),
    "slow, in pieces": Case(f"{{{USED}, bytes-per-piece: 7}}", True, 200, COST),
    "refusal": Case(f"{{{USED}, stop: refusal}}", True, 200, COST),
    "max tokens": Case(f"{{{USED}, stop: max-tokens}}", True, 200, COST),
    "plain max tokens": Case(f"{{{USED}, stop: max-tokens}}", False, 200, COST),
    "no usage": Case("{used: null}", False, 200, None),
    "stream without usage": Case("{used: null}", True, 200, None, Failure.API_SERVER),
    "cut stream": Case(f"{{{USED}, cut-after: 1}}", True, 200, None, Failure.API_SERVER, whole=False),
    "cut at once": Case(f"{{{USED}, cut-after: 0}}", False, 502, None, Failure.API_SERVER),
    "error event": Case(f"{{{USED}, error-after: 1}}", True, 200, None, Failure.API_SERVER),
    "400": Case("{status: 400, error: invalid_request_error}", False, 400, 0),
    "404": Case("{status: 404, error: not_found_error}", False, 404, 0),
    "413": Case("{status: 413, error: request_too_large}", False, 413, 0),
    "429": Case("{status: 429, error: rate_limit_error}", True, 429, 0, Failure.API_RATE_LIMIT),
    "500": Case("{status: 500}", True, 500, 0, Failure.API_SERVER),
    "redirect": Case(AWAY, False, 502, 0, Failure.API_UNREACHABLE),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_call(wire: str, name: str) -> None:
    case = CASES[name]
    with metered(f"turns: [{case.turn}]", wire) as run:
        answer = run.ask(case.streams)
        status = 503 if wire == "gemini" and case.status == 502 else case.status
        assert (answer.status, answer.whole) == (status, case.whole)
        (call,) = run.api.calls
        hold = run.account.ledger.held_usd_micros
        assert run.booked() == ((0, most(run, call.body)) if case.cost is None else (case.cost, 0))
        assert run.account.booked_usd_micros == (hold if case.cost is None else case.cost)
        assert run.account.failure is case.failure
        assert run.account.usage == usage_of(run, case)
        assert KEY.encode() not in answer.body


def most(run: Metered, sent: bytes) -> int:
    """Return what the call could have cost: a token for every byte that came, and all the output."""
    _, body = run.sample.at(b'"stream": true' in sent)
    return len(json.dumps(body).encode()) + 1024 + 1000 * 5


def usage_of(run: Metered, case: Case) -> Usage:
    """Return what the account has to say; of a cut call it knows what came before the cut."""
    known = run.account.usage
    if case.cost is None:
        assert known.tokens <= 141
        assert (known.requests, known.turns) == (1, int(False))
        return known
    if not case.cost:
        return Usage(requests=1)
    return Usage(requests=1, turns=1, input=100, output=40, usd_micros=case.cost)


@pytest.mark.parametrize(
    ("wire", "status", "error", "failure"),
    [
        ("anthropic", 401, "authentication_error", Failure.API_AUTH),
        ("anthropic", 403, "permission_error", Failure.API_AUTH),
        ("anthropic", 402, "billing_error", Failure.API_CREDIT),
        ("responses", 401, "invalid_api_key", Failure.API_AUTH),
        ("chat", 429, "insufficient_quota", Failure.API_CREDIT),
        ("gemini", 403, "", Failure.API_AUTH),
    ],
)
def test_a_key_that_does_not_work_stops_the_client_and_the_run(
    wire: str, status: int, error: str, failure: Failure
) -> None:
    turn = f"{{status: {status}, error: '{error}', message: 'the key {KEY} is wrong'}}"
    with metered(f"turns: [{turn}, {{}}]", wire) as run:
        first, second = run.ask(), run.ask()
        assert [first.status, second.status] == [429 if wire in ("responses", "gemini") else 402] * 2
        assert len(run.api.calls) == 1
        assert (run.account.failure, run.booked()) == (failure, (0, 0))
        assert KEY.encode() not in first.body + second.body


@pytest.mark.parametrize(
    ("wire", "status", "failure"),
    [
        ("anthropic", 529, Failure.API_OVERLOADED),
        ("chat", 503, Failure.API_OVERLOADED),
        ("responses", 503, Failure.API_OVERLOADED),
        ("gemini", 503, Failure.API_OVERLOADED),
    ],
)
def test_an_overload_is_passed_on_and_forgotten_after_the_next_answer(
    wire: str, status: int, failure: Failure
) -> None:
    with metered(f"turns: [{{status: {status}}}, {{}}]", wire) as run:
        assert run.ask().status == status
        assert run.account.failure is failure
        assert run.ask().status == 200
        assert run.account.failure is None


@pytest.mark.parametrize("wire", WIRES)
def test_an_api_that_fails_again_and_again_is_asked_no_more(wire: str) -> None:
    with metered("turns: [{status: 500}]", wire) as run:
        statuses = [run.ask().status for _ in range(MAX_FAULTS + 1)]
        stop = 429 if wire in ("responses", "gemini") else 402
        assert statuses == [500] * (MAX_FAULTS - 1) + [stop] * 2
        assert len(run.api.calls) == MAX_FAULTS
        assert run.account.failure is Failure.API_SERVER
        assert run.account.notes == (f"the model API failed {MAX_FAULTS} times in a row",)
        assert run.booked() == (0, 0)


@pytest.mark.parametrize("wire", WIRES)
def test_streams_that_break_again_and_again_end_the_run_too(wire: str) -> None:
    with metered(f"turns: [{{{USED}, cut-after: 1}}]", wire) as run:
        assert [run.ask(streams=True).whole for _ in range(MAX_FAULTS)] == [False] * MAX_FAULTS
        assert run.ask(streams=True).status in (402, 429)
        assert len(run.api.calls) == MAX_FAULTS
        assert run.account.failure is Failure.API_SERVER


def test_faults_count_only_in_a_row() -> None:
    turns = ", ".join((["{status: 503}"] * (MAX_FAULTS - 1) + ["{}"]) * 3)
    with metered(f"turns: [{turns}]") as run:
        statuses = [run.ask().status for _ in range(3 * MAX_FAULTS)]
        assert statuses == ([503] * (MAX_FAULTS - 1) + [200]) * 3
        assert run.account.failure is None


@pytest.mark.parametrize("wire", WIRES)
def test_a_client_that_goes_away_ends_the_call_and_books_its_hold(wire: str) -> None:
    with metered(f"turns: [{{{USED}, hang-after: 1}}]", wire) as run:
        path, body = run.sample.at(streams=True)
        with closing(run.connect()) as connection:
            headers = {"Content-Type": "application/json", **run.sample.token(run.account.token)}
            connection.request("POST", path, json.dumps(body), headers)
            assert connection.getresponse().read1(10)
            assert run.api.hangs.wait(10)
        assert run.api.left.wait(10)
        until(lambda: run.account.ledger.held_usd_micros == most(run, run.api.calls[0].body))
        until(lambda: not run.account.has_open_calls)
        assert run.account.failure is None


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streams", [False, True])
def test_an_upstream_that_falls_silent_is_left_and_books_its_hold(wire: str, streams: bool) -> None:
    with metered(f"turns: [{{{USED}, hang-after: 1}}]", wire, clocks=Clocks(1, 0.2)) as run:
        answer = run.ask(streams)
        assert (answer.status, answer.whole) == ((200, False) if streams else (504, True))
        assert run.booked() == (0, most(run, run.api.calls[0].body))
        assert run.account.failure is (Failure.API_SERVER if streams else Failure.API_UNREACHABLE)


def test_caches_are_priced_by_how_they_were_used() -> None:
    used = "used: {input: 3, cache-read: 1000, cache-write: 200, cache-write-1h: 40, output: 7}"
    for streams in (False, True):
        with metered(f"turns: [{{{used}}}]") as run:
            run.ask(streams)
            cost = math.ceil(3 * 1 + 1000 * 0.1 + 200 * 1.25 + 40 * 2 + 7 * 5)
            assert run.account.usage == Usage(
                requests=1, turns=1, input=3, cache_read=1000, cache_write=240, output=7, usd_micros=cost
            )


@pytest.mark.parametrize("wire", ["responses", "chat", "gemini"])
def test_what_was_cached_is_part_of_the_prompt_and_cheaper(wire: str) -> None:
    for streams in (False, True):
        with metered("turns: [{used: {input: 60, cache-read: 40, output: 7}}]", wire) as run:
            run.ask(streams)
            found = Usage(requests=1, turns=1, input=60, cache_read=40, output=7, usd_micros=60 + 4 + 35)
            assert run.account.usage == found


def test_thoughts_are_output_and_tools_of_the_server_are_odd() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    answer = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}
    reading = Reading()
    Gemini().read(reading, answer)
    assert (reading.done, reading.odd, reading.tokens) == (True, "", Tokens(9, 7))
    Gemini().read(reading, {**answer, "usageMetadata": {**usage, "toolUsePromptTokenCount": 1}})
    assert "tools of the server" in reading.odd


@pytest.mark.parametrize(
    "usage",
    [
        {"service_tier": "priority"},
        {"speed": "fast"},
        {"inference_geo": "us"},
        {"server_tool_use": {"web_search_requests": 1}},
    ],
)
def test_an_answer_that_was_charged_otherwise_is_odd(usage: dict[str, Any]) -> None:
    for kind in ("message", "message_delta"):
        reading = Reading()
        counted = {"input_tokens": 9, "output_tokens": 1, **usage}
        Anthropic().read(reading, {"type": kind, "usage": counted})
        assert reading.odd.startswith("the answer was charged")


def test_a_long_prompt_costs_what_its_tier_does() -> None:
    for prompt, cost in ((100_000, 10_000 + 5), (100_001, 50_001 + 25)):
        with metered(f"turns: [{{used: {{input: {prompt}, output: 10}}}}]") as run:
            long = [{"role": "user", "content": "x" * 100_001}]
            assert run.ask(model="claude-haiku-5-5", messages=long).status == 200
            assert run.account.usage.usd_micros == cost


def test_the_model_that_answered_is_remembered() -> None:
    with metered("turns: [{model: claude-haiku-4-5-20251001}, {}]") as run:
        run.ask(True)
        run.ask()
        first = ("claude-haiku-4-5", "claude-haiku-4-5-20251001")
        assert run.account.models == (first, ("claude-haiku-4-5", "claude-haiku-4-5"))


def test_more_than_could_be_is_booked_as_it_is_and_stops_the_run() -> None:
    with metered("turns: [{used: {input: 3000, output: 1000}}]") as run:
        assert run.ask().status == 200
        assert run.booked() == (3000 + 5000, 0)
        assert run.account.failure is Failure.UNKNOWN
        assert run.ask().status == 402


def test_a_stream_is_passed_on_as_it_comes() -> None:
    with metered(f"turns: [{{{USED}, hang-after: 4}}]") as run:
        path, body = run.sample.at(streams=True)
        with closing(run.connect()) as connection:
            headers = {"Content-Type": "application/json", **run.sample.token(run.account.token)}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            got = b""
            while b"text_delta" not in got:
                got += answer.read1(65536)
            assert run.api.hangs.wait(10)


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_is_what_the_upstream_sent(wire: str) -> None:
    with metered(f"turns: [{{{USED}, bytes-per-piece: 11}}]", wire) as run:
        through = run.ask(True)
        (call,) = run.api.calls
        direct = Metered(run.api, run.door, run.api.port, run.sample)
        assert direct.send("POST", call.path, call.body).body == through.body


def test_the_double_speaks_all_that_a_client_waits_for() -> None:
    names: dict[str, list[Any]] = {}
    for wire in ("anthropic", "responses"):
        with metered(f"turns: [{{{USED}, stop: tool, tool: {{name: bash, input: {{}}}}}}]", wire) as run:
            lines = run.ask(True).body.decode().splitlines()
            names[wire] = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    block = ["content_block_start", "ping", "content_block_delta", "content_block_stop"]
    assert names["anthropic"] == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert names["responses"] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
