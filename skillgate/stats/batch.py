"""Many data sets at once -> the verdict of each, by the closed forms: for simulation and calibration.

Plays thousands of gates as `compare`, `decide` and `examine` would, on arrays of (data sets, tasks,
repeats); a test holds them side by side. The bootstrap is replaced by its closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from skillgate.core import Decision, Policy
from skillgate.stats.intervals import PSEUDO_LOG, Floats
from skillgate.stats.sequential import SLIM_CHANCE, Design
from skillgate.stats.verdict import TABLE, Cost, Quality

Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]

DECISIONS = tuple(Decision)
_ROUNDING = 1e-12
_CODES = np.array([[DECISIONS.index(TABLE[q][c]) for c in Cost] for q in Quality])
_QUALITY = {quality: number for number, quality in enumerate(Quality)}


class Noises(NamedTuple):
    """`Noise` for many data sets: deltas and standard errors of shape (data sets,)."""

    delta: Floats
    error: Floats
    freedom: int

    @classmethod
    def of(cls, base: Floats, head: Floats, unit: float = 1.0) -> Noises:
        """Args: base, head: (data sets, tasks, repeats), at least two repeats in one of them."""
        tasks, (r0, r1) = base.shape[1], (base.shape[2], head.shape[2])
        freedom = tasks * (r0 + r1 - 2)
        squares = sum(((arm - arm.mean(axis=2, keepdims=True)) ** 2).sum(axis=(1, 2)) for arm in (base, head))
        error = np.sqrt((squares + unit**2) / (freedom + 1) * (1 / r0 + 1 / r1) / tasks)
        return cls(head.mean(axis=(1, 2)) - base.mean(axis=(1, 2)), error, freedom)

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Return the low and the high ends of the suite intervals."""
        half = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error
        return self.delta - half, self.delta + half

    def z(self, null: float = 0.0) -> Floats:
        """Return how far each delta is above `null`, as a standard normal number."""
        found: Floats = ndtri(stdtr(self.freedom, (self.delta - null) / self.error))
        return found


class Arms(NamedTuple):
    """Pass ratios and dollars of both arms, each of shape (data sets, tasks, repeats)."""

    base: Floats
    head: Floats
    base_usd: Floats | None = None
    head_usd: Floats | None = None

    def first(self, repeats: int, rows: Codes) -> Arms:
        """Return what is known of some data sets after so many repeats."""

        def cut(part: Floats) -> Floats:
            return part[rows, :, :repeats]

        base_usd = None if self.base_usd is None else cut(self.base_usd)
        head_usd = None if self.head_usd is None else cut(self.head_usd)
        return Arms(cut(self.base), cut(self.head), base_usd, head_usd)


class Played(NamedTuple):
    """For each data set: the index of its decision in DECISIONS, the repeats used, the interval's ends."""

    decision: Codes
    repeats: Codes
    low: Floats
    high: Floats

    def share(self, decision: Decision) -> float:
        """Return how often a decision was made."""
        return float((self.decision == DECISIONS.index(decision)).mean())


def play(arms: Arms, policy: Policy, design: Design) -> Played:
    """Gate every data set: look by look, ending each where `examine` would."""
    count = len(arms.base)
    codes, used = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    low, high = np.zeros(count), np.zeros(count)
    going = np.arange(count)
    for number, repeats in enumerate(design.repeats):
        look = _Looked.at(arms.first(repeats, going), policy, 1 - design.levels[number])
        last = number == len(design.repeats) - 1
        ends = np.ones(len(going), dtype=bool) if last else look.ends(policy, design.times[number])
        codes[going[ends]], used[going[ends]] = look.decisions[ends], repeats
        low[going[ends]], high[going[ends]] = look.interval[0][ends], look.interval[1][ends]
        going = going[~ends]
        if not going.size:
            break
    return Played(codes, used, low, high)


class _Looked(NamedTuple):
    """What one look sees of many data sets."""

    scores: Noises
    costs: Noises | None
    quality: Codes
    cost: Codes
    interval: tuple[Floats, Floats]
    may_collapse: Flags

    @classmethod
    def at(cls, arms: Arms, policy: Policy, level: float) -> _Looked:
        scores = Noises.of(arms.base, arms.head)
        low, high = scores.ends(level)
        fell = _fell_by_half(arms)
        seen = fell & (min(arms.base.shape[2], arms.head.shape[2]) >= 3)
        costs, cost = None, np.full(len(low), int(Cost.UNCLEAR))
        if arms.base_usd is not None and arms.head_usd is not None:
            costs = Noises.of(np.log(arms.base_usd), np.log(arms.head_usd), PSEUDO_LOG)
            cheap, dear = costs.ends(level)
            limit = math.log1p(policy.max_cost_increase)
            cost = np.select([dear <= limit, cheap > limit], [int(Cost.WITHIN), int(Cost.OVER)], cost)
        states = [
            (high < 0, Quality.WORSE),
            (seen.any(axis=1), Quality.COLLAPSED),
            (low > 0, Quality.BETTER),
            (low > -policy.margin, Quality.NO_WORSE),
            (scores.delta <= -policy.margin + _ROUNDING, Quality.FELL),
        ]
        quality = np.select(
            [mask for mask, _ in states], [_QUALITY[q] for _, q in states], _QUALITY[Quality.OPEN]
        )
        return cls(scores, costs, quality, cost, (low, high), (fell & ~seen).any(axis=1))

    @property
    def decisions(self) -> Codes:
        codes: Codes = _CODES[self.quality, self.cost]
        return codes

    def ends(self, policy: Policy, time: float) -> Flags:
        """Say which data sets end here, before the last look."""
        limit = math.log1p(policy.max_cost_increase)
        nothing = np.zeros(len(self.quality), dtype=bool)

        def likely(z: Floats) -> Flags:
            chance = ndtr((z / math.sqrt(time) - ndtri(0.975)) / math.sqrt(1 - time))
            flags: Flags = chance >= SLIM_CHANCE
            return flags

        worse, better = likely(-self.scores.z()), likely(self.scores.z())
        no_worse = likely(self.scores.z(-policy.margin))
        over = nothing if self.costs is None else likely(self.costs.z(limit))
        within = nothing if self.costs is None else likely(-self.costs.z(limit))
        is_worse = self.quality == _QUALITY[Quality.WORSE]
        is_no_worse = self.quality == _QUALITY[Quality.NO_WORSE]
        is_better = self.quality == _QUALITY[Quality.BETTER]
        shown = is_worse | is_no_worse | is_better
        unclear = self.cost == int(Cost.UNCLEAR)
        settled = is_worse | (is_better & ~(unclear & over)) | (is_no_worse & ~unclear)
        settled |= ~shown & (self.cost == int(Cost.OVER)) & ~worse
        decided = settled & (is_worse | ~self.may_collapse)
        is_open = ~shown & (self.quality != _QUALITY[Quality.COLLAPSED])
        futile = np.where(is_no_worse, ~(better | within | over), is_open & ~(worse | no_worse))
        ends: Flags = decided | futile
        return ends


def _fell_by_half(arms: Arms) -> Flags:
    """Say of each task whether every head run lies below every base run, by a mean drop >= .5."""
    apart = arms.head.max(axis=2) < arms.base.min(axis=2)
    flags: Flags = apart & (arms.head.mean(axis=2) - arms.base.mean(axis=2) <= -0.5)
    return flags


def fixed(repeats: int, level: float = 0.95) -> Design:
    """Return a design with one look."""
    return Design((repeats,), (1.0,), (1 - level,))


def peeking(repeats: Sequence[int], level: float = 0.95) -> Design:
    """Return a design that looks as often at the full level: what one must not do."""
    return Design(tuple(repeats), tuple(r / repeats[-1] for r in repeats), (1 - level,) * len(repeats))
