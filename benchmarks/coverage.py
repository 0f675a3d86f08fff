"""How often the verdict is right: `python benchmarks/coverage.py [--data-sets N] [--seed S] [--write]`.

Draws suites whose true change is known (`simulators.py`), lets the interval (`cells.py`) and the looks
(`looks.py`) of `skillgate.stats` judge their runs, and prints Markdown tables; `--write` puts them between
the markers of docs/statistics.md. `--speed` prints instead how long 10,000 resamples take.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cells import (
    AGAIN,
    BOOTSTRAP_HEAD,
    CELLS_HEAD,
    SIMULATOR_HEAD,
    TASKS,
    Cell,
    Row,
    bootstrap_rows,
    cell_rows,
    measure_again,
    measure_cells,
    simulator_rows,
    worst_reused,
)
from looks import (
    AGREEMENT_HEAD,
    LOOKS_HEAD,
    NAIVE,
    OURS,
    RARE,
    REFERENCE,
    Agreement,
    Gated,
    measure_agreement,
    measure_looks,
)
from simulators import KINDS, MOST, REUSED, SHARES, Floats, Settings

from skillgate.stats.intervals import BOOTSTRAP, RESAMPLES, suite_interval
from skillgate.stats.power import PASS_RATIO_SD, detectable_effect, needed_repeats

PAGE = Path(__file__).parent.parent / "docs" / "statistics.md"
DATA_SETS, SEED = 4000, 1
BINARY_SD = 0.41
"""Within-task standard deviation of tasks that are solved or not."""
TARGET_MS = 20
_WORDS = {"family", "looks", "cost", "at effect", "figure", "what", "where", "met", "must be"}


class Claim(NamedTuple):
    """A figure, what it must be, and two standard errors of it."""

    what: str
    must: str
    found: float
    error: float
    where: str

    @classmethod
    def of_share(cls, what: str, must: str, share: float, trials: float, where: str) -> Claim:
        variance = max(share * (1 - share), 1e-4) / max(trials, 1)
        return cls(what, must, share, 2 * math.sqrt(variance), where)

    @property
    def met(self) -> str:
        """Say whether the figure is as it must be, but for the luck of the draw."""
        if not self.must:
            return ""
        sign, bound = self.must.split()
        ahead = self.found - float(bound) if sign == ">=" else float(bound) - self.found
        return "yes" if ahead + self.error >= 0 else "MISSED"

    @property
    def row(self) -> Row:
        return (self.what, self.must, f"{self.found:.3f}", f"± {self.error:.3f}", self.where, self.met)


CLAIMS_HEAD = ("what", "must be", "measured", "2 s.e.", "where", "met")


def coverage_claims(settings: Settings, cells: Sequence[Cell]) -> list[Claim]:
    found = []
    for kind in KINDS:
        worst = min((cell for cell in cells if cell.kind == kind), key=lambda cell: cell.covered)
        must = ">= .93" if "outliers" in kind else ">= .94"
        again = measure_again(worst, settings)
        found += [
            Claim.of_share(f"worst coverage, {kind}", must, worst.covered, settings.data_sets, worst.where),
            Claim.of_share(
                "this cell on fresh data sets", must, again, AGAIN * settings.data_sets, worst.where
            ),
        ]
    share, where = worst_reused(settings)
    what = "worst coverage, {} base and {} head repeats".format(*REUSED)
    return [*found, Claim.of_share(what, "", share, settings.data_sets, where)]


def error_claims(settings: Settings, gated: Sequence[Gated]) -> list[Claim]:
    """Take the worst false verdicts of our looks over all settings, and those of peeking beside them."""
    found = []
    for scheme, must in ((OURS, "<= .025"), (NAIVE, "")):
        of = [one for one in gated if one.scheme == scheme]
        block, merge = max(of, key=lambda g: g.false_block), max(of, key=lambda g: g.false_merge)
        trials = RARE * settings.data_sets
        found += [
            Claim.of_share(f"worst false block, {scheme}", must, block.false_block, trials, block.where),
            Claim.of_share(f"worst false merge, {scheme}", must, merge.false_merge, trials, merge.where),
        ]
    return found


def run_claims(gated: Sequence[Gated]) -> list[Claim]:
    """Take the larger share of fixed r = 5 with equal and with noisy costs."""
    found = []
    for family in dict.fromkeys(one.family for one in gated):
        of = [g for g in gated if (g.family, g.tasks, g.scheme) == (family, REFERENCE, OURS)]
        for name, bound in (("none", "<= .75"), ("+20", "<= .55"), ("-20", "<= .55")):
            worst = max(of, key=lambda g: g.runs(name))
            must = bound if family == SHARES.name else ""
            what = f"runs of fixed r = 5, effect {name}, {family}"
            found.append(Claim(what, must, worst.runs(name), 2 * worst.runs_error(name), worst.where))
    return found


def agreement_claims(settings: Settings, agreed: Sequence[Agreement]) -> list[Claim]:
    found = []
    for one in agreed:
        if one.tasks == REFERENCE:
            must = "<= .05" if one.family == SHARES.name else ""
            pairs, where = settings.data_sets, f"{REFERENCE} tasks"
            among = f"{where}, neither inconclusive"
            what = f"two gates of the same differ, {one.family}"
            found += [
                Claim.of_share(what, must, one.differ, pairs * one.decisive, among),
                Claim.of_share(what, "", one.differ_all, pairs, f"{where}, all pairs"),
            ]
    return found


# --- money and tasks --------------------------------------------------------------


def saved_by_allocation(settings: Settings, sd: float) -> float:
    """Return the mean share of dollars that repeats by 1/sqrt(cost) save; costs of tasks are log-normal."""
    generator = settings.generator(8)
    costs = np.exp(sd * generator.standard_normal((min(settings.data_sets, 1000), REFERENCE)))
    return statistics.fmean(_saved(row) for row in costs)


def _saved(costs: Floats, even: int = 3) -> float:
    """Beside `even` repeats of each task: the next repeat goes where it removes most variance per dollar."""
    repeats = np.full(costs.size, 2)
    while (1 / repeats).sum() > costs.size / even + 1e-9:
        worth = np.where(repeats < MOST, 1 / (repeats * (repeats + 1) * costs), 0)
        repeats[int(worth.argmax())] += 1
    return 1 - float(repeats @ costs) / (even * float(costs.sum()))


def needs_rows() -> list[Row]:
    return [
        (points, f"{sd:.2f}", *(needed_repeats(tasks, points / 100, sd) for tasks in TASKS))
        for points in (5, 10, 15, 20)
        for sd in _SDS
    ]


def smallest_rows() -> list[Row]:
    return [(tasks, *(_points(tasks, r, sd) for sd in _SDS for r in (3, 5))) for tasks in TASKS]


_SDS = (PASS_RATIO_SD, BINARY_SD)
NEEDS_HEAD = ("margin, points", "sd", *(f"{tasks} tasks" for tasks in TASKS))
SMALLEST_HEAD = ("tasks", *(f"sd {sd:.2f}, r = {repeats}" for sd in _SDS for repeats in (3, 5)))


def _points(tasks: int, repeats: int, sd: float) -> str:
    return f"{100 * (detectable_effect([repeats] * tasks, sd=sd) or math.nan):.0f}"


# --- the page ---------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    rule = "|".join("---" if name in _WORDS else "--:" for name in head)
    lines = (" | ".join(map(str, row)) for row in (head, *rows))
    first, *rest = (f"| {line} |" for line in lines)
    return "\n".join((first, f"|{rule}|", *rest))


def sections(settings: Settings) -> dict[str, str]:
    """Measure everything; return the text of each part of the page, by the name of its markers."""
    cells, gated, agreed = measure_cells(settings), measure_looks(settings), measure_agreement(settings)
    claims = (
        *coverage_claims(settings, cells),
        *error_claims(settings, gated),
        *run_claims(gated),
        *agreement_claims(settings, agreed),
    )
    saved = " and ".join(f"{100 * saved_by_allocation(settings, sd):.0f} % ({sd})" for sd in (0.6, 1.0))
    return {
        "headline": f"{_command(settings)}\n\n{table(CLAIMS_HEAD, [claim.row for claim in claims])}",
        "coverage": "\n\n".join(f"{kind}:\n\n{table(CELLS_HEAD, cell_rows(kind, cells))}" for kind in KINDS),
        "bootstrap": table(BOOTSTRAP_HEAD, bootstrap_rows(settings)),
        "looks": table(LOOKS_HEAD, [one.row for one in gated]),
        "agreement": table(AGREEMENT_HEAD, [one.row for one in agreed]),
        "simulator": table(SIMULATOR_HEAD, simulator_rows(settings)),
        "needs": f"{table(NEEDS_HEAD, needs_rows())}\n\n{table(SMALLEST_HEAD, smallest_rows())}",
        "allocation": f"Dollars saved against 3 repeats of each of {REFERENCE} tasks, at the same standard "
        f"error, by the standard deviation of the logs of what tasks cost: {saved}.",
    }


def _command(settings: Settings) -> str:
    return (
        f"`python benchmarks/coverage.py --data-sets {settings.data_sets} --seed {settings.seed} --write`: "
        f"{settings.data_sets:,} data sets in each cell, {RARE * settings.data_sets:,} where false "
        f"verdicts are counted, seed {settings.seed}."
    )


def fill(page: str, parts: dict[str, str]) -> str:
    """Put each part between its markers. Raises: SystemExit when a marker is missing."""
    for name, part in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not marked.search(page):
            raise SystemExit(f"the page lacks <!-- {name} --> ... <!-- /{name} -->")
        page = marked.sub(partial(_between, part), page)
    return page


def _between(part: str, markers: re.Match[str]) -> str:
    return f"{markers[1]}{part}\n{markers[2]}"


# --- speed ------------------------------------------------------------------------


def speed(times: int = 21) -> str:
    """Time 10,000 resamples of 50 tasks, 5 repeats, beside a plain bootstrap of as many runs."""
    generator = np.random.default_rng(SEED)
    base, head = (generator.binomial(5, 0.8, (50, MOST)) / 5 for _ in range(2))
    residuals = np.concatenate([(arm - arm.mean(axis=1, keepdims=True)).ravel() for arm in (base, head)])

    def plain() -> None:
        picked = generator.integers(0, residuals.size, (RESAMPLES, residuals.size))
        drawn = residuals[picked]
        half = residuals.size // 2
        np.quantile(drawn[:, half:].mean(axis=1) - drawn[:, :half].mean(axis=1), [0.025, 0.975])

    ours_ms, plain_ms = _median_ms(lambda: suite_interval(base, head), times), _median_ms(plain, times)
    return (
        f"Speed: {RESAMPLES:,} resamples ({BOOTSTRAP}), 50 tasks, r = {MOST}: {ours_ms:.1f} ms "
        f"(target {TARGET_MS} ms); plain numpy {plain_ms:.1f} ms, {plain_ms / ours_ms:.1f} times as long"
    )


def _median_ms(do: Callable[[], object], times: int) -> float:
    do()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        do()
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How often the verdict is right.")
    parser.add_argument("--data-sets", type=int, default=DATA_SETS, help="in each cell (default %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="(default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="which page (default docs/statistics.md)")
    parser.add_argument("--speed", action="store_true", help="time the bootstrap instead")
    options = parser.parse_args(arguments)
    if options.speed:
        print(speed())
        return
    started = time.monotonic()
    parts = sections(Settings(options.data_sets, options.seed))
    if options.write:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(fill(page, parts), encoding="utf-8")
    else:
        print("\n\n".join(f"## {name}\n\n{part}" for name, part in parts.items()))
    print(f"\nTook {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
