from __future__ import annotations

import io

import pytest

from skillgate.bench.meter.ledger import Ledger
from skillgate.console import ConsoleProgress
from skillgate.core import Cell, Outcome, Run
from skillgate.doctor import examine


def run(outcome: Outcome, repeat: int) -> Run:
    return Run(cell=Cell(task="s/t", arm="head", repeat=repeat), outcome=outcome)


def test_off_a_terminal_there_is_a_line_per_tenth_and_no_escape_code() -> None:
    stream, ledger = io.StringIO(), Ledger(2_000_000, 1_230_000)
    progress = ConsoleProgress(stream)
    progress.start("skills/[x]", 20, 2)
    for repeat in range(18):
        progress.finish_run(run(Outcome.INVALID if repeat == 0 else Outcome.PASSED, repeat), ledger)
    progress.note("a [note]\x1b[31m")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "skills/[x]: 20 runs, 2 finished earlier"
    assert lines[1].startswith("  4/20 runs, 1 invalid, $1.23 spent, $0.00 held, cap $2.00, ")
    assert lines[-2].startswith("  20/20 runs, 1 invalid, $1.23 spent, $0.00 held, cap $2.00, 0 s left")
    assert lines[-1].startswith("a [note]")
    assert len(lines) == 11
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_shows_what_runs_in_flight_have_cost() -> None:
    for terminal in (True, False):
        stream, ledger = io.StringIO(), Ledger(2_000_000, 1_230_000)
        stream.isatty = lambda terminal=terminal: terminal  # type: ignore[method-assign,misc]
        progress = ConsoleProgress(stream)
        progress.start("skills/x", 20, 0)
        assert ledger.reserve(500_000)
        progress.tick(ledger, 120_000)
        shown = "  0/20 runs, $1.23 spent, $0.50 held ($0.12 used), cap $2.00, " in stream.getvalue()
        assert shown is terminal


def test_waves_go_on_with_the_line_of_their_skill() -> None:
    stream, ledger = io.StringIO(), Ledger(2_000_000)
    progress = ConsoleProgress(stream)
    progress.start("skills/x", 4, 1)
    progress.finish_run(run(Outcome.INVALID, 1), ledger)
    progress.start("skills/x", 4, 3)  # one of the second wave is known
    progress.finish_run(run(Outcome.PASSED, 3), ledger)
    progress.start("skills/y", 2, 0)
    progress.finish_run(run(Outcome.PASSED, 0), ledger)
    lines = [line.partition(", $")[0] for line in stream.getvalue().splitlines()]
    assert lines == [
        "skills/x: 4 runs, 1 finished earlier",
        "  2/4 runs, 1 invalid",
        "  4/4 runs, 1 invalid",
        "skills/y: 2 runs",
        "  1/2 runs",
    ]


def test_on_a_terminal_a_note_does_not_write_over_the_live_line() -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    progress = ConsoleProgress(stream)
    progress.start("skills/x", 4, 0)
    progress.finish_run(run(Outcome.PASSED, 0), Ledger(2_000_000))
    progress.note("decided")
    progress.note("next")
    assert stream.getvalue().endswith("s left  \r\ndecided\nnext\n")


def test_the_doctor_looks_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    assert {part.name: part.is_there for part in examine()} == {"Python": True, "git": False, "Docker": False}
