"""Scores per task and repeat -> intervals and the sign-flip test: numbers in, numbers out.

Every function takes one row of numbers per task and arm; rows may differ in length. A suite
interval judges these tasks and knows run-to-run noise only; `plus2_interval` judges tasks like
these. It knows no runs, no arms' names and no policy.

Coverage and false-verdict rates behind each choice: README.md, "How the statistics decide".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from skillgate.core import Interval

Rows = Iterable[Iterable[float]]
Floats = NDArray[np.float64]

BOOTSTRAP = "pooled-residual bootstrap, t-calibrated"
CLOSED = "pooled t"
PAIRED_T = "paired t on mean logs"
PLUS_2 = "plus-2 t"

RESAMPLES = 10_000
PSEUDO_LOG = 0.1  # ten percent: an interval of a ratio is never of zero width, and hardly wider for it
_CHUNK = 100  # rows of draws that stay in the processor's cache, in one buffer: a third of the time
_FLIP_GRID = 2**20
_ZERO = 1e-9  # a mean of floats that should be zero is rarely exactly zero


class NoInterval(ValueError):
    """Too few runs or tasks for this interval: there is no noise to see."""


class Noise(NamedTuple):
    """The run-to-run noise of two arms: what both forms of the suite interval need.

    `base_weights` and `head_weights` hold the share of each run in its arm's mean, `pool` the
    residuals to resample, already scaled to `variance`.
    """

    delta: float
    variance: float
    freedom: int
    base_weights: Floats
    head_weights: Floats
    pool: Floats

    @classmethod
    def of(cls, base: Rows, head: Rows, unit: float = 1.0) -> Noise:
        """Pool the residuals of all runs from their cell means.

        Two pseudo-residuals +-unit sqrt(1/2), one pseudo-degree of freedom, keep the variance above
        zero when all runs agree; `unit` is the range of a score, or PSEUDO_LOG for logs and
        relative numbers, which have none. Sorted, so that neither run nor task order matters.
        Raises: NoInterval when no cell repeats, ValueError when the rows do not match.
        """
        cells = [[np.sort(np.array([*row], dtype=np.float64)) for row in arm] for arm in (base, head)]
        if len(cells[0]) != len(cells[1]) or not all(row.size for row in chain(*cells)):
            raise ValueError("both arms need one row of at least one number for every task")
        residuals = np.concatenate([row - row.mean() for row in chain(*cells)])
        freedom = residuals.size - 2 * len(cells[0])
        if freedom < 1:
            raise NoInterval("one run per task and arm says nothing about run-to-run noise")
        pseudo = unit * math.sqrt(0.5)
        pool = np.sort(np.concatenate([residuals, [-pseudo, pseudo]]))
        squares = float(pool @ pool)
        return cls(
            delta=math.fsum(row.mean() for row in cells[1]) / len(cells[1])
            - math.fsum(row.mean() for row in cells[0]) / len(cells[0]),
            variance=squares / (freedom + 1),
            freedom=freedom,
            base_weights=_weights(cells[0]),
            head_weights=_weights(cells[1]),
            pool=pool * math.sqrt(pool.size / (freedom + 1)),
        )

    @property
    def error(self) -> float:
        """Return the standard error of the delta."""
        squares = float(self.base_weights @ self.base_weights + self.head_weights @ self.head_weights)
        return math.sqrt(self.variance * squares)

    def z(self, null: float = 0.0) -> float:
        """Return how far the delta is above `null`, as a standard normal number of the same p value."""
        return float(ndtri(stdtr(self.freedom, (self.delta - null) / self.error)))

    def closed(self, level: float) -> tuple[float, float]:
        """Return the ends of the interval by the t distribution."""
        half = _t(level, self.freedom) * self.error
        return self.delta - half, self.delta + half

    def bootstrap(self, level: float, seed: int) -> tuple[float, float]:
        """Return the ends by resampled noise, its quantiles stretched by t/z about the point."""
        stretch = _t(level, self.freedom) / float(ndtri((1 + level) / 2))
        low, high = np.quantile(self._resample(seed), [(1 - level) / 2, (1 + level) / 2])
        return self.delta + stretch * float(low), self.delta + stretch * float(high)

    def _resample(self, seed: int) -> Floats:
        """Draw RESAMPLES errors of the delta.

        Each draw of runs is used twice: as it is, and negated with the arms' roles exchanged,
        which has the same distribution. So swapping the arms mirrors the interval exactly.
        """
        straight = np.concatenate([-self.base_weights, self.head_weights])
        crossed = np.concatenate([self.head_weights, -self.base_weights])
        weights = np.stack([straight, crossed], axis=1)
        generator = np.random.default_rng(seed)
        draws, errors = np.empty((_CHUNK, straight.size)), np.empty((RESAMPLES // 2, 2))
        for start in range(0, len(errors), _CHUNK):
            picked = generator.integers(0, self.pool.size, draws.shape)
            self.pool.take(picked, out=draws, mode="clip")  # picks are in range: clipping spares a check
            np.matmul(draws, weights, out=errors[start : start + _CHUNK])
        return errors.ravel()


def suite_interval(base: Rows, head: Rows, level: float = 0.95, seed: int = 0, unit: float = 1.0) -> Interval:
    """Bound the mean delta head - base on these tasks by the t-calibrated residual bootstrap.

    Args: base, head: one row per task. level: at least .5. unit: the range of a score.
    Raises: NoInterval when no cell has two runs.
    """
    low, high = Noise.of(base, head, unit).bootstrap(level, seed)
    return Interval(low=low, high=high, level=level, method=BOOTSTRAP)


def suite_interval_closed(base: Rows, head: Rows, level: float = 0.95) -> Interval:
    """Bound the same delta by d +- t(nu) sqrt(s2 (1/r0 + 1/r1) / T); the check of the bootstrap."""
    low, high = Noise.of(base, head).closed(level)
    return Interval(low=low, high=high, level=level, method=CLOSED)


def cost_interval(base: Rows, head: Rows, level: float = 0.95, seed: int = 0) -> Interval:
    """Bound the geometric cost ratio head/base on these tasks: the same bootstrap on log dollars.

    Raises: ValueError when a cost is not above zero, NoInterval when no cell has two runs.
    """
    low, high = Noise.of(logs(base), logs(head), PSEUDO_LOG).bootstrap(level, seed)
    return Interval(low=math.exp(low), high=math.exp(high), level=level, method=BOOTSTRAP)


def cost_interval_closed(base: Rows, head: Rows, level: float = 0.95) -> Interval:
    """Bound the geometric cost ratio by the paired t on per-task mean logs; works with one repeat.

    Raises: ValueError when a cost is not above zero, NoInterval when all tasks have the same ratio.
    """
    ratios = _log_ratios(base, head)
    if np.ptp(ratios) < _ZERO:
        raise NoInterval("the paired t needs two tasks whose cost ratios differ")
    low, high = _mean_t(ratios, level)
    return Interval(low=math.exp(low), high=math.exp(high), level=level, method=PAIRED_T)


def geometric_ratio(base: Rows, head: Rows) -> float:
    """Return the geometric mean over tasks of the cost ratio head/base.

    Raises: ValueError when a cost is not above zero.
    """
    return math.exp(float(_log_ratios(base, head).mean()))


def plus2_interval(deltas: Iterable[float], c: float, level: float = 0.95) -> Interval:
    """Bound the mean delta over tasks like these: a t interval with two pseudo-tasks +c and -c.

    After the plus-four idea of Agresti & Caffo 2000. Use c = 1 if scores are 0 or 1, else 0.6.
    """
    low, high = _mean_t(np.array([*deltas, c, -c], dtype=np.float64), level)
    return Interval(low=low, high=high, level=level, method=PLUS_2)


def sign_flip(deltas: Iterable[float]) -> tuple[float, int]:
    """Test that the mean delta is zero, exactly and two-sided; return p and the non-zero deltas.

    The distribution of the flipped sum is built on a grid of a millionth of its range. A sum
    within the grid's rounding error of the observed one counts as extreme, so p is exact for
    scores that are shares of few graders and otherwise too large by less than the grid shows.
    """
    nonzero = np.array([d for d in deltas if abs(d) > _ZERO], dtype=np.float64)
    if not nonzero.size:
        return 1.0, 0
    exact = np.abs(nonzero) * (_FLIP_GRID / np.abs(nonzero).sum())
    steps = np.rint(exact).astype(int)
    positive = np.ones(1)  # positive[i]: probability that the deltas with sign + sum to i steps
    for step in steps.tolist():
        positive = np.pad(positive, (0, step)) + np.pad(positive, (step, 0))
        positive /= 2
    sums = np.abs(2 * np.arange(positive.size) - (positive.size - 1))
    observed = abs(float(np.sign(nonzero) @ exact))
    error = 2 * float(np.abs(steps - exact).sum()) + _ZERO
    return min(1.0, float(positive[sums >= observed - error].sum())), int(nonzero.size)


def _weights(rows: Sequence[Floats]) -> Floats:
    """Return the weight of each run in the mean of the task means, sorted."""
    sizes = np.sort(np.concatenate([np.full(row.size, row.size) for row in rows]))
    weights: Floats = 1.0 / (sizes * len(rows))
    return weights


def _t(level: float, freedom: int) -> float:
    """Return the t quantile of a two-sided interval."""
    return float(stdtrit(freedom, (1 + level) / 2))


def _mean_t(values: Floats, level: float) -> tuple[float, float]:
    """Return the t interval of a mean."""
    half = _t(level, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()) - half, float(values.mean()) + half


def _log_ratios(base: Rows, head: Rows) -> Floats:
    """Return the difference of the mean logs, one per task."""
    pairs = zip(logs(base), logs(head), strict=True)
    return np.array([math.fsum(h) / len(h) - math.fsum(b) / len(b) for b, h in pairs])


def logs(rows: Rows) -> list[list[float]]:
    """Take logs of all numbers; math.log raises ValueError at zero and below."""
    return [[math.log(value) for value in row] for row in rows]
