"""Error spending over looks, against the published levels and by simulation; when a paired run may end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.special import ndtr, ndtri

from skillgate.core import ArmPair, Comparison, Interval, Metric, Policy, Stop, TaskDelta
from skillgate.stats.intervals import PSEUDO_LOG, Noise, logs, suite_interval_closed
from skillgate.stats.sequential import Design, conditional_power, examine, nominal_levels, repeated_p
from skillgate.stats.verdict import Cost, Quality, standing

LEVELS = (0.000788, 0.007355, 0.022030, 0.042249)
"""STATISTICS: looks after two to five repeats, alpha = .05."""


@pytest.mark.parametrize("looks", [(2, 3, 4, 5), (0.4, 0.6, 0.8, 1.0)])
def test_levels_for_looks_after_two_to_five_repeats(looks):
    assert nominal_levels(looks) == pytest.approx(LEVELS, abs=1e-5)


def test_one_look_spends_everything():
    assert nominal_levels((3,)) == pytest.approx((0.05,), abs=1e-9)
    assert nominal_levels((3,), alpha=0.2) == pytest.approx((0.2,), abs=1e-9)


@pytest.mark.parametrize("looks", [(), (0, 1), (2, 2, 3), (3, 2)])
def test_looks_must_ascend(looks):
    with pytest.raises(ValueError, match="ascend"):
        nominal_levels(looks)


def test_all_looks_together_err_in_one_direction_as_often_as_said():
    looks = np.array([2, 3, 4, 5])
    steps = np.random.default_rng(3).normal(size=(200_000, 5)).cumsum(axis=1)
    z = steps[:, looks - 1] / np.sqrt(looks)
    bounds = -ndtri(np.array(nominal_levels((2, 3, 4, 5))) / 2)

    assert np.mean((z > bounds).any(axis=1)) == pytest.approx(0.025, abs=0.0015)


def test_conditional_power():
    assert conditional_power(z=1.2, t=0.4) == pytest.approx(0.467795, abs=1e-6)


# --- designs ----------------------------------------------------------------------

EQUAL = Design.of([5] * 10, [5] * 10, 0.05)


def test_the_usual_design():
    assert EQUAL.repeats == (2, 3, 4, 5)
    assert EQUAL.times == pytest.approx((0.4, 0.6, 0.8, 1.0))
    assert EQUAL.levels == pytest.approx(LEVELS, abs=1e-5)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_few_repeats_have_one_look_at_the_end(repeats):
    design = Design.of([repeats] * 4, [repeats] * 4, 0.05)

    assert (design.repeats, design.times) == ((repeats,), (1.0,))
    assert design.levels == pytest.approx((0.05,))


def test_a_design_may_have_no_early_look():
    assert Design.of([5] * 4, [5] * 4, 0.05, early=False).repeats == (5,)


def test_unequal_repeats_know_more_early_and_nothing_new_of_a_task_that_is_through():
    """One over the sum of 2 / repeats so far: 1 / (2/2 + 2/2) after two, 1 / (2/2 + 2/5) at the end."""
    design = Design.of([2, 5], [2, 5], 0.05)

    known = [1 / (2 / 2 + 2 / repeats) for repeats in (2, 3, 4, 5)]
    assert design.repeats == (2, 3, 4, 5)
    assert design.times == pytest.approx([one / known[-1] for one in known])
    assert design.levels == pytest.approx(nominal_levels(design.times))
    assert design.levels[0] > EQUAL.levels[0]
    assert Design.of([5, 2], [5, 2], 0.05) == design


def test_extras_of_the_base_are_there_from_the_start():
    design = Design.of([5] * 3, [10] * 3, 0.05)

    known = [1 / (1 / repeats + 1 / (5 + repeats)) for repeats in (2, 3, 4, 5)]
    assert design.times == pytest.approx([one / known[-1] for one in known])
    assert all(more > less for more, less in zip(design.times[:-1], EQUAL.times[:-1], strict=True))


def test_three_fresh_repeats_beside_ten_known_ones_are_looked_at_once():
    assert Design.of([3] * 8, [10] * 8, 0.05).repeats == (3,)


def test_a_policy_of_another_level_has_other_levels():
    assert Design.of([5], [5], 0.2).levels == pytest.approx(nominal_levels((2, 3, 4, 5), 0.2))


# --- repeated p values ------------------------------------------------------------


@pytest.mark.parametrize("design", [EQUAL, Design.of([2, 5], [4, 8], 0.05), Design.of([10], [10], 0.05)])
@pytest.mark.parametrize("alpha", [0.001, 0.025, 0.05, 0.4])
def test_a_repeated_p_value_is_the_alpha_that_makes_its_look_strict_enough(design, alpha):
    nominal = nominal_levels(design.times, alpha)

    for number, p in [pair for pair in enumerate(nominal) if pair[1] > 1e-12]:
        assert repeated_p(design, number, p) == pytest.approx(alpha, rel=1e-4)


def test_a_repeated_p_value_grows_with_the_nominal_and_shrinks_with_the_look():
    ps = (1e-6, 0.001, 0.02, 0.3, 0.9, 1.0)
    table = [[repeated_p(EQUAL, number, p) for p in ps] for number in range(4)]

    assert all(row == sorted(row) and row[-1] == 1 for row in table)
    assert all(column == sorted(column, reverse=True) for column in map(list, zip(*table, strict=True)))
    assert all(found >= p for row in table for found, p in zip(row, ps, strict=True))


@pytest.mark.parametrize("design", [EQUAL, Design.of([10], [10], 0.05)])
def test_a_repeated_p_value_of_next_to_nothing_is_small_and_never_too_small(design):
    for number in range(3):
        found = [repeated_p(design, number, p) for p in (0.0, 1e-300, 1e-12, 1e-10, 1e-8, 1e-4)]
        assert found == sorted(found)
        assert found[0] == found[2] >= 1e-12


def test_many_repeats_have_a_first_look_that_can_show_next_to_nothing():
    levels = Design.of([100], [100], 0.05).levels

    assert list(levels) == sorted(levels)
    assert 0 < levels[0] < 1e-18


def test_one_look_has_the_p_value_it_has():
    assert [repeated_p(Design.of([3], [3], 0.05), 0, p) for p in (0.0, 0.03, 1.0)] == [0.0, 0.03, 1.0]


# --- when to end ------------------------------------------------------------------

ARMS = ArmPair("base", "head")
_AROUND = {2: (-1, 1), 3: (-1, 0, 1), 4: (-1, -1, 1, 1)}


def rows(means: Sequence[float], spread: float, repeats: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(mean + spread * sign for sign in _AROUND[repeats]) for mean in means)


def described(
    metric: Metric, base: Sequence[float], head: Sequence[float], spread: float, look: int
) -> Comparison:
    """Compare two arms by the closed form at the level of a look; one mean for each task and arm."""
    repeats, level = EQUAL.repeats[look], 1 - EQUAL.levels[look]
    sides = rows(base, spread, repeats), rows(head, spread, repeats)
    by_task = tuple(
        TaskDelta(task=f"s/{n}", base_values=b, head_values=h)
        for n, (b, h) in enumerate(zip(*sides, strict=True))
    )
    return Comparison(
        metric=metric,
        arms=ARMS,
        tasks=len(base),
        repeats=repeats,
        n_pairs=len(base) * repeats,
        n_dropped=0,
        base=sum(base) / len(base),
        head=sum(head) / len(head),
        delta=(sum(head) - sum(base)) / len(base),
        interval=suite_interval_closed(*sides, level),
        by_task=by_task,
        p=2 * float(ndtr(-abs(Noise.of(*sides).z()))),
    )


def scores(
    delta: float, look: int, *, spread: float = 0.05, tasks: int = 10, fallen: bool = False
) -> Comparison:
    """Change the pass ratios by `delta` in the mean: all alike, or one fell from .9 to .1 if `fallen`."""
    each = (delta * tasks + 0.8) / (tasks - 1) if fallen else delta
    base, head = [0.5 - each / 2] * tasks, [0.5 + each / 2] * tasks
    if fallen:
        base[0], head[0] = 0.9, 0.1
    return described(Metric.PASS_RATIO, base, head, spread, look)


def costs(ratio: float, look: int, *, spread: float = 0.01, tasks: int = 10) -> Comparison:
    """Change the cost of every task by a ratio, with some spread of the logs."""
    repeats, level = EQUAL.repeats[look], 1 - EQUAL.levels[look]
    base = tuple(tuple(math.exp(log) for log in row) for row in rows([0.0] * tasks, spread, repeats))
    head = tuple(tuple(ratio * value for value in row) for row in base)
    low, high = Noise.of(logs(base), logs(head), PSEUDO_LOG).closed(level)
    return Comparison(
        metric=Metric.COST_RATIO,
        arms=ARMS,
        tasks=tasks,
        repeats=repeats,
        n_pairs=tasks * repeats,
        n_dropped=0,
        base=1.0,
        head=ratio,
        delta=ratio,
        interval=Interval(low=math.exp(low), high=math.exp(high), level=level, method="m"),
        by_task=tuple(
            TaskDelta(task=f"s/{n}", base_values=b, head_values=h)
            for n, (b, h) in enumerate(zip(base, head, strict=True))
        ),
    )


NO_COSTS = None
WITHIN, OVER = (1.0, 0.01), (1.4, 0.01)
MAYBE_OVER = (1.24, 0.1)  # unclear, and more runs could show either
HARDLY_OVER = (1.1, 0.1)  # unclear, but it is most likely within
NEVER_CLEAR = (1.2, 0.05)  # exactly the budget


@pytest.mark.parametrize(
    ("delta", "cost", "look", "quality", "column", "stop"),
    [
        # worse blocks, whatever the cost
        (-0.4, WITHIN, 0, Quality.WORSE, Cost.WITHIN, Stop.DECIDED),
        (-0.4, MAYBE_OVER, 0, Quality.WORSE, Cost.UNCLEAR, Stop.DECIDED),
        (-0.4, OVER, 0, Quality.WORSE, Cost.OVER, Stop.DECIDED),
        (-0.4, NO_COSTS, 0, Quality.WORSE, Cost.UNCLEAR, Stop.DECIDED),
        # better merges unless the cost may still turn out to be over the budget
        (0.4, WITHIN, 0, Quality.BETTER, Cost.WITHIN, Stop.DECIDED),
        (0.4, HARDLY_OVER, 0, Quality.BETTER, Cost.UNCLEAR, Stop.DECIDED),
        (0.4, MAYBE_OVER, 0, Quality.BETTER, Cost.UNCLEAR, None),
        (0.4, OVER, 0, Quality.BETTER, Cost.OVER, Stop.DECIDED),
        (0.4, NO_COSTS, 0, Quality.BETTER, Cost.UNCLEAR, Stop.DECIDED),
        # no worse merges or holds once the cost is clear, and goes on until then
        (0.22, WITHIN, 0, Quality.NO_WORSE, Cost.WITHIN, Stop.DECIDED),
        (0.22, OVER, 0, Quality.NO_WORSE, Cost.OVER, Stop.DECIDED),
        (0.22, MAYBE_OVER, 0, Quality.NO_WORSE, Cost.UNCLEAR, None),
        (0.22, HARDLY_OVER, 0, Quality.NO_WORSE, Cost.UNCLEAR, None),
        (0.22, NEVER_CLEAR, 0, Quality.NO_WORSE, Cost.UNCLEAR, None),  # it may become better
        (0.22, NO_COSTS, 0, Quality.NO_WORSE, Cost.UNCLEAR, None),
        (0.005, NEVER_CLEAR, 2, Quality.NO_WORSE, Cost.UNCLEAR, Stop.FUTILE),
        (0.005, NO_COSTS, 2, Quality.NO_WORSE, Cost.UNCLEAR, Stop.FUTILE),
        (0.005, (1.19, 0.05), 2, Quality.NO_WORSE, Cost.UNCLEAR, None),  # it may turn out within
        (0.005, (1.21, 0.05), 2, Quality.NO_WORSE, Cost.UNCLEAR, None),  # it may turn out over
        (0.01, HARDLY_OVER, 2, Quality.NO_WORSE, Cost.WITHIN, Stop.DECIDED),
        # what is open goes on while "worse" or "no worse" is likely
        (0.0, WITHIN, 0, Quality.OPEN, Cost.WITHIN, None),
        (-0.2, WITHIN, 0, Quality.FELL, Cost.WITHIN, None),
        # too dear holds, unless it may still turn out worse and block
        (0.0, OVER, 0, Quality.OPEN, Cost.OVER, Stop.DECIDED),
        (-0.2, OVER, 0, Quality.FELL, Cost.OVER, None),
    ],
)
def test_rule(delta, cost, look, quality, column, stop):
    tasks = 60 if look == 2 else 10
    found = [scores(delta, look, tasks=tasks)]
    found += [costs(cost[0], look, spread=cost[1], tasks=tasks)] if cost else []

    now = standing(found, Policy())

    assert now is not None
    assert (now.quality, now.cost) == (quality, column)
    assert examine(found, Policy(), EQUAL, look) is stop


@pytest.mark.parametrize(
    ("delta", "quality"), [(-0.05, Quality.OPEN), (-0.101, Quality.FELL), (0.0, Quality.OPEN)]
)
@pytest.mark.parametrize(
    ("cost", "stop"),
    [(WITHIN, Stop.FUTILE), (MAYBE_OVER, Stop.FUTILE), (NO_COSTS, Stop.FUTILE), (OVER, Stop.DECIDED)],
)
def test_neither_worse_nor_no_worse_is_likely(delta, quality, cost, stop):
    found = [scores(delta, 2, spread=0.35)] + ([costs(cost[0], 2, spread=cost[1])] if cost else [])

    assert standing(found, Policy()).quality is quality
    assert examine(found, Policy(), EQUAL, 2) is stop


def test_one_of_both_is_likely_enough():
    """A bound is given up below a chance of .1, not above it: the z values on both sides of it."""
    chance = {
        delta: conditional_power(Noise.of(*scores(delta, 2, spread=0.35).rows).z(-0.1), 0.8)
        for delta in (0.01, 0.03)
    }

    assert chance[0.01] < 0.1 < chance[0.03]
    assert [examine([scores(delta, 2, spread=0.35)], Policy(), EQUAL, 2) for delta in chance] == [
        Stop.FUTILE,
        None,
    ]


def test_a_wider_margin_is_more_likely_to_be_kept():
    found = [scores(0.01, 2, spread=0.35)]

    assert standing(found, Policy(margin=0.2)).quality is Quality.OPEN
    assert examine(found, Policy(margin=0.2), EQUAL, 2) is None


def test_the_last_look_ends_whatever_it_shows():
    assert examine([scores(0.0, 3 - 1)], Policy(), EQUAL, 3) is Stop.LAST
    assert examine([], Policy(), EQUAL, 3) is Stop.LAST
    assert examine([], Policy(), Design.of([3], [3], 0.05), 0) is Stop.LAST


def test_what_cannot_decide_yet_goes_on():
    worse = scores(-0.4, 0)

    assert examine([], Policy(), EQUAL, 0) is None
    assert examine([replace(worse, interval=None)], Policy(), EQUAL, 0) is None
    assert examine([replace(worse, n_pairs=15, n_dropped=5)], Policy(), EQUAL, 0) is None
    assert examine([replace(worse, n_pairs=16, n_dropped=4)], Policy(), EQUAL, 0) is Stop.DECIDED


@pytest.mark.parametrize("delta", [0.45, 0.27])
@pytest.mark.parametrize("cost", [WITHIN, OVER])
def test_no_early_end_while_a_collapse_may_be_hidden(delta, cost):
    """In two repeats a task fell by half: the guard sees it only after three."""
    dear = costs(cost[0], 0, spread=cost[1])
    sound, fallen = scores(delta, 0), scores(delta, 0, fallen=True)

    assert {standing([one, dear], Policy()).quality for one in (sound, fallen)} <= {
        Quality.BETTER,
        Quality.NO_WORSE,
    }
    assert examine([sound, dear], Policy(), EQUAL, 0) is Stop.DECIDED
    assert examine([fallen, dear], Policy(), EQUAL, 0) is None


def test_a_hidden_collapse_keeps_no_block_waiting():
    found = [scores(-0.4, 0, fallen=True), costs(1.0, 0)]

    assert standing(found, Policy()).quality is Quality.WORSE
    assert examine(found, Policy(), EQUAL, 0) is Stop.DECIDED


@pytest.mark.parametrize(("cost", "stop"), [(WITHIN, None), (OVER, Stop.DECIDED)])
def test_a_collapse_that_is_seen_holds_but_may_pass(cost, stop):
    found = [scores(0.1, 1, fallen=True), costs(cost[0], 1, spread=cost[1])]

    assert standing(found, Policy()).quality is Quality.COLLAPSED
    assert examine(found, Policy(), EQUAL, 1) is stop


def test_the_policy_moves_what_is_decided():
    found = [scores(0.0, 0), costs(1.3, 0)]

    assert examine(found, Policy(), EQUAL, 0) is Stop.DECIDED  # over the budget
    assert examine(found, Policy(max_cost_increase=0.5), EQUAL, 0) is None
    assert examine(found, Policy(max_cost_increase=0.5, margin=0.4), EQUAL, 0) is Stop.DECIDED


# --- several skills ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "skills", "stop"),
    [
        (0.00078, 1, Stop.DECIDED),
        (0.00078, 2, None),  # its repeated p value is just below .05
        (0.0001, 2, Stop.DECIDED),  # .0206
        (0.0001, 3, None),
        (1e-6, 16, Stop.DECIDED),  # .00296
        (1e-6, 17, None),
        (None, 2, None),
    ],
)
def test_a_block_stands_up_to_all_skills(p, skills, stop):
    found = [replace(scores(-0.4, 0), p=p), costs(1.0, 0)]

    assert examine(found, Policy(), EQUAL, 0, skills) is stop


@pytest.mark.parametrize("delta", [0.4, 0.22])
def test_a_merge_has_to_stand_up_to_no_other_skill(delta):
    assert examine([scores(delta, 0), costs(1.0, 0)], Policy(), EQUAL, 0, skills=50) is Stop.DECIDED


def test_a_block_has_the_level_of_the_policy():
    found = [replace(scores(-0.4, 0), p=0.0001), costs(1.0, 0)]

    assert examine(found, Policy(level=0.99), EQUAL, 0, skills=2) is None
