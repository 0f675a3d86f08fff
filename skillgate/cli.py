"""The command line: parse, build, run. Settings from the environment are read here alone; the only exit.

Every command imports what it needs when it runs, so `lint` starts without Docker or scipy.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from skillgate import __version__
from skillgate.calibrating import calibrate
from skillgate.errors import ExitCode, Interrupted, SkillgateError, UsageError
from skillgate.init import init
from skillgate.output import show as _print
from skillgate.run_options import cache_folder, checkouts, from_here, options_of, run_options, skill_options

if TYPE_CHECKING:
    from skillgate.bench.check import TaskCheck
    from skillgate.core import GateReport
    from skillgate.github.action import ActionRequest
    from skillgate.linting import Linted
    from skillgate.linting import Request as LintRequest

FORMATS = ("text", "markdown", "json", "sarif")


def entry() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(main(sys.argv[1:]))


def _terminate(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run one command; return its exit code: the one error boundary."""
    try:
        result = cli.main(arguments, prog_name="skillgate", standalone_mode=False, obj=os.environ)
        return int(result or 0)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as problem:
        problem.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SkillgateError as problem:
        _tell(problem)
        return problem.exit_code
    except Exception:  # noqa: BLE001 - the boundary: whatever is left is a bug of ours
        return _report_bug()


def _tell(problem: SkillgateError) -> None:
    from skillgate.report.escape import clean

    # anybody's text: no control codes, and nothing that a runner takes for one of its commands
    first, *more = [clean(line, 2000).replace("##[", "# #[") for line in problem.message.split("\n")]
    lines = [f"skillgate: {first}", *(f"  | {line}" for line in more)]
    lines += [f"  {clean(problem.hint, 2000)}"] if problem.hint else []
    click.echo("\n".join(lines), err=True)


def _report_bug() -> int:
    with tempfile.NamedTemporaryFile("w", prefix="skillgate-bug-", suffix=".log", delete=False) as log:
        log.write(f"skillgate {__version__}, Python {sys.version}\n\n{traceback.format_exc()}")
    click.echo(f"skillgate: a bug in skillgate stopped it; the traceback is in {log.name}", err=True)
    return ExitCode.BUG


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def cli() -> None:
    """Lint Agent Skills, run them against tasks, and gate their pull requests."""


cli.add_command(calibrate)
cli.add_command(init)


@cli.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "style", type=click.Choice(["text", "json", "sarif", "github"]), default="text")
@click.option("--fail-on", type=click.Choice(["none", "note", "warning", "error"]), help="Default: error.")
@click.option("--level", type=click.Choice(["note", "warning", "error"]), help="Show these and above only.")
@click.option("--changed", is_flag=True, help="Only skills that differ from --base.")
@click.option("--base", help="What --changed compares with. Default: the main branch, else the parent.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Known findings, which are not shown.")
@click.option("--write-baseline", type=click.Path(path_type=Path), help="Write what is found to this file.")
@click.option("--fix", is_flag=True, help="Mend in SKILL.md what is safe, then show what is left.")
@click.option("--no-cache", is_flag=True, help="Check all again, also what has not changed.")
def lint(paths: tuple[Path, ...], style: str, fail_on: str | None, **options: Any) -> int:
    """Check skills without running anything. PATH is a skill, or a folder of skills."""
    from skillgate.linting import lint_paths, render, save_baseline
    from skillgate.values import FailOn, Severity

    if options["fix"] and options["write_baseline"]:
        raise UsageError(
            "--fix and --write-baseline do not go together", "Fix first, then write down the rest."
        )
    request = _lint_request(paths, options)
    linted = lint_paths(request)
    while options["fix"] and _mend(linted):
        linted = lint_paths(request)  # what broken YAML hid shows now, and may be mended too
    if options["write_baseline"]:
        _print(save_baseline(linted, options["write_baseline"]))
        return ExitCode.OK
    _print(render(linted, style, Severity(options["level"] or "note")))
    limit = FailOn(fail_on) if fail_on else linted.config.lint.fail_on
    failed = any(limit.catches(finding.severity) for finding in linted.findings)
    return ExitCode.GATE_FAILED if failed else ExitCode.OK


def _mend(linted: Linted) -> bool:
    """Mend what is safe, say so at once, and whether there was any."""
    from skillgate.linting import mend

    mended = False
    for line in mend(linted):
        click.echo(line, err=True)
        mended = True
    return mended


def _lint_request(paths: tuple[Path, ...], options: dict[str, Any]) -> LintRequest:
    from skillgate.gate.sources import root_of
    from skillgate.git import Repository
    from skillgate.linting import Request

    here = Path.cwd()
    root = root_of(here, paths)
    since = options["base"]
    if options["changed"] and since is None:
        since = Repository(root).default_base()
    elif since is not None and not options["changed"]:
        raise UsageError("--base says what --changed compares with", "Add --changed.")
    return Request(
        paths=[here / path for path in paths] or ([] if here == root else [here]),
        root=root,
        since=since,
        baseline=here / options["baseline"] if options["baseline"] else None,
        forget=options["write_baseline"] is not None,
        cache=None if options["no_cache"] else cache_folder(os.environ),
        checkouts=checkouts(os.environ),
    )


@cli.command()
@click.argument("rule_id", required=False)
@click.option("--format", "style", type=click.Choice(["text", "markdown", "json"]), default="text")
@click.option("--check", is_flag=True, help="Try the examples of the rules instead, also of your own.")
def rules(rule_id: str | None, style: str, check: bool) -> int:
    """List the rules, or explain one."""
    from skillgate.config import find_root
    from skillgate.document import like
    from skillgate.gate.sources import FolderSource, read_config, read_every_rule, read_rules, rule_folders
    from skillgate.lint.examples import describe
    from skillgate.lint.pages import render

    source = FolderSource(find_root(Path.cwd()))
    config = read_config(source)
    found = read_every_rule(source, config)
    off = {rule.id for rule in found} - {rule.id for rule in read_rules(source, config)}
    named = tuple(rule for rule in found if rule_id in (None, rule.id))
    if rule_id and not named:
        close = like(rule_id, (rule.id for rule in found))
        hint = f"Did you mean `{close}`?" if close else "List them with `skillgate rules`."
        raise UsageError(f"no rule `{rule_id}`", hint)
    if not check:
        _print(render(named, style, off))
        return ExitCode.OK
    wrong = "".join(describe(named, found, rule_folders(source, config)))
    _print(wrong or f"The examples of {len(named)} rules are right.\n")
    return ExitCode.USAGE if wrong else ExitCode.OK


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--model", help="Price, and with ANTHROPIC_API_KEY count, as this model does.")
@click.option("--input-usd-per-mtok", type=float, help="The price of a million input tokens.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def weigh(folder: Path, model: str | None, input_usd_per_mtok: float | None, style: str) -> None:
    """Show where the tokens of a skill go, and what reading them costs."""
    from skillgate.report.weight import render_json, render_text
    from skillgate.weighing import Request, weigh_folder

    key, base_url = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_BASE_URL")
    request = Request(folder, model, input_usd_per_mtok, key, base_url or None)
    weighing = weigh_folder(request, _tell)
    _print(render_json(weighing) if style == "json" else render_text(weighing))


@cli.group()
def suite() -> None:
    """Work with suites: fixture repositories and their tasks."""


@suite.command("check")
@click.argument("suites", nargs=-1)
@click.option(
    "--sandbox", type=click.Choice(["docker", "local"]), help="Default: run.sandbox of skillgate.yml."
)
@click.option("--image", help="The Docker image. Default: run.image of skillgate.yml.")
@click.option("--workers", type=click.IntRange(1), default=2)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=2,
    help="Grade oracle and no-op so often: finds flaky graders.",
)
def suite_check(
    suites: tuple[str, ...], sandbox: str | None, image: str | None, workers: int, repeat: int
) -> int:
    """Prove a suite: the oracle passes, a no-op, wrong solutions and tampering fail, always the same."""
    from msgspec.structs import replace

    from skillgate.bench.check import check_suite
    from skillgate.config import find_root
    from skillgate.gate.means import make_sandbox
    from skillgate.gate.sources import FolderSource, read_config, read_suites

    run = read_config(FolderSource(find_root(Path.cwd()))).run
    run = replace(run, sandbox=sandbox or run.sandbox, image=image or run.image)
    place = make_sandbox(run, Path(sys.executable).parent)
    broken = 0
    for one in read_suites(FolderSource(Path.cwd()), suites or _known_suites(), checkouts(os.environ)):
        for task in check_suite(one, place, workers, repeat, progress=_print_check):
            broken += bool(task.problems)
    return ExitCode.USAGE if broken else ExitCode.OK


def _print_check(task: TaskCheck) -> None:
    problems = "".join(f"     {problem}\n" for problem in task.problems)
    _print(f"{'FAIL' if task.problems else 'ok  '} {task.task}\n{problems}")


def _known_suites() -> tuple[str, ...]:
    folders = sorted(path.parent for path in Path("fixtures").glob("*/suite.yml"))
    if not folders:
        raise UsageError("no suite below fixtures/", "Name the folder of a suite.")
    return tuple(str(folder) for folder in folders)


@suite.command("list")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def suite_list(style: str) -> None:
    """List the suites that come with skillgate, and those below fixtures/."""
    from skillgate.report.suites import render_json, render_list
    from skillgate.suites import known_suites

    suites = known_suites(Path.cwd(), checkouts(os.environ))
    _print(render_json(suites) if style == "json" else render_list(suites))


@suite.command("show")
@click.argument("name", metavar="SUITE[/TASK]")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def suite_show(name: str, style: str) -> None:
    """Show what a suite asks of an agent, or the prompt and the graders of one task."""
    from skillgate.report.suites import render, render_json
    from skillgate.suites import find_suite

    found = find_suite(name, Path.cwd(), checkouts(os.environ))
    _print(render_json(found) if style == "json" else render(found))


@suite.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path("fixtures"), help="Default: fixtures.")
def suite_new(name: str, into: Path) -> None:
    """Write a small suite to start from; it passes `suite check` at once."""
    from skillgate.bench.scaffold import check_name, new_suite

    check_name(name)
    _print("".join(f"{path}\n" for path in new_suite(into / name)))
    click.echo(f"Prove it with `skillgate suite check {into / name}`.", err=True)


@cli.group()
def agents() -> None:
    """Work with the agent programs of others that skillgate can run."""


@agents.command("list")
def agents_list() -> None:
    """List the agents, and which programs are installed."""
    from skillgate.agents import describe

    _print(describe(cache_folder(os.environ)))


@agents.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def agents_install(names: tuple[str, ...]) -> None:
    """Fetch agent programs of a pinned version with npm, checked by hash."""
    from skillgate.agents import install_all

    for line in install_all(names, cache_folder(os.environ)):
        _print(line)


@cli.command()
@skill_options
@run_options
def plan(skill: Path, against: str, **arguments: Any) -> None:
    """Show what a run would do and cost at most. Spends nothing."""
    from skillgate.gate.pipeline import describe_plan

    _print(describe_plan(*_from_here(skill, against, arguments), options_of(arguments, os.environ)))


@cli.command()
@skill_options
@run_options
def run(skill: Path, against: str, **arguments: Any) -> int:
    """Run the tasks without and with a skill, and judge it."""
    from skillgate.gate.pipeline import gate_skill

    where = _from_here(skill, against, arguments)
    return _finish(gate_skill(*where, options_of(arguments, os.environ), _progress()), arguments["out"])


def _from_here(skill: Path, against: str, arguments: dict[str, Any]) -> tuple[Path, str, Path]:
    """Spell what was named as seen from here so that it holds from the root; return skill, against, root."""
    from skillgate.config import find_root

    here = Path.cwd()
    from_here(arguments)
    against_folder = against != "none" and (here / against).is_dir()
    return here / skill, str(here / against) if against_folder else against, find_root(here)


@cli.command()
@click.option("--base", help="Where the range starts. Default: the main branch, else the parent.")
@click.option("--head", default="HEAD", help="Where it ends.")
@click.option("--repo", type=click.Path(path_type=Path), default=Path(), help="The git repository.")
@run_options
def gate(base: str | None, head: str, repo: Path, **arguments: Any) -> int:
    """Judge every skill that a git range changes: the main job."""
    from skillgate.gate.pipeline import gate_range

    return _finish(
        gate_range(repo, base, head, options_of(arguments, os.environ), _progress()), arguments["out"]
    )


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--format", "style", type=click.Choice(FORMATS), default="text")
def report(path: Path, style: str) -> None:
    """Draw a saved report.json again: no run, no key."""
    from skillgate.report.json import load

    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(
            f"{path}: cannot be read ({problem})", "Name a report.json that a gate left."
        ) from None
    _print(_render(load(content, str(path)), style))


@cli.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("skillgate-demo"), help="Where the files go."
)
@click.option("--scenario", type=click.Choice(["helps", "harms", "inert"]), help="Default: all three.")
def demo(out: Path, scenario: str | None) -> int:
    """Play the main job end to end with the scripted agent: no key, no network, no Docker."""
    from skillgate.demo import SCENARIOS, play

    names = (scenario,) if scenario else tuple(SCENARIOS)
    _print(_render(play(names, out, Path(sys.executable).parent, _progress()), "text"))
    click.echo(f"report.json, comment.md and the journal are in {out}", err=True)
    return ExitCode.OK


@cli.command()
def doctor() -> int:
    """Say what is missing on this machine and how to get it."""
    from skillgate.doctor import examine

    findings = examine()
    for part in findings:
        _print(f"{'ok     ' if part.is_there else 'missing'} {part.name}: {part.says}\n")
    return ExitCode.OK if all(part.is_there for part in findings) else ExitCode.PREREQUISITE


@cli.command()
def action() -> int:
    """Do what action.yml runs: read the event, gate, post."""
    from skillgate.github.action import run_action

    return run_action(os.environ, _gate_request, sys.stdout)


def _gate_request(request: ActionRequest) -> tuple[GateReport, Path]:
    from skillgate.gate.pipeline import gate_all, gate_range

    keys = ("out", "config", "agent", "model", "budget_usd", "sandbox")
    arguments = {key: getattr(request, key) for key in keys} | {"installs_agent": request.setup_agent}
    why_not = "" if request.evaluate else request.reason
    options = options_of(arguments, os.environ, request.comment_id, why_not)
    options = options._replace(names=request.names, notes=request.notes, base_judges=request.base_judges)
    revisions = (request.head,) if request.every else (request.base, request.head)
    run_gate: Any = gate_all if request.every else gate_range
    return run_gate(request.repo, *revisions, options, _progress()), request.out / "report.json"


def _finish(gate_report: GateReport, out: Path) -> int:
    if gate_report.is_partial:
        hint = "Run the same command with --resume to continue."
        raise Interrupted(
            f"interrupted; every finished run is in the journal, the partial report in {out}", hint
        )
    _print(_render(gate_report, "text"))
    click.echo(f"report.json, comment.md and the journal are in {out}", err=True)
    return ExitCode.OK if gate_report.passes else ExitCode.GATE_FAILED


def _render(gate_report: GateReport, style: str) -> str:
    from skillgate.report import json, markdown, sarif, text

    if style == "markdown":
        return markdown.render(gate_report)
    if style == "json":
        return json.dump(gate_report)
    if style == "sarif":
        return sarif.render(finding for report in gate_report.reports for finding in report.findings)
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    return text.render(gate_report, width=width, color=color)


def _progress() -> Any:
    from skillgate.console import ConsoleProgress

    return ConsoleProgress(sys.stderr)
