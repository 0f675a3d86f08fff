"""The options that `gate`, `run` and `plan` share, and what a gate makes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from skillgate.gate.pipeline import Options

Command = Callable[..., Any]


def skill_options(command: Command) -> Command:
    """Add what a command for one skill takes."""
    command = click.option("--against", default="none", help="none, a git revision, or a skill folder.")(
        command
    )
    return click.option("--skill", required=True, type=click.Path(path_type=Path), help="The skill folder.")(
        command
    )


def run_options(command: Command) -> Command:
    """Add what every command that runs tasks takes."""
    options = (
        click.option("--config", help="The configuration; of a range, as it is at the base. [skillgate.yml]"),
        click.option(
            "--suite", "suites", multiple=True, help="Judge with this suite (a folder, or builtin:NAME)."
        ),
        click.option("--agent", help="The agent that works on the tasks."),
        click.option("--model", help="The model under test."),
        click.option("--script", help="The file that the scripted agent plays."),
        click.option("--budget-usd", type=float, help="The hard cap of all runs together."),
        click.option("--repeats", type=int, help="Repeats of every task in every arm, at most."),
        click.option("--sandbox", type=click.Choice(["docker", "local"]), help="Where the agent works."),
        click.option("--image", help="The Docker image of the sandbox."),
        click.option("--seed", type=int, help="The seed of the plan, the bootstrap and the scripted agent."),
        click.option("--workers", type=int, help="Runs at the same time."),
        click.option("--allow-unsafe-local", is_flag=True, help="Let a model run commands on this machine."),
        click.option("--no-cache", is_flag=True, help="Reuse no runs of earlier gates."),
        click.option(
            "--resume", is_flag=True, help="Continue an interrupted gate; nothing finished runs again."
        ),
        click.option(
            "--out", type=click.Path(path_type=Path), default=Path(".skillgate"), help="Where the files go."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_RUN_KEYS = ("agent", "script", "budget_usd", "repeats", "sandbox", "image", "seed", "workers")


def from_here(arguments: dict[str, Any]) -> None:
    """Spell files and suites that lie in the current folder so that they hold from the root."""
    here = Path.cwd()
    for name in ("script", "config"):
        if arguments.get(name) and (here / arguments[name]).exists():
            arguments[name] = str(here / arguments[name])
    suites = arguments["suites"]
    arguments["suites"] = tuple(str(here / name) if (here / name).exists() else name for name in suites)


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return where what can be had again is kept; None for a user without a home."""
    try:
        home = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(home, "skillgate")


def checkouts(environ: Mapping[str, str]) -> Path | None:
    """Return the folder for the repositories that suites pin."""
    cache = cache_folder(environ)
    return cache and cache / "checkouts"


def options_of(
    arguments: dict[str, Any],
    environ: Mapping[str, str],
    comment_id: str = "default",
    why_not: str = "",
) -> Options:
    """Turn what the command line was given, and the environment, into the options of a gate."""
    from skillgate.gate.agents import KEY_NAMES
    from skillgate.gate.pipeline import Options
    from skillgate.values import Secret

    keys = {kind: environ.get(name, "").strip() for kind, name in KEY_NAMES.items()}
    run = {key: arguments[key] for key in _RUN_KEYS if arguments.get(key) is not None}
    if arguments.get("model"):
        run["models"] = (arguments["model"],)
    if arguments.get("no_cache"):
        run["cache_days"] = 0
    return Options(
        out=arguments["out"],
        config=arguments.get("config"),
        why_not=why_not,
        run=run,
        suites=tuple(arguments.get("suites", ())),
        resume=arguments.get("resume", False),
        allow_unsafe_local=arguments.get("allow_unsafe_local", False),
        comment_id=comment_id,
        python_bin=Path(sys.executable).parent,
        cache=cache_folder(environ),
        installs_agent=arguments.get("installs_agent", False),
        journal_key=Secret(environ.get("SKILLGATE_JOURNAL_KEY", "")),
        keys={kind: Secret(key) for kind, key in keys.items() if key},
    )
