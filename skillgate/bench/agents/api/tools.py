"""The loop with tools: the model asks for commands and edits, the sandbox does them, until it is done."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from skillgate.bench.agents.api import editor
from skillgate.bench.agents.api.calls import End, Question, Said, Stop
from skillgate.bench.agents.api.files import MAX_COMMAND_BYTES, FileProblem, Hands
from skillgate.bench.agents.api.trace import Trace
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import Limit
from skillgate.skill import Skill

MAX_SHOWN = 16_000  # characters of what a tool says
MAX_CUTS = 3  # answers in a row that reached the most tokens
SIGNS = 3  # lines of a skill that a model has to have seen
BASH = {"type": "bash_20250124", "name": "bash"}
TOOLS = (BASH, editor.TOOL)
_WITH_BASH = "if command -v bash >/dev/null; then exec bash -c {0}; else exec sh -c {0}; fi"
_SYSTEM = """\
You work on a task in a repository, with tools that run in a sandbox. Each command has a new shell in the \
root folder of the repository and is ended after {command_s:g} seconds; give paths relative to that folder. \
Nobody can answer questions: do all of the task, check it, and then say in one sentence what you did."""
_SKILL = """
Skill `{name}`: {description} Before you work on what it is about, read `.claude/skills/{folder}/SKILL.md`."""


def system_prompt(skill: Skill | None, command_s: float) -> str:
    """Return the system prompt; with a skill it has one line more, as clients list it."""
    system = _SYSTEM.format(command_s=command_s)
    if skill is None:
        return system
    description = " ".join((skill.description or "").split())
    return system + _SKILL.format(
        name=skill.name or skill.folder_name, description=description, folder=skill.folder_name
    )


def shorten(text: str) -> str:
    """Return a text with its middle left out when it is long."""
    if len(text) <= MAX_SHOWN:
        return text
    half = MAX_SHOWN // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


class ToolLoop:
    """One conversation. `tool_calls` counts, `skill_used` says whether the skill was read."""

    def __init__(
        self,
        ask: Callable[[Question], Said],
        hands: Hands,
        trace: Trace,
        skill: Skill | None,
        command_s: float,
    ) -> None:
        self._ask = ask
        self._hands = hands
        self._trace = trace
        self._command_s = command_s
        self._signs = _signs_of(skill)
        self.tool_calls = 0
        self.skill_used: bool | None = None if skill is None else False

    def run(self, question: Question, prompt: str, max_turns: int) -> None:
        """Talk until the model is done. Raises: End, SandboxFailure."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        self._trace.add("start", system=question.system, prompt=prompt)
        cuts = 0
        for _ in range(max_turns):
            said = self._ask(question._replace(messages=messages))
            self._trace.add("answer", stop=said.stop.name.lower(), content=said.blocks)
            cuts = cuts + 1 if said.stop is Stop.CUT else 0
            results = self._results(said, cuts)
            if not results:
                return
            if said.blocks:  # an answer may be cut before it began
                messages.append({"role": "assistant", "content": list(said.blocks)})
            messages.append({"role": "user", "content": results})
        raise End(Failure.AGENT_TURNS, f"{max_turns} turns")

    def _results(self, said: Said, cuts: int) -> list[dict[str, Any]]:
        """Return what to answer, nothing when the model is done. Raises: End, SandboxFailure."""
        calls = [block for block in said.blocks if block["type"] == "tool_use"]
        match said.stop:
            case Stop.REFUSED:
                raise End(Failure.AGENT_REFUSED)
            case Stop.FULL:
                raise End(Failure.AGENT_TURNS, "the context of the model is full")
            case Stop.CUT if cuts > MAX_CUTS:
                raise End(Failure.AGENT_TURNS, f"{cuts} answers in a row were cut at the most tokens")
            case Stop.CUT:  # what it wants to do may be cut too
                why = "Not done: your answer was cut at the most tokens. Go on in smaller steps."
                return [_result(call, why, is_error=True) for call in calls] or [
                    {"type": "text", "text": why}
                ]
        return [self._use(call) for call in calls]

    def _use(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a call asks for. Raises: End, SandboxFailure."""
        self.tool_calls += 1
        try:
            told, is_error = self._do(str(call["name"]), call["input"])
        except FileProblem as problem:
            told, is_error = str(problem), True
        told = self._trace.mask(shorten(told)) or "[no output]"
        self._note_skill(told)
        self._trace.add("tool", id=call["id"], is_error=is_error, output=told)
        return _result(call, told, is_error=is_error)

    def _do(self, name: str, asked: object) -> tuple[str, bool]:
        if not isinstance(asked, Mapping):
            raise FileProblem("the input of a tool is an object")
        if name == editor.NAME:
            return editor.edit(self._hands, asked), False
        if name != BASH["name"]:
            raise FileProblem(f"there is no tool `{name}`")
        if asked.get("restart"):
            return "Each command has a new shell.", False
        return self._bash(asked.get("command"))

    def _bash(self, command: object) -> tuple[str, bool]:
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise FileProblem("`command` is missing, or no text")
        line = _WITH_BASH.format(shlex.quote(command))
        if len(line.encode()) > MAX_COMMAND_BYTES:
            raise FileProblem("the command is too long; write a file first")
        result = self._hands.run(line, self._command_s)
        output = shorten(result.output)
        if result.limit is Limit.CLOCK:
            return f"{output}\n[ended: it took longer than {self._command_s:g} s]", True
        return (f"{output}\n[exit code {result.exit_code}]" if result.exit_code else output), False

    def _note_skill(self, told: str) -> None:
        if self.skill_used is False:
            seen = sum(line in told for line in self._signs)
            self.skill_used = 0 < min(SIGNS, len(self._signs)) <= seen


def _signs_of(skill: Skill | None) -> tuple[str, ...]:
    """Return the different lines of a skill's body that are long enough to be its own."""
    lines = dict.fromkeys(line.strip() for line in skill.body.splitlines()) if skill is not None else {}
    return tuple(line for line in lines if len(line) >= 12) or tuple(filter(None, lines))


def _result(call: Mapping[str, Any], told: str, *, is_error: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": told, "is_error": is_error}
