"""Gemini CLI: how it is started, and how its stream of JSON reads. Pure.

What it is told is in the settings of the user: those of the system have to belong to root.
It looks for skills in `.agents/skills` and `.gemini/skills`, of one name it lists one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from skillgate.bench.agents.printed import (
    Json,
    clip,
    failure_of_api,
    part,
    read_events,
    reads_skill,
    text_at,
    without_result,
)
from skillgate.bench.agents.program import Launch, Reading, Setting
from skillgate.bench.failure import Failure

_SETTINGS = ".gemini/settings.json"
_TOOLS = [
    "activate_skill",
    "glob",
    "grep_search",
    "list_directory",
    "read_file",
    "replace",
    "run_shell_command",
    "write_file",
]
_TURNS = 53  # what it exits with; after an error of the API it is the status, of which a byte is left
_STATUSES = {status % 256: status for status in (401, 402, 403, 408, 429, 500, 502, 503, 504, 529)}
_READERS = {"read_file": "file_path", "run_shell_command": "command"}
_SAID = {  # where it has no status
    "fetch failed": Failure.API_UNREACHABLE,
    "terminated": Failure.API_SERVER,
    "without a finish reason": Failure.API_SERVER,
    "empty response": Failure.API_SERVER,
}


class Gemini:
    """Gemini CLI, on the node of its own that lies beside it."""

    name = "gemini"
    provider = "gemini"
    skill_folders = (".agents/skills",)
    counts_turns = True
    memory_mb = 768

    def launch(self, setting: Setting) -> Launch:
        """Return how to start it; the prompt comes through stdin, of up to 8 MiB."""
        words = [
            f"{setting.program}/node/bin/node",
            f"{setting.program}/gemini-cli/bundle/gemini.js",
            *("--model", setting.model),
            *("--approval-mode", "yolo"),
            *("--output-format", "stream-json"),
        ]
        env = {
            "GEMINI_API_KEY": setting.token,
            "GEMINI_CLI_NO_RELAUNCH": "true",  # one process, not two
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": f"{setting.home}/.gemini/none.json",  # not those of the image
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": setting.meter,
            "NO_COLOR": "1",
        }
        settings = json.dumps(_settings(setting), indent=1)
        return Launch(f"exec {shlex.join(words)} < {shlex.quote(setting.prompt)}", env, {_SETTINGS: settings})

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        """Read its output, whose end may be missing: it exits before a full pipe has taken all of it."""
        log = _Log(skill)
        return log.reading(exit_code, read_events(output, log.take))


def _settings(setting: Setting) -> dict[str, Any]:
    """Return settings with which it talks to the meter alone, about one model, with few tools."""
    return {
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 3,
            "plan": {"enabled": False},
            "topicUpdateNarration": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "model": {"name": setting.model, "maxSessionTurns": setting.max_turns, "disableLoopDetection": True},
        # what it asks beside the conversation (summaries, corrections) goes to the same model
        "modelConfigs": {"customOverrides": [{"match": {}, "modelConfig": {"model": setting.model}}]},
        "tools": {
            "core": _TOOLS,
            "shell": {"enableInteractiveShell": False, "showColor": False},
            "useRipgrep": False,  # it would be downloaded
        },
        "skills": {"enabled": True, "disabled": ["skill-creator", "antigravity-support"]},
        "experimental": {"enableAgents": False, "autoMemory": False},
        "hooksConfig": {"enabled": False},
        "admin": {"extensions": {"enabled": False}, "mcp": {"enabled": False}},
        "advanced": {"ignoreLocalEnv": True},
        "ide": {"enabled": False},
    }


class _Log:
    """What its events say."""

    def __init__(self, skill: str | None) -> None:
        self._skill = skill
        self._begun = self._answering = False
        self._turns = self._denials = 0
        self._calls: dict[str, bool] = {}  # by id: whether it used the skill
        self._result: Json | None = None
        self._errors: list[str] = []

    def take(self, event: Json) -> None:
        """Take an event of any kind."""
        self._begun = True
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                self._answer()
            case "tool_use":
                self._answer()
                self._calls[text_at(event, "tool_id") or str(len(self._calls))] = self._uses_skill(event)
            case "tool_result":
                self._take_result(event)
            case "error" if event.get("severity") == "error":
                self._errors.append(text_at(event, "message"))
            case "result":
                self._result = event

    def _answer(self) -> None:
        """Count a turn where the model begins to speak."""
        self._turns += not self._answering
        self._answering = True

    def _uses_skill(self, event: Json) -> bool:
        if self._skill is None:
            return False
        name = text_at(event, "tool_name")
        given = text_at(event, "parameters", _READERS.get(name, ""))
        return name == "activate_skill" or reads_skill(given, self._skill)

    def _take_result(self, event: Json) -> None:
        self._answering = False
        if event.get("status") == "error":
            self._calls[text_at(event, "tool_id")] = False
            self._denials += part(event, "error", "type") == "policy_violation"

    def reading(self, exit_code: int, words: str) -> Reading:
        """Return what was seen, and after which words it ended."""
        counted = part(self._result, "stats", "tool_calls")
        failure, detail = self._end(exit_code, words)
        return Reading(
            failure=failure,
            detail=clip(detail),
            skill_used=any(self._calls.values()) if self._begun and self._skill is not None else None,
            turns=self._turns,
            tool_calls=max(len(self._calls), counted if isinstance(counted, int) else 0),
            denials=self._denials,
        )

    def _end(self, exit_code: int, words: str) -> tuple[Failure | None, str]:
        """Return why it ended. Of refusals with a text it says "success", after others it exits 0."""
        said = text_at(self._result, "error", "message") or "; ".join(filter(None, self._errors))
        if exit_code == _TURNS or part(self._result, "error", "type") == "FatalTurnLimitedError":
            return Failure.AGENT_TURNS, ""
        if part(self._result, "status") == "success":
            return None, said
        if "response was blocked" in said:
            return Failure.AGENT_REFUSED, said
        if "response was truncated" in said:
            return None, said
        failure = failure_of_api(_STATUSES.get(exit_code), said)
        failure = failure or next((kind for sign, kind in _SAID.items() if sign in said), None)
        crash, last = without_result(exit_code, words)
        return failure or crash, said or last
