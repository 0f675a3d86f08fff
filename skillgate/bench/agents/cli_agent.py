"""Runs an agent program in the sandbox, with the meter on its loopback and nothing else in reach.

The program gets a prompt, files for its home and the token of this run; money and tokens are the
meter's, and what went wrong is decided from what the meter, the sandbox and the program know.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec.structs import replace

from skillgate.bench.agents.agent import AgentJob, AgentResult
from skillgate.bench.agents.metered import result_of, served, tokens_left
from skillgate.bench.agents.program import Launch, Program, Reading, Setting
from skillgate.bench.agents.trace import Trace, lines_of
from skillgate.bench.failure import Failure, ruling
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.limits import Limits
from skillgate.bench.meter.proxy import Meter
from skillgate.bench.sandbox import CommandResult, Limit, SandboxFailure, failure_of
from skillgate.config import RunConfig
from skillgate.core import Outcome

_OF_LIMIT = {
    Limit.CLOCK: Failure.AGENT_CLOCK,
    Limit.MEMORY: Failure.AGENT_MEMORY,
    Limit.DISK: Failure.AGENT_DISK,
}


class Installed(NamedTuple):
    """A program that is on this machine: its folder, and which version it is."""

    program: Program
    folder: Path
    version: str


class CliAgent:
    """An agent that is a program of others, behind the meter.

    A program that cannot count turns is stopped by the number of its requests.
    """

    runs_model_commands = True

    def __init__(self, installed: Installed, meter: Meter, run: RunConfig) -> None:
        self._program = installed.program
        self.name, self.version = installed.program.name, installed.version
        self.programs: Mapping[str, Path] = {self.name: installed.folder}
        self.skill_folders = installed.program.skill_folders
        self._folder = installed.folder
        self._meter = meter
        self._model = run.model
        self._max_turns = run.max_turns
        spare = 0 if installed.program.counts_turns else run.max_turns
        self._max_requests, self._max_tokens = run.per_run_requests - spare, run.per_run_tokens

    @property
    def open_usd_micros(self) -> int:
        """Return what the meter has booked for the runs in flight."""
        return self._meter.open_usd_micros

    @property
    def memory_mb(self) -> int:
        """Return what the program needs itself."""
        return self._program.memory_mb

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Need nothing of a plan."""

    def run(self, job: AgentJob) -> AgentResult:
        """Run the program once. Raises: SandboxFailure."""
        account = Account(
            Limits(
                usd_micros=job.budget_usd_micros,
                requests=self._max_requests,
                tokens=tokens_left(self._max_tokens, job),
                wall_s=job.task.limits.timeout_s,
            )
        )
        trace = job.trace or job.workspace.root / "trace"
        try:
            with served(job.session, self._meter, account) as url:
                ended = self._execute(job, url, account.token, trace)
        except SandboxFailure as problem:  # what it cost is known all the same
            return result_of(account, problem.kind, problem.detail)
        except OSError as problem:
            failure = failure_of(problem)
            return result_of(account, failure.kind, failure.detail)
        skill = job.skill.folder_name if job.skill is not None else None
        try:
            reading = self._program.read(lines_of(trace), ended.exit_code, skill)
        except Exception as problem:  # noqa: BLE001 - anybody's text: a bug of ours must not lose the cost
            return result_of(account, Failure.UNKNOWN, f"its output could not be read: {problem!r}")
        failure_kind = why_ended(account, ended, reading, spent_before=job.used.usd_micros > 0)
        result = result_of(account, failure_kind, _detail(failure_kind, account, reading))
        usage = replace(result.usage, tool_calls=reading.tool_calls)
        return replace(
            result, usage=usage, skill_used=reading.skill_used, reported_usd_micros=reading.usd_micros
        )

    def _execute(self, job: AgentJob, url: str, token: str, trace: Path) -> CommandResult:
        session, given = job.session, job.workspace.given
        prompt = given / "prompt"
        prompt.write_text(job.prompt, encoding="utf-8")
        setting = Setting(
            model=self._model,
            meter=url,
            token=token,
            program=session.where(self._folder),
            prompt=session.where(prompt),
            home=session.where(job.workspace.home),
            max_turns=self._max_turns,
        )
        launch = self._program.launch(setting)
        home = given / "home"
        write_files(home, launch)
        command = f'cp -R {session.where(home)}/. "$HOME" && {{ {launch.command}\n}}'
        with Trace(trace, token) as kept:
            return session.run(command, job.task.limits.timeout_s, launch.env, kept.add)


def write_files(home: Path, launch: Launch) -> None:
    """Write the files of a home. Raises: OSError."""
    home.mkdir(exist_ok=True)
    for name, text in launch.files.items():
        path = home / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def why_ended(
    account: Account, ended: CommandResult, reading: Reading, *, spent_before: bool = False
) -> Failure | None:
    """Return the failure of a run. What is not the agent's goes first: an outage scores nobody.

    A fault of the API counts where the meter saw it, unless the program got over it. A program that ended
    before the model had said anything to it has shown nothing of a skill, whatever it says itself;
    unless `spent_before`, by an earlier task or attempt of its cell, is why the money did not do.
    """
    finished = ended.limit is None and ended.exit_code == 0 and reading.failure is None
    if finished and (account.usage.turns or account.models):
        return account.stopped if account.stopped is not Failure.UNKNOWN else None  # nobody gets over that
    if account.failure is not None and ruling(account.failure).outcome is Outcome.INVALID:
        return account.failure
    is_spent = spent_before and account.failure is Failure.AGENT_BUDGET
    if account.usage.turns == 0 and not is_spent:
        return Failure.API_REFUSED if account.was_denied else Failure.AGENT_START
    if ended.limit in (Limit.MEMORY, Limit.DISK):
        return _OF_LIMIT[ended.limit]
    if account.failure is not None:
        return account.failure
    if ended.limit is not None:
        return _OF_LIMIT[ended.limit]
    if account.was_denied and reading.failure is Failure.UNKNOWN:  # its last words are the meter's
        return Failure.API_REFUSED
    said = reading.failure or Failure.AGENT_CRASH
    return Failure.AGENT_CRASH if ruling(said).outcome is Outcome.INVALID else said


def _detail(failure: Failure | None, account: Account, reading: Reading) -> str:
    denied = f"{reading.denials} uses of tools were denied" if reading.denials else ""
    notes = account.notes if failure is not None else ()
    return "; ".join(filter(None, (reading.detail, *notes, denied)))
