"""The main job: a git range (or one skill folder) in, a gate report and its files out.

Reads the range, prepares every changed skill before it spends anything, runs them under one
cap and one journal, and leaves `report.json`, `comment.md` and the journal in `out`.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from skillgate import __version__
from skillgate.bench.host.owner import mark
from skillgate.bench.journal import FILE_NAME as JOURNAL_NAME
from skillgate.bench.journal import Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import Limited, Share
from skillgate.bench.runner import Bench, Progress
from skillgate.config import FILE_NAME, Config, LintConfig, RunConfig
from skillgate.core import NONE_ARM, SCRIPTED_AGENT, Decision, GateReport, Report, Spend, Verdict
from skillgate.errors import Interrupted, UsageError, writing
from skillgate.gate.agents import Machine, check_agent, hire
from skillgate.gate.calibration_record import FILE_NAME as RECORD_NAME
from skillgate.gate.calibration_record import load_record
from skillgate.gate.case import Case, Linter, prepare
from skillgate.gate.changes import (
    Subject,
    all_skills,
    changed_skills,
    library_at,
    misspelt_files,
    single_subject,
)
from skillgate.gate.judge import Court, Judged, conclude, evaluation_key, judge, not_run
from skillgate.gate.means import Means, build_means, task_ids
from skillgate.gate.planning import (
    History,
    Store,
    describe,
    need_usd_micros,
    plan_case,
    plan_together,
    share_of,
)
from skillgate.gate.sources import (
    FolderSource,
    RangeSource,
    Source,
    read_config,
    read_known,
    read_rules,
    read_suites,
)
from skillgate.git import PARENT, Repository
from skillgate.lint.check import Library, listed
from skillgate.report import json as report_json
from skillgate.report import markdown
from skillgate.stats.verdict import worst
from skillgate.values import Secret

RUN_IS_NEW = "`{path}` is new in this range: what it runs with a model counts from the next change on"
BASE_IS_A_GUESS = "no main branch differs from the head: name a base with --base to run anything with a model"
LINT_IS_NEW = "Its `lint` and `skills` settings count from the next change on."
MISSPELT = "`{path}` was not looked at: a skill is a file called exactly `SKILL.md`."
INTERRUPTED = "the gate was interrupted before it ran"
NOTHING = "no skill changed in this range: nothing to do"


class Options(NamedTuple):
    """What the command line adds to the configuration.

    `run` overrides keys of its `run` block; `why_not` says why nothing may run, empty when it may;
    `cache` is the folder for the repositories that suites pin and for agent programs, `keys` are those of
    providers by kind; `journal_key` seals the runs in the journal. A
    skill that runs `against_itself` shows noise only: no report is written. `names` are what the report
    calls the two commits, where they stand for others, `notes` what it adds. With `installs_agent`
    the program of the agent is fetched when it is missing, with `base_judges` nothing that the head brings
    judges it.
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
    cache: Path | None = None
    keys: Mapping[str, Secret] = MappingProxyType({})
    journal_key: Secret = Secret("")
    against_itself: bool = False
    names: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    installs_agent: bool = False
    base_judges: bool = False

    @property
    def checkouts(self) -> Path | None:
        """Return the folder for the repositories that suites pin."""
        return self.cache and self.cache / "checkouts"


class Request(NamedTuple):
    """Everything a gate works on: its two names, its skills, and where its files come from."""

    base: str
    head: str
    subjects: Sequence[Subject]
    source: Source
    library: Library


def gate_range(folder: Path, base: str | None, head: str, options: Options, progress: Progress) -> GateReport:
    """Gate every skill that `head` changed since it left `base`.

    Raises: UsageError, ConfigError, SuiteError, PrerequisiteError before anything is spent.
    """
    repository = Repository(folder)
    start_name = base or repository.default_base()
    why_not = BASE_IS_A_GUESS if base is None and start_name == PARENT else ""
    tip, target = repository.commit(head), repository.commit(start_name)
    start = repository.merge_base(target, tip)
    with tempfile.TemporaryDirectory(prefix="skillgate-") as scratch:
        mark(Path(scratch))  # so that it goes with the rest when this process is killed
        # of a stranger's head nothing may judge, also not what the base lacks
        judge = target if options.base_judges else tip
        source = RangeSource(repository, target, judge, Path(scratch))
        config = _configure(source, options)
        if source.brings(options.config or FILE_NAME):  # or a change could switch off the rules against it
            config = msgspec.structs.replace(config, lint=LintConfig(), skills=Config().skills)
            source.notes.append(LINT_IS_NEW)
            why_not = RUN_IS_NEW.format(path=options.config or FILE_NAME)
        if why_not and config.run.agent not in (None, SCRIPTED_AGENT):  # or a change chose who gets the key
            options = options._replace(why_not=options.why_not or why_not)
        source.notes += options.notes
        subjects = [s for s in changed_skills(repository, start, tip) if any(map(config.covers, s.paths))]
        source.notes += [MISSPELT.format(path=path) for path in misspelt_files(repository, start, tip)]
        changed = {subject.change.path for subject in subjects}
        library = library_at(repository, tip, changed)
        return _gate(Request(start, tip, subjects, source, library), config, options, progress)


def gate_all(folder: Path, revision: str, options: Options, progress: Progress) -> GateReport:
    """Judge every skill of a revision against no skill: what a schedule asks for.

    Raises: as `gate_range`.
    """
    repository = Repository(folder)
    tip = repository.commit(revision)
    with tempfile.TemporaryDirectory(prefix="skillgate-") as scratch:
        mark(Path(scratch))
        source = RangeSource(repository, tip, tip, Path(scratch))
        config = _configure(source, options)
        subjects = [s for s in all_skills(repository, tip) if any(map(config.covers, s.paths))]
        library = library_at(repository, tip, ())
        return _gate(Request(NONE_ARM, tip, subjects, source, library), config, options, progress)


def gate_skill(folder: Path, against: str, root: Path, options: Options, progress: Progress) -> GateReport:
    """Judge one skill on disk against nothing, a revision of itself, or another folder."""
    request, config = _single(folder, against, root, options)
    return _gate(request, config, options, progress)


def run_against_itself(folder: Path, root: Path, options: Options, progress: Progress) -> GateReport:
    """Run every planned repeat of a skill on disk in both arms, for what the journal then holds.

    Raises: UsageError when a single repeat is wanted: it would show nothing; whatever a gate raises.
    """
    options = options._replace(against_itself=True, run={**options.run, "stop_early": False, "cache_days": 0})
    request, config = _single(folder, str(folder), root, options)
    if config.run.repeats < 2:
        raise UsageError("one repeat shows nothing of run-to-run noise", "Set run.repeats to two or more.")
    report = _gate(request, config, options, progress)
    if report.is_partial:
        raise Interrupted("interrupted; every finished run is in the journal", "Run it again with --resume.")
    return report


def describe_plan(folder: Path, against: str, root: Path, options: Options) -> str:
    """Say what a run would do, what it can cost and what it can show. Spends nothing.

    Raises: as `gate_skill`; PrerequisiteError when the budget is too small for any verdict.
    """
    request, config = _single(folder, against, root, options)
    (case,) = plan_cases(request, config, options, _history(config, options))
    if case.plan is None:
        return f"{case.subject.change.path}: not run: {case.why_not}\n"
    if config.run.agent == SCRIPTED_AGENT:
        hire(config, request.source, Machine()).agent.require(case.plan.arms, task_ids(case.suites))
    else:
        check_agent(config)
    return describe(case, case.plan, config, _history(config, options))


def _single(folder: Path, against: str, root: Path, options: Options) -> tuple[Request, Config]:
    subject = single_subject(folder, against, root)
    source = FolderSource(root)
    library = Library((listed(subject.head),) if subject.head is not None else ())
    return Request(against, subject.change.path, [subject], source, library), _configure(source, options)


def _history(config: Config, options: Options, means: Means | None = None) -> History:
    """Return what earlier gates say; with the means the one that is open now is the latest."""
    goes_on = options.resume or means is not None
    return History(config, _store(options), resume=goes_on, means=means)


def _store(options: Options) -> Store:
    return Store(options.out / JOURNAL_NAME, options.journal_key.reveal().encode())


def plan_cases(request: Request, config: Config, options: Options, history: History) -> list[Case]:
    """Prepare every subject and plan those that will run, as if all took their share. Spends nothing."""
    rules = read_rules(request.source, config, options.config)
    linter = Linter(rules, request.library, read_known(request.source, config), config.lint)
    cases = []
    for subject in request.subjects:
        found = (name for path in subject.paths for name in config.suites_for(path))
        names = options.suites or tuple(dict.fromkeys(found))
        suites = read_suites(request.source, names, options.checkouts)
        itself = options.against_itself
        cases.append(prepare(subject, suites, linter, config, options.why_not, against_itself=itself))
    return plan_together(cases, config, history)


def _gate(request: Request, config: Config, options: Options, progress: Progress) -> GateReport:
    cases = plan_cases(request, config, options, _history(config, options))
    means = _means(cases, request.source, config, options)
    for note in request.source.notes:
        progress.note(note)
    if means is not None:
        with closing(means):
            judged, spend = _run(cases, means, config, options, progress)
    else:
        judged, spend = [not_run(case, config) for case in cases], Spend()
    report = _assemble(request, conclude(judged, config), spend, config, options.names)
    report = msgspec.structs.replace(report, is_partial=any(one.is_partial for one in judged))
    if not options.against_itself:
        _write(options, report)
    return report


def _means(cases: Sequence[Case], source: Source, config: Config, options: Options) -> Means | None:
    """Build what the planned cases need and check it; None when nothing is planned."""
    planned = [(case.plan, case.suites) for case in cases if case.plan is not None]
    if not planned:
        return None
    unsafe = options.allow_unsafe_local
    machine = Machine(options.cache, options.keys, options.installs_agent)
    means = build_means(config, source, options.python_bin, machine, allow_unsafe_local=unsafe)
    try:
        for plan, suites in planned:
            means.require(plan, suites)
    except BaseException:
        means.close()
        raise
    return means


def _run(
    cases: Sequence[Case], means: Means, config: Config, options: Options, progress: Progress
) -> tuple[list[Judged], Spend]:
    """Run the cases under one journal and one ledger."""
    plans = [(case, case.plan) for case in cases if case.plan is not None]
    keys = "".join(evaluation_key(case, plan, means, config.run) for case, plan in plans)
    with writing(options.out):
        make_folder(options.out)
    with Journal(*_store(options)) as journal:
        continues = journal.open_gate(hashlib.sha256(keys.encode()).hexdigest(), resume=options.resume)
        if options.resume and not continues:
            progress.note("nothing to resume: no earlier gate had this range and these settings")
        ledger = Ledger(config.run.cap_usd_micros, *journal.sums())
        bench = Bench(
            journal,
            ledger,
            progress,
            config.run.workers,
            traces=options.out / "traces",
            limited=_limited(config.run, journal, _most_jobs(cases)),
        )
        record = load_record(options.out / RECORD_NAME)
        court = Court(config, means, bench, record, skills=len(plans))
        plan_together(cases, config, _history(config, options, means))  # refuses before anything is spent
        judged = _judge_all(cases, court, _history(config, options, means))
    return judged, _whole_spend([one.report for one in judged], ledger)


def _judge_all(cases: Sequence[Case], court: Court, history: History) -> list[Judged]:
    """Judge one case after the other, each planned anew on what money is left, until somebody stops it."""
    judged: list[Judged] = []
    for number, case in enumerate(cases):
        if judged and judged[-1].is_partial:
            rest = (other._replace(why_not=other.why_not or INTERRUPTED) for other in cases[number:])
            return [*judged, *(not_run(other, court.config) for other in rest)]
        if case.plan is None:
            judged.append(not_run(case, court.config))
            continue
        key = evaluation_key(case, case.plan, court.means, court.config.run)
        ledger, own = court.bench.ledger, sum(court.bench.journal.sums(key))
        left = own + ledger.cap_usd_micros - ledger.spent_usd_micros - ledger.held_usd_micros
        needs = [need_usd_micros(c, court.config, history) for c in cases[number:]]
        planned = plan_case(case, court.config, history, share_of(left, needs), court.skills)
        history.add(planned)
        judged.append(judge(planned, planned.plan or case.plan, court))
    return judged


def _most_jobs(cases: Sequence[Case]) -> int:
    """Return how often a cell may call its agent at most: each of its tasks, each attempt."""
    units = [unit for case in cases for unit in case.units.values()]
    return max((len(tasks) * suite.attempts for suite, tasks in units), default=1)


def _limited(run: RunConfig, journal: Journal, jobs: int) -> Limited:
    """Return the limits of the gate beside money, less what its earlier attempts have used."""
    usage, lost = journal.used()

    def share(cap: int | None, each: int | None, used: int) -> Share | None:
        if cap is None or each is None:
            return None
        return Share(Ledger(cap, used, lost * each), each)

    return Limited(
        tokens=share(run.budget_tokens, run.per_run_tokens, usage.tokens),
        requests=share(run.budget_requests, jobs * run.per_run_requests, usage.requests),
        ends=None if run.budget_minutes is None else time.monotonic() + 60 * run.budget_minutes,
    )


def _whole_spend(reports: Sequence[Report], ledger: Ledger) -> Spend:
    """Count the runs of all reports; the money is the ledger's."""
    return Spend(
        spent_usd_micros=ledger.spent_usd_micros,
        held_usd_micros=ledger.held_usd_micros,
        cap_usd_micros=ledger.cap_usd_micros,
        runs=sum(report.spend.runs for report in reports),
        invalid_runs=sum(report.spend.invalid_runs for report in reports),
        skipped_runs=sum(report.spend.skipped_runs for report in reports),
        reused_runs=sum(report.spend.reused_runs for report in reports),
        saved_runs=sum(report.spend.saved_runs for report in reports),
        saved_usd_micros=sum(report.spend.saved_usd_micros for report in reports),
    )


def _configure(source: Source, options: Options) -> Config:
    config = read_config(source, options.config)
    given = {key.replace("_", "-"): value for key, value in options.run.items()}
    try:
        run = msgspec.convert(msgspec.to_builtins(config.run) | given, RunConfig)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        option = f"--{where.rstrip('`')}: " if where else ""
        raise UsageError(f"{option}{what[0].lower()}{what[1:]}", "Correct the option.") from None
    return msgspec.structs.replace(config, run=run)


def _assemble(
    request: Request, reports: Sequence[Report], spend: Spend, config: Config, names: tuple[str, str] | None
) -> GateReport:
    verdict = Verdict(decision=Decision.NOT_RUN, reasons=(NOTHING,))
    if reports:
        verdict = worst({report.skill: report.verdict for report in reports})
    base, head = names or (request.base, request.head)
    return GateReport(
        base=base,
        head=head,
        reports=tuple(reports),
        policy=config.policy,
        fail_on=config.lint.fail_on,
        verdict=verdict,
        notes=tuple(request.source.notes),
        spend=spend,
        versions={"skillgate": __version__},
    )


def make_folder(out: Path) -> None:
    """Make the folder for the files; a new one is kept out of the user's commits."""
    if not out.exists():
        out.mkdir(parents=True)
        (out / ".gitignore").write_text("*\n", encoding="utf-8")


def _write(options: Options, report: GateReport) -> None:
    """Leave the files in `out`, each whole or not at all."""
    comment = markdown.render(report, comment_id=options.comment_id)
    with writing(options.out):
        make_folder(options.out)
        for name, text in (("report.json", report_json.dump(report)), ("comment.md", comment)):
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=options.out, delete=False) as part:
                part.write(text)
            Path(part.name).replace(options.out / name)
