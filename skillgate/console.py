"""What a person sees while a gate runs: on a terminal a live line, else a line per tenth.

Everything goes to stderr; stdout is for results.
"""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.markup import escape

from skillgate.bench.meter.ledger import Ledger
from skillgate.core import Outcome, Run
from skillgate.report.escape import clean
from skillgate.values import usd


class ConsoleProgress:
    """Progress with money spent and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._label = ""
        self._total, self._done, self._known, self._invalid = 0, 0, 0, 0
        self._started, self._open = 0.0, 0
        self._is_live = False  # the last line is one that the next overwrites

    def start(self, label: str, total: int, done: int) -> None:
        """Begin the line of one skill, or go on with it in another wave."""
        goes_on = label == self._label and done >= self._done > 0
        self._label, self._total, self._done, self._known = label, total, done, done
        self._started = time.monotonic()
        if not goes_on:
            self._invalid = 0
            resumed = f", {done} finished earlier" if done else ""
            self.note(f"{label}: {total} runs{resumed}")

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        """Move the line on."""
        self._done += 1
        self._open = 0
        self._invalid += run.outcome is Outcome.INVALID
        live = self._console.is_terminal
        step = max(1, self._total // 10)
        if live or self._done % step == 0 or self._done == self._total:
            self._say(self._line(ledger), end="\r" if live and self._done < self._total else "\n")

    def tick(self, ledger: Ledger, open_usd_micros: int) -> None:
        """Show on a terminal what runs in flight have cost."""
        self._open = open_usd_micros
        if self._console.is_terminal and self._done < self._total:
            self._say(self._line(ledger), end="\r")

    def note(self, message: str) -> None:
        """Print a line, below the live one."""
        start = "\n" if self._is_live else ""
        self._say(start + clean(message, 1000))  # names of skills and paths are anybody's text

    def _say(self, message: str, end: str = "\n") -> None:
        self._console.print(escape(message), end=end, soft_wrap=True)
        self._is_live = end == "\r"

    def _line(self, ledger: Ledger) -> str:
        elapsed = time.monotonic() - self._started
        rest = elapsed / max(self._done - self._known, 1) * (self._total - self._done)
        broken = f", {self._invalid} invalid" if self._invalid else ""
        spent, held = usd(ledger.spent_usd_micros), usd(ledger.held_usd_micros)
        running = f" (${usd(self._open):.2f} used)" if self._open else ""
        money = f"${spent:.2f} spent, ${held:.2f} held{running}, cap ${usd(ledger.cap_usd_micros):.2f}"
        return f"  {self._done}/{self._total} runs{broken}, {money}, {rest:.0f} s left  "
