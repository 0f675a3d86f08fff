"""One changed skill -> its report: lint, plan, paired run, comparison, verdict.

`prepare` and `plan_case` spend nothing and say what would run, or why nothing would; `judge` runs it, and
`conclude` adds what only the whole gate knows.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from skillgate import __version__
from skillgate.bench.attempt import Evaluation
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import NO_MONEY
from skillgate.bench.reuse import Baselines
from skillgate.bench.runner import Bench
from skillgate.bench.suite import Suite, suite_digest
from skillgate.config import Config, RunConfig
from skillgate.core import Calibration, Decision, Outcome, Plan, Report, Run, Spend, Verdict
from skillgate.gate.agents import price_table
from skillgate.gate.calibration_record import fitting
from skillgate.gate.case import Case
from skillgate.gate.means import Means, removed_skills
from skillgate.gate.paired import Paired, broken_graders, run_paired
from skillgate.gate.planning import contents_of, terms_of
from skillgate.prices import input_price
from skillgate.stats.verdict import correct, decide, holm, with_findings
from skillgate.tokens import weigh
from skillgate.values import InputPrice, usd


class Court(NamedTuple):
    """What the cases of a gate are judged with; a block has to stand up to all `skills` of it."""

    config: Config
    means: Means
    bench: Bench
    calibration: Calibration | None
    skills: int


class Judged(NamedTuple):
    """The report of a case, findings aside; `is_partial` when the user stopped its runs.

    `drop_p` is the p value of a drop over all its looks, None where nothing ran.
    """

    report: Report
    drop_p: float | None = None
    is_partial: bool = False


def not_run(case: Case, config: Config) -> Judged:
    """Draw the report of a case that will not run: it says why."""
    return Judged(_report(case, config, Verdict(decision=Decision.NOT_RUN, reasons=(case.why_not,))))


def judge(case: Case, plan: Plan, court: Court) -> Judged:
    """Run a planned case within its share of the money."""
    config, bench = court.config, court.bench
    key = evaluation_key(case, plan, court.means, config.run)
    ledger = Ledger(plan.cap_usd_micros, *bench.journal.sums(key), whole=bench.ledger)
    evaluation = _evaluation(key, case, plan, court)
    baselines = Baselines(bench.journal, key, evaluation.contents, terms_of(case, config))
    found = run_paired(evaluation, bench._replace(ledger=ledger), config, baselines, court.skills)
    verdict = decide([c for c in found.comparisons if c.arms == case.arms], config.policy)
    verdict = _with_skips(_unless_broken(verdict, found.runs), found.runs, ledger)
    verdict = _partial(verdict, found.runs) if found.is_partial else verdict
    report = replace(
        _report(case, config, replace(verdict, reasons=(*verdict.reasons, *found.notes))),
        plan=plan,
        runs=found.runs,
        comparisons=found.comparisons,
        judged=case.arms,
        looks=found.looks,
        skills_compared=court.skills,
        calibration=fitting(court.calibration, suite_digests(case.suites), plan.agent, plan.model)[0],
        spend=_spend(found, plan, ledger),
        versions=_versions(case, court.means) | _answered(found.runs),
    )
    return Judged(report, found.drop_p, found.is_partial)


def conclude(judged: Sequence[Judged], config: Config) -> list[Report]:
    """Let blocks stand up to all skills of the gate, by Holm's method, and add what the linter says."""
    ran = [one.drop_p for one in judged if one.drop_p is not None]
    adjusted = iter(holm(ran))
    several = len(ran) > 1
    reports = []
    for report, drop_p, _ in judged:
        p = None if drop_p is None else next(adjusted)
        verdict = report.verdict
        if several and p is not None:
            verdict = correct(verdict, p, len(ran), config.policy)
        verdict = with_findings(verdict, report.findings, config.lint.fail_on)
        reports.append(replace(report, adjusted_p=p if several else None, verdict=verdict))
    return reports


def evaluation_key(case: Case, plan: Plan, means: Means, run: RunConfig) -> str:
    """Identify a paired run by what decides its cells; a larger budget or more repeats continue it."""
    skills = {arm: skill.files.digest() for arm, skill in case.skills.items() if skill is not None}
    settings = (plan.agent, plan.model, plan.seed, plan.per_run_usd_micros, plan.inject)
    limits = (run.timeout_s, run.max_turns, run.per_run_tokens, run.provider)
    parts = (
        __version__,
        case.subject.change.path,
        skills,
        settings,
        limits,
        _versions(case, means),
        means.script,
    )
    text = json.dumps(msgspec.to_builtins(parts), sort_keys=True)  # escapes what is not UTF-8 in a path
    return hashlib.sha256(text.encode()).hexdigest()


def _evaluation(key: str, case: Case, plan: Plan, court: Court) -> Evaluation:
    bench, means = court.bench, court.means
    return Evaluation(
        key=key,
        label=case.subject.change.path,
        plan=plan,
        units=case.units,
        skills=case.skills,
        agent=means.agent,
        sandbox=means.sandbox,
        traces=bench.traces and bench.traces / key[:12],
        contents=contents_of(case, court.config, means),
        suites=suite_digests(case.suites),
    )


def _unless_broken(verdict: Verdict, runs: Sequence[Run]) -> Verdict:
    """Decide nothing on graders that no run in any arm could pass although doing nothing should."""
    which = broken_graders(runs)
    if not which:
        return verdict
    reason = (
        f"No run in any arm passed {which}: the suite or the sandbox is broken, try `skillgate suite check`."
    )
    return Verdict(decision=Decision.INCONCLUSIVE, reasons=(reason, *verdict.reasons))


def _partial(verdict: Verdict, runs: Sequence[Run]) -> Verdict:
    """Decide nothing on what somebody stopped in the middle."""
    done = sum(run.outcome is not Outcome.SKIPPED for run in runs)
    reason = (
        f"Interrupted after {done} of {len(runs)} runs: this is a partial result; continue it with --resume."
    )
    return Verdict(decision=Decision.INCONCLUSIVE, reasons=(reason, *verdict.reasons))


def _with_skips(verdict: Verdict, runs: Sequence[Run], share: Ledger) -> Verdict:
    """Say with the verdict that the money ran out, when it did."""
    skipped = sum(run.outcome is Outcome.SKIPPED for run in runs)
    if not skipped:
        return verdict
    cap, each = usd(share.cap_usd_micros), usd(share.spent_usd_micros) / max(len(runs) - skipped, 1)
    short = {run.reason for run in runs if run.outcome is Outcome.SKIPPED}
    if NO_MONEY not in short:
        what = ", ".join(sorted(reason.removeprefix("not started: ") for reason in short))
        reason = f"{skipped} of {len(runs)} runs did not start: {what}."
        return replace(verdict, reasons=(*verdict.reasons, reason))
    reason = (
        f"The budget of ${cap:.2f} ran out after {len(runs) - skipped} of {len(runs)} runs, which cost "
        f"${each:.3f} each: set run.budget-usd higher, or run.repeats lower."
    )
    return replace(verdict, reasons=(*verdict.reasons, reason))


def _spend(found: Paired, plan: Plan, ledger: Ledger) -> Spend:
    counts = Counter(run.outcome for run in found.runs)
    return Spend(
        spent_usd_micros=ledger.spent_usd_micros,
        held_usd_micros=ledger.held_usd_micros,
        cap_usd_micros=ledger.cap_usd_micros,
        runs=len(found.runs) - counts[Outcome.SKIPPED] - len(found.reused),
        invalid_runs=counts[Outcome.INVALID],
        skipped_runs=counts[Outcome.SKIPPED],
        reused_runs=len(found.reused),
        saved_runs=len(found.not_needed),
        saved_usd_micros=plan.cost_of(set(found.not_needed) - set(plan.reused)),
    )


def _versions(case: Case, means: Means) -> dict[str, str]:
    suites = {f"suite {name}": digest for name, digest in suite_digests(case.suites).items()}
    return {
        "skillgate": __version__,
        "agent-version": means.agent.version,
        **means.sandbox.describe(),
        **suites,
        **removed_skills(case.suites, means.sandbox),
    }


def suite_digests(suites: Sequence[Suite]) -> dict[str, str]:
    """Return which version of each suite this is, by its name."""
    return {suite.name: suite_digest(suite)[:16] for suite in suites}


def _answered(runs: Sequence[Run]) -> dict[str, str]:
    """Return the models that answered: an alias moves."""
    models = sorted({model for run in runs for model in run.models})
    return {"answered by": ", ".join(models)} if models else {}


def _input_price(config: Config) -> InputPrice | None:
    price = price_table(config).price(config.run.model)
    return input_price(price) if price else None


def _report(case: Case, config: Config, verdict: Verdict) -> Report:
    change, head, base = case.subject.change, case.subject.head, case.subject.base
    return Report(
        skill=change.path,
        change=change,
        findings=case.findings,
        weight_base=weigh(base) if base is not None else None,
        weight_head=weigh(head) if head is not None else None,
        input_price=_input_price(config),
        verdict=verdict,
        versions={"skillgate": __version__},
    )
