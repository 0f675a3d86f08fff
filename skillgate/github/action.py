"""What action.yml runs: an event and its inputs in, a gate in between, the answers out.

The gate comes as a callable, so this module knows no sandbox and no statistics. Only the gate's verdict and
our own errors decide the exit code. Where the head is not checked out, its skill files come through the API;
where a person typed a commit, it must be the head before anything starts and before anything is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

from msgspec.structs import replace

from skillgate.config import FILE_NAME, MAX_USD
from skillgate.core import GateReport
from skillgate.errors import ExitCode, Interrupted, SkillgateError, UsageError
from skillgate.github import commands
from skillgate.github.event import Activity, Files, Mode, read_event
from skillgate.github.fetch import fetch_range
from skillgate.github.inputs import PREFIX, read_inputs, require_runner
from skillgate.github.publish import Step
from skillgate.github.pulls import Pull, Reader
from skillgate.report.json import load
from skillgate.stats.verdict import with_findings, worst
from skillgate.values import MICROS_PER_USD, Struct

MAX_REPORT_BYTES = 32 * 1024 * 1024
MOVED = "Look at what was pushed since, then start it again with the new commit."


class ActionRequest(Struct, kw_only=True):
    """What the gate is asked for; None leaves it to skillgate.yml.

    With `base_judges` nothing of the head may judge, also not what the base lacks. `reason` says why
    `evaluate` is true or false; `config` lies inside `repo`. With `every` all skills of the head are judged
    against none. `names` are what the report calls base and head, `notes` what it adds.
    """

    repo: Path
    base: str
    head: str
    out: Path
    comment_id: str
    evaluate: bool
    reason: str
    every: bool = False
    base_judges: bool = False
    names: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    config: str | None = None
    agent: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    sandbox: Literal["docker", "local"] | None = None
    setup_agent: bool = True


Gate = Callable[[ActionRequest], tuple[GateReport, Path]]


def run_action(env: Mapping[str, str], gate: Gate, stdout: TextIO) -> ExitCode:
    """Do what the event asks for and publish the result.

    Args:
        env: the environment of a step of action.yml.
        gate: runs the gate; returns the report and where report.json lies.
        stdout: where the runner reads workflow commands.
    Raises: UsageError for a wrong input or event; whatever the gate raises.
    """
    try:
        return _run(env, gate, stdout)
    except SkillgateError as error:
        stdout.write(commands.message("error", f"{error.message}\n{error.hint}".rstrip()))
        raise


def _run(env: Mapping[str, str], gate: Gate, stdout: TextIO) -> ExitCode:
    require_runner(env)
    inputs = read_inputs(env)
    payload = Path(env["GITHUB_EVENT_PATH"]).read_bytes()
    activity = read_event(env["GITHUB_EVENT_NAME"], payload, inputs.mode, inputs.label)
    step = Step(env, inputs, activity, stdout)
    if activity.is_idle:
        step.publish_nothing()
        return ExitCode.OK
    if inputs.mode is Mode.POST:
        return _publish_only(step)
    step = _settled(step)
    if step.activity.is_idle:
        step.publish_nothing()
        return ExitCode.OK
    return _gate(step, gate)


def _gate(step: Step, gate: Gate) -> ExitCode:
    """Run the gate and publish what comes of it, also when it breaks off."""
    try:
        request = _request(step)
        step.stdout.write(commands.message("notice", request.reason))
        with commands.stopped(step.stdout):
            report, report_path = gate(request)
    except SkillgateError as error:
        step.publish_failure(error)
        raise
    step.publish(report, report_path)
    if report.is_partial:
        raise Interrupted("interrupted: what is published is partial", "Run the job again.")
    if step.inputs.mode in (Mode.EVALUATE, Mode.WATCH):
        return ExitCode.OK  # who publishes the report decides; a schedule tells
    return ExitCode.OK if report.passes else ExitCode.GATE_FAILED


# --- what is looked at --------------------------------------------------------------


def _settled(step: Step) -> Step:
    try:
        return _resolved(step)
    except SkillgateError as error:  # nobody knows yet whether this commit is the head: nothing is posted
        step._replace(activity=replace(step.activity, post=False)).publish_failure(error)
        raise


def _resolved(step: Step) -> Step:
    """Ask the API what the event does not say: which pull request, which commits, if it still holds."""
    activity = step.activity
    if activity.watch or activity.files is not Files.API:
        return step
    with closing(_reader(step)) as reader:
        pull = _pull(reader, activity)
    if pull is None or not pull.is_open:
        why = "Nothing to do: no open pull request has this head any more."
        return step._replace(activity=replace(activity, lint=False, evaluate=False, post=False, reason=why))
    return step._replace(activity=_filled(activity, pull))


def _pull(reader: Reader, activity: Activity) -> Pull | None:
    if activity.number is None:
        return reader.pull_of(activity.head_sha, activity.head_repository, activity.head_branch)
    pull = reader.pull(activity.number)
    if activity.typed_sha and pull.head_sha != activity.typed_sha:
        problem = f"the head of #{pull.number} is {pull.head_sha}, not {activity.typed_sha}"
        raise UsageError(problem, MOVED)
    return pull


def _filled(activity: Activity, pull: Pull) -> Activity:
    return replace(
        activity,
        number=pull.number,
        base_sha=pull.base_sha,
        base_ref=pull.base_ref,
        head_sha=activity.typed_sha or activity.head_sha or pull.head_sha,
        head_repository=pull.head_repository,
        is_fork=pull.is_fork,
        is_draft=pull.is_draft,
        is_bot=pull.is_bot,
    )


def _reader(step: Step) -> Reader:
    token = step.env.get(PREFIX + "GITHUB_TOKEN", "")
    if not token:
        raise UsageError("the input `github-token` is empty", "Leave it out, or pass a token that may read.")
    step.stdout.write(commands.add_mask(token))
    return Reader(step.env["GITHUB_API_URL"], token, step.activity.repository)


def _request(step: Step) -> ActionRequest:
    """Ask for a gate on the checkout, or on what the API gives of a range that nobody checked out."""
    env, inputs, activity = step.env, step.inputs, step.activity
    repo = Path(env["GITHUB_WORKSPACE"])
    out = repo / (inputs.out or str(Path(env["RUNNER_TEMP"]) / f"skillgate-{inputs.comment_id}"))
    asked = ActionRequest(
        repo=repo,
        base=activity.base_sha,
        head=activity.head_sha,
        out=out,
        comment_id=inputs.comment_id,
        evaluate=activity.evaluate,
        reason=activity.reason,
        every=activity.watch,
        config=inputs.config,
        agent=inputs.agent,
        model=inputs.model,
        budget_usd=inputs.budget_usd,
        sandbox=inputs.sandbox,
        setup_agent=inputs.setup_agent,
    )
    if activity.files is not Files.API or activity.watch:
        return replace(asked, head="HEAD") if activity.watch else asked
    fetched = _fetched(step, repo)
    names = (fetched.merge_base, activity.head_sha)
    return replace(
        asked,
        repo=fetched.repository,
        base=fetched.base,
        head=fetched.head,
        names=names,
        notes=fetched.notes,
        base_judges=True,
    )


class _Range(NamedTuple):
    """A range that was fetched, and the repository that holds it."""

    repository: Path
    base: str
    head: str
    merge_base: str
    notes: tuple[str, ...]


def _fetched(step: Step, workspace: Path) -> _Range:
    """Fetch a range: into the checkout where it is run, else beside it; only ever as git objects."""
    activity = step.activity
    folder = workspace if activity.evaluate else Path(step.env["RUNNER_TEMP"]) / "skillgate-fetched"
    with closing(_reader(step)) as reader:
        config = step.inputs.config or FILE_NAME
        found = fetch_range(reader, folder, activity.base_sha, activity.head_sha, config=config)
    return _Range(folder, *found)


# --- publishing what another job made -----------------------------------------------


def _publish_only(step: Step) -> ExitCode:
    """Publish a report that a job without rights made: nothing in it is believed but what its schema says."""
    path = step.inputs.report
    if path is None:
        raise UsageError("mode `post` needs the input `report`", "Name the report.json of the evaluation.")
    report = _read_report(Path(step.env["GITHUB_WORKSPACE"]) / path)
    step = _settled(step)
    if step.activity.number is None or not step.activity.post:
        step.publish_nothing()
        return ExitCode.OK
    if report.head != step.activity.head_sha:
        problem = f"the report is of {report.head}, not of {step.activity.head_sha}"
        raise UsageError(problem, "Publish the report of the same run of the workflow.")
    step.publish(report, Path(step.env["RUNNER_TEMP"]) / "report.json")
    return ExitCode.OK if report.passes else ExitCode.GATE_FAILED


def _read_report(path: Path) -> GateReport:
    """Read a report strictly. Raises: UsageError when it is no report, or says more than its parts."""
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise UsageError(f"{path}: larger than {MAX_REPORT_BYTES} bytes, which no report is")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        hint = "Download the artifact of the evaluation first."
        raise UsageError(f"{path}: cannot be read ({problem})", hint) from None
    report = load(text, str(path))
    verdicts = {one.skill: with_findings(one.verdict, one.findings, report.fail_on) for one in report.reports}
    if len(verdicts) < len(report.reports):
        raise UsageError(f"{path}: it names a skill twice")
    own = worst(verdicts).decision
    if own is not report.verdict.decision:
        raise UsageError(f"{path}: its verdict is {report.verdict.decision}, that of its skills {own}")
    spend = report.spend
    if not 0 <= spend.spent_usd_micros <= spend.cap_usd_micros <= MAX_USD * MICROS_PER_USD:
        raise UsageError(f"{path}: it says to have spent what no gate can spend")
    return report
