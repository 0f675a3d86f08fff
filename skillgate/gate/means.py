"""What runs the cells of a gate: the agent and the sandbox that the configuration names.

Every prerequisite is checked here, before anything is spent.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skillgate.bench.agents.scripted import Agent, ScriptedAgent, load_script
from skillgate.bench.host.reaper import reap_folders
from skillgate.bench.sandbox import Sandbox, local_sandbox
from skillgate.bench.suite import Suite
from skillgate.bench.workspace import skills_of
from skillgate.config import RunConfig
from skillgate.core import SCRIPTED_AGENT, Plan
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.gate.sources import Source, decode_text


class Means(NamedTuple):
    """Built once per gate; `script_digest` tells agents apart that differ in their script only."""

    agent: Agent
    sandbox: Sandbox
    script_digest: str = ""

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


def build_means(run: RunConfig, source: Source, python_bin: Path, *, allow_unsafe_local: bool) -> Means:
    """Build the agent and the sandbox.

    Raises: as `build_agent`; PrerequisiteError without Docker or when the sandbox does not isolate enough.
    """
    agent, digest = build_agent(run, source)
    sandbox = make_sandbox(run, python_bin)
    refuse_unsafe(agent, sandbox, allow_unsafe_local=allow_unsafe_local)
    return Means(agent, sandbox, digest)


def build_agent(run: RunConfig, source: Source) -> tuple[Agent, str]:
    """Build the agent; return it and the digest of its script.

    Raises: UsageError for an agent or a setting that this version does not have, SuiteError for a
    broken script.
    """
    _refuse_unknown(run)
    content = source.read(run.script) if run.script else None
    if content is None:
        problem = f"{run.script}: no such file" if run.script else "the scripted agent has no script"
        raise UsageError(problem, "Name a YAML file with `run.script` in skillgate.yml, or with --script.")
    path = str(run.script)
    return ScriptedAgent(load_script(decode_text(content, path), path), path), hashlib.sha256(
        content
    ).hexdigest()


def make_sandbox(run: RunConfig, python_bin: Path) -> Sandbox:
    """Build the sandbox `docker` or `local`, which has all of this machine's network.

    Raises: PrerequisiteError without Docker, ConfigError for a wrong `network`.
    """
    reap_folders(Path(tempfile.gettempdir()))
    if run.sandbox == "local":
        return local_sandbox(python_bin)
    from skillgate.bench.docker import docker_sandbox

    return docker_sandbox(run.image, run.network)


def refuse_unsafe(agent: Agent, sandbox: Sandbox, *, allow_unsafe_local: bool) -> None:
    """Keep an agent that runs a model's commands out of a sandbox that isolates nothing."""
    if agent.runs_model_commands and not sandbox.isolates and not allow_unsafe_local:
        hint = "Use --sandbox docker, or --allow-unsafe-local if you accept that."
        raise PrerequisiteError(f"the {sandbox.name} sandbox isolates nothing from what a model runs", hint)


def _refuse_unknown(run: RunConfig) -> None:
    if run.agent != SCRIPTED_AGENT:
        raise UsageError(f"unknown agent `{run.agent}`", f"This version has: {SCRIPTED_AGENT}.")
    if len(run.models) > 1:
        raise UsageError("`run.models` names more than one", "Name one: this version compares one at a time.")
