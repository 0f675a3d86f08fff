"""Claude Code: how it is started with nothing of this machine, and how its `stream-json` reads. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from skillgate.bench.agents.printed import (
    Json,
    clip,
    failure_of_api,
    part,
    parts,
    read_events,
    reads_skill,
    text_at,
    without_result,
)
from skillgate.bench.agents.program import Launch, Reading, Setting
from skillgate.bench.failure import Failure
from skillgate.values import MICROS_PER_USD

_TOOLS = "Bash,Read,Edit,Write,Skill"
_ON = (
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",  # alone keeps it from asking other hosts
)
_OPTIONS = (
    *("-p", "--output-format", "stream-json", "--verbose"),
    *("--permission-mode", "dontAsk", "--allowed-tools", _TOOLS, "--tools", _TOOLS),
    *("--setting-sources", "project", "--strict-mcp-config", "--no-session-persistence"),
)
_MAX_OUTPUT = 8_000  # tokens of one answer
_OWN = re.compile(r"output token maximum|too long")  # errors without a status that no network made
_RETRIES = 3  # with its own ten an outage takes three minutes


class ClaudeCode:
    """Claude Code, on Anthropic's wire."""

    name = "claude-code"
    provider = "anthropic"
    skill_folders = (".claude/skills",)
    counts_turns = True
    memory_mb = 512  # a short run takes 150

    def launch(self, setting: Setting) -> Launch:
        """Return how to start it, with nothing of this machine and nothing that differs between arms."""
        limits = ("--model", setting.model, "--max-turns", str(setting.max_turns))
        words = shlex.join((f"{setting.program}/claude-code/claude", *_OPTIONS, *limits))
        env = {
            "ANTHROPIC_API_KEY": setting.token,
            "ANTHROPIC_BASE_URL": setting.meter,
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(_MAX_OUTPUT),
            "CLAUDE_CODE_MAX_RETRIES": str(_RETRIES),
            "CLAUDE_CONFIG_DIR": f"{setting.home}/.claude-code",
            **dict.fromkeys(_ON, "1"),
        }
        return Launch(f"exec {words} < {shlex.quote(setting.prompt)}", env, {})

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        """Read its events: those that end a run say `success` for API errors too."""
        seen = _Seen(skill)
        words = read_events(output, seen.take)
        failure, detail = _end(seen.result) if seen.result is not None else without_result(exit_code, words)
        return Reading(
            failure=failure,
            detail=detail,
            skill_used=seen.skill_used,
            turns=seen.turns,
            tool_calls=seen.tool_calls,
            denials=seen.denials,
            usd_micros=seen.usd_micros,
        )


class _Seen:
    """What the events have said so far."""

    def __init__(self, skill: str | None) -> None:
        self._skill = skill
        self._messages: set[str] = set()
        self._used = False
        self._asked_for_skill: set[str] = set()
        self._denied = 0
        self.tool_calls = 0
        self.result: Json | None = None

    def take(self, event: Json) -> None:
        """Take an event of any kind."""
        match event.get("type"):
            case "assistant":
                self._take_answer(event)
            case "user":
                self._take_results(event)
            case "system":
                self._denied += event.get("subtype") == "permission_denied"
            case "result":
                self.result = event

    def _take_answer(self, event: Json) -> None:
        if event.get("is_api_error_message"):
            return  # its own words
        self._messages.add(text_at(event, "message", "id"))
        for block in parts(event, "message", "content"):
            if block.get("type") == "tool_use":
                self.tool_calls += 1
                if self._skill is not None and _is_use(block, self._skill):
                    self._asked_for_skill.add(text_at(block, "id"))

    def _take_results(self, event: Json) -> None:
        for block in parts(event, "message", "content"):
            name = text_at(block, "tool_use_id")
            if name in self._asked_for_skill:
                self._asked_for_skill.discard(name)
                self._used |= block.get("is_error") is not True

    @property
    def skill_used(self) -> bool | None:
        """Return None without a skill; one that it was still reading when it was cut counts."""
        return None if self._skill is None else self._used or bool(self._asked_for_skill)

    @property
    def turns(self) -> int:
        """Return its own count, that of answers when it was cut."""
        said = part(self.result, "num_turns")
        return said if isinstance(said, int) else len(self._messages)

    @property
    def denials(self) -> int:
        """Return its own list's length, what was seen when it was cut."""
        return max(self._denied, len(parts(self.result, "permission_denials")))

    @property
    def usd_micros(self) -> int | None:
        """Return its own figure, which only its last event has."""
        said = part(self.result, "total_cost_usd")
        is_amount = isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said < 1e6
        return round(said * MICROS_PER_USD) if is_amount else None


def _is_use(block: Json, skill: str) -> bool:
    match block.get("name"):
        case "Skill":
            return text_at(block, "input", "skill").rpartition(":")[2].lstrip("/") == skill
        case "Read":
            return reads_skill(text_at(block, "input", "file_path"), skill)
        case "Bash":
            return reads_skill(text_at(block, "input", "command"), skill)
    return False


def _end(result: Json) -> tuple[Failure | None, str]:
    """Return why it ended, None when it was done; what was denied is no failure."""
    reason = text_at(result, "terminal_reason")
    errors = result.get("errors")
    said = clip(
        text_at(result, "result") or (str(errors[0]) if isinstance(errors, list) and errors else reason)
    )
    if reason == "max_turns" or result.get("subtype") == "error_max_turns":
        return Failure.AGENT_TURNS, said
    if result.get("stop_reason") == "refusal":
        return Failure.AGENT_REFUSED, said
    if not result.get("is_error") and reason in ("", "completed"):
        return None, ""
    failure = failure_of_api(result.get("api_error_status"), said)
    if failure is not None:
        return failure, said
    if reason == "api_error" and not _OWN.search(said):
        return Failure.API_UNREACHABLE, said
    return Failure.AGENT_CRASH, said
