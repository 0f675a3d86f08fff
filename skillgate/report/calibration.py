"""Calibration -> what `skillgate calibrate` prints, and the sentence with which a report cites it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skillgate.core import SCRIPTED_AGENT, SCRIPTED_LABEL, Calibration, FlakyTask, Rate
from skillgate.report.escape import clean, no_commands
from skillgate.report.json import write

MAX_FLAKY = 10
SCOPE = "The intervals are about random splits of these runs; they say nothing of another suite or model."


def render(record: Calibration, notes: Sequence[str] = ()) -> str:
    """Write a record for a terminal; `notes` say how it came about."""
    rows = [("", "splits", "95 % interval", "promised"), *(_row(line) for line in _lines(record))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [_align(row, widths) for row in rows]
    parts = [_heading(record), table, [SCOPE], _noise(record), [clean(note) for note in notes]]
    return no_commands("\n\n".join("\n".join(part) for part in parts if part) + "\n")


def dump(record: Calibration) -> str:
    """Write a record as JSON, as it is saved."""
    return write(record)


def cite(record: Calibration) -> str:
    """Say in one sentence what a report cites."""
    scripted = f" ({SCRIPTED_LABEL})" if _is_scripted(record) else ""
    where = "this suite" if len(record.suites) == 1 else "these suites"
    return (
        f"On {where}, identical skills were called different in {_share(record.called_different)} of "
        f"{record.splits:,} random splits of {record.runs:,} runs into arms of {record.repeats} "
        f"repeats{scripted}."
    )


class _Line(NamedTuple):
    """A rate, and how large it may be at most (or at least)."""

    what: str
    rate: Rate
    promised: float
    at_least: bool = False

    @property
    def is_kept(self) -> bool:
        """Say whether the rate may be what was promised."""
        return self.rate.high >= self.promised if self.at_least else self.rate.low <= self.promised


def _lines(record: Calibration) -> list[_Line]:
    alpha = 1 - record.level
    return [
        _Line("identical skills called different", record.called_different, alpha),
        _Line("  of these blocked", record.false_block, alpha / 2),
        _Line(f"a drop of {100 * record.margin:g} points merged", record.false_merge, alpha / 2),
        _Line("interval holds the truth", record.coverage, record.level, at_least=True),
    ]


def _row(line: _Line) -> tuple[str, ...]:
    bound = f"{'at least' if line.at_least else 'at most'} {100 * line.promised:.4g} %"
    interval = f"{100 * line.rate.low:.2f} to {100 * line.rate.high:.2f} %"
    return line.what, _share(line.rate), interval, bound if line.is_kept else f"{bound}: NOT KEPT"


def _align(row: tuple[str, ...], widths: Sequence[int]) -> str:
    what, share, interval, promised = row
    cells = (what.ljust(widths[0]), share.rjust(widths[1]), interval.rjust(widths[2]), promised)
    return "  ".join(cells).rstrip()


def _heading(record: Calibration) -> list[str]:
    suites = ", ".join(f"{name} ({digest or 'version unknown'})" for name, digest in record.suites.items())
    lines = [
        f"Calibration of {clean(suites)}",
        f"agent {clean(record.agent)}, model {clean(record.model)}, skillgate {clean(record.skillgate)}, "
        f"{clean(record.made)}",
        f"{record.runs:,} runs of {record.tasks} tasks, split {record.splits:,} times at random (seed "
        f"{record.seed}) into two arms of {record.repeats} repeats",
    ]
    return [SCRIPTED_LABEL, *lines] if _is_scripted(record) else lines


def _noise(record: Calibration) -> list[str]:
    sd = f"Standard deviation of the pass ratio among runs of a task: {100 * record.sd:.1f} points."
    if not record.flaky:
        return [sd, "No task's runs disagree."]
    rows = [("flaky task", "runs", "sd", "from", "to"), *map(_flaky, record.flaky[:MAX_FLAKY])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_numbers(row, widths) for row in rows]
    more = len(record.flaky) - MAX_FLAKY
    return [sd, "", *lines, *([f"and {more} more"] if more > 0 else [])]


def _flaky(task: FlakyTask) -> tuple[str, ...]:
    ends = (f"{100 * end:.1f} %" for end in (task.low, task.high))
    return clean(task.task), str(task.runs), f"{100 * task.sd:.1f}", *ends


def _numbers(row: tuple[str, ...], widths: Sequence[int]) -> str:
    name, *numbers = row
    aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
    return "  ".join([name.ljust(widths[0]), *aligned])


def _share(rate: Rate) -> str:
    return f"{100 * rate.share:.1f} %"


def _is_scripted(record: Calibration) -> bool:
    return record.agent == SCRIPTED_AGENT
