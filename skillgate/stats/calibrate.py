"""Real runs of one content -> how often the gate errs when nothing differs.

A content is what decides a run: skill, task, agent, model, settings. Runs of one task with one content are
exchangeable, so each task's runs are split at random, without replacement, into two arms, and the two are
gated like any others, thousands of times (a test of A against A).

Why the interval may be judged by that: the means of two disjoint random parts of r0 and r1 of the n runs of
a task differ by 0 on average. With S^2 the variance of the n runs (divisor n - 1), the means of a part have
the variance S^2 (1/r - 1/n) and the covariance -S^2/n (Cochran 1977, Sampling Techniques, chapter 2), so
their difference has S^2 (1/r0 + 1/r1), whatever n is; and the variance within a part is S^2 on average. That
is what the suite interval takes of independent runs. Nothing is assumed of the order of the runs: a drift
between early and late ones is spread over both arms.

It knows neither journals nor records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from skillgate.core import Decision, FlakyTask, Policy, Rate
from skillgate.stats.batch import DECISIONS, Arms, play
from skillgate.stats.intervals import Floats
from skillgate.stats.sequential import Design

FEWEST_REPEATS = 2
"""With one run in an arm there is no interval to be right or wrong."""

SPLITS = 10_000

_CHUNK = 1_000  # splits at once: some megabytes
_ZERO = 1e-9


class Score(NamedTuple):
    """One run: its pass ratio in [0, 1], and dollars."""

    ratio: float
    usd: float


Content = Mapping[str, Sequence[Score]]
"""The runs of one content by task, in any order."""


class TooFewRuns(ValueError):
    """No task has enough runs of one content; `missing` more runs would be enough for the fullest."""

    def __init__(self, needed: int, missing: int) -> None:
        super().__init__(f"every task needs {needed} runs of one content")
        self.needed = needed
        self.missing = missing


class Calibrated(NamedTuple):
    """What the splits showed.

    `contents` were pooled, which can be split in `distinct` ways; `left_out` are tasks with too few runs.
    """

    contents: int
    distinct: int
    tasks: int
    runs: int
    repeats: int
    splits: int
    false_block: Rate
    false_merge: Rate
    called_different: Rate
    coverage: Rate
    sd: float
    flaky: tuple[FlakyTask, ...]
    left_out: tuple[str, ...]


def calibrate(
    contents: Sequence[Content],
    policy: Policy,
    *,
    repeats: int | None = None,
    splits: int = SPLITS,
    seed: int = 0,
) -> Calibrated:
    """Split the runs of each content into two arms and gate these, `splits` times in all.

    A task whose runs are too few for two arms is left out of its content; of one with more, each split takes
    some at random. Several contents share the splits evenly, each is split by itself, and what happened is
    added up: each counts the same, and none is compared with another. A content with less than half as many
    tasks as the fullest is no gate of this suite and is left out.

    `false_block` are blocks; `called_different` adds intervals above zero; `coverage` are intervals that hold
    zero. For `false_merge` a drop of exactly the policy's margin is planted in the scores of the head.

    Args: repeats: runs in each arm, at least 2; by default half of the least runs that a task has. With
    four or more the arms are looked at as they grow, as in a gate.
    Raises: TooFewRuns; ValueError for less than two repeats or no splits.
    """
    if splits < 1 or (repeats is not None and repeats < FEWEST_REPEATS):
        raise ValueError("at least two repeats and one split")
    needed = 2 * (repeats or FEWEST_REPEATS)
    used = _used(contents, needed)
    if not used:
        raise TooFewRuns(needed, _missing(contents, needed))
    each = repeats or min(len(runs) for content in used for runs in content.values()) // 2
    counts = _Counts()
    for number, content in enumerate(used):
        share = splits // len(used) + (number < splits % len(used))
        counts = counts.plus(_count(content, policy, each, share, np.random.default_rng([seed, number])))
    tasks = {task for content in used for task in content}
    return Calibrated(
        contents=len(used),
        distinct=sum(_ways(content, each) for content in used),
        tasks=len(tasks),
        runs=sum(len(runs) for content in used for runs in content.values()),
        repeats=each,
        splits=splits,
        false_block=rate(counts.blocked, splits),
        false_merge=rate(counts.merged, splits),
        called_different=rate(counts.different, splits),
        coverage=rate(counts.covered, splits),
        sd=_pooled_sd(used),
        flaky=_flaky(used),
        left_out=tuple(sorted({task for content in contents for task in content} - tasks)),
    )


def rate(events: int, trials: int, level: float = 0.95) -> Rate:
    """Return a share with its exact interval (Clopper & Pearson 1934).

    Of splits it says how well their share is known, not how another suite or other runs would do.
    """
    tail = (1 - level) / 2
    low = float(betaincinv(events, trials - events + 1, tail)) if events else 0.0
    high = float(betaincinv(events + 1, trials - events, 1 - tail)) if events < trials else 1.0
    return Rate(events=events, trials=trials, low=low, high=high)


class _Counts(NamedTuple):
    """How many splits were what."""

    blocked: int = 0
    merged: int = 0
    different: int = 0
    covered: int = 0

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def _used(contents: Sequence[Content], needed: int) -> list[dict[str, Sequence[Score]]]:
    """Return the tasks of each content with enough runs, sorted, and only contents with enough tasks."""
    every = [{t: c[t] for t in sorted(c) if len(c[t]) >= needed} for c in contents]
    most = max(map(len, every), default=0)
    return [content for content in every if content and 2 * len(content) >= most]


def _missing(contents: Sequence[Content], needed: int) -> int:
    """Return how many runs the content that lacks least would need to have enough for all of its tasks."""
    lacks = (sum(max(0, needed - len(runs)) for runs in content.values()) for content in contents if content)
    return min(lacks, default=needed)


def _count(
    content: Content, policy: Policy, repeats: int, splits: int, generator: np.random.Generator
) -> _Counts:
    planned = [repeats] * len(content)
    design = Design.of(planned, planned, 1 - policy.level)
    counts = _Counts()
    for arms in _arms(content, repeats, splits, generator):
        same = play(arms, policy, design)
        worse = play(arms._replace(head=arms.head - policy.margin), policy, design)
        blocked = same.decision == DECISIONS.index(Decision.BLOCK)
        counts = counts.plus(
            _Counts(
                blocked=int(blocked.sum()),
                merged=int((worse.decision == DECISIONS.index(Decision.MERGE)).sum()),
                different=int((blocked | (same.low > 0)).sum()),
                covered=int(((same.low <= 0) & (same.high >= 0)).sum()),
            )
        )
    return counts


def _arms(content: Content, repeats: int, splits: int, generator: np.random.Generator) -> Iterator[Arms]:
    """Yield all splits, some at a time: arms of (splits, tasks, repeats).

    As in a comparison there are no cost intervals when a run cost nothing.
    """
    tables = [np.array(runs, dtype=np.float64) for runs in content.values()]
    paid = all((table[:, 1] > 0).all() for table in tables)
    for start in range(0, splits, _CHUNK):
        count = min(_CHUNK, splits - start)
        drawn = np.stack([_drawn(table, 2 * repeats, count, generator) for table in tables], axis=1)
        base, head = drawn[:, :, :repeats], drawn[:, :, repeats:]
        yield Arms(base[..., 0], head[..., 0], *((base[..., 1], head[..., 1]) if paid else (None, None)))


def _drawn(table: Floats, size: int, count: int, generator: np.random.Generator) -> Floats:
    """Draw `size` rows in random order, without replacement, `count` times over."""
    order = generator.random((count, len(table))).argsort(axis=1)[:, :size]
    rows: Floats = table[order]
    return rows


def _ways(content: Content, repeats: int) -> int:
    """Return how many different splits there are."""
    return math.prod(
        math.comb(len(runs), 2 * repeats) * math.comb(2 * repeats, repeats) for runs in content.values()
    )


def _pooled_sd(contents: Sequence[Content]) -> float:
    """Return the standard deviation of pass ratios among the runs of a task."""
    groups = [[score.ratio for score in runs] for content in contents for runs in content.values()]
    return math.sqrt(sum(map(_squares, groups)) / sum(len(ratios) - 1 for ratios in groups))


def _flaky(contents: Sequence[Content]) -> tuple[FlakyTask, ...]:
    """Return the tasks whose runs disagree, worst first, each as in the content where it is worst."""
    found: dict[str, FlakyTask] = {}
    for content in contents:
        for task, runs in content.items():
            ratios = [score.ratio for score in runs]
            sd = math.sqrt(_squares(ratios) / (len(ratios) - 1))
            if sd > max(_ZERO, found[task].sd if task in found else 0.0):
                found[task] = FlakyTask(task=task, runs=len(runs), sd=sd, low=min(ratios), high=max(ratios))
    return tuple(sorted(found.values(), key=lambda flaky: (-flaky.sd, flaky.task)))


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squares about the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)
