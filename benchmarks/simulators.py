"""Suites that are not real, with true means that are known: what `coverage.py` draws its runs from.

Three families: `shares` (a few graders per task), `binary` (each task solved or not), `dollars` (what a run
costs). A grader passes when the ease of its task, the luck of the run and its own luck together are above
zero, all of them normal; so the mean of a cell has a closed form, and a change of the skill is a shift of the
ease, larger in some tasks than in others, solved so that the mean over the tasks drawn is the effect asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skillgate.stats.batch import Noises
from skillgate.stats.intervals import PSEUDO_LOG

Floats = NDArray[np.float64]
Generator = np.random.Generator

LEVEL = 0.95
REUSED = (10, 3)  # repeats of a base whose earlier runs are reused, and of its head
MOST = 5  # repeats: a cell of fewer is the start of one of five

OUTLIERS, OUTLIER_SIZE = 0.10, 5.0
DOLLARS_SD = 0.25  # of the log of a run's dollars, within a task
_SPREAD = 0.10  # of the true log cost ratios between tasks
_TASK_COST_SD = 1.0  # of the log of a task's median dollars
_ROOM = 0.01  # how much closer than the effect a suite may not be to all or nothing
_MIXED = 1.0  # how far the ease of a task moves where some gain what others lose
_LEAST_REACH = 0.2  # by how much an effect moves the least moved task, where the mean is 1
_FARTHEST, _HALVINGS = 256.0, 48


class Family(NamedTuple):
    """How tasks are drawn: normal eases, `graders` from few to many, standard deviations of each part."""

    name: str
    ease: float
    between_tasks: float
    between_graders: float
    between_runs: float
    graders: tuple[int, int]


SHARES = Family("shares", 3.45, 4.25, 1.4, 1.15, (3, 8))
"""Fitted by hand to what is published of SWE-Skills-Bench v2 (arXiv 2603.15401): PUBLISHED."""
PUBLISHED = {"identical pairs": 0.692, "pairs that differ by .5 or more": 0.061, "mean": 0.766, "sd": 0.16}
BINARY = Family("binary", 0.36, 1.0, 0.0, 0.0, (1, 1))
"""Difficulties from nearly never to nearly always solved; standard deviation within a task near .4."""
FAMILIES = (SHARES, BINARY)


class Suites(NamedTuple):
    """Simulated suites: the ease of every grader in both arms, and its share of the pass ratio.

    Arrays have the shape (suites, tasks, graders).
    """

    base: Floats
    head: Floats
    weights: Floats
    between_runs: float

    @property
    def truth(self) -> Floats:
        """Return the true mean delta of each suite: over these tasks, head minus base."""
        return self._mean(self.head) - self._mean(self.base)

    def _mean(self, ease: Floats) -> Floats:
        return _means(ease, self.weights, self.between_runs)

    def run(self, generator: Generator, base: int = MOST, head: int = MOST) -> tuple[Floats, Floats]:
        """Draw so many repeats of both arms: pass ratios, each of shape (suites, tasks, repeats)."""
        return self._draw(self.base, base, generator), self._draw(self.head, head, generator)

    def _draw(self, ease: Floats, repeats: int, generator: Generator) -> Floats:
        ratios = np.empty((*ease.shape[:2], repeats))
        for repeat in range(repeats):
            luck = generator.standard_normal(ease.shape, dtype=np.float32)
            if self.between_runs:
                luck += self.between_runs * generator.standard_normal((*ease.shape[:2], 1), dtype=np.float32)
            ratios[..., repeat] = np.einsum("ntg,ntg->nt", ease + luck > 0, self.weights)
        return ratios.round(12)  # a sum of thirds that is one must be one


def suites(
    family: Family, count: int, tasks: int, effect: float, generator: Generator, *, mixed: bool = False
) -> Suites:
    """Draw suites whose mean delta is exactly `effect`, in [-1, 1].

    Suites that leave no room for the effect are drawn again. `mixed`: the mean delta is the effect, but each
    task gains or loses by itself.
    """
    ease, weights = _tasks(family, count, tasks, generator)
    while (crowded := ~_leave_room(family, ease, weights, effect)).any():
        ease[crowded], weights[crowded] = _tasks(family, int(crowded.sum()), tasks, generator)
    start = ease
    if mixed:
        start = ease + _MIXED * generator.choice([-1.0, 1.0], (count, tasks, 1))
    if not effect and not mixed:
        return Suites(ease, ease, weights, family.between_runs)
    reach = _LEAST_REACH + (1 - _LEAST_REACH) * generator.gamma(2.0, 0.5, (count, tasks, 1))
    goal = _means(ease, weights, family.between_runs) + effect
    low, high = np.full(count, -_FARTHEST), np.full(count, _FARTHEST)
    for _ in range(_HALVINGS):
        shift = (low + high) / 2
        found = _means(start + shift[:, None, None] * reach, weights, family.between_runs)
        low, high = np.where(found < goal, shift, low), np.where(found < goal, high, shift)
    return Suites(ease, start + ((low + high) / 2)[:, None, None] * reach, weights, family.between_runs)


def _tasks(family: Family, count: int, tasks: int, generator: Generator) -> tuple[Floats, Floats]:
    few, many = family.graders
    graders = generator.integers(few, many + 1, (count, tasks, 1))
    ease = family.ease + family.between_tasks * generator.standard_normal((count, tasks, 1))
    ease = ease + family.between_graders * generator.standard_normal((count, tasks, many))
    return ease, (np.arange(many) < graders) / graders


def _means(ease: Floats, weights: Floats, between_runs: float) -> Floats:
    """Return the true mean pass ratio of each suite: both kinds of luck are normal."""
    chances = ndtr(ease / math.sqrt(1 + between_runs**2))
    means: Floats = np.einsum("ntg,ntg->n", chances, weights) / ease.shape[1]
    return means


def _leave_room(family: Family, ease: Floats, weights: Floats, effect: float) -> NDArray[np.bool_]:
    after = _means(ease, weights, family.between_runs) + effect
    room: NDArray[np.bool_] = (after > _ROOM) & (after < 1 - _ROOM)
    return room


def dollars(
    shape: tuple[int, int, int],
    ratio: float,
    generator: Generator,
    *,
    outliers: bool = False,
    spread: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Draw what the runs of both arms cost, and the true log ratio of each suite.

    Log-normal within tasks and between them; with outliers, a tenth of the runs cost five times as much, in
    both arms alike. Args: shape: (suites, tasks, repeats). spread: of the true log ratios between tasks.
    """
    count, tasks, _ = shape
    size = _TASK_COST_SD * generator.standard_normal((count, tasks, 1))
    change = math.log(ratio) + spread * generator.standard_normal((count, tasks, 1))
    arms = []
    for center in (size, size + change):
        cost = center + DOLLARS_SD * generator.standard_normal(shape)
        if outliers:
            cost += math.log(OUTLIER_SIZE) * (generator.random(shape) < OUTLIERS)
        arms.append(np.exp(cost))
    return arms[0], arms[1], change.mean(axis=(1, 2))


# --- data sets of a family, with an effect ----------------------------------------


class Case(NamedTuple):
    """A true effect, of the pass ratio or as a cost ratio; `mixed`: tasks gain and lose, together nothing."""

    name: str
    effect: float
    mixed: bool = False


EFFECTS = (
    Case("none", 0.0),
    Case("mixed", 0.0, mixed=True),
    Case("+10", 0.10),
    Case("-10", -0.10),
    Case("+20", 0.20),
    Case("-20", -0.20),
)
RATIOS = (
    Case("none", 1.0),
    Case("mixed", 1.0, mixed=True),
    Case("+10", 1.1),
    Case("-10", 1 / 1.1),
    Case("+20", 1.2),
    Case("-20", 1 / 1.2),
)


class Drawn(NamedTuple):
    """Runs of both arms, (data sets, tasks, repeats), and the true change of each; logs for dollars."""

    base: Floats
    head: Floats
    truth: Floats
    unit: float = 1.0

    def ends(self, repeats: int) -> tuple[Floats, Floats]:
        return Noises.of(self.base[..., :repeats], self.head[..., :repeats], self.unit).ends(LEVEL)

    def covers(self, repeats: int) -> float:
        low, high = self.ends(repeats)
        return float(((low <= self.truth) & (self.truth <= high)).mean())


def draw_scores(family: Family, case: Case, tasks: int, count: int, generator: Generator) -> Drawn:
    drawn = suites(family, count, tasks, case.effect, generator, mixed=case.mixed)
    return Drawn(*drawn.run(generator), drawn.truth)


def draw_reused(family: Family, case: Case, tasks: int, count: int, generator: Generator) -> Drawn:
    """Draw more runs of the base than of the head, as where earlier ones are reused."""
    drawn = suites(family, count, tasks, case.effect, generator, mixed=case.mixed)
    return Drawn(*drawn.run(generator, *REUSED), drawn.truth)


def draw_dollars(outliers: bool, case: Case, tasks: int, count: int, generator: Generator) -> Drawn:
    spread = 0.0 if case.name == "none" else _SPREAD
    shape = (count, tasks, MOST)
    base, head, truth = dollars(shape, case.effect, generator, outliers=outliers, spread=spread)
    if case.mixed:  # each task moves, their mean does not
        head, truth = head * np.exp(-truth)[:, None, None], np.zeros(count)
    return Drawn(np.log(base), np.log(head), truth, PSEUDO_LOG)


Draw = Callable[[Case, int, int, Generator], Drawn]
KINDS: dict[str, tuple[Draw, tuple[Case, ...]]] = {
    "shares": (partial(draw_scores, SHARES), EFFECTS),
    "binary": (partial(draw_scores, BINARY), EFFECTS),
    "dollars": (partial(draw_dollars, False), RATIOS),
    "dollars, outliers": (partial(draw_dollars, True), RATIOS),
}


class Settings(NamedTuple):
    """How much to draw; each part of the benchmark has a stream of its own, whatever else is drawn."""

    data_sets: int
    seed: int

    def generator(self, *stream: int) -> Generator:
        return np.random.default_rng([self.seed, *stream])
