"""Sample gate reports: what a pull request author can meet, one function each.

The intervals are made up; means, ratios and deltas follow from the runs, so that a golden file
reads like a real comment.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from skillgate.core import (
    ArmPair,
    Calibration,
    Cell,
    ChangeKind,
    Comparison,
    Decision,
    Finding,
    GateReport,
    Grade,
    GradeKind,
    Interval,
    Look,
    Metric,
    Outcome,
    Plan,
    Rate,
    Report,
    Run,
    SignFlip,
    SkillChange,
    Spend,
    Step,
    Stop,
    TaskDelta,
    Verdict,
)
from skillgate.values import InputPrice, Location, Severity, TokenWeight, Usage

BASE_SHA = "3f2c9d4e5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d"
HEAD_SHA = "9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d"
GRADERS = ("files-exist", "yaml-valid", "references-resolve", "suite-green")
CHANGED = ArmPair("base", "head")
NEW = ArmPair("none", "head")

BETTER = "better, by more than run-to-run noise explains."
NO_WORSE = "no worse than the margin of 10 points allows."
WORSE = "worse, by more than run-to-run noise explains."
OPEN = "the interval is too wide to exclude a drop beyond the margin of 10 points."
WITHIN = "within the budget of x1.20."
UNPROVEN = "whether it stays within the budget of x1.20 is unproven."
NO_SCORE = "No planned pair of runs has a score in both arms: there is nothing to compare."
OVER = "over the budget of x1.20."

LEVELS = {2: 0.999212, 3: 0.992645, 4: 0.97797, 5: 0.957751}
"""The level of the intervals at looks after so many of five repeats."""

Scores = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""Task -> how many of the four graders passed, per repeat, in either arm."""


def merge() -> GateReport:
    """A new skill that helps, measured with a real model."""
    scores = {
        "ci-workflows/reusable-test": ((2, 3, 2, 2, 3), (4, 4, 4, 4, 4)),
        "ci-workflows/composite-cache": ((3, 3, 4, 3, 3), (4, 4, 4, 3, 4)),
        "ci-workflows/matrix": ((1, 2, 2, 1, 2), (3, 4, 3, 4, 4)),
        "ci-workflows/release": ((4, 4, 4, 4, 4), (4, 4, 4, 4, 4)),
        "textkit/fix-wrap": ((3, 3, 3, 3, 3), (4, 3, 3, 4, 3)),
        "textkit/slugify": ((2, 2, 3, 2, 2), (3, 3, 3, 3, 3)),
        "textkit/report-file": ((3, 2, 3, 3, 3), (4, 4, 4, 4, 3)),
        "textkit/add-chunk": ((4, 4, 4, 4, 4), (4, 4, 4, 4, 4)),
    }
    report = evaluated(
        "skills/careful-ci",
        NEW,
        scores,
        change=ChangeKind.ADDED,
        cost_factor=1.08,
        decision=Decision.MERGE,
        meanings=(BETTER, WITHIN),
        weight_head=TokenWeight(listing=52, body=1480, references=310),
    )
    return gate(report)


def block() -> GateReport:
    """A changed skill whose template displaces deliverables: a collapse, findings, a second pair of arms."""
    scores = {
        "ci-workflows/reusable-test": ((4, 4, 4, 3, 4), (1, 1, 1, 1, 1)),
        "ci-workflows/composite-cache": ((4, 4, 4, 4, 4), (2, 2, 3, 2, 2)),
        "ci-workflows/matrix": ((3, 4, 4, 3, 4), (3, 3, 4, 3, 3)),
        "ci-workflows/release": ((4, 4, 3, 4, 4), (2, 3, 3, 2, 3)),
        "ci-workflows/lint": ((4, 4, 4, 4, 4), (4, 4, 4, 4, 4)),
        "ci-workflows/nightly": ((3, 3, 3, 4, 3), (3, 4, 3, 3, 3)),
        "ci-workflows/docs": ((4, 4, 4, 4, 4), (3, 3, 3, 4, 3)),
        "ci-workflows/inputs": ((4, 4, 4, 4, 4), (3, 4, 4, 4, 4)),
    }
    report = evaluated(
        "skills/workflow-templates",
        CHANGED,
        scores,
        cost_factor=1.23,
        decision=Decision.BLOCK,
        meanings=(WORSE, UNPROVEN),
        more=(
            "Task ci-workflows/reusable-test (95 % to 25 %) collapsed: every head run is below every "
            "base run.",
            "1 finding blocks at fail-on `error`; worst: template-anchoring at "
            "skills/workflow-templates/SKILL.md:187:1: the template puts its file elsewhere",
        ),
        findings=findings("skills/workflow-templates"),
        weight_base=TokenWeight(listing=48, body=1530, references=310),
        weight_head=TokenWeight(listing=52, body=2635, references=310),
    )
    price = InputPrice(usd_per_mtok=2, source="claude-sonnet-5-5")
    other = Comparison(
        metric=Metric.PASS_RATIO,
        arms=NEW,
        tasks=8,
        repeats=2,
        n_pairs=16,
        n_dropped=0,
        base=0.75,
        head=0.725,
        delta=-0.025,
        interval=Interval(low=-0.095, high=0.045, level=0.95, method="made up for this sample"),
    )
    both = (*report.comparisons, other)
    return gate(msgspec.structs.replace(report, comparisons=both, input_price=price))


def inconclusive() -> GateReport:
    """Too few tasks to tell; the sign-flip test cannot reach .05."""
    scores = {
        "textkit/fix-wrap": ((3, 4, 3), (4, 3, 3)),
        "textkit/slugify": ((4, 4, 4), (4, 4, 4)),
        "textkit/report-file": ((2, 3, 4), (1, 3, 2)),
        "textkit/add-chunk": ((4, 4, 4), (4, 4, 4)),
    }
    report = evaluated(
        "skills/prose-style",
        CHANGED,
        scores,
        cost_factor=1.02,
        decision=Decision.INCONCLUSIVE,
        meanings=(OPEN, WITHIN),
        weight_base=TokenWeight(listing=40, body=900),
        weight_head=TokenWeight(listing=40, body=900),
    )
    return gate(report)


def hold() -> GateReport:
    """No worse, but far more expensive; some runs were lost to outages."""
    scores = {
        "textkit/fix-wrap": ((3, 4, 3, 3), (4, 4, 3, 4)),
        "textkit/slugify": ((4, 4, 4, 4), (4, 4, 4, 4)),
        "textkit/report-file": ((3, 3, 4, 3), (4, 3, 3, 4)),
        "textkit/add-chunk": ((4, 4, 4, 4), (4, 4, 4, 4)),
        "textkit/wrap-cli": ((3, 3, 2, 3), (3, 3, 3, 3)),
        "textkit/dedent": ((4, 3, 4, 4), (4, 4, 4, 4)),
        "textkit/table": ((2, 3, 3, 3), (3, 3, 3, 3)),
        "textkit/ellipsis": ((4, 4, 4, 3), (4, 4, 4, 4)),
    }
    lost = (
        (Outcome.INVALID, "the model API was overloaded: HTTP 529 after 3 attempts"),
        (Outcome.INVALID, "the model API was overloaded: HTTP 529 after 2 attempts"),
        (Outcome.INVALID, "the sandbox did not start: no space left on device"),
        (Outcome.SKIPPED, "not started: the rest of the budget could not pay for it"),
    )
    report = evaluated(
        "skills/thorough-review",
        CHANGED,
        scores,
        cost_factor=1.62,
        lost=lost,
        decision=Decision.HOLD,
        meanings=(NO_WORSE, OVER),
        cost_decides=True,
        weight_base=TokenWeight(listing=61, body=2100, references=800),
        weight_head=TokenWeight(listing=95, body=5230, references=4100),
        held_usd_micros=500_000,
        reused=8,
    )
    return gate(report)


def not_run() -> GateReport:
    """Lint only: no agent is configured."""
    report = Report(
        skill="skills/careful-ci",
        change=SkillChange(
            path="skills/careful-ci", kind=ChangeKind.CHANGED, files=("skills/careful-ci/SKILL.md",)
        ),
        findings=findings("skills/careful-ci")[1:],
        weight_base=TokenWeight(listing=48, body=1530),
        weight_head=TokenWeight(listing=48, body=1544),
        verdict=Verdict(
            decision=Decision.NOT_RUN,
            reasons=("No suite in skillgate.yml judges `skills/careful-ci`, so no task was run.",),
        ),
    )
    return gate(report)


def nothing() -> GateReport:
    """A range that touches no skill."""
    reasons = ("No skill changed between the two revisions.",)
    return gate(verdict=Verdict(decision=Decision.NOT_RUN, reasons=reasons))


def deleted() -> GateReport:
    """A range that only deletes a skill."""
    path = "skills/old-templates"
    report = Report(
        skill=path,
        change=SkillChange(path=path, kind=ChangeKind.DELETED, files=(f"{path}/SKILL.md",)),
        weight_base=TokenWeight(listing=48, body=1530),
        verdict=Verdict(decision=Decision.NOT_RUN, reasons=("The skill was deleted.",)),
    )
    return gate(report)


def scripted() -> GateReport:
    """The demo: every number is made by the scripted agent."""
    scores = {
        "textkit/fix-wrap": ((4, 4, 4, 4), (4, 4, 4, 4)),
        "textkit/slugify": ((2, 2, 3, 2), (4, 4, 4, 4)),
        "textkit/report-file": ((2, 2, 2, 2), (4, 3, 4, 4)),
        "textkit/wrap-cli": ((3, 3, 3, 3), (4, 4, 4, 3)),
    }
    report = evaluated(
        "fixtures/skills/careful-files",
        NEW,
        scores,
        change=ChangeKind.ADDED,
        cost_factor=1.11,
        decision=Decision.MERGE,
        meanings=(BETTER, UNPROVEN),
        agent="scripted",
        model="scripted",
        weight_head=TokenWeight(listing=44, body=610),
    )
    return gate(report)


def dropped() -> GateReport:
    """An outage: no run has a score."""
    scores: Scores = {"textkit/fix-wrap": ((), ()), "textkit/slugify": ((), ())}
    lost = ((Outcome.INVALID, "the model API failed: HTTP 503"),) * 4 + (
        (Outcome.SKIPPED, "not started: the rest of the budget could not pay for it"),
    ) * 4
    report = evaluated(
        "skills/prose-style",
        CHANGED,
        scores,
        lost=lost,
        decision=Decision.INCONCLUSIVE,
        weight_base=TokenWeight(listing=40, body=900),
        weight_head=TokenWeight(listing=41, body=950),
    )
    return gate(report)


def several() -> GateReport:
    """One skill of each kind in one range."""
    parts = (merge(), block(), inconclusive(), deleted())
    reports = tuple(part.reports[0] for part in parts)
    reasons = tuple(f"{report.skill}: {report.verdict.reasons[0]}" for report in reports[1:2])
    return gate(*reports, verdict=Verdict(decision=Decision.BLOCK, reasons=reasons))


def early() -> GateReport:
    """A harm that is known after three of five repeats; the suite is calibrated."""
    scores = {
        "ci-workflows/reusable-test": ((4, 4, 3), (2, 1, 2)),
        "ci-workflows/composite-cache": ((4, 4, 4), (2, 3, 2)),
        "ci-workflows/matrix": ((3, 4, 4), (3, 2, 3)),
        "ci-workflows/release": ((4, 4, 3), (2, 3, 3)),
        "ci-workflows/lint": ((4, 4, 4), (4, 4, 4)),
        "ci-workflows/nightly": ((3, 3, 4), (2, 3, 2)),
        "ci-workflows/docs": ((4, 4, 4), (3, 3, 3)),
        "ci-workflows/inputs": ((4, 4, 4), (3, 2, 3)),
    }
    report = evaluated(
        "skills/workflow-templates",
        CHANGED,
        scores,
        cost_factor=1.05,
        decision=Decision.BLOCK,
        meanings=(WORSE, WITHIN),
        planned=5,
        level=LEVELS[3],
        weight_base=TokenWeight(listing=48, body=1530, references=310),
        weight_head=TokenWeight(listing=52, body=2635, references=310),
    )
    taken = looks(Stop.DECIDED, 2, 3)
    return gate(msgspec.structs.replace(report, looks=taken, calibration=CALIBRATION))


def futile() -> GateReport:
    """After four of five repeats neither a loss nor its absence is likely to be shown."""
    scores = {
        "textkit/fix-wrap": ((3, 4, 3, 1), (2, 3, 1, 4)),
        "textkit/slugify": ((4, 1, 4, 4), (4, 4, 1, 3)),
        "textkit/report-file": ((2, 3, 4, 2), (1, 3, 2, 3)),
        "textkit/add-chunk": ((4, 4, 1, 4), (4, 4, 4, 0)),
    }
    report = evaluated(
        "skills/prose-style",
        CHANGED,
        scores,
        cost_factor=1.02,
        decision=Decision.INCONCLUSIVE,
        meanings=(OPEN, WITHIN),
        planned=5,
        level=LEVELS[4],
        weight_base=TokenWeight(listing=40, body=900),
        weight_head=TokenWeight(listing=40, body=940),
    )
    return gate(msgspec.structs.replace(report, looks=looks(Stop.FUTILE, 2, 3, 4)))


def reused() -> GateReport:
    """Ten repeats without the skill are known already; dear tasks have fewer new ones."""
    known = (3, 3, 2, 3, 3, 4, 3, 3, 2, 3)
    scores = {
        "ci-workflows/reusable-test": (known, (4, 4, 4, 4, 4)),
        "ci-workflows/matrix": ((1, 2, 2, 1, 2, 2, 1, 2, 2, 2), (3, 4, 3)),
        "ci-workflows/release": ((4,) * 10, (4, 4)),
        "textkit/fix-wrap": (known, (4, 3, 3, 4, 3)),
        "textkit/slugify": ((2, 2, 3, 2, 2, 2, 2, 3, 2, 2), (3, 3, 3, 3, 3)),
        "textkit/report-file": (known[::-1], (4, 4, 4, 4)),
    }
    report = evaluated(
        "skills/careful-ci",
        NEW,
        scores,
        change=ChangeKind.ADDED,
        cost_factor=1.08,
        decision=Decision.MERGE,
        meanings=(BETTER, WITHIN),
        level=LEVELS[5],
        reused=54,
        weight_head=TokenWeight(listing=52, body=1480, references=310),
    )
    return gate(msgspec.structs.replace(report, looks=looks(Stop.LAST, 2, 3, 4, 5)))


def two_skills() -> GateReport:
    """Two changed skills under one cap: a block has to stand up to both, and one run is shared."""
    first, second = early().reports[0], inconclusive().reports[0]
    spend = msgspec.structs.replace(second.spend, reused_runs=12)
    reports = (
        msgspec.structs.replace(first, skills_compared=2, adjusted_p=0.000031, calibration=None),
        msgspec.structs.replace(second, skills_compared=2, adjusted_p=0.412, spend=spend),
    )
    reasons = tuple(f"{first.skill}: {reason}" for reason in first.verdict.reasons)
    return gate(*reports, verdict=Verdict(decision=Decision.BLOCK, reasons=reasons))


def chain() -> GateReport:
    """Tasks in a row, each with two attempts."""
    scores = {
        "hourbook/first-week": ((2, 3, 2, 3), (3, 3, 3, 4)),
        "hourbook/second-week": ((1, 2, 1, 1), (3, 3, 2, 3)),
        "relaydesk/go-live": ((2, 2, 3, 2), (4, 4, 4, 4)),
    }
    report = evaluated(
        "skills/small-steps",
        CHANGED,
        scores,
        cost_factor=1.04,
        decision=Decision.MERGE,
        meanings=(BETTER, WITHIN),
        stepped=True,
        weight_base=TokenWeight(listing=40, body=700),
        weight_head=TokenWeight(listing=40, body=820),
    )
    return gate(report)


ALL = {
    "merge": merge,
    "block": block,
    "inconclusive": inconclusive,
    "hold-cost": hold,
    "not-run": not_run,
    "nothing": nothing,
    "deleted": deleted,
    "scripted": scripted,
    "dropped": dropped,
    "several": several,
    "early": early,
    "futile": futile,
    "reused": reused,
    "two-skills": two_skills,
    "chain": chain,
}


# --- builders ---------------------------------------------------------------------


def gate(*reports: Report, verdict: Verdict | None = None) -> GateReport:
    """Wrap reports of one range; the verdict is that of the first unless given."""
    spends = [report.spend for report in reports]
    names = [name for name in Spend.__struct_fields__ if name != "cap_usd_micros"]
    sums = {name: sum(getattr(spend, name) for spend in spends) for name in names}
    total = Spend(**sums, cap_usd_micros=max((spend.cap_usd_micros for spend in spends), default=0))
    return GateReport(
        base=BASE_SHA,
        head=HEAD_SHA,
        reports=reports,
        verdict=verdict or reports[0].verdict,
        spend=total,
        versions={"skillgate": "0.1.0", "sandbox": "docker", "image": "sha256:5d1f0e8c"},
    )


def findings(skill: str) -> tuple[Finding, ...]:
    """One finding of each severity."""
    path = f"{skill}/SKILL.md"
    return (
        Finding(
            rule="template-anchoring",
            severity=Severity.ERROR,
            scope="evidence",
            message="the template puts its file at `.github/workflows/reusable-test.yml`; the task "
            "`ci-workflows/reusable-test` wants it in `ci/`",
            where=Location(path=path, line=187, column=1),
            hint="Say that the task's paths win, or leave the path out of the template.",
            evidence="arXiv 2603.15401, finding 3: such templates cause a third of the collapses",
            match=".github/workflows/reusable-test.yml",
        ),
        Finding(
            rule="token-weight",
            severity=Severity.WARNING,
            scope="evidence",
            message="the body may be too heavy: 2,635 tokens, more than 75 % of skills",
            where=Location(path=path, line=1, column=1),
            hint="Move what is rarely needed to a reference file.",
        ),
        Finding(
            rule="unknown-key",
            severity=Severity.NOTE,
            scope="spec",
            message="`autor` is not a key of the specification",
            where=Location(path=path, line=4, column=1),
            hint="Did you mean `author`?",
            match="autor",
        ),
    )


def looks(stop: Stop, *after: int) -> tuple[Look, ...]:
    """Looks after so many of five repeats; the run ended at the last."""
    return tuple(
        Look(
            repeats=repeats,
            planned=5,
            information=repeats / 5,
            level=LEVELS[repeats],
            stop=stop if repeats == after[-1] else None,
        )
        for repeats in after
    )


def rate(events: int, trials: int) -> Rate:
    """How often, with ends near enough for a sample."""
    half = 2 * math.sqrt(events) / trials
    return Rate(events=events, trials=trials, low=events / trials - half, high=events / trials + half)


CALIBRATION = Calibration(
    made="2026-11-30T06:00:00Z",
    skillgate="0.1.0",
    agent="claude-code",
    model="claude-haiku-5-5",
    suites={"ci-workflows": "sha256:77aa01"},
    tasks=8,
    runs=160,
    repeats=5,
    splits=10_000,
    seed=7,
    margin=0.1,
    level=0.95,
    false_block=rate(92, 10_000),
    false_merge=rate(140, 10_000),
    called_different=rate(180, 10_000),
    coverage=rate(9_560, 10_000),
    sd=0.14,
)


def compared(metric: Metric = Metric.PASS_RATIO, **fields: object) -> Comparison:
    """A comparison of eight tasks with one repeat."""
    values = {
        "arms": CHANGED,
        "tasks": 8,
        "repeats": 1,
        "n_pairs": 8,
        "n_dropped": 0,
        "base": 0.5,
        "head": 0.75,
        "delta": 0.25,
    }
    return Comparison(metric=metric, **(values | fields))


def bare(*comparisons: Comparison, **fields: object) -> Report:
    """A report with little in it."""
    values = {
        "skill": "s",
        "change": SkillChange(path="s", kind=ChangeKind.CHANGED),
        "verdict": Verdict(decision=Decision.HOLD),
    }
    return Report(comparisons=comparisons, **(values | fields))


def evaluated(
    skill: str,
    arms: ArmPair,
    scores: Scores,
    *,
    decision: Decision,
    meanings: tuple[str, str] | None = None,
    cost_decides: bool = False,
    more: tuple[str, ...] = (),
    change: ChangeKind = ChangeKind.CHANGED,
    cost_factor: float = 1.0,
    lost: Sequence[tuple[Outcome, str]] = (),
    agent: str = "claude-code",
    model: str = "claude-haiku-5-5",
    held_usd_micros: int = 0,
    reused: int = 0,
    planned: int = 0,
    level: float = 0.95,
    stepped: bool = False,
    findings: tuple[Finding, ...] = (),
    weight_base: TokenWeight | None = None,
    weight_head: TokenWeight | None = None,
) -> Report:
    """Build the report of a paired run from its scores; `planned` repeats were to be, where not all ran."""
    scored = [run for task in scores for run in _runs(task, arms, scores[task], cost_factor)]
    scored = [_with_steps(run) for run in scored] if stepped else scored
    extra = [
        Run(
            cell=Cell(task=sorted(scores)[i % len(scores)], arm=arms[i % 2], repeat=5 + i // 2),
            outcome=o,
            reason=r,
        )
        for i, (o, r) in enumerate(lost)
    ]
    runs = tuple(scored + extra)
    outcomes = [run.outcome for run in runs]
    cells = tuple(run.cell for run in runs)
    left = tuple(
        Cell(task=task, arm=arm, repeat=repeat)
        for task in sorted(scores)
        for repeat in range(len(scores[task][1]), planned)
        for arm in arms
    )
    spent_usd_micros = sum(run.usage.usd_micros for run in runs)
    spend = Spend(
        spent_usd_micros=spent_usd_micros * (len(scored) - reused) // max(1, len(scored)),
        held_usd_micros=held_usd_micros,
        cap_usd_micros=5_000_000,
        runs=len(scored),
        invalid_runs=outcomes.count(Outcome.INVALID),
        skipped_runs=outcomes.count(Outcome.SKIPPED),
        reused_runs=reused,
        saved_runs=len(left),
        saved_usd_micros=spent_usd_micros * len(left) // max(1, len(scored)),
    )
    plan = Plan(
        cells=cells + left,
        seed=7,
        agent=agent,
        model=model,
        cap_usd_micros=5_000_000,
        per_run_usd_micros=500_000,
        expected_run_usd_micros=50_000,
        expected_from="assumed",
    )
    comparisons = tuple(_comparisons(arms, runs, len(extra), level))
    reasons = _reasons(comparisons, meanings) if meanings else [NO_SCORE]
    if cost_decides:
        reasons.reverse()
    return Report(
        skill=skill,
        change=SkillChange(path=skill, kind=change, files=(f"{skill}/SKILL.md",)),
        findings=findings,
        weight_base=weight_base,
        weight_head=weight_head,
        plan=plan,
        runs=runs,
        comparisons=comparisons,
        verdict=Verdict(decision=decision, reasons=(*reasons, *more)),
        spend=spend,
    )


def _runs(task: str, arms: ArmPair, scores: tuple[Sequence[int], Sequence[int]], factor: float) -> list[Run]:
    runs = []
    for repeat in range(max(map(len, scores))):
        for arm, side, scale in zip(arms, scores, (1.0, factor), strict=True):
            if repeat >= len(side):
                continue
            passed = side[repeat]
            own = 1 + (len(task) % 5 - 2) * 0.02 if arm == arms.head else 1
            tokens = round((30_000 + 700 * (repeat % 5) + 100 * len(task)) * scale * own)
            turns = 4 + (tokens // 100) % 3
            usage = Usage(
                requests=turns,
                input=tokens,
                output=tokens // 20,
                usd_micros=tokens // 2,
                turns=turns,
                tool_calls=turns + 2,
            )
            outcome = Outcome.PASSED if passed == len(GRADERS) else Outcome.FAILED
            cell = Cell(task=task, arm=arm, repeat=repeat)
            grades = _grades(passed)
            runs.append(Run(cell=cell, outcome=outcome, grades=grades, usage=usage, wall_s=tokens / 800))
    return runs


def _with_steps(run: Run) -> Run:
    """Make a chain of four tasks of a run, one for each grader; every third needs a second attempt."""
    passed = sum(grade.passed for grade in run.grades)
    steps = tuple(
        Step(task=f"step-{n}", passed_at=(1 if n % 3 else 2) if n < passed else None)
        for n in range(min(4, passed + 1))
    )
    return msgspec.structs.replace(run, steps=steps, planned_steps=4)


def _grades(passed: int) -> tuple[Grade, ...]:
    """Fail the first graders: the ones that look for the files."""
    missing = (
        "AssertionError: ci/reusable-test.yml does not exist\nfound: .github/workflows/reusable-test.yml"
    )
    failing = len(GRADERS) - passed
    return tuple(
        Grade(
            grader=name,
            kind=GradeKind.PASS_TO_PASS if name == "suite-green" else GradeKind.FAIL_TO_PASS,
            passed=index >= failing,
            detail="" if index >= failing else missing,
        )
        for index, name in enumerate(GRADERS)
    )


def _comparisons(arms: ArmPair, runs: Sequence[Run], lost: int, level: float) -> list[Comparison]:
    ratios = _by_task(runs, arms, lambda run: run.pass_ratio)
    costs = _by_task(runs, arms, lambda run: run.usage.usd_micros / 1e6)
    deltas = [task.delta for task in ratios]
    nonzero = sum(delta != 0 for delta in deltas)
    done = [min(len(task.base_values), len(task.head_values)) for task in ratios]
    single = sum(abs(len(task.base_values) - len(task.head_values)) for task in ratios)
    common = {"arms": arms, "tasks": len(ratios), "n_dropped": (lost + 1) // 2, "n_unpaired": single}
    common["repeats"] = min(done, default=0)
    common["n_pairs"] = sum(done)
    geometric = [math.log(h / b) for t in costs for b, h in zip(t.base_values, t.head_values, strict=False)]
    log_cost, wide = _mean(geometric), _spread(deltas) / max(1, len(deltas)) ** 0.5
    cost_half = 2 * _spread(geometric) / max(1, len(costs)) ** 0.5 + 0.02
    found = [
        Comparison(
            metric=Metric.PASS_RATIO,
            **_means(ratios),
            delta=_mean(deltas),
            interval=_around(_mean(deltas), _noise(ratios), level) if ratios else None,
            generalised=_around(_mean(deltas), 2 * wide + 0.1, level) if ratios else None,
            sign_flip=SignFlip(p=min(1.0, 2 / 2**nonzero), nonzero=nonzero),
            by_task=tuple(ratios),
            **common,
        ),
        Comparison(
            metric=Metric.COST_RATIO,
            **_means(costs),
            delta=math.exp(log_cost),
            interval=_around(math.exp(log_cost), cost_half, level) if costs else None,
            by_task=tuple(costs),
            **common,
        ),
    ]
    values = {metric: value for metric, value in _MORE.items() if metric not in _STEPPED or _stepped(runs)}
    return found + [
        _plain(metric, _by_task(runs, arms, value), common, level) for metric, value in values.items()
    ]


_STEPPED = (Metric.PASS_AT_1, Metric.PASS_AT_2, Metric.DEPTH)
_MORE: dict[Metric, Callable[[Run], float]] = {
    Metric.TOKENS: lambda run: float(run.usage.tokens),
    Metric.TURNS: lambda run: float(run.usage.turns),
    Metric.WALL_S: lambda run: run.wall_s,
    Metric.PASS_AT_1: lambda run: sum(step.passed_at == 1 for step in run.steps) / run.planned_steps,
    Metric.PASS_AT_2: lambda run: sum(step.passed_at is not None for step in run.steps) / run.planned_steps,
    Metric.DEPTH: lambda run: float(sum(step.passed_at is not None for step in run.steps)),
}


def _stepped(runs: Sequence[Run]) -> bool:
    return all(run.steps for run in runs)


def _plain(metric: Metric, tasks: Sequence[TaskDelta], common: dict[str, object], level: float) -> Comparison:
    delta = _mean([task.delta for task in tasks])
    half = _noise(tasks, pseudo=1 if metric in (Metric.PASS_AT_1, Metric.PASS_AT_2) else 0.01) if tasks else 0
    interval = _around(delta, half, level) if half else None
    return Comparison(metric=metric, **_means(tasks), delta=delta, interval=interval, **common)


def _reasons(comparisons: Sequence[Comparison], meanings: tuple[str, str]) -> list[str]:
    quality, cost = comparisons[:2]
    base, head = quality.arms
    level = f"{100 * quality.interval.level:.4g} % interval"
    low, high = (f"{100 * end:+.1f}" for end in (quality.interval.low, quality.interval.high))
    return [
        f"From {base} to {head} the pass ratio changed by {100 * quality.delta:+.1f} points "
        f"({level} {low} to {high}): {meanings[0]}",
        f"From {base} to {head} the cost changed by x{cost.delta:.2f} "
        f"({level} {cost.interval.low:.2f} to {cost.interval.high:.2f}): {meanings[1]}",
    ]


def _by_task(runs: Sequence[Run], arms: ArmPair, value: Callable[[Run], float]) -> list[TaskDelta]:
    def values(task: str, arm: str) -> tuple[float, ...]:
        return tuple(value(r) for r in runs if r.cell.task == task and r.cell.arm == arm and r.grades)

    names = sorted({run.cell.task for run in runs if run.grades})
    base, head = arms
    return [TaskDelta(task=t, base_values=values(t, base), head_values=values(t, head)) for t in names]


def _means(tasks: Sequence[TaskDelta]) -> dict[str, float]:
    return {"base": _mean([t.base for t in tasks]), "head": _mean([t.head for t in tasks])}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _noise(tasks: Sequence[TaskDelta], pseudo: float = 1.0) -> float:
    """Twice the standard error of the mean delta, near enough for a sample."""
    residuals = [x - _mean(s) for t in tasks for s in (t.base_values, t.head_values) for x in s]
    freedom = len(residuals) - 2 * len(tasks)
    variance = (sum(r * r for r in residuals) + pseudo) / (freedom + 1)
    shares = sum(1 / len(t.base_values) + 1 / len(t.head_values) for t in tasks)
    return 2 * (variance * shares) ** 0.5 / len(tasks)


def _around(middle: float, half: float, level: float) -> Interval:
    """Put an interval around a number; `half` is of one at 95 %."""
    normal = statistics.NormalDist()
    half *= normal.inv_cdf((1 + level) / 2) / normal.inv_cdf(0.975)
    return Interval(low=middle - half, high=middle + half, level=level, method="made up for this sample")
