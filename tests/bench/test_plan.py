from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.plan import Expected, Wanted, allocate, expect, make_plan
from skillgate.core import Cell, Plan
from skillgate.errors import PrerequisiteError


def wanted(**changes: Any) -> Wanted:
    settings: dict[str, Any] = {
        "tasks": ["s/a", "s/b", "s/c"],
        "arms": ["base", "head"],
        "repeats": 2,
        "seed": 7,
        "agent": "scripted",
        "model": "m",
        "cap_usd_micros": 10_000_000,
        "per_run_usd_micros": 100_000,
    }
    return Wanted(**settings | changes)


def plan(**changes: Any) -> Plan:
    return make_plan(wanted(**changes))


def test_the_same_settings_give_the_same_plan_and_another_seed_another_order() -> None:
    assert plan() == plan()
    assert plan(tasks=["s/c", "s/b", "s/a"]) == plan()
    assert plan(seed=8).cells != plan().cells
    assert set(plan(seed=8).cells) == set(plan().cells)


@given(st.integers(1, 6), st.booleans(), st.integers(1, 5), st.integers(0, 99))
def test_the_two_arms_of_a_task_start_side_by_side_repeat_by_repeat_and_a_third_one_last(
    tasks: int, three: bool, repeats: int, seed: int
) -> None:
    third = "none" if three else None
    cells = plan(tasks=[f"s/{i}" for i in range(tasks)], third=third, repeats=repeats, seed=seed).cells
    names = ["base", "head", *(["none"] if three else [])]
    assert Counter(cells) == Counter(
        Cell(task=f"s/{t}", arm=a, repeat=r) for t in range(tasks) for a in names for r in range(repeats)
    )
    first, last = cells[: 2 * tasks * repeats], cells[2 * tasks * repeats :]
    groups = [first[i : i + 2] for i in range(0, len(first), 2)]
    assert all(len({(c.task, c.repeat) for c in group}) == 1 for group in groups)
    assert [group[0].repeat for group in groups] == sorted(group[0].repeat for group in groups)
    assert {cell.arm for cell in last} == set(names[2:])


def test_the_order_of_the_arms_is_not_always_the_same() -> None:
    first = Counter(plan(repeats=40).cells[i].arm for i in range(0, 240, 2))
    assert min(first.values()) > 30


def test_fewer_repeats_when_the_cap_pays_for_fewer() -> None:
    # a run should cost a fifth of a dime, the last one needs a whole one: 6 x 2 x .02 + .08 = .32
    assert plan(repeats=5, cap_usd_micros=320_000).task_repeats == {"s/a": 2, "s/b": 2, "s/c": 2}
    assert plan(repeats=5, cap_usd_micros=400_000).task_repeats == {"s/a": 3, "s/b": 3, "s/c": 2}


@pytest.mark.parametrize("cap", [0, 99_999, 319_999])
def test_a_cap_too_small_for_two_repeats_is_refused_with_what_would_do(cap: int) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        plan(repeats=5, cap_usd_micros=cap)
    assert caught.value.message.endswith(
        "cannot pay two repeats of 3 tasks in 2 arms: no verdict is possible"
    )
    assert "at least 0.32" in caught.value.hint


def test_one_repeat_is_planned_for_whoever_asks_for_one() -> None:
    assert plan(repeats=1, cap_usd_micros=200_000).repeats == 1
    with pytest.raises(PrerequisiteError, match="cannot pay one repeat of 3 tasks in 2 arms"):
        plan(repeats=1, cap_usd_micros=199_999)


def test_a_share_too_small_says_what_the_whole_budget_must_be() -> None:
    with pytest.raises(PrerequisiteError) as caught:
        plan(cap_usd_micros=50_000, shared_by=3)
    assert caught.value.message.startswith("$0.05, a share of 3 skills, cannot pay")
    assert "at least 0.96" in caught.value.hint


COSTS = Expected(40_000, "known", {"s/a": 10_000, "s/b": 40_000, "s/c": 160_000})


def test_cheap_tasks_get_more_repeats_where_the_money_is_short() -> None:
    found = allocate(wanted(repeats=20, cap_usd_micros=4_000_000, expected=COSTS))

    assert found["s/a"] == 20  # as many as are wanted
    assert found["s/b"] / found["s/c"] == pytest.approx(2, rel=0.15)  # as 1 / sqrt(cost)
    assert allocate(wanted(repeats=5, cap_usd_micros=40_000_000, expected=COSTS)) == {
        "s/a": 5,
        "s/b": 5,
        "s/c": 5,
    }


@given(
    st.lists(st.integers(1, 200_000), min_size=1, max_size=8),
    st.integers(1, 8),
    st.integers(0, 5_000_000),
    st.integers(0, 40),
)
def test_what_is_planned_is_paid_and_one_more_would_not_be(
    costs: list[int], repeats: int, cap: int, reused: int
) -> None:
    tasks = [f"s/{i}" for i in range(len(costs))]
    filled = frozenset(
        Cell(task=tasks[i % len(tasks)], arm="base", repeat=1 + i // len(tasks)) for i in range(reused)
    )
    expected = Expected(1, "known", dict(zip(tasks, costs, strict=True)))
    asked = wanted(tasks=tasks, repeats=repeats, cap_usd_micros=cap, expected=expected, filled=filled)
    found = allocate(asked)
    if not all(found.values()):
        assert asked.least_usd_micros(min(2, repeats)) > cap
        return
    made = make_plan(asked)
    reserve = max(0, asked.per_run_usd_micros - min(costs))
    assert made.expected_usd_micros + reserve <= cap
    for task, had in found.items():
        assert had == repeats or made.expected_usd_micros + reserve + asked.cost(task, had) > cap
    assert {c for c in made.cells if c.repeat < found[c.task]} == {
        Cell(task=task, arm=arm, repeat=r)
        for task in tasks
        for arm in ("base", "head")
        for r in range(found[task])
    }


def test_runs_that_are_there_cost_nothing_and_those_beyond_the_head_are_extra() -> None:
    filled = frozenset(Cell(task=t, arm="base", repeat=r) for t in ("s/a", "s/b") for r in (1, 2, 3))
    made = plan(filled=filled, repeats=2)

    assert set(made.reused) == set(filled)
    assert made.task_repeats == {"s/a": 2, "s/b": 2, "s/c": 2}
    assert {c for c in made.cells if c.repeat > 1} == {c for c in filled if c.repeat > 1}
    assert made.expected_usd_micros == (12 - 2) * 20_000


def test_what_a_run_should_cost_is_known_per_task_once_there_are_enough() -> None:
    assert expect({}, 100_000) == Expected(20_000, "assumed: per-run-usd / 5")
    few = expect({"s/a": [1_000], "s/b": [3_000]}, 100_000)
    assert (few.usd_micros, dict(few.by_task)) == (20_000, {})
    enough = expect({"s/a": [1_000] * 5, "s/b": [3_000] * 5}, 100_000)
    assert (enough.usd_micros, dict(enough.by_task)) == (2_000, {"s/a": 1_000, "s/b": 3_000})
    uneven = expect({"s/a": [1_000] * 11, "s/b": [3_000]}, 100_000)
    assert (uneven.usd_micros, dict(uneven.by_task)) == (1_167, {})
