from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from skillgate.core import (
    ArmPair,
    Cell,
    Comparison,
    Decision,
    Finding,
    Grade,
    GradeKind,
    Interval,
    Label,
    Metric,
    OnInconclusive,
    Outcome,
    Plan,
    Policy,
    Rate,
    Run,
    SignFlip,
    TaskDelta,
    Verdict,
)
from skillgate.values import FailOn, Location, Severity, Usage

CELL = Cell(task="s/t", arm="head", repeat=0)


def finding(line: int, match: str = "/home/x") -> Finding:
    where = Location(path="a/SKILL.md", line=line, column=2)
    return Finding(rule="r", severity=Severity.NOTE, scope="spec", message="m", where=where, match=match)


def test_a_fingerprint_survives_moved_lines_and_tells_matches_apart() -> None:
    assert finding(3).fingerprint == finding(30).fingerprint
    assert finding(3).fingerprint != finding(3, "/home/y").fingerprint


def test_fail_on_catches_what_is_as_bad_or_worse() -> None:
    caught = {limit: [s for s in Severity if limit.catches(s)] for limit in FailOn}
    assert caught == {
        FailOn.NONE: [],
        FailOn.NOTE: [Severity.NOTE, Severity.WARNING, Severity.ERROR],
        FailOn.WARNING: [Severity.WARNING, Severity.ERROR],
        FailOn.ERROR: [Severity.ERROR],
    }


def test_usage_adds_up_field_by_field() -> None:
    one = Usage(
        requests=1, input=2, output=3, cache_read=4, cache_write=5, usd_micros=6, turns=7, tool_calls=8
    )
    assert one + one == Usage(
        requests=2, input=4, output=6, cache_read=8, cache_write=10, usd_micros=12, turns=14, tool_calls=16
    )
    assert one.tokens == 14


@pytest.mark.parametrize(
    ("outcome", "ratio"),
    [
        (Outcome.PASSED, 0.5),
        (Outcome.FAILED, 0.5),
        (Outcome.LIMIT, 0.5),
        (Outcome.INVALID, None),
        (Outcome.SKIPPED, None),
    ],
)
def test_only_scored_outcomes_have_a_pass_ratio(outcome: Outcome, ratio: float | None) -> None:
    grades = tuple(Grade(grader=str(p), kind=GradeKind.FAIL_TO_PASS, passed=p) for p in (True, False))
    assert Run(cell=CELL, outcome=outcome, grades=grades).pass_ratio == ratio


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (1.0, 0.0), (0.0, math.nan), (-math.inf, 0.0)])
def test_an_interval_without_width_or_end_does_not_exist(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="not an interval"):
        Interval(low=low, high=high, level=0.95, method="m")


@pytest.mark.parametrize(
    ("base", "head", "collapsed"),
    [
        ((1.0, 1.0, 1.0), (0.0, 0.5, 0.5), True),
        ((1.0, 1.0), (0.0, 0.0), False),
        ((1.0, 1.0, 1.0), (0.75, 0.75, 0.75), False),
        ((1.0, 1.0, 0.5), (0.0, 0.0, 0.5), False),
    ],
)
def test_a_collapse_needs_three_repeats_separation_and_half_the_score(
    base: tuple[float, ...], head: tuple[float, ...], collapsed: bool
) -> None:
    assert TaskDelta(task="t", base_values=base, head_values=head).collapsed is collapsed


def test_which_verdicts_pass() -> None:
    lenient, strict = Policy(), Policy(on_inconclusive=OnInconclusive.FAIL)
    passes = {d: (Verdict(decision=d).passes(lenient), Verdict(decision=d).passes(strict)) for d in Decision}
    assert passes == {
        Decision.MERGE: (True, True),
        Decision.NOT_RUN: (True, True),
        Decision.INCONCLUSIVE: (True, False),
        Decision.HOLD: (False, False),
        Decision.BLOCK: (False, False),
    }


def test_a_plan_costs_at_most_its_cap() -> None:
    plan = Plan(
        cells=(CELL, Cell(task="s/t", arm="base", repeat=1), Cell(task="s/t", arm="head", repeat=1)),
        seed=1,
        agent="scripted",
        model="m",
        cap_usd_micros=250,
        per_run_usd_micros=100,
        expected_run_usd_micros=10,
        expected_from="assumed",
    )
    assert (plan.arms, plan.tasks, plan.repeats) == (("head", "base"), ("s/t",), 2)
    assert (plan.worst_case_usd_micros, plan.expected_usd_micros, plan.is_scripted) == (250, 30, True)
    assert replace(plan, cap_usd_micros=400).worst_case_usd_micros == 300


def test_a_plan_counts_the_repeats_of_the_head_and_pays_new_runs_only() -> None:
    def cell(task: str, arm: str, repeat: int) -> Cell:
        return Cell(task=task, arm=arm, repeat=repeat)

    known = tuple(cell("s/dear", "base", repeat) for repeat in range(1, 4))
    fresh = (cell("s/dear", "base", 0), cell("s/dear", "head", 0))
    cheap = tuple(cell("s/cheap", arm, repeat) for repeat in range(2) for arm in ("base", "head"))
    plan = Plan(
        cells=(*fresh, *cheap, *known),
        seed=1,
        agent="api",
        model="m",
        cap_usd_micros=10_000,
        per_run_usd_micros=100,
        expected_run_usd_micros=10,
        expected_from="assumed",
        reused=known,
        task_usd_micros={"s/dear": 50},
    )
    assert (plan.repeats, plan.task_repeats) == (2, {"s/cheap": 2, "s/dear": 1})
    assert (plan.worst_case_usd_micros, plan.expected_usd_micros) == (6 * 100, 2 * 50 + 4 * 10)
    assert plan.cost_of(known) == 3 * 50
    empty = replace(plan, cells=(), reused=())
    assert (empty.repeats, empty.task_repeats, empty.expected_usd_micros) == (0, {}, 0)


@pytest.mark.parametrize(
    ("base", "head", "fell", "collapsed"),
    [
        ((1.0, 1.0), (0.0, 0.5), True, False),
        ((1.0,), (0.0,), True, False),
        ((1.0,) * 10, (0.5, 0.25), True, False),
        ((1.0,) * 10, (0.5, 0.25, 0.5), True, True),
        ((1.0, 1.0, 0.5), (0.5, 0.0, 0.0), False, False),
    ],
)
def test_a_task_falls_by_half_before_it_is_known_to_collapse(
    base: tuple[float, ...], head: tuple[float, ...], fell: bool, collapsed: bool
) -> None:
    found = TaskDelta(task="t", base_values=base, head_values=head)
    assert (found.fell_by_half, found.collapsed) == (fell, collapsed)


@pytest.mark.parametrize(
    ("p", "delta", "label"),
    [
        (0.05, 0.1, Label.GOLDEN),
        (0.05, -0.1, Label.HARMFUL),
        (0.0501, 0.9, Label.INEFFECTIVE),
        (0.0501, -0.9, Label.INEFFECTIVE),
        (None, 0.9, None),
    ],
)
def test_labels_of_the_benchmark(p: float | None, delta: float, label: Label | None) -> None:
    found = Comparison(
        metric=Metric.PASS_RATIO,
        arms=ArmPair("base", "head"),
        tasks=8,
        repeats=1,
        n_pairs=8,
        n_dropped=0,
        base=0.5,
        head=0.5 + delta,
        delta=delta,
        sign_flip=None if p is None else SignFlip(p=p, nonzero=8),
    )
    assert found.label is label


def test_a_rate_of_nothing_is_zero() -> None:
    assert [Rate(events=e, trials=t, low=0, high=1).share for e, t in ((3, 4), (0, 0))] == [0.75, 0.0]
