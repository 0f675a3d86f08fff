"""Looks at growing data -> how strict each look must be, and whether going on can pay.

O'Brien-Fleming-type error spending (Lan & DeMets 1983), alpha / 2 for each direction. It knows
neither runs nor budgets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from skillgate.core import Comparison, Policy, Stop
from skillgate.stats.intervals import PSEUDO_LOG, Noise, logs
from skillgate.stats.verdict import Cost, Quality, Standing, decisions, standing

FEWEST_REPEATS = 4
"""With fewer repeats there is one look: two early ones would cost power and save nothing."""

SLIM_CHANCE = 0.10
"""A bound that is reached with less than this conditional power is given up."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FAR = 9.0  # standard deviations; beyond lies less than 1e-18
_LEAST_P = 1e-12  # smaller ones count as this: their bounds lie beyond _FAR


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


class Design(NamedTuple):
    """When a paired run is judged, and how strictly; fixed before its first run.

    `repeats`, ascending, after which to look; `times`, the share of the information that is there by then;
    `levels`, the two-sided p value that each look must reach.
    """

    repeats: tuple[int, ...]
    times: tuple[float, ...]
    levels: tuple[float, ...]

    @classmethod
    def of(cls, head: Sequence[int], base: Sequence[int], alpha: float, *, early: bool = True) -> Design:
        """Plan looks after 2, 3, ... whole repeats, or one at the end.

        Args: head, base: planned repeats of each task; those of the base that go beyond the head's are
        there from the start. early: whether to look before the end.
        """
        last = max(head)
        at = range(2, last + 1) if early and last >= FEWEST_REPEATS else (last,)
        known = [_information(head, base, repeats) for repeats in at]
        times = [information / known[-1] for information in known]
        kept = [i for i in range(len(times)) if i == 0 or times[i] > times[i - 1]]
        times = [times[i] for i in kept]
        return cls(tuple(at[i] for i in kept), tuple(times), nominal_levels(times, alpha))


def _information(head: Sequence[int], base: Sequence[int], repeats: int) -> float:
    """Return one over the variance of the mean delta after so many repeats, in units of one run's."""
    pairs = zip(head, base, strict=True)
    return 1 / sum(1 / min(h, repeats) + 1 / (max(b - h, 0) + min(h, b, repeats)) for h, b in pairs)


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


def repeated_p(design: Design, number: int, p: float) -> float:
    """Return the p value of a whole design whose look `number` has the nominal p value `p`.

    The least alpha at which that look would have found something (Jennison & Turnbull 1999, chapter 9):
    valid whenever one stops.
    """
    if len(design.times) == 1 or p >= 1:
        return min(p, 1.0)

    p = max(p, _LEAST_P)

    def excess(alpha: float) -> float:
        return nominal_levels(design.times, alpha)[number] - p

    low, high = p / 2, 1 - 1e-9
    return 1.0 if excess(high) <= 0 else float(brentq(excess, low, high, xtol=1e-15, rtol=1e-6))


def examine(
    comparisons: Sequence[Comparison], policy: Policy, design: Design, number: int, skills: int = 1
) -> Stop | None:
    """Say whether to end at look `number` (from 0), and why; None to go on.

    It ends when every state that can still be reached gives the same decision, or when neither "worse" nor
    "no worse" is still likely to be shown. A block among several `skills` must stand up to all of them.
    """
    if number == len(design.levels) - 1:
        return Stop.LAST
    now = standing(comparisons, policy)
    if now is None:
        return None
    ahead = _Ahead.of(now, policy, design.times[number])
    if now.quality is Quality.WORSE and skills > 1:
        p = 1.0 if now.scores.p is None else repeated_p(design, number, now.scores.p)
        return Stop.DECIDED if p <= (1 - policy.level) / skills else None
    if _is_decided(now, ahead):
        return Stop.DECIDED
    return Stop.FUTILE if _is_futile(now, ahead) else None


class _Ahead(NamedTuple):
    """What the rest of the runs may still show."""

    worse: bool
    no_worse: bool
    better: bool
    over: bool
    within: bool

    @classmethod
    def of(cls, now: Standing, policy: Policy, time: float) -> _Ahead:
        """Ask for each bound whether its conditional power is above SLIM_CHANCE."""
        scores = Noise.of(*now.scores.rows)
        cost = _log_noise(now.costs) if now.costs else None
        limit = math.log1p(policy.max_cost_increase)

        def likely(z: float) -> bool:
            return conditional_power(z, time) >= SLIM_CHANCE

        return cls(
            worse=likely(-scores.z()),
            no_worse=likely(scores.z(-policy.margin)),
            better=likely(scores.z()),
            over=cost is not None and likely(cost.z(limit)),
            within=cost is not None and likely(-cost.z(limit)),
        )


def _log_noise(costs: Comparison) -> Noise:
    base, head = costs.rows
    return Noise.of(logs(base), logs(head), PSEUDO_LOG)


_SHOWN = (Quality.WORSE, Quality.BETTER, Quality.NO_WORSE)


def _is_decided(now: Standing, ahead: _Ahead) -> bool:
    """Say whether all qualities and costs that may still come out give one decision."""
    if now.quality is Quality.NO_WORSE and now.cost is Cost.UNCLEAR:
        return False
    if now.quality in _SHOWN:
        qualities = {now.quality}
    else:
        qualities = {*Quality} - (set() if ahead.worse else {Quality.WORSE})
    costs = {now.cost}
    if now.cost is Cost.UNCLEAR:
        costs |= ({Cost.WITHIN} if ahead.within else set()) | ({Cost.OVER} if ahead.over else set())
    if now.quality is not Quality.WORSE and _may_collapse(now.scores):
        return False
    return len(decisions(qualities, costs)) == 1


def _may_collapse(scores: Comparison) -> bool:
    """Say whether a task fell by half so far, in too few repeats for the guard to see it."""
    return any(row.fell_by_half and not row.collapsed for row in scores.by_task)


def _is_futile(now: Standing, ahead: _Ahead) -> bool:
    """Say whether what is open will most likely stay open."""
    if now.quality is Quality.NO_WORSE:
        return not (ahead.better or ahead.within or ahead.over)
    if now.quality is Quality.COLLAPSED:
        return False  # three repeats raise the alarm, all of them confirm it
    return not (ahead.worse or ahead.no_worse)


def _bound(paths: _Paths, time: float, due: float) -> float:
    """Return the z value that exactly `due` of the paths exceed at this time, at most _FAR."""
    if paths.crossing(time, _FAR) >= due:
        return _FAR
    return float(brentq(lambda z: paths.crossing(time, z) - due, -_FAR, _FAR, xtol=1e-12))


def _spending(time: float, alpha: float) -> float:
    """Return the one-sided error that may be spent up to this information fraction."""
    return 2 * float(ndtr(ndtri(alpha / 2) / math.sqrt(time)))
