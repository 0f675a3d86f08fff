"""What one run may use -> calls that are reserved before, and settled or lost after, exactly once.

Pure but for its clock and its random token. It knows prices and limits; no wire, no network.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from types import TracebackType

from skillgate.bench.failure import Failure
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.limits import Limits, Stopped, Want
from skillgate.prices import Price, Tokens
from skillgate.values import Usage, usd

MAX_NOTES = 20
NOTHING = Tokens()


class Account:
    """The money, tokens, requests and time of one run; safe for threads.

    `token` opens the meter for this run and nothing else; no `repr` shows it.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.ledger = Ledger(limits.usd_micros)
        self.token = f"sgm-{secrets.token_urlsafe(32)}"
        self.notes: tuple[str, ...] = ()  # replaced, never changed: other threads read it
        self.models: tuple[tuple[str, str], ...] = ()
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._usage = Usage()
        self._tokens_open = self._open_calls = self._known = self._overrun = 0
        self._stopped: tuple[Failure, str] | None = None
        self._fault: Failure | None = None

    def __repr__(self) -> str:
        return f"Account({self.limits}, spent {self.booked_usd_micros})"

    def accepts(self, token: str) -> bool:
        """Say whether this is the token of the run, in a time that does not depend on it."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self.token.encode())

    @property
    def booked_usd_micros(self) -> int:
        """Return what the run has to pay: what is settled, and whole holds of calls that were cut."""
        return self.ledger.spent_usd_micros + self.ledger.held_usd_micros + self._overrun

    @property
    def known_usd_micros(self) -> int:
        """Return what the tokens that are known of cost, those of cut calls too."""
        return self._known

    @property
    def overrun_usd_micros(self) -> int:
        """Return what calls cost above the limit: 0 unless an upstream charged more than can be."""
        return self._overrun

    @property
    def usage(self) -> Usage:
        """Return what was used; its money is what is booked, its tokens are those that are known."""
        with self._lock:
            usage = self._usage
        return usage + Usage(usd_micros=self.booked_usd_micros)

    @property
    def failure(self) -> Failure | None:
        """Return why the run can make no more calls, or what went wrong with the last one."""
        with self._lock:
            return self._stopped[0] if self._stopped else self._fault

    @property
    def has_open_calls(self) -> bool:
        """Say whether a call has no outcome yet."""
        with self._lock:
            return self._open_calls > 0

    @property
    def remaining_s(self) -> float | None:
        """Return the time that is left, None when there is no limit."""
        if self.limits.wall_s is None:
            return None
        return max(0.0, self._started + self.limits.wall_s - self._clock())

    def note(self, sentence: str) -> None:
        """Keep a sentence for the report: each once, the first MAX_NOTES."""
        with self._lock:
            if sentence not in self.notes and len(self.notes) < MAX_NOTES:
                self.notes = (*self.notes, sentence)

    def stop(self, failure: Failure, sentence: str) -> None:
        """Allow no more calls; the first reason stays."""
        with self._lock:
            self._stop(failure, sentence)

    def count_request(self) -> None:
        """Count a request that costs nothing. Raises: Stopped."""
        with self._lock:
            self._check()
            self._usage += Usage(requests=1)

    def pays(self, price: Price, want: Want) -> bool:
        """Say whether the rest pays for all the output that is wanted."""
        with self._lock:
            return self._affordable(price, want) >= want.output

    def open(self, price: Price, want: Want) -> Call:
        """Reserve a call with as much of the output that it wants as the rest pays. Raises: Stopped."""
        with self._lock:
            self._check()
            output = self._affordable(price, want)
            if output < min(want.minimum, want.output):
                raise self._shortage(price, want)
            hold = price.hold(want.prompt_bound, output, want.cache_use)
            if not self.ledger.reserve(hold):
                raise AssertionError("the ledger has less than its rest")
            tokens = want.prompt_bound + output
            self._tokens_open += tokens
            self._open_calls += 1
            self._usage += Usage(requests=1)
        return Call(self, price, hold, tokens, output)

    def _affordable(self, price: Price, want: Want) -> int:
        rest = self.ledger.cap_usd_micros - self.ledger.spent_usd_micros - self.ledger.held_usd_micros
        output = price.affordable_output(rest, want.prompt_bound, want.cache_use)
        if self.limits.tokens is not None:
            used = self._usage.tokens + self._tokens_open
            output = min(output, self.limits.tokens - used - want.prompt_bound)
        return int(min(output, want.output))

    def _check(self) -> None:
        if self._stopped is None and self.remaining_s == 0:
            self._stop(Failure.AGENT_CLOCK, f"this run's {self.limits.wall_s:g} s are over")
        if self._stopped is None and self._usage.requests == self.limits.requests:
            self._stop(Failure.AGENT_TURNS, f"this run's {self.limits.requests} requests are used up")
        if self._stopped is not None:
            raise Stopped(*self._stopped)

    def _shortage(self, price: Price, want: Want) -> Stopped:
        least = price.hold(want.prompt_bound, min(want.minimum, want.output), want.cache_use)
        sentence = (
            f"the rest of this run's ${usd(self.limits.usd_micros):.6f} or of its tokens cannot pay for this "
            f"call, which may cost ${usd(least):.6f} or more"
        )
        if self._open_calls == 0:
            self._stop(Failure.AGENT_BUDGET, sentence)
        return Stopped(Failure.AGENT_BUDGET, sentence, may_change=self._open_calls > 0)

    def _stop(self, failure: Failure, sentence: str) -> None:
        self._stopped = self._stopped or (failure, sentence)

    def close_call(self, call: Call, used: int | None, tokens: Tokens, fault: Failure | None) -> None:
        """Book a call; for `Call` alone. `used` None: nobody knows, so all of the hold."""
        with self._lock:
            self._open_calls -= 1
            self._tokens_open -= call.tokens
            self._known += call.price.cost(tokens)
            self._fault = fault
            written = tokens.cache_write + tokens.cache_write_1h
            self._usage += Usage(
                input=tokens.input,
                output=tokens.output,
                cache_read=tokens.cache_read,
                cache_write=written,
                turns=int(used is not None and tokens != NOTHING),
            )
            if used is None:
                self.ledger.lose(call.hold_usd_micros)
            else:
                self._settle(call.hold_usd_micros, used)

    def _settle(self, hold: int, used: int) -> None:
        """Settle; more than was held is taken from the rest, and what that lacks is an overrun."""
        rest = self.ledger.cap_usd_micros - self.ledger.spent_usd_micros - self.ledger.held_usd_micros
        extra = min(max(0, used - hold), rest)
        self.ledger.reserve(extra)
        self.ledger.settle(hold + extra, min(used, hold + extra))
        if used > hold:
            self._overrun += used - hold - extra
            sentence = f"a call cost ${usd(used):.6f}, more than the ${usd(hold):.6f} it could cost at most"
            self._stop(Failure.UNKNOWN, sentence)

    def resolve(self, requested: str, resolved: str) -> None:
        """Remember which model answered for the one that was asked for."""
        with self._lock:
            if (requested, resolved) not in self.models and len(self.models) < MAX_NOTES:
                self.models = (*self.models, (requested, resolved))


class Call:
    """A reservation; leaving its `with` without an outcome loses it, whatever was raised or cancelled."""

    def __init__(self, account: Account, price: Price, hold: int, tokens: int, output: int) -> None:
        self.price = price
        self.hold_usd_micros = hold
        self.tokens = tokens
        self.output = output
        self._account = account
        self._open = True

    @property
    def is_open(self) -> bool:
        """Say whether it has no outcome yet."""
        return self._open

    def settle(self, tokens: Tokens) -> None:
        """Book what the tokens cost."""
        self._close(self.price.cost(tokens), tokens, None)

    def free(self, fault: Failure | None = None) -> None:
        """Book nothing: no token was read."""
        self._close(0, NOTHING, fault)

    def lose(self, known: Tokens = NOTHING, fault: Failure | None = None) -> None:
        """Book the whole hold, and of the tokens those that are known."""
        self._close(None, known, fault)

    def _close(self, used: int | None, tokens: Tokens, fault: Failure | None) -> None:
        if not self._open:
            raise RuntimeError("a call has one outcome")
        self._open = False
        self._account.close_call(self, used, tokens, fault)

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.lose()
