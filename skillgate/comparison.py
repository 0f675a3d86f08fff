"""Numbers of two arms: intervals, comparisons, the looks that a paired run took, how often we are wrong.

Part of `core`, which gives these names on: frozen, keyword-only structs whose field names are also the JSON
field names. No I/O, no other layer.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from skillgate.values import Struct


class Interval(Struct, kw_only=True):
    """A confidence interval; never of zero width."""

    low: float
    high: float
    level: float
    method: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"not an interval: [{self.low}, {self.high}]")


class Metric(StrEnum):
    """What a comparison compares."""

    PASS_RATIO = "pass_ratio"
    COST_RATIO = "cost_ratio"
    TOKENS = "tokens"
    TURNS = "turns"
    WALL_S = "wall_s"
    PASS_AT_1 = "pass_at_1"
    PASS_AT_2 = "pass_at_2"
    DEPTH = "depth"


class ArmPair(NamedTuple):
    """Which two arms a number compares, in this order."""

    base: str
    head: str


LABEL_ALPHA = 0.05


class Label(StrEnum):
    """The words of SWE-Skills-Bench (arXiv 2603.15401), by the sign-flip test at .05; not judged."""

    GOLDEN = "golden"
    HARMFUL = "harmful"
    INEFFECTIVE = "ineffective"


class SignFlip(Struct, kw_only=True):
    """The exact two-sided sign-flip test; `nonzero` deltas bound its least p at 2 / 2**nonzero."""

    p: float
    nonzero: int

    @property
    def can_reach_05(self) -> bool:
        """Say whether p <= .05 was possible at all (needs six non-zero deltas)."""
        return self.nonzero >= 6


class TaskDelta(Struct, kw_only=True):
    """One task in both arms. `base_values` and `head_values` hold one number per repeat."""

    task: str
    base_values: tuple[float, ...]
    head_values: tuple[float, ...]

    @property
    def base(self) -> float:
        """Return the mean over the repeats of the base arm."""
        return sum(self.base_values) / len(self.base_values)

    @property
    def head(self) -> float:
        """Return the mean over the repeats of the head arm."""
        return sum(self.head_values) / len(self.head_values)

    @property
    def delta(self) -> float:
        """Return head minus base."""
        return self.head - self.base

    @property
    def fell_by_half(self) -> bool:
        """Say whether every head run lies below every base run, by a mean drop >= .5."""
        return max(self.head_values) < min(self.base_values) and self.delta <= -0.5

    @property
    def collapsed(self) -> bool:
        """Say whether it fell by half, and three repeats show it: fewer give many false alarms."""
        return self.fell_by_half and min(len(self.base_values), len(self.head_values)) >= 3


class Comparison(Struct, kw_only=True):
    """One metric in two arms, paired by task.

    For `cost_ratio`, `base` and `head` are mean dollars per run and `delta` is the geometric
    ratio head/base (1 means equal); for every other metric `delta` is head minus base.
    `interval` judges this suite; `generalised` judges tasks like these and is wider. `p` belongs to
    `interval`: about 1 - level of the one that would just touch "no change", None where none exists.
    `n_unpaired` runs count without a partner, as only one arm was to have so many repeats.
    """

    metric: Metric
    arms: ArmPair
    tasks: int
    repeats: int
    n_pairs: int
    n_dropped: int
    base: float
    head: float
    delta: float
    interval: Interval | None = None
    generalised: Interval | None = None
    sign_flip: SignFlip | None = None
    by_task: tuple[TaskDelta, ...] = ()
    p: float | None = None
    n_unpaired: int = 0

    @property
    def rows(self) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
        """Return the numbers of the base and of the head, a row for each task."""
        return [row.base_values for row in self.by_task], [row.head_values for row in self.by_task]

    @property
    def label(self) -> Label | None:
        """Return what SWE-Skills-Bench would call the head, None for other metrics than the pass ratio."""
        if self.sign_flip is None:
            return None
        if self.sign_flip.p > LABEL_ALPHA:
            return Label.INEFFECTIVE
        return Label.GOLDEN if self.delta > 0 else Label.HARMFUL

    @property
    def total_ratio(self) -> float | None:
        """Return the ratio of totals head/base, None when the base is zero."""
        return self.head / self.base if self.base else None

    @property
    def gain(self) -> float | None:
        """Return Hake's normalised gain of a pass ratio, None when the base is perfect."""
        return (self.head - self.base) / (1 - self.base) if self.base < 1 else None

    @property
    def dropped_share(self) -> float:
        """Return the share of planned pairs that have no score, in [0, 1]."""
        planned = self.n_pairs + self.n_dropped
        return self.n_dropped / planned if planned else 0.0


# --- looks ------------------------------------------------------------------------


class Stop(StrEnum):
    """Why a paired run ended at a look."""

    DECIDED = "decided"
    FUTILE = "futile"
    BROKEN = "broken"
    LAST = "last"
    CUT = "cut"


class Look(Struct, kw_only=True):
    """A moment when the runs so far were judged, after whole repeats.

    `repeats` of at most `planned`; `information` is the share of what the whole plan would know about the
    delta, in (0, 1]; `level` is that of the intervals at this look. `stop` is None where it went on.
    """

    repeats: int
    planned: int
    information: float
    level: float
    stop: Stop | None = None


# --- calibration ------------------------------------------------------------------


class Rate(Struct, kw_only=True):
    """How often something happened, with an interval for that share."""

    events: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Return events / trials, in [0, 1]."""
        return self.events / self.trials if self.trials else 0.0


class FlakyTask(Struct, kw_only=True):
    """A task whose runs disagree although nothing differs; `sd` is of their pass ratios."""

    task: str
    runs: int
    sd: float
    low: float
    high: float


class Calibration(Struct, kw_only=True):
    """How often identical skills were called different on a suite: what reports cite.

    Real runs of one content are split at random into two arms of `repeats` repeats, `splits` times.
    `false_merge` plants a drop of exactly the margin in the head; `called_different` are the splits with a
    block, or with a merge for being better. `suites` maps names to digests.
    """

    schema: int = 1
    made: str
    skillgate: str
    agent: str
    model: str
    suites: dict[str, str]
    tasks: int
    runs: int
    repeats: int
    splits: int
    seed: int
    margin: float
    level: float
    false_block: Rate
    false_merge: Rate
    called_different: Rate
    coverage: Rate
    sd: float
    flaky: tuple[FlakyTask, ...] = ()
