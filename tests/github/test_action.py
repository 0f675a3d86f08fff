from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.core import ChangeKind, Decision, Finding, GateReport, Report, SkillChange, Spend, Verdict
from skillgate.errors import ExitCode, SuiteError, UsageError
from skillgate.github.action import ActionRequest, run_action
from skillgate.values import Location, Severity
from tests.fakes.github_api import FORBIDDEN, GithubApi, error

EVENTS = Path(__file__).parents[1] / "data" / "events"
BASE = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
MARKER = "<!-- skillgate:report:v1 id=default -->"


def _report(decision: Decision = Decision.MERGE, skills: tuple[str, ...] = ("skills/demo",)) -> GateReport:
    verdict = Verdict(decision=decision, reasons=("Said so.",))
    finding = Finding(
        rule="name-format",
        severity=Severity.ERROR,
        scope="spec",
        message="::error::the name is wrong",
        where=Location(path="skills/demo/SKILL.md", line=2, column=7),
    )
    reports = tuple(
        Report(
            skill=skill,
            change=SkillChange(path=skill, kind=ChangeKind.CHANGED),
            findings=(finding,),
            verdict=verdict,
        )
        for skill in skills
    )
    return GateReport(
        base=BASE, head=HEAD, reports=reports, verdict=verdict, spend=Spend(spent_usd_micros=1_234_567)
    )


class Step(NamedTuple):
    """What a step of the action left behind."""

    exit_code: ExitCode
    requests: list[ActionRequest]
    log: str
    outputs: dict[str, str]
    summary: str


class Runner:
    """The files and variables that the runner gives to a step."""

    def __init__(self, folder: Path, api: GithubApi) -> None:
        self.folder, self.api = folder, api
        self.event = folder / "event.json"
        shutil.copyfile(EVENTS / "pull_request.opened.json", self.event)
        for name in ("workspace", "temp"):
            (folder / name).mkdir()
        self.env = {
            "GITHUB_API_URL": api.url,
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(self.event),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_RUN_ID": "99",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_WORKSPACE": str(folder / "workspace"),
            "RUNNER_TEMP": str(folder / "temp"),
            "SKILLGATE_GITHUB_TOKEN": api.token,
        }

    def change_event(self, change: Callable[[dict[str, Any]], None]) -> None:
        payload = json.loads(self.event.read_bytes())
        change(payload)
        self.event.write_text(json.dumps(payload))

    def run(self, report: GateReport | None = None, **env: str) -> Step:
        requests: list[ActionRequest] = []
        stdout = io.StringIO()

        def gate(request: ActionRequest) -> tuple[GateReport, Path]:
            requests.append(request)
            print("::warning::from the gate", file=stdout)
            request.out.mkdir(parents=True, exist_ok=True)
            return report or _report(), request.out / "report.json"

        exit_code = run_action({**self.env, **env}, gate, stdout)
        return Step(exit_code, requests, stdout.getvalue(), self._outputs(), self._read("summary"))

    def _outputs(self) -> dict[str, str]:
        rows = self._read("output").splitlines()
        return {rows[i].split("<<")[0]: rows[i + 1] for i in range(0, len(rows), 3)}

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with GithubApi("Codertocat/Hello-World") as api:
        yield Runner(tmp_path, api)
    assert api.violations == []


def test_a_pull_request_is_gated_and_the_result_published(runner: Runner) -> None:
    step = runner.run()
    out = runner.folder / "temp" / "skillgate-default"
    assert step.exit_code is ExitCode.OK
    assert step.requests == [
        ActionRequest(
            repo=runner.folder / "workspace",
            base=BASE,
            head=HEAD,
            out=out,
            comment_id="default",
            evaluate=True,
            reason="Linted and evaluated: a branch of this repository.",
        )
    ]
    assert step.outputs == {
        "verdict": "merge",
        "decision-by-skill": '{"skills/demo": "merge"}',
        "report-path": str(out / "report.json"),
        "summary-path": str(out / "comment.md"),
        "sarif-path": str(out / "skillgate.sarif"),
        "comment-url": "https://github.com/Codertocat/Hello-World/pull/2#issuecomment-1",
        "cost-usd": "1.234567",
        "skills-changed": "1",
    }
    (body,) = runner.api.bodies
    assert body.startswith(MARKER)
    assert f"https://github.com/Codertocat/Hello-World/blob/{HEAD}/skills/demo/SKILL.md" in body
    assert "https://github.com/Codertocat/Hello-World/actions/runs/99" in body
    assert (out / "comment.md").read_text(encoding="utf-8") == step.summary.rstrip("\n") + "\n" == body


def test_the_log_holds_annotations_and_what_the_gate_prints_is_no_command(runner: Runner) -> None:
    log = runner.run().log.splitlines()
    token = log[1].removeprefix("::stop-commands::")
    assert log == [
        "::notice title=skillgate::Linted and evaluated: a branch of this repository.",
        f"::stop-commands::{token}",
        "::warning::from the gate",
        "",
        f"::{token}::",
        "::error file=skills/demo/SKILL.md,line=2,col=7,title=name-format::::error::the name is wrong",
        "::add-mask::ghs_fake",
        "comment: created https://github.com/Codertocat/Hello-World/pull/2#issuecomment-1",
    ]


@pytest.mark.parametrize(
    ("decision", "exit_code"),
    [
        (Decision.MERGE, ExitCode.OK),
        (Decision.NOT_RUN, ExitCode.OK),
        (Decision.INCONCLUSIVE, ExitCode.OK),
        (Decision.HOLD, ExitCode.GATE_FAILED),
        (Decision.BLOCK, ExitCode.GATE_FAILED),
    ],
)
def test_the_verdict_is_the_exit_code_and_outputs_are_set_either_way(
    runner: Runner, decision: Decision, exit_code: ExitCode
) -> None:
    step = runner.run(_report(decision, ("skills/a", "skills/b")))
    assert step.exit_code is exit_code
    assert step.outputs["verdict"] == decision
    assert json.loads(step.outputs["decision-by-skill"]) == {"skills/a": decision, "skills/b": decision}
    assert step.outputs["skills-changed"] == "2"


def test_inputs_reach_the_gate(runner: Runner) -> None:
    step = runner.run(
        SKILLGATE_CONFIG="ci/skillgate.yml",
        SKILLGATE_AGENT="scripted",
        SKILLGATE_MODEL="m",
        SKILLGATE_BUDGET_USD="0.5",
        SKILLGATE_SANDBOX="local",
        SKILLGATE_COMMENT_ID="docs",
        SKILLGATE_OUT="out",
        SKILLGATE_COMMENT="true",
    )
    workspace = runner.folder / "workspace"
    assert step.requests == [
        ActionRequest(
            repo=workspace,
            base=BASE,
            head=HEAD,
            out=workspace / "out",
            comment_id="docs",
            evaluate=True,
            reason="Linted and evaluated: a branch of this repository.",
            config="ci/skillgate.yml",
            agent="scripted",
            model="m",
            budget_usd=0.5,
            sandbox="local",
        )
    ]
    assert runner.api.bodies[0].startswith(MARKER.replace("default", "docs"))


def test_mode_lint_evaluates_nothing(runner: Runner) -> None:
    (request,) = runner.run(SKILLGATE_MODE="lint").requests
    assert (request.evaluate, request.reason) == (False, "Linted only: the input `mode` is `lint`.")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MODE", "sweep", "input `mode` is `sweep`: invalid enum value 'sweep'"),
        ("BUDGET_USD", "five", "input `budget-usd` is `five`: expected `float | null`, got `str`"),
        ("BUDGET_USD", "-1", "input `budget-usd` is `-1`: expected `float` >= 0.0"),
        ("BUDGET_USD", "inf", "input `budget-usd` is `inf`: expected `float` <= 1000000.0"),
        ("BUDGET_USD", "nan", "input `budget-usd` is `nan`: expected `float` >= 0.0"),
        ("COMMENT", "yes", "input `comment` is `yes`: expected `bool`, got `str`"),
        ("CONFIG", "/etc/x.yml", "input `config` is `/etc/x.yml`: expected `str` matching regex '^[^/]'"),
        ("SANDBOX", "none", "input `sandbox` is `none`: invalid enum value 'none'"),
        (
            "COMMENT_ID",
            "a -->",
            "input `comment-id` is `a -->`: expected `str` matching regex '^[A-Za-z0-9._-]{1,64}\\\\Z'",
        ),
    ],
)
def test_a_wrong_input_is_named_and_nothing_runs(runner: Runner, name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        runner.run(**{f"SKILLGATE_{name}": value})
    assert (caught.value.message, caught.value.hint) == (message, "Correct it under `with:` in the workflow.")
    assert runner.api.log == []


def test_outside_of_a_runner_the_missing_variables_are_named() -> None:
    stdout = io.StringIO()
    with pytest.raises(UsageError, match=r"not set in the environment: GITHUB_API_URL, .*RUNNER_TEMP"):
        run_action({}, lambda request: pytest.fail("ran"), stdout)


def test_an_error_of_the_gate_is_annotated_and_raised(runner: Runner) -> None:
    def gate(request: ActionRequest) -> tuple[GateReport, Path]:
        raise SuiteError("suite.yml:3: no tasks\n::debug::x", "Add one.")

    stdout = io.StringIO()
    with pytest.raises(SuiteError):
        run_action(runner.env, gate, stdout)
    log = [line for line in stdout.getvalue().splitlines() if not line.startswith("comment: ")]
    assert log[-1] == "::error title=skillgate::suite.yml:3: no tasks%0A::debug::x%0AAdd one."
    assert log[-2].startswith("::"), "commands work again"


def test_an_error_replaces_what_an_earlier_run_said_of_this_head(runner: Runner) -> None:
    def gate(request: ActionRequest) -> tuple[GateReport, Path]:
        raise SuiteError("suite.yml:3: no tasks <b>", "Add one.")

    runner.run(_report(Decision.MERGE), SKILLGATE_STATUS="true")
    with pytest.raises(SuiteError):
        run_action(runner.env | {"SKILLGATE_STATUS": "true"}, gate, io.StringIO())
    (comment,) = runner.api.comments.values()
    assert comment["body"] == (
        f"{MARKER}\n### skillgate has no verdict on this change\n\n"
        "```text\nsuite.yml:3: no tasks <b>\nAdd one.\n```\n"
    )
    assert [status["state"] for status in runner.api.statuses] == ["success", "error"]
    assert runner._outputs()["verdict"] == "not-run"
    assert "no verdict on this change" in runner._read("summary")


def _close(payload: dict[str, Any]) -> None:
    payload["action"] = "closed"


def test_nothing_to_do_is_said_and_passes(runner: Runner) -> None:
    runner.change_event(_close)
    assert runner.run() == Step(
        ExitCode.OK,
        [],
        "::notice title=skillgate::Nothing to do: the pull request is closed.\n",
        {"verdict": "not-run", "decision-by-skill": "{}", "skills-changed": "0"},
        "skillgate: Nothing to do: the pull request is closed.\n",
    )
    assert runner.api.log == []


def test_a_merge_group_gets_no_comment(runner: Runner) -> None:
    shutil.copyfile(EVENTS / "merge_group.checks_requested.json", runner.event)
    step = runner.run(GITHUB_EVENT_NAME="merge_group")
    assert [request.evaluate for request in step.requests] == [False]
    assert (step.outputs["verdict"], step.outputs["comment-url"], runner.api.log) == ("merge", "", [])


# --- the comment --------------------------------------------------------------------


def test_the_second_run_edits_the_comment_and_the_third_leaves_it(runner: Runner) -> None:
    logs = [
        runner.run(_report(decision)).log for decision in (Decision.MERGE, Decision.BLOCK, Decision.BLOCK)
    ]
    assert [log.splitlines()[-1].split()[1] for log in logs] == ["created", "edited", "unchanged"]
    assert len(runner.api.comments) == 1


def test_without_a_changed_skill_no_comment_is_created_but_an_old_one_is_edited(runner: Runner) -> None:
    nothing = _report(Decision.NOT_RUN, skills=())
    assert runner.run(nothing).log.splitlines()[-1] == "comment: not needed"
    assert runner.api.comments == {}
    runner.run()
    assert runner.run(nothing).log.splitlines()[-1].startswith("comment: edited ")
    assert len(runner.api.comments) == 1


def test_two_comment_ids_are_two_comments(runner: Runner) -> None:
    for comment_id in ("docs", "code", "docs"):
        runner.run(SKILLGATE_COMMENT_ID=comment_id)
    assert [body.splitlines()[0] for body in runner.api.bodies] == [
        "<!-- skillgate:report:v1 id=docs -->",
        "<!-- skillgate:report:v1 id=code -->",
    ]


def test_no_comment_when_none_is_wanted(runner: Runner) -> None:
    step = runner.run(SKILLGATE_COMMENT="false")
    assert (runner.api.log, step.outputs["comment-url"]) == ([], "")
    assert step.summary.startswith(MARKER)


@pytest.mark.parametrize("decision", [Decision.MERGE, Decision.BLOCK])
def test_a_refused_comment_changes_no_verdict_and_names_the_permission(
    runner: Runner, decision: Decision
) -> None:
    denied = error(403, FORBIDDEN, x_accepted_github_permissions="issues=write; pull_requests=write")
    runner.api.plan("POST ", denied)
    step = runner.run(_report(decision))
    assert step.exit_code is (ExitCode.OK if decision is Decision.MERGE else ExitCode.GATE_FAILED)
    assert step.outputs["verdict"] == decision
    problem = f"GitHub answered 403: {FORBIDDEN}; the token lacks `pull-requests: write`."
    lines = "permissions:\n  contents: read\n  pull-requests: write"
    assert step.log.splitlines()[-1] == (
        f"::warning title=skillgate::The comment was not posted. {problem}%0A"
        f"Add to the job in the workflow:%0A{lines}".replace("\n", "%0A")
    )
    assert step.summary.startswith(MARKER)
    assert step.summary.endswith(
        f"\n> The comment was not posted. {problem}\n\n"
        f"```text\nAdd to the job in the workflow:\n{lines}\n```\n"
    )


def _fork(payload: dict[str, Any]) -> None:
    payload["pull_request"]["head"]["repo"]["full_name"] = "mallory/Hello-World"


def test_a_fork_is_told_why_there_is_no_comment(runner: Runner) -> None:
    runner.change_event(_fork)
    runner.api.plan("POST ", error(403, FORBIDDEN))
    step = runner.run(_report(Decision.NOT_RUN))
    assert [request.evaluate for request in step.requests] == [False]
    assert step.log.splitlines()[-1].startswith("::notice title=skillgate::The comment was not posted.")
    assert step.summary.endswith(
        "A pull request from a fork has a token that can only read: the report is in the job summary.\n"
    )


def test_without_a_token_nothing_is_posted_and_the_verdict_stands(runner: Runner) -> None:
    step = runner.run(_report(Decision.BLOCK), SKILLGATE_GITHUB_TOKEN="")
    assert step.exit_code is ExitCode.GATE_FAILED
    assert step.log.splitlines()[-1] == (
        "::warning title=skillgate::The report was not posted. The input `github-token` is empty."
    )


# --- the commit status ----------------------------------------------------------------


def _draft(payload: dict[str, Any]) -> None:
    payload["pull_request"]["draft"] = True


@pytest.mark.parametrize(
    ("decision", "is_draft", "state"),
    [
        (Decision.MERGE, False, "success"),
        (Decision.BLOCK, False, "failure"),
        (Decision.NOT_RUN, True, "pending"),
        (Decision.BLOCK, True, "failure"),
    ],
)
def test_a_status_is_set_when_wanted(runner: Runner, decision: Decision, is_draft: bool, state: str) -> None:
    if is_draft:
        runner.change_event(_draft)
    runner.run(_report(decision), SKILLGATE_STATUS="true", SKILLGATE_COMMENT="false")
    assert runner.api.statuses == [
        {
            "sha": HEAD,
            "state": state,
            "context": "skillgate",
            "description": f"{decision}: Said so.",
            "target_url": "https://github.com/Codertocat/Hello-World/actions/runs/99",
        }
    ]


def test_a_status_of_another_comment_id_has_its_own_context(runner: Runner) -> None:
    runner.run(SKILLGATE_STATUS="true", SKILLGATE_COMMENT_ID="docs")
    assert [status["context"] for status in runner.api.statuses] == ["skillgate/docs"]
