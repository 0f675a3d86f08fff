"""What action.yml runs: an event and its inputs in, a gate in between, the answers out.

The gate comes as a callable, so this module knows no sandbox and no statistics. It publishes
in this order: annotations, comment, commit status, job summary, step outputs. Whatever cannot be
published becomes a warning; only the gate's verdict and our own errors decide the exit code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TextIO

import msgspec

from skillgate.core import Decision, GateReport
from skillgate.errors import ExitCode, SkillgateError, UsageError
from skillgate.github import commands
from skillgate.github.client import Client, NotPosted, Posted, State
from skillgate.github.event import Activity, read_event
from skillgate.report.annotations import render as render_annotations
from skillgate.report.escape import fenced
from skillgate.report.markdown import Links, marker
from skillgate.report.markdown import render as render_markdown
from skillgate.values import Struct, usd

PREFIX = "SKILLGATE_"
_RUNNER = (
    *("GITHUB_API_URL", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT", "GITHUB_RUN_ID"),
    *("GITHUB_SERVER_URL", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "RUNNER_TEMP"),
)


class Inputs(Struct, kw_only=True, rename="kebab"):
    """The inputs of action.yml, by their names there; the token is kept out of every value."""

    mode: Literal["gate", "lint"] = "gate"
    config: Annotated[str, msgspec.Meta(pattern=r"^[^/]")] | None = None
    agent: str | None = None
    model: str | None = None
    budget_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    sandbox: Literal["docker", "local"] | None = None
    comment_id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")] = "default"
    comment: bool = True
    status: bool = False
    out: str | None = None


class ActionRequest(Struct, kw_only=True):
    """What the gate is asked for; None leaves it to skillgate.yml.

    `reason` says why `evaluate` is true or false; `config` lies inside `repo`.
    """

    repo: Path
    base: str
    head: str
    out: Path
    comment_id: str
    evaluate: bool
    reason: str
    config: str | None = None
    agent: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    sandbox: Literal["docker", "local"] | None = None


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
    _require_runner(env)
    inputs = _inputs(env)
    activity = read_event(env["GITHUB_EVENT_NAME"], Path(env["GITHUB_EVENT_PATH"]).read_bytes())
    step = _Step(env, inputs, activity, stdout)
    if not activity.lint:
        step.publish_nothing()
        return ExitCode.OK
    request = _request(env, inputs, activity)
    stdout.write(commands.message("notice", request.reason))
    try:
        with commands.stopped(stdout):
            report, report_path = gate(request)
    except SkillgateError as error:
        step.publish_failure(error)
        raise
    step.publish(report, report_path)
    return ExitCode.OK if report.passes else ExitCode.GATE_FAILED


def _inputs(env: Mapping[str, str]) -> Inputs:
    """Read the inputs; an empty one counts as not given, as it does in a workflow."""
    names = Inputs.__struct_encode_fields__
    given = {name: env.get(PREFIX + name.replace("-", "_").upper(), "").strip() for name in names}
    try:
        return msgspec.convert({k: v for k, v in given.items() if v}, Inputs, strict=False)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        name = where.rstrip("`")
        raise UsageError(
            f"input `{name}` is `{given.get(name, '')}`: {problem[0].lower()}{problem[1:]}",
            "Correct it under `with:` in the workflow.",
        ) from None


def _require_runner(env: Mapping[str, str]) -> None:
    """Refuse before anything is spent what could not be published afterwards."""
    missing = [name for name in _RUNNER if not env.get(name)]
    if missing:
        hint = "This command runs inside GitHub Actions; elsewhere use `skillgate gate`."
        raise UsageError(f"not set in the environment: {', '.join(missing)}", hint)


def _request(env: Mapping[str, str], inputs: Inputs, activity: Activity) -> ActionRequest:
    repo = Path(env["GITHUB_WORKSPACE"])
    out = inputs.out or str(Path(env["RUNNER_TEMP"]) / f"skillgate-{inputs.comment_id}")
    lint_only = inputs.mode == "lint"
    return ActionRequest(
        repo=repo,
        base=activity.base_sha,
        head=activity.head_sha,
        out=repo / out,
        comment_id=inputs.comment_id,
        evaluate=activity.evaluate and not lint_only,
        reason="Linted only: the input `mode` is `lint`." if lint_only else activity.reason,
        config=inputs.config,
        agent=inputs.agent,
        model=inputs.model,
        budget_usd=inputs.budget_usd,
        sandbox=inputs.sandbox,
    )


# --- publishing -------------------------------------------------------------------

_FORK = "A pull request from a fork has a token that can only read: the report is in the job summary."


class _Step(NamedTuple):
    """One step of a job, with everything it publishes."""

    env: Mapping[str, str]
    inputs: Inputs
    activity: Activity
    stdout: TextIO

    def publish(self, report: GateReport, report_path: Path) -> None:
        """Show the report everywhere it belongs; nothing that fails on GitHub's side raises."""
        self.stdout.write(render_annotations([f for skill in report.reports for f in skill.findings]))
        text = render_markdown(report, comment_id=self.inputs.comment_id, links=self._links())
        # A pull request without a changed skill gets no comment, unless an earlier push left one.
        comment_url, failures = self._post(text, bool(report.reports), *self._status(report))
        summary_path = report_path.with_name("comment.md")
        summary_path.write_text(text, encoding="utf-8")
        self._summarise("\n".join((text, *failures)))
        decisions = {skill.skill: skill.verdict.decision for skill in report.reports}
        outputs = {
            "verdict": report.verdict.decision,
            "decision-by-skill": json.dumps(decisions),
            "report-path": str(report_path),
            "summary-path": str(summary_path),
            "comment-url": comment_url,
            "cost-usd": f"{usd(report.spend.spent_usd_micros):.6f}",
            "skills-changed": str(len(report.reports)),
        }
        self._output(outputs)

    def publish_failure(self, error: SkillgateError) -> None:
        """Say that there is no verdict on this head, also where an earlier one still stands."""
        said = fenced(f"{error.message}\n{error.hint}".rstrip())
        text = f"{marker(self.inputs.comment_id)}\n### skillgate has no verdict on this change\n\n{said}\n"
        _, failures = self._post(text, False, "error", error.message)
        self._summarise("\n".join((text, *failures)))
        self._output({"verdict": Decision.NOT_RUN, "decision-by-skill": "{}", "skills-changed": "0"})

    def publish_nothing(self) -> None:
        """Say why nothing was done."""
        self.stdout.write(commands.message("notice", self.activity.reason))
        self._summarise(f"skillgate: {self.activity.reason}\n")
        self._output({"verdict": Decision.NOT_RUN, "decision-by-skill": "{}", "skills-changed": "0"})

    def _post(self, text: str, create: bool, state: State, description: str) -> tuple[str, list[str]]:
        """Post comment and status; return the comment's URL, and what failed as Markdown."""
        number = self.activity.number if self.inputs.comment else None
        if number is None and not self.inputs.status:
            return "", []
        token = self.env.get(PREFIX + "GITHUB_TOKEN", "")
        if not token:
            return self._tell("report", NotPosted(problem="The input `github-token` is empty"))
        self.stdout.write(commands.add_mask(token))
        url, failures = "", list[str]()
        with closing(Client(self.env["GITHUB_API_URL"], token, self.activity.repository)) as client:
            if number is not None:
                answer = client.put_comment(number, text, create=create)
                url, failures = self._tell("comment", answer)
            if self.inputs.status:
                failures += self._tell("commit status", self._post_status(client, state, description))[1]
        return url, failures

    def _post_status(self, client: Client, state: State, description: str) -> Posted | NotPosted:
        comment_id = self.inputs.comment_id
        return client.post_status(
            self.activity.head_sha,
            context="skillgate" if comment_id == "default" else f"skillgate/{comment_id}",
            state=state,
            description=description,
            target_url=self._run_url,
        )

    def _status(self, report: GateReport) -> tuple[State, str]:
        # Nothing of a draft was evaluated, and marking it ready need not start another run.
        passed: State = "pending" if self.activity.is_draft else "success"
        description = f"{report.verdict.decision}: {' '.join(report.verdict.reasons)}"
        return passed if report.passes else "failure", description

    def _tell(self, what: str, answer: Posted | NotPosted) -> tuple[str, list[str]]:
        """Say in the log what became of a post; a failure only warns."""
        if not isinstance(answer, NotPosted):
            print(f"{what}: {answer.change} {answer.url}".rstrip(), file=self.stdout)
            return answer.url, []
        problem = f"The {what} was not posted. {answer.problem.rstrip('.')}."
        if self.activity.is_fork:
            # No line that the maintainer could add gives a fork's token more rights.
            self.stdout.write(commands.message("notice", f"{problem} {_FORK}"))
            return "", [f"> {problem} {_FORK}\n"]
        self.stdout.write(commands.message("warning", f"{problem}\n{answer.hint}".rstrip()))
        return "", [f"> {problem}\n\n```\n{answer.hint}\n```\n" if answer.hint else f"> {problem}\n"]

    @property
    def _run_url(self) -> str:
        return f"{self._repository_url}/actions/runs/{self.env['GITHUB_RUN_ID']}"

    @property
    def _repository_url(self) -> str:
        return f"{self.env['GITHUB_SERVER_URL']}/{self.activity.repository}"

    def _links(self) -> Links:
        blob_url = f"{self._repository_url}/blob/{self.activity.head_sha}"
        return Links(blob_url=blob_url, report_url=self._run_url)

    def _summarise(self, text: str) -> None:
        commands.write_summary(Path(self.env["GITHUB_STEP_SUMMARY"]), text)

    def _output(self, outputs: Mapping[str, str]) -> None:
        commands.write_outputs(Path(self.env["GITHUB_OUTPUT"]), outputs)
