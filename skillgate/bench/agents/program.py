"""What is particular to one agent program: how it is started, and how its output reads. Pure.

`cli_agent` drives it: it serves the meter on the loopback of the sandbox, writes the files, runs
the command, and hands the output over. Money and tokens are the meter's; what the program says of
them is a cross-check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from skillgate.bench.failure import Failure


class Setting(NamedTuple):
    """Where and with what a program runs. Paths are as commands in the sandbox see them.

    `program` is the folder in which its packages are installed, `prompt` a file with the prompt, `home` the
    folder $HOME. `meter` is `http://127.0.0.1:port` and `token` what opens it, instead of a key.
    """

    model: str
    meter: str
    token: str
    program: str
    prompt: str
    home: str
    max_turns: int


class Launch(NamedTuple):
    """A command for `sh -c` in the repository, variables beside the sandbox's, files below $HOME."""

    command: str
    env: Mapping[str, str]
    files: Mapping[str, str]


class Reading(NamedTuple):
    """What the output of a program says; `usd_micros` is its own figure, None where it has none.

    `failure` is what it says itself: AGENT_TURNS, AGENT_REFUSED, AGENT_CRASH (an end without a result),
    API_*; None when it finished. What the meter knows goes before it. `skill_used` None: nobody can tell.
    """

    failure: Failure | None = None
    detail: str = ""
    skill_used: bool | None = None
    turns: int = 0
    tool_calls: int = 0
    denials: int = 0
    usd_micros: int | None = None


class Program(Protocol):
    """One agent program."""

    @property
    def name(self) -> str:
        """Return what `run.agent` and `agents install` call it."""

    @property
    def provider(self) -> str:
        """Return the kind of provider that it talks to: anthropic, openai or gemini."""

    @property
    def skill_folders(self) -> tuple[str, ...]:
        """Return the folders of a repository in which it looks for skills; one is enough."""

    @property
    def counts_turns(self) -> bool:
        """Say whether it stops by itself after `max_turns`."""

    @property
    def memory_mb(self) -> int:
        """Return what it takes of memory itself; the commands of a task get their own beside it."""

    def launch(self, setting: Setting) -> Launch:
        """Return how to start it, with nothing of this machine and nothing that differs between arms."""

    def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
        """Read its output, line by line (stdout and stderr as they came, perhaps cut at any place).

        Args: skill: the name of the folder of the installed skill, None in an arm without one.
        """
