from __future__ import annotations

from skillgate.bench.failure import Failure, ruling
from skillgate.core import Outcome


def test_every_failure_has_a_ruling_and_only_invalid_ones_are_retried() -> None:
    table = {failure: ruling(failure) for failure in Failure}
    assert [f for f, r in table.items() if r.retry and r.outcome is not Outcome.INVALID] == []
    assert all(r.sentence for r in table.values())


def test_what_is_ours_or_the_networks_never_scores_a_skill() -> None:
    scored = {failure for failure in Failure if ruling(failure).outcome is not Outcome.INVALID}
    assert scored == {
        Failure.AGENT_CLOCK,
        Failure.AGENT_BUDGET,
        Failure.AGENT_TURNS,
        Failure.AGENT_CRASH,
        Failure.AGENT_REFUSED,
        Failure.AGENT_MEMORY,
        Failure.AGENT_DISK,
    }
