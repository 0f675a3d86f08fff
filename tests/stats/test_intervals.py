"""The published vectors, the bootstrap against its closed form, and what must hold for any data."""

from __future__ import annotations

import itertools
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.stats.compare import (
    cost_interval,
    cost_interval_closed,
    plus2_interval,
    sign_flip,
    suite_interval,
    suite_interval_closed,
)
from skillgate.stats.intervals import PSEUDO_LOG, NoInterval, geometric_ratio

DELTAS = [0.2, -0.1, 0.3, 0.05, -0.4, 0.6, 0.1, 0, 0.25, -0.05]
BASE = [[1, 0.5, 1], [0, 0, 0.25], [1, 1, 1], [0.5, 0.75, 0.5]]
HEAD = [[1, 1, 1], [0, 0, 0], [0, 0.25, 0], [0.5, 0.5, 1]]
BASE_USD = [[0.10, 0.12], [0.50, 0.40], [1, 1.3], [0.05, 0.06], [0.20, 0.22]]
HEAD_USD = [[0.12, 0.13], [0.55, 0.60], [1.1, 1.9], [0.07, 0.06], [0.30, 0.24]]


def ends(interval):
    return [interval.low, interval.high]


def middle(interval):
    return sum(ends(interval)) / 2


def width(interval):
    return interval.high - interval.low


# --- vectors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([0.5, 0.25, 0.125, 1, 0.25, 0, 0, 0, 0, 0], (0.0625, 5)),
        ([0.5, 0.25, 0.125, 1, 0.25, 0.375, 0, 0, 0, 0], (0.03125, 6)),
        (DELTAS, (0.32421875, 9)),
        ([], (1.0, 0)),
        ([0.0, 0.1 + 0.2 - 0.3], (1.0, 0)),
        ([0.25], (1.0, 1)),
        ([-1.0] * 10, (2 / 2**10, 10)),
    ],
)
def test_sign_flip(deltas, expected):
    assert sign_flip(deltas) == expected


def test_sign_flip_of_ones_is_exact_mcnemar():
    p, nonzero = sign_flip([1] * 111 + [-1] * 74)

    assert (round(p, 5), nonzero) == (0.00795, 185)


def test_98_skills_of_10_requirements_cannot_survive_holm():
    least, _ = sign_flip([1.0] * 10)

    assert least == pytest.approx(0.00195, abs=5e-6)
    assert least * 98 > 0.05


def test_plus2_on_ten_zeros():
    assert ends(plus2_interval([0] * 10, c=1)) == pytest.approx([-0.2709225, 0.2709225], abs=5e-8)


def test_plus2_on_fractions():
    assert ends(plus2_interval(DELTAS, c=0.6)) == pytest.approx([-0.1460653, 0.3043986], abs=5e-8)


def test_suite_closed_form():
    found = suite_interval_closed(BASE, HEAD)

    assert [middle(found), *ends(found)] == pytest.approx([-0.1875, -0.4409806, 0.0659806], abs=5e-8)


def test_cost_closed_form():
    found = cost_interval_closed(BASE_USD, HEAD_USD)

    assert [geometric_ratio(BASE_USD, HEAD_USD), *ends(found)] == pytest.approx(
        [1.2295999, 1.1500811, 1.3146168], abs=5e-8
    )


# --- the bootstrap ----------------------------------------------------------------


@pytest.mark.parametrize("tasks", [5, 20, 50])
@pytest.mark.parametrize("repeats", [(2, 2), (5, 5), (10, 3)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bootstrap_is_as_wide_as_the_closed_form(tasks, repeats, level):
    generator = np.random.default_rng(tasks)
    base, head = (generator.integers(0, 5, (tasks, r)) / 4 for r in repeats)

    boot, closed = suite_interval(base, head, level), suite_interval_closed(base, head, level)

    assert width(boot) / width(closed) == pytest.approx(1, abs=0.05)
    assert middle(boot) == pytest.approx(middle(closed), abs=0.05 * width(closed))
    assert boot.level == closed.level == level


def test_cost_bootstrap_is_the_suite_bootstrap_on_logs():
    on_logs = suite_interval(np.log(BASE_USD), np.log(HEAD_USD), seed=4, unit=PSEUDO_LOG)

    assert ends(cost_interval(BASE_USD, HEAD_USD, seed=4)) == pytest.approx(list(np.exp(ends(on_logs))))


def test_cost_bootstrap_agrees_with_the_paired_t_on_noisy_costs():
    generator = np.random.default_rng(8)
    base, head = (np.exp(generator.normal(mean, 0.4, (20, 5))) for mean in (0.0, 0.2))

    boot, paired = np.log(ends(cost_interval(base, head))), np.log(ends(cost_interval_closed(base, head)))

    assert (boot[1] - boot[0]) / (paired[1] - paired[0]) == pytest.approx(1, abs=0.25)


def test_same_seed_same_interval_other_seed_hardly_another():
    assert suite_interval(BASE, HEAD, seed=1) == suite_interval(BASE, HEAD, seed=1)
    other = suite_interval(BASE, HEAD, seed=2)
    assert other != suite_interval(BASE, HEAD, seed=1)
    assert ends(other) == pytest.approx(ends(suite_interval(BASE, HEAD, seed=1)), abs=0.05)


def test_ten_thousand_resamples_are_fast():
    base, head = np.random.default_rng(0).random((2, 50, 5))
    started = time.process_time()
    suite_interval(base, head)

    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("base", "head", "error"),
    [
        ([[1], [0]], [[1], [1]], NoInterval),
        ([[1, 0]], [[1, 0], [0, 1]], ValueError),
        ([[1, 0], []], [[1, 0], [0, 1]], ValueError),
        ([], [], ValueError),
    ],
)
def test_no_suite_interval(base, head, error):
    with pytest.raises(error):
        suite_interval(base, head)


@pytest.mark.parametrize(
    ("base", "head", "error"),
    [
        ([[1], [2]], [[2], [4]], NoInterval),  # the same ratio everywhere: no spread to see
        ([[1]], [[2]], NoInterval),
        ([[1], [0]], [[1], [1]], ValueError),  # zero has no logarithm
    ],
)
def test_no_paired_t(base, head, error):
    with pytest.raises(error):
        cost_interval_closed(base, head)


# --- properties -------------------------------------------------------------------

shares = st.integers(0, 6).map(lambda passed: passed / 6)
rows = st.lists(shares, min_size=2, max_size=5)
suites = st.integers(1, 8).flatmap(lambda t: st.tuples(*[st.lists(rows, min_size=t, max_size=t)] * 2))
few = settings(max_examples=40, deadline=None)


@few
@given(suites, st.sampled_from([0.5, 0.8, 0.95, 0.999]), st.integers(0, 2**31))
def test_never_zero_width_and_around_the_point(suite, level, seed):
    base, head = suite
    point = np.mean([np.mean(row) for row in head]) - np.mean([np.mean(row) for row in base])

    for found in (suite_interval(base, head, level, seed), suite_interval_closed(base, head, level)):
        assert found.low < point < found.high


@few
@given(suites)
def test_swapping_arms_mirrors_the_interval(suite):
    base, head = suite
    there, back = suite_interval(base, head), suite_interval(head, base)

    assert [-back.high, -back.low] == pytest.approx(ends(there), abs=1e-12)


@few
@given(suites, st.randoms())
def test_order_of_runs_and_tasks_is_irrelevant(suite, shuffler: random.Random):
    pairs = list(zip(*suite, strict=True))
    shuffler.shuffle(pairs)
    base, head = ([shuffler.sample(row, len(row)) for row in arm] for arm in zip(*pairs, strict=True))

    assert suite_interval(base, head) == suite_interval(*suite)


@few
@given(suites)
def test_a_higher_level_is_wider(suite):
    assert width(suite_interval(*suite, level=0.8)) < width(suite_interval(*suite, level=0.99))


@few
@given(suites)
def test_repeating_the_same_runs_narrows(suite):
    base, head = suite
    doubled = suite_interval([row * 2 for row in base], [row * 2 for row in head])

    assert width(doubled) < width(suite_interval(base, head))


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_identical_scores_give_a_proper_interval(score):
    same = np.full((8, 3), score)

    found = suite_interval(same, same)

    assert found.low == pytest.approx(-found.high)
    assert width(found) == pytest.approx(width(suite_interval_closed(same, same)), rel=0.15)
    assert 0.05 < found.high < 0.15


@few
@given(st.lists(st.one_of(shares, shares.map(lambda x: -x)), min_size=1, max_size=10))
def test_sign_flip_equals_enumeration(deltas):
    nonzero = [d for d in deltas if d]
    flips = itertools.product([1, -1], repeat=len(nonzero))
    sums = [abs(sum(s * d for s, d in zip(signs, nonzero, strict=True))) for signs in flips]
    expected = sum(total >= abs(sum(nonzero)) - 1e-9 for total in sums) / len(sums)

    assert sign_flip(deltas) == (pytest.approx(expected, abs=1e-12), len(nonzero))


@few
@given(st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-6), min_size=1, max_size=12))
def test_sign_flip_of_any_floats_is_close_to_enumeration(deltas):
    signs = np.array(list(itertools.product([1, -1], repeat=len(deltas))))
    sums = np.abs(signs @ np.array(deltas))
    observed, total = abs(sum(deltas)), sum(map(abs, deltas))
    at_least, at_most = (float(np.mean(sums >= observed - slack * total)) for slack in (1e-12, 3e-5))
    p, _ = sign_flip(deltas)

    assert at_least - 1e-12 <= p <= at_most + 1e-12


def test_sign_flip_of_fifty_tasks_is_fast_and_near_normal():
    deltas = np.random.default_rng(1).normal(0.3, 1, 50)
    started = time.process_time()
    p, nonzero = sign_flip(deltas)

    assert time.process_time() - started < 1
    assert nonzero == 50
    assert p == pytest.approx(0.0408, abs=0.002)


def test_coverage_of_binary_scores():
    """400 suites of 8 tasks x 3 repeats without and with an effect: the truth lies inside."""
    generator = np.random.default_rng(20)
    inside = 0
    for seed in range(400):
        base_p = generator.beta(1.5, 0.8, 8)
        head_p = np.clip(base_p - generator.choice([0.0, 0.2]), 0, 1)
        base, head = ((generator.random((8, 3)) < p[:, None]).astype(float) for p in (base_p, head_p))
        found = suite_interval(base, head, seed=seed)
        inside += found.low < np.mean(head_p - base_p) < found.high

    assert 0.92 <= inside / 400 <= 0.995
