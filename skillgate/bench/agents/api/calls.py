"""A question to the model -> what it said, over one of two wires, asked again where that may help.

Answers are streamed: one that is long in the making would keep a connection silent until the meter or a
server on the way gives it up. The SDK's own retries are off, as they know neither streams that break
nor the end of the run's time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from skillgate.bench.failure import Failure
from skillgate.bench.meter.account import Account

MAX_WAIT_S = 30.0
MAX_SENTENCE = 200
SILENCE_S = 600.0  # the meter gives up before, at its own clock

_AGAIN = (408, 409, 429)
_BY_STATUS = {
    401: Failure.API_AUTH,
    403: Failure.API_AUTH,
    408: Failure.API_SERVER,
    409: Failure.API_SERVER,
    413: Failure.AGENT_TURNS,
    429: Failure.API_RATE_LIMIT,
    529: Failure.API_OVERLOADED,
}
_FULL = ("too long", "context")  # what servers say of a prompt above their window


class Stop(Enum):
    """Why an answer ended."""

    END = auto()
    TOOLS = auto()
    CUT = auto()
    REFUSED = auto()
    FULL = auto()


class Said(NamedTuple):
    """An answer; `blocks` are its parts as they have to be sent back."""

    stop: Stop
    text: str
    blocks: tuple[dict[str, Any], ...] = ()


class Question(NamedTuple):
    """What is asked: at most `output` tokens are wanted."""

    model: str
    system: str
    messages: Sequence[dict[str, Any]]
    output: int
    tools: Sequence[dict[str, Any]] = ()
    temperature: float | None = None
    seed: int | None = None


class End(Exception):
    """Why the agent goes no further. `after_trouble`: whatever came last, the API's faults led to it."""

    def __init__(self, failure: Failure | None, detail: str = "", after_trouble: bool = False) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.after_trouble = after_trouble


class CallTrouble(Exception):
    """One call failed; asking again may help after `wait_s`, None: as long as we like."""

    def __init__(
        self, kind: Failure, sentence: str, *, again: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence[:MAX_SENTENCE]
        self.again = again
        self.wait_s = wait_s


class Wire(Protocol):
    """How one kind of provider is asked."""

    def ask(self, question: Question) -> Said:
        """Ask once. Raises: CallTrouble."""

    def close(self) -> None:
        """Close the connections."""


def trouble_of_status(
    status: int, sentence: str, retry: str = "", wait_s: float | None = None
) -> CallTrouble:
    """Return what an answer that is an error means.

    Args: retry: its header `x-should-retry`. What the meter read of it is more exact.
    """
    again = retry != "false" and (status in _AGAIN or status >= 500 or status == 200)  # an error in a stream
    found = _BY_STATUS.get(status)
    if found is None:
        found = Failure.API_SERVER if again else Failure.UNKNOWN
    if status == 400 and any(word in sentence.lower() for word in _FULL):
        found = Failure.AGENT_TURNS
    return CallTrouble(found, f"HTTP {status}: {sentence}", again=again, wait_s=wait_s)


def wait_of(headers: Any) -> float | None:
    """Return how long an answer asks to wait, None when it does not say."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name) or "") * unit_s)
        except ValueError:
            continue
    return None


class Caller:
    """Asks, and asks again after each of `pauses_s`, never beyond the run's time."""

    def __init__(self, wire: Wire, account: Account, pauses_s: Sequence[float]) -> None:
        self._wire = wire
        self._account = account
        self._pauses_s = pauses_s

    def ask(self, question: Question) -> Said:
        """Return the answer. Raises: End."""
        last: CallTrouble | None = None
        for pause_s in (*self._pauses_s, None):
            try:
                return self._wire.ask(question)
            except CallTrouble as trouble:
                if last is None and self._account.remaining_s == 0:
                    raise End(Failure.AGENT_CLOCK) from None  # the meter cut it for that
                if not trouble.again and last is not None:
                    raise End(last.kind, last.sentence, after_trouble=True) from None
                if not trouble.again or pause_s is None:
                    raise End(trouble.kind, trouble.sentence, after_trouble=trouble.again) from None
                last = trouble
                self._wait(pause_s if trouble.wait_s is None else trouble.wait_s)
        raise AssertionError("the last pause is None")

    def _wait(self, wait_s: float) -> None:
        rest_s = self._account.remaining_s
        time.sleep(min(wait_s, MAX_WAIT_S, MAX_WAIT_S if rest_s is None else rest_s))
