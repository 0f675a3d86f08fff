"""What the runs of a gate share: money, and where they are limited, tokens, requests and time.

Reserved before each run and settled after it. The meter limits a run to its part, so what all runs
use never exceeds the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from skillgate.bench.meter.ledger import Ledger
from skillgate.values import Usage

NO_MONEY = "not started: the rest of the budget could not pay for it"
NO_TOKENS = "not started: the rest of run.budget-tokens would not do for it"
NO_REQUESTS = "not started: the rest of run.budget-requests would not do for it"
NO_TIME = "not started: run.budget-minutes were over"


class Share(NamedTuple):
    """A ledger, which may count other things than micro-dollars, and what of it one run may use."""

    ledger: Ledger
    each: int


class Limited(NamedTuple):
    """The limits of a gate beside money, None for none; `ends` is a moment of the clock."""

    tokens: Share | None = None
    requests: Share | None = None
    ends: float | None = None
    clock: Callable[[], float] = time.monotonic


class _Part(NamedTuple):
    """A share, how what a run used of it is read, and the sentence for when there is not enough.

    `is_strict`: no run can use more than its part, so more is an error of ours.
    """

    share: Share
    why_not: str
    of: Callable[[Usage], int]
    is_strict: bool = False


class Purse:
    """The money of an evaluation and the limits of its gate; safe for threads.

    Args: each_usd_micros: what a run may cost at most.
    """

    def __init__(self, ledger: Ledger, each_usd_micros: int, limited: Limited) -> None:
        self._limited = limited
        money = Share(ledger, each_usd_micros)
        self._parts = [_Part(money, NO_MONEY, lambda usage: usage.usd_micros, is_strict=True)]
        if limited.tokens is not None:
            self._parts.append(_Part(limited.tokens, NO_TOKENS, lambda usage: usage.tokens))
        if limited.requests is not None:
            self._parts.append(_Part(limited.requests, NO_REQUESTS, lambda usage: usage.requests))
        self.why_not = NO_MONEY

    def reserve(self) -> bool:
        """Hold what a run may use; False when there is not enough, and `why_not` says of what."""
        if self._limited.ends is not None and self._limited.clock() >= self._limited.ends:
            self.why_not = NO_TIME
            return False
        for number, part in enumerate(self._parts):
            if not part.share.ledger.reserve(part.share.each):
                self.why_not = part.why_not
                for held in self._parts[:number]:
                    held.share.ledger.settle(held.share.each, 0)
                return False
        return True

    def settle(self, usage: Usage) -> None:
        """Book what a run has used. Raises: ValueError when it cost more than was held."""
        for part in self._parts:
            used, each = part.of(usage), part.share.each
            part.share.ledger.settle(each, used if part.is_strict else min(used, each))

    def lose(self) -> None:
        """Keep all that was held: nobody knows what the run has used."""
        for part in self._parts:
            part.share.ledger.lose(part.share.each)
