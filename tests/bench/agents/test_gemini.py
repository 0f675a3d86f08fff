"""Gemini CLI: its command line and settings, and what its recorded output says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillgate.bench.agents.gemini import Gemini
from skillgate.bench.agents.program import Reading, Setting
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import KILLED

DATA = Path(__file__).parents[2] / "data/agents"
SKILL = "house-style"
GEMINI = Gemini()
SETTING = Setting(
    "gemini-test", "http://127.0.0.1:7", "sgm-1", "/opt/my agent", "/home/a b/p.txt", "/home/a b", 9
)


def read(name: str, exit_code: int, skill: str | None = SKILL) -> Reading:
    return GEMINI.read((DATA / f"gemini-{name}.txt").read_text().splitlines(), exit_code, skill)


@pytest.mark.parametrize(
    ("name", "exit_code", "reading"),
    [
        ("skill", 0, Reading(skill_used=True, turns=3, tool_calls=2)),
        ("read", 0, Reading(skill_used=True, turns=2, tool_calls=1)),
        ("failed-call", 0, Reading(skill_used=False, turns=2, tool_calls=1)),
        ("turns", 53, Reading(Failure.AGENT_TURNS, skill_used=False, turns=3, tool_calls=3)),
        (
            "refusal",
            0,
            Reading(
                Failure.AGENT_REFUSED,
                "The model response was blocked due to safety settings.",
                skill_used=False,
            ),
        ),
        (
            "cut",
            1,
            Reading(Failure.API_SERVER, "[API Error: terminated]", skill_used=False, turns=2, tool_calls=1),
        ),
        (
            "killed",
            KILLED,
            Reading(
                Failure.AGENT_CRASH,
                "ended without a result, exit code 137",
                skill_used=False,
                turns=1,
                tool_calls=1,
            ),
        ),
    ],
)
def test_a_recorded_output_is_read(name: str, exit_code: int, reading: Reading) -> None:
    assert read(name, exit_code) == reading


@pytest.mark.parametrize(
    ("name", "exit_code", "failure"),
    [
        ("rate-limit", 173, Failure.API_RATE_LIMIT),
        ("server", 244, Failure.API_SERVER),
        ("budget", 173, Failure.UNKNOWN),  # the meter refused, and knows why
        ("max-tokens", 0, None),
    ],
)
def test_what_it_says_of_the_api(name: str, exit_code: int, failure: Failure | None) -> None:
    reading = read(name, exit_code)
    assert reading.failure is failure
    assert reading.detail
    assert "\n" not in reading.detail


def test_an_overload_is_known_by_the_exit_code_alone() -> None:
    lines = (DATA / "gemini-rate-limit.txt").read_text().splitlines()
    assert GEMINI.read(lines, 503 % 256, None).failure is Failure.API_OVERLOADED
    assert GEMINI.read(lines, 1, None).failure is Failure.AGENT_CRASH


def test_nobody_can_tell_whether_a_skill_was_used_that_is_not_there_or_of_which_nothing_was_said() -> None:
    assert read("skill", 0, skill=None).skill_used is None
    assert GEMINI.read(["Killed"], KILLED, SKILL).skill_used is None


def test_a_call_of_a_tool_that_failed_used_no_skill_and_may_be_a_denial() -> None:
    use = {"type": "tool_use", "tool_name": "activate_skill", "tool_id": "1", "parameters": {"name": SKILL}}
    denied = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"type": "policy_violation"}}
    lines = [json.dumps(use), json.dumps(denied)]
    reading = GEMINI.read(lines, 0, SKILL)
    assert (reading.skill_used, reading.tool_calls, reading.denials) == (False, 1, 1)
    assert GEMINI.read(lines[:1], 0, SKILL).skill_used is True


def test_calls_of_lines_that_are_lost_are_counted_by_the_result() -> None:
    lines = (DATA / "gemini-skill.txt").read_text().splitlines()
    assert GEMINI.read(lines[-1:], 0, SKILL).tool_calls == 2


def test_it_is_started_with_the_meter_and_the_token_and_nothing_that_has_to_be_quoted_breaks() -> None:
    launch = GEMINI.launch(SETTING)
    assert launch.command.startswith(
        "exec '/opt/my agent/node/bin/node' '/opt/my agent/gemini-cli/bundle/gemini.js'"
    )
    assert launch.command.endswith(" < '/home/a b/p.txt'")
    assert launch.env["GOOGLE_GEMINI_BASE_URL"] == SETTING.meter
    assert launch.env["GEMINI_API_KEY"] == SETTING.token
    ((name, content),) = launch.files.items()
    assert name == ".gemini/settings.json"
    assert SETTING.token not in content + launch.command
    settings = json.loads(content)
    assert settings["model"]["maxSessionTurns"] == 9
    assert not {"google_web_search", "web_fetch", "save_memory", "invoke_agent"} & set(
        settings["tools"]["core"]
    )
