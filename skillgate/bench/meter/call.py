"""A call that an account has reserved: settled, freed or lost, exactly once. Pure."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from skillgate.bench.failure import Failure
from skillgate.prices import Price, Tokens

NOTHING = Tokens()


class Call:
    """A reservation; leaving its `with` without an outcome loses it, whatever was raised or cancelled.

    Args: book: what its account does with the outcome: what it cost, None where nobody knows, tokens, fault.
    """

    def __init__(
        self,
        price: Price,
        hold: int,
        tokens: int,
        output: int,
        book: Callable[[Call, int | None, Tokens, Failure | None], None],
    ) -> None:
        self.price = price
        self.hold_usd_micros = hold
        self.tokens = tokens
        self.output = output
        self._book = book
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
        self._book(self, used, tokens, fault)

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.lose()
