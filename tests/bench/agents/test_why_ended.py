"""Whose fault the end of a program was, where meter, sandbox and program say different things."""

from __future__ import annotations

import pytest

from skillgate.bench.agents.cli_agent import why_ended
from skillgate.bench.agents.program import Reading
from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.limits import Limits, Want
from skillgate.bench.sandbox import CommandResult
from skillgate.prices import Price, Tokens, shipped_prices
from tests.fakes.metering import HAIKU

DONE = CommandResult(exit_code=0, output="", wall_s=1.0)
BROKE_OFF = CommandResult(exit_code=1, output="", wall_s=1.0)


@pytest.fixture
def price() -> Price:
    found = shipped_prices().price(HAIKU)
    assert found is not None
    return found


@pytest.fixture
def account(price: Price) -> Account:
    """An account of which one call went well."""
    made = Account(Limits(10_000_000))
    made.open(price, Want(100, 100, 1)).settle(Tokens(10, 10))
    return made


def test_nobody_gets_over_an_api_that_ended_the_run(account: Account, price: Price) -> None:
    account.open(price, Want(100, 100, 1)).free(Failure.API_SERVER)
    assert why_ended(account, DONE, Reading()) is None  # one fault it did get over
    for _ in range(3):
        account.open(price, Want(100, 100, 1)).free(Failure.API_SERVER)
    assert why_ended(account, DONE, Reading()) is Failure.API_SERVER


def test_a_key_that_is_refused_is_no_success(account: Account) -> None:
    account.stop(Failure.API_AUTH, "refused")
    assert why_ended(account, DONE, Reading()) is Failure.API_AUTH


def test_a_limit_of_the_run_counts_although_it_finished(account: Account) -> None:
    account.stop(Failure.AGENT_TURNS, "used up")
    assert why_ended(account, DONE, Reading()) is Failure.AGENT_TURNS


def test_what_the_meter_refuses_in_the_middle_is_not_the_agents_doing(account: Account) -> None:
    account.deny()
    assert why_ended(account, BROKE_OFF, Reading(failure=Failure.UNKNOWN)) is Failure.API_REFUSED
    assert why_ended(account, BROKE_OFF, Reading(failure=Failure.AGENT_CRASH)) is Failure.AGENT_CRASH
    assert why_ended(account, DONE, Reading()) is None


def test_a_bug_of_the_meter_is_ours_until_a_call_goes_well(account: Account, price: Price) -> None:
    account.blame(Failure.UNKNOWN)
    assert why_ended(account, BROKE_OFF, Reading(failure=Failure.API_SERVER)) is Failure.UNKNOWN
    account.open(price, Want(100, 100, 1)).settle(Tokens(10, 10))
    assert why_ended(account, BROKE_OFF, Reading(failure=Failure.API_SERVER)) is Failure.AGENT_CRASH


def test_the_rest_of_a_cut_call_is_still_reserved_of_the_tokens(price: Price) -> None:
    account = Account(Limits(10_000_000, tokens=350))
    account.open(price, Want(100, 100, 1)).lose()
    assert account.open(price, Want(100, 100, 1)).output == 50
