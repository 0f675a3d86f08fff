from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.plan import make_plan
from skillgate.core import Cell, Plan
from skillgate.errors import PrerequisiteError


def plan(**changes: Any) -> Plan:
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
    settings |= changes
    return make_plan(settings.pop("tasks"), settings.pop("arms"), **settings)


def test_the_same_settings_give_the_same_plan_and_another_seed_another_order() -> None:
    assert plan() == plan()
    assert plan(tasks=["s/c", "s/b", "s/a"]) == plan()
    assert plan(seed=8).cells != plan().cells
    assert set(plan(seed=8).cells) == set(plan().cells)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), st.integers(0, 99))
def test_the_two_arms_of_a_task_start_side_by_side_repeat_by_repeat_and_a_third_one_last(
    tasks: int, arms: int, repeats: int, seed: int
) -> None:
    names = ["base", "head", "none"][:arms]
    cells = plan(tasks=[f"s/{i}" for i in range(tasks)], arms=names, repeats=repeats, seed=seed).cells
    assert Counter(cells) == Counter(
        Cell(task=f"s/{t}", arm=a, repeat=r) for t in range(tasks) for a in names for r in range(repeats)
    )
    size = min(arms, 2)
    first, last = cells[: tasks * size * repeats], cells[tasks * size * repeats :]
    groups = [first[i : i + size] for i in range(0, len(first), size)]
    assert all(len({(c.task, c.repeat) for c in group}) == 1 for group in groups)
    assert [group[0].repeat for group in groups] == sorted(group[0].repeat for group in groups)
    assert {cell.arm for cell in last} == set(names[2:])


def test_the_order_of_the_arms_is_not_always_the_same() -> None:
    first = Counter(plan(repeats=40).cells[i].arm for i in range(0, 240, 2))
    assert min(first.values()) > 30


def test_fewer_repeats_when_the_cap_pays_for_fewer() -> None:
    # 6 cells a repeat at an expected fifth of a dime: a cap of 26 cents pays two whole repeats
    assert plan(repeats=5, cap_usd_micros=260_000).repeats == 2


@pytest.mark.parametrize("cap", [0, 99_999, 119_999])
def test_a_cap_too_small_for_one_repeat_is_refused_with_what_would_do(cap: int) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        plan(cap_usd_micros=cap)
    assert "cannot pay one repeat of 3 tasks in 2 arms" in caught.value.message
    assert "at least 0.12" in caught.value.hint
    assert plan(cap_usd_micros=120_000).repeats == 1


def test_a_share_too_small_says_what_the_whole_budget_must_be() -> None:
    with pytest.raises(PrerequisiteError) as caught:
        plan(cap_usd_micros=50_000, shared_by=3)
    assert caught.value.message.startswith("$0.05, a share of 3 skills, cannot pay")
    assert "at least 0.36" in caught.value.hint
