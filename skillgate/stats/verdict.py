"""Comparisons and a policy -> a verdict with reasons in sentences; pure.

The table of README.md ("How the statistics decide"), first match wins. Findings of the linter
block on their own and are said separately. It computes no interval and knows no run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum, auto
from itertools import accumulate
from typing import NamedTuple

from skillgate.core import (
    ArmPair,
    Comparison,
    Decision,
    Finding,
    Interval,
    Metric,
    Policy,
    SignFlip,
    TaskDelta,
    Verdict,
)
from skillgate.values import FailOn


class Quality(Enum):
    """What the pass ratio says, in the order in which it is asked."""

    WORSE = auto()
    COLLAPSED = auto()
    BETTER = auto()
    NO_WORSE = auto()
    FELL = auto()
    OPEN = auto()


class Cost(IntEnum):
    """What the cost ratio says: the column of the table."""

    WITHIN = 0
    UNCLEAR = 1
    OVER = 2


_ROUNDING = 1e-12  # 1 - .95 is a little more than .05
_MERGE, _HOLD, _BLOCK, _OPEN = Decision.MERGE, Decision.HOLD, Decision.BLOCK, Decision.INCONCLUSIVE
TABLE: dict[Quality, tuple[Decision, Decision, Decision]] = {
    Quality.WORSE: (_BLOCK, _BLOCK, _BLOCK),
    Quality.COLLAPSED: (_HOLD, _HOLD, _HOLD),
    Quality.BETTER: (_MERGE, _MERGE, _HOLD),
    Quality.NO_WORSE: (_MERGE, _OPEN, _HOLD),
    Quality.FELL: (_HOLD, _HOLD, _HOLD),
    Quality.OPEN: (_OPEN, _OPEN, _HOLD),
}
_MEANING = {
    Quality.WORSE: ": worse, by more than run-to-run noise explains.",
    Quality.COLLAPSED: ".",
    Quality.BETTER: ": better, by more than run-to-run noise explains.",
    Quality.NO_WORSE: ": no worse than the margin of {margin} points allows.",
    Quality.FELL: ": the drop reaches the margin of {margin} points, though noise could explain it.",
    Quality.OPEN: ": the interval is too wide to exclude a drop beyond the margin of {margin} points.",
}
_BUDGET = {
    Cost.WITHIN: "within the budget of {budget}.",
    Cost.UNCLEAR: "whether it stays within the budget of {budget} is unproven.",
    Cost.OVER: "over the budget of {budget}.",
}


class Standing(NamedTuple):
    """Where the comparisons stand in the table; `costs` is None where no cost interval can exist."""

    quality: Quality
    cost: Cost
    scores: Comparison
    costs: Comparison | None


def standing(comparisons: Sequence[Comparison], policy: Policy) -> Standing | None:
    """Return where the first comparisons of each metric stand, None where they cannot decide."""
    scores, costs = _first(comparisons, Metric.PASS_RATIO), _first(comparisons, Metric.COST_RATIO)
    if scores is None or scores.interval is None or scores.dropped_share > policy.max_dropped:
        return None
    collapsed = any(row.collapsed for row in scores.by_task)
    costs = costs if costs is not None and costs.interval is not None else None
    cost = _cost(costs.interval, policy) if costs and costs.interval else Cost.UNCLEAR
    return Standing(_quality(scores.delta, scores.interval, policy.margin, collapsed), cost, scores, costs)


def decisions(qualities: Iterable[Quality], costs: Iterable[Cost]) -> set[Decision]:
    """Return all decisions that the table has for these rows and columns."""
    return {TABLE[quality][cost] for quality in qualities for cost in costs}


def decide(comparisons: Sequence[Comparison], policy: Policy) -> Verdict:
    """Judge the first comparison of each metric; its deciding sentence comes first."""
    scores = _first(comparisons, Metric.PASS_RATIO)
    if scores is None:
        reason = "No planned pair of runs has a score in both arms: there is nothing to compare."
        return Verdict(decision=_OPEN, reasons=(reason,))
    if scores.dropped_share > policy.max_dropped:
        return Verdict(decision=_OPEN, reasons=(_too_many_dropped(scores, policy),))
    cost, cost_reason = _judge_cost(_first(comparisons, Metric.COST_RATIO), policy)
    if scores.interval is None:
        decision, reason = _judge_unrepeated(scores, policy)
        return Verdict(decision=decision, reasons=(reason, cost_reason))
    quality, reasons = _judge_quality(scores, scores.interval, policy)
    decision = TABLE[quality][cost]
    cost_decides = decision is not TABLE[quality][Cost.WITHIN]
    return Verdict(
        decision=decision, reasons=(cost_reason, *reasons) if cost_decides else (*reasons, cost_reason)
    )


def with_findings(verdict: Verdict, findings: Sequence[Finding], fail_on: FailOn) -> Verdict:
    """Block on findings at or above `fail_on`, whatever the runs say; their sentence comes first."""
    caught = [finding for finding in findings if fail_on.catches(finding.severity)]
    if not caught:
        return verdict
    top = min(caught, key=lambda finding: finding.order)
    subject = "1 finding blocks" if len(caught) == 1 else f"{len(caught)} findings block"
    reason = f"{subject} at fail-on `{fail_on}`; worst: {top.rule} at {top.where}: {top.statement}"
    return Verdict(decision=_BLOCK, reasons=(reason, *verdict.reasons))


def correct(verdict: Verdict, p: float, skills: int, policy: Policy) -> Verdict:
    """Hold a change whose block does not stand up to all `skills` of a gate; `p` is adjusted for them."""
    alpha = 1 - policy.level
    if verdict.decision is not _BLOCK or p <= alpha + _ROUNDING:
        return verdict
    reason = (
        f"Among {skills} skills a drop like this is not rare enough to block (p = {p:.3g} by Holm's method, "
        f"not below {alpha:.3g}): it is held."
    )
    return Verdict(decision=_HOLD, reasons=(reason, *verdict.reasons))


def worst(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict of a gate: the worst of its skills' and why, each reason naming its skill."""
    if not verdicts:
        return Verdict(decision=Decision.NOT_RUN, reasons=("No skill changed.",))
    decision = max((verdict.decision for verdict in verdicts.values()), key=lambda found: found.rank)
    because = (
        f"{skill}: {reason}"
        for skill, verdict in verdicts.items()
        if verdict.decision is decision
        for reason in verdict.reasons
    )
    return Verdict(decision=decision, reasons=tuple(because))


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Return p values adjusted by Holm's step-down method, in the order given."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    scaled = (min(1.0, (len(ps) - rank) * ps[i]) for rank, i in enumerate(order))
    return _as_given(order, accumulate(scaled, max))


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """Return p values adjusted by Benjamini & Hochberg's step-up method, in the order given."""
    order = sorted(range(len(ps)), key=ps.__getitem__, reverse=True)
    scaled = (ps[i] * len(ps) / (len(ps) - rank) for rank, i in enumerate(order))
    return _as_given(order, accumulate(scaled, min))


def _as_given(order: Sequence[int], values: Iterable[float]) -> tuple[float, ...]:
    by_index = dict(zip(order, values, strict=True))
    return tuple(by_index[i] for i in range(len(order)))


def _first(comparisons: Sequence[Comparison], metric: Metric) -> Comparison | None:
    return next((comparison for comparison in comparisons if comparison.metric is metric), None)


def _judge_quality(scores: Comparison, interval: Interval, policy: Policy) -> tuple[Quality, tuple[str, ...]]:
    collapsed = [row for row in scores.by_task if row.collapsed]
    quality = _quality(scores.delta, interval, policy.margin, bool(collapsed))
    meaning = _MEANING[quality].format(margin=f"{100 * policy.margin:g}")
    change = f"{_change(scores)} ({_range(interval, _points)}){meaning}"
    if not collapsed:
        return quality, (change,)
    fall = _collapse(scores.arms, collapsed)
    return quality, (fall, change) if quality is Quality.COLLAPSED else (change, fall)


def _quality(delta: float, interval: Interval, margin: float, collapsed: bool) -> Quality:
    if interval.high < 0:
        return Quality.WORSE
    if collapsed:
        return Quality.COLLAPSED
    if interval.low > 0:
        return Quality.BETTER
    if interval.low > -margin:
        return Quality.NO_WORSE
    return Quality.FELL if delta <= -margin + _ROUNDING else Quality.OPEN


def _judge_cost(cost: Comparison | None, policy: Policy) -> tuple[Cost, str]:
    limit = 1 + policy.max_cost_increase
    if cost is None or cost.interval is None:
        change = "There is no cost interval"
        state = Cost.UNCLEAR
    else:
        change = f"{_change(cost)} ({_range(cost.interval, '{:.2f}'.format)})"
        state = _cost(cost.interval, policy)
    return state, f"{change}: {_BUDGET[state].format(budget=f'x{limit:.2f}')}"


def _cost(interval: Interval, policy: Policy) -> Cost:
    limit = 1 + policy.max_cost_increase
    if interval.high <= limit:
        return Cost.WITHIN
    return Cost.OVER if interval.low > limit else Cost.UNCLEAR


def _judge_unrepeated(scores: Comparison, policy: Policy) -> tuple[Decision, str]:
    """Judge one run per task and arm: no interval exists, and the sign-flip test may only block."""
    alpha = 1 - policy.level
    flip = scores.sign_flip or SignFlip(p=1.0, nonzero=0)
    needed = math.ceil(1 + math.log2(1 / alpha) - _ROUNDING)
    found = (
        f"With one run per task and arm there is no interval (plan two or more). {_change(scores)}, "
        f"sign-flip test p = {flip.p:.3g} (tasks that differ: {flip.nonzero})"
    )
    if flip.nonzero < needed:
        return _OPEN, f"{found}: below {needed} such tasks it cannot reach {alpha:.3g}."
    if flip.p > alpha + _ROUNDING:
        return _OPEN, f"{found}: not below {alpha:.3g}."
    if scores.delta > 0:
        return _OPEN, f"{found}: a gain, but without repeats it cannot merge."
    return _BLOCK, f"{found}: worse."


def _too_many_dropped(scores: Comparison, policy: Policy) -> str:
    planned = scores.n_pairs + scores.n_dropped
    return (
        f"{scores.n_dropped} of {planned} planned pairs ({100 * scores.dropped_share:.0f} %) lack a score, "
        f"more than the {100 * policy.max_dropped:g} % that the policy allows: nothing can be decided."
    )


def _collapse(arms: ArmPair, rows: Sequence[TaskDelta]) -> str:
    names = ", ".join(f"{row.task} ({100 * row.base:.0f} % to {100 * row.head:.0f} %)" for row in rows)
    subject = "Task" if len(rows) == 1 else "Tasks"
    return f"{subject} {names} collapsed: every {arms.head} run is below every {arms.base} run."


def _change(found: Comparison) -> str:
    """Say what changed between which arms: pass ratio in points, cost as a ratio."""
    arms = f"From {found.arms.base} to {found.arms.head}"
    if found.metric is Metric.PASS_RATIO:
        return f"{arms} the pass ratio changed by {_points(found.delta)} points"
    return f"{arms} the cost changed by x{found.delta:.2f}"


def _range(interval: Interval, show: Callable[[float], str]) -> str:
    return f"{100 * interval.level:.4g} % interval {show(interval.low)} to {show(interval.high)}"


def _points(ratio: float) -> str:
    """Show a difference of pass ratios in points; a zero has a plus, whatever its sign was."""
    return f"{round(100 * ratio, 1) + 0.0:+.1f}"
