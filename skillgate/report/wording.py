"""Numbers, verdicts and facts of a report -> the sentences that every renderer shows.

Plain text that is not yet safe to print: each renderer puts it through `escape` in its own
way. `quoted` words are names. What the numbers are worth is in `statistics`, runs and money are
in `costs`, what stands in tables is in `rows`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable

from skillgate.core import (
    BASE_ARM,
    CONTROL_ARM,
    HEAD_ARM,
    NONE_ARM,
    SCRIPTED_LABEL,
    ChangeKind,
    Comparison,
    Decision,
    Finding,
    GateReport,
    Inject,
    Interval,
    Metric,
    Plan,
    Report,
    Verdict,
)
from skillgate.values import Severity

NO_PAIRS = "Nothing to compare: no planned pair has a score."
ARMS = {
    NONE_ARM: "no skill",
    BASE_ARM: "the skill before this change",
    HEAD_ARM: "the skill with this change",
    CONTROL_ARM: "unrelated text of the same length",
}


# --- numbers ----------------------------------------------------------------------


def percent(ratio: float) -> str:
    """Write .8625 as 86.2 %."""
    return f"{100 * ratio:.1f} %"


def points(delta: float) -> str:
    """Write a difference of ratios in points, with its sign."""
    return f"{round(100 * delta, 1) + 0.0:+.1f}"


def times(ratio: float) -> str:
    """Write a ratio as a factor."""
    return f"x{ratio:.2f}"


def dollars(amount: float, beside: float | None = None) -> str:
    """Write dollars in cents, amounts below ten cents with three digits; as exact as what stands beside."""
    least = amount if beside is None else min(amount, beside)
    digits = 2 if least >= 0.1 or least <= 0 else min(8, 2 - math.floor(math.log10(least)))
    return f"${amount:,.{digits}f}"


def amount(digits: int) -> Callable[[float], str]:
    """Return what writes a difference of amounts with its sign."""
    return lambda value: f"{round(value, digits) + 0.0:+,.{digits}f}"


_SHOW: dict[Metric, Callable[[float], str]] = {
    Metric.PASS_RATIO: points,
    Metric.COST_RATIO: times,
    Metric.TOKENS: amount(0),
    Metric.TURNS: amount(1),
    Metric.WALL_S: amount(1),
    Metric.PASS_AT_1: points,
    Metric.PASS_AT_2: points,
    Metric.DEPTH: amount(1),
}


def shift(comparison: Comparison) -> str:
    """Write what changed from base to head, in the unit of the metric."""
    return _SHOW[comparison.metric](comparison.delta)


def interval(value: Interval | None, metric: Metric) -> str:
    """Write an interval in the unit of its metric, or that there is none."""
    write = _SHOW[metric]
    return f"{write(value.low)} to {write(value.high)}" if value else "none"


def bracket(comparison: Comparison) -> str:
    """Write the interval behind a number, nothing where there is none."""
    return f" ({interval(comparison.interval, comparison.metric)})" if comparison.interval else ""


def interval_title(comparison: Comparison) -> str:
    """Return the heading of the intervals, with their level."""
    return f"{level(comparison.interval)} interval" if comparison.interval else "interval"


def level(value: Interval) -> str:
    """Write the level of an interval as 95 % or 99.92 %."""
    return f"{100 * value.level:.4g} %"


def repeats(numbers: Iterable[int]) -> str:
    """Write how many repeats tasks have: 5 repeats, or 2 to 5 repeats."""
    low, *more = sorted(set(numbers)) or [0]
    return f"{low} to {count(more[-1], 'repeat')}" if more else count(low, "repeat")


def count(number: int, noun: str) -> str:
    """Write a number with its noun: 1 run, 1,200 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tally(findings: Iterable[Finding]) -> str:
    """Count findings by severity in words."""
    found = Counter(finding.severity for finding in findings)
    return ", ".join(count(found[level], level) for level in reversed(Severity) if found[level]) or "none"


# --- verdicts ---------------------------------------------------------------------


def why(verdict: Verdict) -> str:
    """Return the first reason."""
    return verdict.reasons[0] if verdict.reasons else "no reason was given"


def headline(gate: GateReport) -> Verdict:
    """Return the verdict to put on top; of a single skill its own, without the skill's name."""
    only = gate.reports[0].verdict if len(gate.reports) == 1 else gate.verdict
    return only if only.decision is gate.verdict.decision else gate.verdict


def consequence(gate: GateReport) -> str:
    """Say what the verdict does to the pull request."""
    open_end = gate.verdict.decision is Decision.INCONCLUSIVE
    rule = f" (`on-inconclusive: {gate.policy.on_inconclusive}`)" if open_end else ""
    return f"The gate {'passes' if gate.passes else 'fails'}{rule}."


def glance(quality: Comparison, cost: Comparison | None, reason: str) -> str:
    """Say what two arms show, first what `reason` is about; nothing where it is about neither number."""
    parts = [f"pass ratio {ratios(quality)}"] + ([f"cost {times(cost.delta)}{bracket(cost)}"] if cost else [])
    if is_about_cost(reason):
        return "; ".join(reversed(parts))
    return "; ".join(parts) if _is_about("pass ratio", reason) else ""


def is_about_cost(reason: str) -> bool:
    """Say whether the reason of a verdict is what a change costs."""
    return _is_about("cost", reason)


def _is_about(number: str, reason: str) -> bool:
    # It begins so: what others wrote may hold the same words further on.
    return reason.startswith("From ") and f" the {number} changed by " in reason


def ratios(quality: Comparison) -> str:
    """Say how the pass ratio differs, with its interval."""
    values = f"{percent(quality.base)} → {percent(quality.head)}"
    return f"{values}, {points(quality.delta)} points{bracket(quality)}"


def label(report: Report) -> str:
    """Return what must stand beside every number of the scripted agent, else nothing."""
    return SCRIPTED_LABEL if report.plan is not None and report.plan.is_scripted else ""


# --- one skill --------------------------------------------------------------------


def change(report: Report) -> str:
    """Say what the range did to the skill, as the rest of a sentence after its name."""
    files = f" ({count(len(report.change.files), 'file')})" if report.change.files else ""
    match report.change.kind:
        case ChangeKind.ADDED:
            return f"is new{files}."
        case ChangeKind.DELETED:
            return "was deleted: there is nothing to lint or to run."
        case ChangeKind.RENAMED:
            return f"was renamed from `{report.change.old_path or '?'}`{files}."
        case ChangeKind.CHANGED:
            return f"was changed{files}."


def about(report: Report, judged: Comparison | None) -> str:
    """Say what happened to the skill, which two arms are compared, and on how much."""
    sentence = f"`{report.skill}` {change(report)}"
    if judged is None:
        return f"{sentence} {NO_PAIRS}" if report.plan else sentence
    base, head = (f"`{arm}` ({ARMS.get(arm, 'the skill without a part')})" for arm in judged.arms)
    return f"{sentence} {base} → {head}: {_size(report.plan, judged)}."


def _size(plan: Plan | None, judged: Comparison) -> str:
    """Say on how many tasks, repeats, pairs and runs without a partner two arms are compared."""
    done = [min(len(row.base_values), len(row.head_values)) for row in judged.by_task] or [judged.repeats]
    uneven = plan is not None and len(set(plan.task_repeats.values())) > 1 and len(set(done)) > 1
    fewer = " (fewer where a run costs more)" if uneven else ""
    pairs, dropped = count(judged.n_pairs, "pair"), judged.n_dropped
    if dropped:
        pairs = f"{judged.n_pairs} of {judged.n_pairs + dropped} pairs ({dropped} dropped)"
    alone = f" and {_alone(judged)}" if judged.n_unpaired else ""
    return f"{count(judged.tasks, 'task')}, {repeats(done)}{fewer}, {pairs}{alone}"


def _alone(judged: Comparison) -> str:
    """Name the runs without a partner by their arm, where all are of one."""
    more = [len(row.base_values) - len(row.head_values) for row in judged.by_task]
    runs = f"more {'run' if judged.n_unpaired == 1 else 'runs'}"
    if sum(map(abs, more)) != abs(sum(more)) or not any(more):
        return f"{judged.n_unpaired} {runs}"
    return f"{judged.n_unpaired} {runs} of `{judged.arms[sum(more) < 0]}`"


def in_short(quality: Comparison, cost: Comparison | None) -> str:
    """Say in one line what two arms show."""
    base, head = quality.arms
    money = f"; cost {times(cost.delta)}{bracket(cost)}" if cost else ""
    return f"`{base}` → `{head}`: pass ratio {ratios(quality)}{money}"


# --- the gate ---------------------------------------------------------------------


def footer(gate: GateReport) -> list[tuple[str, str]]:
    """Return name and value of what makes the numbers reproducible: range, seed, versions."""
    facts = [("range", f"{_short(gate.base)}..{_short(gate.head)}")]
    plans = [report.plan for report in gate.reports if report.plan]
    for name in ("agent", "model", "seed"):
        values = sorted({str(getattr(plan, name)) for plan in plans})
        facts += [(name, ", ".join(values))] if values else []
    if any(plan.inject is Inject.PROMPT for plan in plans):
        facts.append(("skill", "put into the prompt"))
    versions = {key: value for report in gate.reports for key, value in report.versions.items()}
    return facts + sorted((versions | gate.versions).items())


def _short(revision: str) -> str:
    return revision[:12] if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision) else revision
