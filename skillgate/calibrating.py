"""`skillgate calibrate`: the command line of an A/A test on a journal's runs.

Imports what it needs when it runs, as `cli` does. The group hands the environment on as its object.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from skillgate.errors import UsageError
from skillgate.output import show
from skillgate.run_options import from_here, options_of, run_options


@click.command()
@click.option("--run", "fresh", is_flag=True, help="First run --skill against itself, within the budget.")
@click.option("--skill", type=click.Path(path_type=Path), help="The skill folder that --run runs.")
@click.option(
    "--splits", type=click.IntRange(min=1), default=10_000, help="Random splits in all. Default: 10,000."
)
@click.option("--scripted", is_flag=True, help="Use runs of the scripted agent, which measure nothing.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
@run_options
@click.pass_obj
def calibrate(
    environ: Mapping[str, str],
    /,
    fresh: bool,
    skill: Path | None,
    splits: int,
    scripted: bool,
    style: str,
    **arguments: Any,
) -> None:
    """Measure how often identical skills are called different on your suite.

    Splits the runs of each skill in the journal of --out at random into two arms, and gates these: an A/A
    test. Spends nothing without --run. --suite, --agent and --model choose among the runs; by default it
    takes those of which there are most. --repeats is what each arm has, by default half of the least runs of
    a task. Leaves calibration.json in --out, which reports cite.
    """
    from skillgate.config import find_root
    from skillgate.gate.calibration import Request, calibrate_journal, run_for, save
    from skillgate.gate.contents import Wanted
    from skillgate.gate.sources import FolderSource, read_config
    from skillgate.report.calibration import dump, render

    if fresh is not (skill is not None):
        raise UsageError("--run and --skill go together", "Name the skill that --run runs against itself.")
    if arguments["repeats"] is not None and arguments["repeats"] < 2:
        raise UsageError("--repeats: an arm of one repeat has no interval", "Give 2 or more.")
    root = find_root(Path.cwd())
    names = tuple(Path(name).name.removeprefix("builtin:") for name in arguments["suites"])
    from_here(arguments)
    options = options_of(arguments, environ)
    config = read_config(FolderSource(root), options.config)
    request = Request(
        options.out,
        Wanted(
            names, arguments["agent"] or (config.run.agent if fresh else None), arguments["model"], scripted
        ),
        config.policy,
        repeats=arguments["repeats"],
        splits=splits,
        key=options.journal_key.reveal().encode(),
        seed=config.run.seed if arguments["seed"] is None else arguments["seed"],
    )
    if fresh and skill is not None:
        from skillgate.console import ConsoleProgress

        request = run_for(request, Path.cwd() / skill, root, options, ConsoleProgress(sys.stderr))
    found = calibrate_journal(request)
    path = save(found.record, options.out)
    show(dump(found.record) if style == "json" else render(found.record, found.notes))
    click.echo(f"the record is in {path}", err=True)
