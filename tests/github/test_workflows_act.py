"""The four example workflows, to the byte, in a repository that copied them: act runs them.

GitHub is the REST double. Whatever the workflows call is mapped to a folder: skillgate to this tree, the
actions of others to small ones that do the same on this machine. act reads no `on:` filters, permissions,
environments or concurrency; test_workflows.py does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.fakes.github_reading import GithubReading
from tests.github.act import ACT, CONFIG, PATCH, SCRIPT, SKILL, SUITE, TASK, run_act

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "tests" / "data" / "events"
EXAMPLES = ROOT / "examples" / "workflows"

# The inputs that the workflows give, and what comes of them on this machine.
STUBS = {
    "checkout": "",
    "cache": "",
    "upload-artifact": 'mkdir -p "$STORE/$NAME" && cp -r "$FROM" "$STORE/$NAME/"',
    "download-artifact": 'mkdir -p "$FROM" && cp -r "$STORE/$NAME/." "$FROM/"',
}


def stub(script: str) -> dict[str, Any]:
    names = (
        "name",
        "path",
        "ref",
        "key",
        "fetch-depth",
        "persist-credentials",
        "if-no-files-found",
        "retention-days",
    )
    env = {"NAME": "${{ inputs.name }}", "FROM": "${{ inputs.path }}"}
    step = {"run": script or ":", "shell": "bash", "env": env}
    return {
        "name": "stub",
        "description": "stub",
        "inputs": {name: {"description": name, "default": ""} for name in names},
        "runs": {"using": "composite", "steps": [step]},
    }


class Ran(NamedTuple):
    """What act said: one row for each line of its log."""

    exit_code: int
    rows: Sequence[dict[str, Any]]
    stderr: str

    @property
    def log(self) -> str:
        return "\n".join(row["msg"].rstrip() for row in self.rows) + self.stderr

    @property
    def jobs(self) -> dict[str, str]:
        """Return the result of each job that ran to its end."""
        return {row["jobID"]: row["jobResult"] for row in self.rows if "jobResult" in row}

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs of the step that calls skillgate."""
        rows = (
            row for row in self.rows if row.get("command") == "set-output" and row["stepID"][-1] == "gate"
        )
        return {row["name"]: row["arg"] for row in rows}


class Repository:
    """A repository with the four workflows, a suite, and a skill."""

    def __init__(self, folder: Path, mapped: dict[str, Path], api: GithubReading) -> None:
        self.folder, self.mapped, self.api, self.repo = folder, mapped, api, folder / "repo"
        for path in sorted(EXAMPLES.glob("*.yml")):
            self.write(f".github/workflows/{path.name}", path.read_text(encoding="utf-8"))
        self.write("skillgate.yml", CONFIG.replace("budget-usd: 0.8", "budget-usd: 2.4"))
        self.write("script.yml", SCRIPT)
        self.write("suite/suite.yml", SUITE)
        self.write("suite/repo/README.md", "# Notes\n")
        for number in range(1, 7):
            self.write(f"suite/tasks/note-{number}/task.yml", TASK.format(number=number))
            self.write(f"suite/tasks/note-{number}/solution.patch", PATCH.format(number=number))
        for name in ("helps", "breaks"):
            self.write(f"skills/{name}/SKILL.md", SKILL.format(name=name, text="To be written."))
        self.git("init", "--quiet", "--initial-branch=main")
        self.base = self.commit("Begin")

    def write(self, path: str, text: str) -> None:
        target = self.repo / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def change(self, name: str) -> str:
        """Commit a change of one skill; return the commit."""
        self.write(
            f"skills/{name}/SKILL.md", SKILL.format(name=name, text="Write the note that is asked for.")
        )
        return self.commit(f"Write {name}")

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repo), "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    # --- events -----------------------------------------------------------------------

    def pull_request(self, head: str, head_repository: str = "") -> dict[str, Any]:
        payload = self._payload("pull_request.opened")
        payload["pull_request"]["base"]["sha"] = self.base
        owner = head_repository or self.api.repository
        payload["pull_request"]["head"] |= {"sha": head, "repo": {"full_name": owner}}
        return payload

    def merge_group(self, head: str) -> dict[str, Any]:
        payload = self._payload("merge_group.checks_requested")
        payload["merge_group"] |= {"base_sha": self.base, "head_sha": head}
        return payload

    def workflow_run(
        self, head: str, head_repository: str = "", event: str = "pull_request"
    ) -> dict[str, Any]:
        payload = self._payload("workflow_run.completed")
        payload["workflow_run"] |= {"event": event, "head_sha": head, "head_branch": "topic"}
        payload["workflow_run"]["head_repository"]["full_name"] = head_repository or self.api.repository
        return payload

    def workflow_dispatch(self, pr: str = "", sha: str = "") -> dict[str, Any]:
        repository = {"full_name": self.api.repository, "default_branch": "main"}
        inputs = {"pr": pr, "sha": sha} if pr else None
        return {"inputs": inputs, "ref": "refs/heads/main", "repository": repository}

    def schedule(self) -> dict[str, Any]:
        return {
            "schedule": "23 4 * * 1",
            "repository": {"full_name": self.api.repository, "default_branch": "main"},
        }

    def _payload(self, name: str) -> dict[str, Any]:
        payload: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_bytes())
        payload["repository"]["full_name"] = self.api.repository
        return payload

    # --- act --------------------------------------------------------------------------

    def run(self, workflow: str, event: str, payload: dict[str, Any], *options: str) -> Ran:
        """Run one of the workflows for an event."""
        home, given = self.folder / "home", self.folder / "event.json"
        home.mkdir(exist_ok=True)
        given.write_text(json.dumps(payload), encoding="utf-8")
        command = [
            *(str(ACT), event, "--json", "-e", str(given), "-W", f".github/workflows/{workflow}"),
            *("-P", "ubuntu-latest=-self-hosted", "--no-cache-server"),
            *("--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1"),
            *(
                part
                for name, path in self.mapped.items()
                for part in ("--local-repository", f"{name}={path}")
            ),
            *("--action-cache-path", str(self.folder / "cache")),
            *("--env", f"GITHUB_API_URL={self.api.url}", "--env", f"GITHUB_REPOSITORY={self.api.repository}"),
            *("--env", f"STORE={self.folder / 'store'}", "-s", f"GITHUB_TOKEN={self.api.token}"),
            *options,
        ]
        done = run_act(command, self.repo, home)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return Ran(done.returncode, rows, done.stderr)


def called() -> set[str]:
    """Return what the workflows and the action call, as act wants it: with owner and version."""
    texts = [path.read_text(encoding="utf-8") for path in (*EXAMPLES.glob("*.yml"), ROOT / "action.yml")]
    documents = [yaml.safe_load(text) for text in texts]
    steps = [
        step
        for document in documents
        for part in (document.get("jobs") or {"": document["runs"]}).values()
        for step in part["steps"]
    ]
    return {step["uses"] for step in steps if "uses" in step}


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Map everything that is called to a folder; in it, skillgate uses this interpreter."""
    folder = tmp_path_factory.mktemp("actions")
    ours = folder / "skillgate"
    for name in ("skillgate", "rules", "fixtures"):
        shutil.copytree(ROOT / name, ours / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements.lock", ours)
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    action["inputs"]["python"]["default"] = sys.executable
    (ours / "action.yml").write_text(yaml.safe_dump(action, sort_keys=False), encoding="utf-8")
    found = {"skillgate/skillgate@v1": ours}
    for use in called() - set(found):
        name = use.partition("@")[0].removeprefix("actions/")
        found[use] = folder / name
        (folder / name).mkdir()
        (folder / name / "action.yml").write_text(yaml.safe_dump(stub(STUBS[name])), encoding="utf-8")
    return found


@pytest.fixture
def repository(tmp_path: Path, mapped: dict[str, Path]) -> Iterator[Repository]:
    with GithubReading(tmp_path / "repo") as api:
        yield Repository(tmp_path, dict(mapped), api)
    assert api.violations == []


# --- each is a workflow, and starts for its events ------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("workflow", "event", "jobs"),
    [
        ("pull-request.yml", "pull_request", ["gate"]),
        ("pull-request.yml", "merge_group", ["gate"]),
        ("record.yml", "workflow_run", ["record"]),
        ("forks.yml", "workflow_dispatch", ["evaluate", "publish"]),
        ("schedule.yml", "schedule", ["watch"]),
        ("schedule.yml", "workflow_dispatch", ["watch"]),
    ],
)
def test_act_lists_the_jobs_of_an_event(
    repository: Repository, workflow: str, event: str, jobs: list[str]
) -> None:
    command = [str(ACT), event, "--list", "-W", f".github/workflows/{workflow}"]
    done = run_act(command, repository.repo, repository.folder)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:] if line] == jobs


def test_the_gate_of_record_is_for_pull_requests_only(repository: Repository) -> None:
    ran = repository.run("record.yml", "workflow_run", repository.workflow_run(repository.base, event="push"))
    assert (ran.exit_code, ran.jobs) == (0, {}), ran.log


def test_an_action_that_is_not_mapped_is_an_error_and_asks_no_host(repository: Repository) -> None:
    del repository.mapped["skillgate/skillgate@v1"]
    ran = repository.run("schedule.yml", "schedule", repository.schedule())
    assert ran.exit_code != 0
    assert "127.0.0.1:9: connect: connection refused" in ran.log


# --- record.yml, forks.yml, schedule.yml -----------------------------------------------------

FORK = "somebody/skills"


def test_a_fork_is_linted_for_the_record_without_a_checkout(repository: Repository) -> None:
    head = repository.change("helps")
    repository.api.propose(2, head, repository.base, repository=FORK)
    ran = repository.run("record.yml", "workflow_run", repository.workflow_run(head, FORK))
    assert (ran.exit_code, ran.jobs) == (0, {"record": "success"}), ran.log
    assert (ran.outputs["verdict"], ran.outputs["skills-changed"]) == ("not-run", "1")
    (status,) = repository.api.statuses
    assert (status["sha"], status["context"], status["state"]) == (head, "skillgate", "success")
    assert len(repository.api.bodies) == 1


def test_a_fork_is_evaluated_in_one_job_and_published_by_another(repository: Repository) -> None:
    head = repository.change("breaks")
    repository.git("checkout", "--quiet", "--detach", repository.base)  # what the job checks out
    repository.api.propose(2, head, repository.base, repository=FORK)
    ran = repository.run("forks.yml", "workflow_dispatch", repository.workflow_dispatch("2", head))
    assert ran.jobs == {"evaluate": "success", "publish": "failure"}, ran.log
    (comment,) = repository.api.bodies
    assert "scripted, not a measurement" in comment
    (status,) = repository.api.statuses
    assert (status["sha"], status["state"]) == (head, "failure")


@pytest.mark.long
def test_what_was_pushed_after_reading_is_neither_evaluated_nor_published(repository: Repository) -> None:
    read = repository.change("helps")
    head = repository.change("breaks")
    repository.api.propose(2, head, repository.base, repository=FORK)
    ran = repository.run("forks.yml", "workflow_dispatch", repository.workflow_dispatch("2", read))
    assert ran.jobs == {"evaluate": "failure"}, ran.log
    assert f"the head of #2 is {head}, not {read}" in ran.log
    assert (repository.api.bodies, repository.api.statuses) == ([], [])


@pytest.mark.long
def test_a_schedule_runs_every_skill_and_shows_it_in_the_summary(repository: Repository) -> None:
    ran = repository.run("schedule.yml", "schedule", repository.schedule())
    assert (ran.exit_code, ran.jobs) == (0, {"watch": "success"}), ran.log
    assert json.loads(ran.outputs["decision-by-skill"]).keys() == {"skills/breaks", "skills/helps"}
    assert (repository.api.bodies, repository.api.statuses) == ([], [])


# --- pull-request.yml -----------------------------------------------------------------------


def test_a_branch_of_the_repository_is_evaluated_and_commented_on(repository: Repository) -> None:
    ran = repository.run(
        "pull-request.yml", "pull_request", repository.pull_request(repository.change("helps"))
    )
    assert (ran.exit_code, ran.jobs) == (0, {"gate": "success"}), ran.log
    assert (ran.outputs["verdict"], ran.outputs["skills-changed"]) == ("merge", "1")
    (comment,) = repository.api.bodies
    assert comment.startswith("<!-- skillgate:report:v1 id=default -->\n")
    assert repository.api.statuses == []  # record.yml sets it


@pytest.mark.long
def test_a_change_for_the_worse_fails_the_job(repository: Repository) -> None:
    ran = repository.run(
        "pull-request.yml", "pull_request", repository.pull_request(repository.change("breaks"))
    )
    assert (ran.exit_code, ran.jobs) == (1, {"gate": "failure"}), ran.log
    assert ran.outputs["decision-by-skill"] == '{"skills/breaks": "block"}'


def test_a_fork_is_linted_only(repository: Repository) -> None:
    payload = repository.pull_request(repository.change("breaks"), "mallory/skills")
    ran = repository.run("pull-request.yml", "pull_request", payload)
    assert (ran.exit_code, ran.outputs["verdict"], ran.outputs["cost-usd"]) == (0, "not-run", "0.000000"), (
        ran.log
    )


def test_a_merge_group_is_linted_and_has_a_status_and_no_comment(repository: Repository) -> None:
    head = repository.change("helps")
    ran = repository.run("pull-request.yml", "merge_group", repository.merge_group(head))
    assert (ran.exit_code, ran.outputs["verdict"]) == (0, "not-run"), ran.log
    assert [(status["sha"], status["state"]) for status in repository.api.statuses] == [(head, "success")]
    assert len(repository.api.comments) == 0
