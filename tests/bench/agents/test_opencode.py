"""opencode: its command line and configuration, and what its recorded events say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from skillgate.bench.agents.opencode import OpenCode
from skillgate.bench.agents.program import Reading, Setting
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import KILLED

DATA = Path(__file__).parents[2] / "data/agents"
SKILL = "house-style"
OPENCODE = OpenCode()
SETTING = Setting(
    "gpt-test", "http://127.0.0.1:7", "sgm-1", "/opt/my agent", "/home/a b/p.txt", "/home/a b", 9
)


def read(name: str, exit_code: int, skill: str | None = SKILL) -> Reading:
    return OPENCODE.read((DATA / f"opencode-{name}.txt").read_text().splitlines(), exit_code, skill)


@pytest.mark.parametrize(
    ("name", "exit_code", "reading"),
    [
        ("skill", 0, Reading(skill_used=True, turns=3, tool_calls=2)),
        ("read", 0, Reading(skill_used=True, turns=2, tool_calls=1)),
        ("failed-call", 0, Reading(skill_used=False, turns=2, tool_calls=1)),
        ("max-tokens", 0, Reading(skill_used=False, turns=1)),
        (
            "refusal",
            1,
            Reading(
                Failure.AGENT_REFUSED,
                "The response was blocked by the provider's content filter",
                skill_used=False,
                turns=1,
            ),
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


def error(**data: object) -> str:
    return json.dumps({"type": "error", "error": {"name": "APIError", "data": {"message": "no", **data}}})


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        (error(statusCode=429, isRetryable=True), Failure.API_RATE_LIMIT),
        (error(statusCode=500, isRetryable=True), Failure.API_SERVER),
        (error(statusCode=503, isRetryable=True), Failure.API_OVERLOADED),
        (error(statusCode=401, isRetryable=False), Failure.API_AUTH),
        (error(statusCode=400, isRetryable=False), Failure.AGENT_CRASH),
        (error(isRetryable=True), Failure.API_UNREACHABLE),
        ('{"type": "error", "error": {"name": "UnknownError"}}', Failure.AGENT_CRASH),
        ('{"type": "error", "error": "odd"}', Failure.AGENT_CRASH),
    ],
)
def test_what_it_says_of_the_api(line: str, failure: Failure) -> None:
    assert OPENCODE.read([line], 1, None).failure is failure


def test_nobody_can_tell_whether_a_skill_was_used_that_is_not_there_or_of_which_nothing_was_said() -> None:
    assert read("skill", 0, skill=None).skill_used is None
    assert OPENCODE.read(["Killed"], KILLED, SKILL).skill_used is None


@pytest.mark.parametrize(
    ("said", "denials"),
    [
        ("The user rejected permission to use this specific tool call.", 1),
        ("The user has specified a rule which prevents you from using this specific tool call. Here", 1),
        ("File not found", 0),
    ],
)
def test_a_call_that_was_denied_is_counted_and_used_nothing(said: str, denials: int) -> None:
    state = {"status": "error", "input": {"name": SKILL}, "error": said}
    line = json.dumps({"type": "tool_use", "part": {"tool": "skill", "state": state}})
    reading = OPENCODE.read([line], 0, SKILL)
    assert (reading.skill_used, reading.tool_calls, reading.denials) == (False, 1, denials)


def test_it_is_started_with_the_meter_and_the_token_and_nothing_that_has_to_be_quoted_breaks() -> None:
    launch = OPENCODE.launch(SETTING)
    words = shlex.split(launch.command)
    assert "/opt/my agent/ripgrep/bin/rg" in words
    assert words[words.index("exec") + 1] == "/opt/my agent/opencode/bin/opencode"
    assert words[-2:] == ["<", "/home/a b/p.txt"]
    assert SETTING.token not in launch.command + "".join(launch.files.values())
    assert [name for name, value in launch.env.items() if SETTING.token in value] == ["OPENCODE_METER_TOKEN"]
    config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert config["provider"]["metered"]["options"]["baseURL"] == f"{SETTING.meter}/v1"
    assert config["model"] == config["small_model"] == "metered/gpt-test"
