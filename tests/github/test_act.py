"""action.yml as a consumer meets it: act runs a workflow on this host, GitHub is the REST double."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.fakes.github_api import FORBIDDEN, GithubApi, error

ROOT = Path(__file__).parents[2]
EVENT = ROOT / "tests" / "data" / "events" / "pull_request.opened.json"
ACT = Path(sys.executable).with_name("act")
OUTPUTS = tuple(yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["outputs"])

WORKFLOW = f"""\
on:
  pull_request:
    types: [opened, synchronize, reopened, ready_for_review]
permissions: {{}}
jobs:
  gate:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      pull-requests: write
    steps:
      - uses: actions/checkout@v7
        with:
          fetch-depth: 0
          persist-credentials: false
      - id: gate
        uses: skillgate/skillgate@v1
        with:
          python: {sys.executable}
          status: "true"
      - id: after
        if: always()
        shell: bash
        env:
          OUTPUTS: ${{{{ toJSON(steps.gate.outputs) }}}}
        run: echo "$OUTPUTS" >outputs.json; cp outputs.json "$COPY_TO"
"""
CONFIG = """\
version: 1
suites: {"skills/*": [suite]}
run:
  agent: scripted
  script: script.yml
  sandbox: local
  repeats: 2
  budget-usd: 0.8
  per-run-usd: 0.1
"""
SCRIPT = """\
version: 1
price: {input: 2.0, output: 10.0}
arms:
  none: &idle {moves: {nothing: 1}, input: {median: 1000}, output: {median: 100}}
  base: *idle
  head: &busy {moves: {oracle: 1}, input: {median: 1000}, output: {median: 100}}
skills:
  breaks: {base: *busy, head: *idle}
"""
SUITE = "version: 1\ntitle: notes\nwhy: The smallest suite that can be won and lost.\n"
TASK = """\
title: Write note {number}
prompt: |
  ## Background
  Notes live in `notes/`.
  ## Requirement
  Write note {number}.
  ## File operations
  - Create `notes/{number}.txt`
  ## Acceptance criteria
  - The note exists.
deliverables: [notes/{number}.txt]
graders:
  - {{name: written, run: test -f notes/{number}.txt, kind: fail-to-pass}}
  - {{name: kept, run: test -f README.md, kind: pass-to-pass}}
"""
PATCH = """\
diff --git a/notes/{number}.txt b/notes/{number}.txt
new file mode 100644
--- /dev/null
+++ b/notes/{number}.txt
@@ -0,0 +1 @@
+note
"""
DESCRIPTION = "Writes release notes. Use when release notes are asked for."
SKILL = f"---\nname: {{name}}\ndescription: {DESCRIPTION}\n---\n\n# Notes\n\n{{text}}\n"


class Consumer:
    """A repository that uses the action, and what it takes to run its workflow."""

    def __init__(self, folder: Path, action: Path, api: GithubApi) -> None:
        self.folder, self.action, self.api, self.repo = folder, action, api, folder / "repo"
        self.head_repository = api.repository
        self.write(".github/workflows/skillgate.yml", WORKFLOW)
        self.write("skillgate.yml", CONFIG)
        self.write("script.yml", SCRIPT)
        self.write("suite/suite.yml", SUITE)
        self.write("suite/repo/README.md", "# Notes\n")
        for number in range(1, 7):
            self.write(f"suite/tasks/note-{number}/task.yml", TASK.format(number=number))
            self.write(f"suite/tasks/note-{number}/solution.patch", PATCH.format(number=number))
        for name in ("helps", "breaks"):
            self.write(f"skills/{name}/SKILL.md", SKILL.format(name=name, text="To be written."))
        # The step runs in the pull request's folder: nothing of it may be imported.
        for name in ("msgspec.py", "github.py", "skillgate/__init__.py", "skillgate/__main__.py"):
            self.write(name, 'raise SystemExit("a module of the pull request was imported")\n')
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

    def event(self, head: str) -> Path:
        """Write the payload of a pull request from the base to this commit."""
        payload = json.loads(EVENT.read_bytes())
        payload["repository"]["full_name"] = self.api.repository
        payload["pull_request"]["base"]["sha"] = self.base
        payload["pull_request"]["head"] |= {"sha": head, "repo": {"full_name": self.head_repository}}
        path = self.folder / "event.json"
        path.write_text(json.dumps(payload), encoding="utf-8")
        return path

    def run(self, head: str) -> Job:
        """Run the workflow for a pull request with this head."""
        home, copy = self.folder / "home", self.folder / "outputs.json"
        home.mkdir(exist_ok=True)
        command = [
            *(str(ACT), "pull_request", "--json", "-e", str(self.event(head))),
            *("-P", "ubuntu-latest=-self-hosted", "--no-cache-server"),
            *("--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1"),
            *("--local-repository", f"skillgate/skillgate@v1={self.action}"),
            *("--action-cache-path", str(self.folder / "cache")),
            *("--env", f"GITHUB_API_URL={self.api.url}", "--env", f"GITHUB_REPOSITORY={self.api.repository}"),
            *("--env", f"COPY_TO={copy}", "-s", f"GITHUB_TOKEN={self.api.token}"),
        ]
        # act looks for settings in HOME, and writes there; the machine's own must not matter.
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            command,
            cwd=self.repo,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert copy.exists(), done.stdout + done.stderr
        return Job(done.returncode, rows, json.loads(copy.read_text(encoding="utf-8")))


class Job(NamedTuple):
    """What a run of the workflow left: act's log, and the outputs that the next step sees."""

    exit_code: int
    rows: Sequence[dict[str, Any]]
    outputs: dict[str, str]

    @property
    def log(self) -> str:
        return "\n".join(row["msg"].rstrip() for row in self.rows)

    def said(self, command: str) -> list[str]:
        """Return the texts of a workflow command that the gate gave."""
        # act repeats the summary of a composite action's step for the step that uses the action.
        rows = [row for row in self.rows if row.get("stepID") == ["gate", "gate"]]
        return [row.get("content") or row["arg"] for row in rows if row.get("command") == command]


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what the action consists of: it must need nothing else of this repository."""
    folder = tmp_path_factory.mktemp("action")
    for name in ("skillgate", "rules", "fixtures"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "action.yml", folder)
    return folder


@pytest.fixture
def consumer(tmp_path: Path, action: Path) -> Iterator[Consumer]:
    with GithubApi() as api:
        yield Consumer(tmp_path, action, api)
    assert api.violations == []


def _writes(api: GithubApi) -> list[str]:
    """Return the writing requests since the last call."""
    found = [line for line in api.log if not line.startswith("GET ")]
    api.log.clear()
    return found


def test_a_pull_request_is_gated_and_its_comment_follows_it(consumer: Consumer) -> None:
    api, comments = consumer.api, "/repos/acme/skills/issues/2/comments"
    good = consumer.change("helps")
    first = consumer.run(good)
    assert first.exit_code == 0, first.log
    assert {name: first.outputs[name] for name in ("verdict", "decision-by-skill", "skills-changed")} == {
        "verdict": "merge",
        "decision-by-skill": '{"skills/helps": "merge"}',
        "skills-changed": "1",
    }
    assert _writes(api) == [f"POST {comments}", f"POST /repos/acme/skills/statuses/{good}"]
    (old,) = api.bodies
    assert first.said("summary") == [old]

    consumer.git("reset", "--quiet", "--hard", consumer.base)
    bad = consumer.change("breaks")
    second = consumer.run(bad)
    assert second.exit_code == 1
    assert set(second.outputs) == set(OUTPUTS)
    assert all(second.outputs.values())
    assert second.outputs["verdict"] == "block"
    assert json.loads(second.outputs["decision-by-skill"]) == {"skills/breaks": "block"}
    assert second.outputs["comment-url"] == "https://github.com/acme/skills/pull/2#issuecomment-1"
    assert _writes(api) == [
        "PATCH /repos/acme/skills/issues/comments/1",
        f"POST /repos/acme/skills/statuses/{bad}",
    ]
    (new,) = api.bodies
    assert new.splitlines()[0] == old.splitlines()[0] == "<!-- skillgate:report:v1 id=default -->"
    assert second.said("summary") == [new] != [old]

    third = consumer.run(bad)
    assert third.exit_code == 1
    assert _writes(api) == [f"POST /repos/acme/skills/statuses/{bad}"]
    assert [(status["sha"], status["state"]) for status in api.statuses] == [
        (good, "success"),
        (bad, "failure"),
        (bad, "failure"),
    ]


def test_a_fork_is_linted_and_a_refused_comment_changes_nothing(consumer: Consumer) -> None:
    consumer.head_repository = "mallory/skills"
    consumer.api.plan("POST ", error(403, FORBIDDEN, x_accepted_github_permissions="pull_requests=write"))
    consumer.api.plan("POST ", error(403, FORBIDDEN, x_accepted_github_permissions="statuses=write"))
    job = consumer.run(consumer.change("breaks"))
    assert job.exit_code == 0, job.log
    assert (job.outputs["verdict"], job.outputs["comment-url"]) == ("not-run", "")
    assert consumer.api.bodies == []
    (summary,) = job.said("summary")
    assert summary.startswith("<!-- skillgate:report:v1 id=default -->")
    assert "The comment was not posted." in summary
    notices = job.said("notice")
    assert len(notices) == 3
    assert notices[0].startswith("Linted only: the pull request comes from a fork")


def test_a_broken_configuration_is_exit_code_2_and_an_annotation(consumer: Consumer) -> None:
    consumer.write("skillgate.yml", "version: 1\nsuite: {}\n")
    consumer.base = consumer.commit("Break the configuration")
    job = consumer.run(consumer.change("helps"))
    assert "exit status 2" in job.log.splitlines(), job.log
    assert job.said("error") == ["skillgate.yml:2: unknown key `suite`\nDid you mean `suites`?"]
    assert len(consumer.api.comments) == 0
