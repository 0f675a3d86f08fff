"""Runs of two arms -> one Comparison per metric, with its intervals and its test.

Runs are paired by task and repeat. Where both runs of a pair were planned only both together count:
the rest is dropped and counted, never scored as zero. A repeat that only one arm was to have counts
alone, once its task has a pair. It knows no policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace
from scipy.special import ndtr

from skillgate.core import ArmPair, Cell, Comparison, Interval, Metric, Run, SignFlip, TaskDelta
from skillgate.stats.intervals import (
    PSEUDO_LOG,
    NoInterval,
    Noise,
    Rows,
    cost_interval,
    cost_interval_closed,
    geometric_ratio,
    plus2_interval,
    sign_flip,
    suite_interval,
    suite_interval_closed,
)
from skillgate.values import usd

__all__ = [
    "compare",
    "cost_interval",
    "cost_interval_closed",
    "plus2_interval",
    "sign_flip",
    "suite_interval",
    "suite_interval_closed",
]

_VALUES: dict[Metric, Callable[[Run], float]] = {
    Metric.PASS_RATIO: lambda run: run.pass_ratio or 0.0,  # never None in a complete pair
    Metric.COST_RATIO: lambda run: usd(run.usage.usd_micros),
    Metric.TOKENS: lambda run: float(run.usage.tokens),
    Metric.TURNS: lambda run: float(run.usage.turns),
    Metric.WALL_S: lambda run: run.wall_s,
    Metric.PASS_AT_1: lambda run: _passed_within(run, 1) / run.planned_steps,
    Metric.PASS_AT_2: lambda run: _passed_within(run, 2) / run.planned_steps,
    Metric.DEPTH: lambda run: float(sum(step.passed_at is not None for step in run.steps)),
}
_OF_STEPS = (Metric.PASS_AT_1, Metric.PASS_AT_2, Metric.DEPTH)


def _passed_within(run: Run, attempts: int) -> int:
    return sum(step.passed_at is not None and step.passed_at <= attempts for step in run.steps)


def compare(
    runs: Sequence[Run], arms: ArmPair, planned: Sequence[Cell], level: float = 0.95, seed: int = 0
) -> tuple[Comparison, ...]:
    """Compare two arms by every metric, in the order of Metric.

    `repeats` is the least number of complete pairs over the tasks that have any; tasks without
    one are left out. With one pair per task only cost has an interval. Costs have none when a run
    cost nothing (zero has no logarithm): `delta` is then the ratio of totals, and the comparison
    is left out when the base arm cost nothing at all. Pass@1, Pass@2 and depth (tasks passed in a row)
    are compared where every run is of a chain, or of tasks with several attempts.

    Args: planned: the cells of the plan; a pair is planned when both arms' cells are.
    Returns: an empty tuple when no planned pair is complete.
    """
    scored = _Scored.of(runs, arms, planned)
    if not scored.sides:
        return ()
    stepped = all(run.planned_steps for side in scored.sides.values() for arm in side for run in arm)
    metrics = [metric for metric in Metric if stepped or metric not in _OF_STEPS]
    every = (_describe(metric, arms, scored) for metric in metrics)
    judged = (_judge(comparison, level, seed) for comparison in every)
    return tuple(comparison for comparison in judged if comparison is not None)


class _Scored(NamedTuple):
    """The runs that count, per task: of the base, of the head; and how many pairs there are and are not."""

    sides: dict[str, tuple[list[Run], list[Run]]]
    pairs: int
    least: int
    dropped: int

    @classmethod
    def of(cls, runs: Sequence[Run], arms: ArmPair, planned: Sequence[Cell]) -> _Scored:
        known = {run.cell: run for run in runs if run.pass_ratio is not None}
        cells = {cell for cell in planned if cell.arm in arms}
        sides: dict[str, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
        pairs: dict[str, int] = defaultdict(int)
        dropped = 0
        for task, repeat in sorted({(cell.task, cell.repeat) for cell in cells}):
            both = [Cell(task=task, arm=arm, repeat=repeat) for arm in arms]
            wanted = [cell for cell in both if cell in cells]
            if not all(cell in known for cell in wanted):
                dropped += len(wanted) == len(both)
                continue
            pairs[task] += len(wanted) == len(both)
            for cell in wanted:
                sides[task][both.index(cell)].append(known[cell])
        paired = {task: side for task, side in sides.items() if pairs[task]}
        counts = [pairs[task] for task in paired]
        return cls(paired, sum(counts), min(counts, default=0), dropped)


def _describe(metric: Metric, arms: ArmPair, scored: _Scored) -> Comparison:
    """Fill in what needs no inference; every task weighs the same."""
    value = _VALUES[metric]
    rows = tuple(
        TaskDelta(task=task, base_values=tuple(map(value, base)), head_values=tuple(map(value, head)))
        for task, (base, head) in scored.sides.items()
    )
    base, head = fmean(row.base for row in rows), fmean(row.head for row in rows)
    return Comparison(
        metric=metric,
        arms=arms,
        tasks=len(rows),
        repeats=scored.least,
        n_pairs=scored.pairs,
        n_dropped=scored.dropped,
        n_unpaired=sum(len(row.base_values) + len(row.head_values) for row in rows) - 2 * scored.pairs,
        base=base,
        head=head,
        delta=head - base,
        by_task=rows,
    )


def _judge(plain: Comparison, level: float, seed: int) -> Comparison | None:
    match plain.metric:
        case Metric.PASS_RATIO:
            return _judge_scores(plain, level, seed)
        case Metric.COST_RATIO:
            return _judge_cost(plain, level, seed)
        case Metric.PASS_AT_1 | Metric.PASS_AT_2:
            found = _if_repeated(*plain.rows, level, seed)
            return replace(plain, interval=_within_scores(found))
        case _:
            return replace(plain, interval=_amount_interval(plain, level, seed))


def _judge_scores(plain: Comparison, level: float, seed: int) -> Comparison:
    deltas = [row.delta for row in plain.by_task]
    binary = all(value in (0.0, 1.0) for value in chain(*plain.rows[0], *plain.rows[1]))
    p, nonzero = sign_flip(deltas)
    return replace(
        plain,
        interval=_within_scores(_if_repeated(*plain.rows, level, seed)),
        generalised=_within_scores(plus2_interval(deltas, 1.0 if binary else 0.6, level)),
        sign_flip=SignFlip(p=p, nonzero=nonzero),
        p=_p_value(*plain.rows),
    )


def _p_value(base: Rows, head: Rows) -> float | None:
    """Return the two-sided p value of the closed form, which the bootstrap agrees with."""
    if not _both_repeat(base, head):
        return None
    try:
        return 2 * float(ndtr(-abs(Noise.of(base, head).z())))
    except NoInterval:
        return None


def _both_repeat(base: Rows, head: Rows) -> bool:
    """Say whether each arm shows noise of its own: reused runs of a base say nothing of the head's."""
    return all(any(len([*row]) > 1 for row in arm) for arm in (base, head))


def _within_scores(found: Interval | None) -> Interval | None:
    """Cut an interval to what a difference of pass ratios can be."""
    return found and replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _judge_cost(plain: Comparison, level: float, seed: int) -> Comparison | None:
    """Compare dollars by their ratio; None when there is nothing to divide by."""
    base, head = plain.rows
    if plain.total_ratio is None:
        return None
    if min(chain(*base, *head)) <= 0:
        return replace(plain, delta=plain.total_ratio)
    return replace(
        plain, delta=geometric_ratio(base, head), interval=_ratio_interval(base, head, level, seed)
    )


def _ratio_interval(base: Rows, head: Rows, level: float, seed: int) -> Interval | None:
    """Bound a cost ratio by its noise, without repeats by its spread over tasks."""
    try:
        return cost_interval(base, head, level, seed)
    except NoInterval:
        pass
    try:
        return cost_interval_closed(base, head, level)
    except NoInterval:
        return None


def _amount_interval(plain: Comparison, level: float, seed: int) -> Interval | None:
    """Bound a difference of amounts, whose scale is their mean."""
    unit = PSEUDO_LOG * (plain.base + plain.head) / 2 or 1.0
    return _if_repeated(*plain.rows, level, seed, unit)


def _if_repeated(base: Rows, head: Rows, level: float, seed: int, unit: float = 1.0) -> Interval | None:
    if not _both_repeat(base, head):
        return None
    try:
        return suite_interval(base, head, level, seed, unit)
    except NoInterval:
        return None
