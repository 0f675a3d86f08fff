"""What runs the cells of a gate: the agent and the sandbox that the configuration names.

Every prerequisite is checked here, before anything is spent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from skillgate.bench.agents.agent import NO_PROGRAMS, Agent
from skillgate.bench.host.reaper import reap_folders
from skillgate.bench.sandbox import Sandbox, local_sandbox
from skillgate.bench.suite import Suite
from skillgate.bench.workspace import skills_of
from skillgate.config import Config, RunConfig
from skillgate.core import Plan
from skillgate.errors import PrerequisiteError
from skillgate.gate.agents import Hired, Machine, hire
from skillgate.gate.sources import Source


class Means(NamedTuple):
    """Built once per gate, and closed with it."""

    hired: Hired
    sandbox: Sandbox

    @property
    def agent(self) -> Agent:
        """Return the agent."""
        return self.hired.agent

    @property
    def script(self) -> str:
        """Return the digest of the script that the agent plays, empty when it plays none."""
        return self.hired.script_digest

    def close(self) -> None:
        """End the meter."""
        self.hired.close()

    def require(self, plan: Plan, suites: Sequence[Suite]) -> None:
        """Check that a plan can run. Raises: SuiteError, PrerequisiteError."""
        self.agent.require(plan.arms, task_ids(suites))
        for suite in suites:
            self.sandbox.require(suite)


def removed_skills(suites: Sequence[Suite], sandbox: Sandbox) -> dict[str, str]:
    """Return the skills that come with a suite's repository or image: no arm gets them."""
    found = {suite.name: (*skills_of(suite.repo), *sandbox.baked(suite)) for suite in suites}
    return {f"kept from all arms, {name}": ", ".join(skills) for name, skills in found.items() if skills}


def task_ids(suites: Sequence[Suite]) -> tuple[str, ...]:
    """Return the ids of all tasks, those within chains too."""
    return tuple(task.id for suite in suites for task in suite.tasks)


def build_means(
    config: Config, source: Source, python_bin: Path, machine: Machine, *, allow_unsafe_local: bool
) -> Means:
    """Build the agent and the sandbox.

    Raises: as `hire`; PrerequisiteError without Docker or when the sandbox does not isolate enough.
    """
    hired = hire(config, source, machine)
    try:
        sandbox = make_sandbox(config.run, python_bin, hired.agent.programs)
        refuse_unsafe(hired.agent, sandbox, allow_unsafe_local=allow_unsafe_local)
    except BaseException:
        hired.close()
        raise
    return Means(hired, sandbox)


def make_sandbox(run: RunConfig, python_bin: Path, programs: Mapping[str, Path] = NO_PROGRAMS) -> Sandbox:
    """Build the sandbox `docker` or `local`, which has all of this machine's network.

    Args: programs: folders that the agent needs in it.

    Raises: PrerequisiteError without Docker, ConfigError for a wrong `network`.
    """
    reap_folders(Path(tempfile.gettempdir()))
    if run.sandbox == "local":
        return local_sandbox(python_bin)
    from skillgate.bench.docker import docker_sandbox

    return docker_sandbox(run.image, run.network, programs)


def refuse_unsafe(agent: Agent, sandbox: Sandbox, *, allow_unsafe_local: bool) -> None:
    """Keep an agent that runs a model's commands out of a sandbox that isolates nothing."""
    if agent.runs_model_commands and not sandbox.isolates and not allow_unsafe_local:
        hint = "Use --sandbox docker, or --allow-unsafe-local if you accept that."
        raise PrerequisiteError(f"the {sandbox.name} sandbox isolates nothing from what a model runs", hint)
