from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.meter.ledger import Ledger


def test_a_reservation_the_rest_cannot_pay_is_refused() -> None:
    ledger = Ledger(100)
    assert [ledger.reserve(60), ledger.reserve(41), ledger.reserve(40)] == [True, False, True]
    ledger.settle(60, 10)
    assert (ledger.spent_usd_micros, ledger.held_usd_micros) == (10, 40)


def test_what_a_lost_call_may_have_cost_stays_held() -> None:
    ledger = Ledger(100)
    ledger.reserve(60)
    ledger.lose(60)
    assert (ledger.spent_usd_micros, ledger.held_usd_micros, ledger.reserve(41)) == (0, 60, False)


def test_a_part_never_takes_more_than_its_share_nor_than_the_whole_has() -> None:
    whole = Ledger(100)
    first, second = Ledger(70, whole=whole), Ledger(70, 20, whole=whole)
    assert [first.reserve(71), first.reserve(60), second.reserve(50), second.reserve(40)] == [
        False,
        True,
        False,
        True,
    ]
    assert second.reserve(10) is False
    first.settle(60, 5)
    second.lose(40)
    assert (whole.spent_usd_micros, whole.held_usd_micros) == (5, 40)
    assert (first.spent_usd_micros, second.spent_usd_micros, second.held_usd_micros) == (5, 20, 40)


@pytest.mark.parametrize("used", [-1, 61])
def test_nobody_uses_more_than_was_reserved(used: int) -> None:
    ledger = Ledger(100)
    ledger.reserve(60)
    with pytest.raises(ValueError, match="of a reservation of 60"):
        ledger.settle(60, used)
    assert (ledger.spent_usd_micros, ledger.held_usd_micros) == (0, 60)


def test_a_reservation_is_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        Ledger(100).reserve(-1)


Step = tuple[str, int, float]


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.sampled_from(["reserve", "settle", "lose"]), st.integers(0, 400), st.floats(0, 1))),
)
def test_spent_and_held_never_exceed_the_cap(cap: int, steps: list[Step]) -> None:
    ledger, open_holds = Ledger(cap), []
    for kind, amount, share in steps:
        if kind == "reserve":
            if ledger.reserve(amount):
                open_holds.append(amount)
        elif open_holds:
            hold = open_holds.pop(amount % len(open_holds))
            ledger.settle(hold, int(hold * share)) if kind == "settle" else ledger.lose(hold)
        assert ledger.spent_usd_micros >= 0
        assert ledger.held_usd_micros >= 0
        assert ledger.spent_usd_micros + ledger.held_usd_micros <= cap


def test_many_threads_stay_under_the_cap() -> None:
    ledger = Ledger(2_000)

    def work() -> None:
        for _ in range(200):
            if ledger.reserve(7):
                ledger.settle(7, 7)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.spent_usd_micros, ledger.held_usd_micros) == (2_000 // 7 * 7, 0)
