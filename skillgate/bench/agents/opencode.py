"""opencode: how it is started, and how its events read. Pure.

All that it is told is in a variable, which goes before the files of the repository. It looks for skills in
`.agents/skills` (and `.claude/skills`, which is switched off: of two places it takes now this, now that).
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

_PROVIDER = "metered"
_CONFIG = ".config/opencode"
_PLUGIN = "@opencode-ai/plugin"
_DENIED = ("The user rejected permission", "The user has specified a rule which prevents")
_READERS = {"bash": "command", "read": "filePath"}
_OFF = (
    "AUTOUPDATE",
    "CLAUDE_CODE_SKILLS",
    "DEFAULT_PLUGINS",
    "EMBEDDED_WEB_UI",
    "LSP_DOWNLOAD",
    "MODELS_FETCH",
    "SHARE",
    "TERMINAL_TITLE",
)


class OpenCode:
    """opencode, with the ripgrep that lies beside it."""

    name = "opencode"
    provider = "openai"
    skill_folders = (".agents/skills",)
    counts_turns = False
    memory_mb = 1024

    def launch(self, setting: Setting) -> Launch:
        """Return how to start it; the prompt comes through stdin.

        With a title it does not ask the model for one. Turns it does not limit: its `steps` only tells the
        model to stop, so the requests that the meter allows are its limit.
        """
        bin_folder = f"{setting.home}/.cache/opencode/bin"
        words = [
            f"{setting.program}/opencode/bin/opencode",
            *("run", "--pure", "--format", "json", "--title", "task"),
            *("--model", f"{_PROVIDER}/{setting.model}"),
        ]
        # where it would download ripgrep to; without it the tools skill, glob and grep fail
        link = shlex.join(["ln", "-sfn", f"{setting.program}/ripgrep/bin/rg", f"{bin_folder}/rg"])
        start = f"exec {shlex.join(words)} < {shlex.quote(setting.prompt)}"
        command = f"mkdir -p {shlex.quote(bin_folder)} && {link} && {start}"
        env = {
            **{f"OPENCODE_DISABLE_{name}": "1" for name in _OFF},
            "OPENCODE_CONFIG_CONTENT": json.dumps(_config(setting)),
            "OPENCODE_METER_TOKEN": setting.token,
            "OPENCODE_PURE": "1",
            "NO_COLOR": "1",
        }
        return Launch(command, env, _installed())

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        """Read its output."""
        log = _Log(skill)
        return log.reading(exit_code, read_events(output, log.take))


def _installed() -> dict[str, str]:
    """Return files after which it believes that it has installed a package that it wants and never uses."""
    wanted = {"dependencies": {_PLUGIN: "*"}}
    return {
        f"{_CONFIG}/package.json": json.dumps(wanted),
        f"{_CONFIG}/package-lock.json": json.dumps({"lockfileVersion": 3, "packages": {"": wanted}}),
        f"{_CONFIG}/node_modules/.keep": "",
    }


def _config(setting: Setting) -> dict[str, Any]:
    model = {"name": setting.model, "limit": {"context": 200_000, "output": 32_000}}
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "enabled_providers": [_PROVIDER],
        "model": f"{_PROVIDER}/{setting.model}",
        "small_model": f"{_PROVIDER}/{setting.model}",
        "provider": {
            _PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",  # it is part of the program
                "name": _PROVIDER,
                "options": {"baseURL": f"{setting.meter}/v1", "apiKey": "{env:OPENCODE_METER_TOKEN}"},
                "models": {setting.model: model},
            }
        },
        "permission": {
            "*": "allow",
            "question": "deny",
            "task": "deny",
            "webfetch": "deny",
            "websearch": "deny",
            "skill": {"*": "allow", "customize-opencode": "deny"},
        },
    }


class _Log:
    """What its events say. A part of a session comes when it is complete."""

    def __init__(self, skill: str | None) -> None:
        self._skill = skill
        self._begun = self._used = False
        self._turns = self._calls = self._denials = 0
        self._error: Json | None = None

    def take(self, event: Json) -> None:
        """Take an event of any kind."""
        self._begun = True
        match event.get("type"):
            case "step_finish":
                self._turns += 1
            case "tool_use":
                self._take_call(event)
            case "error":
                self._error = event

    def _take_call(self, event: Json) -> None:
        self._calls += 1
        self._denials += text_at(event, "part", "state", "error").startswith(_DENIED)
        if self._skill is not None and part(event, "part", "state", "status") == "completed":
            name = text_at(event, "part", "tool")
            given = text_at(event, "part", "state", "input", _READERS.get(name, ""))
            self._used |= name == "skill" or reads_skill(given, self._skill)

    def reading(self, exit_code: int, words: str) -> Reading:
        """Return what was seen, and after which words it ended."""
        failure, detail = self._end(exit_code, words)
        return Reading(
            failure=failure,
            detail=clip(detail),
            skill_used=self._used if self._begun and self._skill is not None else None,
            turns=self._turns,
            tool_calls=self._calls,
            denials=self._denials,
        )

    def _end(self, exit_code: int, words: str) -> tuple[Failure | None, str]:
        if self._error is None:
            done = exit_code == 0 and self._turns > 0
            return (None, "") if done else without_result(exit_code, words)
        name = text_at(self._error, "error", "name")
        said = text_at(self._error, "error", "data", "message") or name
        if name == "ContentFilterError":
            return Failure.AGENT_REFUSED, said
        failure = failure_of_api(part(self._error, "error", "data", "statusCode"), said)
        if failure is None and part(self._error, "error", "data", "isRetryable") is True:
            failure = Failure.API_UNREACHABLE  # it has no status when nothing answered
        return failure or Failure.AGENT_CRASH, said
