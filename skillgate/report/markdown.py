"""GateReport -> the comment on the pull request.

The first screen is what an author reads in ten seconds: verdict, why, pass ratio, cost. What
follows says where it comes from. Everything from outside goes through `escape`; the whole
stays under GitHub's limit by cutting rows, which it says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import quote

from skillgate.core import Finding, GateReport, Report
from skillgate.report import costs, opening, rows, wording
from skillgate.report.escape import code, fenced, html_code, prose, row
from skillgate.report.opening import ICONS
from skillgate.values import FailOn, Severity, Struct

BUDGET = 60_000
MAX_NOTES = 5
MAX_OVERVIEW = 12_000
MIN_SECTION = 4_000
MAX_GRADERS = 6
_NOTE_ROOM = 400

_LEVELS = {Severity.ERROR: "🟥", Severity.WARNING: "🟧", Severity.NOTE: "🟦"}


class Links(Struct, kw_only=True):
    """Where links go: `blob_url` ends with the head SHA, `report_url` is the full report."""

    blob_url: str = ""
    report_url: str = ""


def marker(comment_id: str = "default") -> str:
    """Return the first line of the comment, by which it is found again."""
    return f"<!-- skillgate:report:v1 id={quote(comment_id, safe=' /:@+', errors='replace')} -->"


def render(report: GateReport, *, comment_id: str = "default", links: Links | None = None) -> str:
    """Write the comment: at most `BUDGET` characters, the marker on its first line."""
    links = links or Links()
    several = len(report.reports) > 1
    top = [
        f"{marker(comment_id)}\n{opening.headline(report)}",
        opening.consequence(report),
        opening.next_step(report),
    ]
    top += [f"⚠️ {prose(note)}" for note in report.notes[:MAX_NOTES]]
    top += [_overview(report, links)] if several else []
    end = _footer(report, links)
    room = BUDGET - len(_text([*top, end])) - _NOTE_ROOM
    more = wording.headline(report).reasons[1:]
    if several:
        body = _folded(report, room, links)
    elif report.reports:
        body = [_section(report.reports[0], report.fail_on, more, room, links)]
    else:
        body = [_bullets(more, room, links)]
    return _text([*top, *body, end]) + "\n"


def _text(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block)


def _bullets(lines: Iterable[str], room: int, links: Links) -> str:
    return _cut("", [f"- {prose(line)}" for line in lines], room, links)


# --- first screen -----------------------------------------------------------------


def _overview(gate: GateReport, links: Links) -> str:
    reports = rows.worst_first(gate)
    judged = [report for report in reports if rows.judged(report)]
    labels = {wording.label(report) for report in judged}
    arms = {rows.compared(report) for report in judged}
    label = f" ({labels.pop()})" if len(labels) == 1 and "" not in labels else ""
    compared = f", {prose(arms.pop())}" if len(arms) == 1 else ""
    head = row("skill", "verdict", f"pass ratio{compared}{label}", "cost", "findings")
    head += "\n|---|---|---|---|---|"
    each = [_overview_row(report, not label, not compared) for report in reports]
    return _cut(head, each, MAX_OVERVIEW, links)


def _overview_row(report: Report, with_label: bool, with_arms: bool) -> str:
    pair = rows.judged(report)
    numbers, cost = rows.NOTHING, rows.NOTHING
    if pair:
        label = f"**{wording.label(report)}**<br>" if with_label and wording.label(report) else ""
        arms = f"{prose(rows.compared(report))}: " if with_arms else ""
        numbers = label + arms + wording.ratios(pair.quality)
        cost = f"{wording.times(pair.cost.delta)}{wording.bracket(pair.cost)}" if pair.cost else cost
    verdict = f"{ICONS[report.verdict.decision]} {report.verdict.decision}"
    return row(code(report.skill), verdict, numbers, cost, wording.tally(report.findings))


# --- one skill --------------------------------------------------------------------


def _folded(gate: GateReport, room: int, links: Links) -> list[str]:
    """Fold each skill, the worst open; skills that do not fit are counted."""
    reports = rows.worst_first(gate)
    blocks: list[str] = []
    for index, report in enumerate(reports):
        share = min(room, max(MIN_SECTION, room // (len(reports) - index)))
        head = _summary(report, is_open=index == 0)
        told = opening.is_numbers(gate) and report is rows.decisive(gate)  # the first reason is on top
        inner = _section(report, gate.fail_on, report.verdict.reasons[told:], share - len(head) - 20, links)
        block = _text([head, inner, "</details>"])
        if len(block) > room:
            return [*blocks, _cut_note(len(reports) - index, "skill", links)]
        blocks.append(block)
        room -= len(block) + 2
    return blocks


def _summary(report: Report, is_open: bool) -> str:
    decision, pair = report.verdict.decision, rows.judged(report)
    change = f", {wording.points(pair.quality.delta)} points" if pair else ""
    label = f" ({wording.label(report)})" if wording.label(report) else ""
    title = f"{ICONS[decision]} {html_code(report.skill)} <b>{decision}</b>{change}{label}"
    return f"<details{' open' if is_open else ''}>\n<summary>{title}</summary>"


def _section(report: Report, fail_on: FailOn, reasons: Iterable[str], room: int, links: Links) -> str:
    """Write one skill. Rows are cut to fit `room`: tasks may take half of it, then the graders."""
    why = _bullets([*reasons, *rows.small_print(report)], room // 4, links)
    numbers = _text([_numbers(report), why])
    room -= len(numbers)
    cost = _bullets(costs.cost_lines(report), room // 4, links)
    cost = _text([_title("What it costs", report), cost]) if cost else ""
    tasks = _tasks(report, (room - len(cost)) // 2, links)
    losses = _losses(report, (room - len(cost + tasks)) // 2, links)
    findings = _findings(report, fail_on, room - len(cost + tasks + losses), links)
    return _text([numbers, findings, tasks, losses, cost])


def _title(title: str, report: Report) -> str:
    label = wording.label(report)
    return f"#### {title} ({label})" if label else f"#### {title}"


def _numbers(report: Report) -> str:
    pair = rows.judged(report)
    about = prose(wording.about(report, pair.quality if pair else None))
    if pair is None:
        return about
    label = f" **{wording.label(report)}**" if wording.label(report) else ""
    arms = [code(arm) for arm in pair.quality.arms]
    table = [row("", *arms, "change", wording.interval_title(pair.quality)), "|---|--:|--:|--:|--:|"]
    table += [row(n.what, n.base, n.head, f"**{n.change}**", n.interval) for n in rows.numbers(pair)]
    return _text([about + label, "\n".join(table)])


def _tasks(report: Report, room: int, links: Links) -> str:
    arms = [code(arm) for arm in rows.arms_of(report) or ()]
    head = row("task", *arms, "points", "cost", "runs") + "\n|---|--:|--:|--:|--:|--:|"
    return _block(_title("Tasks", report), head, [_task(task) for task in rows.tasks(report)], room, links)


def _task(task: rows.TaskRow) -> str:
    name = f"{code(task.task)} ⚠️ {task.mark}" if task.mark else code(task.task)
    return row(name, task.base, task.head, f"**{task.points}**", task.cost, task.runs)


def _losses(report: Report, room: int, links: Links) -> str:
    title = _title(f"Graders that pass less often: {prose(rows.compared(report))}", report)
    return _block(title, "", [_loss(loss) for loss in rows.losses(report)], room, links)


def _loss(loss: rows.Loss) -> str:
    graders = [f"{code(grader.name)} {grader.base} → {grader.head}" for grader in loss.graders[:MAX_GRADERS]]
    more = len(loss.graders) - MAX_GRADERS
    graders += [f"and {more} more"] if more > 0 else []
    output = fenced(loss.output).split("\n") if loss.output else []
    lines = (f"  {shown}".rstrip() for shown in output)
    return "\n".join([f"- {code(loss.task)}: {', '.join(graders)}", *lines])


def _findings(report: Report, fail_on: FailOn, room: int, links: Links) -> str:
    title = f"#### Findings: {wording.tally(report.findings)} (fail-on: {fail_on})"
    found, told = [], set[tuple[str, str]]()
    for finding in rows.severest_first(report.findings):
        remarks = {(finding.rule, text) for text in (finding.hint, finding.evidence)}
        found.append(_finding(finding, links, told))
        told |= remarks
    return _block(title, "", found, room, links)


def _finding(finding: Finding, links: Links, told: Collection[tuple[str, str]]) -> str:
    """Write a finding; what its rule has said already under another one is not said again."""
    place = code(str(finding.where))
    url = _line_url(finding, links)
    where = f"[{place}]({url})" if url else place
    level = f"{_LEVELS[finding.severity]} {finding.severity}"
    line = f"- {level} {where} {code(finding.rule)}: {prose(finding.statement)}"
    remarks = [text for text in (finding.hint, finding.evidence) if text and (finding.rule, text) not in told]
    return "<br>".join([line, *(prose(text, 300) for text in remarks)])


def _line_url(finding: Finding, links: Links) -> str:
    """Link to the line, which GitHub shows only in the plain view; a path that climbs gets no link."""
    if not links.blob_url or {".", ".."} & set(finding.where.path.split("/")):
        return ""
    path = quote(finding.where.path, errors="replace")
    return f"{links.blob_url.rstrip('/')}/{path}?plain=1#L{finding.where.line}"


# --- footer and cuts --------------------------------------------------------------


def _footer(gate: GateReport, links: Links) -> str:
    money = costs.total(gate.spend) if len(gate.reports) > 1 else ""
    total = f"{prose(money)} " if money else ""
    facts = " · ".join(f"{prose(name, 40)} {code(value)}" for name, value in wording.footer(gate))
    full = f" · [full report]({links.report_url})" if links.report_url else ""
    return f"---\n{total}<sub>{facts}{full}</sub>"


def _block(title: str, head: str, lines: list[str], room: int, links: Links) -> str:
    return _text([title, _cut(head, lines, room - len(title), links)]) if lines else ""


def _cut(head: str, lines: list[str], room: int, links: Links) -> str:
    """Keep the lines that fit in `room`, and say how many do not."""
    room -= len(head) + _NOTE_ROOM
    kept = 0
    while kept < len(lines) and len(lines[kept]) < room:
        room -= len(lines[kept]) + 1
        kept += 1
    shown = "\n".join([head, *lines[:kept]]) if head else "\n".join(lines[:kept])
    return _text([shown if kept else "", _cut_note(len(lines) - kept, "row", links)])


def _cut_note(number: int, noun: str, links: Links) -> str:
    if not number:
        return ""
    full = f"see the [full report]({links.report_url})" if links.report_url else "see report.json"
    return f"*{wording.count(number, noun)} cut to stay under GitHub's limit: {full}.*"
