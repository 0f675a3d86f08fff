"""Our own agent: its loop runs here, its tools in the sandbox, its calls go through the meter.

So the sandbox needs no network at all. With `tools` a model asks for commands and edits; `text` is for small
models that cannot: they answer with whole files.
"""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.agents.api.calls import Caller, End, Question, Wire
from skillgate.bench.agents.api.chat import ChatWire
from skillgate.bench.agents.api.files import Hands
from skillgate.bench.agents.api.sdk import SdkWire
from skillgate.bench.agents.api.text import SYSTEM, TextTalk
from skillgate.bench.agents.api.tools import TOOLS, ToolLoop, system_prompt
from skillgate.bench.agents.api.trace import Trace, traced
from skillgate.bench.agents.metered import result_of, tokens_left
from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.limits import Limits
from skillgate.bench.meter.proxy import Meter, listen
from skillgate.bench.sandbox import SandboxFailure
from skillgate.config import Protocol
from skillgate.core import API_AGENT, Inject
from skillgate.errors import ConfigError
from skillgate.skill import Skill
from skillgate.values import Count, Positive, Struct

MAX_DETAIL = 300
_OWN_LIMITS = (Failure.AGENT_BUDGET, Failure.AGENT_CLOCK, Failure.AGENT_TURNS)


class ApiSettings(Struct, kw_only=True, rename="kebab"):
    """How the agent works; `kind` is the provider's.

    `max_requests` are those of one task, calls that are made again and counts of tokens too; `max_output`
    counts the tokens of one answer, `shown_tokens` those of files in the prompt of `text`. After each of
    `pauses_s` a call that failed is made again. Without a temperature the provider's is used.
    """

    kind: str = "anthropic"
    protocol: Protocol = Protocol.TOOLS
    max_turns: Count = 50
    max_requests: Count = 120
    max_tokens: int | None = None
    max_output: Count = 8000
    shown_tokens: Count = 6000
    command_s: Positive = 120.0
    temperature: float | None = None
    pauses_s: tuple[float, ...] = (2.0, 4.0, 8.0)


class ApiAgent:
    """Does tasks with a model behind the meter; safe for threads."""

    name = API_AGENT
    runs_model_commands = True  # with `text` the graders run what it wrote
    programs = NO_PROGRAMS
    skill_folders = SKILL_FOLDERS[:1]
    memory_mb = 0  # it runs here

    def __init__(self, meter: Meter, model: str, settings: ApiSettings = ApiSettings()) -> None:  # noqa: B008
        self._meter = meter
        self._model = model
        self._settings = settings

    @property
    def open_usd_micros(self) -> int:
        """Return what the meter has booked for the runs in flight."""
        return self._meter.open_usd_micros

    @property
    def version(self) -> str:
        """Return which one it is: its own version, how it talks, and with what."""
        sdk = f", anthropic {importlib.metadata.version('anthropic')}" if self._speaks_sdk else ""
        return f"1 ({self._settings.protocol}{sdk})"

    @property
    def _speaks_sdk(self) -> bool:
        return self._settings.kind == "anthropic"

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Check that the provider's wire can be spoken. Raises: ConfigError."""
        kind, protocol = self._settings.kind, self._settings.protocol
        if kind not in ("anthropic", "openai"):
            raise ConfigError(
                f"the agent `api` cannot talk to a provider of kind `{kind}`", "Use anthropic or openai."
            )
        if protocol is Protocol.TOOLS and not self._speaks_sdk:
            raise ConfigError(
                f"the agent `api` has no tools with a provider of kind `{kind}`",
                "Use `protocol: text`, or a provider of kind `anthropic`.",
            )

    def run(self, job: AgentJob) -> AgentResult:
        """Do the task; never raise but SandboxFailure."""
        account = Account(self._limits(job))
        with traced(job.trace, account.token) as trace:
            talk = _Talk(job, self._settings, self._model, trace)
            end = self._talk(talk, account)
            failure, detail = why(account, end)
            result = result_of(account, failure, trace.mask(detail)[:MAX_DETAIL])
            trace.add("end", failure=failure, detail=detail, models=result.models)
            usage = replace(result.usage, tool_calls=talk.tool_calls)
            return replace(result, usage=usage, skill_used=talk.skill_used)

    def _limits(self, job: AgentJob) -> Limits:
        return Limits(
            usd_micros=max(job.budget_usd_micros, 0),
            requests=self._settings.max_requests,
            tokens=tokens_left(self._settings.max_tokens, job),
            wall_s=job.task.limits.timeout_s,
            models=frozenset({self._model}),
        )

    def _talk(self, talk: _Talk, account: Account) -> End:
        """Do the task behind a door of the meter, which is closed when this returns."""
        try:
            with self._wire(account) as wire:
                return End(None, talk.run(Caller(wire, account, self._settings.pauses_s)))
        except End as end:
            return end
        except SandboxFailure as problem:  # what it cost is known all the same
            return End(problem.kind, problem.detail)
        except Exception as problem:  # noqa: BLE001 - what it cost is known here and nowhere else
            return End(Failure.UNKNOWN, f"the agent failed ({type(problem).__name__})")

    @contextmanager
    def _wire(self, account: Account) -> Iterator[Wire]:
        listener = listen()
        port = listener.getsockname()[1]
        door = self._meter.serve(listener, account)
        wire: Wire | None = None
        try:
            token = account.token
            wire = SdkWire(f"http://127.0.0.1:{port}", token) if self._speaks_sdk else ChatWire(port, token)
            yield wire
        finally:
            if wire is not None:
                wire.close()
            door.close()  # what is booked is final only then


class _Talk:
    """A job and how it is talked about."""

    def __init__(self, job: AgentJob, settings: ApiSettings, model: str, trace: Trace) -> None:
        self._job = job
        self._settings = settings
        self._trace = trace
        self._loop: ToolLoop | None = None
        self._question = Question(
            model, "", (), settings.max_output, temperature=settings.temperature, seed=seed_of(job)
        )

    @property
    def tool_calls(self) -> int:
        """Return how many there were."""
        return self._loop.tool_calls if self._loop is not None else 0

    @property
    def skill_used(self) -> bool | None:
        """Say whether the model got to see the skill, None in an arm without one."""
        if self._job.skill is None:
            return None
        found = self._loop.skill_used if self._loop is not None else None
        return True if found is None else found  # it was in the prompt

    def run(self, caller: Caller) -> str:
        """Do the task; return what there is to say of it. Raises: End, SandboxFailure."""
        job, settings, hands = self._job, self._settings, Hands(self._job.session)
        skill = _installed(job)
        if settings.protocol is Protocol.TEXT:
            talk = TextTalk(caller.ask, hands, self._trace, settings.shown_tokens)
            question = self._question._replace(system=SYSTEM)
            return talk.run(question, job.task, job.prompt, skill, settings.max_turns)
        self._loop = ToolLoop(caller.ask, hands, self._trace, skill, settings.command_s)
        system = system_prompt(skill, settings.command_s)
        self._loop.run(self._question._replace(system=system, tools=TOOLS), job.prompt, settings.max_turns)
        return ""


def _installed(job: AgentJob) -> Skill | None:
    """Return the skill where it is in the repository, not in the prompt."""
    return job.skill if job.inject is Inject.SKILL else None


def seed_of(job: AgentJob) -> int:
    """Return the seed of an attempt: no two of a plan have the same."""
    cell = job.cell
    name = f"{job.seed}/{job.task.id}/{cell.arm}/{cell.repeat}/{job.attempt}"
    return random.Random(name).getrandbits(31)  # noqa: S311 - not to keep a secret


def why(account: Account, end: End) -> tuple[Failure | None, str]:
    """Return why a run ended: what the meter knows goes before what the agent saw.

    But a fault of the API does not become the agent's own limit: not when asking again used up the rest,
    nor when calls that broke were booked whole and left too little.
    """
    known = account.failure
    if end.after_trouble and (known is None or known in _OWN_LIMITS):
        return end.failure, end.detail
    if known is Failure.AGENT_BUDGET and account.ledger.held_usd_micros:
        return Failure.API_SERVER, "calls that broke were booked whole, which left too little"
    if known is not None and known is not end.failure:
        return known, account.notes[-1] if account.notes else ""
    return end.failure, end.detail
