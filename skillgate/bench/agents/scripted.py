"""The scripted agent: plays a YAML script instead of asking a model.

It shows the machinery and measures no skill; everything that comes from it is labelled so.
Per task and arm the script gives weighted moves and a token usage; both are drawn from the
seed of the cell, so the same plan gives the same runs.
"""

from __future__ import annotations

import math
import random
import shutil
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.failure import Failure
from skillgate.core import ARMS, SCRIPTED_AGENT
from skillgate.document import decode, nearest
from skillgate.errors import SuiteError
from skillgate.skill import Skill
from skillgate.tokens import weigh
from skillgate.values import MICROS_PER_USD, Count, Positive, Struct, Usage


class Move(StrEnum):
    """What a scripted run does to the workspace."""

    ORACLE = "oracle"
    TEMPLATE = "template"
    NOTHING = "nothing"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUTAGE = "outage"


class Draw(Struct, kw_only=True):
    """A log-normal number of tokens: its median and the deviation of its logarithm."""

    median: Positive
    spread: Annotated[float, msgspec.Meta(ge=0)] = 0.15


class ArmScript(Struct, kw_only=True):
    """How an arm plays: weights of its moves, tokens without the skill, turns."""

    moves: Annotated[dict[Move, Positive], msgspec.Meta(min_length=1)]
    input: Draw
    output: Draw
    turns: Count = 5


class Price(Struct, kw_only=True):
    """Invented dollars per million tokens."""

    input: Annotated[float, msgspec.Meta(ge=0)]
    output: Annotated[float, msgspec.Meta(ge=0)]


class Script(Struct, kw_only=True):
    """A whole script; `skills` (by folder name) overrides `arms`, `tasks` overrides both."""

    version: int = 1
    price: Price
    arms: dict[str, ArmScript]
    skills: dict[str, dict[str, ArmScript]] = {}
    tasks: dict[str, dict[str, ArmScript]] = {}


def load_script(text: str, path: str) -> Script:
    """Read a script. Raises: SuiteError with path:line."""
    return decode(text, Script, path, SuiteError)


class ScriptedAgent:
    """Plays a script; deterministic for a seed."""

    name = SCRIPTED_AGENT
    version = "1"
    runs_model_commands = False
    programs = NO_PROGRAMS
    skill_folders = SKILL_FOLDERS
    memory_mb = 0
    open_usd_micros = 0

    def __init__(self, script: Script, path: str) -> None:
        self._script = script
        self._path = path

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Check the script against a plan before anything starts. Raises: SuiteError."""
        tables = (self._script.arms, *self._script.skills.values(), *self._script.tasks.values())
        for arm in (arm for table in tables for arm in table):
            if arm not in ARMS and not arm.startswith("without:"):
                raise SuiteError(f"{self._path}: no arm `{arm}`", nearest(arm, ARMS))
        suites = {task.partition("/")[0] for task in tasks}
        for task in self._script.tasks:
            if task.partition("/")[0] in suites and task not in tasks:
                raise SuiteError(f"{self._path}: no task `{task}` in this plan", nearest(task, tasks))
        for arm in arms:
            for task in tasks:
                self._part(task, arm, None)

    def run(self, job: AgentJob) -> AgentResult:
        """Play one cell."""
        cell = job.cell
        part = self._part(job.task.id, cell.arm, job.skill)
        again = f"/{job.attempt}" if job.attempt > 1 else ""
        rng = random.Random(f"{job.seed}/{job.task.id}/{cell.arm}/{cell.repeat}{again}")  # noqa: S311 - a simulation
        move = rng.choices(list(part.moves), weights=list(part.moves.values()))[0]
        usage = self._usage(part, job.skill, rng)
        used = True if job.skill is not None else None
        if usage.usd_micros > job.budget_usd_micros:
            usage = msgspec.structs.replace(usage, usd_micros=job.budget_usd_micros)
            return AgentResult(usage=usage, failure=Failure.AGENT_BUDGET, skill_used=used)
        try:
            return AgentResult(usage=usage, failure=_play(move, job), skill_used=used)
        except SuiteError as problem:
            return AgentResult(usage=Usage(), failure=Failure.SUITE_BROKEN, detail=problem.message)

    def _part(self, task: str, arm: str, skill: Skill | None) -> ArmScript:
        script, name = self._script, skill.folder_name if skill is not None else ""
        found = (
            table.get(arm) for table in (script.tasks.get(task, {}), script.skills.get(name, {}), script.arms)
        )
        part = next((part for part in found if part is not None), None)
        if part is None:
            raise SuiteError(f"{self._path}: no part for the arm `{arm}`", f"Add `{arm}:` under `arms:`.")
        return part

    def _usage(self, part: ArmScript, skill: Skill | None, rng: random.Random) -> Usage:
        """Draw the tokens; the weight of the skill is read again in every turn."""
        weight = weigh(skill) if skill is not None else None
        burden = (weight.listing + weight.body) * part.turns if weight is not None else 0
        tokens_in, tokens_out = _draw(part.input, rng) + burden, _draw(part.output, rng)
        dollars = (tokens_in * self._script.price.input + tokens_out * self._script.price.output) / 1e6
        return Usage(
            requests=part.turns,
            input=tokens_in,
            output=tokens_out,
            usd_micros=math.ceil(dollars * MICROS_PER_USD),
            turns=part.turns,
            tool_calls=max(part.turns - 1, 0),
        )


def displacements(skill: Skill, deliverables: tuple[str, ...]) -> dict[str, str]:
    """Map each new deliverable to where a template of the skill would put a file of its kind."""
    templates = [PurePosixPath(block.path) for block in skill.code_blocks if block.path]
    moved: dict[str, str] = {}
    for wanted in map(PurePosixPath, deliverables):
        named = [t for t in templates if t.name == wanted.name] or [
            t for t in templates if t.suffix == wanted.suffix
        ]
        if named and named[0].parent != wanted.parent:
            moved[str(wanted)] = str(named[0].parent / wanted.name)
    return moved


def _draw(draw: Draw, rng: random.Random) -> int:
    return max(1, round(draw.median * math.exp(rng.gauss(0.0, draw.spread))))


def _play(move: Move, job: AgentJob) -> Failure | None:
    match move:
        case Move.ORACLE | Move.TEMPLATE:
            folder = job.workspace.workspace
            new = tuple(path for path in job.task.deliverables if not (folder / path).exists())
            job.workspace.apply_patch(job.task.solution)
            if move is Move.TEMPLATE and job.skill is not None:
                _displace(folder, displacements(job.skill, new))
            return None
        case Move.NOTHING:
            return None
        case Move.CRASH:
            job.session.run("kill -9 $$", timeout_s=job.task.limits.timeout_s)
            return Failure.AGENT_CRASH
        case Move.TIMEOUT:
            job.session.run("exec sleep 86400", timeout_s=job.task.limits.timeout_s)
            return Failure.AGENT_CLOCK
        case Move.OUTAGE:
            return Failure.API_OVERLOADED


def _displace(workspace: Path, moved: dict[str, str]) -> None:
    for wanted, instead in moved.items():
        target = workspace / instead
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(workspace / wanted, target)
