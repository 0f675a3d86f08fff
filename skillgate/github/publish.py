"""A gate report -> wherever GitHub shows it: annotations, comment, commit status, job summary, step outputs.

In this order. Whatever cannot be published becomes a warning, never another verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TextIO

from skillgate.core import Decision, GateReport
from skillgate.errors import SkillgateError
from skillgate.github import commands
from skillgate.github.client import Client, NotPosted, Posted, State
from skillgate.github.event import Activity, Mode
from skillgate.github.inputs import PREFIX, Inputs
from skillgate.report import sarif
from skillgate.report.annotations import render as render_annotations
from skillgate.report.escape import fenced, prose
from skillgate.report.markdown import Links, marker
from skillgate.report.markdown import render as render_markdown
from skillgate.values import usd

_FORK = "A pull request from a fork has a token that can only read: the report is in the job summary."


class Step(NamedTuple):
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
        sarif_path = report_path.with_name("skillgate.sarif")
        findings = [finding for skill in report.reports for finding in skill.findings]
        sarif_path.write_text(sarif.render(findings), encoding="utf-8")
        self._summarise("\n".join((text, *failures)))
        decisions = {skill.skill: skill.verdict.decision for skill in report.reports}
        outputs = {
            "verdict": report.verdict.decision,
            "decision-by-skill": json.dumps(decisions),
            "report-path": str(report_path),
            "summary-path": str(summary_path),
            "sarif-path": str(sarif_path),
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
        self._summarise(f"skillgate: {prose(self.activity.reason)}\n")
        self._output({"verdict": Decision.NOT_RUN, "decision-by-skill": "{}", "skills-changed": "0"})

    def _post(self, text: str, create: bool, state: State, description: str) -> tuple[str, list[str]]:
        """Post comment and status; return the comment's URL, and what failed as Markdown."""
        number = self.activity.number if self.inputs.comment and self.activity.post else None
        wants_status = self.inputs.status and self.activity.post and bool(self.activity.head_sha)
        if number is None and not wants_status:
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
            if wants_status:
                failures += self._tell("commit status", self._post_status(client, state, description))[1]
        return url, failures

    def _post_status(self, client: Client, state: State, description: str) -> Posted | NotPosted:
        return client.post_status(
            self.activity.head_sha,
            context=self._context,
            state=state,
            description=description,
            target_url=self._run_url,
        )

    def _status(self, report: GateReport) -> tuple[State, str]:
        if report.is_partial:
            return "error", f"partial: {' '.join(report.verdict.reasons)}"
        # A draft is evaluated later, and what lacks the label once it has it: until then nothing is known.
        activity, is_gate = self.activity, self.inputs.mode is Mode.GATE and bool(report.reports)
        waits = is_gate and activity.event == "pull_request" and not activity.evaluate
        passed: State = "pending" if waits and not (activity.is_fork or activity.is_bot) else "success"
        description = f"{report.verdict.decision}: {' '.join(report.verdict.reasons)}"
        return passed if report.passes else "failure", description

    def _tell(self, what: str, answer: Posted | NotPosted) -> tuple[str, list[str]]:
        """Say in the log what became of a post; a failure only warns."""
        if not isinstance(answer, NotPosted):
            print(f"{what}: {answer.change} {answer.url}".rstrip(), file=self.stdout)
            return answer.url, []
        problem = f"The {what} was not posted. {answer.problem.rstrip('.')}."
        if self.activity.is_fork and self.activity.event == "pull_request":
            # No line that the maintainer could add gives a fork's token more rights.
            self.stdout.write(commands.message("notice", f"{problem} {_FORK}"))
            return "", [f"> {prose(problem)} {_FORK}\n"]
        self.stdout.write(commands.message("warning", f"{problem}\n{answer.hint}".rstrip()))
        hint = f"\n{fenced(answer.hint)}\n" if answer.hint else ""
        return "", [f"> {prose(problem)}\n{hint}"]

    @property
    def _context(self) -> str:
        """Name the status: a commit has one of each name, whichever bases it is proposed to."""
        activity, comment_id = self.activity, self.inputs.comment_id
        name = "skillgate" if comment_id == "default" else f"skillgate/{comment_id}"
        return name if activity.base_ref in ("", activity.default_branch) else f"{name} ({activity.base_ref})"

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
