"""Every cell of the verdict table with its full verdict, then findings, gates and corrections."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from skillgate.core import (
    ArmPair,
    Comparison,
    Decision,
    Finding,
    Interval,
    Metric,
    Policy,
    SignFlip,
    TaskDelta,
    Verdict,
)
from skillgate.stats.verdict import (
    TABLE,
    Cost,
    Quality,
    Standing,
    benjamini_hochberg,
    decide,
    decisions,
    holm,
    standing,
    with_findings,
    worst,
)
from skillgate.values import FailOn, Location, Severity

MERGE, HOLD, BLOCK = Decision.MERGE, Decision.HOLD, Decision.BLOCK
INCONCLUSIVE, NOT_RUN = Decision.INCONCLUSIVE, Decision.NOT_RUN


def between(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, level=0.95, method="m")


def compared(metric: Metric, delta: float, interval: Interval | None, **changes) -> Comparison:
    made = Comparison(
        metric=metric,
        arms=ArmPair("base", "head"),
        tasks=10,
        repeats=3,
        n_pairs=30,
        n_dropped=0,
        base=0.5,
        head=0.5 + delta,
        delta=delta,
        interval=interval,
    )
    return replace(made, **changes)


def scores(delta: float, low: float, high: float, **changes) -> Comparison:
    return compared(Metric.PASS_RATIO, delta, between(low, high), **changes)


def cost(delta: float, low: float, high: float) -> Comparison:
    return compared(Metric.COST_RATIO, delta, between(low, high))


FALLEN = TaskDelta(task="s/a", base_values=(1.0, 1.0, 0.75), head_values=(0.25, 0.0, 0.5))
STEADY = TaskDelta(task="s/b", base_values=(1.0, 1.0, 0.75), head_values=(1.0, 0.75, 1.0))

WORSE = scores(-0.2, -0.35, -0.05)
COLLAPSED = scores(-0.04, -0.12, 0.04, by_task=(FALLEN, STEADY))
BETTER = scores(0.125, 0.0311, 0.2189)
NO_WORSE = scores(0.0, -0.06, 0.06)
FELL = scores(-0.12, -0.26, 0.02)
OPEN = scores(0.02, -0.13, 0.17)

WORSE_SAYS = (
    "From base to head the pass ratio changed by -20.0 points (95 % interval -35.0 to -5.0): "
    "worse, by more than run-to-run noise explains."
)
COLLAPSED_SAYS = "Task s/a (92 % to 25 %) collapsed: every head run is below every base run."
COLLAPSED_CHANGE = "From base to head the pass ratio changed by -4.0 points (95 % interval -12.0 to +4.0)."
BETTER_SAYS = (
    "From base to head the pass ratio changed by +12.5 points (95 % interval +3.1 to +21.9): "
    "better, by more than run-to-run noise explains."
)
NO_WORSE_SAYS = (
    "From base to head the pass ratio changed by +0.0 points (95 % interval -6.0 to +6.0): "
    "no worse than the margin of 10 points allows."
)
FELL_SAYS = (
    "From base to head the pass ratio changed by -12.0 points (95 % interval -26.0 to +2.0): "
    "the drop reaches the margin of 10 points, though noise could explain it."
)
OPEN_SAYS = (
    "From base to head the pass ratio changed by +2.0 points (95 % interval -13.0 to +17.0): "
    "the interval is too wide to exclude a drop beyond the margin of 10 points."
)

WITHIN = cost(1.05, 0.98, 1.13)
UNCLEAR = cost(1.12, 1.01, 1.24)
OVER = cost(1.31, 1.23, 1.4)
WITHIN_SAYS = (
    "From base to head the cost changed by x1.05 (95 % interval 0.98 to 1.13): within the budget of x1.20."
)
UNCLEAR_SAYS = (
    "From base to head the cost changed by x1.12 (95 % interval 1.01 to 1.24): "
    "whether it stays within the budget of x1.20 is unproven."
)
OVER_SAYS = (
    "From base to head the cost changed by x1.31 (95 % interval 1.23 to 1.40): over the budget of x1.20."
)
NO_COST_SAYS = "There is no cost interval: whether it stays within the budget of x1.20 is unproven."


@pytest.mark.parametrize(
    ("quality", "cost_ratio", "decision", "reasons"),
    [
        (WORSE, WITHIN, BLOCK, (WORSE_SAYS, WITHIN_SAYS)),
        (WORSE, UNCLEAR, BLOCK, (WORSE_SAYS, UNCLEAR_SAYS)),
        (WORSE, OVER, BLOCK, (WORSE_SAYS, OVER_SAYS)),
        (COLLAPSED, WITHIN, HOLD, (COLLAPSED_SAYS, COLLAPSED_CHANGE, WITHIN_SAYS)),
        (COLLAPSED, UNCLEAR, HOLD, (COLLAPSED_SAYS, COLLAPSED_CHANGE, UNCLEAR_SAYS)),
        (COLLAPSED, OVER, HOLD, (COLLAPSED_SAYS, COLLAPSED_CHANGE, OVER_SAYS)),
        (BETTER, WITHIN, MERGE, (BETTER_SAYS, WITHIN_SAYS)),
        (BETTER, UNCLEAR, MERGE, (BETTER_SAYS, UNCLEAR_SAYS)),
        (BETTER, OVER, HOLD, (OVER_SAYS, BETTER_SAYS)),
        (NO_WORSE, WITHIN, MERGE, (NO_WORSE_SAYS, WITHIN_SAYS)),
        (NO_WORSE, UNCLEAR, INCONCLUSIVE, (UNCLEAR_SAYS, NO_WORSE_SAYS)),
        (NO_WORSE, OVER, HOLD, (OVER_SAYS, NO_WORSE_SAYS)),
        (FELL, WITHIN, HOLD, (FELL_SAYS, WITHIN_SAYS)),
        (FELL, UNCLEAR, HOLD, (FELL_SAYS, UNCLEAR_SAYS)),
        (FELL, OVER, HOLD, (FELL_SAYS, OVER_SAYS)),
        (OPEN, WITHIN, INCONCLUSIVE, (OPEN_SAYS, WITHIN_SAYS)),
        (OPEN, UNCLEAR, INCONCLUSIVE, (OPEN_SAYS, UNCLEAR_SAYS)),
        (OPEN, OVER, HOLD, (OVER_SAYS, OPEN_SAYS)),
    ],
)
def test_table(quality, cost_ratio, decision, reasons):
    assert decide([quality, cost_ratio], Policy()) == Verdict(decision=decision, reasons=reasons)


STATES = {
    Quality.WORSE: WORSE,
    Quality.COLLAPSED: COLLAPSED,
    Quality.BETTER: BETTER,
    Quality.NO_WORSE: NO_WORSE,
    Quality.FELL: FELL,
    Quality.OPEN: OPEN,
}
COSTS = {Cost.WITHIN: WITHIN, Cost.UNCLEAR: UNCLEAR, Cost.OVER: OVER}


@pytest.mark.parametrize("quality", Quality)
@pytest.mark.parametrize("column", Cost)
def test_where_comparisons_stand_is_what_the_verdict_is_read_from(quality, column):
    found = [STATES[quality], COSTS[column]]

    assert standing(found, Policy()) == Standing(quality, column, *found)
    assert decide(found, Policy()).decision is TABLE[quality][column]


@pytest.mark.parametrize("others", [(), (compared(Metric.COST_RATIO, 1.3, None),)])
def test_without_a_cost_interval_the_cost_is_unclear(others):
    assert standing([BETTER, *others], Policy()) == Standing(Quality.BETTER, Cost.UNCLEAR, BETTER, None)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [WITHIN],
        [compared(Metric.PASS_RATIO, -0.3, None), WITHIN],
        [replace(WORSE, n_pairs=23, n_dropped=7), WITHIN],
    ],
)
def test_what_cannot_decide_stands_nowhere(found):
    assert standing(found, Policy()) is None


def test_as_many_dropped_as_allowed_still_stand_somewhere():
    assert standing([replace(WORSE, n_pairs=24, n_dropped=6)], Policy()) is not None


def test_the_policy_moves_where_comparisons_stand():
    lenient = Policy(margin=0.3, max_cost_increase=0.5)

    assert standing([FELL, OVER], Policy())[:2] == (Quality.FELL, Cost.OVER)
    assert standing([FELL, OVER], lenient)[:2] == (Quality.NO_WORSE, Cost.WITHIN)


def test_the_first_comparison_of_a_metric_stands():
    assert standing([BETTER, WORSE, WITHIN, OVER], Policy()) == Standing(
        Quality.BETTER, Cost.WITHIN, BETTER, WITHIN
    )


@pytest.mark.parametrize(
    ("qualities", "costs", "expected"),
    [
        ([], Cost, set()),
        ([Quality.WORSE], Cost, {BLOCK}),
        ([Quality.BETTER], [Cost.WITHIN, Cost.UNCLEAR], {MERGE}),
        ([Quality.BETTER, Quality.NO_WORSE], Cost, {MERGE, INCONCLUSIVE, HOLD}),
        (set(Quality) - {Quality.WORSE}, [Cost.OVER], {HOLD}),
        ([Quality.COLLAPSED, Quality.FELL], Cost, {HOLD}),
        (Quality, Cost, {MERGE, INCONCLUSIVE, HOLD, BLOCK}),
    ],
)
def test_decisions_that_can_still_be_reached(qualities, costs, expected):
    assert decisions(qualities, costs) == expected


@pytest.mark.parametrize("others", [(), (compared(Metric.COST_RATIO, 1.3, None),)])
def test_no_cost_interval_is_unclear(others):
    assert decide([BETTER, *others], Policy()) == Verdict(decision=MERGE, reasons=(BETTER_SAYS, NO_COST_SAYS))
    assert decide([NO_WORSE, *others], Policy()).decision is INCONCLUSIVE


def test_block_names_collapsed_tasks_too():
    verdict = decide([replace(WORSE, by_task=(FALLEN, STEADY)), WITHIN], Policy())

    assert verdict == Verdict(decision=BLOCK, reasons=(WORSE_SAYS, COLLAPSED_SAYS, WITHIN_SAYS))


def test_several_collapsed_tasks():
    rows = (FALLEN, replace(FALLEN, task="s/z", head_values=(0.0, 0.0, 0.0)))

    assert decide([replace(COLLAPSED, by_task=rows), WITHIN], Policy()).reasons[0] == (
        "Tasks s/a (92 % to 25 %), s/z (92 % to 0 %) collapsed: every head run is below every base run."
    )


def test_two_repeats_cannot_collapse():
    row = replace(FALLEN, base_values=(1.0, 1.0), head_values=(0.0, 0.0))

    assert decide([replace(NO_WORSE, by_task=(row,)), WITHIN], Policy()).decision is MERGE


@pytest.mark.parametrize(
    ("quality", "cost_ratio", "decision"),
    [
        (scores(-0.1, -0.2, 0.0), WITHIN, HOLD),  # hi = 0 is not below 0; d = -M holds
        (scores(0.7 - 0.8, -0.2, 0.1), WITHIN, HOLD),
        (scores(0.8 - 0.9, -0.2, 0.1), WITHIN, HOLD),  # -.1 but for the last bit
        (scores(-0.0999, -0.2, 0.1), WITHIN, INCONCLUSIVE),
        (scores(0.0, -0.1, 0.1), WITHIN, INCONCLUSIVE),  # lo = -M is not above -M
        (scores(0.1, 0.0, 0.2), UNCLEAR, INCONCLUSIVE),  # lo = 0 is not above 0
        (NO_WORSE, cost(1.1, 1.0, 1.2), MERGE),  # up to the budget is within it
        (NO_WORSE, cost(1.3, 1.2, 1.4), INCONCLUSIVE),
    ],
)
def test_edges(quality, cost_ratio, decision):
    assert decide([quality, cost_ratio], Policy()).decision is decision


def test_policy_moves_margin_and_budget():
    verdict = decide([FELL, OVER], Policy(margin=0.3, max_cost_increase=0.5))

    assert verdict == Verdict(
        decision=MERGE,
        reasons=(
            "From base to head the pass ratio changed by -12.0 points (95 % interval -26.0 to +2.0): "
            "no worse than the margin of 30 points allows.",
            OVER_SAYS.replace("over the budget of x1.20", "within the budget of x1.50"),
        ),
    )


def test_the_level_of_an_early_look_is_said_with_four_digits():
    early = replace(WORSE, interval=replace(WORSE.interval, level=0.9992117))

    assert decide([early, WITHIN], Policy()).reasons[0] == WORSE_SAYS.replace("95 %", "99.92 %")


def test_first_comparison_of_a_metric_counts():
    assert decide([BETTER, WORSE, WITHIN, OVER], Policy()).decision is MERGE


# --- too little to decide ---------------------------------------------------------


def test_too_many_dropped_pairs_decide_nothing():
    verdict = decide([replace(WORSE, n_pairs=23, n_dropped=7), OVER], Policy())

    reason = (
        "7 of 30 planned pairs (23 %) lack a score, more than the 20 % that the policy allows: "
        "nothing can be decided."
    )
    assert verdict == Verdict(decision=INCONCLUSIVE, reasons=(reason,))


def test_as_many_dropped_as_allowed():
    assert decide([replace(WORSE, n_pairs=24, n_dropped=6)], Policy()).decision is BLOCK


def test_nothing_compared():
    reason = "No planned pair of runs has a score in both arms: there is nothing to compare."
    assert decide([], Policy()) == Verdict(decision=INCONCLUSIVE, reasons=(reason,))


@pytest.mark.parametrize(
    ("delta", "flip", "level", "decision", "end"),
    [
        (
            -0.3,
            SignFlip(p=0.03125, nonzero=6),
            0.95,
            BLOCK,
            "-30.0 points, sign-flip test p = 0.0312 (tasks that differ: 6): worse.",
        ),
        (
            -0.3,
            SignFlip(p=0.0625, nonzero=5),
            0.95,
            INCONCLUSIVE,
            "-30.0 points, sign-flip test p = 0.0625 (tasks that differ: 5): "
            "below 6 such tasks it cannot reach 0.05.",
        ),
        (
            -0.3,
            SignFlip(p=0.0625, nonzero=8),
            0.95,
            INCONCLUSIVE,
            "-30.0 points, sign-flip test p = 0.0625 (tasks that differ: 8): not below 0.05.",
        ),
        (
            0.3,
            SignFlip(p=0.0078125, nonzero=8),
            0.95,
            INCONCLUSIVE,
            "+30.0 points, sign-flip test p = 0.00781 (tasks that differ: 8): "
            "a gain, but without repeats it cannot merge.",
        ),
        (
            -0.3,
            SignFlip(p=0.015625, nonzero=7),
            0.99,
            INCONCLUSIVE,
            "-30.0 points, sign-flip test p = 0.0156 (tasks that differ: 7): "
            "below 8 such tasks it cannot reach 0.01.",
        ),
        (
            -0.3,
            SignFlip(p=0.5, nonzero=2),
            0.5,
            BLOCK,
            "-30.0 points, sign-flip test p = 0.5 (tasks that differ: 2): worse.",
        ),
    ],
)
def test_one_repeat_may_only_block_by_the_sign_flip_test(delta, flip, level, decision, end):
    single = compared(Metric.PASS_RATIO, delta, None, repeats=1, sign_flip=flip)

    start = (
        "With one run per task and arm there is no interval (plan two or more). "
        "From base to head the pass ratio changed by "
    )
    assert decide([single, OVER], Policy(level=level)) == Verdict(
        decision=decision, reasons=(start + end, OVER_SAYS)
    )


# --- findings and gates -----------------------------------------------------------


def finding(rule: str, severity: Severity, line: int) -> Finding:
    where = Location(path="skills/x/SKILL.md", line=line, column=3)
    return Finding(rule=rule, severity=severity, scope="body", message=f"{rule} is bad.", where=where)


FINDINGS = (
    finding("late-error", Severity.ERROR, 30),
    finding("early-warning", Severity.WARNING, 2),
    finding("early-error", Severity.ERROR, 12),
)
MERGED = Verdict(decision=MERGE, reasons=("fine.",))


@pytest.mark.parametrize(
    ("fail_on", "start"),
    [
        (FailOn.ERROR, "2 findings block at fail-on `error`"),
        (FailOn.WARNING, "3 findings block at fail-on `warning`"),
        (FailOn.NOTE, "3 findings block at fail-on `note`"),
    ],
)
def test_findings_block_on_their_own(fail_on, start):
    said = f"{start}; worst: early-error at skills/x/SKILL.md:12:3: early-error is bad."

    assert with_findings(MERGED, FINDINGS, fail_on) == Verdict(decision=BLOCK, reasons=(said, "fine."))


def test_one_finding_blocks_without_a_run():
    verdict = with_findings(Verdict(decision=NOT_RUN), FINDINGS[1:2], FailOn.WARNING)

    said = (
        "1 finding blocks at fail-on `warning`; "
        "worst: early-warning at skills/x/SKILL.md:2:3: early-warning is bad."
    )
    assert verdict == Verdict(decision=BLOCK, reasons=(said,))


@pytest.mark.parametrize(
    ("findings", "fail_on"), [(FINDINGS, FailOn.NONE), (FINDINGS[1:2], FailOn.ERROR), ((), FailOn.NOTE)]
)
def test_lesser_findings_change_nothing(findings, fail_on):
    assert with_findings(MERGED, findings, fail_on) == MERGED


def test_worst_of_a_gate_names_its_skills():
    verdicts = {
        "skills/a": Verdict(decision=HOLD, reasons=("one.", "two.")),
        "skills/b": MERGED,
        "skills/c": Verdict(decision=HOLD, reasons=("three.",)),
    }

    assert worst(verdicts) == Verdict(
        decision=HOLD, reasons=("skills/a: one.", "skills/a: two.", "skills/c: three.")
    )


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ([MERGE, NOT_RUN], NOT_RUN),
        ([NOT_RUN, INCONCLUSIVE], INCONCLUSIVE),
        ([HOLD, INCONCLUSIVE], HOLD),
        ([HOLD, BLOCK, MERGE], BLOCK),
    ],
)
def test_order_of_decisions(decisions, expected):
    assert worst({str(i): Verdict(decision=d) for i, d in enumerate(decisions)}).decision is expected


def test_worst_of_nothing():
    assert worst({}) == Verdict(decision=NOT_RUN, reasons=("No skill changed.",))


# --- many tests -------------------------------------------------------------------

PS = [0.001, 0.012, 0.013, 0.04, 0.2]
SHUFFLE = [3, 0, 4, 2, 1]


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (holm, [0.005, 0.048, 0.048, 0.08, 0.2]),
        (benjamini_hochberg, [0.005, 0.0216667, 0.0216667, 0.05, 0.2]),
    ],
)
def test_adjusted_p_values_in_the_order_given(adjust, expected):
    assert adjust(PS) == pytest.approx(expected, abs=5e-8)
    assert adjust([PS[i] for i in SHUFFLE]) == pytest.approx([expected[i] for i in SHUFFLE], abs=5e-8)
    assert adjust([]) == ()
    assert adjust([0.6, 0.9]) == pytest.approx([1.0 if adjust is holm else 0.9] * 2)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=20))
def test_adjusting_never_lowers_a_p_value(ps):
    for p, fdr, family in zip(ps, benjamini_hochberg(ps), holm(ps), strict=True):
        assert p - 1e-12 <= fdr <= family + 1e-12 <= 1 + 1e-12
