"""Looks, tests, labels and the calibration of a report -> sentences that say what its numbers are worth.

Plain text like that of `wording`; nothing is computed anew here.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillgate.core import (
    SCRIPTED_AGENT,
    SCRIPTED_LABEL,
    Calibration,
    Comparison,
    Interval,
    Look,
    Metric,
    Report,
    Stop,
)
from skillgate.report.costs import saved
from skillgate.report.wording import bracket, count, level, percent, shift, times

_WHY = {
    Stop.DECIDED: "the verdict was known",
    Stop.FUTILE: "going on would most likely not have settled it",
    Stop.BROKEN: "more runs of what is broken would show nothing",
}
_STEPS = {
    Metric.PASS_AT_1: "Pass@1",
    Metric.PASS_AT_2: "Pass@2",
    Metric.DEPTH: "depth (tasks passed in a row)",
}


def looks(report: Report, quality: Comparison | None) -> str:
    """Say at which look a paired run ended, why, what that saved, and why its interval is that strict."""
    taken = report.looks
    several = any(look.repeats < look.planned and look.stop is not Stop.CUT for look in taken)
    if not taken or (taken[-1].stop is Stop.LAST and not several):
        return ""
    strict = _strictness(taken[-1], quality.interval) if several and quality and quality.interval else ""
    return " ".join(part for part in (_ended(taken), saved(report.spend), strict) if part)


def _ended(taken: Sequence[Look]) -> str:
    last = taken[-1]
    repeats = f"{last.repeats} of {count(last.planned, 'repeat')}"
    # A look follows every repeat from the first look on: as many are left as repeats are.
    planned = len(taken) + last.planned - last.repeats
    match last.stop:
        case Stop.LAST:
            return f"The verdict took all {planned} looks."
        case Stop.DECIDED | Stop.FUTILE | Stop.BROKEN:
            return f"Stopped at look {len(taken)} of {planned} (after {repeats}): {_WHY[last.stop]}."
        case _:
            return f"Ended after {repeats}, before the verdict was known: money or time ran out."


def _strictness(last: Look, interval: Interval) -> str:
    who = "All looks" if last.stop is Stop.LAST else "Early looks are stricter, so that all"
    return f"{who} together err as rarely as one: hence the interval at {level(interval)}."


def holm(report: Report, quality: Comparison) -> str:
    """Say that a drop has to stand up to all skills of the gate."""
    if report.skills_compared < 2 or report.adjusted_p is None or quality.delta >= 0:
        return ""
    skills = "both" if report.skills_compared == 2 else f"all {report.skills_compared}"
    among = f"A block must hold among {skills} skills of this gate (Holm's method)"
    return f"{among}: adjusted {chance(report.adjusted_p)}."


def calibration(record: Calibration | None) -> str:
    """Say how often identical skills were called different on the suite."""
    if record is None or not record.called_different.trials:
        return ""
    suites = "this suite" if len(record.suites) == 1 else "these suites"
    label = f", {SCRIPTED_LABEL}" if record.agent == SCRIPTED_AGENT else ""
    rate = record.called_different
    return (
        f"On {suites} identical skills were called different in {_share(rate.share)} of {rate.trials:,} "
        f"splits of {count(record.runs, 'run')} (`skillgate calibrate`, {record.made[:10]}{label})."
    )


def chance(p: float) -> str:
    """Write a p value with three digits, never as zero."""
    return f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"


def _share(ratio: float) -> str:
    return percent(ratio) if ratio >= 0.001 or ratio == 0 else f"{100 * ratio:.2g} %"


def sign_flip(comparison: Comparison) -> str:
    """Say what the test says, or that it cannot say anything with so few changed tasks."""
    test = comparison.sign_flip
    if test is None:
        return ""
    share = f"{test.nonzero} of {count(comparison.tasks, 'task')} changed"
    word = f"SWE-Skills-Bench would call that {comparison.label}"
    if test.can_reach_05:
        unused = "; the verdict does not use this test" if comparison.interval else ""
        return f"Exact sign-flip test on the deltas per task: {chance(test.p)} ({share}). {word}{unused}."
    least = min(1.0, 2 / 2**test.nonzero)
    return (
        f"Exact sign-flip test: {share}; below 6 it cannot reach .05 whatever the skill does "
        f"(least possible p = {least:.3g}), so it decides nothing here. {word}."
    )


def steps(comparisons: Sequence[Comparison]) -> str:
    """Say how far chains, and tasks with several attempts, came in either arm."""
    found = {comparison.metric: comparison for comparison in comparisons}
    parts = [_step(name, found[metric]) for metric, name in _STEPS.items() if metric in found]
    return f"Not judged: {'; '.join(parts)}." if parts else ""


def _step(name: str, found: Comparison) -> str:
    is_depth = found.metric is Metric.DEPTH
    base, head = (f"{side:.1f}" if is_depth else percent(side) for side in (found.base, found.head))
    return f"{name} {base} → {head}, {shift(found)}{'' if is_depth else ' points'}{bracket(found)}"


def plain_numbers(quality: Comparison, cost: Comparison | None) -> str:
    """Say the numbers that are shown but judge nothing: total dollars, and the gain where there is one.

    Hake's g is the share of what was missing that was won. A loss has no such share: divided by the little
    room above a good base it says -4.50 of a fall from 95 % to 72.5 %.
    """
    parts = []
    if cost and cost.total_ratio is not None:
        parts.append(f"total dollars {times(cost.total_ratio)} beside the geometric {times(cost.delta)}")
    if quality.gain is not None and quality.delta > 0:
        parts.append(f"Hake's gain g = {quality.gain:+.2f}")
    return f"Plain numbers, no test: {'; '.join(parts)}." if parts else ""
