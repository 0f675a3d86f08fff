"""Which earlier runs may stand for new ones, and which are refused whatever they say."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.bench.entry import ROW, seal_of
from skillgate.bench.journal import Journal, Who
from skillgate.bench.reuse import (
    MAX_REUSED,
    Baselines,
    Refusal,
    Terms,
    cached_counts,
    describe_refused,
    graders_of,
)
from skillgate.bench.suite import load_suite
from skillgate.core import Cell, Grade, GradeKind, Outcome, Run
from skillgate.values import Usage

KEY = b"secret"
WHO = Who("a", "m")
TASK, OTHER_TASK = "s/t", "s/u"
CONTENTS = {(TASK, "none"): "c", (TASK, "head"): "h"}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY_S = 86_400.0
KINDS = (("g", GradeKind.FAIL_TO_PASS), ("h", GradeKind.PASS_TO_PASS))
TERMS = Terms({TASK: KINDS, OTHER_TASK: KINDS}, 1_000, 30 * DAY_S, lambda: NOON)
GRADES = tuple(Grade(grader=name, kind=kind, passed=True) for name, kind in KINDS)


def cell(repeat: int = 0, arm: str = "none", task: str = TASK) -> Cell:
    return Cell(task=task, arm=arm, repeat=repeat)


def run(at: Cell, **other: Any) -> Run:
    """A run that may be reused, unless `other` fields make it another."""
    fields: dict[str, Any] = {"outcome": Outcome.PASSED, "grades": GRADES, "models": ("m-1",)}
    return Run(cell=at, **{"usage": Usage(usd_micros=30), "trace_path": "traces/x"} | fields | other)


class Gates:
    """A journal in which gates come one after the other; `moment` is when a run ends."""

    def __init__(self, path: Path, key: bytes = KEY) -> None:
        self.path, self.key, self.moment = path, key, NOON - timedelta(days=1)
        self.number = 0

    def open(self) -> Journal:
        journal = Journal(self.path, self.key, lambda: self.moment)
        journal._db.execute("PRAGMA synchronous = OFF")  # no test here pulls the plug
        return journal

    def gate(self, *runs: Run, content: str = "c", evaluation: str = "e") -> None:
        """Play a whole gate."""
        with self.open() as journal:
            self.begin(journal)
            for one in runs:
                write(journal, one, content, evaluation)

    def begin(self, journal: Journal) -> None:
        self.number += 1
        journal.open_gate(str(self.number), resume=False)

    def sql(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute(statement, values)
            db.commit()

    def take(
        self, *cells: Cell, contents: Mapping[tuple[str, str], str] = CONTENTS, **terms: Any
    ) -> list[Run | None]:
        """Ask for cells as a new gate, and remember what was refused and counted."""
        asked = TERMS._replace(**terms)
        self.counts = cached_counts(self.path, contents, asked, resume=False, key=self.key)
        with self.open() as journal:
            self.begin(journal)
            baselines = Baselines(journal, "new", contents, asked)
            found = [baselines.earlier(one) for one in cells]
            self.refused = dict(baselines.refused)
        return found


def write(journal: Journal, one: Run, content: str = "c", evaluation: str = "e") -> None:
    number = journal.begin(evaluation, WHO, one.cell, 1_000, content)
    journal.end(number, one, cost_known=True)


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path / "journal.sqlite")


def test_a_run_of_an_earlier_gate_stands_for_a_cell_of_its_content(gates: Gates) -> None:
    earlier = run(cell(4, "base"), wall_s=7.0)
    gates.gate(earlier)
    (found,) = gates.take(cell(1))
    assert found == msgspec.structs.replace(earlier, cell=cell(1), trace_path=None)
    assert gates.take(cell(0, "head"), cell(0, "base"), cell(0, "none", OTHER_TASK)) == [None] * 3
    assert (gates.refused, gates.counts) == ({}, {(TASK, "none"): 1, (TASK, "head"): 0})


def test_a_head_that_was_judged_is_no_baseline_of_the_next(gates: Gates) -> None:
    """It was chosen for its luck: only what was a baseline already is reused."""
    gates.gate(run(cell(4, "head")))
    assert gates.take(cell(1)) == [None]
    assert (gates.refused, gates.counts[TASK, "none"]) == ({}, 0)


def test_a_cell_without_a_content_takes_nothing(gates: Gates) -> None:
    gates.gate(run(cell()), content="")
    assert gates.take(cell(), contents={(TASK, "none"): ""}) == [None]
    assert (gates.refused, gates.counts) == ({}, {(TASK, "none"): 0})


def test_the_newest_ten_are_given_one_for_each_cell_and_the_same_again(gates: Gates) -> None:
    for number in range(12):
        gates.moment = NOON - timedelta(hours=12 - number)
        gates.gate(run(cell(number), usage=Usage(usd_micros=number)))
    cells = [cell(repeat) for repeat in range(12)]
    found = gates.take(*cells, *cells[:3])
    costs = [one.usage.usd_micros if one else None for one in found]
    assert costs == [*range(11, 1, -1), None, None, 11, 10, 9]
    assert [one.cell for one in found[:MAX_REUSED] if one] == cells[:MAX_REUSED]
    assert gates.counts[TASK, "none"] == MAX_REUSED
    assert gates.take(*cells)[:MAX_REUSED] == found[:MAX_REUSED]


def test_age_counts_to_the_second(gates: Gates) -> None:
    gates.gate(run(cell()))
    for age_s, refused in ((DAY_S, {}), (DAY_S - 1, {Refusal.EXPIRED: 1})):
        assert (gates.take(cell(1), max_age_s=age_s) == [None]) is bool(refused)
        assert gates.refused == refused
    gates.take(cell(1), clock=lambda: NOON - timedelta(days=1, seconds=1))
    assert gates.refused == {Refusal.FUTURE: 1}
    assert gates.take(cell(1), max_age_s=float("inf")) != [None]


REFUSED = {
    "no score": (run(cell(), outcome=Outcome.PASSED, grades=()), Refusal.SCORE),
    "fewer graders": (run(cell(), grades=GRADES[:1]), Refusal.GRADERS),
    "a grader twice": (run(cell(), grades=(*GRADES, GRADES[0])), Refusal.GRADERS),
    "another name": (
        run(cell(), grades=(msgspec.structs.replace(GRADES[0], grader="x"), GRADES[1])),
        Refusal.GRADERS,
    ),
    "another kind": (
        run(cell(), grades=(GRADES[0], msgspec.structs.replace(GRADES[1], kind=KINDS[0][1]))),
        Refusal.GRADERS,
    ),
    "dearer than its cap": (run(cell(), usage=Usage(usd_micros=1_001)), Refusal.COST),
    "negative dollars": (run(cell(), usage=Usage(usd_micros=-1)), Refusal.COST),
    "negative tokens": (run(cell(), usage=Usage(input=-1)), Refusal.COST),
    "negative turns": (run(cell(), usage=Usage(turns=-1)), Refusal.COST),
    "negative time": (run(cell(), wall_s=-0.5), Refusal.COST),
    "another task": (run(cell(0, "none", OTHER_TASK)), Refusal.TASK),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_though_its_seal_does(name: str, gates: Gates) -> None:
    poisoned, reason = REFUSED[name]
    good = run(cell(5))
    gates.gate(poisoned, good)
    assert gates.take(cell(1), cell(2)) == [
        msgspec.structs.replace(good, cell=cell(1), trace_path=None),
        None,
    ]
    assert (gates.refused, gates.counts[TASK, "none"]) == ({reason: 1}, 1)


def test_a_cost_that_nobody_knows_is_refused(gates: Gates) -> None:
    with gates.open() as journal:
        gates.begin(journal)
        journal.end(journal.begin("e", WHO, cell(), 1_000, "c"), run(cell()), cost_known=False)
    assert gates.take(cell()) == [None]
    assert gates.refused == {Refusal.COST: 1}


def test_runs_that_another_model_answered_than_the_newest_are_refused(gates: Gates) -> None:
    for number, models in enumerate([("m-1",), ("m-2",), ("m-2", "m-1"), ("m-1", "m-2"), ("m-1",)]):
        gates.moment = NOON - timedelta(hours=9 - number)
        gates.gate(run(cell(number), models=models))
    assert [one.models if one else None for one in gates.take(cell(0), cell(1))] == [("m-1",), ("m-1",)]
    assert gates.refused == {Refusal.MODELS: 3}


def test_what_did_not_end_or_has_no_score_is_no_earlier_run(gates: Gates) -> None:
    with gates.open() as journal:
        gates.begin(journal)
        journal.begin("e", WHO, cell(), 1_000, "c")
        write(journal, run(cell(1), outcome=Outcome.INVALID))
    assert gates.take(cell()) == [None]
    assert gates.refused == {}
    gates.sql("UPDATE attempts SET final = 1")
    assert gates.take(cell()) == [None]
    assert gates.refused == {Refusal.SEAL: 2}


EDITS = {
    "the score": "run = CAST(replace(CAST(run AS TEXT), '\"passed\":true', '\"passed\":false') AS BLOB)",
    "the cost": "run = CAST(replace(CAST(run AS TEXT), '\"usd_micros\":30', '\"usd_micros\":29') AS BLOB)",
    "the cell": "run = CAST(replace(CAST(run AS TEXT), '\"repeat\":0', '\"repeat\":9') AS BLOB)",
    "a space": "run = CAST(CAST(run AS TEXT) || ' ' AS BLOB)",
    "half a run": "run = substr(run, 1, 40)",
    "no run": "run = NULL",
    "not UTF-8": "run = X'FF'",
    "text that is not UTF-8": "run = CAST(X'7BFF' AS TEXT)",
    "deep": "run = CAST(printf('%.*c', 200000, '[') AS BLOB)",
    "the moment": "ended = '2026-02-28T12:00:00.000001+00:00'",
    "no moment": "ended = NULL",
    "a moment that is none": "ended = 'yesterday'",
    "a moment that is not UTF-8": "ended = CAST(X'FF' AS TEXT)",
    "the booked cost": "used_usd_micros = 0",
    "the arm": "arm = 'base'",
    "the task": "task = 's/u'",
    "the repeat": "repeat = 7",
    "a repeat that is no number": "repeat = 'many'",
    "the agent": "agent = 'b'",
    "the evaluation": "evaluation = 'f'",
    "the place": "id = 77",
    "the gate": "gate = 0",
    "no seal": "seal = NULL",
    "a short seal": "seal = substr(seal, 1, 63)",
    "a seal that is not UTF-8": "seal = CAST(X'FF' AS TEXT)",
    "a seal that is not ASCII": "seal = 'ä'",
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_row_is_refused_and_the_next_is_taken(name: str, gates: Gates) -> None:
    gates.gate(run(cell()))
    gates.sql(f"UPDATE attempts SET {EDITS[name]}")
    gates.moment -= timedelta(hours=1)
    gates.gate(run(cell(1)))
    found = gates.take(cell(1), cell(2))
    assert (found[0] is not None, found[1]) == (True, None)
    assert (gates.refused, gates.counts[TASK, "none"]) == ({Refusal.SEAL: 1}, 1)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_flipped_byte_anywhere_in_a_sealed_run_is_seen(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gates = Gates(Path(folder, "j"))
        gates.gate(run(cell()))
        with closing(sqlite3.connect(gates.path)) as db:
            content = bytearray(db.execute("SELECT run FROM attempts").fetchone()[0])
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        gates.sql("UPDATE attempts SET run = ?", bytes(content))
        assert gates.take(cell()) == [None]
        assert gates.refused == {Refusal.SEAL: 1}


def test_a_run_moved_to_another_content_is_refused(gates: Gates) -> None:
    gates.gate(run(cell()), content="other")
    gates.sql("UPDATE attempts SET content = 'c'")
    assert gates.take(cell()) == [None]
    assert gates.refused == {Refusal.SEAL: 1}


def test_a_copied_row_is_refused_and_counts_no_run_twice(gates: Gates) -> None:
    gates.gate(run(cell()))
    columns = (
        "gate, evaluation, agent, model, task, arm, held_usd_micros, used_usd_micros, final, run, content"
    )
    columns += ", ended, seal"
    for repeat in (1, 2):
        gates.sql(
            f"INSERT INTO attempts ({columns}, repeat) SELECT {columns}, ? FROM attempts WHERE id = 1", repeat
        )
    assert [one is not None for one in gates.take(cell(1), cell(2))] == [True, False]
    assert gates.refused == {Refusal.SEAL: 2}


@pytest.mark.parametrize("key", [b"", b"another"])
def test_a_row_that_is_sealed_with_another_key_is_refused(key: bytes, gates: Gates) -> None:
    """Whoever can write the file but does not have the key can seal as he likes."""
    gates.gate(run(cell()))
    better = msgspec.json.encode(run(cell(), usage=Usage(usd_micros=1)))
    gates.sql("UPDATE attempts SET run = ?, used_usd_micros = 1", better)
    with closing(sqlite3.connect(gates.path)) as db:
        row = db.execute(f"SELECT {ROW} FROM attempts").fetchone()
    gates.sql("UPDATE attempts SET seal = ?", seal_of(row, key))
    assert gates.take(cell()) == [None]
    assert gates.refused == {Refusal.SEAL: 1}
    gates.sql("UPDATE attempts SET seal = ?", seal_of(row, KEY))
    assert [one.usage.usd_micros for one in gates.take(cell()) if one] == [1]


@pytest.mark.parametrize(
    "change",
    [
        "run = CAST('{}' AS BLOB)",
        "run = X'FF'",
        EDITS["deep"],
        "ended = 'x'",
        "ended = '2026-02-28T12:00:00'",
    ],
)
def test_what_cannot_be_read_is_refused_even_under_a_good_seal(change: str, gates: Gates) -> None:
    """As another version of ours may have written it."""
    gates.gate(run(cell()))
    gates.sql(f"UPDATE attempts SET {change}")
    with closing(sqlite3.connect(gates.path)) as db:
        row = db.execute(f"SELECT {ROW} FROM attempts").fetchone()
    gates.sql("UPDATE attempts SET seal = ?", seal_of(row, KEY))
    assert gates.take(cell()) == [None]
    assert gates.refused == {Refusal.DAMAGED: 1}


def test_refusals_are_told_in_a_sentence() -> None:
    assert describe_refused({}) == ""
    assert describe_refused({Refusal.EXPIRED: 1}) == "1 earlier run refused: 1 expired."
    counts = Counter({Refusal.EXPIRED: 2, Refusal.SEAL: 1})
    assert describe_refused(counts) == "3 earlier runs refused: 1 with a broken seal, 2 expired."


# --- two gates, and one gate with two skills ----------------------------------------


def test_a_gate_that_is_resumed_gets_the_same_runs_and_none_of_later_gates(gates: Gates) -> None:
    gates.gate(run(cell(0), usage=Usage(usd_micros=1)), run(cell(1), usage=Usage(usd_micros=2)))
    cells = [cell(repeat) for repeat in range(4)]
    with gates.open() as journal:
        journal.open_gate("mine", resume=False)
        before = [Baselines(journal, "new", CONTENTS, TERMS).earlier(one) for one in cells[:1]]
        write(journal, run(cell(9)), evaluation="new")
    gates.gate(run(cell(5), usage=Usage(usd_micros=3)))
    with gates.open() as journal:
        assert journal.open_gate("mine", resume=True)
        baselines = Baselines(journal, "new", CONTENTS, TERMS)
        after = [baselines.earlier(one) for one in cells]
    assert after[:1] == before
    assert [one.usage.usd_micros for one in after if one] == [2, 1]


def test_the_plan_of_a_resumed_gate_counts_none_of_its_own_runs(gates: Gates) -> None:
    gates.gate(run(cell()))
    gates.gate(run(cell()), run(cell(1)))
    counted = [
        cached_counts(gates.path, CONTENTS, TERMS, resume=resume, key=KEY)[TASK, "none"]
        for resume in (False, True)
    ]
    assert counted == [3, 1]
    assert cached_counts(gates.path.with_name("none"), CONTENTS, TERMS, resume=False) == dict.fromkeys(
        CONTENTS, 0
    )
    gates.path.write_bytes(b"no journal" * 500)
    assert cached_counts(gates.path, CONTENTS, TERMS, resume=False) == dict.fromkeys(CONTENTS, 0)


def test_skills_of_one_gate_share_the_runs_of_equal_repeats(gates: Gates) -> None:
    gates.gate(run(cell(0)), run(cell(3)))
    with gates.open() as journal:
        gates.begin(journal)
        mine = [run(cell(repeat), usage=Usage(usd_micros=repeat)) for repeat in (0, 1)]
        for one in mine:
            write(journal, one, evaluation="first")
        write(journal, run(cell(1)), evaluation="second")
        write(journal, run(cell(2), outcome=Outcome.INVALID), evaluation="second")
        write(journal, run(cell(3)), "other", evaluation="second")
        third = Baselines(journal, "third", CONTENTS, TERMS)
        assert [third.shared(cell(repeat)) for repeat in range(4)] == [*mine, None, None]
        assert third.shared(cell(0, "head")) is None
        first = Baselines(journal, "first", CONTENTS, TERMS)
        assert [first.shared(cell(repeat)) for repeat in range(2)] == [None, run(cell(1))]
        assert not third.refused


def test_a_shared_run_is_examined_like_any_other(gates: Gates) -> None:
    with gates.open() as journal:
        gates.begin(journal)
        write(journal, run(cell(0)), evaluation="first")
        write(journal, run(cell(1)), evaluation="first")
        journal._db.execute("UPDATE attempts SET used_usd_micros = 1 WHERE repeat = 0")
        second = Baselines(journal, "second", CONTENTS, TERMS)
        for _ in range(2):
            assert [second.shared(cell(repeat)) is None for repeat in range(2)] == [True, False]
        assert second.refused == {Refusal.SEAL: 1}


def test_after_a_canary_nothing_more_is_given_and_all_that_was_is_named(gates: Gates) -> None:
    gates.gate(*(run(cell(repeat), usage=Usage(usd_micros=repeat)) for repeat in range(3)))
    with gates.open() as journal:
        gates.begin(journal)
        baselines = Baselines(journal, "new", CONTENTS, TERMS)
        assert {task: len(runs) for task, runs in baselines.candidates("none").items()} == {TASK: 3}
        assert baselines.candidates("base") == {}
        assert baselines.earlier(cell(1)) is not None
        assert baselines.distrust() == [cell(1)]
        assert [baselines.earlier(cell(repeat)) for repeat in (1, 2)] == [None, None]


def test_graders_are_known_from_the_suite(tiny_suite: Path) -> None:
    suite = load_suite(tiny_suite)
    (tasks,) = suite.units.values()
    plain = graders_of(suite, tasks)
    assert plain == tuple(sorted(plain))
    assert Counter(plain) == Counter(
        (name, grader.kind) for grader in tasks[0].graders for name in grader.grade_names
    )
    chain = msgspec.structs.replace(suite, chain=True)
    assert graders_of(chain, tasks) == tuple((f"add-double/{name}", kind) for name, kind in plain)


@given(
    earlier=st.lists(
        st.tuples(st.sampled_from(["c", "h", "x"]), st.sampled_from([TASK, OTHER_TASK]), st.integers(0, 40)),
        max_size=30,
    ),
    asked=st.lists(st.tuples(st.sampled_from(["none", "head", "base"]), st.integers(0, 14)), max_size=30),
    same=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_run_stands_for_two_cells_and_none_for_another_content(
    earlier: list[tuple[str, str, int]], asked: list[tuple[str, int]], same: bool
) -> None:
    contents = {**CONTENTS, (TASK, "base"): "c" if same else "none of these"}
    with tempfile.TemporaryDirectory() as folder:
        gates = Gates(Path(folder, "j"))
        where: dict[int, tuple[str, str]] = {}
        for number, (content, task, days) in enumerate(earlier):
            gates.moment = NOON - timedelta(days=days)
            where[number] = (content, task)
            gates.gate(run(cell(0, "none", task), usage=Usage(usd_micros=number)), content=content)
        cells = [cell(repeat, arm) for arm, repeat in asked]
        found = dict(zip(cells, gates.take(*cells, contents=contents), strict=True))
    taken = [one.usage.usd_micros for one in found.values() if one]
    assert len(set(taken)) == len(taken)
    for one, its in found.items():
        if its is not None:
            number = its.usage.usd_micros
            assert its.cell == one
            assert where[number] == (contents[TASK, one.arm], TASK)
            assert earlier[number][2] <= 30
    usable = Counter(content for content, task, days in earlier if task == TASK and days <= 30)
    for content in set(contents.values()):
        wanted = sum(contents[TASK, one.arm] == content for one in found)
        given_out = sum(its is not None and contents[TASK, one.arm] == content for one, its in found.items())
        assert given_out == min(wanted, usable[content], MAX_REUSED)
