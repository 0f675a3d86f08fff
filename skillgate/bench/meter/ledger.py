"""Money: reserve before, settle after; spent + held never exceeds the cap.

Pure arithmetic under one lock, in integer micro-dollars. It knows no network, clock or file;
what a broken call may have cost stays held for good.
"""

from __future__ import annotations

import threading


class Ledger:
    """The account of a gate, or with `whole` the part of it that one evaluation may use."""

    def __init__(
        self,
        cap_usd_micros: int,
        spent_usd_micros: int = 0,
        lost_usd_micros: int = 0,
        whole: Ledger | None = None,
    ) -> None:
        self.cap_usd_micros = cap_usd_micros
        self._whole = whole
        self._spent = spent_usd_micros
        self._reserved = 0
        self._lost = lost_usd_micros
        self._lock = threading.Lock()

    @property
    def spent_usd_micros(self) -> int:
        """Return what is settled."""
        with self._lock:
            return self._spent

    @property
    def held_usd_micros(self) -> int:
        """Return what is reserved now or lost in calls whose cost nobody knows."""
        with self._lock:
            return self._reserved + self._lost

    def reserve(self, usd_micros: int) -> bool:
        """Hold money for a call; False when the rest of the cap cannot pay it."""
        if usd_micros < 0:
            raise ValueError("a reservation is not negative")
        with self._lock:
            if self._spent + self._reserved + self._lost + usd_micros > self.cap_usd_micros:
                return False
            if self._whole is not None and not self._whole.reserve(usd_micros):
                return False
            self._reserved += usd_micros
            return True

    def settle(self, reserved_usd_micros: int, used_usd_micros: int) -> None:
        """Turn a reservation into what was used.

        Raises: ValueError when more was used than reserved: the caller has to prevent that.
        """
        if not 0 <= used_usd_micros <= reserved_usd_micros:
            raise ValueError(f"used {used_usd_micros} of a reservation of {reserved_usd_micros}")
        with self._lock:
            self._reserved -= reserved_usd_micros
            self._spent += used_usd_micros
        if self._whole is not None:
            self._whole.settle(reserved_usd_micros, used_usd_micros)

    def lose(self, reserved_usd_micros: int) -> None:
        """Keep the whole reservation held: the call was cut and may have cost all of it."""
        with self._lock:
            self._reserved -= reserved_usd_micros
            self._lost += reserved_usd_micros
        if self._whole is not None:
            self._whole.lose(reserved_usd_micros)
