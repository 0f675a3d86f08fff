"""Whether a fresh repeat of a baseline agrees with earlier ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from skillgate.bench.canary import canary_verdict
from skillgate.core import Cell, Grade, GradeKind, Outcome, Run
from skillgate.values import Usage

GRADERS = 4


def run(task: str, passed: int, usd_micros: int = 1000, models: tuple[str, ...] = ("m-1",)) -> Run:
    """A run of which so many of GRADERS graders passed."""
    grades = tuple(
        Grade(grader=str(number), kind=GradeKind.FAIL_TO_PASS, passed=number < passed)
        for number in range(GRADERS)
    )
    usage = Usage(usd_micros=usd_micros)
    cell = Cell(task=task, arm="none", repeat=0)
    return Run(cell=cell, outcome=Outcome.FAILED, grades=grades, usage=usage, models=models)


def both(
    fresh: Sequence[int], cached: Sequence[Sequence[int]], cost: float = 1.0
) -> tuple[list[Run], dict[str, list[Run]]]:
    """Fresh and earlier runs of a task each, by how many graders passed; fresh ones cost so much more."""
    new = [run(f"s/{number}", passed, round(1000 * cost)) for number, passed in enumerate(fresh)]
    old = {f"s/{number}": [run(f"s/{number}", one) for one in row] for number, row in enumerate(cached)}
    return new, old


def test_the_same_again_agrees_and_so_does_nothing_to_compare_with() -> None:
    assert canary_verdict(*both([4, 2, 0], [[4, 4], [2, 2], [0, 0]])) == ""
    assert canary_verdict([], {}) == canary_verdict([run("s/0", 4)], {"s/0": []}) == ""


@pytest.mark.parametrize(
    "fresh", [[], [Run(cell=Cell(task="s/0", arm="none", repeat=0), outcome=Outcome.INVALID)]]
)
def test_without_a_fresh_score_nothing_is_shown(fresh: list[Run]) -> None:
    for runs in (fresh, [run("s/other", 4)]):
        assert canary_verdict(runs, {"s/0": [run("s/0", 4)]}).startswith(
            "No fresh run of the baseline has a score"
        )


def test_another_model_is_named_in_both_directions() -> None:
    _, cached = both([], [[4, 4], [4, 4]])
    fresh = [run("s/0", 4, models=("m-2",)), run("s/1", 4, models=("m-2",))]
    said = "Fresh runs of the baseline were answered by m-2, earlier ones by m-1."
    assert canary_verdict(fresh, cached) == said
    mixed = cached | {"s/1": [run("s/1", 4, models=("m-2",))]}
    assert canary_verdict(fresh, mixed) == said.replace("m-1", "m-1, m-2")
    both_now = [run("s/0", 4), run("s/1", 4, models=("m-2",))]
    assert "answered by m-1, m-2, earlier ones by m-1." in canary_verdict(both_now, cached)
    nameless = [run("s/0", 4, models=()), run("s/1", 4, models=())]
    assert "answered by a model without a name" in canary_verdict(nameless, cached)
    # a task that has no fresh run says nothing of the others
    assert canary_verdict(fresh[1:], mixed) == ""


def test_the_error_is_that_of_the_closed_form() -> None:
    """Ten tasks, two earlier runs each, nine of which are 1, 1 and one 1, 0: by hand.

    SS = .5, nu = 10, s2 = 1.5/11, error = sqrt(s2 * (1 + 1/2) / 10) = .14302, so .42906 is the limit.
    """
    cached = [[4, 4]] * 9 + [[4, 0]]
    error = math.sqrt(1.5 / 11 * 1.5 / 10)
    assert round(3 * error, 5) == 0.42906
    # the earlier mean is .95: fresh means of .525 and .50 lie on both sides of .52094
    assert canary_verdict(*both([4, 4, 4, 4, 4, 1, 0, 0, 0, 0], cached)) == ""
    assert canary_verdict(*both([4, 4, 4, 4, 4, 0, 0, 0, 0, 0], cached)) == (
        "Fresh runs of the baseline differ from earlier ones by -45 points, "
        "more than 3 standard errors of 14.3."
    )


def test_a_rise_is_as_suspicious_as_a_drop() -> None:
    assert "+100 points" in canary_verdict(*both([4] * 8, [[0, 0]] * 8))


def test_costs_are_compared_as_logs() -> None:
    """Eight tasks, three earlier runs of equal cost each: s2 = .01/17, error = sqrt(s2 * (4/3) / 8)."""
    limit = math.exp(3 * math.sqrt(0.01 / 17 * (4 / 3) / 8))
    assert round(limit, 3) == 1.03
    rows = [4] * 8, [[4] * 3] * 8
    assert canary_verdict(*both(*rows, cost=1.03)) == ""
    for cost in (1.031, 1 / 1.031):
        said = canary_verdict(*both(*rows, cost=cost))
        assert said == (
            f"Fresh runs of the baseline cost {round(1000 * cost) / 1000:.2f} times what earlier ones did, "
            "more than 3 standard errors of a factor of 1.01."
        )
    assert canary_verdict(*both(*rows, cost=0)) == ""  # what costs nothing has no log


def test_more_than_one_fresh_run_of_a_task_count_as_their_mean_and_are_surer() -> None:
    """The tasks of the hand calculation; with two fresh runs each the limit is 3 * sqrt(.15/11) = .35032."""
    fresh, cached = both([4, 4, 4, 4, 4, 3, 0, 0, 0, 0], [[4, 4]] * 9 + [[4, 0]])
    assert canary_verdict(fresh, cached) == ""
    assert "by -38 points, more than 3 standard errors of 11.7" in canary_verdict(fresh * 2, cached)
    assert (
        canary_verdict([run("s/0", 4), run("s/0", 0)], {"s/0": [run("s/0", one) for one in (4, 2, 0)]}) == ""
    )


def alarms(
    fresh: Callable[[random.Random], int],
    earlier: Callable[[random.Random], int],
    sets: int,
    cost: float = 1.0,
) -> float:
    """Return how often eight tasks with five earlier runs each are told apart; costs spread by a fifth."""
    rng = random.Random(6)

    def draw(task: str, passed: Callable[[random.Random], int], scale: float) -> Run:
        return run(task, passed(rng), round(10_000 * scale * math.exp(rng.gauss(0, 0.2))))

    def once() -> bool:
        tasks = [f"s/{number}" for number in range(8)]
        cached: Mapping[str, list[Run]] = {
            task: [draw(task, earlier, 1.0) for _ in range(5)] for task in tasks
        }
        return canary_verdict([draw(task, fresh, cost) for task in tasks], cached) != ""

    return sum(once() for _ in range(sets)) / sets


def coin(share: float) -> Callable[[random.Random], int]:
    return lambda rng: GRADERS * (rng.random() < share)


def test_it_seldom_cries_wolf_and_sees_what_would_turn_a_verdict() -> None:
    """Two tests at three standard errors: about .6 % of false alarms, as t with 32 degrees of freedom has.

    400 sets: six times the standard error of a share of .01 is .03.
    """
    assert alarms(coin(0.7), coin(0.7), 400) <= 0.01 + 0.03
    assert alarms(coin(0.0), coin(0.8), 100) >= 0.95
    assert alarms(coin(0.7), coin(0.7), 100, cost=1.5) >= 0.95
