"""Runs in, comparisons out: pairing, dropping, and the recorded runs of a real model."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from scipy.special import stdtr, stdtrit

from skillgate.core import (
    ArmPair,
    Cell,
    Comparison,
    Decision,
    Grade,
    GradeKind,
    Interval,
    Metric,
    Outcome,
    Policy,
    Run,
    SignFlip,
    Step,
    TaskDelta,
)
from skillgate.stats.compare import compare, cost_interval_closed, plus2_interval, suite_interval_closed
from skillgate.stats.verdict import decide
from skillgate.values import Usage

RECORDED = Path(__file__).parents[1] / "data" / "local-model-runs.jsonl"
ARMS = ArmPair("base", "head")


def grades(passed: Iterable[bool]) -> tuple[Grade, ...]:
    return tuple(Grade(grader=f"g{i}", kind=GradeKind.FAIL_TO_PASS, passed=ok) for i, ok in enumerate(passed))


def run(task: str, arm: str, repeat: int, passed: int, usd_micros: int = 100, **changes) -> Run:
    """A run that passes `passed` of four graders."""
    made = Run(
        cell=Cell(task=task, arm=arm, repeat=repeat),
        outcome=Outcome.PASSED if passed == 4 else Outcome.FAILED,
        grades=grades(i < passed for i in range(4)),
        usage=Usage(input=10 * usd_micros, turns=3, usd_micros=usd_micros),
        wall_s=2.0,
    )
    return replace(made, **changes)


def both(task: str, base: list[int], head: list[int], usd: tuple[int, int] = (100, 120)) -> list[Run]:
    arms = (("base", base, usd[0]), ("head", head, usd[1]))
    return [run(task, arm, i, passed, micros) for arm, row, micros in arms for i, passed in enumerate(row)]


def cells(runs: list[Run]) -> tuple[Cell, ...]:
    return tuple(run.cell for run in runs)


def judge(runs: list[Run], **options) -> dict[Metric, Comparison]:
    return {found.metric: found for found in compare(runs, ARMS, cells(runs), **options)}


def with_steps(run: Run, *passed_at: int | None, planned: int = 3) -> Run:
    """Let a run be of a chain that reached so many of its planned tasks."""
    steps = tuple(Step(task=f"s/{n}", passed_at=at) for n, at in enumerate(passed_at))
    return replace(run, steps=steps, planned_steps=planned)


RUNS = both("s/a", [4, 3, 4], [4, 4, 4]) + both("s/b", [0, 1, 2], [2, 2, 3])


UNSTEPPED = [Metric.PASS_RATIO, Metric.COST_RATIO, Metric.TOKENS, Metric.TURNS, Metric.WALL_S]


def test_every_metric_in_order():
    assert [found.metric for found in compare(RUNS, ARMS, cells(RUNS))] == UNSTEPPED
    stepped = [with_steps(run, 1, 2) for run in RUNS]
    assert [found.metric for found in compare(stepped, ARMS, cells(RUNS))] == list(Metric)


def test_pass_ratio_in_full():
    found = judge(RUNS)[Metric.PASS_RATIO]

    rows = (
        TaskDelta(task="s/a", base_values=(1.0, 0.75, 1.0), head_values=(1.0, 1.0, 1.0)),
        TaskDelta(task="s/b", base_values=(0.0, 0.25, 0.5), head_values=(0.5, 0.5, 0.75)),
    )
    closed = suite_interval_closed([r.base_values for r in rows], [r.head_values for r in rows])
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((closed.low, closed.high), abs=0.06)
    assert found.generalised is not None
    assert found.generalised.low < found.interval.low < found.interval.high < found.generalised.high
    assert replace(found, interval=None, generalised=None) == Comparison(
        metric=Metric.PASS_RATIO,
        arms=ARMS,
        tasks=2,
        repeats=3,
        n_pairs=6,
        n_dropped=0,
        base=pytest.approx(7 / 12),
        head=pytest.approx(19 / 24),
        delta=pytest.approx(5 / 24),
        sign_flip=SignFlip(p=0.5, nonzero=2),
        by_task=rows,
        p=found.p,
    )


def test_p_belongs_to_the_interval_that_just_touches_no_change():
    for runs in (RUNS, both("s/a", [4, 3, 4], [2, 2, 3]), both("s/a", [4, 3], [0, 0, 1])):
        found = judge(runs)[Metric.PASS_RATIO]
        assert found.p is not None
        if found.delta == 0 or found.p > 0.5:
            continue
        touching = suite_interval_closed(*found.rows, level=1 - found.p)
        assert (touching.low if found.delta > 0 else touching.high) == pytest.approx(0, abs=1e-9)


def test_p_is_one_without_a_change_and_belongs_to_the_pass_ratio_alone():
    found = judge(both("s/a", [4, 3, 4], [4, 3, 4]))

    assert found[Metric.PASS_RATIO].p == pytest.approx(1)
    assert {metric for metric, one in found.items() if one.p is not None} == {Metric.PASS_RATIO}


def test_generalised_interval_knows_binary_scores():
    tasks = [f"s/{letter}" for letter in "abcdef"]
    binary = judge([run for task in tasks for run in both(task, [4, 0], [4, 4])])[Metric.PASS_RATIO]
    shares = judge([run for task in tasks for run in both(task, [4, 1], [4, 4])])[Metric.PASS_RATIO]

    assert binary.generalised == plus2_interval([0.5] * 6, c=1.0)
    assert shares.generalised == plus2_interval([0.375] * 6, c=0.6)


def test_an_interval_of_pass_ratios_stays_within_what_they_can_be():
    found = judge(both("s/a", [0, 4], [4, 4]))[Metric.PASS_RATIO]

    assert found.interval is not None
    assert found.generalised is not None
    assert (found.interval.low, found.interval.high) == (-1, 1)
    assert (found.generalised.low, found.generalised.high) == (-1, 1)


def test_cost_in_dollars_and_as_geometric_ratio():
    runs = both("s/a", [4, 4], [4, 4], (100, 200)) + both("s/b", [4, 4], [4, 4], (1000, 1000))

    found = judge(runs)[Metric.COST_RATIO]

    assert found.by_task == (
        TaskDelta(task="s/a", base_values=(0.0001,) * 2, head_values=(0.0002,) * 2),
        TaskDelta(task="s/b", base_values=(0.001,) * 2, head_values=(0.001,) * 2),
    )
    assert (found.base, found.head) == pytest.approx((0.00055, 0.0006))
    assert found.delta == pytest.approx(2**0.5)
    assert found.total_ratio == pytest.approx(0.0006 / 0.00055)
    assert found.interval is not None
    assert found.interval.low < found.delta < found.interval.high
    assert (found.sign_flip, found.generalised) == (None, None)


def test_amounts_are_differences_whose_interval_scales_with_the_unit():
    runs = [replace(r, wall_s=1.0 + i % 3) for i, r in enumerate(RUNS)]
    slow = [replace(r, wall_s=1000 * r.wall_s) for r in runs]

    found, scaled = judge(runs)[Metric.WALL_S], judge(slow)[Metric.WALL_S]

    assert found.interval is not None
    assert scaled.interval is not None
    assert (scaled.interval.low, scaled.interval.high) == pytest.approx(
        (1000 * found.interval.low, 1000 * found.interval.high)
    )
    assert judge(RUNS)[Metric.TOKENS].delta == pytest.approx(200)
    assert judge(RUNS)[Metric.TURNS].delta == 0


def test_amounts_of_zero_have_an_interval():
    found = judge([replace(r, usage=Usage()) for r in RUNS])

    assert found[Metric.TURNS].interval is not None
    assert Metric.COST_RATIO not in found  # a base arm without cost: nothing to divide by


def test_one_free_run_leaves_the_ratio_of_totals_and_no_interval():
    runs = [*both("s/a", [4, 4], [4, 4]), *both("s/b", [4, 4], [4, 4])[:-1], run("s/b", "head", 1, 0, 0)]

    found = judge(runs)[Metric.COST_RATIO]

    assert (found.delta, found.interval) == (pytest.approx(90 / 100), None)


# --- pairs ------------------------------------------------------------------------


def test_a_pair_with_an_unscored_or_missing_run_is_dropped_from_both_arms():
    runs = both("s/a", [4, 3, 4], [4, 4, 0]) + both("s/b", [0, 1, 2], [2, 2, 3])
    planned = cells(runs)
    runs[0] = Run(cell=runs[0].cell, outcome=Outcome.INVALID, reason="no network")
    del runs[-1]

    found = compare(runs, ARMS, planned)[0]

    assert (found.tasks, found.repeats, found.n_pairs, found.n_dropped) == (2, 2, 4, 2)
    assert found.by_task == (
        TaskDelta(task="s/a", base_values=(0.75, 1.0), head_values=(1.0, 0.0)),
        TaskDelta(task="s/b", base_values=(0.0, 0.25), head_values=(0.5, 0.5)),
    )


def test_ragged_repeats_keep_their_interval():
    runs = both("s/a", [4], [4]) + both("s/b", [0, 1, 2], [2, 2, 3])

    found = judge(runs)[Metric.PASS_RATIO]

    assert (found.tasks, found.repeats, found.n_pairs) == (2, 1, 4)
    assert found.interval is not None


def test_a_limit_scores_what_its_graders_say():
    runs = both("s/a", [4, 4], [4, 4])
    runs[-1] = replace(runs[-1], outcome=Outcome.LIMIT, grades=grades([True, False]))

    assert judge(runs)[Metric.PASS_RATIO].head == 0.75


def test_a_task_without_a_complete_pair_is_left_out_and_counted():
    runs = both("s/a", [4, 4], [4, 4]) + both("s/b", [0, 0], [0, 0])
    found = compare([r for r in runs if str(r.cell) != "s/b [head #1]"][:-1], ARMS, cells(runs))[0]

    assert ([row.task for row in found.by_task], found.n_pairs, found.n_dropped) == (["s/a"], 2, 2)


def test_nothing_complete_nothing_compared():
    runs = both("s/a", [4, 4], [4, 4])

    assert compare([], ARMS, cells(runs)) == ()
    assert compare(runs, ARMS, cells(runs)[:2]) == ()  # the head arm was never planned


def test_unequal_repeats_per_task_weigh_every_task_the_same():
    runs = both("s/a", [4, 4, 4, 4, 4], [0, 0, 0, 0, 0]) + both("s/b", [2, 2], [4, 4])

    found = judge(runs)[Metric.PASS_RATIO]

    assert (found.tasks, found.repeats, found.n_pairs, found.n_dropped, found.n_unpaired) == (2, 2, 7, 0, 0)
    assert (found.base, found.head, found.delta) == pytest.approx((0.75, 0.5, -0.25))
    assert [len(row.head_values) for row in found.by_task] == [5, 2]


def test_reused_repeats_of_the_base_count_without_a_partner():
    """Ten known runs of the base and three fresh ones of the head: all thirteen count."""
    base = [4, 3, 4, 2, 4, 3, 4, 4, 1, 4]
    runs = both("s/a", base, [2, 3, 2]) + both("s/b", base[::-1], [4, 4, 3])

    found = judge(runs)[Metric.PASS_RATIO]

    assert (found.repeats, found.n_pairs, found.n_dropped, found.n_unpaired) == (3, 6, 0, 14)
    assert found.by_task[0] == TaskDelta(
        task="s/a",
        base_values=tuple(passed / 4 for passed in base),
        head_values=(0.5, 0.75, 0.5),
    )
    assert (found.base, found.head) == pytest.approx((3.3 / 4, 3 / 4))
    paired = judge([one for one in runs if one.cell.repeat < 3])[Metric.PASS_RATIO]
    assert paired.n_unpaired == 0
    widths = [one.interval.high - one.interval.low for one in (found, paired) if one.interval]
    assert widths[0] < widths[1]
    assert {one.n_unpaired for one in judge(runs).values()} == {14}


def test_a_planned_pair_with_one_run_is_dropped_although_the_base_has_more():
    """A repeat that both arms were to have counts only as a pair; what the base has alone still counts."""
    runs = both("s/a", [4, 0, 4, 4, 4], [2, 2])
    planned = cells(runs)
    lost = [one for one in runs if str(one.cell) != "s/a [head #2]"]

    found = compare(lost, ARMS, planned)[0]

    assert (found.n_pairs, found.n_dropped, found.n_unpaired) == (1, 1, 3)
    assert found.by_task == (TaskDelta(task="s/a", base_values=(1.0,) * 4, head_values=(0.5,)),)


def test_a_reused_repeat_that_was_not_found_is_no_dropped_pair():
    runs = both("s/a", [4, 4, 4, 4], [4, 4])
    found = compare([one for one in runs if str(one.cell) != "s/a [base #4]"], ARMS, cells(runs))[0]

    assert (found.n_pairs, found.n_dropped, found.n_unpaired) == (2, 0, 1)


def test_a_task_that_only_one_arm_ran_is_left_out():
    runs = both("s/a", [4, 3], [4, 4]) + both("s/b", [0] * 5, [])

    found = judge(runs)[Metric.PASS_RATIO]

    assert ([row.task for row in found.by_task], found.n_pairs, found.n_unpaired) == (["s/a"], 2, 0)


@pytest.mark.parametrize("missing", ARMS)
def test_a_missing_arm_leaves_nothing_to_compare(missing):
    there = [one for one in RUNS if one.cell.arm != missing]

    assert compare(there, ARMS, cells(RUNS)) == ()
    assert compare(there, ARMS, cells(there)) == ()


def test_other_arms_do_not_count():
    extra = [run("s/a", "none", i, 0) for i in range(3)]

    assert compare([*RUNS, *extra], ARMS, cells([*RUNS, *extra])) == compare(RUNS, ARMS, cells(RUNS))


# --- one repeat -------------------------------------------------------------------


def test_one_repeat_has_a_cost_interval_only():
    runs = both("s/a", [4], [3], (100, 130)) + both("s/b", [2], [1], (100, 120))

    found = judge(runs)

    paired = cost_interval_closed([[100], [100]], [[130], [120]])
    cost = found[Metric.COST_RATIO].interval
    assert cost is not None
    assert (cost.low, cost.high, cost.method) == (
        pytest.approx(paired.low),
        pytest.approx(paired.high),
        paired.method,
    )
    assert {metric for metric, one in found.items() if one.interval} == {Metric.COST_RATIO}
    assert found[Metric.PASS_RATIO].sign_flip == SignFlip(p=0.5, nonzero=2)
    assert found[Metric.PASS_RATIO].p is None
    assert (found[Metric.PASS_RATIO].repeats, found[Metric.PASS_RATIO].n_pairs) == (1, 2)


def test_one_fresh_repeat_has_no_interval_however_many_runs_the_base_has():
    """The noise of the base says nothing of the head's."""
    found = judge(both("s/a", [4, 3, 4], [3]) + both("s/b", [2, 1, 2], [1]))[Metric.PASS_RATIO]

    assert (found.repeats, found.n_unpaired) == (1, 4)
    assert (found.interval, found.p) == (None, None)
    assert found.sign_flip is not None


def test_one_repeat_and_one_task_or_the_same_ratio_everywhere_has_no_interval():
    same = both("s/a", [4], [3]) + both("s/b", [2], [1])

    assert judge(same)[Metric.COST_RATIO].interval is None
    assert judge(same[:2])[Metric.COST_RATIO].interval is None


# --- chains -----------------------------------------------------------------------


def test_chains_have_pass_at_one_and_two_and_a_depth():
    runs = both("s/chain", [4, 4], [4, 4])
    steps = ((1, None), (2, 1, None), (1, 2, 1), (1, 1, 1))
    chained = [with_steps(one, *passed_at, planned=4) for one, passed_at in zip(runs, steps, strict=True)]

    found = judge(chained)

    values = {metric: found[metric].by_task[0] for metric in set(Metric) - set(UNSTEPPED)}
    assert values == {
        Metric.PASS_AT_1: TaskDelta(task="s/chain", base_values=(0.25, 0.25), head_values=(0.5, 0.75)),
        Metric.PASS_AT_2: TaskDelta(task="s/chain", base_values=(0.25, 0.5), head_values=(0.75, 0.75)),
        Metric.DEPTH: TaskDelta(task="s/chain", base_values=(1.0, 2.0), head_values=(3.0, 3.0)),
    }
    assert [found[metric].delta for metric in values] == pytest.approx(
        [values[metric].delta for metric in values]
    )
    assert all(found[metric].interval for metric in values)
    assert {found[metric].sign_flip for metric in values} == {None}


def test_a_third_attempt_is_deep_but_not_pass_at_two():
    found = judge([with_steps(one, 3, None) for one in both("s/chain", [4, 4], [4, 4])])

    assert [found[metric].head for metric in (Metric.PASS_AT_1, Metric.PASS_AT_2, Metric.DEPTH)] == [0, 0, 1]


def test_shares_of_steps_stay_within_what_they_can_be():
    runs = [with_steps(one, *([1] * one.cell.repeat * 3)) for one in both("s/chain", [4, 4], [4, 4])]
    found = judge(runs)[Metric.PASS_AT_1]

    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (-1, 1)


def test_one_run_without_steps_and_nothing_is_said_of_them():
    chained = [with_steps(one, 1) for one in RUNS]

    assert list(judge([*chained[:-1], RUNS[-1]])) == UNSTEPPED
    others = [run("s/a", "none", 0, 4)]
    assert list(judge([*chained, *others])) == list(Metric)  # another arm's runs are not asked


# --- properties -------------------------------------------------------------------


def test_order_of_runs_and_plan_is_irrelevant():
    shuffled = random.Random(1).sample(RUNS, len(RUNS))

    assert compare(shuffled, ARMS, cells(shuffled), seed=5) == compare(RUNS, ARMS, cells(RUNS), seed=5)


def test_swapping_arms_negates_deltas_and_inverts_the_cost_ratio():
    there, back = compare(RUNS, ARMS, cells(RUNS)), compare(RUNS, ArmPair("head", "base"), cells(RUNS))

    for a, b in zip(there, back, strict=True):
        assert a.interval is not None
        assert b.interval is not None
        if a.metric is Metric.COST_RATIO:
            mirrored = (1 / b.delta, 1 / b.interval.high, 1 / b.interval.low)
        else:
            mirrored = (-b.delta, -b.interval.high, -b.interval.low)
        assert mirrored == pytest.approx((a.delta, a.interval.low, a.interval.high), abs=1e-9)
        assert (a.sign_flip, a.p) == (b.sign_flip, pytest.approx(b.p) if b.p else None)


def test_level_and_seed_reach_the_intervals():
    found = judge(RUNS, level=0.8, seed=1)

    assert {one.interval.level for one in found.values() if one.interval} == {0.8}
    assert found[Metric.PASS_RATIO].interval != judge(RUNS, level=0.8, seed=2)[Metric.PASS_RATIO].interval


# --- real runs --------------------------------------------------------------------


def recorded() -> list[Run]:
    """Price input at 1 and output at 5 micro-dollars: ten times the vector's rates, same ratios."""
    runs = []
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tokens = row["usage"]
        prompt = tokens["input_tokens"] + tokens["cache_read_input_tokens"]
        usage = Usage(
            input=tokens["input_tokens"],
            cache_read=tokens["cache_read_input_tokens"],
            output=tokens["output_tokens"],
            usd_micros=prompt + 5 * tokens["output_tokens"],
        )
        runs.append(
            Run(
                cell=Cell(task=row["task"], arm=row["arm"], repeat=row["repeat"]),
                outcome=Outcome.PASSED if row["ratio"] == 1 else Outcome.FAILED,
                grades=grades(row["grades"]),
                usage=usage,
                wall_s=row["wall"],
            )
        )
    return runs


def on_recorded(head: str, seed: int = 0) -> tuple[Comparison, ...]:
    runs = recorded()
    return compare(runs, ArmPair("none", head), cells(runs), seed=seed)


def numbers(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


@pytest.mark.parametrize(
    ("head", "delta", "ends", "flip"),
    [
        # The published high end, .0338739, is not as far from -.15625 as the low end: a slip of 1e-6.
        ("harm", -0.15625, [-0.3463728, 0.0338728], SignFlip(p=0.03125, nonzero=8)),
        ("help", -0.175, [-0.3836154, 0.0336154], SignFlip(p=0.15625, nonzero=7)),
    ],
)
def test_recorded_pass_ratios(head, delta, ends, flip):
    found = on_recorded(head)[0]

    assert (found.tasks, found.repeats, found.n_pairs, found.n_dropped) == (8, 4, 32, 0)
    assert (found.delta, found.sign_flip) == (pytest.approx(delta), flip)
    assert numbers(suite_interval_closed(*found.rows)) == pytest.approx(ends, abs=5e-8)
    assert found.interval is not None
    assert numbers(found.interval) == pytest.approx(ends, abs=0.015)
    half = (ends[1] - ends[0]) / 2
    assert found.p == pytest.approx(2 * stdtr(48, -abs(delta) * stdtrit(48, 0.975) / half), abs=1e-6)


def test_recorded_costs():
    found = on_recorded("harm")[1]

    assert found.delta == pytest.approx(1.3060305, abs=5e-8)
    assert numbers(cost_interval_closed(*found.rows)) == pytest.approx([1.0503278, 1.6239842], abs=5e-8)


@pytest.mark.parametrize("head", ["harm", "help"])
def test_recorded_verdict_is_hold_for_every_seed(head):
    verdicts = [decide(on_recorded(head, seed), Policy()) for seed in range(5)]

    assert [verdict.decision for verdict in verdicts] == [Decision.HOLD] * 5
    assert "the drop reaches the margin of 10 points" in verdicts[0].reasons[0]
