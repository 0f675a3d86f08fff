"""A repository that uses the action, and act, which runs its workflow on this host."""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from tests.fakes.github_api import GithubApi
from tests.github.events import read_payload

ROOT = Path(__file__).parents[2]
ACT = Path(sys.executable).with_name("act")
NOWHERE = "http://127.0.0.1:9"  # what is not mapped would be cloned: it gets no further than here
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
OUTPUTS = tuple(ACTION["outputs"])
# What the action uses in turn: act wants it even where the step is left out.
NESTED = {step["uses"]: tuple(step.get("with", {})) for step in ACTION["runs"]["steps"] if "uses" in step}
MARKER = "<!-- skillgate:report:v1 id=default -->"
COMMENTS = "/repos/acme/skills/issues/2/comments"
# A secret of the repository. No job that meets a stranger's text may show or keep it.
SECRET = "sk-ant-act-0123456789abcdef"

WORKFLOW = """\
on:
  pull_request:
    types: [opened, synchronize, reopened, ready_for_review, labeled]
  merge_group:
permissions: {}
jobs:
  gate:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      pull-requests: write
      statuses: write
    steps:
      - uses: actions/checkout@v7
        with:
          fetch-depth: 0
          persist-credentials: false
"""
STEP = """\
      - id: {name}
        if: always()
        uses: skillgate/skillgate@v1
        env:
          ANTHROPIC_API_KEY: ${{{{ secrets.ANTHROPIC_API_KEY }}}}
        with: {inputs}
      - if: always()
        shell: bash
        env:
          OUTPUTS: ${{{{ toJSON(steps.{name}.outputs) }}}}
          REPORT: ${{{{ steps.{name}.outputs.report-path }}}}
        run: |
          printf '%s' "$OUTPUTS" >"$COPY_TO/{name}.json"
          if [ -n "$REPORT" ]; then cp -r "$(dirname "$REPORT")" "$COPY_TO/{name}"; fi
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
lint: {fail-on: warning}
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
BEGUN, DONE = "To be written.", "Write the note that is asked for."


def skill(name: str, text: str = DONE) -> str:
    """Return a SKILL.md in which the linter finds nothing."""
    return SKILL.format(name=name, text=text)


class Job(NamedTuple):
    """What a run of the workflow left: act's log, the outputs that the next step sees, and the files."""

    exit_code: int
    rows: Sequence[dict[str, Any]]
    all_outputs: Mapping[str, dict[str, str]]
    copies: Path

    @property
    def outputs(self) -> dict[str, str]:
        return self.all_outputs["gate"]

    @property
    def report(self) -> dict[str, Any]:
        """Return what the gate left for the steps after it."""
        read: dict[str, Any] = json.loads((self.copies / "gate/report.json").read_bytes())
        return read

    @property
    def was_evaluated(self) -> bool:
        """Say whether any run was started: the journal is there before the first one."""
        return bool(list(self.copies.glob("gate/journal*"))) and self.outputs["cost-usd"] != "0.000000"

    @property
    def log(self) -> str:
        return "\n".join(row["msg"].rstrip() for row in self.rows)

    @property
    def text(self) -> str:
        """Return everything that act said of the job."""
        return json.dumps(list(self.rows), ensure_ascii=False)

    @property
    def result(self) -> str:
        """Return how the job ended, as a required check shows it."""
        (result,) = (row["jobResult"] for row in self.rows if "jobResult" in row)
        return str(result)

    def said(self, command: str, step: str = "gate") -> list[str]:
        """Return the texts of a workflow command that the gate gave, without those of findings."""
        # act repeats the summary of a composite action's step for the step that uses the action.
        rows = [row for row in self.rows if row.get("stepID") == [step, "gate"]]
        rows = [row for row in rows if row.get("kvPairs", {}).get("title", "skillgate") == "skillgate"]
        return [row.get("content") or row["arg"] for row in rows if row.get("command") == command]


class Consumer:
    """A repository that uses the action, and what it takes to run its workflow."""

    def __init__(self, folder: Path, action: Path, api: GithubApi) -> None:
        self.folder, self.action, self.api, self.repo = folder, action, api, folder / "repo"
        self.use({"gate": {"status": "true"}})
        self.write("skillgate.yml", CONFIG)
        self.write("script.yml", SCRIPT)
        self.write("suite/suite.yml", SUITE)
        self.write("suite/repo/README.md", "# Notes\n")
        for number in range(1, 7):
            self.write(f"suite/tasks/note-{number}/task.yml", TASK.format(number=number))
            self.write(f"suite/tasks/note-{number}/solution.patch", PATCH.format(number=number))
        for name in ("helps", "breaks"):
            self.write(f"skills/{name}/SKILL.md", skill(name, BEGUN))
        # The step runs in the pull request's folder: nothing of it may be imported.
        for name in ("msgspec.py", "github.py", "skillgate/__init__.py", "skillgate/__main__.py"):
            self.write(name, 'raise SystemExit("a module of the pull request was imported")\n')
        self.git("init", "--quiet", "--initial-branch=main")
        self.base = self.commit("Begin")

    # --- the repository -------------------------------------------------------------

    def use(self, steps: Mapping[str, Mapping[str, str]]) -> None:
        """Write the workflow: one use of the action for each name, with these inputs."""
        inputs = {name: {"python": sys.executable, **given} for name, given in steps.items()}
        written = "".join(STEP.format(name=name, inputs=json.dumps(given)) for name, given in inputs.items())
        self.write(".github/workflows/skillgate.yml", WORKFLOW + written)

    def write(self, path: str, text: str) -> None:
        target = self.repo / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def change(self, name: str) -> str:
        """Commit a change of one skill; return the commit."""
        self.write(f"skills/{name}/SKILL.md", skill(name))
        return self.commit(f"Write {name}")

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def back(self) -> None:
        """Go back to the base."""
        self.git("reset", "--quiet", "--hard", self.base)

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repo), "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    # --- an event -------------------------------------------------------------------

    def pull(self, head: str, file: str = "pull_request.opened", **changes: Any) -> Job:
        """Run the workflow for a pull request from the base to this commit."""
        usual: dict[str, Any] = {
            "repository__full_name": self.api.repository,
            "pull_request__base__sha": self.base,
            "pull_request__head__sha": head,
            "pull_request__head__repo": {"full_name": self.api.repository},
        }
        return self.run("pull_request", read_payload(file, **usual | changes))

    def queue(self, head: str) -> Job:
        """Run the workflow for a merge group from the base to this commit."""
        changes = {
            "repository__full_name": self.api.repository,
            "merge_group__base_sha": self.base,
            "merge_group__head_sha": head,
        }
        return self.run("merge_group", read_payload("merge_group.checks_requested", **changes))

    def run(self, event: str, payload: Mapping[str, Any]) -> Job:
        path, home, copies = (self.folder / name for name in ("event.json", "home", "outputs"))
        path.write_text(json.dumps(payload), encoding="utf-8")
        shutil.rmtree(copies, ignore_errors=True)
        for folder in (home, copies):
            folder.mkdir(exist_ok=True)
        # act looks for actions on the server that the workflow runs on; a path of its own counts
        prefix = urlsplit(self.api.server_url).path.strip("/")
        folders = {"skillgate/skillgate@v1": self.action} | {
            name: stub_of(self.action, name) for name in NESTED
        }
        mapped = [f"{prefix}/{name}={path}".removeprefix("/") for name, path in folders.items()]
        given = {
            "GITHUB_API_URL": self.api.url,
            "GITHUB_SERVER_URL": self.api.server_url,
            "GITHUB_REPOSITORY": self.api.repository,
            "COPY_TO": str(copies),
        }
        command = [
            *(str(ACT), event, "--json", "-e", str(path)),
            *("-P", "ubuntu-latest=-self-hosted", "--no-cache-server"),
            *("--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1"),
            *(part for one in mapped for part in ("--local-repository", one)),
            *("--action-cache-path", str(self.folder / "cache")),
            *(part for name, value in given.items() for part in ("--env", f"{name}={value}")),
            *("-s", f"GITHUB_TOKEN={self.api.token}", "-s", f"ANTHROPIC_API_KEY={SECRET}"),
        ]
        done = run_act(command, self.repo, home)
        assert "GoGitActionCache" not in done.stdout, "act fetched an action that is not mapped"
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        outputs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in copies.glob("*.json")}
        assert outputs, done.stdout + done.stderr
        return Job(done.returncode, rows, outputs, copies)


def run_act(command: Sequence[str], folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run act in a folder. It looks for settings in HOME, and writes there: the machine's must not matter."""
    proxies = {"HTTPS_PROXY": NOWHERE, "HTTP_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home), **proxies},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def copy_action(folder: Path) -> Path:
    """Copy what the action consists of: it must need nothing else of this repository."""
    for name in ("skillgate", "rules"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "action.yml", folder)
    # act copies the action for every run: compiled once, with no times to compare, it starts faster
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder / "skillgate", quiet=1, invalidation_mode=mode)
    for name, inputs in NESTED.items():
        stub = {
            "name": "stub",
            "description": "Does nothing.",
            "inputs": {given: {"description": given} for given in inputs},
            "runs": {"using": "composite", "steps": [{"run": ":", "shell": "bash"}]},
        }
        stub_of(folder, name).mkdir(parents=True)
        (stub_of(folder, name) / "action.yml").write_text(json.dumps(stub), encoding="utf-8")
    return folder


def stub_of(action: Path, name: str) -> Path:
    """Return where the stub of an action of others lies, beside ours."""
    return action.with_name("stubs") / name.replace("/", "-")


@contextmanager
def consuming(folder: Path, action: Path, **kind: Any) -> Iterator[Consumer]:
    """Give a consumer with its own REST double; every request and answer must have been in order."""
    with GithubApi(**kind) as api:
        yield Consumer(folder, action, api)
    assert api.violations == []


def writes(api: GithubApi) -> list[str]:
    """Return the writing requests since the last call."""
    found = [line for line in api.log if not line.startswith("GET ")]
    api.log.clear()
    return found
