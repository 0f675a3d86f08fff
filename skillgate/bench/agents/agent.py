"""What drives a model in the sandbox: the protocol, what it gets to do, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import Session
from skillgate.bench.suite import Task
from skillgate.bench.workspace import Workspace
from skillgate.core import Cell, Inject
from skillgate.skill import Skill
from skillgate.values import Struct, Usage

SKILL_FOLDERS = (".claude/skills", ".agents/skills")
NO_PROGRAMS: Mapping[str, Path] = MappingProxyType({})


class AgentJob(NamedTuple):
    """What an agent gets to do: one task of a cell, in a workspace where the skill is installed already.

    `trace` is the file for what it said, None when nobody wants it; `inject` says where the skill is;
    `used` is what earlier tasks and attempts of the cell have used.
    """

    cell: Cell
    task: Task
    prompt: str
    workspace: Workspace
    session: Session
    skill: Skill | None
    seed: int
    budget_usd_micros: int
    attempt: int = 1
    trace: Path | None = None
    inject: Inject = Inject.SKILL
    used: Usage = Usage()


class AgentResult(Struct, kw_only=True):
    """How the agent ended. `failure` None means it finished by itself.

    `models` are those that answered, `reported_usd_micros` what its own books say that it cost.
    """

    usage: Usage
    failure: Failure | None = None
    detail: str = ""
    skill_used: bool | None = None
    models: tuple[str, ...] = ()
    reported_usd_micros: int | None = None


class Agent(Protocol):
    """What drives the model in the sandbox."""

    @property
    def name(self) -> str:
        """Return what `run.agent` calls it."""

    @property
    def version(self) -> str:
        """Return which one it is, for the report."""

    @property
    def runs_model_commands(self) -> bool:
        """Say whether it runs what a model asks for."""

    @property
    def programs(self) -> Mapping[str, Path]:
        """Map names to folders of this machine that its sandbox has to have, read-only."""

    @property
    def skill_folders(self) -> tuple[str, ...]:
        """Return the folders of a repository in which it looks for skills."""

    @property
    def memory_mb(self) -> int:
        """Return what it needs of memory in its sandbox, beside what the task gives to commands."""

    @property
    def open_usd_micros(self) -> int:
        """Return what the runs in flight have cost so far."""

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Check that a plan can run. Raises: SkillgateError."""

    def run(self, job: AgentJob) -> AgentResult:
        """Do the task; never raise but SandboxFailure."""
