"""Drives an agent on this machine, behind a real meter, against a scripted model API: one task, one run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

from msgspec.structs import replace

from skillgate.bench.agents.agent import Agent, AgentJob, AgentResult
from skillgate.bench.agents.cli_agent import CliAgent, Installed
from skillgate.bench.agents.install import installed
from skillgate.bench.agents.program import Program
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.proxy import Meter, MeterDoor, Provider
from skillgate.bench.sandbox import NO_NAMES, CommandResult, Phase, Serve, Session, Sink, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.config import RunConfig
from skillgate.core import Cell
from skillgate.skill import Files, parse
from tests.fakes.metering import HAIKU, KEY, PRICES
from tests.fakes.model_api import ModelApi, Seen
from tests.fakes.silence import Silence

MADE = "made.txt"
SAID = "How to greet people."
BODY = "Say hello loudly."
GREET = parse(
    Files.from_map({"SKILL.md": f"---\nname: greet\ndescription: {SAID}\n---\n{BODY}\n".encode()}),
    "skills/greet",
)
MODELS = {"anthropic": HAIKU, "openai": "gpt-test", "gemini": "gemini-test"}
SECONDS = 180.0
Hire = Callable[[Meter, RunConfig], Agent]


class Driven(NamedTuple):
    """How it ended, and what the meter and the model API know of it; `calls` are requests that cost."""

    result: AgentResult
    account: Account
    calls: Sequence[Seen]
    seen: Sequence[Seen]
    trace: str
    made: bool
    wall_s: float
    root: Path

    @property
    def settled(self) -> int:
        """Return what is paid for calls that came to an end, in micro-dollars."""
        return self.account.ledger.spent_usd_micros

    @property
    def held(self) -> int:
        """Return what is paid for calls that were cut."""
        return self.account.ledger.held_usd_micros

    def asked(self, number: int) -> str:
        """Return the body of a call, the same in whatever folder it ran."""
        return json.dumps(self.calls[number].json, sort_keys=True).replace(str(self.root), "/run")


def program(one: Program, cache: Path) -> Hire:
    """Return what makes the agent of a program in the cache."""
    folder = installed(one.name, cache)
    assert folder is not None, f"the cache lacks the pinned {one.name}"
    return lambda meter, run: CliAgent(Installed(one, folder, "test"), meter, run)


def drive(
    hire: Hire,
    kind: str,
    suite: Path,
    turns: Sequence[Mapping[str, Any]],
    *,
    usd_micros: int = 5_000_000,
    max_turns: int = 10,
    skill: bool = False,
    prompt: str = f"Write {MADE}.",
    kill: bool = False,
    model: str = "",
    prefix: Sequence[str] = (),
) -> Driven:
    """Let an agent work in the repository of a suite. It asks nobody but the meter, or this fails.

    Args: kind: of the provider. kill: end the program when the model API hangs. prefix: what runs it.
    """
    run = RunConfig(models=(model or MODELS[kind],), max_turns=max_turns)
    with (
        ModelApi(json.dumps({"turns": list(turns)})) as api,
        closing(_Meter(Provider(kind, api.url, KEY), PRICES.price)) as meter,
        Workspace.create(load_suite(suite)) as place,
        Silence() as silence,
    ):
        agent = hire(meter, run)
        if skill:
            place.install_skill(GREET.folder_name, GREET.files, agent.skill_folders)
        sandbox = local_sandbox(Path(sys.executable).parent)
        started = time.monotonic()
        with (
            sandbox.session(place, Phase.AGENT, place.suite.tasks[0].limits) as session,
            _killing(api, place.root) if kill else nullcontext(),
        ):
            shown = _Session(session, place.root, silence.env, prefix)
            job = _job(place, shown, prompt, usd_micros)
            result = agent.run(job._replace(skill=GREET if skill else None))
        wall_s = time.monotonic() - started
        assert silence.heard == []
        return Driven(
            result=result,
            account=meter.account,
            calls=tuple(api.calls),
            seen=tuple(api.seen),
            trace=(place.root / "trace").read_text(encoding="utf-8", errors="replace"),
            made=(place.workspace / MADE).exists(),
            wall_s=wall_s,
            root=place.root,
        )


def _job(place: Workspace, session: Session, prompt: str, usd_micros: int) -> AgentJob:
    task = place.suite.tasks[0]
    return AgentJob(
        cell=Cell(task=task.id, arm="head", repeat=0),
        task=replace(task, limits=replace(task.limits, timeout_s=SECONDS)),
        prompt=prompt,
        workspace=place,
        session=session,
        skill=None,
        seed=1,
        budget_usd_micros=usd_micros,
        trace=place.root / "trace",
    )


class _Meter(Meter):
    """A meter that shows the account of its last run."""

    account: Account

    def serve(self, listener: socket, account: Account) -> MeterDoor:
        self.account = account
        return super().serve(listener, account)


class _Session:
    """A session that gives its commands some variables, runs them with a prefix and knows their process."""

    refused: tuple[str, ...] = ()

    def __init__(self, session: Session, root: Path, env: Mapping[str, str], prefix: Sequence[str]) -> None:
        self._session = session
        self._root = root
        self._env = env
        self._prefix = prefix
        self.listen: Callable[[Serve], int] = session.listen
        self.where: Callable[[Path], str] = session.where

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        if self._prefix:
            command = shlex.join([*self._prefix, "/bin/sh", "-c", command])
        command = f"echo $$ > {self._root}/pid; {command}"
        return self._session.run(command, timeout_s, {**env, **self._env}, sink)


@contextmanager
def _killing(api: ModelApi, root: Path) -> Iterator[None]:
    """Kill what a session runs as soon as the model API hangs."""

    def kill() -> None:
        if api.hangs.wait(SECONDS):
            os.killpg(int((root / "pid").read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()
