"""Looks at growing data -> how strict each look must be, and whether going on can pay.

O'Brien-Fleming-type error spending (Lan & DeMets 1983), alpha / 2 for each direction. Pure
numbers: it knows neither runs nor budgets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FAR = 9.0  # standard deviations; beyond lies less than 1e-18


class _Paths(NamedTuple):
    """Where the paths that crossed no bound stand: points of a quadrature and their mass."""

    time: float
    points: NDArray[np.float64]
    mass: NDArray[np.float64]

    def crossing(self, time: float, z: float) -> float:
        """Return the probability to be above z standard deviations at a later time."""
        step = math.sqrt(time - self.time)
        return float(self.mass @ ndtr((self.points - z * math.sqrt(time)) / step))

    def advance(self, time: float, z: float) -> _Paths:
        """Return the paths that are below z standard deviations at a later time."""
        step, spread = math.sqrt(time - self.time), math.sqrt(time)
        half = spread * (z + _FAR) / 2
        points = half * (_NODES + 1) - spread * _FAR
        density = np.exp(-(((points[:, None] - self.points) / step) ** 2) / 2) @ self.mass
        return _Paths(time, points, density * _WEIGHTS * half / (step * math.sqrt(2 * math.pi)))


def nominal_levels(looks: Sequence[float], alpha: float = 0.05) -> tuple[float, ...]:
    """Return the two-sided p value that each look must reach so that all together spend alpha.

    Args: looks: when data are looked at, ascending, the planned last look included: repeats per
    cell (2, 3, 4, 5) or information fractions (.4, .6, .8, 1) give the same.
    Raises: ValueError when there is no look or they do not ascend from above zero.
    """
    if not looks or looks[0] <= 0 or list(looks) != sorted(set(looks)):
        raise ValueError(f"looks must ascend from above zero, not {looks}")
    levels = []
    paths, spent = _Paths(0.0, np.zeros(1), np.ones(1)), 0.0
    for look in looks:
        time = look / looks[-1]
        due = _spending(time, alpha / 2) - spent
        bound = _bound(paths, time, due)
        levels.append(2 * float(ndtr(-bound)))
        paths, spent = paths.advance(time, bound), spent + due
    return tuple(levels)


def conditional_power(z: float, t: float) -> float:
    """Return the chance to end significant if the trend goes on: Phi((z/sqrt(t)-1.96)/sqrt(1-t)).

    Args: z: the statistic now, towards the direction asked. t: information fraction in (0, 1).
    """
    return float(ndtr((z / math.sqrt(t) - float(ndtri(0.975))) / math.sqrt(1 - t)))


def _bound(paths: _Paths, time: float, due: float) -> float:
    """Return the z value that exactly `due` of the paths exceed at this time."""
    return float(brentq(lambda z: paths.crossing(time, z) - due, -_FAR, _FAR, xtol=1e-12))


def _spending(time: float, alpha: float) -> float:
    """Return the one-sided error that may be spent up to this information fraction."""
    return 2 * float(ndtr(ndtri(alpha / 2) / math.sqrt(time)))
