"""Jobs for agents whose loop runs here: a small repository, a sandbox, a meter, a scripted model API."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillgate.bench.agents.agent import SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.agents.api.agent import ApiAgent, ApiSettings
from skillgate.bench.meter.proxy import CLOCKS, Clocks, Meter, Provider
from skillgate.bench.sandbox import CommandResult, Phase, Sandbox, Session, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Cell, Inject
from skillgate.skill import Files, Skill, parse
from tests.fakes.metering import HAIKU, KEY, PRICES
from tests.fakes.model_api import ModelApi, Script
from tests.fakes.wires import Turn

LOCAL = local_sandbox(Path(sys.executable).parent)
BODY = "# Adding\n\nAdd with great care.\nName the argument after what it is.\nNever add nothing.\n"
ADDER = parse(
    Files.from_map({"SKILL.md": f"---\nname: adder\ndescription: How we\n  add.\n---\n{BODY}".encode()}),
    "skills/adder",
)
QUICK = (0.0, 0.0)


class Told:
    """A session that answers some commands itself and keeps all."""

    refused: tuple[str, ...] = ()

    def __init__(self, session: Session, answer: Callable[[str], CommandResult | None]) -> None:
        self._session, self._answer = session, answer
        self.commands: list[str] = []

    def run(self, command: str, timeout_s: float) -> CommandResult:
        self.commands.append(command)
        return self._answer(command) or self._session.run(command, timeout_s)


@dataclass
class Played:
    """What an agent did with a job."""

    result: AgentResult
    api: ModelApi
    root: Path
    trace: str
    agent: ApiAgent
    commands: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.trace.splitlines()]

    def asked(self, number: int) -> Any:
        return self.api.calls[number].json

    def told(self, number: int) -> list[Any]:
        """Return what a call told the model last."""
        return list(self.asked(number)["messages"][-1]["content"])


@contextmanager
def played(
    folder: Path,
    script: str | Script,
    settings: ApiSettings | None = None,
    *,
    skill: Skill | None = None,
    budget: int = 1_000_000,
    model: str = HAIKU,
    sandbox: Sandbox = LOCAL,
    before: Callable[[Path], None] = lambda root: None,
    answer: Callable[[str], CommandResult | None] = lambda command: None,
    clocks: Clocks = CLOCKS,
    price: str = HAIKU,
    inject: Inject = Inject.SKILL,
) -> Iterator[Played]:
    """Let the agent do the task of the tiny suite; the workspace is there while the `with` lasts."""
    suite, trace = load_suite(folder), folder.parent / "trace.jsonl"
    chosen = settings or ApiSettings(pauses_s=QUICK)
    with ModelApi(script) as api, Workspace.create(suite) as place:
        if skill is not None and inject is Inject.SKILL:
            place.install_skill(skill.folder_name, skill.files, SKILL_FOLDERS)
        before(place.workspace)
        task = suite.tasks[0]
        provider = Provider(chosen.kind, api.url, KEY)
        with (
            closing(
                Meter(provider, lambda name: PRICES.price(price if name == model else name), clocks)
            ) as meter,
            sandbox.session(place, Phase.AGENT, task.limits) as session,
        ):
            agent, told = ApiAgent(meter, model, chosen), Told(session, answer)
            job = AgentJob(
                cell=Cell(task=task.id, arm="none" if skill is None else "head", repeat=0),
                task=task,
                prompt=task.prompt,
                workspace=place,
                session=told,
                skill=skill,
                seed=1,
                budget_usd_micros=budget,
                trace=trace,
                inject=inject,
            )
            result = agent.run(job)
            yield Played(result, api, place.workspace, trace.read_text(), agent, told.commands)


def bash(command: str) -> str:
    """Return a turn that runs a command."""
    return _turn("bash", {"command": command})


def edit(command: str, **members: Any) -> str:
    """Return a turn that uses the editor."""
    return _turn("str_replace_based_edit_tool", {"command": command, **members})


def _turn(name: str, asked: dict[str, Any]) -> str:
    turn = {
        "text": "",
        "stop": "tool",
        "tool": {"name": name, "input": asked},
        "used": {"input": 100, "output": 40},
    }
    return json.dumps(turn)


def turns(*given: str) -> str:
    """Return a script."""
    return f"turns: [{', '.join(given)}]"


def texts(*said: str) -> Script:
    """Return a script of plain answers."""
    return Script(turns=tuple(Turn(text=text) for text in said))
