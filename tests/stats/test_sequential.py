"""Error spending over looks, against the published levels and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from skillgate.stats.sequential import conditional_power, nominal_levels


@pytest.mark.parametrize("looks", [(2, 3, 4, 5), (0.4, 0.6, 0.8, 1.0)])
def test_levels_for_looks_after_two_to_five_repeats(looks):
    assert nominal_levels(looks) == pytest.approx((0.000788, 0.007355, 0.022030, 0.042249), abs=1e-5)


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
