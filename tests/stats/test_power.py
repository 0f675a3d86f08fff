from __future__ import annotations

import statistics

import pytest

from skillgate.stats.power import detectable_effect, needed_repeats, pooled_sd


@pytest.mark.parametrize(
    ("repeats", "sd", "points"),
    [(3, 0.16, 17), (5, 0.16, 11), (3, 0.41, 32), (5, 0.41, 24)],
)
def test_the_published_figures_for_ten_tasks(repeats: int, sd: float, points: int) -> None:
    effect = detectable_effect([repeats] * 10, sd=sd)
    assert effect is not None
    assert effect * 100 == pytest.approx(points, abs=0.6)


def test_one_repeat_shows_nothing_unless_the_base_has_more() -> None:
    assert detectable_effect([1] * 10) is None
    assert detectable_effect([1] * 10, [5] * 10) is not None


def test_reused_runs_of_the_base_show_more() -> None:
    """Ten reused repeats and three fresh ones have .81 of the standard error of three and three."""
    small = detectable_effect([3] * 20, [3] * 20)
    large = detectable_effect([3] * 20, [10] * 20)
    assert small is not None
    assert large is not None
    assert large / small < 0.81


@pytest.mark.parametrize(("margin", "sd", "runs"), [(0.05, 0.41, 1056), (0.10, 0.41, 264), (0.05, 0.16, 161)])
def test_what_no_worse_takes_tends_to_the_textbook(margin: float, sd: float, runs: int) -> None:
    """15.7 sd^2 / margin^2 runs per arm, and a little for the noise that is always added."""
    tasks = 20
    repeats = needed_repeats(tasks, margin, sd)
    assert repeats is not None
    assert runs / tasks <= repeats <= runs / tasks * 1.2 + 1
    assert (detectable_effect([repeats] * tasks, sd=sd) or 1) <= margin
    assert (detectable_effect([repeats - 1] * tasks, sd=sd) or 1) > margin


def test_some_margins_are_out_of_reach() -> None:
    assert needed_repeats(1, 0.01, 0.41) is None


def test_the_spread_within_cells_ignores_what_lies_between_them() -> None:
    sd, freedom = pooled_sd([(0.0, 0.5), (1.0, 0.5), (0.25,)])
    assert freedom == 2
    assert sd == pytest.approx(statistics.stdev([0.0, 0.5]))
    assert pooled_sd([(1.0,)]) == (0.0, 0)
