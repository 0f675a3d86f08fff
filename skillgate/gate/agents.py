"""`run.agent` -> the agent: ours, or a program of others behind the meter.

Whether it can work is checked here, before anything is spent: program, price, key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from skillgate.bench.agents.agent import Agent
from skillgate.bench.agents.api.agent import ApiAgent, ApiSettings
from skillgate.bench.agents.cli_agent import CliAgent, Installed
from skillgate.bench.agents.install import install, pinned, verify
from skillgate.bench.agents.program import Program
from skillgate.bench.agents.scripted import ScriptedAgent, load_script
from skillgate.bench.meter.proxy import Meter, Provider
from skillgate.config import Config, RunConfig
from skillgate.core import API_AGENT, SCRIPTED_AGENT
from skillgate.document import nearest
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.gate.sources import Source, decode_text
from skillgate.prices import Prices, shipped_prices
from skillgate.values import Secret

OURS = {
    SCRIPTED_AGENT: "plays the YAML file of run.script: shows the machinery, measures no skill",
    API_AGENT: "our own loop over a model API, with bash and an editor in the sandbox",
}
KEY_NAMES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
_PUBLIC = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
_NO_KEYS: Mapping[str, Secret] = MappingProxyType({})


class Machine(NamedTuple):
    """What this machine lends to agents: the folder of their programs, and keys by kind of provider.

    With `installs` a program that is missing there is fetched.
    """

    cache: Path | None = None
    keys: Mapping[str, Secret] = _NO_KEYS
    installs: bool = False


class Hired(NamedTuple):
    """An agent, the meter that it works behind, and the digest of the script that it plays.

    The digest tells agents apart that differ in their script only.
    """

    agent: Agent
    meter: Meter | None = None
    script_digest: str = ""

    def close(self) -> None:
        """End the meter."""
        if self.meter is not None:
            self.meter.close()


def programs() -> dict[str, Program]:
    """Return the programs of others by the name of the agent."""
    from skillgate.bench.agents.claude_code import ClaudeCode
    from skillgate.bench.agents.codex import Codex
    from skillgate.bench.agents.gemini import Gemini
    from skillgate.bench.agents.opencode import OpenCode

    found: tuple[Program, ...] = (ClaudeCode(), Codex(), Gemini(), OpenCode())
    return {program.name: program for program in found}


def key_name(agent: str) -> str:
    """Return the variable with the key that an agent's provider wants."""
    return KEY_NAMES[programs()[agent].provider]


def hire(config: Config, source: Source, machine: Machine) -> Hired:
    """Build the agent, and its meter.

    Raises: UsageError, SuiteError, PrerequisiteError.
    """
    check_agent(config)
    if config.run.agent == SCRIPTED_AGENT:
        return _scripted(config.run, source)
    run = config.run
    kind = provider_kind(run)
    provider = provider_of(run, kind, machine.keys)
    prices = price_table(config)
    if run.agent == API_AGENT:
        settings = _settings(run, kind)
        meter = Meter(provider, prices.price)
        return Hired(ApiAgent(meter, run.model, settings), meter)
    installed = _installed(run, machine)
    meter = Meter(provider, prices.price)
    return Hired(CliAgent(installed, meter, run), meter)


def check_agent(config: Config) -> None:
    """Check what can be told without a key or a program. Raises: UsageError, PrerequisiteError."""
    run = config.run
    known = (*OURS, *programs())
    if run.agent not in known:
        raise UsageError(f"unknown agent `{run.agent}`", nearest(str(run.agent), known))
    if len(run.models) > 1:
        raise UsageError("`run.models` names more than one", "Name one: this version compares one at a time.")
    if run.agent == SCRIPTED_AGENT:
        return
    if not run.models:
        raise UsageError("`run.models` names no model", "Name the one to use, there or with --model.")
    if run.agent != API_AGENT and run.provider.kind not in (None, programs()[str(run.agent)].provider):
        raise UsageError(f"`run.provider.kind` does not fit the agent `{run.agent}`", "Leave it out.")
    price_table(config).require(run.model)


def price_table(config: Config) -> Prices:
    """Return what models cost: our table, and over it that of the configuration."""
    return shipped_prices().overridden(config.prices)


def provider_kind(run: RunConfig) -> str:
    """Return the kind of the provider that the agent talks to."""
    if run.agent == API_AGENT:
        return str(run.provider.kind or "anthropic")
    return programs()[str(run.agent)].provider


def provider_of(run: RunConfig, kind: str, keys: Mapping[str, Secret]) -> Provider:
    """Return who is asked, with which key. Raises: PrerequisiteError without a key, ConfigError."""
    key = keys.get(kind)
    if key is None and run.provider.base_url is None:
        hint = f"Set {KEY_NAMES[kind]} in the environment, or run.provider.base-url to a server without keys."
        raise PrerequisiteError(f"the agent `{run.agent}` needs a key for {_PUBLIC[kind]}", hint)
    provider = Provider(kind, run.provider.base_url or _PUBLIC[kind], key.reveal() if key else "")
    provider.check()
    return provider


def _settings(run: RunConfig, kind: str) -> ApiSettings:
    """Return how our own agent works."""
    return ApiSettings(
        kind=kind,
        protocol=run.provider.protocol,
        max_turns=run.max_turns,
        max_requests=run.per_run_requests,
        max_tokens=run.per_run_tokens,
        max_output=run.provider.max_output,
        shown_tokens=run.provider.shown_tokens,
        temperature=run.provider.temperature,
    )


def _installed(run: RunConfig, machine: Machine) -> Installed:
    name = str(run.agent)
    if machine.cache is None:
        raise PrerequisiteError("this user has no home folder for agent programs", "Set XDG_CACHE_HOME.")
    folder = (install if machine.installs else verify)(name, machine.cache)
    return Installed(programs()[name], folder, pinned(name).version)


def _scripted(run: RunConfig, source: Source) -> Hired:
    content = source.read(run.script) if run.script else None
    if content is None:
        problem = f"{run.script}: no such file" if run.script else "the scripted agent has no script"
        raise UsageError(problem, "Name a YAML file with `run.script` in skillgate.yml, or with --script.")
    path = str(run.script)
    agent = ScriptedAgent(load_script(decode_text(content, path), path), path)
    return Hired(agent, script_digest=hashlib.sha256(content).hexdigest())
