"""The main job: a git range (or one skill folder) in, a gate report and its files out.

Reads the range, prepares every changed skill before it spends anything, runs them under one
cap and one journal, and leaves `report.json`, `comment.md` and the journal in `out`.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from skillgate import __version__
from skillgate.bench.agents.scripted import Agent, ScriptedAgent, load_script
from skillgate.bench.journal import FILE_NAME as JOURNAL_NAME
from skillgate.bench.journal import Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.runner import Bench, Progress
from skillgate.bench.sandbox import Sandbox, local_sandbox
from skillgate.config import Config, RunConfig
from skillgate.core import SCRIPTED_AGENT, Decision, GateReport, Report, Spend, Verdict, usd
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.gate.changes import Subject, changed_skills, single_subject
from skillgate.gate.judge import Case, Means, evaluation_key, judge, prepare
from skillgate.gate.sources import FolderSource, RangeSource, Source, decode_text, read_config, read_suites
from skillgate.git import Repository
from skillgate.lint.rule import load_rules
from skillgate.report import json as report_json
from skillgate.report import markdown
from skillgate.shipped import shipped
from skillgate.stats.power import PASS_RATIO_SD, detectable_effect
from skillgate.stats.verdict import worst

NOTHING = "no skill changed in this range: nothing to do"


class Options(NamedTuple):
    """What the command line adds to the configuration.

    `run` overrides keys of its `run` block; `why_not` says why nothing may run, empty when it may.
    """

    out: Path
    config: str | None = None
    run: Mapping[str, Any] = {}
    suites: tuple[str, ...] = ()
    resume: bool = False
    why_not: str = ""
    allow_unsafe_local: bool = False
    comment_id: str = "default"
    python_bin: Path = Path("/usr/bin")


class Job(NamedTuple):
    """Everything a gate works on: its two names, its skills, and where its files come from."""

    base: str
    head: str
    subjects: Sequence[Subject]
    source: Source


def gate_range(folder: Path, base: str | None, head: str, options: Options, progress: Progress) -> GateReport:
    """Gate every skill that `head` changed since it left `base`.

    Raises: UsageError, ConfigError, SuiteError, PrerequisiteError before anything is spent.
    """
    repository = Repository(folder)
    tip = repository.commit(head)
    start = repository.merge_base(repository.commit(base or repository.default_base()), tip)
    with tempfile.TemporaryDirectory(prefix="skillgate-") as scratch:
        source = RangeSource(repository, start, tip, Path(scratch))
        config = _configure(source, options)
        subjects = [s for s in changed_skills(repository, start, tip) if config.covers(s.change.path)]
        return _gate(Job(start, tip, subjects, source), config, options, progress)


def gate_skill(folder: Path, against: str, root: Path, options: Options, progress: Progress) -> GateReport:
    """Judge one skill on disk against nothing, a revision of itself, or another folder."""
    job, config = _single_job(folder, against, root, options)
    return _gate(job, config, options, progress)


def describe_plan(folder: Path, against: str, root: Path, options: Options) -> str:
    """Say what a run would do, what it can cost and what it can show. Spends nothing."""
    job, config = _single_job(folder, against, root, options)
    (case,) = plan_cases(job, config, options)
    if case.plan is None:
        return f"{case.subject.change.path}: not run: {case.why_not}\n"
    plan = case.plan
    effect = detectable_effect(len(plan.tasks), plan.repeats)
    shows = (
        f"{effect * 100:.0f} points" if effect is not None else "nothing: one repeat has no suite interval"
    )
    lines = (
        f"{case.subject.change.path}: {len(plan.cells)} runs",
        f"  {len(plan.tasks)} tasks x arms {', '.join(plan.arms)} x {plan.repeats} repeats",
        f"  agent {plan.agent}, model {plan.model}, seed {plan.seed}",
        f"  expected ${usd(plan.expected_usd_micros):.2f} ({plan.expected_from})",
        f"  at most ${usd(plan.worst_case_usd_micros):.2f}; the cap is ${usd(plan.cap_usd_micros):.2f}",
        f"  smallest detectable change of the pass ratio: {shows} (power .8, sd {PASS_RATIO_SD} assumed)",
        *(f"  {number:4} {cell}" for number, cell in enumerate(plan.cells, 1)),
    )
    return "\n".join(lines) + "\n"


def _single_job(folder: Path, against: str, root: Path, options: Options) -> tuple[Job, Config]:
    subject = single_subject(folder, against, root)
    source = FolderSource(root)
    return Job(against, subject.change.path, [subject], source), _configure(source, options)


def plan_cases(job: Job, config: Config, options: Options) -> list[Case]:
    """Prepare every subject; the cap is shared evenly. Spends nothing."""
    rules = load_rules(shipped("rules"), config.lint.rules)
    share = config.run.cap_usd_micros // max(len(job.subjects), 1)
    cases = []
    for subject in job.subjects:
        names = options.suites or config.suites_for(subject.change.path)
        case = prepare(subject, read_suites(job.source, names), rules, config, share, options.why_not)
        cases.append(case)
    return cases


def _gate(job: Job, config: Config, options: Options, progress: Progress) -> GateReport:
    cases = plan_cases(job, config, options)
    means = _means(cases, job, config.run, options) if any(case.plan is not None for case in cases) else None
    for note in job.source.notes:
        progress.note(note)
    if means is not None:
        reports, spend = _run(cases, means, config, options, progress)
    else:
        reports, spend = [judge(case, config, None, None) for case in cases], Spend()
    report = _assemble(job, reports, spend, config)
    _write(options, report)
    return report


def _run(
    cases: list[Case], means: Means, config: Config, options: Options, progress: Progress
) -> tuple[list[Report], Spend]:
    """Run the cases under one journal and one ledger."""
    keys = [evaluation_key(case, means) for case in cases if case.plan is not None]
    with Journal(options.out / JOURNAL_NAME) as journal:
        continues = journal.open_gate(
            hashlib.sha256("".join(keys).encode()).hexdigest(), resume=options.resume
        )
        if options.resume and not continues:
            progress.note("nothing to resume: no earlier gate had this range and these settings")
        ledger = Ledger(config.run.cap_usd_micros, *journal.sums())
        bench = Bench(journal, ledger, progress, config.run.workers)
        reports = [judge(case, config, means, bench) for case in cases]
    return reports, _whole_spend(reports, ledger)


def _whole_spend(reports: Sequence[Report], ledger: Ledger) -> Spend:
    """Count the runs of all reports; the money is the ledger's, which knows retries and lost calls."""
    total = sum((report.spend for report in reports), Spend())
    return msgspec.structs.replace(
        total,
        spent_usd_micros=ledger.spent_usd_micros,
        held_usd_micros=ledger.held_usd_micros,
        cap_usd_micros=ledger.cap_usd_micros,
    )


def _means(cases: list[Case], job: Job, run: RunConfig, options: Options) -> Means:
    """Build what runs the cases and check every prerequisite; nothing is spent before."""
    if run.agent != SCRIPTED_AGENT:
        raise UsageError(f"unknown agent `{run.agent}`", f"This version has: {SCRIPTED_AGENT}.")
    content = job.source.read(run.script) if run.script else None
    if content is None:
        raise UsageError(
            f"the scripted agent needs a script, not {run.script!r}", "Set run.script to a YAML file."
        )
    path = str(run.script)
    agent = ScriptedAgent(load_script(decode_text(content, path), path), path)
    _refuse_unsafe(run, agent, options)
    sandbox = make_sandbox(run, options.python_bin)
    for case in cases:
        if case.plan is not None:
            agent.require(case.plan.arms, case.plan.tasks)
            for suite in case.suites:
                sandbox.require(suite)
    return Means(agent, sandbox, hashlib.sha256(content).hexdigest())


def make_sandbox(run: RunConfig, python_bin: Path) -> Sandbox:
    """Build the sandbox that the configuration names. Raises: PrerequisiteError without Docker."""
    if run.sandbox == "local":
        return local_sandbox(python_bin)
    from skillgate.bench.docker import docker_sandbox

    return docker_sandbox(run.image)


def _refuse_unsafe(run: RunConfig, agent: Agent, options: Options) -> None:
    if run.sandbox == "local" and agent.runs_model_commands and not options.allow_unsafe_local:
        hint = "Use --sandbox docker, or --allow-unsafe-local if you accept that."
        raise PrerequisiteError("the local sandbox isolates nothing from what a model runs", hint)


def _configure(source: Source, options: Options) -> Config:
    config = read_config(source, options.config)
    run = msgspec.convert(msgspec.to_builtins(config.run) | _kebab(options.run), RunConfig)
    return msgspec.structs.replace(config, run=run)


def _kebab(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in values.items()}


def _assemble(job: Job, reports: Sequence[Report], spend: Spend, config: Config) -> GateReport:
    verdict = Verdict(decision=Decision.NOT_RUN, reasons=(NOTHING,))
    if reports:
        verdict = worst({report.skill: report.verdict for report in reports})
    return GateReport(
        base=job.base,
        head=job.head,
        reports=tuple(reports),
        policy=config.policy,
        fail_on=config.lint.fail_on,
        verdict=verdict,
        spend=spend,
        versions={"skillgate": __version__},
    )


def _write(options: Options, report: GateReport) -> None:
    """Leave the files in `out`, each whole or not at all."""
    options.out.mkdir(parents=True, exist_ok=True)
    comment = markdown.render(report, comment_id=options.comment_id)
    for name, text in (("report.json", report_json.dump(report)), ("comment.md", comment)):
        part = options.out / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(options.out / name)
