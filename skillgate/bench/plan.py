"""Tasks, arms and money -> the cells in the order they start. Pure.

Repeat by repeat, tasks shuffled, the two arms of one task side by side: the arms share the same
minutes, and whatever stops the work early has run almost only whole pairs. Where the money does not pay
all repeats, cheap tasks get more of them: a mean over tasks is as unbiased, and less uncertain per dollar.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from skillgate.core import HEAD_ARM, Cell, Inject, Plan
from skillgate.errors import PrerequisiteError
from skillgate.values import usd

ASSUMED_SHARE = 5
"""Without a history a run is assumed to cost this part of `per-run-usd`."""

ENOUGH_RUNS = 10
LEAST_REPEATS = 2
"""Below them no noise can be seen, so there is no interval, and hardly a verdict."""


class Expected(NamedTuple):
    """What a run should cost, how that is known, and where it is known, what each task's should."""

    usd_micros: int
    source: str
    by_task: Mapping[str, int] = {}

    def of(self, task: str) -> int:
        """Return what one run of a task should cost."""
        return self.by_task.get(task, self.usd_micros)


class Wanted(NamedTuple):
    """What a plan is to have.

    `arms` are the two that are compared, the head last; `third` is an arm that starts when they are through.
    Earlier runs fill the cells in `filled`, which cost nothing; those that no other arm has extend an arm.
    `shared_by` skills share the budget that `cap_usd_micros` is a part of.
    """

    tasks: Sequence[str]
    arms: Sequence[str]
    repeats: int
    seed: int
    agent: str
    model: str
    cap_usd_micros: int
    per_run_usd_micros: int
    third: str | None = None
    inject: Inject = Inject.SKILL
    expected: Expected | None = None
    filled: AbstractSet[Cell] = frozenset()
    shared_by: int = 1

    @property
    def all_arms(self) -> tuple[str, ...]:
        """Return the arms, the third one last."""
        return (*self.arms, *([self.third] if self.third else []))

    @property
    def costs(self) -> Expected:
        """Return what runs should cost, an assumption where nobody said."""
        return self.expected or expect({}, self.per_run_usd_micros)

    def cost(self, task: str, repeat: int) -> int:
        """Return what one repeat of a task should cost in all its arms."""
        cells = (Cell(task=task, arm=arm, repeat=repeat) for arm in self.all_arms)
        return self.costs.of(task) * sum(cell not in self.filled for cell in cells)

    def least_usd_micros(self, repeats: int) -> int:
        """Return the smallest cap that should pay so many repeats of every task.

        The last run to start needs its whole reservation.
        """
        total = sum(self.cost(task, repeat) for task in self.tasks for repeat in range(repeats))
        last = min(map(self.costs.of, self.tasks), default=0)
        return total + max(0, self.per_run_usd_micros - last)


def make_plan(wanted: Wanted) -> Plan:
    """Plan at most `repeats` repeats of every task in every arm, as many as the cap should pay.

    Raises: PrerequisiteError when the cap pays fewer than two, and more than one are wanted.
    """
    repeats = allocate(wanted)
    if not all(repeats.values()):
        raise _too_small(wanted)
    expected = wanted.costs
    known = {task: expected.of(task) for task in sorted(wanted.tasks) if task in expected.by_task}
    cells = _cells(wanted.arms, repeats, wanted.seed)
    extra = [cell for cell in wanted.filled if cell.arm in wanted.arms and cell.repeat >= repeats[cell.task]]
    cells += sorted(cell for cell in extra if cell.arm != HEAD_ARM)
    if wanted.third:
        cells += _cells([wanted.third], repeats, wanted.seed)
    return Plan(
        cells=tuple(cells),
        seed=wanted.seed,
        agent=wanted.agent,
        model=wanted.model,
        cap_usd_micros=wanted.cap_usd_micros,
        per_run_usd_micros=wanted.per_run_usd_micros,
        expected_run_usd_micros=expected.usd_micros,
        expected_from=expected.source,
        inject=wanted.inject,
        reused=tuple(cell for cell in cells if cell in wanted.filled),
        task_usd_micros=known,
    )


def allocate(wanted: Wanted) -> dict[str, int]:
    """Return how many repeats of each task the cap should pay, 0 for all when it pays too few.

    Every task gets the least number first. The rest goes where a dollar takes most variance from the mean
    over tasks, 1 / (r (r + 1) cost): for whole numbers this is the best there is, and it tends to repeats
    in proportion to 1 / sqrt(cost).
    """
    least = min(LEAST_REPEATS, wanted.repeats)
    left = wanted.cap_usd_micros - wanted.least_usd_micros(least)
    if left < 0 or not wanted.tasks:
        return dict.fromkeys(wanted.tasks, 0)
    repeats = dict.fromkeys(sorted(wanted.tasks), least)

    def worth(task: str) -> tuple[float, int, str]:
        had = repeats[task]
        return -1 / (had * (had + 1) * max(1, wanted.cost(task, had))), had, task

    heap = [worth(task) for task in repeats] if least < wanted.repeats else []
    heapq.heapify(heap)
    while heap:
        _, had, task = heapq.heappop(heap)
        cost = wanted.cost(task, had)
        if cost > left:
            continue  # a cheaper task may still fit
        left -= cost
        repeats[task] = had + 1
        if had + 1 < wanted.repeats:
            heapq.heappush(heap, worth(task))
    return repeats


def expect(past_usd_micros: Mapping[str, Sequence[int]], per_run_usd_micros: int) -> Expected:
    """Return what a run should cost: the mean of those before, else an assumption.

    Args: past_usd_micros: by task. A few runs say little, so below ENOUGH_RUNS the dearer of the two
    counts, and what each task costs is taken as known when every one has two runs.
    """
    assumed = max(1, per_run_usd_micros // ASSUMED_SHARE)
    past = [usd_micros for runs in past_usd_micros.values() for usd_micros in runs]
    if not past:
        return Expected(assumed, f"assumed: per-run-usd / {ASSUMED_SHARE}")
    mean = max(1, math.ceil(sum(past) / len(past)))
    source = f"from {len(past)} earlier runs of these tasks"
    if len(past) < ENOUGH_RUNS or min(map(len, past_usd_micros.values())) < LEAST_REPEATS:
        return Expected(max(mean, assumed) if len(past) < ENOUGH_RUNS else mean, source)
    means = {task: max(1, math.ceil(sum(runs) / len(runs))) for task, runs in past_usd_micros.items()}
    return Expected(mean, source, means)


def _too_small(wanted: Wanted) -> PrerequisiteError:
    least = min(LEAST_REPEATS, wanted.repeats)
    times = "one repeat" if least == 1 else "two repeats"
    share = f", a share of {wanted.shared_by} skills," if wanted.shared_by > 1 else ""
    problem = (
        f"${usd(wanted.cap_usd_micros):.2f}{share} cannot pay {times} of {len(wanted.tasks)} tasks in "
        f"{len(wanted.all_arms)} arms: no verdict is possible"
    )
    cents = math.ceil(wanted.least_usd_micros(least) * wanted.shared_by / 10_000)
    hint = f"Set run.budget-usd to at least {cents / 100:.2f}, or lower run.per-run-usd."
    return PrerequisiteError(problem, hint)


def _cells(arms: Sequence[str], repeats: Mapping[str, int], seed: int) -> list[Cell]:
    rng = random.Random(seed)  # noqa: S311 - an order, not a secret
    cells = []
    for repeat in range(max(repeats.values(), default=0) if arms else 0):
        tasks = sorted(task for task, most in repeats.items() if repeat < most)
        for task in rng.sample(tasks, len(tasks)):
            cells += [Cell(task=task, arm=arm, repeat=repeat) for arm in rng.sample(list(arms), len(arms))]
    return cells
