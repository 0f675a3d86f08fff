"""Simulated data sets -> how often the suite interval holds the truth, how wide it is, what it finds.

Part of `coverage.py`. A cell is a family, a number of tasks, a number of repeats and a true effect. The
closed form judges every data set; the bootstrap, which the gate shows, a few of each.
"""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import numpy as np
from simulators import (
    BINARY,
    EFFECTS,
    FAMILIES,
    KINDS,
    LEVEL,
    PUBLISHED,
    REUSED,
    SHARES,
    Case,
    Drawn,
    Floats,
    Settings,
    draw_reused,
    draw_scores,
)

from skillgate.stats.intervals import cost_interval, suite_interval

TASKS, REPEATS = (5, 8, 10, 20, 50), (2, 3, 5)
AGAIN = 10  # the worst cells are measured again on so many times the data sets
BOOTSTRAPS = 20  # data sets of each cell that the bootstrap judges as well

Row = tuple[object, ...]


class Cell(NamedTuple):
    """What the interval did in one cell: shares of the data sets, and its mean width."""

    kind: str
    case: Case
    tasks: int
    repeats: int
    covered: float
    width: float
    better: float
    worse: float

    @property
    def where(self) -> str:
        return f"{self.tasks} tasks, r = {self.repeats}, effect {self.case.name}"


def measure_cells(settings: Settings) -> list[Cell]:
    cells = []
    for number, (kind, (draw, cases)) in enumerate(KINDS.items()):
        for tasks in TASKS:
            for place, case in enumerate(cases):
                drawn = draw(case, tasks, settings.data_sets, settings.generator(1, number, tasks, place))
                cells += [_measure(kind, case, tasks, repeats, drawn) for repeats in REPEATS]
    return cells


def _measure(kind: str, case: Case, tasks: int, repeats: int, drawn: Drawn) -> Cell:
    low, high = drawn.ends(repeats)
    shares = (float((low > 0).mean()), float((high < 0).mean()))
    return Cell(kind, case, tasks, repeats, drawn.covers(repeats), float((high - low).mean()), *shares)


def measure_again(cell: Cell, settings: Settings) -> float:
    """Return the coverage on fresh data sets: the worst of many looks worse than it is."""
    draw, _ = KINDS[cell.kind]
    streams = (settings.generator(2, part) for part in range(AGAIN))
    drawn = (draw(cell.case, cell.tasks, settings.data_sets, stream) for stream in streams)
    return statistics.fmean(part.covers(cell.repeats) for part in drawn)


def worst_reused(settings: Settings) -> tuple[float, str]:
    """Return the worst coverage, and where, with more repeats of the base than of the head."""
    found = []
    for number, family in enumerate(FAMILIES):
        for tasks in TASKS:
            for place, case in enumerate(EFFECTS):
                stream = settings.generator(9, number, tasks, place)
                drawn = draw_reused(family, case, tasks, settings.data_sets, stream)
                found.append((drawn.covers(max(REUSED)), f"{family.name}, {tasks} tasks, effect {case.name}"))
    return min(found)


CELLS_HEAD = (
    "tasks",
    "repeats",
    "worst coverage",
    "at effect",
    "mean width",
    "type I",
    "finds +20",
    "finds -20",
)


def cell_rows(kind: str, cells: list[Cell]) -> list[Row]:
    return [_cell_row(kind, cells, tasks, repeats) for tasks in TASKS for repeats in REPEATS]


def _cell_row(kind: str, cells: list[Cell], tasks: int, repeats: int) -> Row:
    of = {c.case.name: c for c in cells if (c.kind, c.tasks, c.repeats) == (kind, tasks, repeats)}
    lowest = min(of.values(), key=lambda cell: cell.covered)
    alarms = max(of[name].better + of[name].worse for name in ("none", "mixed"))
    numbers = (
        f"{of['none'].width:.3f}",
        f"{alarms:.3f}",
        f"{of['+20'].better:.2f}",
        f"{of['-20'].worse:.2f}",
    )
    return (tasks, repeats, f"{lowest.covered:.3f}", lowest.case.name, *numbers)


BOOTSTRAP_HEAD = (
    "family",
    "data sets",
    "width, bootstrap / closed form",
    "least to most",
    "agree on the truth",
)


def bootstrap_rows(settings: Settings) -> list[Row]:
    return [_bootstrap_row(kind, number, settings) for number, kind in enumerate(KINDS)]


def _bootstrap_row(kind: str, number: int, settings: Settings) -> Row:
    draw, cases = KINDS[kind]
    count = min(BOOTSTRAPS, settings.data_sets)
    ratios, agree = [], []
    for tasks in TASKS:
        case = cases[tasks % len(cases)]
        drawn = draw(case, tasks, count, settings.generator(3, number, tasks))
        for repeats in REPEATS:
            closed = np.stack(drawn.ends(repeats), axis=1)
            resampled = np.array([_bootstrap(drawn, i, repeats) for i in range(count)])
            ratios += (np.ptp(resampled, axis=1) / np.ptp(closed, axis=1)).tolist()
            held = [(ends[:, 0] <= drawn.truth) & (drawn.truth <= ends[:, 1]) for ends in (closed, resampled)]
            agree += (held[0] == held[1]).tolist()
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (kind, len(ratios), f"{statistics.fmean(ratios):.3f}", spread, f"{statistics.fmean(agree):.3f}")


def _bootstrap(drawn: Drawn, i: int, repeats: int) -> tuple[float, float]:
    base, head = drawn.base[i, :, :repeats], drawn.head[i, :, :repeats]
    if drawn.unit == 1.0:
        found = suite_interval(base, head, LEVEL, seed=i)
        return found.low, found.high
    found = cost_interval(np.exp(base), np.exp(head), LEVEL, seed=i)
    return math.log(found.low), math.log(found.high)


SIMULATOR_HEAD = ("figure", "published", "simulated")


def simulator_rows(settings: Settings) -> list[Row]:
    """Show how well our suites meet what is published of real ones: pairs of single runs, no effect."""
    count = 5 * settings.data_sets
    drawn = draw_scores(SHARES, EFFECTS[0], 10, count, settings.generator(4))
    binary = draw_scores(BINARY, EFFECTS[0], 10, count, settings.generator(5))
    apart = np.abs(drawn.head[..., 0] - drawn.base[..., 0])
    ours = ((apart < 1e-9).mean(), (apart >= 0.5 - 1e-9).mean(), drawn.base.mean(), _within(drawn.base))
    rows: list[Row] = [
        (name, f"{said:.3f}", f"{own:.3f}") for (name, said), own in zip(PUBLISHED.items(), ours, strict=True)
    ]
    return [*rows, ("within-task sd, `binary`", "", f"{_within(binary.base):.3f}")]


def _within(ratios: Floats) -> float:
    return math.sqrt(float(ratios.var(axis=2, ddof=1).mean()))
