from __future__ import annotations

from pathlib import Path

import pytest

from skillgate.bench.agents.agent import AgentJob
from skillgate.bench.agents.scripted import ScriptedAgent, displacements, load_script
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import CommandResult
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Cell
from skillgate.errors import SuiteError
from skillgate.skill import Files, Skill, parse
from skillgate.tokens import weigh
from skillgate.values import Usage

SCRIPT = """\
price: {input: 2.0, output: 10.0}
arms:
  none: {moves: {nothing: 1}, input: {median: 1000, spread: 0}, output: {median: 100, spread: 0}, turns: 2}
  head: {moves: {oracle: 1}, input: {median: 1000, spread: 0}, output: {median: 100, spread: 0}, turns: 2}
skills:
  templated:
    head: {moves: {template: 1}, input: {median: 1000, spread: 0}, output: {median: 100, spread: 0}, turns: 2}
tasks:
  tiny/add-double:
    control: {moves: {oracle: 1, nothing: 1}, input: {median: 1000}, output: {median: 100}}
"""
TEMPLATE = """\
---
name: templated
description: Templates. Use when a module is asked for.
---

Save it as `lib/module.py`:

```python
print("a module")
```
"""


class NoSession:
    """A session in which a test expects no command."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        raise AssertionError(command)


def skill(text: str, path: str) -> Skill:
    return parse(Files.from_map({"SKILL.md": text.encode()}), path)


def agent(text: str = SCRIPT) -> ScriptedAgent:
    return ScriptedAgent(load_script(text, "s.yml"), "s.yml")


def job(suite: Path, workspace: Workspace, arm: str, one: Skill | None, budget: int = 10_000_000) -> AgentJob:
    (task,) = load_suite(suite).tasks
    cell = Cell(task=task.id, arm=arm, repeat=0)
    return AgentJob(cell, task, task.prompt, workspace, NoSession(), one, 0, budget)


def play(suite: Path, tmp_path: Path, arm: str, one: Skill | None) -> tuple[str, ...]:
    with Workspace.create(load_suite(suite), tmp_path) as workspace:
        before = workspace.snapshot()
        assert agent().run(job(suite, workspace, arm, one)).failure is None
        return workspace.changed_since(before)


def test_moves_come_from_the_arm_then_the_skill_then_the_task(tiny_suite: Path, tmp_path: Path) -> None:
    plain, templated = skill("x", "skills/plain"), skill(TEMPLATE, "skills/templated")
    assert play(tiny_suite, tmp_path, "none", None) == ()
    assert play(tiny_suite, tmp_path, "head", plain) == ("calc/double.py",)
    assert play(tiny_suite, tmp_path, "head", templated) == ("lib/double.py",)


def test_the_weight_of_a_skill_is_paid_in_every_turn(tiny_suite: Path, tmp_path: Path) -> None:
    one = skill(TEMPLATE, "skills/x")
    weight = weigh(one)
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        without = agent().run(job(tiny_suite, workspace, "none", None)).usage
        with_it = agent().run(job(tiny_suite, workspace, "head", one)).usage
    assert without == Usage(requests=2, input=1000, output=100, usd_micros=3000, turns=2, tool_calls=1)
    assert with_it.input == 1000 + 2 * (weight.listing + weight.body)


def test_a_run_beyond_its_budget_is_cut_at_it(tiny_suite: Path, tmp_path: Path) -> None:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        result = agent().run(job(tiny_suite, workspace, "none", None, budget=2999))
    assert (result.failure, result.usage.usd_micros) == (Failure.AGENT_BUDGET, 2999)


def test_draws_depend_on_the_cell_and_the_seed_alone(tiny_suite: Path, tmp_path: Path) -> None:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        cell = job(tiny_suite, workspace, "control", None)
        usages = [agent().run(cell._replace(seed=seed)).usage for seed in (1, 1, 2)]
    assert usages[0] == usages[1] != usages[2]


def test_an_outage_is_a_failure_of_the_api(tiny_suite: Path, tmp_path: Path) -> None:
    with Workspace.create(load_suite(tiny_suite), tmp_path) as workspace:
        result = agent(SCRIPT.replace("nothing: 1", "outage: 1")).run(
            job(tiny_suite, workspace, "none", None)
        )
    assert result.failure is Failure.API_OVERLOADED


@pytest.mark.parametrize(
    ("deliverable", "moved"),
    [
        ("calc/module.py", "lib/module.py"),
        ("calc/other.py", "lib/other.py"),
        ("lib/x.py", None),
        ("x.txt", None),
    ],
)
def test_displacements_follow_the_name_then_the_kind(deliverable: str, moved: str | None) -> None:
    expected = {deliverable: moved} if moved else {}
    assert displacements(skill(TEMPLATE, "skills/templated"), (deliverable,)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("template: 1", "guess: 1"), "s.yml:7: "),
        (
            ("moves: {nothing: 1}", "moves: {}"),
            "s.yml:3: `arms[...].moves`: expected `object` of length >= 1",
        ),
        (("{nothing: 1}", "{nothing: 0}"), "s.yml:3: `arms[...].moves[...]`: expected `float` > 0.0"),
        (("    head: {moves: {template", "    haed: {moves: {template"), "s.yml: no arm `haed`"),
        (("tiny/add-double", "tiny/add-doubel"), "s.yml: no task `tiny/add-doubel` in this plan"),
    ],
)
def test_a_wrong_script_is_named(change: tuple[str, str], message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        agent(SCRIPT.replace(*change)).require(("none",), ("tiny/add-double",))
    assert message in caught.value.message


def test_an_arm_without_a_part_is_named_before_anything_runs() -> None:
    agent().require(("none", "head", "control"), ("tiny/add-double",))
    with pytest.raises(SuiteError, match="no part for the arm `base`"):
        agent().require(("none", "base"), ("tiny/add-double",))


def test_the_folder_of_a_skill_never_leaves_the_skills_folder() -> None:
    assert [skill("", path).folder_name for path in ("skills/x", "x", ".")] == ["x", "x", "skill"]
