"""skillgate.yml -> Config: what the user wants, every key optional.

An unknown key is an error with path:line and the nearest name. Money is read in dollars
and kept in micro-dollars. `schema()` exports the JSON Schema for editors.
"""

from __future__ import annotations

import fnmatch
import math
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from skillgate.core import Inject, Policy
from skillgate.document import decode
from skillgate.prices import Rates, check_rates
from skillgate.values import MICROS_PER_USD, Count, FailOn, Positive, Severity, Struct

FILE_NAME = "skillgate.yml"
MAX_USD = 1_000_000
SPARE_REQUESTS = 20  # beside those of turns: titles, counts, answers that are resumed
RuleOptions = bool | Severity | dict[str, Any]


class Client(StrEnum):
    """A program that loads skills, with rules of its own."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    COPILOT = "copilot"
    CURSOR = "cursor"
    GEMINI = "gemini"


class LintConfig(Struct, kw_only=True, rename="kebab"):
    """The `lint` block. A rule maps to `off`/`on`, a severity, or its options.

    `paths` maps globs to rules that are off, or of another severity, in the files that match;
    `rule_files` names folders with rules of one's own, `baseline` a file with known findings.
    """

    fail_on: FailOn = FailOn.ERROR
    rules: dict[str, RuleOptions] = {}
    clients: tuple[Client, ...] = ()
    paths: dict[str, dict[str, bool | Severity]] = {}
    rule_files: tuple[str, ...] = ()
    baseline: str | None = None

    def at(self, rule: str, path: str) -> bool | Severity:
        """Return whether a rule holds for a file (False: it is off), or its severity there; the last wins."""
        found: bool | Severity = True
        for pattern, rules in self.paths.items():
            if rule in rules and contains(pattern, path):
                found = rules[rule]
        return found


class Wire(StrEnum):
    """How a model API is spoken to."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GEMINI = "gemini"


class Protocol(StrEnum):
    """How the agent `api` works with a model: by its tools, or by files in its answer."""

    TOOLS = "tools"
    TEXT = "text"


class ProviderConfig(Struct, kw_only=True, rename="kebab"):
    """The `run.provider` block: who serves the model. Without it, the one whose wire the agent speaks.

    All but `base_url` is for the agent `api`; every other has a wire of its own. `max_output` counts the
    tokens of one answer, `shown_tokens` those of files that the protocol `text` shows.
    """

    kind: Wire | None = None
    base_url: str | None = None
    protocol: Protocol = Protocol.TOOLS
    max_output: Count = 8000
    shown_tokens: Count = 6000
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None


class RunConfig(Struct, kw_only=True, rename="kebab"):
    """The `run` block; without an agent nothing is run. `script` is what the scripted agent plays.

    `stop_early`: end when the verdict is known; runs of a baseline are reused for `cache_days`.
    """

    agent: str | None = None
    models: tuple[str, ...] = ()
    repeats: Count = 5
    sandbox: Literal["docker", "local"] = "docker"
    image: str | None = None
    budget_usd: Annotated[float, msgspec.Meta(ge=0, le=MAX_USD)] = 5.00
    per_run_usd: Annotated[float, msgspec.Meta(gt=0, le=MAX_USD)] = 0.50
    budget_tokens: Count | None = None
    per_run_tokens: Count | None = None
    budget_requests: Count | None = None
    budget_minutes: Positive | None = None
    timeout_s: Positive = 900.0
    max_turns: Annotated[int, msgspec.Meta(ge=1)] = 60
    provider: ProviderConfig = ProviderConfig()
    inject: Inject = Inject.SKILL
    network: tuple[str, ...] = ()
    script: str | None = None
    workers: Count = 2
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    stop_early: bool = True
    cache_days: Annotated[float, msgspec.Meta(ge=0)] = 14.0

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.budget_usd, self.per_run_usd, self.timeout_s, self.cache_days))):
            raise ValueError("amounts and times are finite numbers")
        if self.budget_tokens is not None and self.per_run_tokens is None:
            raise ValueError("`budget-tokens` wants `per-run-tokens`, which a run reserves of it")
        if self.budget_tokens is not None and self.budget_tokens < (self.per_run_tokens or 0):
            raise ValueError("`budget-tokens` is less than `per-run-tokens`: no run could start")
        if self.budget_requests is not None and self.budget_requests < self.per_run_requests:
            needed = f"{self.per_run_requests}, 2 for each of `max-turns` and {SPARE_REQUESTS}"
            raise ValueError(f"`budget-requests` is less than one run may make ({needed}): none could start")

    @property
    def cap_usd_micros(self) -> int:
        """Return the hard cap of the whole gate."""
        return round(self.budget_usd * MICROS_PER_USD)

    @property
    def per_run_usd_micros(self) -> int:
        """Return the cap of one run."""
        return round(self.per_run_usd * MICROS_PER_USD)

    @property
    def per_run_requests(self) -> int:
        """Return how many requests one run may make: two for a turn, and some beside."""
        return 2 * self.max_turns + SPARE_REQUESTS

    @property
    def model(self) -> str:
        """Return the model under test; the scripted agent has none."""
        return self.models[0] if self.models else "scripted"


class Config(Struct, kw_only=True, rename="kebab"):
    """All of skillgate.yml."""

    version: Literal[1] = 1
    skills: tuple[str, ...] = ("**",)
    lint: LintConfig = LintConfig()
    suites: dict[str, tuple[str, ...]] = {}
    run: RunConfig = RunConfig()
    policy: Policy = Policy()
    prices: dict[str, Rates] = {}

    def __post_init__(self) -> None:
        for model, rates in self.prices.items():
            check_rates(f"prices.{model}", rates)

    def covers(self, skill_path: str) -> bool:
        """Say whether `skills` names this skill folder."""
        return any(matches(skill_path, pattern) for pattern in self.skills)

    def suites_for(self, skill_path: str) -> tuple[str, ...]:
        """Return the suite folders that judge this skill, in the order of the file."""
        found = (s for pattern, paths in self.suites.items() if matches(skill_path, pattern) for s in paths)
        return tuple(dict.fromkeys(found))


def matches(path: str, pattern: str) -> bool:
    """Match a folder against a glob; `skills/**` also means `skills/x`, `**` the root too."""
    pattern = pattern.rstrip("/")
    if pattern in ("**", "**/*") or path == pattern:
        return True
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern.replace("**/", ""))


def contains(pattern: str, path: str) -> bool:
    """Say whether a glob names a file or a folder that holds it."""
    parents = [parent.as_posix() for parent in PurePosixPath(path).parents[:-1]]
    return any(matches(part, pattern) for part in (path, *parents))


def parse(text: str, path: str = FILE_NAME) -> Config:
    """Read skillgate.yml from text. Raises: ConfigError with path:line."""
    return decode(text, Config, path)


def find_root(start: Path) -> Path:
    """Return the nearest folder at or above `start` with a skillgate.yml or a .git, else `start`."""
    for folder in (start, *start.parents):
        if is_root(folder):
            return folder
    return start


def is_root(folder: Path) -> bool:
    """Say whether a folder has a skillgate.yml or a .git."""
    return (folder / FILE_NAME).is_file() or (folder / ".git").exists()


def schema() -> dict[str, Any]:
    """Return the JSON Schema of skillgate.yml."""
    return msgspec.json.schema(Config)
