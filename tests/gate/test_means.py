from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.sandbox import local_sandbox
from skillgate.errors import ExitCode, PrerequisiteError
from skillgate.gate.means import refuse_unsafe
from skillgate.values import Usage


class Modelled:
    """An agent that runs commands of a model's choice."""

    name, version, runs_model_commands = "modelled", "1", True

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Need nothing."""

    def run(self, job: AgentJob) -> AgentResult:
        return AgentResult(usage=Usage())


class Isolating:
    """Stands for a sandbox that isolates."""

    name, isolates = "docker", True


def test_an_agent_that_runs_a_models_commands_needs_a_sandbox_that_isolates() -> None:
    local = local_sandbox(Path(sys.executable).parent)
    with pytest.raises(PrerequisiteError) as caught:
        refuse_unsafe(Modelled(), local, allow_unsafe_local=False)
    assert caught.value.exit_code is ExitCode.PREREQUISITE
    assert caught.value.message == "the local sandbox isolates nothing from what a model runs"
    assert "--allow-unsafe-local" in caught.value.hint
    refuse_unsafe(Modelled(), local, allow_unsafe_local=True)
    refuse_unsafe(Modelled(), Isolating(), allow_unsafe_local=False)  # type: ignore[arg-type]  # two members do
