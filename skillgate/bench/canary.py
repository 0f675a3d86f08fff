"""Fresh and earlier runs of a baseline -> whether the earlier ones still hold. Pure.

A key cannot know all that may have changed: the model behind a name, a service that a task asks. So one
repeat is always run anew and held against the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from skillgate.core import Run

CANARY_ERRORS = 3.0
"""So many standard errors between fresh and earlier runs are no chance any more."""
_PSEUDO_SCORE, _PSEUDO_LOG = 1.0, 0.1  # the range of the pseudo-residual, as in the suite intervals


def canary_verdict(fresh: Sequence[Run], cached: Mapping[str, Sequence[Run]]) -> str:
    """Say why earlier runs do not stand for fresh ones of the same tasks, empty when they may.

    Compares the models that answered, the mean pass ratio and the mean log cost over the tasks, each
    within CANARY_ERRORS standard errors by the spread of the earlier runs within their tasks.
    """
    if not any(cached.values()):
        return ""
    known = {task: [run for run in runs if run.outcome.is_scored] for task, runs in cached.items()}
    tries = [run for run in fresh if run.pass_ratio is not None and known.get(run.cell.task)]
    if not tries:
        return "No fresh run of the baseline has a score, so nothing shows that earlier ones still hold."
    return _other_models(tries, known) or _other_numbers(tries, known)


def _other_models(fresh: Sequence[Run], cached: Mapping[str, Sequence[Run]]) -> str:
    tasks = {run.cell.task for run in fresh}
    now = {model for run in fresh for model in run.models}
    before = {model for task in tasks for run in cached[task] for model in run.models}
    if now == before:
        return ""
    names = [", ".join(sorted(models)) or "a model without a name" for models in (now, before)]
    return f"Fresh runs of the baseline were answered by {names[0]}, earlier ones by {names[1]}."


def _other_numbers(fresh: Sequence[Run], cached: Mapping[str, Sequence[Run]]) -> str:
    scores = _Gap.of(fresh, cached, lambda run: run.pass_ratio, _PSEUDO_SCORE)
    if scores.is_wide:
        return (
            f"Fresh runs of the baseline differ from earlier ones by {scores.mean * 100:+.0f} points, "
            f"more than {CANARY_ERRORS:g} standard errors of {scores.error * 100:.1f}."
        )
    costs = _Gap.of(fresh, cached, _log_cost, _PSEUDO_LOG)
    if costs.is_wide:
        return (
            f"Fresh runs of the baseline cost {math.exp(costs.mean):.2f} times what earlier ones did, "
            f"more than {CANARY_ERRORS:g} standard errors of a factor of {math.exp(costs.error):.2f}."
        )
    return ""


def _log_cost(run: Run) -> float | None:
    return math.log(run.usage.usd_micros) if run.usage.usd_micros > 0 else None


class _Gap(NamedTuple):
    """How far fresh runs lie from earlier ones: the mean over tasks, and its standard error."""

    mean: float
    error: float

    @property
    def is_wide(self) -> bool:
        return abs(self.mean) > CANARY_ERRORS * self.error

    @classmethod
    def of(
        cls,
        fresh: Sequence[Run],
        cached: Mapping[str, Sequence[Run]],
        number: Callable[[Run], float | None],
        unit: float,
    ) -> _Gap:
        """Args: unit: the range of one pseudo-residual, so that the error is never zero."""

        def numbers(runs: Iterable[Run]) -> list[float]:
            return [value for run in runs if (value := number(run)) is not None]

        tasks = sorted({run.cell.task for run in fresh})
        pairs = [
            (numbers(run for run in fresh if run.cell.task == task), numbers(cached[task])) for task in tasks
        ]
        pairs = [(new, old) for new, old in pairs if new and old]
        if not pairs:
            return cls(0.0, math.inf)
        squares = sum((value - fmean(old)) ** 2 for _, old in pairs for value in old)
        freedom = sum(len(old) - 1 for _, old in pairs)
        variance = (squares + unit**2) / (freedom + 1)
        share = sum(1 / len(new) + 1 / len(old) for new, old in pairs) / len(pairs) ** 2
        return cls(fmean(fmean(new) - fmean(old) for new, old in pairs), math.sqrt(variance * share))
