"""What a paired run took: runs, reuse, tokens, turns, time, money, weight."""

from __future__ import annotations

import msgspec
import pytest

from skillgate.core import ArmPair, Cell, Interval, Metric, Outcome, Run, Spend
from skillgate.report import costs
from skillgate.values import TokenWeight, Usage

SAME = "(same task, agent, model and image)"


def between(low: float, high: float, level: float = 0.95) -> Interval:
    return Interval(low=low, high=high, level=level, method="m")


def test_a_limited_run_is_said_to_be_scored(samples) -> None:
    limited = Run(
        cell=Cell(task="t", arm="head", repeat=0), outcome=Outcome.LIMIT, reason="the agent used up its time"
    )
    nameless = Run(cell=Cell(task="t", arm="head", repeat=1), outcome=Outcome.INVALID)
    assert costs.cost_lines(samples.bare(runs=(limited, nameless, limited))) == [
        "2 limit runs (scored by their graders): the agent used up its time",
        "1 invalid run (no score): no reason given",
    ]


def test_token_weight(samples) -> None:
    small, large = TokenWeight(listing=10, body=1000), TokenWeight(listing=12, body=1000, references=5)
    paid = "Listing is paid on every request, body and references on use."
    changed = msgspec.structs.replace(samples.bare(), weight_base=small, weight_head=large)
    assert costs.cost_lines(changed) == [
        "Token weight (cl100k_base): listing 10 → 12 (+2), body 1,000, references 0 → 5 (+5), "
        f"total 1,010 → 1,017 (+7). {paid}"
    ]
    deleted = msgspec.structs.replace(samples.bare(), weight_base=small)
    assert costs.cost_lines(deleted) == [
        "Token weight (cl100k_base, before): listing 10, body 1,000, references 0, total 1,010."
    ]


def test_money() -> None:
    spend = Spend(spent_usd_micros=2_410_000, held_usd_micros=50_000, cap_usd_micros=5_000_000)
    assert costs.money(spend) == "Spent $2.41 of the $5.00 cap, $0.0500 held for calls of unknown cost."


def test_no_money_is_no_sentence() -> None:
    assert (costs.money(Spend()), costs.total(Spend())) == ("", "")


@pytest.mark.parametrize(
    ("runs", "usd_micros", "expected"),
    [
        (0, 0, ""),
        (1, 0, "1 run was saved."),
        (32, 0, "32 runs were saved."),
        (1, 20_000, "1 run and about $0.0200 were saved."),
        (1200, 540_000, "1,200 runs and about $0.54 were saved."),
    ],
)
def test_saved(runs: int, usd_micros: int, expected: str) -> None:
    assert costs.saved(Spend(saved_runs=runs, saved_usd_micros=usd_micros)) == expected


def test_what_a_gate_spent_reused_and_saved() -> None:
    spend = Spend(
        spent_usd_micros=1_200_000,
        cap_usd_micros=5_000_000,
        reused_runs=1,
        saved_runs=8,
        saved_usd_micros=130_000,
    )
    assert costs.total(spend) == (
        "Spent $1.20 of the $5.00 cap. 1 run reused. 8 runs and about $0.13 were saved."
    )


@pytest.mark.parametrize(
    ("skills", "source"), [(1, "earlier gates"), (2, "earlier gates or other skills of this one")]
)
def test_reused_runs_and_where_they_come_from(skills: int, source: str, samples) -> None:
    (report,) = samples.reused().reports
    spend = Spend(reused_runs=54)
    found = msgspec.structs.replace(report, skills_compared=skills, spend=spend)
    assert costs.cost_lines(found)[0] == (
        f"84 scored runs of 84 planned, 54 of them reused from {source} {SAME}."
    )


def test_what_a_run_takes_beside_money(samples) -> None:
    found = samples.bare(
        samples.compared(),
        samples.compared(
            Metric.TOKENS, base=35_070.4, head=37_784, delta=2_713.6, interval=between(1_900, 3_527, 0.99264)
        ),
        samples.compared(Metric.TURNS, base=4, head=4.25, delta=0.25, interval=between(-0.04, 0.6)),
        samples.compared(Metric.WALL_S, base=41.5, head=1040.04, delta=998.54),
    )
    assert costs.cost_lines(found) == [
        "Per run, not judged (change and its 99.26 % interval): tokens 35,070 → 37,784, +2,714 (+1,900 to "
        "+3,527), token overhead rho = +8 %; turns 4.0 → 4.2, +0.2 (+0.0 to +0.6); time 41.5 → 1,040.0 s, "
        "+998.5."
    ]


def test_amounts_of_other_arms_and_amounts_that_nobody_counts_are_left_out(samples) -> None:
    other = ArmPair("none", "head")
    found = samples.bare(
        samples.compared(),
        samples.compared(Metric.TOKENS, base=0, head=900, delta=900),
        samples.compared(Metric.TURNS, base=0, head=0, delta=0),
        samples.compared(Metric.TURNS, arms=other, base=2, head=3, delta=1),
        samples.compared(Metric.WALL_S, n_pairs=0, base=2, head=3, delta=1),
    )
    assert costs.cost_lines(found) == ["Per run, not judged: tokens 0 → 900, +900."]
    assert costs.cost_lines(samples.bare(samples.compared(Metric.TURNS, base=2))) == []


def test_two_books_of_a_cost_are_compared(samples) -> None:
    def cost(metered: int, said: int | None, outcome: Outcome = Outcome.PASSED) -> Run:
        cell = Cell(task="t", arm="head", repeat=0)
        return Run(
            cell=cell, outcome=outcome, usage=Usage(usd_micros=metered), reported_usd_micros=said, reason="x"
        )

    near = (cost(100_000, 100_999), cost(100_000, None), cost(40, 1), cost(9_000, 1, Outcome.INVALID))
    assert not [line for line in costs.cost_lines(samples.bare(runs=near)) if "books" in line]
    far = (*near, cost(100_000, 102_000))
    assert [line for line in costs.cost_lines(samples.bare(runs=far)) if "books" in line] == [
        "By the agent's own books 1 run of 3 cost $0.1020, by the meter $0.1000: the meter's figure counts; "
        "see whether the price table is of today."
    ]
