"""One changed skill -> its report: lint, plan, paired run, comparison, verdict.

`prepare` and `plan_case` spend nothing and say what would run, or why nothing would; `judge` runs it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from skillgate import __version__
from skillgate.bench.attempt import Evaluation
from skillgate.bench.journal import Who, past_costs
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import NO_MONEY
from skillgate.bench.plan import Expected, affordable_repeats, expect, make_plan
from skillgate.bench.runner import Bench, execute
from skillgate.bench.suite import Suite, Task, suite_digest, task_facts
from skillgate.config import Config, LintConfig, RunConfig
from skillgate.core import (
    BASE_ARM,
    HEAD_ARM,
    NONE_ARM,
    ArmPair,
    Comparison,
    Decision,
    Finding,
    GradeKind,
    Outcome,
    Plan,
    Report,
    Run,
    Spend,
    TaskFacts,
    Verdict,
)
from skillgate.gate.agents import price_table
from skillgate.gate.changes import Subject
from skillgate.gate.means import Means, removed_skills
from skillgate.lint.check import Library
from skillgate.lint.engine import Checked, check_skill, lint_library
from skillgate.lint.rule import Rule
from skillgate.lint.sift import Baseline, merged, sift
from skillgate.prices import input_price
from skillgate.skill import Skill, is_too_long
from skillgate.stats.compare import compare
from skillgate.stats.verdict import decide, with_findings
from skillgate.tokens import weigh
from skillgate.values import InputPrice, usd

NO_AGENT = "no agent is configured: set `run.agent` in skillgate.yml for a paired run"
NO_SUITE = "no suite judges this skill: name one under `suites` in skillgate.yml"
SAME_CONTENT = "its content is the same as before: nothing to compare"
NOT_INSTALLED = "what changed is not installed in a run (links, modes, skipped folders), look at it: {files}"
TOO_LONG = "it holds a path that is too long to be installed"
DELETED = "the skill was deleted: nothing to run"


class Case(NamedTuple):
    """A subject that is ready to be judged; `why_not` says why nothing will run."""

    subject: Subject
    suites: tuple[Suite, ...]
    findings: tuple[Finding, ...]
    plan: Plan | None
    why_not: str

    @property
    def units(self) -> dict[str, tuple[Suite, tuple[Task, ...]]]:
        """Map what a cell executes to its suite and tasks."""
        return {name: (suite, tasks) for suite in self.suites for name, tasks in suite.units.items()}

    @property
    def skills(self) -> dict[str, Skill | None]:
        """Map arms to the skill they install."""
        return {NONE_ARM: None, BASE_ARM: self.subject.base, HEAD_ARM: self.subject.head}


class Linter(NamedTuple):
    """What every subject of a gate is linted with."""

    rules: Sequence[Rule]
    library: Library
    baseline: Baseline
    config: LintConfig

    def lint(self, subject: Subject, tasks: Sequence[TaskFacts]) -> tuple[Finding, ...]:
        """Lint the head of a subject: alone, and among the other skills of its repository.

        What the base has too is marked; it still counts.
        """
        if subject.head is None:
            return ()
        head = check_skill(subject.head, self.rules, tasks)
        base = check_skill(subject.base, self.rules, tasks) if subject.base is not None else None
        library = self.library._replace(about=subject.head.path)
        others = [f for f in lint_library(library, self.rules) if f.where.path == subject.head.file]
        found = (*head.findings, *others)
        trusted = self._silenced(base) if base else ()
        sifted = sift(found, head.comments, self.rules, self.config, baseline=self.baseline, trusted=trusted)
        old = _known(base.findings, subject.base) if base and subject.base else Counter()
        return tuple(merged(_marked(sifted.findings, subject.head, old)))

    def _silenced(self, base: Checked) -> list[str]:
        """Return what comments silence at the base."""
        ignored = sift(base.findings, base.comments, self.rules, self.config).ignored
        return [finding.fingerprint for finding in ignored]


def _known(findings: Iterable[Finding], skill: Skill) -> Counter[tuple[str, str, str]]:
    """Count findings by rule, file and match; the file as seen from the skill, which may have moved."""
    return Counter((finding.rule, skill.name_of(finding.where.path), finding.match) for finding in findings)


def _marked(
    findings: Iterable[Finding], skill: Skill, old: Counter[tuple[str, str, str]]
) -> Iterator[Finding]:
    """Mark each finding that the base has too, of equal ones no more than it has."""
    for finding in findings:
        (key,) = _known([finding], skill)
        old[key] -= 1
        yield msgspec.structs.replace(finding, at_base=old[key] >= 0)


def prepare(
    subject: Subject, suites: Sequence[Suite], linter: Linter, config: Config, why_not: str = ""
) -> Case:
    """Lint a subject, knowing the tasks that will judge it, and say why it will not run, if so."""
    facts = [fact for suite in suites for fact in task_facts(suite)]
    findings = linter.lint(subject, facts)
    limited = tuple(_limited(suite, config.run.timeout_s) for suite in suites)
    return Case(subject, limited, findings, None, _why_not(subject, suites, config, why_not))


def plan_case(case: Case, config: Config, shared_by: int, journal: Path, *, resume: bool = False) -> Case:
    """Plan the runs of a case that will run, spending nothing; `shared_by` cases share the budget.

    What earlier runs in the journal cost is what they should cost.

    Raises: PrerequisiteError when the cap cannot pay one repeat.
    """
    if case.why_not:
        return case
    run = config.run
    past = past_costs(journal, Who(run.agent or "", run.model), list(case.units), resume=resume)
    return case._replace(plan=_plan(case, run, shared_by, expect(past, run.per_run_usd_micros)))


def judge(case: Case, config: Config, means: Means | None, bench: Bench | None) -> Report:
    """Run a planned case within its share of the money and draw its report.

    Without a plan, or anything to run it with, the report says why nothing ran.
    """
    if case.plan is None or means is None or bench is None:
        return _report(case, config, Verdict(decision=Decision.NOT_RUN, reasons=(case.why_not,)))
    key = evaluation_key(case, case.plan, means, config.run)
    share = Ledger(case.plan.cap_usd_micros, *bench.journal.sums(key), whole=bench.ledger)
    runs = execute(_evaluation(key, case, case.plan, means, bench), bench._replace(ledger=share))
    comparisons = _compare(case.plan, runs, config)
    judged = _pair(case.subject)
    verdict = decide([c for c in comparisons if c.arms == judged], config.policy)
    verdict = _with_skips(_unless_broken(verdict, runs), runs, share)
    return msgspec.structs.replace(
        _report(case, config, verdict),
        plan=case.plan,
        runs=runs,
        comparisons=comparisons,
        judged=judged,
        spend=_spend(runs, share),
        versions=_versions(case, means) | _answered(runs),
    )


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
        means.hired.script_digest,
    )
    text = json.dumps(msgspec.to_builtins(parts), sort_keys=True)  # escapes what is not UTF-8 in a path
    return hashlib.sha256(text.encode()).hexdigest()


def _limited(suite: Suite, timeout_s: float) -> Suite:
    """Let no task run longer than the configuration allows."""
    replace = msgspec.structs.replace
    capped = ((task, min(task.limits.timeout_s, timeout_s)) for task in suite.tasks)
    tasks = tuple(replace(task, limits=replace(task.limits, timeout_s=limit)) for task, limit in capped)
    return replace(suite, tasks=tasks)


def _why_not(subject: Subject, suites: Sequence[Suite], config: Config, why_not: str) -> str:
    """Return the first reason not to run, in the order of what a reader can change least."""
    if subject.head is None:
        return DELETED
    if subject.head.facts.unreadable:
        return f"{subject.head.file} cannot be read: {subject.head.facts.unreadable}"
    if subject.is_same_content and subject.change.files:
        return NOT_INSTALLED.format(files=", ".join(subject.change.files[:5]))
    if subject.is_same_content:
        return SAME_CONTENT
    if any(map(is_too_long, subject.head.files.names)):
        return TOO_LONG
    if why_not:
        return why_not
    if config.run.agent is None:
        return NO_AGENT
    return "" if suites else NO_SUITE


def _plan(case: Case, run: RunConfig, shared_by: int, expected: Expected) -> Plan:
    cap_usd_micros = run.cap_usd_micros // shared_by
    tasks = list(case.units)
    arms: tuple[str, ...] = _pair(case.subject)
    three = affordable_repeats(3 * len(tasks), cap_usd_micros, run.per_run_usd_micros, expected)
    if NONE_ARM not in arms and three >= run.repeats:
        arms = (*arms, NONE_ARM)
    return make_plan(
        tasks,
        arms,
        repeats=run.repeats,
        seed=run.seed,
        agent=run.agent or "",
        model=run.model,
        cap_usd_micros=cap_usd_micros,
        per_run_usd_micros=run.per_run_usd_micros,
        shared_by=shared_by,
        inject=run.inject,
        expected=expected,
    )


def _pair(subject: Subject) -> ArmPair:
    return ArmPair(NONE_ARM if subject.base is None else BASE_ARM, HEAD_ARM)


def _evaluation(key: str, case: Case, plan: Plan, means: Means, bench: Bench) -> Evaluation:
    return Evaluation(
        key=key,
        label=case.subject.change.path,
        plan=plan,
        units=case.units,
        skills=case.skills,
        agent=means.agent,
        sandbox=means.sandbox,
        traces=bench.traces and bench.traces / key[:12],
    )


def _compare(plan: Plan, runs: Sequence[Run], config: Config) -> tuple[Comparison, ...]:
    """Compare base with head (or none with head); the pair that decides comes first."""
    pairs = [ArmPair(arm, HEAD_ARM) for arm in (BASE_ARM, NONE_ARM) if arm in plan.arms]
    found: list[Comparison] = []
    for pair in pairs:
        planned = [cell for cell in plan.cells if cell.arm in pair]
        found += compare(runs, pair, planned, level=config.policy.level, seed=plan.seed)
    return tuple(found)


def _unless_broken(verdict: Verdict, runs: Sequence[Run]) -> Verdict:
    """Decide nothing on graders that no run in any arm could pass although doing nothing should."""
    grades = [(run.cell.task, grade) for run in runs if run.outcome.is_scored for grade in run.grades]
    passed = {(task, grade.grader) for task, grade in grades if grade.passed}
    safe = {(task, grade.grader) for task, grade in grades if grade.kind is GradeKind.PASS_TO_PASS}
    dead = sorted(safe - passed)
    if not grades or (passed and not dead):
        return verdict
    which = (
        f"the pass-to-pass grader `{dead[0][1]}` of {dead[0][0]}" if dead else "every grader of every task"
    )
    reason = (
        f"No run in any arm passed {which}: the suite or the sandbox is broken, try `skillgate suite check`."
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
        return msgspec.structs.replace(verdict, reasons=(*verdict.reasons, reason))
    reason = (
        f"The budget of ${cap:.2f} ran out after {len(runs) - skipped} of {len(runs)} runs, which cost "
        f"${each:.3f} each: set run.budget-usd higher, or run.repeats lower."
    )
    return msgspec.structs.replace(verdict, reasons=(*verdict.reasons, reason))


def _spend(runs: Sequence[Run], share: Ledger) -> Spend:
    counts = {outcome: sum(run.outcome is outcome for run in runs) for outcome in Outcome}
    return Spend(
        spent_usd_micros=share.spent_usd_micros,
        held_usd_micros=share.held_usd_micros,
        cap_usd_micros=share.cap_usd_micros,
        runs=len(runs) - counts[Outcome.SKIPPED],
        invalid_runs=counts[Outcome.INVALID],
        skipped_runs=counts[Outcome.SKIPPED],
    )


def _versions(case: Case, means: Means) -> dict[str, str]:
    suites: Mapping[str, str] = {f"suite {s.name}": suite_digest(s)[:16] for s in case.suites}
    return {
        "skillgate": __version__,
        "agent-version": means.agent.version,
        **means.sandbox.describe(),
        **suites,
        **removed_skills(case.suites, means.sandbox),
    }


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
        verdict=with_findings(verdict, case.findings, config.lint.fail_on),
        versions={"skillgate": __version__},
    )
