"""The price table: every model has a rate for every prompt, and no price is guessed."""

from __future__ import annotations

import pytest

from skillgate.document import decode
from skillgate.errors import ConfigError, ExitCode, PrerequisiteError
from skillgate.prices import PriceTable, Rate, shipped_prices

RATE = "input: 1, output: 5, cache-read: 0.1, cache-write: 1.25, cache-write-1h: 2"


def test_every_shipped_model_has_a_rate_for_every_prompt_and_caches_as_documented() -> None:
    table = shipped_prices()
    assert (table.as_of, table.source) == ("2026-11", "list prices of Anthropic")
    for rate in (rate for rates in table.models.values() for rate in rates):
        assert rate.cache_read is not None
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


def test_what_a_user_configures_comes_first_and_says_so() -> None:
    own = Rate(input=3, output=4)
    prices = shipped_prices().overridden({"claude-opus-5-5": (own,), "local": (own,)})
    found = [
        prices.price(name) for name in ("claude-opus-5-5-20261101", "local", "claude-haiku-4-5", "other")
    ]
    sources = [(price.model, price.source, price.as_of) if price else None for price in found]
    assert sources == [
        ("claude-opus-5-5", "as configured", "skillgate.yml"),
        ("local", "as configured", "skillgate.yml"),
        ("claude-haiku-4-5", "list prices of Anthropic", "2026-11"),
        None,
    ]


def test_what_a_cache_costs_is_what_input_costs_unless_it_is_given() -> None:
    picos = Rate(input=0.1, output=2, cache_read=0.01).picos
    assert picos == (100_000, 2_000_000, 10_000, 100_000, 100_000)


def test_a_model_without_a_price_is_not_run() -> None:
    prices = shipped_prices().overridden({"local": (Rate(input=0, output=0),)})
    assert prices.require("local").model == "local"
    with pytest.raises(PrerequisiteError) as missing:
        prices.require("gpt-next")
    assert missing.value.exit_code is ExitCode.PREREQUISITE
    assert "`gpt-next`" in missing.value.message
    assert missing.value.hint.startswith("Give it in skillgate.yml under `prices`, or use one of claude-")
    assert missing.value.hint.endswith("local.")
