"""Runs, money, tokens and weight of a report -> the sentences under "What it costs"; see `wording`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from skillgate.core import Comparison, Metric, Outcome, Plan, Report, Run, Spend
from skillgate.report.wording import bracket, count, dollars, level, shift
from skillgate.values import TokenWeight, usd

MAX_DIFFERENCE = 0.01  # between two books of the same run
ROUNDING_USD_MICROS = 50  # the meter rounds every call up
_NO_SCORE, _SCORED = "no score", "scored by their graders"
_AMOUNTS = {
    Metric.TOKENS: ("tokens", 0, ""),
    Metric.TURNS: ("turns", 1, ""),
    Metric.WALL_S: ("time", 1, " s"),
}


def cost_lines(report: Report) -> list[str]:
    """Say how many runs there were and what does not count, what they took, money, token weight."""
    return [
        *([_runs(report, report.plan)] if report.plan else []),
        *_amounts(report),
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
    return f"Spent {dollars(spent)} of the {dollars(cap)} cap{held_too}."


def total(spend: Spend) -> str:
    """Say what a whole gate spent, reused and saved."""
    reused = f"{count(spend.reused_runs, 'run')} reused." if spend.reused_runs else ""
    return " ".join(part for part in (money(spend), reused, saved(spend)) if part)


def saved(spend: Spend) -> str:
    """Say what was not needed any more when the verdict was known."""
    if not spend.saved_runs:
        return ""
    worth = f" and about {dollars(usd(spend.saved_usd_micros))}" if spend.saved_usd_micros else ""
    were = "was" if spend.saved_runs == 1 and not worth else "were"
    return f"{count(spend.saved_runs, 'run')}{worth} {were} saved."


def _runs(report: Report, plan: Plan) -> str:
    """Say how many runs have a score, where those came from that are not new, and what the others cost."""
    scored = count(sum(run.outcome.is_scored for run in report.runs), "scored run")
    source = "earlier gates" if report.skills_compared < 2 else "earlier gates or other skills of this one"
    reused = (
        f", {report.spend.reused_runs:,} of them reused from {source} (same task, agent, model and image)"
    )
    counts = f"{scored} of {len(plan.cells):,} planned{reused if report.spend.reused_runs else ''}."
    return f"{counts} {money(report.spend)}".rstrip()


def _amounts(report: Report) -> list[str]:
    """Say what a run takes in either arm beside money: measured, not judged."""
    judged = report.comparison(Metric.PASS_RATIO)
    arms = judged.arms if judged else None
    found = {c.metric: c for c in reversed(report.comparisons) if c.arms == arms and c.n_pairs}
    measured = [found[metric] for metric in _AMOUNTS if metric in found]
    parts = [_amount(one) for one in measured if one.base or one.head]
    known = next((one.interval for one in measured if one.interval), None)
    title = (
        f"Per run, not judged (change and its {level(known)} interval)" if known else "Per run, not judged"
    )
    return [f"{title}: {'; '.join(parts)}."] if parts else []


def _amount(found: Comparison) -> str:
    name, digits, unit = _AMOUNTS[found.metric]
    written = (
        f"{name} {found.base:,.{digits}f} → {found.head:,.{digits}f}{unit}, {shift(found)}{bracket(found)}"
    )
    if found.metric is not Metric.TOKENS or found.total_ratio is None:
        return written
    return f"{written}, token overhead rho = {100 * (found.total_ratio - 1):+.0f} %"


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
