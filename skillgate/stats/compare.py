"""Runs of two arms -> one Comparison per metric, with its intervals and its test.

Runs are paired by task and repeat. Only complete pairs count: both runs planned, executed
and scored. The rest is dropped and counted, never scored as zero. It knows no policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import fmean

from msgspec.structs import replace

from skillgate.core import ArmPair, Cell, Comparison, Interval, Metric, Run, SignFlip, TaskDelta
from skillgate.stats.intervals import (
    PSEUDO_LOG,
    NoInterval,
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

Pairs = dict[str, list[tuple[Run, Run]]]

_VALUES: dict[Metric, Callable[[Run], float]] = {
    Metric.PASS_RATIO: lambda run: run.pass_ratio or 0.0,  # never None in a complete pair
    Metric.COST_RATIO: lambda run: usd(run.usage.usd_micros),
    Metric.TOKENS: lambda run: float(run.usage.tokens),
    Metric.TURNS: lambda run: float(run.usage.turns),
    Metric.WALL_S: lambda run: run.wall_s,
}


def compare(
    runs: Sequence[Run], arms: ArmPair, planned: Sequence[Cell], level: float = 0.95, seed: int = 0
) -> tuple[Comparison, ...]:
    """Compare two arms by every metric, in the order of Metric.

    `repeats` is the least number of complete pairs over the tasks that have any; tasks without
    one are left out. With one pair per task only cost has an interval. Costs have none when a run
    cost nothing (zero has no logarithm): `delta` is then the ratio of totals, and the comparison
    is left out when the base arm cost nothing at all.

    Args: planned: the cells of the plan; a pair is planned when both arms' cells are.
    Returns: an empty tuple when no planned pair is complete.
    """
    pairs, dropped = _complete_pairs(runs, arms, planned)
    if not pairs:
        return ()
    every = (_describe(metric, arms, pairs, dropped) for metric in Metric)
    judged = (_judge(comparison, level, seed) for comparison in every)
    return tuple(comparison for comparison in judged if comparison is not None)


def _complete_pairs(runs: Sequence[Run], arms: ArmPair, planned: Sequence[Cell]) -> tuple[Pairs, int]:
    """Return the scored pairs of each task, both sorted, and how many planned ones are missing."""
    scored = {run.cell: run for run in runs if run.pass_ratio is not None}
    cells = set(planned)
    pairs: Pairs = defaultdict(list)
    dropped = 0
    for cell in sorted(cell for cell in cells if cell.arm == arms.base):
        other = replace(cell, arm=arms.head)
        if other not in cells:
            continue
        if cell in scored and other in scored:
            pairs[cell.task].append((scored[cell], scored[other]))
        else:
            dropped += 1
    return dict(pairs), dropped


def _describe(metric: Metric, arms: ArmPair, pairs: Pairs, dropped: int) -> Comparison:
    """Fill in what needs no inference; every task weighs the same."""
    value = _VALUES[metric]
    rows = tuple(
        TaskDelta(
            task=task,
            base_values=tuple(value(base) for base, _ in found),
            head_values=tuple(value(head) for _, head in found),
        )
        for task, found in pairs.items()
    )
    base, head = fmean(row.base for row in rows), fmean(row.head for row in rows)
    return Comparison(
        metric=metric,
        arms=arms,
        tasks=len(rows),
        repeats=min(map(len, pairs.values())),
        n_pairs=sum(map(len, pairs.values())),
        n_dropped=dropped,
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
        case _:
            return replace(plain, interval=_amount_interval(plain, level, seed))


def _judge_scores(plain: Comparison, level: float, seed: int) -> Comparison:
    deltas = [row.delta for row in plain.by_task]
    binary = all(value in (0.0, 1.0) for value in chain(*_base_rows(plain), *_head_rows(plain)))
    p, nonzero = sign_flip(deltas)
    return replace(
        plain,
        interval=_within_scores(_if_repeated(_base_rows(plain), _head_rows(plain), level, seed)),
        generalised=_within_scores(plus2_interval(deltas, 1.0 if binary else 0.6, level)),
        sign_flip=SignFlip(p=p, nonzero=nonzero),
    )


def _within_scores(found: Interval | None) -> Interval | None:
    """Cut an interval to what a difference of pass ratios can be."""
    return found and replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _judge_cost(plain: Comparison, level: float, seed: int) -> Comparison | None:
    """Compare dollars by their ratio; None when there is nothing to divide by."""
    base, head = _base_rows(plain), _head_rows(plain)
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
    return _if_repeated(_base_rows(plain), _head_rows(plain), level, seed, unit)


def _if_repeated(base: Rows, head: Rows, level: float, seed: int, unit: float = 1.0) -> Interval | None:
    try:
        return suite_interval(base, head, level, seed, unit)
    except NoInterval:
        return None


def _base_rows(comparison: Comparison) -> Rows:
    return [row.base_values for row in comparison.by_task]


def _head_rows(comparison: Comparison) -> Rows:
    return [row.head_values for row in comparison.by_task]
