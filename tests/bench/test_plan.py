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
def test_arms_of_a_task_start_side_by_side_repeat_by_repeat(
    tasks: int, arms: int, repeats: int, seed: int
) -> None:
    names = ["none", "base", "head"][:arms]
    cells = plan(tasks=[f"s/{i}" for i in range(tasks)], arms=names, repeats=repeats, seed=seed).cells
    assert Counter(cells) == Counter(
        Cell(task=f"s/{t}", arm=a, repeat=r) for t in range(tasks) for a in names for r in range(repeats)
    )
    groups = [cells[i : i + arms] for i in range(0, len(cells), arms)]
    assert all(len({(c.task, c.repeat) for c in group}) == 1 for group in groups)
    assert [group[0].repeat for group in groups] == sorted(group[0].repeat for group in groups)


def test_the_order_of_the_arms_is_not_always_the_same() -> None:
    first = Counter(plan(repeats=40).cells[i].arm for i in range(0, 240, 2))
    assert min(first.values()) > 30


def test_fewer_repeats_when_the_cap_pays_for_fewer() -> None:
    # 6 cells a repeat at an expected tenth of a dime: a cap of 13 cents pays two whole repeats
    assert plan(repeats=5, cap_usd_micros=130_000).repeats == 2


@pytest.mark.parametrize(
    ("cap", "need"),
    [(59_999, "0.10"), (99_999, "0.10"), (0, "0.10")],
)
def test_a_cap_too_small_for_one_repeat_is_refused_with_what_would_do(cap: int, need: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        plan(cap_usd_micros=cap)
    assert "cannot pay one repeat of 3 tasks in 2 arms" in caught.value.message
    assert f"at least {need}" in caught.value.hint
    assert plan(cap_usd_micros=100_000).repeats == 1
