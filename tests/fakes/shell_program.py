"""An agent program that is a few lines of Python: it asks the meter, and prints events as JSON lines.

A body says what it does, with the names of `_LIBRARY` at hand; it has ended well when it called `end()`.
Run as a module, this file is the command `skillgate` with the agent `shell`, whose body is in $SHELL_BODY.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from skillgate.bench.agents.cli_agent import CliAgent, Installed
from skillgate.bench.agents.program import Launch, Reading, Setting
from skillgate.bench.attempt import Ended, Evaluation, Fairness, attempt
from skillgate.bench.failure import Failure
from skillgate.bench.meter.proxy import Meter, Provider
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.sandbox import Sandbox, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.config import RunConfig
from skillgate.core import Cell
from skillgate.skill import Files, parse
from tests.fakes.metering import HAIKU, KEY, PRICES
from tests.fakes.model_api import ModelApi

_LIBRARY = """\
import http.client, json, os, signal, subprocess, sys, time, urllib.error, urllib.request

METER, TOKEN, MODEL = (os.environ[name] for name in ("METER", "TOKEN", "MODEL"))


def say(type, **event):
    print(json.dumps({"type": type, **event}), flush=True)


def ask(text="Say hello.", **members):
    body = {"model": MODEL, "max_tokens": 1000, "messages": [{"role": "user", "content": text}], **members}
    sent = {"content-type": "application/json", "x-api-key": TOKEN}
    request = urllib.request.Request(METER + "/v1/messages", json.dumps(body).encode(), sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, said = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, said = error.code, error.read()
    except (OSError, http.client.HTTPException):
        status, said = 0, b""
    refused = b'"refusal"' in said
    say("answer", status=status, refused=refused, said=said.decode()[:300])
    return status


def deliver():
    with open("calc/double.py", "w") as file:
        file.write("def double(n):\\n    return 2 * n\\n")


def end(**event):
    say("end", **event)


def fork(work):
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1), os.dup2(null, 2)
        work()
        os._exit(0)


def spend():
    while ask() == 200:
        pass


def spend_for_ever():
    while True:
        ask()


"""

LOCAL = local_sandbox(Path(sys.executable).parent)
SKILL = parse(
    Files.from_map({"SKILL.md": b"---\nname: adder\ndescription: d\n---\nAdd with care.\n"}), "skills/adder"
)
AMPLE = 1_000_000
NORMAL = "ask(); deliver(); end()"
MANY = "for _ in range(5): ask()\ndeliver(); end()"
CRASH = "ask(); deliver(); os.kill(os.getpid(), signal.SIGSEGV)"
HANG = "ask(); deliver(); time.sleep(600)"
HANG_AT_ONCE = "time.sleep(600)"
SPEND = "spend(); sys.exit('no money is left')"
TELL = "ask(); print(TOKEN); say('secret', token=TOKEN, split=TOKEN[:9]); deliver(); end()"
STOP_ON_ERROR = "if ask() != 200: sys.exit(1)\ndeliver(); end()"
LEAVE = "ask(); fork(spend_for_ever); deliver(); end()"
LEAVE_AND_GO = "fork(spend_for_ever); ask(); deliver(); end()"
SILENT = "deliver(); end()"


class ShellProgram:
    """Runs a body. Its output is believed to the word, which no real program's is."""

    name = "shell"
    provider = "anthropic"
    memory_mb = 64
    skill_folders = (".claude/skills",)
    counts_turns = True

    def __init__(self, body: str, command: str = 'exec python3 "$HOME/agent/main.py"') -> None:
        self._body = body
        self._command = command
        self.settings: list[Setting] = []

    def launch(self, setting: Setting) -> Launch:
        self.settings.append(setting)
        env = {"METER": setting.meter, "TOKEN": setting.token, "MODEL": setting.model}
        return Launch(self._command, env, {"agent/main.py": _LIBRARY + self._body + "\n"})

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        events = list(_events(output))
        answers = [one for one in events if one["type"] == "answer"]
        ends = [one for one in events if one["type"] == "end"]
        failure = None if ends else Failure.AGENT_CRASH
        if answers and answers[-1]["refused"]:
            failure = Failure.AGENT_REFUSED
        elif ends and "failure" in ends[-1]:
            failure = Failure(ends[-1]["failure"])
        return Reading(
            failure=failure,
            detail="" if ends else f"exit code {exit_code}",
            skill_used=None if skill is None else any(one["type"] == "skill" for one in events),
            turns=len(answers),
            tool_calls=sum(one["type"] == "tool" for one in events),
            denials=sum(one["type"] == "denied" for one in events),
            usd_micros=ends[-1].get("usd_micros") if ends else None,
        )


def _events(output: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in output:
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "type" in event:
                yield event


class Place(NamedTuple):
    """A suite, and the folder of a program that tries it."""

    suite: Path
    folder: Path

    def play(
        self,
        program: ShellProgram,
        api: ModelApi,
        sandbox: Sandbox = LOCAL,
        *,
        budget: int = AMPLE,
        max_turns: int = 30,
        tokens: int | None = None,
        arm: str = "none",
        url: str = "",
        model: str = HAIKU,
    ) -> Ended:
        """Run one cell."""
        suite = load_suite(self.suite)
        units = {name: (suite, tasks) for name, tasks in suite.units.items()}
        plan = make_plan(
            Wanted(
                list(units), ["none", "head"], repeats=1, seed=1, agent="shell", model=model,
                cap_usd_micros=100 * AMPLE, per_run_usd_micros=budget,
            )
        )  # fmt: skip
        run_config = RunConfig(agent="shell", models=(model,), max_turns=max_turns, per_run_tokens=tokens)
        with closing(Meter(Provider("anthropic", url or api.url, KEY), PRICES.price)) as meter:
            agent = CliAgent(Installed(program, self.folder, "1"), meter, run_config)
            skills = {"none": None, "head": SKILL}
            evaluation = Evaluation(
                "e", "s", plan, units, skills, agent, sandbox, self.folder.parent / "traces"
            )
            (unit,) = units
            ended = attempt(Cell(task=unit, arm=arm, repeat=0), evaluation, Fairness())
            assert (ended.cost_known, agent.open_usd_micros) == (True, 0)
        return ended

    def limit(self, **limits: object) -> None:
        """Change limits of the suite's tasks."""
        path = self.suite / "suite.yml"
        settings = msgspec.yaml.decode(path.read_text())
        settings["limits"] |= {name.replace("_", "-"): value for name, value in limits.items()}
        path.write_bytes(msgspec.yaml.encode(settings))

    def trace(self) -> str:
        """Return what the only run said."""
        (path,) = (self.folder.parent / "traces").rglob("*.log")
        return path.read_text()


class _Pinned(NamedTuple):
    version: str = "1.0"


def shell_agent(folder: Path, program: ShellProgram, patch: Callable[[Any, str, Any], None]) -> None:
    """Let `run.agent: shell` be a program, by what sets an attribute of a module."""
    from skillgate.gate import agents

    folder.mkdir(parents=True, exist_ok=True)
    patch(agents, "programs", lambda: {program.name: program})
    patch(agents, "verify", lambda name, cache: folder)
    patch(agents, "pinned", lambda name: _Pinned())


if __name__ == "__main__":
    from skillgate.cli import entry

    shell_agent(Path(os.environ["SHELL_FOLDER"]), ShellProgram(os.environ["SHELL_BODY"]), setattr)
    sys.argv[0] = "skillgate"
    entry()
