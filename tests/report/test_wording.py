"""Numbers in words, and the sentences and rows that depend on what is missing."""

from __future__ import annotations

import msgspec
import pytest

from skillgate.core import (
    ArmPair,
    Cell,
    ChangeKind,
    Comparison,
    Grade,
    GradeKind,
    Inject,
    Interval,
    Metric,
    Outcome,
    Report,
    Run,
    SignFlip,
    SkillChange,
    Spend,
    TaskDelta,
    Verdict,
)
from skillgate.report import rows, wording
from skillgate.values import TokenWeight, Usage

BASE = ArmPair("base", "head")


def quality(**fields: object) -> Comparison:
    values = {
        "metric": Metric.PASS_RATIO,
        "arms": BASE,
        "tasks": 8,
        "repeats": 1,
        "n_pairs": 8,
        "n_dropped": 0,
        "base": 0.5,
        "head": 0.75,
        "delta": 0.25,
    }
    return Comparison(**(values | fields))


def report(*comparisons: Comparison, runs: tuple[Run, ...] = (), change: SkillChange | None = None) -> Report:
    return Report(
        skill="s",
        change=change or SkillChange(path="s", kind=ChangeKind.CHANGED),
        comparisons=comparisons,
        runs=runs,
        verdict=Verdict(decision="hold"),
    )


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.5, "$0.50"),
        (0.0416, "$0.0416"),
        (0.01, "$0.0100"),
        (0.0000652, "$0.0000652"),
        (1e-12, "$0.00000000"),
    ],
)
def test_dollars(amount: float, expected: str) -> None:
    assert wording.dollars(amount) == expected


@pytest.mark.parametrize(
    ("delta", "expected"),
    [(0.0314, "+3.1"), (-0.5, "-50.0"), (0.0, "+0.0"), (-0.0, "+0.0"), (-0.0001, "+0.0")],
)
def test_points(delta: float, expected: str) -> None:
    assert wording.points(delta) == expected


def test_interval_in_the_unit_of_its_metric() -> None:
    value = Interval(low=-0.1, high=1.25, level=0.9, method="m")
    assert wording.interval(value, Metric.PASS_RATIO) == "-10.0 to +125.0"
    assert wording.interval(value, Metric.COST_RATIO) == "x-0.10 to x1.25"
    assert wording.interval(None, Metric.PASS_RATIO) == "none"
    assert wording.interval_title(quality(interval=value)) == "90 % interval"
    assert wording.interval_title(quality()) == "interval"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (SkillChange(path="s", kind=ChangeKind.ADDED, files=("a", "b")), "is new (2 files)."),
        (SkillChange(path="s", kind=ChangeKind.RENAMED, old_path="t"), "was renamed from `t`."),
        (SkillChange(path="s", kind=ChangeKind.CHANGED), "was changed."),
        (SkillChange(path="s", kind=ChangeKind.DELETED), "was deleted: there is nothing to lint or to run."),
    ],
)
def test_change(change: SkillChange, expected: str) -> None:
    assert wording.change(report(change=change)) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (None, ""),
        (
            SignFlip(p=0.03125, nonzero=6),
            "Exact sign-flip test on the deltas per task: p = 0.031 (6 of 8 tasks changed).",
        ),
        (
            SignFlip(p=0.0625, nonzero=5),
            "Exact sign-flip test: only 5 of 8 tasks changed; below 6 it cannot reach .05 whatever the skill "
            "does (least possible p = 0.0625), so it decides nothing here.",
        ),
        (
            SignFlip(p=1.0, nonzero=0),
            "Exact sign-flip test: only 0 of 8 tasks changed; below 6 it cannot reach .05 whatever the skill "
            "does (least possible p = 1), so it decides nothing here.",
        ),
    ],
)
def test_sign_flip(test: SignFlip | None, expected: str) -> None:
    assert wording.sign_flip(quality(sign_flip=test)) == expected


def test_small_print_of_one_repeat_and_a_perfect_base() -> None:
    assert rows.small_print(report(quality(base=1.0, head=1.0, delta=0.0))) == [
        "No interval: with one scored run per task and arm the noise is not known."
    ]


def test_pairs_of_arms_are_never_mixed() -> None:
    """The cost between other arms stands with those arms."""
    other = ArmPair("none", "head")
    cost = msgspec.structs.replace(
        quality(base=0.1, head=0.2, delta=2.0), metric=Metric.COST_RATIO, arms=other
    )
    second = quality(arms=other, base=0.25, delta=0.5)
    found = report(quality(), second, cost)
    assert [number.what for number in rows.numbers(rows.judged(found))] == ["pass ratio, this suite (judged)"]
    assert rows.small_print(found)[-1] == (
        "Also `none` → `head`: pass ratio 25.0 % → 75.0 %, +50.0 points; cost x2.00."
    )


def test_without_a_scored_pair_nothing_is_judged() -> None:
    other = quality(arms=ArmPair("none", "head"))
    found = report(quality(n_pairs=0, n_dropped=8), other)
    assert rows.judged(found) is None
    assert rows.arms_of(found) == BASE
    assert rows.small_print(found) == ["Also `none` → `head`: pass ratio 50.0 % → 75.0 %, +25.0 points."]


def test_tasks_losses_first_then_gains_then_the_rest() -> None:
    def task(name: str, base: float, head: float) -> TaskDelta:
        return TaskDelta(task=name, base_values=(base,) * 3, head_values=(head,) * 3)

    by_task = (task("same", 1, 1), task("up", 0, 0.5), task("down", 1, 0.75), task("gone", 1, 0))
    half = TaskDelta(task="half", base_values=(1.0,), head_values=())
    cost = quality(metric=Metric.COST_RATIO, by_task=(task("up", 0.1, 0.2), task("down", 0, 0.1)))
    assert rows.tasks(report(quality(by_task=(*by_task, half)), cost)) == [
        rows.TaskRow("gone", "collapsed", "100.0 %", "0.0 %", "-100.0", "–", "3 + 3"),
        rows.TaskRow("down", "", "100.0 %", "75.0 %", "-25.0", "–", "3 + 3"),
        rows.TaskRow("up", "", "0.0 %", "50.0 %", "+50.0", "x2.00", "3 + 3"),
        rows.TaskRow("same", "", "100.0 %", "100.0 %", "+0.0", "–", "3 + 3"),
    ]


def run(
    task: str, arm: str, passed: dict[str, bool], outcome: Outcome = Outcome.FAILED, said: str = ""
) -> Run:
    grades = (
        Grade(grader=name, kind=GradeKind.FAIL_TO_PASS, passed=ok, detail="" if ok else said)
        for name, ok in passed.items()
    )
    return Run(cell=Cell(task=task, arm=arm, repeat=0), outcome=outcome, grades=tuple(grades))


def test_losses_are_grouped_by_task_and_say_their_output_once() -> None:
    runs = (
        run("a", "base", {"x": True, "y": True, "z": False}),
        run("a", "head", {"x": False, "y": True, "z": True}, said="boom"),
        run("b", "base", {"x": True, "y": True}),
        run("b", "head", {"x": False, "y": False}, said="boom"),
        run("c", "base", {"x": True}),
        run("c", "head", {"x": False}, outcome=Outcome.INVALID, said="lost"),
        run("d", "control", {"x": True}),
        run("d", "head", {"x": False}, said="no base"),
    )
    assert rows.losses(report(quality(), runs=runs)) == [
        rows.Loss("b", (rows.Grader("x", "1/1", "0/1"), rows.Grader("y", "1/1", "0/1")), "boom"),
        rows.Loss("a", (rows.Grader("x", "1/1", "0/1"),), ""),
    ]


def test_a_limited_run_is_said_to_be_scored() -> None:
    limited = Run(
        cell=Cell(task="t", arm="head", repeat=0), outcome=Outcome.LIMIT, reason="the agent used up its time"
    )
    nameless = Run(cell=Cell(task="t", arm="head", repeat=1), outcome=Outcome.INVALID)
    assert wording.cost_lines(report(runs=(limited, nameless, limited))) == [
        "2 limit runs (scored by their graders): the agent used up its time",
        "1 invalid run (no score): no reason given",
    ]


def test_token_weight() -> None:
    small, large = TokenWeight(listing=10, body=1000), TokenWeight(listing=12, body=1000, references=5)
    paid = "Listing is paid on every request, body and references on use."
    changed = msgspec.structs.replace(report(), weight_base=small, weight_head=large)
    assert wording.cost_lines(changed) == [
        "Token weight (cl100k_base): listing 10 → 12 (+2), body 1,000, references 0 → 5 (+5), "
        f"total 1,010 → 1,017 (+7). {paid}"
    ]
    deleted = msgspec.structs.replace(report(), weight_base=small)
    assert wording.cost_lines(deleted) == [
        "Token weight (cl100k_base, before): listing 10, body 1,000, references 0, total 1,010."
    ]


def test_money() -> None:
    spend = Spend(spent_usd_micros=2_410_000, held_usd_micros=50_000, cap_usd_micros=5_000_000, reused_runs=1)
    assert wording.money(spend) == (
        "Spent $2.41 of the $5.00 cap, $0.0500 held for calls of unknown cost. 1 run reused from earlier."
    )


def test_no_money_is_no_sentence() -> None:
    assert wording.money(Spend()) == ""


def test_footer_shortens_commits_only(samples) -> None:
    gate = msgspec.structs.replace(samples.merge(), head="feature/x")
    assert wording.footer(gate) == [
        ("range", "3f2c9d4e5a6b..feature/x"),
        ("agent", "claude-code"),
        ("model", "claude-haiku-5-5"),
        ("seed", "7"),
        ("image", "sha256:5d1f0e8c"),
        ("sandbox", "docker"),
        ("skillgate", "0.1.0"),
    ]
    (report, *_) = gate.reports
    plan = msgspec.structs.replace(report.plan, inject=Inject.PROMPT)
    prompted = msgspec.structs.replace(gate, reports=(msgspec.structs.replace(report, plan=plan),))
    assert wording.footer(prompted)[4] == ("skill", "put into the prompt")


def test_two_books_of_a_cost_are_compared() -> None:
    def cost(metered: int, said: int | None, outcome: Outcome = Outcome.PASSED) -> Run:
        cell = Cell(task="t", arm="head", repeat=0)
        return Run(
            cell=cell, outcome=outcome, usage=Usage(usd_micros=metered), reported_usd_micros=said, reason="x"
        )

    near = (cost(100_000, 100_999), cost(100_000, None), cost(40, 1), cost(9_000, 1, Outcome.INVALID))
    assert not [line for line in wording.cost_lines(report(runs=near)) if "books" in line]
    far = (*near, cost(100_000, 102_000))
    assert [line for line in wording.cost_lines(report(runs=far)) if "books" in line] == [
        "By the agent's own books 1 run of 3 cost $0.1020, by the meter $0.1000: the meter's figure counts; "
        "see whether the price table is of today."
    ]
