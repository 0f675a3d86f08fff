from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from skillgate.bench.history import Scored, past_scores, past_task_costs, scored_runs
from skillgate.bench.journal import Journal, Who
from skillgate.core import Cell, Grade, GradeKind, Outcome, Run
from skillgate.values import Usage

WHO, ELSE = Who("a", "m"), Who("a", "other")
CELL = Cell(task="s/t", arm="head", repeat=0)
OTHER = Cell(task="s/t", arm="base", repeat=0)
ELSEWHERE = Cell(task="s/u", arm="base", repeat=0)


def run(cell: Cell, passed: bool = True, cost: int = 30) -> Run:
    grades = (Grade(grader="g", kind=GradeKind.FAIL_TO_PASS, passed=passed),)
    outcome = Outcome.PASSED if passed else Outcome.FAILED
    return Run(cell=cell, outcome=outcome, grades=grades, usage=Usage(usd_micros=cost))


def write(journal: Journal, cell: Cell, who: Who = WHO, content: str = "", **of_run: int) -> Run:
    wrote = run(cell, **of_run)
    journal.end(journal.begin("e", who, cell, 100, content), wrote, cost_known=True)
    return wrote


def test_past_costs_are_those_of_scored_runs_of_these_tasks_and_this_agent(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert past_task_costs(path, WHO, ["s/t"], resume=False) == {}
    with Journal(path) as journal:
        for key, cost in (("first", 30), ("second", 31)):
            journal.open_gate(key, resume=False)
            write(journal, CELL, cost=cost)
            write(journal, OTHER, ELSE)
            write(journal, ELSEWHERE, cost=7)
            journal.begin("e", WHO, OTHER, 100)
        both = {"s/t": (30, 31), "s/u": (7, 7)}
        assert past_task_costs(path, WHO, ["s/t", "s/u", "s/v"], resume=False) == both
        assert past_task_costs(path, WHO, ["s/t"], resume=True) == {"s/t": (30,)}
        assert past_task_costs(path, WHO, ["s/v"], resume=False) == {}
        journal._db.execute("UPDATE attempts SET used_usd_micros = -5 WHERE used_usd_micros = 30")
        journal._db.execute("UPDATE attempts SET used_usd_micros = 'much' WHERE used_usd_micros = 31")
        assert past_task_costs(path, WHO, ["s/t"], resume=False) == {}
    path.write_bytes(b"x" * 5000)
    assert past_task_costs(path, WHO, ["s/t"], resume=False) == {}


def test_past_scores_are_grouped_by_what_decided_them(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert past_scores(path, WHO, ["s/t"], resume=False) == {}
    with Journal(path) as journal:
        for number in range(3):
            journal.open_gate(str(number), resume=False)
            write(journal, CELL, content="new", passed=number == 0)
            write(journal, OTHER, content="old")
            write(journal, ELSEWHERE, content="else", passed=number > 1)
        write(journal, msgspec.structs.replace(CELL, repeat=1), content="")
        write(journal, msgspec.structs.replace(CELL, repeat=2), ELSE, content="new")
    new, old = (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    assert past_scores(path, WHO, ["s/t", "s/v"], resume=False) == {"s/t": (new, old)}
    assert past_scores(path, WHO, ["s/t"], resume=True) == {"s/t": (new[:2], old[:2])}
    assert past_scores(path, WHO, ["s/u"], resume=False) == {"s/u": ((0.0, 0.0, 1.0),)}
    assert past_scores(path, WHO, ["s/t"], resume=False, key=b"another") == {}


def test_scored_runs_are_all_whose_content_is_known_and_seal_fits(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert list(scored_runs(path)) == []
    with Journal(path, b"key") as journal:
        journal.open_gate("k", resume=False)
        first = write(journal, CELL, content="x")
        write(journal, OTHER, content="")
        edited = write(journal, ELSEWHERE, content="x")
        last = write(journal, msgspec.structs.replace(CELL, repeat=1), ELSE, content="y")
        invalid = Run(cell=OTHER, outcome=Outcome.INVALID)
        journal.end(journal.begin("e", WHO, OTHER, 9, "x"), invalid, cost_known=True)
        journal._db.execute("UPDATE attempts SET content = 'y' WHERE task = ?", (edited.cell.task,))
        found = [Scored("x", "e/head", "", WHO, first), Scored("y", "e/head", "", ELSE, last)]
        assert list(scored_runs(path, b"key")) == found
        reading = scored_runs(path, b"key")
        next(reading)
        write(journal, msgspec.structs.replace(CELL, repeat=2), content="y")  # a reader keeps no lock
        assert len(list(reading)) == 1
    assert list(scored_runs(path)) == []


@pytest.mark.parametrize("content", [b"", b"no journal" * 500])
def test_what_is_no_journal_has_no_history(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    assert list(scored_runs(path)) == []
    assert (
        past_scores(path, WHO, ["s/t"], resume=False)
        == past_task_costs(path, WHO, ["s/t"], resume=False)
        == {}
    )
