"""What models cost: data/prices.yml -> a price by the id of a model.

A model that the table does not have costs nobody knows what: nothing is guessed from a similar name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from skillgate.document import decode
from skillgate.errors import PrerequisiteError
from skillgate.values import InputPrice, Struct

TABLE = Path(__file__).with_name("data") / "prices.yml"
CONFIGURED = "skillgate.yml"
_SNAPSHOT = re.compile(r"-\d{8}$")
_PICOS = 1_000_000  # of a dollar in a micro-dollar; a dollar per million tokens is as many for one token
Usd = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Tokens(NamedTuple):
    """The tokens of one call by their price; no token is in two of them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0

    @property
    def prompt(self) -> int:
        """Return what was read, from a cache or not: the length that chooses the rate."""
        return sum(self) - self.output


class CacheUse(IntEnum):
    """Which writes to a cache a request may cause."""

    NONE = 0
    SHORT = 1
    LONG = 2


class Rate(Struct, kw_only=True, rename="kebab"):
    """US dollars per million tokens, for requests whose prompt has at most `up_to_tokens` (None: any).

    What a cache costs is, where it is not given, what input costs.
    """

    input: Usd
    output: Usd
    cache_read: Usd | None = None
    cache_write: Usd | None = None
    cache_write_1h: Usd | None = None
    up_to_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def picos(self) -> Tokens:
        """Return what one token of each kind costs in millionths of a micro-dollar."""
        given = (self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h)
        return Tokens(*(round((self.input if usd is None else usd) * _PICOS) for usd in given))

    def dearest_picos(self, cache_use: CacheUse) -> int:
        """Return what a token of the prompt may cost at most."""
        picos = self.picos
        writes = (picos.cache_write, picos.cache_write_1h)[:cache_use]
        return max(picos.input, picos.cache_read, *writes)


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

    def cost(self, tokens: Tokens) -> int:
        """Return micro-dollars, rounded up: what a call has cost."""
        picos = self.rate(tokens.prompt).picos
        return _micros(sum(n * each for n, each in zip(tokens, picos, strict=True)))

    def hold(self, prompt_bound: int, output: int, cache_use: CacheUse) -> int:
        """Return micro-dollars, rounded up: what a call can cost whose prompt is not longer than a bound."""
        return max(
            _micros(prompt_bound * rate.dearest_picos(cache_use) + output * rate.picos.output)
            for rate in self._reachable(prompt_bound)
        )

    def affordable_output(self, usd_micros: int, prompt_bound: int, cache_use: CacheUse) -> float:
        """Return the most tokens of output for which `hold` is not above an amount; below 0 for none."""
        return min(
            _quotient(usd_micros * _PICOS - prompt_bound * rate.dearest_picos(cache_use), rate.picos.output)
            for rate in self._reachable(prompt_bound)
        )

    def _reachable(self, prompt_bound: int) -> tuple[Rate, ...]:
        """Return every rate that a prompt of at most this length may be charged by."""
        below = [rate for rate in self.rates if rate.up_to_tokens and rate.up_to_tokens < prompt_bound]
        return self.rates[: len(below) + 1]


def _micros(picos: int) -> int:
    return -(-picos // _PICOS)


def _quotient(picos: int, each: int) -> float:
    if each:
        return picos // each
    return math.inf if picos >= 0 else -1


Rates = Annotated[tuple[Rate, ...], msgspec.Meta(min_length=1)]


def check_rates(where: str, rates: tuple[Rate, ...]) -> None:
    """Make sure that there is a rate for every prompt, shortest first. Raises: ValueError."""
    limits = [math.inf if rate.up_to_tokens is None else rate.up_to_tokens for rate in rates]
    if limits != sorted(set(limits)) or limits[-1] != math.inf:
        raise ValueError(f"`{where}` has no rate for every prompt, shortest first")


def _known(model: str, models: Mapping[str, object]) -> str | None:
    return next((name for name in (model, _SNAPSHOT.sub("", model)) if name in models), None)


class PriceTable(Struct, kw_only=True, rename="kebab"):
    """All of prices.yml; the last rate of a model has no limit."""

    as_of: str
    source: str
    models: dict[str, Rates]

    def __post_init__(self) -> None:
        for model, rates in self.models.items():
            check_rates(f"models.{model}", rates)

    def price(self, model: str) -> Price | None:
        """Return the price of a model or of a dated snapshot of it, None when nobody knows it."""
        known = _known(model, self.models)
        if known is None:
            return None
        return Price(model=known, rates=self.models[known], source=self.source, as_of=self.as_of)

    def overridden(self, models: Mapping[str, Rates]) -> Prices:
        """Return the prices of all models, where those of `models` come before the table's own."""
        return Prices(self, models)


class Prices(NamedTuple):
    """The table, and what a user says that models cost."""

    table: PriceTable
    configured: Mapping[str, Rates]

    def price(self, model: str) -> Price | None:
        """Return the price of a model or of a dated snapshot of it, None when nobody knows it."""
        known = _known(model, self.configured)
        if known is None:
            return self.table.price(model)
        return Price(model=known, rates=self.configured[known], source="as configured", as_of=CONFIGURED)

    def require(self, model: str) -> Price:
        """Return the price of a model that is to be run. Raises: PrerequisiteError (exit 4)."""
        found = self.price(model)
        if found is None:
            known = ", ".join(sorted({*self.table.models, *self.configured}))
            raise PrerequisiteError(
                f"no price is known for `{model}`, so its cost cannot be limited",
                f"Give it in {CONFIGURED} under `prices`, or use one of {known}.",
            )
        return found


def input_price(price: Price) -> InputPrice:
    """Return what reading costs in the tier of short prompts, with the tier and the source in words."""
    rate = price.rates[0]
    limit = f", prompts of at most {rate.up_to_tokens:,} tokens" if rate.up_to_tokens else ""
    return InputPrice(usd_per_mtok=rate.input, source=f"{price.model}{limit}, {price.source}, {price.as_of}")


@cache
def shipped_prices() -> PriceTable:
    """Read the table that travels with the program."""
    return decode(TABLE.read_text(encoding="utf-8"), PriceTable, str(TABLE))
