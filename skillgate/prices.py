"""What models cost: data/prices.yml -> a price by the id of a model.

A model that the table does not have costs nobody knows what: nothing is guessed from a similar name.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from skillgate.document import decode
from skillgate.values import InputPrice, Struct

TABLE = Path(__file__).with_name("data") / "prices.yml"
_SNAPSHOT = re.compile(r"-\d{8}$")
Usd = Annotated[float, msgspec.Meta(ge=0)]


class Rate(Struct, kw_only=True, rename="kebab"):
    """US dollars per million tokens, for requests whose prompt has at most `up_to_tokens` (None: any)."""

    input: Usd
    output: Usd
    cache_read: Usd
    cache_write: Usd
    cache_write_1h: Usd
    up_to_tokens: int | None = None


class Price(Struct, kw_only=True):
    """The rates of one model, those for short prompts first; where and when they were read."""

    model: str
    rates: tuple[Rate, ...]
    source: str
    as_of: str

    def rate(self, prompt_tokens: int) -> Rate:
        """Return what every token of a request with such a prompt costs."""
        fits = (
            rate for rate in self.rates if rate.up_to_tokens is None or prompt_tokens <= rate.up_to_tokens
        )
        return next(fits)


class PriceTable(Struct, kw_only=True, rename="kebab"):
    """All of prices.yml; the last rate of a model has no limit."""

    as_of: str
    source: str
    models: dict[str, Annotated[tuple[Rate, ...], msgspec.Meta(min_length=1)]]

    def __post_init__(self) -> None:
        for model, rates in self.models.items():
            limits = [math.inf if rate.up_to_tokens is None else rate.up_to_tokens for rate in rates]
            if limits != sorted(set(limits)) or limits[-1] != math.inf:
                raise ValueError(f"`models.{model}` has no rate for every prompt, shortest first")

    def price(self, model: str) -> Price | None:
        """Return the price of a model or of a dated snapshot of it, None when nobody knows it."""
        known = model if model in self.models else _SNAPSHOT.sub("", model)
        if known not in self.models:
            return None
        return Price(model=known, rates=self.models[known], source=self.source, as_of=self.as_of)


def input_price(price: Price) -> InputPrice:
    """Return what reading costs in the tier of short prompts, with the tier and the source in words."""
    rate = price.rates[0]
    limit = f", prompts of at most {rate.up_to_tokens:,} tokens" if rate.up_to_tokens else ""
    return InputPrice(usd_per_mtok=rate.input, source=f"{price.model}{limit}, {price.source}, {price.as_of}")


@cache
def shipped_prices() -> PriceTable:
    """Read the table that travels with the program."""
    return decode(TABLE.read_text(encoding="utf-8"), PriceTable, str(TABLE))
