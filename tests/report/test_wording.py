"""Numbers in words, and the sentences and rows that depend on what is missing."""

from __future__ import annotations

import msgspec
import pytest

from skillgate.core import (
    ArmPair,
    Cell,
    ChangeKind,
    Grade,
    GradeKind,
    Inject,
    Interval,
    Metric,
    Outcome,
    Run,
    SkillChange,
    TaskDelta,
)
from skillgate.report import rows, wording

BASE = ArmPair("base", "head")


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


def test_interval_in_the_unit_of_its_metric(samples) -> None:
    value = Interval(low=-0.1, high=1.25, level=0.9, method="m")
    assert wording.interval(value, Metric.PASS_RATIO) == "-10.0 to +125.0"
    assert wording.interval(value, Metric.COST_RATIO) == "x-0.10 to x1.25"
    assert wording.interval(value, Metric.TOKENS) == "+0 to +1"
    assert wording.interval(value, Metric.DEPTH) == "-0.1 to +1.2"
    assert wording.interval(None, Metric.PASS_RATIO) == "none"
    assert wording.interval_title(samples.compared(interval=value)) == "90 % interval"
    assert wording.interval_title(samples.compared()) == "interval"


@pytest.mark.parametrize(
    ("level", "expected"),
    [(0.95, "95 %"), (0.999212, "99.92 %"), (0.992645, "99.26 %"), (0.97797, "97.8 %"), (1 - 1e-9, "100 %")],
)
def test_a_level_has_at_most_four_digits(level: float, expected: str) -> None:
    assert wording.level(Interval(low=0, high=1, level=level, method="m")) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], "0 repeats"), ([1, 1], "1 repeat"), ([5, 5], "5 repeats"), ([3, 2, 5], "2 to 5 repeats")],
)
def test_repeats(numbers: list[int], expected: str) -> None:
    assert wording.repeats(numbers) == expected


@pytest.mark.parametrize(
    ("rows_of", "changes", "expected"),
    [
        ([], {}, "8 tasks, 1 repeat, 8 pairs."),
        ([(3, 3), (3, 3)], {"n_dropped": 1}, "8 tasks, 3 repeats, 8 of 9 pairs (1 dropped)."),
        (
            [(3, 3), (2, 2)],
            {},
            "8 tasks, 2 to 3 repeats (fewer where a run costs more), 8 pairs.",
        ),
        ([(10, 3), (9, 3)], {"n_unpaired": 13}, "8 tasks, 3 repeats, 8 pairs and 13 more runs of `base`."),
        ([(3, 4)], {"n_unpaired": 1}, "8 tasks, 3 repeats, 8 pairs and 1 more run of `head`."),
        ([(3, 4), (4, 3)], {"n_unpaired": 2}, "8 tasks, 3 repeats, 8 pairs and 2 more runs."),
    ],
)
def test_on_how_much_arms_are_compared(
    rows_of: list[tuple[int, int]], changes: dict[str, int], expected: str, samples
) -> None:
    by_task = tuple(
        TaskDelta(task=str(n), base_values=(0.5,) * base, head_values=(1.0,) * head)
        for n, (base, head) in enumerate(rows_of)
    )
    plan = samples.reused().reports[0].plan
    said = wording.about(samples.bare(plan=plan), samples.compared(by_task=by_task, **changes))
    assert said.rpartition(": ")[2] == expected


def test_tasks_of_an_even_plan_that_lost_pairs_are_not_called_dear(samples) -> None:
    uneven = tuple(TaskDelta(task=str(n), base_values=(0.5,) * n, head_values=(1.0,) * n) for n in (2, 3))
    found = samples.bare(plan=samples.merge().reports[0].plan)
    said = wording.about(found, samples.compared(by_task=uneven, n_dropped=1))
    assert said.endswith(": 8 tasks, 2 to 3 repeats, 8 of 9 pairs (1 dropped).")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (SkillChange(path="s", kind=ChangeKind.ADDED, files=("a", "b")), "is new (2 files)."),
        (SkillChange(path="s", kind=ChangeKind.RENAMED, old_path="t"), "was renamed from `t`."),
        (SkillChange(path="s", kind=ChangeKind.CHANGED), "was changed."),
        (SkillChange(path="s", kind=ChangeKind.DELETED), "was deleted: there is nothing to lint or to run."),
    ],
)
def test_change(change: SkillChange, expected: str, samples) -> None:
    assert wording.change(samples.bare(change=change)) == expected


def test_small_print_of_one_repeat_and_a_perfect_base(samples) -> None:
    assert rows.small_print(samples.bare(samples.compared(base=1.0, head=1.0, delta=0.0))) == [
        "No interval: with one scored run per task and arm the noise is not known."
    ]


def test_pairs_of_arms_are_never_mixed(samples) -> None:
    """The cost between other arms stands with those arms."""
    other = ArmPair("none", "head")
    cost = msgspec.structs.replace(
        samples.compared(base=0.1, head=0.2, delta=2.0), metric=Metric.COST_RATIO, arms=other
    )
    second = samples.compared(arms=other, base=0.25, delta=0.5)
    found = samples.bare(samples.compared(), second, cost)
    assert [number.what for number in rows.numbers(rows.judged(found))] == ["pass ratio, this suite (judged)"]
    assert rows.small_print(found)[-1] == (
        "Also `none` → `head`: pass ratio 25.0 % → 75.0 %, +50.0 points; cost x2.00."
    )


def test_without_a_scored_pair_nothing_is_judged(samples) -> None:
    other = samples.compared(arms=ArmPair("none", "head"))
    found = samples.bare(samples.compared(n_pairs=0, n_dropped=8), other)
    assert rows.judged(found) is None
    assert rows.arms_of(found) == BASE
    assert rows.small_print(found) == ["Also `none` → `head`: pass ratio 50.0 % → 75.0 %, +25.0 points."]


def test_tasks_losses_first_then_gains_then_the_rest(samples) -> None:
    def task(name: str, base: float, head: float) -> TaskDelta:
        return TaskDelta(task=name, base_values=(base,) * 3, head_values=(head,) * 3)

    by_task = (task("same", 1, 1), task("up", 0, 0.5), task("down", 1, 0.75), task("gone", 1, 0))
    half = TaskDelta(task="half", base_values=(1.0,), head_values=())
    cost = samples.compared(metric=Metric.COST_RATIO, by_task=(task("up", 0.1, 0.2), task("down", 0, 0.1)))
    assert rows.tasks(samples.bare(samples.compared(by_task=(*by_task, half)), cost)) == [
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


def test_losses_are_grouped_by_task_and_say_their_output_once(samples) -> None:
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
    assert rows.losses(samples.bare(samples.compared(), runs=runs)) == [
        rows.Loss("b", (rows.Grader("x", "1/1", "0/1"), rows.Grader("y", "1/1", "0/1")), "boom"),
        rows.Loss("a", (rows.Grader("x", "1/1", "0/1"),), ""),
    ]


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
