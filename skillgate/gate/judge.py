"""One changed skill -> its report: lint, plan, paired run, comparison, verdict.

`prepare` spends nothing and says what would run, or why nothing would; `judge` runs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from skillgate import __version__
from skillgate.bench.agents.scripted import Agent
from skillgate.bench.plan import affordable_repeats, make_plan
from skillgate.bench.runner import Bench, Evaluation, execute
from skillgate.bench.sandbox import Sandbox
from skillgate.bench.suite import Suite, Task, suite_digest, task_facts
from skillgate.config import Config
from skillgate.core import (
    BASE_ARM,
    HEAD_ARM,
    NONE_ARM,
    ArmPair,
    Comparison,
    Decision,
    Finding,
    Outcome,
    Plan,
    Report,
    Run,
    Spend,
    Verdict,
)
from skillgate.gate.changes import Subject
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule
from skillgate.skill import Skill
from skillgate.stats.compare import compare
from skillgate.stats.verdict import decide, with_findings
from skillgate.tokens import weigh

NO_AGENT = "no agent is configured: set `run.agent` in skillgate.yml for a paired run"
NO_SUITE = "no suite judges this skill: name one under `suites` in skillgate.yml"
SAME_CONTENT = "its content is the same as before: nothing to compare"
DELETED = "the skill was deleted: nothing to run"


class Case(NamedTuple):
    """A subject that is ready to be judged; `why_not` says why nothing will run."""

    subject: Subject
    suites: tuple[Suite, ...]
    findings: tuple[Finding, ...]
    plan: Plan | None
    why_not: str

    @property
    def tasks(self) -> dict[str, tuple[Suite, Task]]:
        """Map task ids to their suite and task."""
        return {task.id: (suite, task) for suite in self.suites for task in suite.tasks}

    @property
    def skills(self) -> dict[str, Skill | None]:
        """Map arms to the skill they install."""
        return {NONE_ARM: None, BASE_ARM: self.subject.base, HEAD_ARM: self.subject.head}


class Means(NamedTuple):
    """What runs the cells: built once per gate."""

    agent: Agent
    sandbox: Sandbox
    script_digest: str = ""


def lint_subject(subject: Subject, rules: Sequence[Rule], suites: Sequence[Suite]) -> tuple[Finding, ...]:
    """Lint the head of a subject, knowing the tasks that will judge it."""
    if subject.head is None:
        return ()
    return lint_skill(subject.head, rules, [fact for suite in suites for fact in task_facts(suite)])


def prepare(
    subject: Subject,
    suites: tuple[Suite, ...],
    rules: Sequence[Rule],
    config: Config,
    cap_usd_micros: int,
    why_not: str = "",
) -> Case:
    """Lint a subject and plan its run, spending nothing; with `why_not` it is linted only.

    Raises: PrerequisiteError when the cap cannot pay one repeat.
    """
    findings = lint_subject(subject, rules, suites)
    why_not = why_not or _why_not(subject, suites, config)
    plan = None if why_not else _plan(subject, suites, config, cap_usd_micros)
    return Case(subject, suites, findings, plan, why_not)


def judge(case: Case, config: Config, means: Means | None, bench: Bench | None) -> Report:
    """Run a prepared case and draw its report; without a plan there is nothing to run."""
    if case.plan is None or means is None or bench is None:
        return _report(case, config, Verdict(decision=Decision.NOT_RUN, reasons=(case.why_not,)))
    runs = execute(_evaluation(case, means), bench)
    comparisons = _compare(case.plan, runs, config)
    verdict = decide([c for c in comparisons if c.arms == _pair(case.subject)], config.policy)
    report = _report(case, config, verdict)
    return msgspec.structs.replace(
        report,
        plan=case.plan,
        runs=runs,
        comparisons=comparisons,
        spend=_spend(case.plan, runs),
        versions=_versions(case, means),
    )


def evaluation_key(case: Case, means: Means) -> str:
    """Identify a paired run by everything that decides it: equal keys may share runs."""
    assert case.plan is not None
    skills = {arm: skill.files.digest() for arm, skill in case.skills.items() if skill is not None}
    parts = (__version__, case.plan, skills, _versions(case, means), means.script_digest)
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _why_not(subject: Subject, suites: Sequence[Suite], config: Config) -> str:
    if subject.head is None:
        return DELETED
    if subject.is_same_content:
        return SAME_CONTENT
    if config.run.agent is None:
        return NO_AGENT
    return "" if suites else NO_SUITE


def _plan(subject: Subject, suites: Sequence[Suite], config: Config, cap_usd_micros: int) -> Plan:
    run = config.run
    tasks = [task.id for suite in suites for task in suite.tasks]
    arms: tuple[str, ...] = _pair(subject)
    three = affordable_repeats(3 * len(tasks), cap_usd_micros, run.per_run_usd_micros)
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
    )


def _pair(subject: Subject) -> ArmPair:
    return ArmPair(NONE_ARM if subject.base is None else BASE_ARM, HEAD_ARM)


def _evaluation(case: Case, means: Means) -> Evaluation:
    assert case.plan is not None
    return Evaluation(
        key=evaluation_key(case, means),
        label=case.subject.change.path,
        plan=case.plan,
        tasks=case.tasks,
        skills=case.skills,
        agent=means.agent,
        sandbox=means.sandbox,
    )


def _compare(plan: Plan, runs: Sequence[Run], config: Config) -> tuple[Comparison, ...]:
    """Compare base with head (or none with head); the pair that decides comes first."""
    pairs = [ArmPair(arm, HEAD_ARM) for arm in (BASE_ARM, NONE_ARM) if arm in plan.arms]
    found: list[Comparison] = []
    for pair in pairs:
        planned = [cell for cell in plan.cells if cell.arm in pair]
        found += compare(runs, pair, planned, level=config.policy.level, seed=plan.seed)
    return tuple(found)


def _spend(plan: Plan, runs: Sequence[Run]) -> Spend:
    counts = {outcome: sum(run.outcome is outcome for run in runs) for outcome in Outcome}
    return Spend(
        spent_usd_micros=sum(run.usage.usd_micros for run in runs),
        cap_usd_micros=plan.cap_usd_micros,
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
    }


def _report(case: Case, config: Config, verdict: Verdict) -> Report:
    change, head, base = case.subject.change, case.subject.head, case.subject.base
    return Report(
        skill=change.path,
        change=change,
        findings=case.findings,
        weight_base=weigh(base) if base is not None else None,
        weight_head=weigh(head) if head is not None else None,
        verdict=with_findings(verdict, case.findings, config.lint.fail_on),
        versions={"skillgate": __version__},
    )
