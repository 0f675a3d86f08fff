"""The modes that read a pull request through the API, and the one that publishes what another job made.

The gate is the real one, with the scripted agent in the local sandbox; GitHub is the REST double.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.cli import _gate_request
from skillgate.core import Decision, GateReport
from skillgate.errors import ExitCode, GitHubUnavailable, Interrupted, ReportError, SkillgateError, UsageError
from skillgate.github.action import ActionRequest, run_action
from skillgate.report import json as report_json
from tests.fakes.github_reading import GithubReading
from tests.gate.conftest import Repo

EVENTS = Path(__file__).parents[1] / "data" / "events"
CONFIG = """\
version: 1
skills: ["skills/**"]
suites: {"skills/**": [suites/tiny]}
run: {agent: scripted, script: script.yml, sandbox: local, repeats: 2, budget-usd: 9.00, per-run-usd: 0.20}
"""
SCRIPT = """\
price: {input: 2.0, output: 10.0}
arms:
  none: &idle {moves: {nothing: 1}, input: {median: 9000}, output: {median: 900}}
  base: *idle
  head: {moves: {oracle: 1}, input: {median: 9000}, output: {median: 900}}
"""
FORK = "somebody/Hello-World"


class Done(NamedTuple):
    """What a step left behind."""

    exit_code: ExitCode
    log: str
    outputs: dict[str, str]
    summary: str


class Job:
    """A job of a workflow: what the runner gives to the action, and a pull request that the API knows."""

    def __init__(self, folder: Path, api: GithubReading, repo: Repo) -> None:
        self.folder, self.api, self.repo = folder, api, repo
        self.base = repo.rev("HEAD~1")
        self.head = repo.rev("HEAD")
        for name in ("workspace", "temp"):
            (folder / name).mkdir()
        self.env = {
            "GITHUB_API_URL": api.url,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_RUN_ID": "99",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_WORKSPACE": str(folder / "workspace"),
            "RUNNER_TEMP": str(folder / "temp"),
            "SKILLGATE_GITHUB_TOKEN": api.token,
            "SKILLGATE_STATUS": "true",
        }

    def event(self, name: str, change: Callable[[dict[str, Any]], None] = lambda payload: None) -> None:
        """Let this event start the job."""
        file = {"workflow_run": "workflow_run.completed", "schedule": "push.event"}.get(name, f"{name}.event")
        payload = json.loads((EVENTS / f"{file}.json").read_bytes())
        payload["repository"]["full_name"] = self.api.repository
        change(payload)
        (self.folder / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        self.env["GITHUB_EVENT_NAME"] = name

    def dispatch(self, sha: str) -> None:
        """Somebody who may write has typed a commit."""
        self.event("workflow_dispatch", lambda payload: payload.update(inputs={"pr": "7", "sha": sha}))

    def finish_run(self, sha: str) -> None:
        """The workflow of a pull request from a fork has ended."""

        def change(payload: dict[str, Any]) -> None:
            run = payload["workflow_run"]
            run |= {"event": "pull_request", "head_sha": sha, "head_branch": "topic", "pull_requests": []}
            run["head_repository"]["full_name"] = FORK

        self.event("workflow_run", change)

    def run(self, mode: str, gate: Any = _gate_request, **env: str) -> Done:
        for name in ("output", "summary"):
            (self.folder / name).unlink(missing_ok=True)
        stdout = io.StringIO()
        exit_code = run_action({**self.env, "SKILLGATE_MODE": mode, **env}, gate, stdout)
        rows = (self.folder / "output").read_text().splitlines()
        outputs = {rows[i].split("<<")[0]: rows[i + 1] for i in range(0, len(rows), 3)}
        return Done(exit_code, stdout.getvalue(), outputs, (self.folder / "summary").read_text())

    def report(self) -> GateReport:
        path = self.folder / "temp" / "skillgate-default" / "report.json"
        return report_json.load(path.read_text(encoding="utf-8"), str(path))


@pytest.fixture
def job(tmp_path: Path, tiny_suite: Path) -> Iterator[Job]:
    """A fork's pull request 7, which changes a skill."""
    repo = Repo(tmp_path / "origin")
    shutil.copytree(tiny_suite, repo.folder / "suites" / "tiny")
    repo.write("skillgate.yml", CONFIG)
    repo.write("script.yml", SCRIPT)
    repo.skill("calc", "To be written.")
    repo.commit()
    repo.skill("calc", "Write `double` first.")
    repo.commit()
    with GithubReading(repo.folder, repository="Codertocat/Hello-World") as api:
        made = Job(tmp_path, api, repo)
        api.propose(7, made.head, made.base, repository=FORK)
        yield made
    assert api.violations == []


def never(request: ActionRequest) -> tuple[GateReport, Path]:
    raise AssertionError("the gate must not run")


# --- the gate of record ---------------------------------------------------------------


def test_the_gate_of_record_lints_a_fork_without_a_checkout_and_posts(job: Job) -> None:
    job.finish_run(job.head)
    done = job.run("lint")

    assert done.exit_code is ExitCode.OK
    assert list((job.folder / "workspace").iterdir()) == []
    report = job.report()
    assert (report.base, report.head) == (job.base, job.head)
    (one,) = report.reports
    assert (one.skill, one.plan, one.verdict.decision) == ("skills/calc", None, Decision.NOT_RUN)
    assert one.verdict.reasons == (
        "Linted only, from the API: this job can write, so it runs and checks out nothing of the "
        "pull request.",
    )
    (body,) = job.api.bodies
    assert f"/blob/{job.head}/skills/calc" in body or "skills/calc" in body
    (status,) = job.api.statuses
    assert (status["sha"], status["state"], status["context"]) == (job.head, "success", "skillgate")


def test_a_run_whose_pull_request_is_gone_does_nothing(job: Job) -> None:
    job.finish_run(job.base)  # no open pull request has this head
    done = job.run("lint", never)
    assert (done.exit_code, job.api.bodies, job.api.statuses) == (ExitCode.OK, [], [])
    assert "no open pull request has this head" in done.summary


def test_an_api_that_is_dead_ends_in_three_and_says_so(job: Job) -> None:
    job.finish_run(job.head)
    job.env["GITHUB_API_URL"] = "http://127.0.0.1:9"
    with pytest.raises(GitHubUnavailable) as caught:
        job.run("lint", never)
    assert (caught.value.exit_code, "again" in caught.value.hint) == (3, True)
    assert "no verdict on this change" in (job.folder / "summary").read_text()


# --- forks, in two stages --------------------------------------------------------------


def evaluate(job: Job) -> Done:
    clone(job)
    job.dispatch(job.head)
    return job.run("evaluate")


def clone(job: Job) -> None:
    """Check out the default branch, as the job does."""
    workspace = job.folder / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    job.repo.git("clone", "-q", str(job.repo.folder), str(workspace))
    Repo.of(workspace).git("checkout", "-q", "--detach", job.base)


def test_a_fork_is_evaluated_on_what_was_typed_and_nothing_is_posted(job: Job) -> None:
    done = evaluate(job)

    report = job.report()
    assert (done.exit_code, done.outputs["verdict"]) == (ExitCode.OK, report.verdict.decision)
    assert report.head == job.head
    (one,) = report.reports
    assert one.plan is not None
    assert {run.cell.arm for run in one.runs} >= {"base", "head"}
    assert (job.api.bodies, job.api.statuses) == ([], [])
    skill = job.folder / "workspace/skills/calc/SKILL.md"
    assert "To be written." in skill.read_text()  # the head is in git's objects, never a file


def test_a_head_that_moved_before_the_start_is_not_evaluated(job: Job) -> None:
    clone(job)
    job.dispatch(job.base)
    with pytest.raises(UsageError, match=f"the head of #7 is {job.head}, not {job.base}"):
        job.run("evaluate", never)


def test_a_report_is_published_once_the_commit_is_still_the_head(job: Job) -> None:
    evaluate(job)
    done = publish(job)

    report = job.report()
    assert done.exit_code is (ExitCode.OK if report.passes else ExitCode.GATE_FAILED)
    (body,) = job.api.bodies
    assert body.startswith("<!-- skillgate:report:v1 id=default -->")
    (status,) = job.api.statuses
    assert (status["sha"], status["state"]) == (job.head, "success" if report.passes else "failure")
    assert done.outputs["verdict"] == report.verdict.decision


def publish(job: Job, **env: str) -> Done:
    """Publish in another job, which has the artifact and nothing else."""
    report = job.folder / "temp" / "skillgate-default" / "report.json"
    if "SKILLGATE_REPORT" not in env:
        shutil.copy(report, job.folder / "workspace" / "artifact.json")
    return job.run("post", never, **{"SKILLGATE_REPORT": "artifact.json", **env})


def test_a_head_that_moved_before_publishing_gets_nothing(job: Job) -> None:
    evaluate(job)
    job.api.pulls[7]["head"]["sha"] = "1" * 40
    with pytest.raises(UsageError, match="the head of #7 is 1111"):
        publish(job)
    assert (job.api.bodies, job.api.statuses) == ([], [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda value: value.update(head="2" * 40), "the report is of 2222"),
        (lambda value: value["verdict"].update(decision="merge", reasons=["x"]), "its verdict is merge"),
        (lambda value: value.update(surprise=1), "surprise"),
        (lambda value: value.update(schema=99), "schema 99"),
        (lambda value: value["reports"][0].update(judged=["a"]), "judged"),
        (lambda value: value["policy"].update({"on-inconclusive": "maybe"}), "on-inconclusive"),
    ],
    ids=["other-commit", "better-verdict", "unknown-field", "other-schema", "wrong-type", "wrong-policy"],
)
def test_an_artifact_that_was_changed_is_refused(
    job: Job, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    job.repo.write("script.yml", SCRIPT.replace("oracle", "nothing"))
    evaluate(job)
    value = json.loads((job.folder / "temp/skillgate-default/report.json").read_text())
    value["verdict"]["decision"] = value["reports"][0]["verdict"]["decision"] = "block"
    change(value)
    (job.folder / "workspace/artifact.json").write_text(json.dumps(value))
    with pytest.raises((UsageError, ReportError), match=why):
        job.run("post", never, SKILLGATE_REPORT="artifact.json")
    assert (job.api.bodies, job.api.statuses) == ([], [])


@pytest.mark.parametrize("content", [b"", b"not json", b"[]", b"\xff\xfe", None], ids=repr)
def test_what_is_no_report_is_refused(job: Job, content: bytes | None) -> None:
    job.dispatch(job.head)
    if content is not None:
        (job.folder / "workspace/artifact.json").write_bytes(content)
    with pytest.raises(SkillgateError):
        job.run("post", never, SKILLGATE_REPORT="artifact.json")
    with pytest.raises(UsageError, match="needs the input `report`"):
        job.run("post", never)
    assert (job.api.bodies, job.api.statuses) == ([], [])


# --- a schedule, and what was stopped ----------------------------------------------------


def test_a_schedule_judges_every_skill_against_none_and_posts_nothing(job: Job) -> None:
    job.repo.skill("other", "Another one.")
    job.repo.commit()
    shutil.rmtree(job.folder / "workspace")
    job.repo.git("clone", "-q", str(job.repo.folder), str(job.folder / "workspace"))
    job.event("schedule")
    done = job.run("watch")

    report = job.report()
    assert done.exit_code is ExitCode.OK
    assert [one.skill for one in report.reports] == ["skills/calc", "skills/other"]
    assert {one.judged for one in report.reports} == {("none", "head")}
    assert (report.base, report.head) == ("none", job.repo.rev("HEAD"))
    assert (job.api.bodies, job.api.statuses) == ([], [])
    assert "skills/other" in done.summary


def test_a_partial_result_is_posted_as_partial_and_passes_nothing(job: Job) -> None:
    evaluate(job)
    whole = job.report()

    def stopped(request: ActionRequest) -> tuple[GateReport, Path]:
        verdict = {"decision": "inconclusive", "reasons": ["Interrupted after 3 of 8 runs: this is partial."]}
        value = json.loads(report_json.dump(whole)) | {"is_partial": True, "verdict": verdict}
        value["reports"][0]["verdict"] = verdict
        return report_json.load(json.dumps(value), "x"), request.out / "report.json"

    job.finish_run(job.head)
    with pytest.raises(Interrupted):
        job.run("lint", stopped)
    (status,) = job.api.statuses
    assert status["state"] == "error"
    assert status["description"].startswith("partial: Interrupted after 3 of 8 runs")
    assert "Interrupted after 3 of 8 runs" in job.api.bodies[0]
