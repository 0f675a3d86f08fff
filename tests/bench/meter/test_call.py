"""A reserved call: it is booked once, and lost where nobody said how it ended."""

from __future__ import annotations

from contextlib import suppress

import pytest

from skillgate.bench.failure import Failure
from skillgate.bench.meter.call import NOTHING, Call
from skillgate.prices import Price, Rate, Tokens

PRICE = Price(model="m", source="test", as_of="today", rates=(Rate(input=1, output=5),))
Booked = list[tuple[int | None, Tokens, Failure | None]]


def opened() -> tuple[Call, Booked]:
    booked: Booked = []
    return Call(
        PRICE, 500, 200, 80, lambda call, used, tokens, fault: booked.append((used, tokens, fault))
    ), booked


def test_what_it_used_is_booked_once() -> None:
    call, booked = opened()
    with call:
        call.settle(Tokens(input=10, output=4))
    assert booked == [(30, Tokens(input=10, output=4), None)]
    assert not call.is_open
    for again in (call.free, call.lose, lambda: call.settle(NOTHING)):
        with pytest.raises(RuntimeError, match="one outcome"):
            again()
    assert len(booked) == 1


def test_a_fault_before_any_token_costs_nothing_and_a_cut_answer_its_hold() -> None:
    free, booked = opened()
    free.free(Failure.API_OVERLOADED)
    assert booked == [(0, NOTHING, Failure.API_OVERLOADED)]
    cut, booked = opened()
    cut.lose(Tokens(input=10), Failure.API_SERVER)
    assert booked == [(None, Tokens(input=10), Failure.API_SERVER)]


def test_one_that_is_left_without_an_outcome_is_lost() -> None:
    call, booked = opened()
    with suppress(KeyboardInterrupt), call:
        raise KeyboardInterrupt
    assert booked == [(None, NOTHING, None)]
