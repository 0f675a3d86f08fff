"""What agents behind the meter have in common: a door, what is left of the tokens, what an account says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from skillgate.bench.agents.agent import AgentJob, AgentResult
from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.proxy import Meter
from skillgate.bench.sandbox import Door, Session
from skillgate.values import usd


def tokens_left(cap: int | None, job: AgentJob) -> int | None:
    """Return what earlier tasks and attempts of the cell left of its tokens."""
    return None if cap is None else max(0, cap - job.used.tokens)


@contextmanager
def served(session: Session, meter: Meter, account: Account) -> Iterator[str]:
    """Serve an account on the loopback of a session; its calls are all booked afterwards."""
    doors: list[Door] = []

    def serve(listener: socket.socket) -> Door:
        doors.append(meter.serve(listener, account))
        return doors[-1]

    try:
        yield f"http://127.0.0.1:{session.listen(serve)}"
    finally:
        for door in doors:
            door.close()


def result_of(account: Account, failure: Failure | None, detail: str = "") -> AgentResult:
    """Return what an account says of a run, its money never above the limit."""
    usage = account.usage
    if usage.usd_micros > account.limits.usd_micros:
        detail = f"${usd(account.overrun_usd_micros):.6f} more than could be asked for; {detail}"
        usage = replace(usage, usd_micros=account.limits.usd_micros)
    models = tuple(resolved for _, resolved in account.models)
    return AgentResult(usage=usage, failure=failure, detail=detail, models=models)
