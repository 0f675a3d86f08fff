"""What the exchanges of one door share. It has the key, and no repr."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
import yarl

from skillgate.bench.meter.account import Account
from skillgate.bench.meter.dialect import Dialect
from skillgate.prices import Price


class Way(NamedTuple):
    """What the exchanges of one door share. `counts` are prompts that the provider itself has counted."""

    url: Callable[[str, str], yarl.URL]
    key: str
    dialect: Dialect
    price: Callable[[str], Price | None]
    session: aiohttp.ClientSession
    account: Account
    closed: asyncio.Condition
    counts: dict[str, int]

    def __repr__(self) -> str:
        return "Way()"
