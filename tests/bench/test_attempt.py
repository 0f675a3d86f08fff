"""Chains, several attempts, injection and fairness: what one cell does."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.attempt import Ended, Evaluation, Fairness, attempt
from skillgate.bench.check import TaskCheck, check_suite
from skillgate.bench.failure import Failure
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.sandbox import KILLED, Limit, local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.core import Cell, Inject, Outcome, Step
from skillgate.skill import Files, parse
from skillgate.values import Usage

SANDBOX = local_sandbox(Path(sys.executable).parent)
SKILL = parse(
    Files.from_map({"SKILL.md": b"---\nname: adder\ndescription: d\n---\nAdd with care.\n"}), "skills/adder"
)
TRIPLE = """\
title: Add triple
prompt: Write `triple` in calc/triple.py, with `double`.
deliverables: [calc/triple.py]
graders:
  - {name: triples, kind: fail-to-pass, run: "grep -q 'double(n) + n' calc/triple.py"}
  - {name: doubles, kind: pass-to-pass, run: test -f calc/double.py}
"""
TRIPLE_PATCH = """\
--- /dev/null
+++ b/calc/triple.py
@@ -0,0 +1,3 @@
+from calc.double import double
+def triple(n):
+    return double(n) + n
"""
Action = Callable[[AgentJob], AgentResult | None]


@pytest.fixture
def chain(tiny_suite: Path) -> Path:
    """Return a chain: `a-double`, then `b-triple`, which needs what the first one left."""
    (tiny_suite / "tasks/add-double").rename(tiny_suite / "tasks/a-double")
    second = tiny_suite / "tasks/b-triple"
    second.mkdir()
    (second / "task.yml").write_text(TRIPLE)
    (second / "solution.patch").write_text(TRIPLE_PATCH)
    with (tiny_suite / "suite.yml").open("a") as file:
        file.write("chain: true\nattempts: 2\n")
    return tiny_suite


class Player:
    """An agent that does what the test says, call by call, and keeps its jobs."""

    name, version, runs_model_commands = "player", "1", False

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def __init__(self, *actions: Action) -> None:
        self.actions, self.jobs = list(actions), list[AgentJob]()

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None: ...

    def run(self, job: AgentJob) -> AgentResult:
        self.jobs.append(job)
        return self.actions.pop(0)(job) or AgentResult(usage=Usage(usd_micros=10, turns=1))


def oracle(job: AgentJob) -> None:
    job.workspace.apply_patch(job.task.solution)


def nothing(job: AgentJob) -> None:
    pass


def fails(failure: Failure) -> Action:
    return lambda job: AgentResult(usage=Usage(usd_micros=10), failure=failure)


def play(
    folder: Path,
    player: Player,
    arm: str = "none",
    inject: Inject = Inject.SKILL,
    fairness: Fairness | None = None,
) -> Ended:
    suite = load_suite(folder)
    units = {name: (suite, tasks) for name, tasks in suite.units.items()}
    plan = make_plan(
        Wanted(
            list(units), ["none", "head"], repeats=1, seed=1, agent="player", model="m",
            cap_usd_micros=1_000_000, per_run_usd_micros=1_000, inject=inject,
        )
    )  # fmt: skip
    evaluation = Evaluation("e", "s", plan, units, {"none": None, "head": SKILL}, player, SANDBOX)
    (unit,) = units
    return attempt(Cell(task=unit, arm=arm, repeat=0), evaluation, fairness or Fairness())


GRADES = (
    "a-double/doubles/doubles.zero", "a-double/doubles/doubles.two", "a-double/exists", "a-double/old-suite",
    "b-triple/triples", "b-triple/doubles",
)  # fmt: skip


def test_a_chain_is_one_cell_whose_tasks_share_the_workspace(chain: Path) -> None:
    player = Player(oracle, oracle)
    run, failure, cost_known = play(chain, player)
    assert (run.outcome, failure, cost_known) == (Outcome.PASSED, None, True)
    assert run.cell.task == "tiny/chain"
    assert tuple(grade.grader for grade in run.grades) == GRADES
    assert run.steps == (Step(task="tiny/a-double", passed_at=1), Step(task="tiny/b-triple", passed_at=1))
    assert run.changed_files == ("calc/double.py", "calc/triple.py")
    assert run.usage == Usage(usd_micros=20, turns=2)
    assert [job.budget_usd_micros for job in player.jobs] == [1_000, 990]


def test_the_second_attempt_is_told_what_failed(chain: Path) -> None:
    player = Player(nothing, oracle, nothing, oracle)
    run, *_ = play(chain, player)
    assert run.steps == (Step(task="tiny/a-double", passed_at=2), Step(task="tiny/b-triple", passed_at=2))
    first, again, third, fourth = (job.prompt for job in player.jobs)
    assert first == load_suite(chain).tasks[0].prompt
    assert again.startswith(
        f"{first}\n## Your last attempt\n\nIt is not done yet. The checks said:\n\n- doubles/"
    )
    assert "- exists: exit code 1" in again
    assert "old-suite" not in again
    assert (
        third,
        fourth.endswith("- triples: exit code 2\ngrep: calc/triple.py: No such file or directory\n"),
    ) == (
        load_suite(chain).tasks[1].prompt,
        True,
    )
    assert [job.attempt for job in player.jobs] == [1, 2, 1, 2]


def test_a_chain_ends_at_the_first_task_that_does_not_pass(chain: Path) -> None:
    run, failure, _ = play(chain, Player(nothing, nothing))
    assert (run.outcome, failure) == (Outcome.FAILED, None)
    assert run.steps == (Step(task="tiny/a-double"),)
    assert {grade.grader: grade.passed for grade in run.grades} == dict.fromkeys(GRADES, False) | {
        "a-double/old-suite": True
    }
    assert run.grades[-1].detail == "not reached: a task before it did not pass"


def test_a_limit_ends_a_chain_and_scores_what_was_done(chain: Path) -> None:
    run, failure, _ = play(chain, Player(oracle, fails(Failure.AGENT_BUDGET)))
    assert (run.outcome, failure, run.pass_ratio) == (Outcome.LIMIT, Failure.AGENT_BUDGET, 5 / 6)
    assert run.steps == (Step(task="tiny/a-double", passed_at=1), Step(task="tiny/b-triple"))


def test_an_outage_in_the_middle_of_a_chain_scores_nothing_and_keeps_its_cost(chain: Path) -> None:
    run, failure, cost_known = play(chain, Player(oracle, fails(Failure.API_SERVER)))
    assert (run.outcome, failure, cost_known) == (Outcome.INVALID, Failure.API_SERVER, True)
    assert (run.usage.usd_micros, run.grades, run.reason) == (20, (), "the model API failed")


def test_suite_check_of_a_chain_builds_on_the_tasks_before(chain: Path) -> None:
    assert check_suite(load_suite(chain), SANDBOX) == (
        TaskCheck(task="tiny/a-double"),
        TaskCheck(task="tiny/b-triple"),
    )


def test_a_skill_in_the_prompt_is_in_no_folder(tiny_suite: Path) -> None:
    seen: list[list[str]] = []

    def look(job: AgentJob) -> None:
        seen.append(sorted(job.workspace.snapshot()))

    for arm, inject in (("none", Inject.PROMPT), ("head", Inject.PROMPT), ("head", Inject.SKILL)):
        player = Player(look)
        play(tiny_suite, player, arm, inject)
        words = 'Use this skill where it helps.\n\n<skill name="adder">\nAdd with care.\n\n</skill>\n\n'
        told = player.jobs[0].prompt.removesuffix(load_suite(tiny_suite).tasks[0].prompt)
        assert told == (words if (arm, inject) == ("head", Inject.PROMPT) else "")
        installed = [name for name in seen.pop() if name.endswith("SKILL.md")]
        assert bool(installed) == (inject is Inject.SKILL)


def test_arms_that_differ_in_more_than_the_skill_score_nothing(tiny_suite: Path) -> None:
    fairness = Fairness()
    assert play(tiny_suite, Player(oracle), fairness=fairness).run.outcome is Outcome.PASSED
    assert play(tiny_suite, Player(oracle), "head", fairness=fairness).run.outcome is Outcome.PASSED
    (tiny_suite / "repo/calc/__init__.py").write_text("changed while it ran")
    (tiny_suite / "repo/new\n.txt").write_text("")
    player = Player()
    run, failure, cost_known = play(tiny_suite, player, "head", fairness=fairness)
    assert (run.outcome, failure, cost_known, player.jobs) == (Outcome.INVALID, Failure.UNFAIR, True, [])
    assert run.reason == "the workspace differed in more than the skill: calc/__init__.py, new\n.txt"


def test_a_skill_that_hides_a_file_of_the_repository_is_unfair(tiny_suite: Path) -> None:
    shutil.rmtree(tiny_suite / "repo/.claude")
    (tiny_suite / "repo/.claude").write_text("a file where the skill needs a folder")
    fairness = Fairness()
    assert play(tiny_suite, Player(nothing), fairness=fairness).failure is None
    assert play(tiny_suite, Player(nothing), "head", fairness=fairness).failure is Failure.UNFAIR


def test_what_is_not_graded_is_said(tiny_suite: Path) -> None:
    def plant(job: AgentJob) -> None:
        (job.workspace.workspace / "conftest.py").write_text("")

    run, *_ = play(tiny_suite, Player(plant))
    assert (run.reason, run.changed_files) == (
        "not graded: `conftest.py` decides how tests run",
        ("conftest.py",),
    )


def test_all_commands_of_an_agent_share_its_clock(tiny_suite: Path) -> None:
    path = tiny_suite / "suite.yml"
    path.write_text(path.read_text().replace("timeout-s: 20", "timeout-s: 0.4"))
    results = []

    def talk(job: AgentJob) -> None:
        results.extend(job.session.run("sleep 0.3", 60) for _ in range(3))

    play(tiny_suite, Player(talk))
    assert [(one.exit_code, one.limit) for one in results] == [
        (0, None),
        (KILLED, Limit.CLOCK),
        (KILLED, Limit.CLOCK),
    ]
    assert results[2].wall_s == 0


def test_a_chain_needs_an_oracle_that_builds_on_the_one_before(chain: Path) -> None:
    shutil.copy(chain / "tasks/a-double/solution.patch", chain / "tasks/b-triple/solution.patch")
    _, second = check_suite(load_suite(chain), SANDBOX)
    assert "solution.patch:1: does not apply: error: calc/double.py: already exists" in second.problems[0]
