"""Codex: how it is started with nothing of this machine, and how its `--json` events read. Pure.

It knows neither a limit of turns nor a price: the meter has the one, and counts the other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from skillgate.bench.agents.printed import (
    Json,
    clip,
    failure_of_api,
    read_events,
    reads_skill,
    text_at,
    without_result,
)
from skillgate.bench.agents.program import Launch, Reading, Setting
from skillgate.bench.failure import Failure

_HOME = ".codex"
# Its own sandbox needs rights that a container does not give, and would only be a second one inside.
# A login shell would take its PATH from /etc/profile, not from the image. Pictures are not metered.
_CONFIG = """\
model_provider = "meter"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
allow_login_shell = false
check_for_update_on_startup = false

[model_providers.meter]
name = "meter"
base_url = "{meter}/v1"
env_key = "SKILLGATE_TOKEN"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3

[agents]
enabled = false

[analytics]
enabled = false

[features]
apps = false
enable_request_compression = false
goals = false
image_generation = false
plugins = false
shell_snapshot = false
unbounded_connection_retries = false
view_image = false

[skills.bundled]
enabled = false
"""
_OPTIONS = (
    *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--strict-config"),
    *("-s", "danger-full-access"),
)
_SAID = (
    (re.compile(r"quota exceeded|insufficient_quota|billing", re.I), Failure.API_CREDIT),
    (re.compile(r"max_output_tokens|context window|maximum context", re.I), Failure.AGENT_CRASH),
    (re.compile(r"content_filter|refus|usage policy|flagged", re.I), Failure.AGENT_REFUSED),
    (re.compile(r"overloaded|at capacity", re.I), Failure.API_OVERLOADED),
    (re.compile(r"rate.?limit", re.I), Failure.API_RATE_LIMIT),
)
_STATUS = re.compile(r"\bstatus(?: code)?:?\s+(\d{3})\b")
_UNREACHABLE = re.compile(r"error sending request|connection (?:failed|refused|reset)|timed out", re.I)
_BROKEN = re.compile(r"stream disconnected|stream closed|internal server|server error|high demand", re.I)


class Codex:
    """Codex, on OpenAI's Responses."""

    name = "codex"
    provider = "openai"
    skill_folders = (".agents/skills",)
    counts_turns = False
    memory_mb = 128  # a short run takes 50

    def launch(self, setting: Setting) -> Launch:
        """Return how to start it, with nothing of this machine and nothing that differs between arms."""
        binary = f"{shlex.quote(setting.program)}/codex/vendor/*/bin/codex"  # one folder, named by platform
        words = shlex.join((*_OPTIONS, "-m", setting.model, "-"))
        env = {"CODEX_HOME": f"{setting.home}/{_HOME}", "SKILLGATE_TOKEN": setting.token}
        files = {f"{_HOME}/config.toml": _CONFIG.format(meter=setting.meter)}
        return Launch(f"exec {binary} {words} < {shlex.quote(setting.prompt)}", env, files)

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        """Read its events; it has none for a turn of the model, so `turns` is 0, and none for a refusal."""
        seen = _Seen(skill)
        words = read_events(output, seen.take)
        failure, detail = _end(seen) if seen.has_ended else without_result(exit_code, words)
        return Reading(
            failure=failure,
            detail=detail,
            skill_used=seen.skill_used if skill is not None else None,
            tool_calls=len(seen.tools),
            denials=seen.denials,
        )


class _Seen:
    """What the events have said so far."""

    def __init__(self, skill: str | None) -> None:
        self._skill = skill
        self.skill_used = False
        self.tools: set[str] = set()
        self.denials = 0
        self.spoke = self.completed = False
        self.problem = ""

    @property
    def has_ended(self) -> bool:
        """Say whether it said how it ended."""
        return self.completed or bool(self.problem)

    def take(self, event: Json) -> None:
        """Take an event of any kind."""
        match event.get("type"):
            case "item.started" | "item.completed":
                item = event.get("item")
                if isinstance(item, dict):
                    self._take_item(item, event["type"] == "item.completed")
            case "turn.completed":
                self.completed = True
            case "turn.failed":
                self.completed = False
                self.problem = text_at(event, "error", "message") or "a failed turn"
            case "error":
                self.problem = text_at(event, "message") or self.problem

    def _take_item(self, item: Json, is_over: bool) -> None:
        match item.get("type"):
            case "agent_message":
                self.spoke = True
            case "error" | "reasoning" | "todo_list" | "user_message":
                pass
            case _:
                self.tools.add(text_at(item, "id"))
                self.denials += is_over and item.get("status") == "declined"
                self._look_for_skill(item, is_over)

    def _look_for_skill(self, item: Json, is_over: bool) -> None:
        if self._skill is None or not reads_skill(text_at(item, "command"), self._skill):
            return
        self.skill_used |= not is_over or item.get("exit_code") == 0


def _end(seen: _Seen) -> tuple[Failure | None, str]:
    """Return why it ended, None when it was done."""
    if seen.completed:
        silent = not seen.spoke and not seen.tools  # so a refusal looks from outside
        return (Failure.AGENT_REFUSED, "it said and did nothing") if silent else (None, "")
    return _failure_of(seen.problem), clip(seen.problem)


def _failure_of(problem: str) -> Failure:
    """Return what its sentence means; it has no code."""
    status = _STATUS.search(problem)
    known = next((failure for pattern, failure in _SAID if pattern.search(problem)), None)
    found = failure_of_api(None, problem) or known or failure_of_api(status and int(status[1]), problem)
    if found is not None:
        return found
    if _UNREACHABLE.search(problem):
        return Failure.API_UNREACHABLE
    return Failure.API_SERVER if _BROKEN.search(problem) else Failure.AGENT_CRASH
