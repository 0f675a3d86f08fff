from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.agents.scripted import ScriptedAgent, load_script
from skillgate.bench.attempt import Evaluation
from skillgate.bench.failure import Failure
from skillgate.bench.history import Scored, scored_runs
from skillgate.bench.journal import Journal, Who
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.meter.purse import NO_MONEY
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.runner import MAX_ATTEMPTS, Bench, Execution, Quiet, execute
from skillgate.bench.sandbox import SandboxFailure, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.core import Cell, Grade, GradeKind, Outcome, Run
from skillgate.errors import Interrupted
from skillgate.skill import Files, parse
from skillgate.values import Usage

PYTHON_BIN = Path(sys.executable).parent
SKILL = parse(Files.from_map({"SKILL.md": b"---\nname: s\ndescription: d\n---\nBody.\n"}), "skills/s")


def script(**moves: str) -> str:
    part = "{{moves: {{{}: 1}}, input: {{median: 1000}}, output: {{median: 100}}}}"
    arms = "\n".join(f"  {arm}: {part.format(move)}" for arm, move in moves.items())
    return f"price: {{input: 1.0, output: 1.0}}\narms:\n{arms}\n"


class Setup:
    """An evaluation of the tiny suite, arms `none` and `head`."""

    def __init__(self, suite: Path, journal: Journal, cap: int = 10_000_000, **options: Any) -> None:
        loaded = load_suite(suite)
        agent = options.get("agent") or ScriptedAgent(
            load_script(script(none="nothing", head="oracle"), "s"), "s"
        )
        plan = make_plan(
            Wanted(
                list(loaded.units),
                ["none", "head"],
                repeats=options.get("repeats", 2),
                seed=1,
                agent="scripted",
                model="scripted",
                cap_usd_micros=options.get("planned", cap),
                per_run_usd_micros=options.get("per_run", 100_000),
            )
        )
        self.evaluation = Evaluation(
            key="e",
            label="skills/s",
            plan=plan,
            units={name: (loaded, tasks) for name, tasks in loaded.units.items()},
            skills={"none": None, "head": SKILL},
            agent=agent,
            sandbox=local_sandbox(PYTHON_BIN),
        )
        journal.open_gate("k", resume=options.get("resume", False))
        self.ledger = Ledger(cap, *journal.sums())
        self.bench = Bench(journal, self.ledger, options.get("progress", Quiet()), workers=2, backoff_s=0.01)

    def run(self) -> dict[str, Run]:
        return {str(run.cell): run for run in execute(self.evaluation, self.bench)}


class Faulty:
    """An agent that does what the test says; `seen` counts its runs."""

    name, version, runs_model_commands = "faulty", "1", False

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def __init__(self, *answers: Failure | Exception | None) -> None:
        self.answers, self.seen = list(answers), 0

    def run(self, job: AgentJob) -> AgentResult:
        self.seen += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return AgentResult(usage=Usage(usd_micros=10), failure=answer)


def one_worker(setup: Setup) -> Setup:
    setup.bench = setup.bench._replace(workers=1)
    return setup


def test_the_oracle_passes_a_no_op_fails_and_the_money_is_the_ledgers(
    tiny_suite: Path, tmp_path: Path
) -> None:
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal)
        runs = setup.run()
        sums = journal.sums()
    assert {name: (run.outcome, run.pass_ratio) for name, run in runs.items()} == {
        "tiny/add-double [none #1]": (Outcome.FAILED, 0.25),
        "tiny/add-double [none #2]": (Outcome.FAILED, 0.25),
        "tiny/add-double [head #1]": (Outcome.PASSED, 1.0),
        "tiny/add-double [head #2]": (Outcome.PASSED, 1.0),
    }
    assert {run.changed_files for run in runs.values()} == {(), ("calc/double.py",)}
    assert {run.skill_used for run in runs.values()} == {None, True}
    assert (
        setup.ledger.spent_usd_micros
        == sums.spent_usd_micros
        == sum(r.usage.usd_micros for r in runs.values())
    )
    assert setup.ledger.held_usd_micros == 0


def test_the_same_seed_gives_the_same_runs_whatever_the_order(tiny_suite: Path, tmp_path: Path) -> None:
    def numbers(name: str, workers: int) -> dict[str, tuple[Outcome, Usage]]:
        with Journal(tmp_path / name) as journal:
            setup = Setup(tiny_suite, journal)
            setup.bench = setup.bench._replace(workers=workers)
            return {cell: (run.outcome, run.usage) for cell, run in setup.run().items()}

    assert numbers("a", 1) == numbers("b", 4)


def test_resume_runs_nothing_that_is_complete(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        first = Setup(tiny_suite, journal).run()
    agent = Faulty()
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, agent=agent, resume=True)
        assert setup.run() == first
        assert setup.ledger.spent_usd_micros == sum(run.usage.usd_micros for run in first.values())
    assert agent.seen == 0


def test_an_outage_is_retried_and_then_scores(tiny_suite: Path, tmp_path: Path) -> None:
    agent = Faulty(Failure.API_OVERLOADED, SandboxFailure(Failure.SANDBOX_START, "no"), None)
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent, repeats=1))
        runs = setup.run()
    assert Counter(run.outcome for run in runs.values()) == {Outcome.FAILED: 2}
    assert agent.seen == 4
    # the outage cost 10, the lost sandbox keeps its hold, the two runs that ended cost 10 each
    assert (setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (30, 100_000)


def test_an_outage_that_lasts_is_invalid_and_tried_again_on_resume(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        agent = Faulty(*[Failure.API_SERVER] * 2 * MAX_ATTEMPTS)
        runs = Setup(tiny_suite, journal, agent=agent, repeats=1).run()
    assert {(run.outcome, run.pass_ratio, run.reason) for run in runs.values()} == {
        (Outcome.INVALID, None, "the model API failed")
    }
    assert agent.seen == 2 * MAX_ATTEMPTS
    with Journal(tmp_path / "j") as journal:
        runs = Setup(tiny_suite, journal, agent=Faulty(), repeats=1, resume=True).run()
    assert {run.outcome for run in runs.values()} == {Outcome.FAILED}


@pytest.mark.parametrize(
    ("answer", "outcome", "reason", "held"),
    [
        (Failure.AGENT_CLOCK, Outcome.LIMIT, "the agent used up its time", 0),
        (Failure.AGENT_CRASH, Outcome.FAILED, "the agent crashed; its graders decide", 0),
        (Failure.API_AUTH, Outcome.INVALID, "the model API refused our key", 0),
        (
            SandboxFailure(Failure.GRADER_BROKEN, "sh: x"),
            Outcome.INVALID,
            "a grader could not start: sh: x",
            100_000,
        ),
        (OSError(28, "No space left"), Outcome.INVALID, "the disk of this machine is full: ", 100_000),
    ],
)
def test_failures_become_outcomes(
    answer: Failure | Exception, outcome: Outcome, reason: str, held: int, tiny_suite: Path, tmp_path: Path
) -> None:
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=Faulty(answer), repeats=1))
        (first, second) = execute(setup.evaluation, setup.bench)
    assert (first.outcome, first.reason.startswith(reason)) == (outcome, True)
    assert second.outcome is Outcome.FAILED
    assert setup.ledger.held_usd_micros == held


class NoSession:
    """A sandbox whose sessions do not start."""

    name, isolates = "none", True

    def session(self, *_: Any) -> Any:
        raise SandboxFailure(Failure.SANDBOX_START, "no")


def test_an_attempt_whose_agent_never_started_costs_nothing(tiny_suite: Path, tmp_path: Path) -> None:
    agent = Faulty()
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, agent=agent, repeats=1)
        setup.evaluation = setup.evaluation._replace(sandbox=NoSession())
        runs = setup.run()
        assert journal.sums() == (0, 0)
    assert {(run.outcome, run.reason) for run in runs.values()} == {
        (Outcome.INVALID, "the sandbox did not start: no")
    }
    assert (agent.seen, setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (0, 0, 0)


def test_an_oracle_that_does_not_apply_is_not_tried_again_and_costs_nothing(
    tiny_suite: Path, tmp_path: Path
) -> None:
    (tiny_suite / "tasks/add-double/solution.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-no\n+yes\n")
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, repeats=1)
        runs = setup.run()
        attempts = journal._db.execute("SELECT COUNT(*) FROM attempts").fetchone()[0]
    head = runs["tiny/add-double [head #1]"]
    assert (head.outcome, head.reason.startswith("the suite is broken: ")) == (Outcome.INVALID, True)
    assert (attempts, setup.ledger.held_usd_micros) == (2, 0)


def test_what_nobody_foresaw_is_invalid_and_named(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        agent = Faulty(*[KeyError("surprise")] * MAX_ATTEMPTS)
        setup = one_worker(Setup(tiny_suite, journal, agent=agent, repeats=1))
        first = execute(setup.evaluation, setup.bench)[0]
    assert (first.outcome, "KeyError: 'surprise'" in first.reason) == (Outcome.INVALID, True)


def test_what_the_cap_cannot_pay_is_skipped_and_the_cap_holds(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, cap=100_015, planned=1_000_000, agent=Faulty()))
        runs = execute(setup.evaluation, setup.bench)
    assert [run.outcome for run in runs] == [Outcome.FAILED] * 2 + [Outcome.SKIPPED] * 2
    assert {run.reason for run in runs[2:]} == {NO_MONEY}
    assert (setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (20, 0)


def test_ctrl_c_lets_the_runs_in_flight_end_and_leaves_a_journal_to_resume(
    tiny_suite: Path, tmp_path: Path
) -> None:
    class Impatient(Quiet):
        def finish_run(self, run: Run, ledger: Ledger) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, repeats=3, progress=Impatient())
        with pytest.raises(Interrupted) as caught:
            setup.run()
        finished = journal.finished("e")
    assert "--resume" in caught.value.hint
    assert 1 <= len(finished) <= 3
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, repeats=3, resume=True)
        runs = execute(setup.evaluation, setup.bench)
    assert len(runs) == 6
    assert all(run.outcome.is_scored for run in runs)
    assert [run for run in runs if run.cell in finished] == [
        finished[r.cell] for r in runs if r.cell in finished
    ]


def test_a_second_ctrl_c_kills_the_runs_in_flight_and_tries_none_again(
    tiny_suite: Path, tmp_path: Path
) -> None:
    """The sandbox is interrupted as the second Ctrl-C does it; its sessions then refuse to run."""
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, repeats=1)
        setup.evaluation.sandbox.interrupt()
        runs = setup.run()
        attempts = journal._db.execute("SELECT COUNT(*) FROM attempts").fetchone()[0]
    assert {(run.outcome, run.reason.split(":")[0]) for run in runs.values()} == {
        (Outcome.INVALID, "the run was interrupted")
    }
    assert attempts == 2


class Watching(Quiet):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self.ended: list[Cell] = []

    def start(self, label: str, total: int, done: int) -> None:
        self.starts.append((total, done))

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        self.ended.append(run.cell)


def wave(setup: Setup, repeat: int) -> list[Cell]:
    return [cell for cell in setup.evaluation.plan.cells if cell.repeat == repeat]


def earlier_run(cell: Cell) -> Run:
    grades = (Grade(grader="g", kind=GradeKind.FAIL_TO_PASS, passed=True),)
    return Run(cell=cell, outcome=Outcome.PASSED, grades=grades, usage=Usage(usd_micros=77))


def attempts(journal: Journal) -> int:
    return int(journal._db.execute("SELECT COUNT(*) FROM attempts").fetchone()[0])


def test_waves_run_what_they_are_asked_and_tell_what_is_known_of_the_whole_plan(
    tiny_suite: Path, tmp_path: Path
) -> None:
    agent, progress = Faulty(*[Failure.API_SERVER] * MAX_ATTEMPTS), Watching()
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent, repeats=3, progress=progress))
        setup.bench = setup.bench._replace(progress=progress)
        execution = Execution(setup.evaluation, setup.bench)
        first = execution.run(wave(setup, 0))
        assert [run.cell for run in first] == wave(setup, 0) == progress.ended
        assert [run.outcome for run in first] == [Outcome.INVALID, Outcome.FAILED]
        again = execution.run([*reversed(wave(setup, 0)), *wave(setup, 1)])
    # what was given up in a wave is not tried again in the next
    assert again[:2] == (first[1], first[0])
    assert [run.cell for run in again[2:]] == wave(setup, 1)
    assert agent.seen == MAX_ATTEMPTS + 1 + 2
    assert progress.starts == [(6, 0), (6, 2)]


def test_a_reused_run_costs_nothing_and_is_not_written_again(tiny_suite: Path, tmp_path: Path) -> None:
    agent, progress = Faulty(), Watching()
    asked: list[Cell] = []

    def reuse(cell: Cell) -> Run | None:
        asked.append(cell)
        return earlier_run(cell) if cell.arm == "none" else None

    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent))
        setup.bench = setup.bench._replace(progress=progress)
        execution = Execution(setup.evaluation, setup.bench, reuse)
        runs = execution.run(setup.evaluation.plan.cells)
        assert (attempts(journal), journal.sums()) == (2, (20, 0))
        assert set(journal.finished("e")) == {
            cell for cell in setup.evaluation.plan.cells if cell.arm == "head"
        }
        execution.run(setup.evaluation.plan.cells)
    assert asked == list(setup.evaluation.plan.cells) == [run.cell for run in runs]
    assert execution.reused == {run.cell: run for run in runs if run.cell.arm == "none"}
    assert {run.usage.usd_micros for run in execution.reused.values()} == {77}
    assert (agent.seen, setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (2, 20, 0)
    assert progress.starts == [(4, 2), (4, 4)]


def test_what_is_optional_is_left_out_unless_an_earlier_run_fills_it(
    tiny_suite: Path, tmp_path: Path
) -> None:
    agent, progress = Faulty(), Watching()
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent, repeats=3))
        setup.bench = setup.bench._replace(progress=progress)
        cells = setup.evaluation.plan.cells
        extras = {cell for cell in cells if cell.arm == "none" and cell.repeat > 0}
        execution = Execution(
            setup.evaluation, setup.bench, lambda cell: earlier_run(cell) if cell.repeat == 1 else None
        )
        runs = execution.run(cells, extras)
        assert [run.cell for run in runs] == [c for c in cells if c.arm == "head" or c.repeat < 2]
        assert (agent.seen, set(execution.reused)) == (3, set(wave(setup, 1)))
        assert progress.starts == [(5, 2)]
        # asked for without the excuse, it is run after all
        assert len(execution.run(cells)) == 6
    assert (agent.seen, progress.starts[-1]) == (4, (6, 5))


def test_what_a_canary_has_refuted_is_forgotten_and_run(tiny_suite: Path, tmp_path: Path) -> None:
    trusted, agent = True, Faulty()

    def reuse(cell: Cell) -> Run | None:
        return earlier_run(cell) if trusted and cell.arm == "none" and cell.repeat else None

    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent))
        execution = Execution(setup.evaluation, setup.bench, reuse)
        cells = setup.evaluation.plan.cells
        execution.run(cells)
        assert (len(execution.reused), agent.seen) == (1, 3)
        trusted = False
        execution.forget([*execution.reused, *wave(setup, 0)])
        runs = execution.run(cells)
    assert (execution.reused, agent.seen, setup.ledger.spent_usd_micros) == ({}, 4, 40)
    assert {run.outcome for run in runs} == {Outcome.FAILED}


def test_after_a_kill_reuse_happens_again_or_the_cell_is_run_and_the_money_is_right(
    tiny_suite: Path, tmp_path: Path
) -> None:
    """The kill comes after the first wave; the earlier run of one cell is gone by then."""
    reuse: Callable[[Cell], Run | None] = lambda cell: earlier_run(cell) if cell.arm == "none" else None  # noqa: E731
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=Faulty()))
        Execution(setup.evaluation, setup.bench, reuse).run(wave(setup, 0))
    agent = Faulty()
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=agent, resume=True))
        execution = Execution(
            setup.evaluation, setup.bench, lambda cell: reuse(cell) if cell.repeat else None
        )
        runs = execution.run(setup.evaluation.plan.cells)
        assert (attempts(journal), journal.sums()) == (3, (30, 0))
    assert (len(runs), len(execution.reused), agent.seen, setup.ledger.spent_usd_micros) == (4, 1, 2, 30)


def test_all_that_runs_is_written_with_its_content(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, agent=Faulty(), repeats=1)
        contents = {("tiny/add-double", "none"): "digest"}
        setup.evaluation = setup.evaluation._replace(contents=contents)
        runs = execute(setup.evaluation, setup.bench)
        found = list(scored_runs(tmp_path / "j"))
        assert journal._db.execute("SELECT arm, content FROM attempts ORDER BY arm").fetchall() == [
            ("head", ""),
            ("none", "digest"),
        ]
    who = Who("scripted", "scripted")
    assert found == [Scored("digest", "e/none", "", who, run) for run in runs if run.cell.arm == "none"]


def test_workspaces_of_all_waves_are_held_against_each_other(tiny_suite: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        setup = one_worker(Setup(tiny_suite, journal, agent=Faulty()))
        execution = Execution(setup.evaluation, setup.bench)
        assert {run.outcome for run in execution.run(wave(setup, 0))} == {Outcome.FAILED}
        (tiny_suite / "repo" / "new.txt").write_text("brought between the waves")
        runs = execution.run(wave(setup, 1))
    assert {(run.outcome, "new.txt" in run.reason) for run in runs} == {(Outcome.INVALID, True)}


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_runner import Journal, Setup, AgentResult, Usage, execute
class Slow:
    name, version, runs_model_commands = "slow", "1", False
    programs = {}
    skill_folders = ()
    memory_mb = open_usd_micros = 0
    def run(self, job):
        if job.cell.repeat == 1:
            print("in the second repeat", flush=True)
            time.sleep(60)
        return AgentResult(usage=Usage(usd_micros=10))
with Journal(Path(sys.argv[3])) as journal:
    setup = Setup(Path(sys.argv[2]), journal, agent=Slow())
    execute(setup.evaluation, setup.bench)
"""


def test_a_killed_process_loses_nothing_that_was_complete_and_keeps_its_holds(
    tiny_suite: Path, tmp_path: Path
) -> None:
    code = textwrap.dedent(KILLED)
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(tiny_suite), str(tmp_path / "j")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.send_signal(signal.SIGKILL)
    assert lines == ["in the second repeat\n"] * 2
    with Journal(tmp_path / "j") as journal:
        setup = Setup(tiny_suite, journal, agent=Faulty(), resume=True)
        assert len(journal.finished("e")) == 2
        assert (setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (20, 200_000)
        assert len([run for run in setup.run().values() if run.outcome.is_scored]) == 4
        assert (setup.ledger.spent_usd_micros, setup.ledger.held_usd_micros) == (40, 200_000)


def test_a_timeout_is_a_limit_and_still_graded(tiny_suite: Path, tmp_path: Path) -> None:
    text = (tiny_suite / "suite.yml").read_text().replace("timeout-s: 20", "timeout-s: 0.3")
    (tiny_suite / "suite.yml").write_text(text)
    agent = ScriptedAgent(load_script(script(none="timeout", head="crash"), "s"), "s")
    started = time.monotonic()
    with Journal(tmp_path / "j") as journal:
        runs = Setup(tiny_suite, journal, agent=agent, repeats=1).run()
    assert time.monotonic() - started < 15
    assert {name: (run.outcome, run.pass_ratio) for name, run in runs.items()} == {
        "tiny/add-double [none #1]": (Outcome.LIMIT, 0.25),
        "tiny/add-double [head #1]": (Outcome.FAILED, 0.25),
    }
