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
    AGENT_MEMORY = "agent-memory"
    AGENT_DISK = "agent-disk"
    AGENT_CRASH = "agent-crash"
    AGENT_REFUSED = "agent-refused"
    AGENT_START = "agent-start"
    API_RATE_LIMIT = "api-rate-limit"
    API_SERVER = "api-server"
    API_OVERLOADED = "api-overloaded"
    API_UNREACHABLE = "api-unreachable"
    API_AUTH = "api-auth"
    API_CREDIT = "api-credit"
    API_REFUSED = "api-refused"
    IMAGE_MISSING = "image-missing"
    IMAGE_BUILD = "image-build"
    SANDBOX_START = "sandbox-start"
    SANDBOX_LOST = "sandbox-lost"
    ENGINE_LOST = "engine-lost"
    MACHINE_MEMORY = "machine-memory"
    DISK_FULL = "disk-full"
    NETWORK_LOST = "network-lost"
    UNFAIR = "unfair"
    GRADER_BROKEN = "grader-broken"
    SUITE_BROKEN = "suite-broken"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Ruling(NamedTuple):
    """What a failure means. `outcome` None: the graders decide (PASSED or FAILED)."""

    outcome: Outcome | None
    retry: bool
    sentence: str


_INVALID = Outcome.INVALID
_TABLE: dict[Failure, Ruling] = {
    Failure.AGENT_CLOCK: Ruling(Outcome.LIMIT, False, "the agent used up its time"),
    Failure.AGENT_BUDGET: Ruling(Outcome.LIMIT, False, "the agent used up the budget of this run"),
    Failure.AGENT_TURNS: Ruling(Outcome.LIMIT, False, "the agent used up its turns"),
    Failure.AGENT_MEMORY: Ruling(Outcome.LIMIT, False, "the agent used up its memory"),
    Failure.AGENT_DISK: Ruling(Outcome.LIMIT, False, "the agent used up its disk"),
    Failure.AGENT_CRASH: Ruling(None, False, "the agent crashed; its graders decide"),
    Failure.AGENT_REFUSED: Ruling(None, False, "the agent refused the task; its graders decide"),
    Failure.AGENT_START: Ruling(_INVALID, True, "the agent broke off before the model answered it"),
    Failure.API_RATE_LIMIT: Ruling(_INVALID, True, "the model API limited our rate"),
    Failure.API_SERVER: Ruling(_INVALID, True, "the model API failed"),
    Failure.API_OVERLOADED: Ruling(_INVALID, True, "the model API was overloaded"),
    Failure.API_UNREACHABLE: Ruling(_INVALID, True, "the model API could not be reached"),
    Failure.API_AUTH: Ruling(_INVALID, False, "the model API refused our key"),
    Failure.API_CREDIT: Ruling(_INVALID, False, "the account at the model API has no credit left"),
    Failure.API_REFUSED: Ruling(_INVALID, False, "the meter serves nothing that this agent asks for"),
    Failure.IMAGE_MISSING: Ruling(_INVALID, True, "the image is gone or could not be pulled"),
    Failure.IMAGE_BUILD: Ruling(_INVALID, False, "the image could not be built"),
    Failure.SANDBOX_START: Ruling(_INVALID, True, "the sandbox did not start"),
    Failure.SANDBOX_LOST: Ruling(_INVALID, True, "the sandbox was lost"),
    Failure.ENGINE_LOST: Ruling(_INVALID, True, "the Docker engine went away"),
    Failure.MACHINE_MEMORY: Ruling(_INVALID, True, "this machine ran out of memory"),
    Failure.DISK_FULL: Ruling(_INVALID, False, "the disk of this machine is full"),
    Failure.NETWORK_LOST: Ruling(_INVALID, True, "the network was lost while grading"),
    Failure.UNFAIR: Ruling(_INVALID, False, "the workspace differed in more than the skill"),
    Failure.GRADER_BROKEN: Ruling(_INVALID, False, "a grader could not start"),
    Failure.SUITE_BROKEN: Ruling(_INVALID, False, "the suite is broken"),
    Failure.INTERRUPTED: Ruling(_INVALID, False, "the run was interrupted"),
    Failure.UNKNOWN: Ruling(_INVALID, True, "the run failed for a reason we do not know"),
}


def ruling(failure: Failure) -> Ruling:
    """Look the failure up."""
    return _TABLE[failure]
