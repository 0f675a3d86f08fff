"""Numbers, verdicts and facts of a report -> the sentences that every renderer shows.

Plain text that is not yet safe to print: each renderer puts it through `escape` in its own
way. `quoted` words are names. What stands in tables is in `rows`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

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
    Outcome,
    Report,
    Run,
    Spend,
    Verdict,
)
from skillgate.values import Severity, TokenWeight, usd

MAX_DIFFERENCE = 0.01  # between two books of the same run
ROUNDING_USD_MICROS = 50  # the meter rounds every call up
NO_PAIRS = "Nothing to compare: no planned pair has a score."
ARMS = {
    NONE_ARM: "no skill",
    BASE_ARM: "the skill before this change",
    HEAD_ARM: "the skill with this change",
    CONTROL_ARM: "unrelated text of the same length",
}
_NO_SCORE, _SCORED = "no score", "scored by their graders"


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


def interval(value: Interval | None, metric: Metric) -> str:
    """Write an interval in the unit of its metric, or that there is none."""
    write = times if metric is Metric.COST_RATIO else points
    return f"{write(value.low)} to {write(value.high)}" if value else "none"


def interval_title(comparison: Comparison) -> str:
    """Return the heading of the intervals, with their level."""
    return f"{100 * comparison.interval.level:g} % interval" if comparison.interval else "interval"


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
    pairs, dropped = count(judged.n_pairs, "pair"), judged.n_dropped
    if dropped:
        pairs = f"{judged.n_pairs} of {judged.n_pairs + dropped} pairs ({dropped} dropped)"
    size = f"{count(judged.tasks, 'task')}, {count(judged.repeats, 'repeat')}, {pairs}"
    return f"{sentence} {base} → {head}: {size}."


def sign_flip(comparison: Comparison) -> str:
    """Say what the test says, or that it cannot say anything with so few changed tasks."""
    test = comparison.sign_flip
    if test is None:
        return ""
    share = f"{test.nonzero} of {count(comparison.tasks, 'task')} changed"
    if test.can_reach_05:
        return f"Exact sign-flip test on the deltas per task: p = {test.p:.3f} ({share})."
    least = min(1.0, 2 / 2**test.nonzero)
    return (
        f"Exact sign-flip test: only {share}; below 6 it cannot reach .05 whatever the skill does "
        f"(least possible p = {least:.3g}), so it decides nothing here."
    )


def plain_numbers(quality: Comparison, cost: Comparison | None, tokens: Comparison | None) -> str:
    """Say the numbers that are shown but judge nothing: total dollars, gain, token overhead."""
    parts = []
    if cost and cost.total_ratio is not None:
        parts.append(f"total dollars {times(cost.total_ratio)} beside the geometric {times(cost.delta)}")
    if quality.gain is not None:
        parts.append(f"Hake's gain g = {quality.gain:+.2f}")
    if tokens and tokens.total_ratio is not None:
        overhead = f"{100 * (tokens.total_ratio - 1):+.0f} %"
        parts.append(f"token overhead rho = {overhead} ({tokens.base:,.0f} → {tokens.head:,.0f} per run)")
    return f"Plain numbers, no test: {'; '.join(parts)}." if parts else ""


def in_short(quality: Comparison, cost: Comparison | None) -> str:
    """Say in one line what two arms show."""
    base, head = quality.arms
    ratios = f"{percent(quality.base)} → {percent(quality.head)}"
    money = f"; cost {times(cost.delta)}{_bracket(cost)}" if cost else ""
    return (
        f"`{base}` → `{head}`: pass ratio {ratios}, {points(quality.delta)} points{_bracket(quality)}{money}"
    )


def _bracket(found: Comparison) -> str:
    return f" ({interval(found.interval, found.metric)})" if found.interval else ""


# --- runs, money, weight ----------------------------------------------------------


def cost_lines(report: Report) -> list[str]:
    """Say how many runs there were and what does not count, money against the cap, token weight."""
    lines = []
    if report.plan is not None:
        scored = sum(run.outcome.is_scored for run in report.runs)
        lines = [f"{count(scored, 'scored run')} of {len(report.plan.cells)} planned. {money(report.spend)}"]
    return [
        *lines,
        *_grouped(report.runs),
        *_cross_check(report.runs),
        *_weight(report.weight_base, report.weight_head),
        *_reading(report),
    ]


def money(spend: Spend) -> str:
    """Say what was spent against the cap; nothing where nothing could be."""
    if not spend.cap_usd_micros:
        return ""
    spent, cap, held = (usd(n) for n in (spend.spent_usd_micros, spend.cap_usd_micros, spend.held_usd_micros))
    held_too = f", {dollars(held)} held for calls of unknown cost" if held else ""
    reused = f" {count(spend.reused_runs, 'run')} reused from earlier." if spend.reused_runs else ""
    return f"Spent {dollars(spent)} of the {dollars(cap)} cap{held_too}.{reused}"


def _grouped(runs: Iterable[Run]) -> list[str]:
    """Group runs that crashed, were cut short or do not count by the sentence their reason starts with."""
    groups: dict[tuple[Outcome, str], list[str]] = {}
    for run in runs:
        if run.reason or not run.outcome.is_scored:
            groups.setdefault((run.outcome, re.split(r": |\n", run.reason)[0]), []).append(run.reason)
    lines = []
    for (outcome, start), reasons in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        example = reasons[0].removeprefix(start).lstrip(": \n")
        reason = reasons[0] if len(set(reasons)) == 1 else f"{start} (such as: {example})"
        score = _SCORED if outcome.is_scored else _NO_SCORE
        who = f"{count(len(reasons), f'{outcome} run')} ({score})"
        lines.append(f"{who}: {reason or 'no reason given'}")
    return lines


def _cross_check(runs: Iterable[Run]) -> list[str]:
    """Say where the agent's own books differ from the meter's by more than MAX_DIFFERENCE."""
    both = [(run.usage.usd_micros, run.reported_usd_micros) for run in runs if run.outcome.is_scored]
    pairs = [(metered, said) for metered, said in both if said is not None]
    wrong = [
        (metered, said)
        for metered, said in pairs
        if abs(said - metered) > max(MAX_DIFFERENCE * metered, ROUNDING_USD_MICROS)
    ]
    if not wrong:
        return []
    metered, said = (usd(sum(side)) for side in zip(*wrong, strict=True))
    return [
        f"By the agent's own books {count(len(wrong), 'run')} of {len(pairs)} cost ${said:.4f}, by the meter "
        f"${metered:.4f}: the meter's figure counts; see whether the price table is of today."
    ]


def _weight(before: TokenWeight | None, after: TokenWeight | None) -> list[str]:
    sides = [weight for weight in (before, after) if weight]
    if not sides:
        return []
    names = ("listing", "body", "references")
    values = [[getattr(weight, name) for weight in sides] for name in names]
    values.append([sum(part) for part in zip(*values, strict=True)])
    parts = ", ".join(map(_part, (*names, "total"), values))
    gone = "" if after else ", before"
    paid = " Listing is paid on every request, body and references on use." if after else ""
    return [f"Token weight ({sides[-1].tokenizer}{gone}): {parts}.{paid}"]


def _reading(report: Report) -> list[str]:
    """Say what a thousand uses and a thousand listings of a skill cost, where the model has a known price."""
    sides = [weight for weight in (report.weight_base, report.weight_head) if weight]
    price = report.input_price
    if price is None or report.weight_head is None:
        return []
    use, listing = (
        " → ".join(dict.fromkeys(f"${price.usd_per_1000(getattr(weight, name)):,.2f}" for weight in sides))
        for name in ("body", "listing")
    )
    each = f"at ${price.usd_per_mtok:g} per million input tokens of {price.source}, before caching"
    return [f"1,000 uses read the body for {use}, 1,000 requests list it for {listing} ({each})."]


def _part(name: str, values: list[int]) -> str:
    if values[0] == values[-1]:
        return f"{name} {values[0]:,}"
    return f"{name} {values[0]:,} → {values[1]:,} ({values[1] - values[0]:+,})"


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
