"""GateReport -> the same content as the comment, for a terminal.

Built with rich, returned as text; no escape codes unless asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from skillgate.core import SCRIPTED_LABEL, Decision, Finding, GateReport, Report, Verdict
from skillgate.report import costs, rows, wording
from skillgate.report.escape import clean, last_lines, no_commands
from skillgate.values import FailOn, Severity

_STYLES = {
    Decision.MERGE: "bold green",
    Decision.NOT_RUN: "bold",
    Decision.INCONCLUSIVE: "bold yellow",
    Decision.HOLD: "bold yellow",
    Decision.BLOCK: "bold red",
}
_LEVELS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def render(report: GateReport, width: int = 100, color: bool = False) -> str:
    """Write the report in `width` columns."""
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    _print(console, report)
    return no_commands("\n".join(line.rstrip() for line in out.getvalue().split("\n")))


def _print(console: Console, gate: GateReport) -> None:
    several = len(gate.reports) > 1
    verdict = wording.headline(gate)
    _verdict(console, verdict)
    label = f"{SCRIPTED_LABEL}. " if gate.is_scripted else ""
    console.print(Text.assemble((label, "bold magenta"), clean(wording.consequence(gate))))
    for note in gate.notes:
        console.print(Text(clean(f"Note: {note}"), "yellow"))
    if several:
        _overview(console, gate)
    for report in rows.worst_first(gate):
        console.print()
        console.print(Rule(clean(report.skill), align="left"))
        if several:
            _verdict(console, report.verdict)
        _skill(console, report, (report.verdict if several else verdict).reasons[1:], gate.fail_on)
    _footer(console, gate)


def _verdict(console: Console, verdict: Verdict) -> None:
    word = (verdict.decision.upper(), _STYLES[verdict.decision])
    console.print(Text.assemble(word, ": ", clean(wording.why(verdict))))


def _overview(console: Console, gate: GateReport) -> None:
    grid = Table.grid(padding=(0, 2))
    for report in rows.worst_first(gate):
        grid.add_row(Text(report.verdict.decision, _STYLES[report.verdict.decision]), clean(report.skill))
        pair = rows.judged(report)
        if pair:
            grid.add_row(wording.label(report), clean(wording.in_short(pair.quality, pair.cost)))
    console.print()
    console.print(grid)


def _skill(console: Console, report: Report, reasons: Sequence[str], fail_on: FailOn) -> None:
    _numbers(console, report)
    _bullets(console, [*reasons, *rows.small_print(report)])
    _findings(console, report, fail_on)
    _tasks(console, report)
    _losses(console, report)
    _heading(console, "What it costs", report, costs.cost_lines(report))
    _bullets(console, costs.cost_lines(report))


def _heading(console: Console, title: str, report: Report, content: object) -> None:
    if content:
        label = f" ({wording.label(report)})" if wording.label(report) else ""
        console.print(Text(f"\n{clean(title)}{label}", style="bold"))


def _numbers(console: Console, report: Report) -> None:
    pair = rows.judged(report)
    console.print(Text(clean(wording.about(report, pair.quality if pair else None))))
    _heading(console, "Numbers", report, pair)
    if pair is not None:
        titles = (*pair.quality.arms, "change", wording.interval_title(pair.quality))
        _table(console, ("", *titles), rows.numbers(pair))


def _tasks(console: Console, report: Report) -> None:
    tasks = rows.tasks(report)
    _heading(console, "Tasks", report, tasks)
    if tasks:
        lines = [(f"{task} ({mark})" if mark else task, *cells) for task, mark, *cells in tasks]
        _table(console, ("task", *(rows.arms_of(report) or ()), "points", "cost", "runs"), lines)


def _losses(console: Console, report: Report) -> None:
    losses = rows.losses(report)
    _heading(console, f"Graders that pass less often: {rows.compared(report)}", report, losses)
    for loss in losses:
        graders = (f"{grader.name} {grader.base} → {grader.head}" for grader in loss.graders)
        _bullets(console, [f"{loss.task}: {', '.join(graders)}"])
        if loss.output:
            output = Text("\n".join(last_lines(loss.output)), style="dim")
            console.print(Padding(output, (0, 0, 0, 4)))


def _findings(console: Console, report: Report, fail_on: FailOn) -> None:
    if report.findings:
        title = f"\nFindings: {wording.tally(report.findings)} (fail-on: {fail_on})"
        console.print(Text(title, style="bold"))
    for finding in rows.severest_first(report.findings):
        _finding(console, finding)


def _finding(console: Console, finding: Finding) -> None:
    level = (finding.severity.value, _LEVELS[finding.severity])
    console.print(Text.assemble(level, f" {clean(str(finding.where))} [{clean(finding.rule)}]"))
    for remark in (finding.statement, finding.hint, finding.evidence):
        if remark:
            console.print(Padding(Text(clean(remark)), (0, 0, 0, 4)))


def _footer(console: Console, gate: GateReport) -> None:
    console.print()
    console.print(Rule())
    money = costs.total(gate.spend) if len(gate.reports) > 1 else ""
    if money:
        console.print(Text(money))
    facts = " · ".join(f"{clean(name)} {clean(value)}" for name, value in wording.footer(gate))
    console.print(Text(facts, style="dim"))


def _bullets(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        grid = Table.grid(padding=(0, 1))
        grid.add_row("-", Text(clean(line)))
        console.print(grid)


def _table(console: Console, titles: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for index, title in enumerate(titles):
        table.add_column(clean(title), justify="right" if index else "left", overflow="fold")
    for line in lines:
        table.add_row(*(clean(cell) for cell in line))
    console.print(table)
