"""Tasks, arms and money -> the cells in the order they start. Pure.

Repeat by repeat, tasks shuffled, the two arms of one task side by side: the arms share the same
minutes, and whatever stops the work early has run almost only whole pairs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from skillgate.core import Cell, Inject, Plan
from skillgate.errors import PrerequisiteError
from skillgate.values import usd

ASSUMED_SHARE = 5
"""Without a history a run is assumed to cost this part of `per-run-usd`."""


ENOUGH_RUNS = 10


class Expected(NamedTuple):
    """What a run should cost, and how that is known."""

    usd_micros: int
    source: str


def make_plan(
    tasks: Sequence[str],
    arms: Sequence[str],
    *,
    repeats: int,
    seed: int,
    agent: str,
    model: str,
    cap_usd_micros: int,
    per_run_usd_micros: int,
    shared_by: int = 1,
    inject: Inject = Inject.SKILL,
    expected: Expected | None = None,
) -> Plan:
    """Plan at most `repeats` repeats of every task in every arm, as many as the cap should pay.

    Args: arms: the two that are compared; a third one starts when they are through. shared_by: how
    many skills share the budget that `cap_usd_micros` is a part of. expected: what a run should cost.
    Raises: PrerequisiteError when the cap cannot pay for one repeat.
    """
    expected = expected or expect((), per_run_usd_micros)
    fitting = affordable_repeats(len(tasks) * len(arms), cap_usd_micros, per_run_usd_micros, expected)
    if fitting < 1:
        need = max(len(tasks) * len(arms) * expected.usd_micros, per_run_usd_micros)
        whose = f"${usd(cap_usd_micros):.2f}" + (f", a share of {shared_by} skills," if shared_by > 1 else "")
        problem = f"{whose} cannot pay one repeat of {len(tasks)} tasks in {len(arms)} arms"
        hint = f"Set run.budget-usd to at least {usd(need * shared_by):.2f}, or lower run.per-run-usd."
        raise PrerequisiteError(problem, hint)
    planned = min(repeats, fitting)
    return Plan(
        cells=_cells(tasks, arms[:2], planned, seed) + _cells(tasks, arms[2:], planned, seed),
        seed=seed,
        agent=agent,
        model=model,
        cap_usd_micros=cap_usd_micros,
        per_run_usd_micros=per_run_usd_micros,
        expected_run_usd_micros=expected.usd_micros,
        inject=inject,
        expected_from=expected.source,
    )


def expect(past_usd_micros: Sequence[int], per_run_usd_micros: int) -> Expected:
    """Return what a run should cost: the mean of those before, else an assumption.

    A few runs say little, so below ENOUGH_RUNS the dearer of the two counts.
    """
    assumed = max(1, per_run_usd_micros // ASSUMED_SHARE)
    if not past_usd_micros:
        return Expected(assumed, f"assumed: per-run-usd / {ASSUMED_SHARE}")
    mean = max(1, math.ceil(sum(past_usd_micros) / len(past_usd_micros)))
    if len(past_usd_micros) < ENOUGH_RUNS:
        mean = max(mean, assumed)
    return Expected(mean, f"from {len(past_usd_micros)} earlier runs of these tasks")


def affordable_repeats(
    cells_per_repeat: int, cap_usd_micros: int, per_run_usd_micros: int, expected: Expected
) -> int:
    """Return how many repeats the cap should pay; the last run needs its whole reservation."""
    if cells_per_repeat == 0 or cap_usd_micros < per_run_usd_micros:
        return 0
    return cap_usd_micros // (expected.usd_micros * cells_per_repeat)


def _cells(tasks: Sequence[str], arms: Sequence[str], repeats: int, seed: int) -> tuple[Cell, ...]:
    rng = random.Random(seed)  # noqa: S311 - an order, not a secret
    cells = []
    for repeat in range(repeats if arms else 0):
        for task in rng.sample(sorted(tasks), len(tasks)):
            cells += [Cell(task=task, arm=arm, repeat=repeat) for arm in rng.sample(list(arms), len(arms))]
    return tuple(cells)
