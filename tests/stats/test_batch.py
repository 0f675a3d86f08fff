"""Many gates at once give what one gate after the other gives; what both rest on is symmetric and calm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.core import ArmPair, Cell, Decision, Grade, GradeKind, Outcome, Policy, Run, Stop
from skillgate.stats.batch import DECISIONS, Arms, Noises, fixed, peeking, play
from skillgate.stats.compare import compare
from skillgate.stats.intervals import (
    PSEUDO_LOG,
    Noise,
    cost_interval,
    cost_interval_closed,
    suite_interval,
    suite_interval_closed,
)
from skillgate.stats.sequential import Design, examine
from skillgate.stats.verdict import decide
from skillgate.values import Usage

ARMS = ArmPair("base", "head")
POLICY = Policy()
SETS, REPEATS = 25, 5
OURS = Design.of([REPEATS] * 8, [REPEATS] * 8, 0.05)
DESIGNS = (OURS, peeking(OURS.repeats), fixed(REPEATS), fixed(2))


class Shape(NamedTuple):
    """Counts of passed graders and micro-dollars of random suites, (sets, tasks, repeats)."""

    graders: int
    base: np.ndarray
    head: np.ndarray
    base_micros: np.ndarray | None = None
    head_micros: np.ndarray | None = None

    @property
    def arms(self) -> Arms:
        usd = [part if part is None else part / 1_000_000 for part in (self.base_micros, self.head_micros)]
        return Arms(self.base / self.graders, self.head / self.graders, *usd)

    def runs(self, number: int) -> list[Run]:
        return [
            run(self.graders, Cell(task=f"s/{task}", arm=arm, repeat=repeat), passed[repeat], micros[repeat])
            for arm, passes, costs in (
                ("base", self.base[number], self.base_micros),
                ("head", self.head[number], self.head_micros),
            )
            for task, passed in enumerate(passes)
            for micros in [[0] * REPEATS if costs is None else costs[number][task]]
            for repeat in range(REPEATS)
        ]


def run(graders: int, cell: Cell, passed: int, micros: int) -> Run:
    kind = GradeKind.FAIL_TO_PASS
    grades = tuple(Grade(grader=str(i), kind=kind, passed=i < passed) for i in range(graders))
    outcome = Outcome.PASSED if passed == graders else Outcome.FAILED
    return Run(cell=cell, outcome=outcome, grades=grades, usage=Usage(usd_micros=int(micros)))


def passes(generator: np.random.Generator, graders: int, tasks: int, most: float) -> Shape:
    """Draw suites whose tasks go from easy to hard, and heads that are better or worse by up to `most`."""
    chances = generator.beta(1, 0.7, (SETS, tasks, 1))
    moved = np.clip(chances + generator.uniform(-most, most, (SETS, 1, 1)), 0, 1)
    size = (SETS, tasks, REPEATS)
    return Shape(
        graders, generator.binomial(graders, chances, size), generator.binomial(graders, moved, size)
    )


def priced(shape: Shape, generator: np.random.Generator, noise: float, dearer: float) -> Shape:
    """Let runs cost something: the heads up to `dearer` times as much as the bases."""
    tasks = np.exp(generator.normal(0, 1, (SETS, shape.base.shape[1], 1)))
    ratio = generator.uniform(1, dearer, (SETS, 1, 1))
    size = shape.base.shape
    micros = [np.exp(generator.normal(0, noise, size)) * tasks * 50_000 for _ in range(2)]
    return shape._replace(
        base_micros=micros[0].round().astype(int), head_micros=(micros[1] * ratio).round().astype(int)
    )


def binary(generator: np.random.Generator) -> Shape:
    return priced(passes(generator, 1, 12, 0.4), generator, 0.25, 1.3)


def shares(generator: np.random.Generator) -> Shape:
    return priced(passes(generator, 8, 8, 0.25), generator, 0.25, 1.3)


def unpriced(generator: np.random.Generator) -> Shape:
    return passes(generator, 6, 10, 0.25)


def dear(generator: np.random.Generator) -> Shape:
    return priced(passes(generator, 8, 20, 0.05), generator, 0.4, 1.5)


def collapsing(generator: np.random.Generator) -> Shape:
    """One task or two of each suite falls from all to nothing, in some repeats not at once."""
    shape = priced(passes(generator, 4, 10, 0.1), generator, 0.1, 1.1)
    base, head = shape.base.copy(), shape.head.copy()
    base[:, :2] = 4
    head[:, :2] = generator.binomial(1, generator.uniform(0, 0.3, (SETS, 1, 1)), (SETS, 2, REPEATS)) * 4
    head[::2, 1] = 4
    return shape._replace(base=base, head=head)


def still(generator: np.random.Generator) -> Shape:
    """No noise at all, in scores or in dollars; some heads differ."""
    base = np.full((SETS, 20, REPEATS), 6)
    head = base + generator.integers(-2, 3, (SETS, 1, 1))
    micros = np.full(base.shape, 70_000)
    return Shape(8, base, head, micros, micros + generator.integers(0, 3, (SETS, 1, 1)) * 14_000)


SHAPES = (binary, shares, unpriced, dear, collapsing, still)


@pytest.fixture
def _closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the closed form, which a batch uses, into the place of the bootstrap; leave out a slow test.

    The sign-flip test decides nothing where there is an interval.
    """
    monkeypatch.setattr(Noise, "bootstrap", lambda self, level, seed: self.closed(level))
    monkeypatch.setattr("skillgate.stats.compare.sign_flip", lambda deltas: (1.0, 0))


class Gate(NamedTuple):
    decision: Decision
    repeats: int
    stop: Stop
    ends: tuple[float, float]


def gate(runs: list[Run], design: Design) -> Gate:
    """Judge wave by wave, as a gate does."""
    for number, repeats in enumerate(design.repeats):
        seen = [one for one in runs if one.cell.repeat < repeats]
        comparisons = compare(seen, ARMS, [one.cell for one in seen], level=1 - design.levels[number])
        stop = examine(comparisons, POLICY, design, number)
        if stop is not None:
            interval = comparisons[0].interval
            assert interval is not None
            decision = decide(comparisons, POLICY).decision
            return Gate(decision, repeats, stop, (interval.low, interval.high))
    raise AssertionError("the last look ends it")


@pytest.mark.usefixtures("_closed_form")
@pytest.mark.parametrize("make", SHAPES)
def test_a_batch_decides_and_stops_as_one_gate_does(make: Callable[[np.random.Generator], Shape]) -> None:
    shape = make(np.random.default_rng(7))
    for design in DESIGNS:
        played = play(shape.arms, POLICY, design)
        alone = [gate(shape.runs(number), design) for number in range(SETS)]
        assert [DECISIONS[code] for code in played.decision] == [one.decision for one in alone]
        assert played.repeats.tolist() == [one.repeats for one in alone]
        ends = np.clip(np.stack([played.low, played.high], axis=1), -1, 1)
        assert ends == pytest.approx(np.array([one.ends for one in alone]), abs=1e-9)


@pytest.mark.usefixtures("_closed_form")
def test_the_data_sets_show_every_decision_and_every_end() -> None:
    """What no data set reaches is not compared above."""
    alone = [gate(shape.runs(i), OURS) for shape in shapes() for i in range(0, SETS, 2)]
    assert {one.decision for one in alone} == {*Decision} - {Decision.NOT_RUN}
    assert {(one.stop, one.repeats) for one in alone} >= {
        (Stop.DECIDED, 2),
        (Stop.DECIDED, 3),
        (Stop.DECIDED, 4),
        (Stop.FUTILE, 2),
        (Stop.FUTILE, 3),
        (Stop.LAST, 5),
    }


def shapes() -> Iterator[Shape]:
    return (make(np.random.default_rng(7)) for make in SHAPES)


def test_the_bootstrap_of_a_gate_rarely_decides_otherwise() -> None:
    """Only where an end of the interval nearly touches a bound: on 50 data sets, at most three."""
    other = 0
    for make in (shares, binary):
        shape = make(np.random.default_rng(7))
        played = play(shape.arms, POLICY, fixed(REPEATS))
        alone = [gate(shape.runs(number), fixed(REPEATS)).decision for number in range(SETS)]
        other += sum(DECISIONS[a] is not b for a, b in zip(played.decision, alone, strict=True))
    assert other <= 3


def test_data_sets_do_not_know_each_other() -> None:
    shape = collapsing(np.random.default_rng(7))
    together = play(shape.arms, POLICY, OURS)
    alone = [play(Arms(*(part[[i]] for part in shape.arms)), POLICY, OURS) for i in range(SETS)]
    for all_at_once, parts in zip(together, zip(*alone, strict=True), strict=True):
        assert all_at_once == pytest.approx(np.concatenate(parts), abs=1e-12)
    assert sum(together.share(decision) for decision in Decision) == pytest.approx(1)


@pytest.mark.parametrize(("base", "head"), [(5, 5), (2, 4), (3, 1)])
def test_noises_are_the_noise_of_each(base: int, head: int) -> None:
    generator = np.random.default_rng(5)
    arms = generator.binomial(4, 0.7, (6, 7, base)) / 4, generator.binomial(4, 0.6, (6, 7, head)) / 4
    many = Noises.of(*arms, unit=PSEUDO_LOG)
    low, high = many.ends(0.9)
    z = many.z(-0.1)
    for i, rows in enumerate(zip(*arms, strict=True)):
        one = Noise.of(*rows, unit=PSEUDO_LOG)
        assert (many.delta[i], many.error[i], many.freedom) == pytest.approx(
            (one.delta, one.error, one.freedom)
        )
        assert (low[i], high[i], z[i]) == pytest.approx((*one.closed(0.9), one.z(-0.1)))


# --- properties -------------------------------------------------------------------

ROWS = st.lists(st.integers(0, 8), min_size=2, max_size=5)
SUITES = st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=6)
Suite = list[tuple[list[int], list[int]]]
RESAMPLED = settings(max_examples=25, deadline=None)


def ratios(suite: Suite) -> tuple[list[list[float]], list[list[float]]]:
    return [[n / 8 for n in base] for base, _ in suite], [[n / 8 for n in head] for _, head in suite]


def costs(suite: Suite) -> tuple[list[list[float]], list[list[float]]]:
    return [[1.0 + n for n in base] for base, _ in suite], [[1.0 + n for n in head] for _, head in suite]


@pytest.mark.parametrize("of", [suite_interval, suite_interval_closed])
@given(suite=SUITES)
@RESAMPLED
def test_swapped_arms_mirror_the_interval(of: Callable[..., object], suite: Suite) -> None:
    base, head = ratios(suite)
    there, back = of(base, head), of(head, base)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)


@pytest.mark.parametrize("of", [cost_interval, cost_interval_closed])
@given(suite=SUITES)
@RESAMPLED
def test_swapped_arms_invert_the_cost_ratio(of: Callable[..., object], suite: Suite) -> None:
    base, head = costs(suite)
    try:
        there = of(base, head)
    except ValueError:  # the same ratio in every task has no paired t, whichever arm comes first
        with pytest.raises(ValueError, match="ratios differ"):
            of(head, base)
        return
    back = of(head, base)
    mirrored = (-math.log(back.high), -math.log(back.low))
    assert (math.log(there.low), math.log(there.high)) == pytest.approx(mirrored, abs=1e-9)


GRIDS = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).integers(0, 5, (2, 3, 4, 3)).astype(float) / 4
)


@given(grids=GRIDS)
@settings(max_examples=50, deadline=None)
def test_swapped_arms_mirror_a_batch(grids: np.ndarray) -> None:
    there, back = Noises.of(grids[0], grids[1]), Noises.of(grids[1], grids[0])
    for one, other in ((there.ends(0.95), back.ends(0.95)), (there.ends(0.5), back.ends(0.5))):
        assert one[0] == pytest.approx(-other[1], abs=1e-12)
        assert one[1] == pytest.approx(-other[0], abs=1e-12)
    assert there.z() == pytest.approx(-back.z(), abs=1e-9)


@given(grids=GRIDS)
@settings(max_examples=50, deadline=None)
def test_a_copy_of_every_run_narrows_a_batch(grids: np.ndarray) -> None:
    once, twice = Noises.of(*grids), Noises.of(*np.concatenate([grids, grids], axis=-1))
    assert twice.delta == pytest.approx(once.delta, abs=1e-12)
    assert (twice.error <= once.error / math.sqrt(2)).all()


def width(of: Callable[..., object], base: list[list[float]], head: list[list[float]]) -> float:
    found = of(base, head)
    if of in (cost_interval, cost_interval_closed):
        return math.log(found.high / found.low)
    return found.high - found.low


@pytest.mark.parametrize(
    ("of", "slack"), [(suite_interval, 1.1), (suite_interval_closed, 1.0), (cost_interval, 1.1)]
)
@given(suite=SUITES)
@RESAMPLED
def test_a_copy_of_every_run_narrows_the_interval(
    of: Callable[..., object], slack: float, suite: Suite
) -> None:
    """By the root of two or more: twice the runs, and more of them to know the noise by."""
    base, head = (costs if of is cost_interval else ratios)(suite)
    twice = width(of, [row * 2 for row in base], [row * 2 for row in head])
    assert twice <= slack * width(of, base, head) / math.sqrt(2) + 1e-12


@given(suite=SUITES, pick=st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_a_repeated_run_widens_the_interval_little(suite: Suite, pick: object) -> None:
    """Were it the one that stands apart: its cell has five runs at most, so by less than a quarter."""
    base, head = ratios(suite)
    before = width(suite_interval_closed, base, head)
    row = pick.choice(pick.choice((base, head)))
    row.append(pick.choice(row))
    assert width(suite_interval_closed, base, head) <= 1.25 * before
