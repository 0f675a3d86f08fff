"""The real anthropic SDK through the meter: it reads the answers, and stops at the first refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from skillgate.bench.meter.limits import Limits
from skillgate.values import Usage
from tests.fakes.metering import HAIKU, SOME, Metered, metered

SAID: Any = {"model": HAIKU, "max_tokens": 1000, "messages": [{"role": "user", "content": "Say hello."}]}
TOOL = "{used: {input: 100, output: 40}, stop: tool, tool: {name: bash, input: {command: ls}}}"


@contextmanager
def sdk(run: Metered) -> Iterator[Any]:
    import anthropic

    url = f"http://127.0.0.1:{run.port}"
    with anthropic.Anthropic(api_key=run.account.token, base_url=url, timeout=20) as client:
        yield client


def test_it_reads_a_tool_use_whole_and_streamed() -> None:
    with metered(f"turns: [{TOOL}]") as run, sdk(run) as client:
        whole = client.messages.create(**SAID)
        with client.messages.stream(**SAID) as stream:
            streamed = stream.get_final_message()
        for message in (whole, streamed):
            assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 40)
            assert message.content[-1].input == {"command": "ls"}
        assert run.account.usage == Usage(requests=2, turns=2, input=200, output=80, usd_micros=600)


def test_it_counts_for_nothing() -> None:
    with metered("counted: 12") as run, sdk(run) as client:
        counted = client.messages.count_tokens(model=HAIKU, messages=SAID["messages"])
        assert (counted.input_tokens, run.booked()) == (12, (0, 0))


def test_it_asks_once_when_the_money_is_gone_and_again_when_the_upstream_fails() -> None:
    import anthropic

    with metered(limits=Limits(1)) as run, sdk(run) as client:
        with pytest.raises(anthropic.APIStatusError) as refused:
            client.messages.create(**SAID)
        assert (refused.value.status_code, len(run.account.notes)) == (402, 1)
        assert run.api.calls == []
    with metered("turns: [{status: 529, headers: {retry-after-ms: '1'}}, {}]") as run, sdk(run) as client:
        assert client.messages.create(**SAID).stop_reason == "end_turn"
        assert len(run.api.calls) == 2
    only = SOME._replace(models=frozenset({"other"}))
    refusal = pytest.raises(anthropic.APIStatusError, match="not the one of this run")
    with metered(limits=only) as run, sdk(run) as client, refusal:
        client.messages.create(**SAID)
