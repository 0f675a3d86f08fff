"""An agent that does the worst it can, and what is left of it afterwards.

`Arena.play` runs it as `runner` would: a session for the agent, another for the graders. Everything that it
starts or writes carries `MARK`, so that leftovers are found anywhere on the host.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import docker
import pytest

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.attempt import Ended, Evaluation, Fairness, attempt
from skillgate.bench.failure import Failure
from skillgate.bench.host.owner import LABEL, OWNER_LABEL, owner
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.sandbox import CommandResult, Limit, Sandbox
from skillgate.bench.suite import load_suite
from skillgate.core import Cell, Inject
from skillgate.skill import Skill
from skillgate.values import Usage

MARK = f"attack-{uuid.uuid4().hex[:12]}"
LONGEST_S = 15.0  # a command of a test that names no other limit
_FAILURES = {
    Limit.CLOCK: Failure.AGENT_CLOCK,
    Limit.MEMORY: Failure.AGENT_MEMORY,
    Limit.DISK: Failure.AGENT_DISK,
}
Before = Callable[[AgentJob], object]


class Attacker:
    """Runs shell commands, one list per attempt, and keeps what came of them; a limit ends it."""

    name, version, runs_model_commands = "attacker", "1", True

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def __init__(self, *attempts: list[str], timeout_s: float = LONGEST_S) -> None:
        self._attempts = list(attempts)
        self._timeout_s = timeout_s
        self.results = list[CommandResult]()
        self.prompts = list[str]()

    @property
    def output(self) -> str:
        """Return what all commands said."""
        return "".join(result.output for result in self.results)

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Need nothing."""

    def run(self, job: AgentJob) -> AgentResult:
        """Run the commands of this attempt in their order."""
        self.prompts.append(job.prompt)
        for command in self._attempts[job.attempt - 1]:
            result = job.session.run(command.replace("MARK", MARK), self._timeout_s)
            self.results.append(result)
            if result.limit is not None:
                return AgentResult(usage=Usage(turns=1), failure=_FAILURES[result.limit])
        return AgentResult(usage=Usage(turns=1))


class Arena(NamedTuple):
    """A suite's folder, a sandbox, and the folder of the host where runs live."""

    folder: Path
    sandbox: Sandbox
    runs: Path

    def play(self, agent: Attacker, skill: Skill | None = None) -> Ended:
        """Execute the one cell of the suite."""
        suite = load_suite(self.folder)
        (unit,) = suite.units
        plan = make_plan(
            Wanted(
                [unit], ["none", "head"], repeats=1, seed=1, agent=agent.name, model="m",
                cap_usd_micros=1_000_000, per_run_usd_micros=1_000, inject=Inject.SKILL,
            )
        )  # fmt: skip
        skills = {"none": None, "head": skill}
        evaluation = Evaluation(
            "e", "s", plan, {unit: (suite, suite.units[unit])}, skills, agent, self.sandbox
        )
        return attempt(
            Cell(task=unit, arm="none" if skill is None else "head", repeat=0), evaluation, Fairness()
        )

    def attack(self, *commands: str, timeout_s: float = LONGEST_S) -> tuple[Ended, Attacker]:
        """Let an agent run some commands, in one attempt."""
        agent = Attacker(list(commands), timeout_s=timeout_s)
        return self.play(agent), agent


@contextmanager
def arena(folder: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """Give an arena, and see that it is as clean when it is left as when it was entered."""
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(runs))
    monkeypatch.setenv("A_SECRET", f"canary {MARK}")
    yield Arena(folder, sandbox, runs)
    assert list(runs.iterdir()) == []
    assert containers() == []
    assert processes() == []
    assert [path for path in _places() if path.exists()] == []


def containers() -> list[str]:
    """Return the containers of this process."""
    with closing(docker.from_env()) as client:
        wanted = {"label": [f"{LABEL}=1", f"{OWNER_LABEL}={owner()}"]}
        return [found["Id"] for found in client.api.containers(all=True, filters=wanted)]


def processes() -> list[int]:
    """Return the processes with the mark; whoever is ending gets a moment."""
    for _ in range(50):
        if not (found := [pid for pid, line in _commands() if MARK.encode() in line]):
            return []
        time.sleep(0.02)
    return found


def _commands() -> Iterator[tuple[int, bytes]]:
    for process in Path("/proc").glob("[1-9]*"):
        try:
            yield int(process.name), (process / "cmdline").read_bytes()
        except OSError:
            continue


def _places() -> Iterator[Path]:
    for folder in ("/", "/tmp", "/dev/shm", "/dev/mqueue", "/home", "/workspace", "/etc", "/usr", "/var/tmp"):
        yield Path(folder, MARK)
