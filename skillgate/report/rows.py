"""Report -> the rows of the tables, as plain text in the order to show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from skillgate.core import ArmPair, Comparison, Finding, GateReport, Grade, Metric, Report, Run, TaskDelta
from skillgate.report import statistics, wording
from skillgate.report.wording import dollars, interval, percent, points, times

NOTHING = "–"
MAX_OUTPUTS = 3


class Pair(NamedTuple):
    """What is known about two arms. Quality always has at least one scored pair."""

    quality: Comparison
    cost: Comparison | None


def arms_of(report: Report) -> ArmPair | None:
    """Return the two arms that the verdict is about."""
    found = report.comparison(Metric.PASS_RATIO)
    return found.arms if found else None


def judged(report: Report) -> Pair | None:
    """Return the arms that the verdict is about, None when no pair of runs has a score."""
    return next((pair for pair in _pairs(report) if pair.quality.arms == arms_of(report)), None)


def _pairs(report: Report) -> list[Pair]:
    scored = {(c.metric, c.arms): c for c in reversed(report.comparisons) if c.n_pairs}
    return [
        Pair(found, scored.get((Metric.COST_RATIO, arms)))
        for (metric, arms), found in scored.items()
        if metric is Metric.PASS_RATIO
    ]


def worst_first(gate: GateReport) -> list[Report]:
    """Return the reports, the worst verdict first."""
    return sorted(gate.reports, key=lambda report: (-report.verdict.decision.rank, report.skill))


def decisive(gate: GateReport) -> Report | None:
    """Return the skill whose first reason is the verdict's, None where the gate has one of its own."""
    first = wording.why(gate.verdict)
    for report in worst_first(gate):
        reason = wording.why(report.verdict)
        if report.verdict.decision is gate.verdict.decision and first in (
            reason,
            f"{report.skill}: {reason}",
        ):
            return report
    return None


def severest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, errors first, then what is new, then by place."""
    return sorted(findings, key=lambda finding: finding.order)


def compared(report: Report) -> str:
    """Name the two arms of the tables."""
    return " → ".join(f"`{arm}`" for arm in arms_of(report) or ())


class Number(NamedTuple):
    """One compared number, in words."""

    what: str
    base: str
    head: str
    change: str
    interval: str


def numbers(pair: Pair) -> list[Number]:
    """Return the pass ratio for this suite and for tasks like these, and the cost."""
    found, cost = pair.quality, pair.cost
    change = f"{points(found.delta)} points"
    spread = interval(found.interval, found.metric)
    rows = [
        Number("pass ratio, this suite (judged)", percent(found.base), percent(found.head), change, spread)
    ]
    if found.generalised:
        wide = interval(found.generalised, found.metric)
        rows.append(Number("pass ratio, tasks like these", "", "", change, wide))
    if cost:
        spread = interval(cost.interval, cost.metric)
        base, head = dollars(cost.base, cost.head), dollars(cost.head, cost.base)
        rows.append(Number("cost per run", base, head, times(cost.delta), spread))
    return rows


def small_print(report: Report) -> list[str]:
    """Return how sure the numbers are, the plain numbers beside them, and the other arms."""
    pair = judged(report)
    lines = []
    if pair is not None:
        if pair.quality.interval is None:
            lines = ["No interval: with one scored run per task and arm the noise is not known."]
        lines += _worth(report, pair)
    else:
        lines = [statistics.looks(report, None)]
    others = [other for other in _pairs(report) if other.quality.arms != arms_of(report)]
    lines += [f"Also {wording.in_short(other.quality, other.cost)}." for other in others]
    return [line for line in lines if line]


def _worth(report: Report, pair: Pair) -> list[str]:
    quality = pair.quality
    return [
        statistics.looks(report, quality),
        statistics.holm(report, quality),
        statistics.sign_flip(quality),
        statistics.steps([c for c in report.comparisons if c.arms == quality.arms]),
        statistics.plain_numbers(*pair),
        statistics.calibration(report.calibration),
    ]


class TaskRow(NamedTuple):
    """One task in both arms, in words; `mark` is empty unless something is wrong."""

    task: str
    mark: str
    base: str
    head: str
    points: str
    cost: str
    runs: str


def tasks(report: Report) -> list[TaskRow]:
    """Return the losses, then the gains, the greatest first; then what did not change or has no score."""
    found = report.comparison(Metric.PASS_RATIO)
    if found is None:
        return []
    pair = judged(report)
    costs = {task.task: task for task in pair.cost.by_task} if pair and pair.cost else {}
    scored = [task for task in found.by_task if task.base_values and task.head_values]
    scored.sort(key=lambda task: (task.delta >= 0, -abs(task.delta), task.task))
    silent = set(report.plan.tasks if report.plan else ()) - {task.task for task in scored}
    return [_task(task, costs.get(task.task)) for task in scored] + [
        TaskRow(task, "no scored pair", NOTHING, NOTHING, NOTHING, NOTHING, "0") for task in sorted(silent)
    ]


def _task(task: TaskDelta, cost: TaskDelta | None) -> TaskRow:
    known = cost is not None and cost.base_values and cost.head_values and cost.base
    return TaskRow(
        task.task,
        "collapsed" if task.collapsed else "",
        percent(task.base),
        percent(task.head),
        points(task.delta),
        times(cost.head / cost.base) if cost and known else NOTHING,
        f"{len(task.base_values)} + {len(task.head_values)}",
    )


class Grader(NamedTuple):
    """How often one grader passed in either arm."""

    name: str
    base: str
    head: str


class Loss(NamedTuple):
    """The graders of a task that pass less often, the worst first; `output` is what that one said."""

    task: str
    graders: tuple[Grader, ...]
    output: str


def losses(report: Report) -> list[Loss]:
    """Return the tasks whose graders lost most, first: what the author has to look at."""
    before, after = (_grades(report.runs, arm) for arm in arms_of(report) or ("", ""))
    drops = {key: _share(before[key]) - _share(after[key]) for key in before.keys() & after.keys()}
    fallen: dict[str, list[str]] = {}
    for task, name in sorted(drops, key=lambda key: (-drops[key], key)):
        if drops[task, name] > 0:
            fallen.setdefault(task, []).append(name)
    found: list[Loss] = []
    for task in sorted(fallen, key=lambda task: -sum(drops[task, name] for name in fallen[task])):
        names = fallen[task]
        shown = {loss.output for loss in found} | {""}
        said = next((g.detail for g in after[task, names[0]] if not g.passed and g.detail.strip()), "")
        output = said if said not in shown and len(shown) <= MAX_OUTPUTS else ""
        graders = (Grader(name, _score(before[task, name]), _score(after[task, name])) for name in names)
        found.append(Loss(task, tuple(graders), output))
    return found


def _grades(runs: Iterable[Run], arm: str) -> dict[tuple[str, str], list[Grade]]:
    found: dict[tuple[str, str], list[Grade]] = {}
    for run in runs:
        if run.cell.arm == arm and run.outcome.is_scored:
            for grade in run.grades:
                found.setdefault((run.cell.task, grade.grader), []).append(grade)
    return found


def _share(grades: Sequence[Grade]) -> float:
    return sum(grade.passed for grade in grades) / len(grades)


def _score(grades: Sequence[Grade]) -> str:
    return f"{sum(grade.passed for grade in grades)}/{len(grades)}"
