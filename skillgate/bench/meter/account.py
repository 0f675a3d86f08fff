"""What one run may use -> calls that are reserved before, and settled or lost after, exactly once.

Pure but for its clock and its random token. It knows prices and limits; no wire, no network.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable

from skillgate.bench.failure import Failure
from skillgate.bench.meter.call import NOTHING, Call
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.limits import Limits, Stopped, Want
from skillgate.prices import Price, Tokens
from skillgate.values import Usage, usd

MAX_NOTES = 20
MAX_FAULTS = 4  # of the API in a row; some clients ask again for minutes, and their time is the run's
TOKEN = re.compile(rb"sgm-[A-Za-z0-9_-]{43}")


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
        self._denied = False
        self._faults = 0
        self._lost: Failure | None = None  # what cut the last call that was cut upstream
        self._lost_usd_micros = 0  # what all of those hold

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
        """Return why the run can make no more calls, or what went wrong with the last one.

        Time that ended with the API at fault was not the run's own to use.
        """
        with self._lock:
            late = self._stopped is not None and self._stopped[0] is Failure.AGENT_CLOCK
            return self._stopped[0] if self._stopped and not (late and self._fault) else self._fault

    @property
    def stopped(self) -> Failure | None:
        """Return why the run can make no more calls, None while it can."""
        with self._lock:
            return self._stopped[0] if self._stopped else None

    @property
    def was_denied(self) -> bool:
        """Say whether a request was refused for what it is."""
        with self._lock:
            return self._denied

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

    def deny(self) -> None:
        """Remember that a request was refused for what it is."""
        with self._lock:
            self._denied = True

    def blame(self, failure: Failure) -> None:
        """Remember a fault that is not the run's own, until a call goes well."""
        with self._lock:
            self._fault = failure

    def stop(self, failure: Failure, sentence: str) -> None:
        """Allow no more calls; the first reason stays."""
        with self._lock:
            self._stop(failure, sentence)

    def check(self) -> None:
        """Make sure that no reason was found to allow no more calls. Raises: Stopped."""
        if self._stopped is not None:  # it never changes again
            raise Stopped(*self._stopped)

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
        return Call(price, hold, tokens, output, self._book)

    @property
    def _rest_usd_micros(self) -> int:
        return self.ledger.cap_usd_micros - self.ledger.spent_usd_micros - self.ledger.held_usd_micros

    def _affordable(self, price: Price, want: Want) -> int:
        output = price.affordable_output(self._rest_usd_micros, want.prompt_bound, want.cache_use)
        if self.limits.tokens is not None:
            used = self._usage.tokens + self._tokens_open
            output = min(output, self.limits.tokens - used - want.prompt_bound)
        return int(min(output, want.output))

    def _check(self) -> None:
        """Stop at a limit. An outage that used up the rest is not the agent's doing. Raises: Stopped."""
        if self._stopped is None and self.remaining_s == 0:
            self._stop(self._fault or Failure.AGENT_CLOCK, f"this run's {self.limits.wall_s:g} s are over")
        if self._stopped is None and self._usage.requests == self.limits.requests:
            said = f"this run's {self.limits.requests} requests are used up"
            self._stop(self._fault or Failure.AGENT_TURNS, said)
        if self._stopped is not None:
            raise Stopped(*self._stopped)

    def _shortage(self, price: Price, want: Want) -> Stopped:
        least = price.hold(want.prompt_bound, min(want.minimum, want.output), want.cache_use)
        sentence = (
            f"the rest of this run's ${usd(self.limits.usd_micros):.6f} or of its tokens cannot pay for this "
            f"call, which may cost ${usd(least):.6f} or more"
        )
        had_enough = self._rest_usd_micros + self._lost_usd_micros >= least  # without what was cut
        failure = (self._lost if had_enough else None) or Failure.AGENT_BUDGET
        if self._open_calls == 0:
            self._stop(failure, sentence)
        return Stopped(failure, sentence, may_change=self._open_calls > 0)

    def _stop(self, failure: Failure, sentence: str) -> None:
        self._stopped = self._stopped or (failure, sentence)

    def _book(self, call: Call, used: int | None, tokens: Tokens, fault: Failure | None) -> None:
        """Book a call. `used` None: nobody knows, so all of the hold."""
        with self._lock:
            self._open_calls -= 1
            known = tokens.prompt + tokens.output
            self._tokens_open -= known if used is None else call.tokens  # nobody knows what else was used
            self._known += call.price.cost(tokens)
            if fault is not None or used is not None:  # what was cut says nothing of the API
                self._fault = fault
                self._faults = self._faults + 1 if fault else 0
            if fault and self._faults == MAX_FAULTS:
                self._stop(fault, f"the model API failed {MAX_FAULTS} times in a row")
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
                if fault is not None:
                    self._lost = fault
                    self._lost_usd_micros += call.hold_usd_micros
            else:
                self._settle(call.hold_usd_micros, used)

    def _settle(self, hold: int, used: int) -> None:
        """Settle; more than was held is taken from the rest, and what that lacks is an overrun."""
        extra = min(max(0, used - hold), self._rest_usd_micros)
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
