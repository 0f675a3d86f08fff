"""One table: what went wrong in a run -> its outcome, whether to try again, a sentence.

Pure. Whatever is ours or the network's is INVALID, so an outage never scores a skill;
what the agent did itself scores what its graders say. Unknown is INVALID.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from skillgate.core import Outcome


class Failure(StrEnum):
    """Everything that can go wrong in a run."""

    AGENT_CLOCK = "agent-clock"
    AGENT_BUDGET = "agent-budget"
    AGENT_TURNS = "agent-turns"
    AGENT_CRASH = "agent-crash"
    AGENT_REFUSED = "agent-refused"
    API_RATE_LIMIT = "api-rate-limit"
    API_SERVER = "api-server"
    API_OVERLOADED = "api-overloaded"
    API_AUTH = "api-auth"
    SANDBOX_START = "sandbox-start"
    SANDBOX_LOST = "sandbox-lost"
    OUT_OF_MEMORY = "out-of-memory"
    DISK_FULL = "disk-full"
    GRADER_BROKEN = "grader-broken"
    SUITE_BROKEN = "suite-broken"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Ruling(NamedTuple):
    """What a failure means. `outcome` None: the graders decide (PASSED or FAILED)."""

    outcome: Outcome | None
    retry: bool
    sentence: str


_TABLE: dict[Failure, Ruling] = {
    Failure.AGENT_CLOCK: Ruling(Outcome.LIMIT, False, "the agent used up its time"),
    Failure.AGENT_BUDGET: Ruling(Outcome.LIMIT, False, "the agent used up the budget of this run"),
    Failure.AGENT_TURNS: Ruling(Outcome.LIMIT, False, "the agent used up its turns"),
    Failure.AGENT_CRASH: Ruling(None, False, "the agent crashed; its graders decide"),
    Failure.AGENT_REFUSED: Ruling(None, False, "the agent refused the task; its graders decide"),
    Failure.API_RATE_LIMIT: Ruling(Outcome.INVALID, True, "the model API limited our rate"),
    Failure.API_SERVER: Ruling(Outcome.INVALID, True, "the model API failed"),
    Failure.API_OVERLOADED: Ruling(Outcome.INVALID, True, "the model API was overloaded"),
    Failure.API_AUTH: Ruling(Outcome.INVALID, False, "the model API refused our key"),
    Failure.SANDBOX_START: Ruling(Outcome.INVALID, True, "the sandbox did not start"),
    Failure.SANDBOX_LOST: Ruling(Outcome.INVALID, True, "the sandbox was lost"),
    Failure.OUT_OF_MEMORY: Ruling(Outcome.LIMIT, False, "the agent used up its memory"),
    Failure.DISK_FULL: Ruling(Outcome.INVALID, False, "the disk of this machine is full"),
    Failure.GRADER_BROKEN: Ruling(Outcome.INVALID, False, "a grader could not start"),
    Failure.SUITE_BROKEN: Ruling(Outcome.INVALID, False, "the suite is broken"),
    Failure.INTERRUPTED: Ruling(Outcome.INVALID, False, "the run was interrupted"),
    Failure.UNKNOWN: Ruling(Outcome.INVALID, True, "the run failed for a reason we do not know"),
}


def ruling(failure: Failure) -> Ruling:
    """Look the failure up."""
    return _TABLE[failure]
