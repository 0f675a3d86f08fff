"""Ledger and journal together, as the runner uses them: whatever happens, and after every restart."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skillgate.bench.journal import Journal, Sums, Who
from skillgate.bench.meter.ledger import Ledger
from skillgate.core import Cell, Outcome, Run
from skillgate.errors import UsageError
from skillgate.values import Usage

WHO = Who("agent", "model")
KEYS = ("first", "second")


class Open(NamedTuple):
    """An attempt that is in the journal and has not ended."""

    key: str
    number: int
    cell: Cell
    hold: int


class GateMachine(RuleBasedStateMachine):
    """Two evaluations share a cap; attempts begin, end, lose their cost, are retried, and the process dies.

    `spent` and `held` are what a reader of the bills would have to expect; `held` has what is open too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "journal.sqlite")
        self.open: list[Open] = []
        self.spent = dict.fromkeys(KEYS, 0)
        self.held = dict.fromkeys(KEYS, 0)
        self.cells = 0

    @initialize(cap=st.integers(0, 5_000), shares=st.tuples(st.integers(0, 5_000), st.integers(0, 5_000)))
    def begin(self, cap: int, shares: tuple[int, int]) -> None:
        self.cap, self.caps = cap, dict(zip(KEYS, shares, strict=True))
        self.start(resume=False)

    def start(self, *, resume: bool) -> None:
        """Do what a gate does at its start."""
        self.journal = Journal(self.path)
        assert self.journal.open_gate("gate", resume=resume) is resume
        self.whole = Ledger(self.cap, *self.journal.sums())
        self.parts = {key: Ledger(self.caps[key], *self.journal.sums(key), whole=self.whole) for key in KEYS}

    def write_start(self, key: str, cell: Cell, hold: int) -> None:
        self.open.append(Open(key, self.journal.begin(key, WHO, cell, hold), cell, hold))
        self.held[key] += hold

    def write_end(self, one: Open, used: int | None, outcome: Outcome = Outcome.FAILED) -> None:
        run = Run(cell=one.cell, outcome=outcome, usage=Usage(usd_micros=used or 0))
        self.journal.end(one.number, run, cost_known=used is not None)
        if used is not None:
            self.held[one.key] -= one.hold
            self.spent[one.key] += used

    def take(self, data: st.DataObject) -> Open:
        return self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))

    @rule(key=st.sampled_from(KEYS), hold=st.integers(0, 2_000))
    def attempt(self, key: str, hold: int) -> None:
        if self.parts[key].reserve(hold):
            self.cells += 1
            self.write_start(key, Cell(task="t", arm="none", repeat=self.cells), hold)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        one = self.take(data)
        used = data.draw(st.integers(0, one.hold))
        self.parts[one.key].settle(one.hold, used)
        self.write_end(one, used)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        one = self.take(data)
        self.parts[one.key].lose(one.hold)
        self.write_end(one, None, Outcome.INVALID)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Ctrl-C before anything was used: the run is no final one."""
        one = self.take(data)
        self.parts[one.key].settle(one.hold, 0)
        self.write_end(one, 0, Outcome.INVALID)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The attempt is invalid, costs something, and the same cell begins again if the rest can pay."""
        one = self.take(data)
        used = data.draw(st.integers(0, one.hold))
        self.parts[one.key].settle(one.hold, used)
        self.write_end(one, used, Outcome.INVALID)
        if self.parts[one.key].reserve(one.hold):
            self.write_start(one.key, one.cell, one.hold)

    @rule(
        data=st.data(),
        moment=st.sampled_from(["", "reserved", "settled", "lost"]),
        key=st.sampled_from(KEYS),
        hold=st.integers(0, 2_000),
    )
    def crash(self, data: st.DataObject, moment: str, key: str, hold: int) -> None:
        """The process dies: between any two steps, also between the ledger and the journal."""
        if moment == "reserved":
            self.parts[key].reserve(hold)
        elif moment and self.open:
            one = self.take(data)
            if moment == "lost":
                self.parts[one.key].lose(one.hold)
            else:
                self.parts[one.key].settle(one.hold, data.draw(st.integers(0, one.hold)))
        self.open.clear()  # nobody will ever end them
        del self.whole, self.parts
        self.journal.__exit__(None, None, None)
        self.start(resume=True)
        assert self.whole.spent_usd_micros == sum(self.spent.values())
        assert self.whole.held_usd_micros == sum(self.held.values())

    @rule(raised=st.integers(0, 3_000))
    def start_again_with_more_money(self, raised: int) -> None:
        self.cap += raised
        self.crash(None, "", KEYS[0], 0)  # type: ignore[arg-type]

    @rule()
    def a_second_process(self) -> None:
        with pytest.raises(UsageError, match="another skillgate is using this journal"):
            Journal(self.path)

    @invariant()
    def the_books_agree_and_the_cap_holds(self) -> None:
        if not hasattr(self, "whole"):
            return
        assert self.journal.sums() == Sums(sum(self.spent.values()), sum(self.held.values()))
        for key, part in self.parts.items():
            assert (part.spent_usd_micros, part.held_usd_micros) == (self.spent[key], self.held[key])
            assert self.journal.sums(key) == (self.spent[key], self.held[key])
            assert 0 <= part.spent_usd_micros + part.held_usd_micros <= self.caps[key]
        assert self.whole.spent_usd_micros == sum(self.spent.values()) >= 0
        assert self.whole.held_usd_micros == sum(self.held.values()) >= 0
        assert self.whole.spent_usd_micros + self.whole.held_usd_micros <= self.cap

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.__exit__(None, None, None)
        self.folder.cleanup()


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


_SECOND = """\
import pathlib, sys
from skillgate.bench.journal import Journal
from skillgate.errors import UsageError
try:
    Journal(pathlib.Path(sys.argv[1]))
except UsageError as refused:
    sys.exit(refused.message)
"""
_HOLDS = """\
import os, pathlib, sys
from skillgate.bench.journal import Journal, Who
from skillgate.core import Cell
journal = Journal(pathlib.Path(sys.argv[1]))
journal.open_gate("gate", resume=False)
journal.begin("first", Who("a", "m"), Cell(task="t", arm="none", repeat=0), 700)
print("it holds", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_a_killed_one_leaves_its_hold_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(path)], stdin=pipe, stdout=pipe) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == b"it holds\n"
            second = subprocess.run(
                [sys.executable, "-c", _SECOND, str(path)], capture_output=True, text=True, check=False
            )
        finally:
            first.kill()
    assert second.returncode == 1
    assert "another skillgate is using this journal" in second.stderr
    with Journal(path) as journal:
        assert journal.open_gate("gate", resume=True)
        assert journal.sums() == Sums(0, 700)
