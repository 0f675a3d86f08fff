"""The account of a run: whatever happens in whatever order, it never promises more than its limits."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.call import Call
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.limits import Limits, Stopped, Want
from skillgate.prices import CacheUse, Price, Rate, Tokens, shipped_prices
from skillgate.values import Usage

TIERED = shipped_prices().price("claude-haiku-5-5")
assert TIERED is not None
PRICE = Price(
    model="m", source="test", as_of="today",
    rates=(Rate(input=1, output=5, cache_read=0.1, cache_write=1.25, cache_write_1h=2),),
)  # fmt: skip
WANT = Want(100, 50, 10)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class AccountMachine(RuleBasedStateMachine):
    """Calls are opened, settled, lost, cancelled, and the process is killed and started again."""

    @initialize(cap=st.integers(0, 300_000), tokens=st.none() | st.integers(0, 400_000))
    def begin(self, cap: int, tokens: int | None) -> None:
        self.limits = Limits(cap, tokens=tokens)
        self.before = 0  # booked by processes that were killed
        self.account = Account(self.limits)
        self.open: list[tuple[Call, Want]] = []

    @rule(
        prompt=st.integers(0, 150_000),
        output=st.integers(0, 50_000),
        minimum=st.integers(0, 600),
        cache_use=st.sampled_from(CacheUse),
        price=st.sampled_from([PRICE, TIERED]),
    )
    def reserve(self, prompt: int, output: int, minimum: int, cache_use: CacheUse, price: Price) -> None:
        want = Want(prompt, output, minimum, cache_use)
        with suppress(Stopped):
            call = self.account.open(price, want)
            assert min(minimum, output) <= call.output <= output
            self.open.append((call, want))

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if self.open:
            call, want = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
            parts = [data.draw(st.integers(0, want.prompt_bound // 4)) for _ in range(4)]
            read, cached, short, long = parts
            short, long = (short, long)[: want.cache_use] + (0, 0)[want.cache_use :]
            output = data.draw(st.integers(0, call.output))
            call.settle(Tokens(read, output, cached, short, long))

    @rule(data=st.data(), how=st.sampled_from(["lose", "cancel", "free"]))
    def end(self, data: st.DataObject, how: str) -> None:
        if not self.open:
            return
        call, _ = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if how == "cancel":
            with pytest.raises(KeyboardInterrupt), call:
                raise KeyboardInterrupt
        elif how == "free":
            call.free()
        else:
            call.lose()

    @rule()
    def restart(self) -> None:
        """Begin again with what a journal knows: everything that was promised counts as spent."""
        self.before += self.account.booked_usd_micros
        self.limits = self.limits._replace(usd_micros=self.limits.usd_micros - self.account.booked_usd_micros)
        self.account, self.open = Account(self.limits), []

    @invariant()
    def nothing_is_above_the_cap(self) -> None:
        ledger = self.account.ledger
        assert ledger.spent_usd_micros >= 0
        assert ledger.held_usd_micros >= 0
        assert ledger.spent_usd_micros + ledger.held_usd_micros <= ledger.cap_usd_micros
        assert self.account.overrun_usd_micros == 0
        assert self.account.known_usd_micros <= self.account.booked_usd_micros
        assert sum(call.hold_usd_micros for call, _ in self.open) <= ledger.held_usd_micros
        if self.limits.tokens is not None:
            assert self.account.usage.tokens + sum(call.tokens for call, _ in self.open) <= self.limits.tokens


AccountMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAccount = AccountMachine.TestCase


def test_a_call_has_one_outcome() -> None:
    account = Account(Limits(1000))
    call = account.open(PRICE, WANT)
    call.settle(Tokens(1, 1))
    for again in (call.lose, call.free, lambda: call.settle(Tokens())):
        with pytest.raises(RuntimeError, match="one outcome"):
            again()
    with account.open(PRICE, WANT) as second:
        second.free()
    assert (account.booked_usd_micros, account.usage.requests) == (6, 2)


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_is_raised_books_the_hold(problem: type[BaseException]) -> None:
    account = Account(Limits(1000))
    with pytest.raises(problem), account.open(PRICE, WANT):
        raise problem
    assert (account.ledger.spent_usd_micros, account.ledger.held_usd_micros) == (0, 100 + 50 * 5)


def test_output_is_clamped_to_what_the_rest_pays() -> None:
    account = Account(Limits(100 + 20 * 5 + 4))
    call = account.open(PRICE, WANT)
    assert (call.output, call.hold_usd_micros) == (20, 200)
    with pytest.raises(Stopped) as refused:
        account.open(PRICE, WANT)
    assert (refused.value.may_change, account.failure) == (True, None)
    call.settle(Tokens(10, 1))
    assert account.open(PRICE, Want(50, 50, 10)).output == (204 - 15 - 50) // 5


def test_a_rest_that_pays_for_no_answer_stops_the_run() -> None:
    account = Account(Limits(100 + 9 * 5))
    for _ in range(2):
        with pytest.raises(Stopped, match=r"\$0\.000145 .* may cost \$0\.000150 or more"):
            account.open(PRICE, WANT)
    assert (account.failure, account.usage) == (Failure.AGENT_BUDGET, Usage())
    small = Account(Limits(100 + 9 * 5))
    assert small.open(PRICE, Want(100, 9, 10)).output == 9


def test_requests_tokens_and_time_have_limits() -> None:
    clock = Clock()
    account = Account(Limits(10_000, requests=2, wall_s=60), clock)
    account.count_request()
    account.open(PRICE, WANT).free()
    with pytest.raises(Stopped, match="2 requests"):
        account.open(PRICE, WANT)
    assert account.failure is Failure.AGENT_TURNS
    late = Account(Limits(10_000, wall_s=60), clock)
    clock.now += 59
    late.open(PRICE, WANT).free()
    assert late.remaining_s == 1
    clock.now += 1
    with pytest.raises(Stopped, match="60 s"):
        late.open(PRICE, WANT)
    assert late.failure is Failure.AGENT_CLOCK
    few = Account(Limits(10_000, tokens=130))
    assert few.open(PRICE, WANT).output == 30


def test_an_outage_that_used_a_run_up_is_to_blame() -> None:
    clock = Clock()
    broken = Failure.API_SERVER

    def left(limits: Limits, fault: Failure | None, lost: bool) -> Failure | None:
        account = Account(limits, clock)
        call = account.open(PRICE, WANT)  # holds 350
        if lost:
            call.lose(fault=fault)
        else:
            call.free(fault)
        clock.now += 10
        with suppress(Stopped):
            account.open(PRICE, WANT).settle(Tokens(1, 1))
        return account.failure

    money, requests, time = Limits(480), Limits(9999, requests=1), Limits(9999, wall_s=10)
    assert [left(one, broken, True) for one in (money, requests, time)] == [broken] * 3
    assert [left(one, broken, False) for one in (money, requests, time)] == [None, broken, broken]
    assert [left(one, None, True) for one in (money, requests, time)] == [
        Failure.AGENT_BUDGET,
        Failure.AGENT_TURNS,
        Failure.AGENT_CLOCK,
    ]


def test_what_was_lost_is_not_to_blame_for_a_run_that_had_too_little_anyway() -> None:
    account = Account(Limits(1000))
    account.open(PRICE, WANT).lose(fault=Failure.API_SERVER)
    account.open(PRICE, WANT).settle(Tokens(1, 1))
    with pytest.raises(Stopped):
        account.open(PRICE, Want(2000, 50, 10))
    assert account.failure is Failure.AGENT_BUDGET


def test_what_costs_more_than_held_takes_the_rest_and_is_told() -> None:
    account = Account(Limits(500))
    account.open(PRICE, WANT).settle(Tokens(100, 70))
    assert (account.ledger.spent_usd_micros, account.overrun_usd_micros) == (450, 0)
    account = Account(Limits(400))
    account.open(PRICE, WANT).settle(Tokens(100, 70))
    assert (account.ledger.spent_usd_micros, account.overrun_usd_micros) == (400, 50)
    assert (account.booked_usd_micros, account.failure) == (450, Failure.UNKNOWN)


def test_a_dear_tier_is_held_for_where_the_bound_reaches_it() -> None:
    assert TIERED is not None
    holds = [TIERED.hold(bound, 10, CacheUse.NONE) for bound in (100_000, 100_001)]
    assert holds == [10_000 + 5, 50_001 + 25]
    assert TIERED.hold(1000, 0, CacheUse.LONG) == 200
    assert TIERED.hold(1000, 0, CacheUse.SHORT) == 125
    falling = Price(
        model="m",
        source="",
        as_of="",
        rates=(Rate(input=9, output=1, up_to_tokens=10), Rate(input=1, output=2)),
    )
    assert [falling.hold(bound, 1, CacheUse.NONE) for bound in (10, 11)] == [91, 100]
    assert falling.affordable_output(100, 11, CacheUse.NONE) == 1


def test_cost_is_exact_and_rounded_up() -> None:
    rate = Rate(input=0.1, output=0.3, cache_read=0.01)
    price = Price(model="m", source="", as_of="", rates=(rate,))
    assert [price.cost(Tokens(n)) for n in (0, 1, 10, 11)] == [0, 1, 1, 2]
    assert [
        price.cost(Tokens(0, 10)),
        price.cost(Tokens(0, 0, 100)),
        price.cost(Tokens(0, 0, 0, 10, 10)),
    ] == [3, 1, 2]
    free = Price(model="m", source="", as_of="", rates=(Rate(input=0, output=0),))
    assert Account(Limits(0)).open(free, WANT).output == 50


def test_no_repr_shows_the_token_and_only_it_is_accepted() -> None:
    account = Account(Limits(1))
    assert account.token.startswith("sgm-")
    assert account.token not in repr(account) + repr(vars(account).keys())
    assert [account.accepts(t) for t in (account.token, account.token[:-1], "", "sgm-ü", "\udc80")] == [
        True, False, False, False, False,
    ]  # fmt: skip
    assert Account(Limits(1)).token != account.token


def test_many_threads_never_spend_more_than_there_is() -> None:
    account = Account(Limits(20_000))

    def work() -> None:
        for _ in range(100):
            with suppress(Stopped), account.open(PRICE, Want(10, 20, 1)) as call:
                call.settle(Tokens(10, call.output))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 20_000 - 15 < account.booked_usd_micros <= 20_000
    assert isinstance(account.ledger, Ledger)
