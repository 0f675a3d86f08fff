"""GateReport -> the first lines of the comment: verdict and numbers, why, and what to do next.

Who reads no further knows these. Everything from outside goes through `escape`.
"""

from __future__ import annotations

from skillgate.core import SCRIPTED_LABEL, Decision, GateReport
from skillgate.report import rows, wording
from skillgate.report.escape import code, prose

ICONS = {
    Decision.MERGE: "✅",
    Decision.NOT_RUN: "⚪",
    Decision.INCONCLUSIVE: "🟡",
    Decision.HOLD: "🟠",
    Decision.BLOCK: "⛔",
}


def headline(gate: GateReport) -> str:
    """Say it in one line: the numbers where they decided, else the first reason."""
    verdict = wording.headline(gate)
    said = _glance(gate) or prose(wording.why(verdict))
    return f"### {ICONS[verdict.decision]} {verdict.decision}: {said}"


def _glance(gate: GateReport) -> str:
    report = rows.decisive(gate)
    pair = rows.judged(report) if report else None
    numbers = wording.glance(*pair, wording.why(report.verdict)) if report and pair else ""
    named = f"{code(report.skill)}: " if report and len(gate.reports) > 1 else ""
    return f"{named}{prose(numbers)}" if numbers else ""


def is_numbers(gate: GateReport) -> bool:
    """Say whether the headline has the numbers, and the deciding sentence stands below it."""
    return bool(_glance(gate))


def consequence(gate: GateReport) -> str:
    """Say what the verdict does, and why where the headline has the numbers instead."""
    label = f"**{SCRIPTED_LABEL}** · " if gate.is_scripted else ""
    report = rows.decisive(gate)
    why = f"{prose(wording.why(report.verdict))} " if report and is_numbers(gate) else ""
    return f"{label}{why}{prose(wording.consequence(gate))}"


def next_step(gate: GateReport) -> str:
    """Say where to look first when the gate fails."""
    report = rows.decisive(gate)
    if gate.passes or report is None:
        return ""
    lost = [task for task in rows.tasks(report) if task.points.startswith("-")]
    look = []
    if wording.is_about_cost(wording.why(report.verdict)):
        look.append("what it costs")
    elif lost:
        tasks = f"{wording.count(len(lost), 'task')} that pass{'' if len(lost) > 1 else 'es'} less often"
        look.append(f"{tasks}, most of all `{lost[0].task}` ({lost[0].base} → {lost[0].head})")
    if report.findings:
        look.append(f"the findings ({wording.tally(report.findings)})")
    where = ", and at ".join(look)
    return f"**Next:** {prose(f'look at {where}.')}" if look else ""
