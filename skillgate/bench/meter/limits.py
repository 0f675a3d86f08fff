"""What a run may use, what a call wants of it, and why it gets nothing: values of an account. Pure."""

from __future__ import annotations

from typing import NamedTuple

from skillgate.bench.failure import Failure
from skillgate.prices import CacheUse


class Limits(NamedTuple):
    """What a run may use at most; None for what has no limit but money. No `models`: any with a price."""

    usd_micros: int
    requests: int | None = None
    tokens: int | None = None
    wall_s: float | None = None
    models: frozenset[str] = frozenset()


class Want(NamedTuple):
    """What a call asks for: a prompt that is not longer, so much output, and no less than a minimum."""

    prompt_bound: int
    output: int
    minimum: int
    cache_use: CacheUse = CacheUse.NONE


class Stopped(Exception):
    """No call is allowed; the text is a sentence. `may_change`: open calls may give something back."""

    def __init__(self, failure: Failure, sentence: str, may_change: bool = False) -> None:
        super().__init__(sentence)
        self.failure = failure
        self.sentence = sentence
        self.may_change = may_change
