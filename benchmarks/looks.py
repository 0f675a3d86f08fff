"""Thousands of gates of simulated suites -> how often the verdict is wrong, and what it takes.

Part of `coverage.py`. Each gate is played three ways: once after all five repeats, at every look at the full
level (naive peeking, what one must not do), and by the looks of `skillgate.stats.sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from simulators import (
    EFFECTS,
    FAMILIES,
    LEVEL,
    MOST,
    Family,
    Floats,
    Generator,
    Settings,
    Suites,
    dollars,
    draw_scores,
    suites,
)

from skillgate.core import Decision, Policy
from skillgate.stats.batch import DECISIONS, Arms, Played, fixed, peeking, play
from skillgate.stats.sequential import Design

POLICY, REFERENCE = Policy(), 20
FEW = (8, 10)  # tasks of the smaller suites
TOGETHER = (*FEW, REFERENCE, 50)
RARE = 5  # false verdicts are counted on so many times the data sets


FIXED, NAIVE, OURS = "fixed r = 5", "naive peeking", "this"


class Scheme(NamedTuple):
    name: str
    design: Design


def schemes(tasks: int) -> tuple[Scheme, ...]:
    ours = Design.of([MOST] * tasks, [MOST] * tasks, 1 - LEVEL)
    return (
        Scheme(FIXED, fixed(MOST)),
        Scheme(NAIVE, peeking(ours.repeats)),
        Scheme(OURS, ours),
    )


class Gated(NamedTuple):
    """What one scheme did in one setting, by the name of the effect."""

    family: str
    tasks: int
    noisy_cost: bool
    scheme: str
    played: dict[str, Played]

    @property
    def false_block(self) -> float:
        return max(self.played[name].share(Decision.BLOCK) for name in ("none", "mixed"))

    @property
    def false_better(self) -> float:
        return max(float((self.played[name].low > 0).mean()) for name in ("none", "mixed"))

    @property
    def false_merge(self) -> float:
        return self.played["-10"].share(Decision.MERGE)

    @property
    def where(self) -> str:
        return f"{self.family}, {self.tasks} tasks, {self.cost} costs"

    @property
    def cost(self) -> str:
        return "noisy" if self.noisy_cost else "equal"

    def runs(self, name: str) -> float:
        return float(self.played[name].repeats.mean()) / MOST

    def runs_error(self, name: str) -> float:
        return float(self.played[name].repeats.std()) / MOST / math.sqrt(len(self.played[name].repeats))

    @property
    def row(self) -> tuple[object, ...]:
        powers = (self.played["-20"].share(Decision.BLOCK), self.played["+20"].share(Decision.MERGE))
        errors = (self.false_block, self.false_merge, self.false_better)
        runs = map(self.runs, ("none", "+10", "-10", "+20", "-20"))
        coarse = (f"{share:.2f}" for share in (*powers, *runs))
        return (self.family, self.tasks, self.cost, self.scheme, *_fine(errors), *coarse)


def _fine(shares: Iterable[float]) -> list[str]:
    return [f"{share:.3f}" for share in shares]


LOOKS_HEAD = (
    *("family", "tasks", "cost", "looks", "false block", "false merge", "false better"),
    *("blocks -20", "merges +20", "runs, none", "runs, +10", "runs, -10", "runs, +20", "runs, -20"),
)


def measure_looks(settings: Settings) -> list[Gated]:
    found = []
    for number, family in enumerate(FAMILIES):
        for tasks in (*FEW, REFERENCE):
            played: dict[tuple[bool, str], dict[str, Played]] = {}
            for place, case in enumerate(EFFECTS):
                generator = settings.generator(6, number, tasks, place)
                count = settings.data_sets * (RARE if case.name in ("none", "mixed", "-10") else 1)
                drawn = draw_scores(family, case, tasks, count, generator)
                for noisy in (False, True):
                    arms = _with_cost(drawn.base, drawn.head, noisy, generator)
                    for scheme in schemes(tasks):
                        kept = played.setdefault((noisy, scheme.name), {})
                        kept[case.name] = play(arms, POLICY, scheme.design)
            found += [Gated(family.name, tasks, *which, by_case) for which, by_case in played.items()]
    return found


def _with_cost(base: Floats, head: Floats, noisy: bool, generator: Generator) -> Arms:
    """Let runs cost what does not differ between the arms: one dollar, or log-normal."""
    if not noisy:
        return Arms(base, head, np.ones(base.shape), np.ones(head.shape))
    base_usd, head_usd, _ = dollars(base.shape, 1.0, generator)
    return Arms(base, head, base_usd, head_usd)


# --- two gates of the same --------------------------------------------------------


class Agreement(NamedTuple):
    """Verdicts of two independent gates of identical input; `decisive` pairs have no inconclusive one."""

    family: str
    tasks: int
    shares: tuple[float, ...]
    decisive: float
    differ: float
    merge_or_hold: float
    differ_all: float

    @property
    def row(self) -> tuple[object, ...]:
        rates = _fine((self.differ, self.merge_or_hold, self.differ_all))
        return (self.family, self.tasks, *_fine(self.shares), f"{self.decisive:.2f}", *rates)


SHOWN = (Decision.MERGE, Decision.INCONCLUSIVE, Decision.HOLD, Decision.BLOCK)
AGREEMENT_HEAD = (
    *("family", "tasks", *map(str, SHOWN)),
    *("neither inconclusive", "of these, differ", "merge and hold", "of all, differ"),
)


def measure_agreement(settings: Settings) -> list[Agreement]:
    return [
        _agree(family, tasks, settings.data_sets, settings.generator(7, number, tasks))
        for number, family in enumerate(FAMILIES)
        for tasks in TOGETHER
    ]


def _agree(family: Family, tasks: int, count: int, generator: Generator) -> Agreement:
    shared = suites(family, count, tasks, 0.0, generator)
    design = schemes(tasks)[-1].design

    def gate(of: Suites) -> Played:
        return play(_with_cost(*of.run(generator), True, generator), POLICY, design)

    one, two = gate(shared), gate(shared)
    merge, hold, unclear = map(DECISIONS.index, (Decision.MERGE, Decision.HOLD, Decision.INCONCLUSIVE))
    decisive = (one.decision != unclear) & (two.decision != unclear)
    differ = one.decision != two.decision
    between = np.isin(one.decision, (merge, hold)) & np.isin(two.decision, (merge, hold)) & differ
    shares = tuple(one.share(decision) for decision in SHOWN)
    among = max(1, int(decisive.sum()))
    rates = (float((differ & decisive).sum()) / among, float(between.sum()) / among)
    return Agreement(family.name, tasks, shares, float(decisive.mean()), *rates, float(differ.mean()))
