"""The price table: every model has a rate for every prompt, and no price is guessed."""

from __future__ import annotations

import pytest

from skillgate.document import decode
from skillgate.errors import ConfigError
from skillgate.prices import PriceTable, shipped_prices

RATE = "input: 1, output: 5, cache-read: 0.1, cache-write: 1.25, cache-write-1h: 2"


def test_every_shipped_model_has_a_rate_for_every_prompt_and_caches_as_documented() -> None:
    table = shipped_prices()
    assert (table.as_of, table.source) == ("2026-11", "list prices of Anthropic")
    for rate in (rate for rates in table.models.values() for rate in rates):
        assert rate.cache_write == pytest.approx(1.25 * rate.input)
        assert rate.cache_write_1h == pytest.approx(2 * rate.input)
        assert rate.output == pytest.approx(5 * rate.input)
        assert 0 < rate.cache_read < rate.input


def test_a_price_depends_on_the_length_of_the_prompt() -> None:
    price = shipped_prices().price("claude-haiku-5-5")
    assert price is not None
    assert [price.rate(n).output for n in (0, 100_000, 100_001, 10**9)] == [0.5, 0.5, 2.5, 2.5]


def test_a_dated_snapshot_costs_what_its_model_does_and_nothing_else_is_guessed() -> None:
    table = shipped_prices()
    snapshot = table.price("claude-haiku-4-5-20251001")
    assert snapshot is not None
    assert (snapshot.model, snapshot.rates) == ("claude-haiku-4-5", table.models["claude-haiku-4-5"])
    assert [table.price(name) for name in ("claude-haiku", "claude-haiku-4-5-x", "haiku-4-5", "")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    "rates",
    [
        "[]",
        f"[{{{RATE}, up-to-tokens: 5}}]",
        f"[{{{RATE}}}, {{{RATE}}}]",
        f"[{{{RATE}, up-to-tokens: 9}}, {{{RATE}, up-to-tokens: 5}}, {{{RATE}}}]",
        f"[{{{RATE.replace('1,', '-1,', 1)}}}]",
        "[{input: 1}]",
    ],
)
def test_a_table_with_a_hole_is_refused(rates: str) -> None:
    with pytest.raises(ConfigError, match=r"^prices\.yml:"):
        decode(f"as-of: x\nsource: y\nmodels:\n  m: {rates}\n", PriceTable, "prices.yml")
