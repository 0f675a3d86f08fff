"""The proxy between real sockets: the cap holds, the key stays out, what is forwarded is what was sent."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.admission import MAX_BODY_BYTES
from skillgate.bench.meter.limits import Limits
from skillgate.bench.meter.proxy import Meter, Provider, listen
from skillgate.errors import ConfigError
from skillgate.prices import CacheUse
from skillgate.values import Usage
from tests.fakes.metering import KEY, PRICES, SAMPLES, SOME, Answer, Metered, free_port, metered
from tests.fakes.model_api import ModelApi
from tests.fakes.upstream import rest_of, until

WIRES = tuple(SAMPLES)
OPUS = "claude-opus-5-5"  # 4 / 20
LONG = [{"role": "user", "content": "word " * 2_000}]
WORST = "turns: [{used: {worst: true}}]"


def test_32_clients_with_worst_answers_spend_two_dollars_and_not_more() -> None:
    """Thirty-two clients ask for 8,000 tokens of output each, again and again, until they are refused."""
    with metered(WORST, limits=Limits(2_000_000)) as run:
        with ThreadPoolExecutor(32) as pool:
            statuses = list(pool.map(lambda _: until_refused(run), range(32)))
        assert all(found[-1] == 402 and set(found[:-1]) <= {200} for found in statuses)
        spent, held = run.booked()
        assert held == 0
        assert 1_900_000 < spent <= 2_000_000
        assert run.account.failure is Failure.AGENT_BUDGET
        assert run.account.usage.usd_micros == spent
        sums = [worst_cost(call.body) for call in run.api.calls]
        assert sum(sums) == spent


def until_refused(run: Metered) -> list[int]:
    statuses = [200]
    while statuses[-1] == 200:
        statuses.append(run.ask(model=OPUS, max_tokens=8000, messages=LONG).status)
    return statuses[1:]


def worst_cost(body: bytes) -> int:
    price = PRICES.price(OPUS)
    assert price is not None
    return price.hold(len(body), json.loads(body)["max_tokens"], CacheUse.NONE)


def test_looking_only_at_what_is_spent_would_overshoot() -> None:
    """The same clients, checked before each call against what is spent: the reason for reservations."""
    spent, lock = 0, threading.Lock()
    start = threading.Barrier(32)

    def work() -> None:
        nonlocal spent
        cost = worst_cost(json.dumps({"messages": LONG, "max_tokens": 8000}).encode())
        while True:
            with lock:
                if spent >= 2_000_000:
                    return
            start.wait(10)  # all calls are on their way
            with lock:
                spent += cost
            start.wait(10)

    with ThreadPoolExecutor(32) as pool:
        for done in [pool.submit(work) for _ in range(32)]:
            done.result()
    assert spent > 4_000_000


def test_a_client_waits_for_what_open_calls_may_give_back() -> None:
    """The first call holds all there is; the second is served when the first has cost less."""
    turns = "turns: [{used: {input: 10, output: 1}, hang-after: 1}, {used: {input: 10, output: 1}}]"
    with metered(turns, limits=Limits(6_000)) as run, ThreadPoolExecutor(2) as pool:
        first = pool.submit(run.ask, True)
        assert run.api.hangs.wait(10)
        second = pool.submit(run.ask)
        assert run.account.has_open_calls
        run.door.close()
        assert [was_cut(first), was_cut(second)] == [True, True]
        until(lambda: not run.account.has_open_calls)
        assert run.account.failure is None


def was_cut(asking: Future[Answer]) -> bool:
    """Say whether a client got no whole answer, or none at all."""
    try:
        return not asking.result(10).whole
    except (ConnectionError, http.client.HTTPException):
        return True


def test_a_second_call_is_made_when_the_first_is_over() -> None:
    with metered("turns: [{used: {input: 10, output: 1}}]", limits=Limits(6_200)) as run:
        with ThreadPoolExecutor(8) as pool:
            statuses = [done.status for done in pool.map(lambda _: run.ask(), range(8))]
        assert (statuses, run.booked()) == ([200] * 8, (8 * 15, 0))


@pytest.mark.parametrize("wire", WIRES)
def test_a_refusal_has_the_shape_that_stops_this_client(wire: str) -> None:
    with metered(wire=wire, limits=Limits(1)) as run:
        answers = [run.ask(), run.ask(streams=True)]
        assert run.api.calls == []
        assert run.account.failure is Failure.AGENT_BUDGET
        for answer in answers:
            error = answer.json["error"]
            assert error["message"].startswith("skillgate: the rest of this run's $0.000001 or of its tokens")
            if wire == "anthropic":
                assert (answer.status, error["type"]) == (402, "billing_error")
                assert answer.headers["x-should-retry"] == "false"
            elif wire == "gemini":
                assert (answer.status, error["status"]) == (429, "RESOURCE_EXHAUSTED")
                assert error["message"].endswith("(limit: 0)")
            else:
                status = 402 if wire == "chat" else 429
                assert (answer.status, error["type"]) == (status, "insufficient_quota")
                assert error["code"] == "insufficient_quota"
                assert answer.headers["x-should-retry"] == "false"
                assert answer.headers["retry-after-ms"] == "1"


@pytest.mark.parametrize("wire", WIRES)
def test_another_token_is_refused(wire: str) -> None:
    with metered(wire=wire) as run:
        for token in ("", "sgm-other", run.account.token + "x", KEY):
            assert run.ask(token=token).status == 401
        assert (run.api.seen, run.account.usage) == ([], Usage())


def test_the_token_may_come_as_the_clients_send_it() -> None:
    with metered() as run:
        token = run.account.token
        assert run.ask(token="", streams=False).status == 401
        body = json.dumps(run.sample.body).encode()
        plain = {"Authorization": f"Bearer {token}"}
        assert run.send("POST", run.sample.path, body, plain, token="").status == 200
        assert token not in str(run.api.seen)
    with metered(wire="gemini") as run:
        body = json.dumps(run.sample.body).encode()
        path = f"{run.sample.path}?key={run.account.token}"
        assert run.send("POST", path, body, token="").status == 200
        (seen,) = run.api.seen
        assert seen.path == run.sample.path
        assert run.account.token not in str(seen)


def test_what_is_forwarded_is_what_was_sent() -> None:
    odd = b'{ "model":"claude-haiku-4-5",\t"max_tokens": 1000 , "messages":['
    odd += b'{"role":"user","content":"\\u0041\xc3\xbc"}],"temperature":1.0}\n'
    headers = {
        "anthropic-version": "2023-06-01",
        "Anthropic-Beta": "a,b",
        "User-Agent": "test/1",
        "X-Stainless-Lang": "js",
        "Accept-Encoding": "gzip, br",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "Cookie": "a=b",
        "Authorization": "Bearer another",
        "X-Goog-Api-Key": "another",
        "Proxy-Authorization": "Basic x",
        "TE": "trailers",
    }
    with metered() as run:
        assert run.send("POST", "/v1/messages?beta=true", odd, headers).status == 200
        (seen,) = run.api.seen
        assert (seen.path, seen.body) == ("/v1/messages?beta=true", odd)
        assert seen.headers == {
            "Host": f"127.0.0.1:{run.api.port}",
            "Content-Type": "application/json",
            "anthropic-version": "2023-06-01",
            "Anthropic-Beta": "a,b",
            "User-Agent": "test/1",
            "X-Stainless-Lang": "js",
            "Accept-Encoding": "identity",
            "x-api-key": KEY,
            "Content-Length": str(len(odd)),
        }


def test_only_the_clamped_member_is_changed() -> None:
    with metered(limits=Limits(4_000)) as run:
        body = b'{"model": "claude-haiku-4-5", "messages": [{"role": "user", "content": "x"}],'
        body += b'  "max_tokens":\n8000}'
        assert run.send("POST", "/v1/messages", body).status == 200
        allowed = (4_000 - 1024 - len(body)) // 5
        assert run.api.calls[0].body == body.replace(b"8000", str(allowed).encode())


def test_the_key_is_in_no_answer_log_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    """The upstream says the key in its headers, its text, its errors, whole and in pieces."""
    caplog.set_level(logging.DEBUG)
    echo = f"headers: {{x-echo: 'key {KEY}', set-cookie: 'a=1', x-fine: '1'}}"
    said = f"text: 'your key is {KEY}', message: '{KEY}', {echo}"
    more = ("", "", ", bytes-per-piece: 3", ", status: 500", ", status: 401")
    turns = f"turns: [{', '.join(f'{{{said}{one}}}' for one in more)}]"
    for wire in WIRES:
        with metered(turns, wire) as run:
            answers = [run.ask(streams) for streams in (False, True, True, False, False)]
            assert [answer.status for answer in answers][:4] == [200, 200, 200, 500]
            assert answers[2].whole
            heard = (
                str(answers)
                + caplog.text
                + str(run.account.notes)
                + repr(run.account)
                + repr(run.door.__dict__)
            )
            assert KEY not in heard
            assert run.account.token not in heard
            assert all(
                "x-fine" in answer.headers and "set-cookie" not in answer.headers for answer in answers[:4]
            )
            assert f"your key is {'*' * len(KEY)}" in answers[0].body.decode()
    assert KEY not in repr(Provider("anthropic", "http://127.0.0.1:9", KEY))


def raw(run: Metered, text: bytes) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", run.port), 10)) as client:
        client.sendall(text)
        return rest_of(client)


BODY = json.dumps(SAMPLES["anthropic"].body).encode()
SMUGGLED = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def head(run: Metered, *lines: str, target: str = "/v1/messages") -> bytes:
    common = ["Host: x", f"X-Api-Key: {run.account.token}", "Content-Type: application/json"]
    return "\r\n".join([f"POST {target} HTTP/1.1", *common, *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "lines",
    [
        (f"Content-Length: {len(BODY)}", "Content-Length: 5"),
        (f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", f"Content-Length: {len(BODY)}"),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: xchunked", f"Content-Length: {len(BODY)}"),
        ("Transfer-Encoding : chunked",),
        (f"Content-Length: +{len(BODY)}",),
        (f"Content-Length: {len(BODY)}\n", "X: y"),
        ("X-A: b\r\n folded", f"Content-Length: {len(BODY)}"),
        ("X\0: y", f"Content-Length: {len(BODY)}"),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_forwards_no_second_request(lines: tuple[str, ...]) -> None:
    with metered() as run:
        raw(run, head(run, *lines) + BODY + SMUGGLED)
        assert {seen.path for seen in run.api.seen} <= {"/v1/messages"}
        assert all(seen.body == BODY for seen in run.api.seen)
        assert len(run.api.seen) <= 1


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:9/v1/messages", "//127.0.0.1:9/v1/messages", "/v1/messages/../files",
        "/v1/%2e%2e/v1/messages", "/v1/messages#x", "/v1/messages?beta=true&x=1", "/v1/messages?beta=../..",
        "/v1/messages?beta=true&beta=true", "/v1/messages;a=b", "/V1/messages", "*", "/v1/messages?key=x",
    ],
)  # fmt: skip
def test_a_target_that_is_not_on_the_list_is_not_forwarded(target: str) -> None:
    with metered() as run:
        answer = raw(
            run, head(run, f"Content-Length: {len(BODY)}", "Connection: close", target=target) + BODY
        )
        assert answer.split(b" ")[1] in (b"400", b"404")
        assert run.api.seen == []


def test_what_is_no_plain_json_is_not_forwarded() -> None:
    with metered() as run:
        body = BODY
        path = run.sample.path
        assert run.send("POST", path, gzip.compress(body), {"Content-Encoding": "gzip"}).status == 400
        assert (
            run.send("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"}).status == 400
        )
        assert (
            run.send("POST", path, body, {"Content-Type": "application/json; charset=utf-16"}).status == 400
        )
        for wrong in (b"", b"[]", b'{"a":' * 100_000, body[:-1] + b', "max_tokens": 9}'):
            assert run.send("POST", path, wrong).json["error"]["type"] == "invalid_request_error"
        too_large = run.send("POST", path, b"{}", {"Content-Length": str(MAX_BODY_BYTES + 1)})
        assert (too_large.status, too_large.json["error"]["type"]) == (413, "request_too_large")
        assert (run.api.seen, run.account.usage) == ([], Usage())


def test_an_endless_body_is_not_kept() -> None:
    with metered() as run, closing(socket.create_connection(("127.0.0.1", run.port), 10)) as client:
        client.sendall(head(run, "Transfer-Encoding: chunked"))
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        for _ in range(MAX_BODY_BYTES // 0x100000 + 1):
            client.sendall(piece)
        assert client.recv(100).startswith(b"HTTP/1.1 413")
        assert run.api.seen == []


def test_a_model_that_is_not_priced_or_not_of_this_run_is_refused() -> None:
    with metered(limits=SOME._replace(models=frozenset({"claude-haiku-4-5"}))) as run:
        answers = [run.ask(model=name) for name in ("claude-haiku-4-5", OPUS)]
        assert [answer.status for answer in answers] == [200, 402]
        assert "not the one of this run" in answers[1].json["error"]["message"]
    with metered() as run:
        answer = run.ask(model="claude-next")
        assert (answer.status, run.api.seen) == (402, [])
        assert "`claude-next`; give it in skillgate.yml under `prices`" in answer.json["error"]["message"]
        assert run.account.notes == (answer.json["error"]["message"].removeprefix("skillgate: "),)


def test_a_prompt_is_counted_where_its_bytes_are_too_many() -> None:
    script = "counted: 1000\nturns: [{used: {input: 1000, output: 10}}]"
    prompt = [{"role": "user", "content": "x" * 10_000}]
    with metered(script, limits=Limits(8_000)) as run:
        assert run.ask(messages=prompt).status == 200
        count, call = run.api.seen
        assert (count.path, call.path) == ("/v1/messages/count_tokens", "/v1/messages")
        assert count.json == {"model": "claude-haiku-4-5", "messages": prompt}
        assert call.json["max_tokens"] == 1000
        assert run.account.usage.requests == 2
        assert run.ask(messages=prompt, max_tokens=500).status == 200
        assert len(run.api.seen) == 3  # the same prompt is not counted again
    with metered("turns: [{}]", limits=Limits(8_000)) as run:
        assert run.ask(messages=prompt).status == 402  # where there is no count the bytes hold


def test_what_the_client_counts_costs_nothing_and_is_remembered() -> None:
    prompt = [{"role": "user", "content": "x" * 10_000}]
    with metered("counted: 1000\nturns: [{}]", limits=Limits(8_000)) as run:
        body = json.dumps({"model": "claude-haiku-4-5", "messages": prompt}).encode()
        answer = run.send("POST", "/v1/messages/count_tokens", body)
        assert (answer.status, answer.json, run.booked()) == (200, {"input_tokens": 1000}, (0, 0))
        assert run.ask(messages=prompt).status == 200
        assert [seen.path for seen in run.api.seen] == ["/v1/messages/count_tokens", "/v1/messages"]
    with metered(wire="chat") as run:
        answer = run.send("GET", "/v1/models?client_version=0.171.0")
        assert (answer.status, run.booked(), run.account.usage) == (200, (0, 0), Usage(requests=1))


def test_the_time_of_a_run_ends_its_open_call() -> None:
    with metered("turns: [{hang-after: 1}]", limits=SOME._replace(wall_s=0.5)) as run:
        answer = run.ask(True)
        assert (answer.status, answer.whole) == (200, False)
        assert run.api.left.wait(10)
        assert run.account.failure is Failure.AGENT_CLOCK
        assert run.booked() == (0, len(json.dumps(run.sample.at(True)[1])) + 1024 + 5000)
        assert run.ask().status == 402
    with metered("turns: [{hang-after: 1}]", limits=SOME._replace(wall_s=0.5)) as run:
        answer = run.ask()
        assert (answer.status, answer.json["error"]["type"]) == (402, "billing_error")


def test_a_request_limit_ends_a_run() -> None:
    with metered(limits=SOME._replace(requests=2)) as run:
        assert [run.ask().status for _ in range(4)] == [200, 200, 402, 402]
        assert (run.account.failure, len(run.api.seen)) == (Failure.AGENT_TURNS, 2)


def test_an_upstream_that_is_not_there_costs_nothing() -> None:
    with metered(base_url=f"http://127.0.0.1:{free_port()}") as run:
        answer = run.ask()
        assert (answer.status, answer.json["error"]["type"]) == (502, "api_error")
        assert (run.account.failure, run.booked()) == (Failure.API_UNREACHABLE, (0, 0))


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with metered() as run:
        assert run.ask().status == 200


def test_a_closed_door_books_open_calls_and_leaves_no_one_waiting() -> None:
    with metered("turns: [{hang-after: 1}]") as run, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(run.ask, True)
        assert run.api.hangs.wait(10)
        run.door.close()
        run.door.close()
        assert run.booked() == (0, len(json.dumps(run.sample.at(True)[1])) + 1024 + 5000)
        assert run.api.left.wait(10)
        assert was_cut(asking)
        with pytest.raises(ConnectionRefusedError):
            run.ask()


def test_every_run_has_a_door_of_its_own() -> None:
    with ModelApi() as api, closing(Meter(Provider("anthropic", api.url, KEY), PRICES.price)) as meter:
        runs: list[Metered] = []
        for _ in range(2):
            listener = listen()
            port = listener.getsockname()[1]
            runs.append(Metered(api, meter.serve(listener, Account(SOME)), port, SAMPLES["anthropic"]))
        first, second = runs
        assert first.ask(token=second.account.token).status == 401
        assert [first.ask().status, first.ask().status, second.ask().status] == [200] * 3
        assert [run.account.usage.requests for run in runs] == [2, 1]
        first.door.close()
        assert second.ask().status == 200
        meter.close()


def test_32_clients_are_served_at_once() -> None:
    gate = threading.Barrier(32, timeout=20)

    def work(run: Metered) -> Answer:
        gate.wait()
        return run.ask(True)

    with metered() as run, ThreadPoolExecutor(32) as pool:
        answers = [done.result() for done in [pool.submit(work, run) for _ in range(32)]]
        assert {(answer.status, answer.whole) for answer in answers} == {(200, True)}
        assert run.account.usage.turns == 32


@pytest.mark.parametrize(
    ("kind", "base_url"),
    [
        ("other", "http://x"),
        ("openai", "ftp://x"),
        ("openai", "http://"),
        ("openai", "http://u:p@x"),
        ("openai", "x"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_an_error_of_the_configuration(kind: str, base_url: str) -> None:
    with pytest.raises(ConfigError):
        Meter(Provider(kind, base_url, KEY), PRICES.price)


def test_a_base_url_may_have_the_version_in_it() -> None:
    urls: list[Any] = [
        ("http://x", "/v1/responses", "http://x/v1/responses"),
        ("http://x/v1/", "/v1/responses", "http://x/v1/responses"),
        ("http://x/api/v1", "/v1/chat/completions", "http://x/api/v1/chat/completions"),
        ("http://x/v1beta", "/v1beta/models/m:generateContent", "http://x/v1beta/models/m:generateContent"),
        ("http://x/proxy", "/v1/messages", "http://x/proxy/v1/messages"),
    ]
    assert [Provider("openai", base).url(path, "") for base, path, _ in urls] == [url for _, _, url in urls]


def test_without_a_key_none_is_sent() -> None:
    with metered(key="") as run:
        assert run.ask().status == 200
        assert "x-api-key" not in run.api.seen[0].headers
