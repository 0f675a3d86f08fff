"""A block among several skills: Holm's method, and what becomes of one that does not stand up to it."""

from __future__ import annotations

import pytest

from skillgate.core import Decision, Policy, Verdict
from skillgate.stats.verdict import correct, holm

POLICY = Policy()
BLOCK = Verdict(decision=Decision.BLOCK, reasons=("worse.",))


def test_a_block_that_stands_up_to_all_skills_stays() -> None:
    assert correct(BLOCK, 0.05, 5, POLICY) is BLOCK


def test_a_block_that_does_not_is_held_and_says_why() -> None:
    found = correct(BLOCK, 0.13, 5, POLICY)

    assert found.decision is Decision.HOLD
    assert found.reasons == (
        "Among 5 skills a drop like this is not rare enough to block (p = 0.13 by Holm's method, "
        "not below 0.05): it is held.",
        "worse.",
    )


@pytest.mark.parametrize("decision", [d for d in Decision if d is not Decision.BLOCK])
def test_nothing_but_a_block_is_corrected(decision: Decision) -> None:
    verdict = Verdict(decision=decision)
    assert correct(verdict, 1.0, 5, POLICY) is verdict


def test_no_skill_of_98_with_ten_tasks_can_survive_holm_by_the_sign_flip_test() -> None:
    """The least p of ten tasks is 2 / 2**10 (the published check of SWE-Skills-Bench v2)."""
    least = 2 / 2**10
    assert least == pytest.approx(0.00195, abs=5e-6)
    assert min(holm([least] + [1.0] * 97)) > 0.05
