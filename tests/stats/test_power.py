from __future__ import annotations

import pytest

from skillgate.stats.power import detectable_effect


@pytest.mark.parametrize(
    ("repeats", "sd", "points"),
    [(3, 0.16, 17), (5, 0.16, 11), (3, 0.41, 32), (5, 0.41, 24)],
)
def test_the_published_figures_for_ten_tasks(repeats: int, sd: float, points: int) -> None:
    effect = detectable_effect(10, repeats, sd)
    assert effect is not None
    assert effect * 100 == pytest.approx(points, abs=0.6)


def test_one_repeat_shows_nothing() -> None:
    assert detectable_effect(10, 1) is None
