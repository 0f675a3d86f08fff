"""The real agents, in containers, behind the meter, with a model API that plays a script: one gate each.

The scripted model does the task only where the skill is listed. It shows that program, meter, sandbox and
graders fit together; it measures no skill.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from skillgate.core import GateReport, Metric, Outcome, Run
from skillgate.gate.pipeline import Options, gate_skill
from skillgate.values import Secret
from tests.fakes.metering import KEY
from tests.fakes.model_api import ModelApi
from tests.gate.test_pipeline import Notes

pytestmark = pytest.mark.docker

LISTED = "Doubles numbers for the calculator"
WRITE = "printf 'def double(number):\\n    return 2 * number\\n' > calc/double.py"
LOOK = "env; cat /proc/[0-9]*/environ; cat /proc/net/route; cat /proc/net/tcp; id -u; ls -a ~"
PRICES = {name: [{"input": 1, "output": 5, "cache-read": 0.1}] for name in ("gpt-test", "gemini-test")}
SKILL = (
    f"---\nname: calc\ndescription: {LISTED}. Use when a task asks for a new function.\n---\n\nWrite it.\n"
)


class Kind(NamedTuple):
    """How a program is scripted: its model, its provider, the tool that runs a command and its argument."""

    model: str
    provider: str
    tool: str
    argument: str
    more: dict[str, Any] = {}


KINDS = {
    "claude-code": Kind("claude-haiku-4-5", "anthropic", "Bash", "command"),
    "codex": Kind("gpt-test", "openai", "exec_command", "cmd"),
    "gemini": Kind("gemini-test", "gemini", "run_shell_command", "command"),
    "api": Kind("claude-haiku-4-5", "anthropic", "bash", "command"),
    "opencode": Kind("gpt-test", "openai", "bash", "command", {"description": "write"}),
}


def script(kind: Kind) -> str:
    tool = {"name": kind.tool, "input": {kind.argument: f"{WRITE}; {LOOK}", **kind.more}}
    works = [
        {"text": "I write.", "tool": tool, "stop": "tool", "used": {"input": 1000, "output": 100}},
        {"text": "Done.", "used": {"input": 1200, "output": 20, "cache-read": 500}},
    ]
    idle = [{"text": "I do nothing.", "used": {"input": 900, "output": 10}}]
    return yaml.safe_dump({"cases": [{"when": LISTED, "turns": works}], "turns": idle})


def gate(root: Path, suite: Path, agent: str, api: ModelApi, cache: Path, image: str) -> GateReport:
    kind = KINDS[agent]
    settings = suite / "suite.yml"
    settings.write_text(settings.read_text().replace("timeout-s: 20,", "timeout-s: 200,"))  # a busy machine
    (root / "skills/calc").mkdir(parents=True)
    (root / "skills/calc/SKILL.md").write_text(SKILL)
    run = {
        "agent": agent,
        "models": [kind.model],
        "image": image,
        "repeats": 2,
        "budget-usd": 2.0,
        "per-run-usd": 0.3,
        "provider": {"base-url": api.url},
    }
    config = {"version": 1, "suites": {"skills/**": [str(suite)]}, "run": run, "prices": PRICES}
    (root / "skillgate.yml").write_text(yaml.safe_dump(config))
    options = Options(out=root / "out", cache=cache, keys={kind.provider: Secret(KEY)})
    return gate_skill(root / "skills/calc", "none", root, options, Notes())


MARKS = {"api": (), "opencode": (pytest.mark.agents, pytest.mark.long)}


@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=MARKS.get(name, pytest.mark.agents)) for name in KINDS]
)
def test_a_gate_with_a_real_agent(
    agent: str, tiny_suite: Path, tmp_path: Path, request: pytest.FixtureRequest, docker_image: str
) -> None:
    cache = tmp_path if agent == "api" else request.getfixturevalue("agent_cache")
    with ModelApi(script(KINDS[agent])) as api:
        report = gate(tmp_path / "root", tiny_suite, agent, api, cache, docker_image)
    (one,) = report.reports
    arms = {arm: [run for run in one.runs if run.cell.arm == arm] for arm in ("none", "head")}
    assert [[run.outcome for run in runs] for runs in arms.values()] == [
        [Outcome.FAILED] * 2,
        [Outcome.PASSED] * 2,
    ], [run.reason for run in one.runs]
    ratio = one.comparison(Metric.PASS_RATIO)
    assert ratio is not None
    assert ratio.head == 1.0
    for run in arms["head"]:
        assert (run.usage.output, run.usage.cache_read, run.usage.turns) == (120, 500, 2)
        assert run.usage.tool_calls == 1
        assert run.changed_files == ("calc/double.py",)
        assert_books_agree(run)
    spent = sum(run.usage.usd_micros for run in one.runs)
    assert (one.spend.spent_usd_micros, one.spend.held_usd_micros) == (spent, 0)
    assert one.versions["answered by"] == KINDS[agent].model
    assert_nothing_is_told(tmp_path / "root/out", arms["head"])


def assert_books_agree(run: Run) -> None:
    if run.reported_usd_micros is not None:
        assert abs(run.reported_usd_micros - run.usage.usd_micros) <= 0.01 * run.usage.usd_micros + 10


def assert_nothing_is_told(out: Path, runs: list[Run]) -> None:
    """The traces show what commands saw: neither the key nor a way out; no file has the key or a token."""
    for run in runs:
        assert run.trace_path is not None
        text = "".join(path.read_text() for path in (out / run.trace_path).iterdir())
        assert "Iface" in text  # the routing table was printed
    for path in out.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert KEY.encode() not in content, path
            assert b"sgm-" not in content, path


@pytest.mark.agents
def test_the_arms_ask_the_same_but_for_the_skill(
    tiny_suite: Path, tmp_path: Path, agent_cache: Path, docker_image: str
) -> None:
    with ModelApi(script(KINDS["claude-code"])) as api:
        gate(tmp_path / "root", tiny_suite, "claude-code", api, agent_cache, docker_image)
    firsts = [seen.body.decode() for seen in api.calls if len(seen.json["messages"]) == 1]
    lines = [set(yaml.safe_dump(yaml.safe_load(body), width=10**9).splitlines()) for body in firsts]
    with_skill = [LISTED in body for body in firsts]
    assert with_skill.count(True) == with_skill.count(False) == 2
    differ = set.union(*lines) - set.intersection(*lines)
    assert all(LISTED in line or "user_id" in line or "text:" in line for line in differ), differ
