from __future__ import annotations

import random
import threading

from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import NO_MONEY, NO_REQUESTS, NO_TIME, NO_TOKENS, Limited, Purse, Share
from skillgate.values import Usage


def purse(money: int = 100, tokens: int = 1000, requests: int = 50, ends: float | None = None) -> Purse:
    shares = Share(Ledger(tokens), 300), Share(Ledger(requests), 10)
    return Purse(Ledger(money), 20, Limited(*shares, ends=ends, clock=lambda: 7.0))


def test_each_limit_says_what_was_short() -> None:
    for short, why_not in (
        (purse(money=19), NO_MONEY),
        (purse(tokens=299), NO_TOKENS),
        (purse(requests=9), NO_REQUESTS),
        (purse(ends=7.0), NO_TIME),
    ):
        assert (short.reserve(), short.why_not) == (False, why_not)
        assert all(share.ledger.held_usd_micros == 0 for share in (part.share for part in short._parts))
    assert purse(ends=7.1).reserve()


def test_what_is_settled_is_free_again_and_what_is_lost_is_not() -> None:
    one = purse()
    assert [one.reserve() for _ in range(4)] == [True, True, True, False]
    assert one.why_not == NO_TOKENS
    one.settle(Usage(usd_micros=20, input=10, output=5, requests=2))
    one.lose()
    assert [one.reserve() for _ in range(2)] == [True, False]


def test_without_other_limits_only_money_counts() -> None:
    one = Purse(Ledger(40), 20, Limited())
    assert [one.reserve() for _ in range(3)] == [True, True, False]
    one.settle(Usage(usd_micros=1, input=10**9, requests=10**6))
    assert one.why_not == NO_MONEY


@given(st.integers(0, 2**32))
def test_whatever_threads_do_no_cap_is_exceeded(seed: int) -> None:
    one = purse(money=200, tokens=2000, requests=80)

    def work(rng: random.Random) -> None:
        for _ in range(20):
            if one.reserve():
                if rng.random() < 0.2:
                    one.lose()
                else:
                    one.settle(Usage(usd_micros=rng.randint(0, 20), input=rng.randint(0, 400)))

    threads = [threading.Thread(target=work, args=(random.Random(seed + n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in one._parts:
        ledger = part.share.ledger
        assert 0 <= ledger.spent_usd_micros + ledger.held_usd_micros <= ledger.cap_usd_micros
