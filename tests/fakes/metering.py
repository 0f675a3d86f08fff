"""A meter between a scripted model API and a client of a test, and requests of every wire."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skillgate.bench.meter.account import Account
from skillgate.bench.meter.limits import Limits
from skillgate.bench.meter.proxy import CLOCKS, Clocks, Meter, MeterDoor, Provider, listen
from skillgate.prices import Rate, shipped_prices
from tests.fakes.model_api import ModelApi, Script

KEY = "sk-canary-4f1d7c0e9b"
HAIKU = "claude-haiku-4-5"  # 1 / 5 / .1 / 1.25 / 2
PRICES = shipped_prices().overridden(
    {name: (Rate(input=1, output=5, cache_read=0.1),) for name in ("gpt-test", "gemini-test")}
)
TIMEOUT_S = 20
SOME = Limits(usd_micros=1_000_000)


class Answer(NamedTuple):
    """What a client got; `whole` is False when it was cut."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Sample(NamedTuple):
    """A request of a wire: where, what, and how the token is sent."""

    kind: str
    path: str
    body: dict[str, Any]
    token: Callable[[str], dict[str, str]]
    stream_path: str = ""

    def at(self, streams: bool) -> tuple[str, dict[str, Any]]:
        if self.stream_path:
            return (self.stream_path if streams else self.path), self.body
        return self.path, self.body | ({"stream": True} if streams else {})


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


_SAID = "Say hello."
SAMPLES = {
    "anthropic": Sample(
        "anthropic",
        "/v1/messages",
        {"model": HAIKU, "max_tokens": 1000, "messages": [{"role": "user", "content": _SAID}]},
        lambda token: {"X-Api-Key": token},
    ),
    "responses": Sample(
        "openai", "/v1/responses", {"model": "gpt-test", "input": _SAID, "max_output_tokens": 1000}, _bearer
    ),
    "chat": Sample(
        "openai",
        "/v1/chat/completions",
        {
            "model": "gpt-test",
            "max_completion_tokens": 1000,
            "messages": [{"role": "user", "content": _SAID}],
        },
        _bearer,
    ),
    "gemini": Sample(
        "gemini",
        "/v1beta/models/gemini-test:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": _SAID}]}],
            "generationConfig": {"maxOutputTokens": 1000},
        },
        lambda token: {"x-goog-api-key": token},
        "/v1beta/models/gemini-test:streamGenerateContent?alt=sse",
    ),
}


@dataclass
class Metered:
    """A running meter; `account` is of the run whose door it is."""

    api: ModelApi
    door: MeterDoor
    port: int
    sample: Sample
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        self.account = self.door.account

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def ask(self, streams: bool = False, token: str | None = None, **members: Any) -> Answer:
        """Send the sample's request with some members changed; None leaves one out."""
        path, body = self.sample.at(streams)
        body = {name: value for name, value in {**body, **members}.items() if value is not None}
        return self.send("POST", path, json.dumps(body).encode(), token=token)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        sent = {
            **({"Content-Type": "application/json"} if body is not None else {}),
            **self.sample.token(self.account.token if token is None else token),
            **(headers or {}),
        }
        with closing(self.connect()) as connection:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            try:
                got, whole = answer.read(), True
            except http.client.IncompleteRead as cut:
                got, whole = cut.partial, False
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, got, whole)

    def booked(self) -> tuple[int, int]:
        """Return what is settled and what is held, in micro-dollars."""
        return self.account.ledger.spent_usd_micros, self.account.ledger.held_usd_micros


@contextmanager
def metered(
    script: str | Script = Script(),  # noqa: B008 - frozen
    wire: str = "anthropic",
    limits: Limits = SOME,
    clocks: Clocks = CLOCKS,
    key: str = KEY,
    account: Account | None = None,
    base_url: str | None = None,
) -> Iterator[Metered]:
    """Serve one run."""
    sample = SAMPLES[wire]
    with ModelApi(script) as api:
        provider = Provider(sample.kind, base_url or api.url, key)
        with closing(Meter(provider, PRICES.price, clocks)) as meter:
            listener = listen()
            port = listener.getsockname()[1]
            yield Metered(api, meter.serve(listener, account or Account(limits)), port, sample)


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
