"""What the meter costs: added latency, requests a second, memory over many requests.

The same requests go to a scripted model API directly and through the meter, each in a process of
its own, all on 127.0.0.1. Run: python benchmarks/meter.py [--requests N]
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from skillgate.bench.meter.account import Account
from skillgate.bench.meter.limits import Limits
from skillgate.bench.meter.proxy import Meter, Provider, listen
from skillgate.prices import shipped_prices
from tests.fakes.model_api import ModelApi

BODY_BYTES = 88 * 1024
CLIENTS = 8
TARGET_MS, TARGET_PER_S, TARGET_GROWTH = 4.0, 300.0, 0.05
MODEL = "claude-haiku-4-5"
RICH = 1_000_000_000_000  # micro-dollars: the money is not what is measured


def body(streams: bool) -> bytes:
    """Return a request of 88 KB, as a coding agent sends: a system prompt, tools and a long history."""
    tool = {"name": "bash", "description": "Run a command. " * 20, "input_schema": {"type": "object"}}
    said: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "stream": streams, "tools": [tool] * 5}
    said["messages"] = []
    while len(json.dumps(said)) < BODY_BYTES:
        text = [{"type": "text", "text": "def double(number):\n    return 2 * number\n" * 12}]
        said["messages"] += [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    return json.dumps(said).encode()


def serve_api(pipe: Connection) -> None:
    with ModelApi() as api:
        api.seen = _Forgetful()
        pipe.send(api.port)
        with suppress(EOFError):
            pipe.recv()


class _Forgetful(list[Any]):
    def append(self, _: Any) -> None: ...


def serve_meter(pipe: Connection, api_port: int) -> None:
    """Serve until told otherwise; say how much memory is in use when asked."""
    with closing(
        Meter(Provider("anthropic", f"http://127.0.0.1:{api_port}", "key"), shipped_prices().price)
    ) as meter:
        listener, account = listen(), Account(Limits(RICH))
        door = meter.serve(listener, account)
        pipe.send((listener.getsockname()[1], account.token))
        with suppress(EOFError):
            while pipe.recv():
                pipe.send((memory_mb(), door.account.usage.turns))


def memory_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Client:
    """One connection that asks again and again."""

    def __init__(self, port: int, token: str, streams: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Content-Type": "application/json", "X-Api-Key": token}
        self._body = body(streams)

    def ask(self) -> float:
        """Return how long an answer took, in milliseconds."""
        started = time.perf_counter()
        self._connection.request("POST", "/v1/messages", self._body, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the answer was {answer.status}: {said[:300]!r}")
        return (time.perf_counter() - started) * 1000


def latency(port: int, meter: tuple[int, str], streams: bool, rounds: int) -> tuple[float, float]:
    """Return the medians in ms, direct and metered, asked in turns so that both see the same machine."""
    direct, metered = Client(port, "key", streams), Client(*meter, streams)
    times = [(direct.ask(), metered.ask()) for _ in range(rounds)][rounds // 10 :]
    return statistics.median(one for one, _ in times), statistics.median(one for _, one in times)


def load(port: int, token: str, streams: bool, requests: int, clients: int = CLIENTS) -> float:
    """Return answers a second to clients that ask without a pause."""
    workers = [Client(port, token, streams) for _ in range(clients)]

    def work(client: Client) -> None:
        for _ in range(requests // clients):
            client.ask()

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(work, client) for client in workers]:
            done.result()
    return requests / (time.perf_counter() - started)


def start(serve: Callable[..., None], *args: Any) -> tuple[Connection, Any]:
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, *args), daemon=True).start()
    return ours, ours.recv()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="how many for the memory")
    requests = parser.parse_args().requests
    api_pipe, port = start(serve_api)
    pipe, meter = start(serve_meter, port)
    added = []
    for streams in (False, True):
        direct, metered = latency(port, meter, streams, 300)
        added.append(metered - direct)
        kind = "stream" if streams else "plain"
        print(f"{kind}: p50 {direct:.2f} ms direct, {metered:.2f} ms metered, {metered - direct:+.2f} ms")
    straight = load(port, "key", False, 800)
    rate = load(*meter, False, 1_600)
    print(f"{CLIENTS} clients, {BODY_BYTES // 1024} KB: {rate:.0f} requests/s metered, {straight:.0f} direct")
    pipe.send(True)
    before, done = pipe.recv()
    sizes = [before]
    for _ in range(4):
        load(*meter, True, requests // 4)
        pipe.send(True)
        size, done = pipe.recv()
        sizes.append(size)
    shown = ", ".join(f"{size:.1f}" for size in sizes)
    print(f"memory over {requests} streams: {shown} MB ({done} calls in all)")
    api_pipe.close()
    good = max(added) <= TARGET_MS and rate >= TARGET_PER_S and sizes[-1] <= sizes[1] * (1 + TARGET_GROWTH)
    print("targets met" if good else "targets missed")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
