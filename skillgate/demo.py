"""`skillgate demo`: a small git repository, a range that changes skills, the real gate.

The agent is scripted, so the demo shows the machinery and measures no skill. Everything else
is real: git, the linter, the sandbox, the graders, the journal, the statistics, the report.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skillgate.bench.journal import FILE_NAME as JOURNAL_NAME
from skillgate.bench.runner import Progress
from skillgate.config import FILE_NAME
from skillgate.core import GateReport
from skillgate.errors import UsageError, writing
from skillgate.gate.pipeline import Options, gate_range
from skillgate.git import clean_environment
from skillgate.shipped import shipped

MARKER = ".skillgate-demo"


class Scenario(NamedTuple):
    """A skill of fixtures/skills and the suite that judges it."""

    skill: str
    suite: str
    shows: str


SCENARIOS = {
    "helps": Scenario("careful-changes", "textkit", "a skill that helps"),
    "harms": Scenario("workflow-templates", "ci-workflows", "a skill whose template displaces deliverables"),
    "inert": Scenario("quality-mindset", "textkit", "a skill that changes nothing but the cost"),
}
_CONFIG = """\
version: 1
suites:
{suites}
run:
  agent: scripted
  script: script.yml
  sandbox: local
  repeats: 5
  budget-usd: {budget}
  per-run-usd: 0.50
"""
_STUB = """\
---
name: {name}
description: {description}
---

# {title}

To be written.
"""


def play(names: Sequence[str], out: Path, python_bin: Path, progress: Progress) -> GateReport:
    """Build the repository and gate its range; leave everything in `out`."""
    make_room(out)
    scenarios = [SCENARIOS[name] for name in names]
    for scenario in scenarios:
        progress.note(f"{scenario.skill}: {scenario.shows} (scripted, not a measurement)")
    repository = _build(out / "repo", scenarios)
    return gate_range(repository, "HEAD~1", "HEAD", Options(out=out, python_bin=python_bin), progress)


def make_room(out: Path) -> None:
    """Empty the folder of an earlier demo, and no other."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not (out / MARKER).is_file():
            hint = "Name another folder with --out."
            raise UsageError(f"{out}: not empty, and not left by an earlier demo", hint)
        shutil.rmtree(out / "repo", ignore_errors=True)
        (out / JOURNAL_NAME).unlink(missing_ok=True)
        (out / MARKER).touch()


def _build(repository: Path, scenarios: Sequence[Scenario]) -> Path:
    """Commit stubs of the skills, then the skills."""
    repository.mkdir()
    suites = "\n".join(f'  "skills/{s.skill}": ["builtin:{s.suite}"]' for s in scenarios)
    (repository / FILE_NAME).write_text(
        _CONFIG.format(suites=suites, budget=7 * len(scenarios)), encoding="utf-8"
    )
    shutil.copy(shipped("fixtures") / "demo" / "script.yml", repository / "script.yml")
    for scenario in scenarios:
        _write_stub(repository / "skills" / scenario.skill)
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _commit(repository, "Sketch the skills")
    for scenario in scenarios:
        source = shipped("fixtures") / "skills" / scenario.skill
        shutil.copytree(source, repository / "skills" / scenario.skill, dirs_exist_ok=True)
    _commit(repository, "Write the skills")
    return repository


def _write_stub(folder: Path) -> None:
    folder.mkdir(parents=True)
    title = folder.name.replace("-", " ").capitalize()
    description = f"{title}. Use when working in this repository."
    stub = _STUB.format(name=folder.name, description=description, title=title)
    (folder / "SKILL.md").write_text(stub, encoding="utf-8")


def _commit(repository: Path, message: str) -> None:
    _git(repository, "add", "--all")
    identity = ("-c", "user.name=skillgate demo", "-c", "user.email=demo@skillgate.invalid")
    _git(
        repository, *identity, "-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-m", message
    )


def _git(repository: Path, *arguments: str) -> None:
    command = ["git", "-C", str(repository), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=clean_environment())
