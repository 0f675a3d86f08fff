"""Claude Code: its command line, and what its recorded output says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.agents.claude_code import ClaudeCode
from skillgate.bench.agents.program import Reading, Setting
from skillgate.bench.failure import Failure

RECORDED = Path(__file__).parents[2] / "data/agents"
SETTING = Setting(
    model="claude-haiku-4-5",
    meter="http://127.0.0.1:8180",
    token="sgm-secret",
    program="/opt/the agent",
    prompt="/run/it's",
    home="/home/w",
    max_turns=7,
)


def recorded(case: str) -> list[str]:
    return (RECORDED / f"claude-code-{case}.jsonl").read_text(encoding="utf-8").splitlines()


def read(lines: list[str], exit_code: int = 0, skill: str | None = None) -> Reading:
    return ClaudeCode().read(lines, exit_code, skill)


def test_it_is_started_alone_and_reads_the_prompt_from_a_file() -> None:
    launch = ClaudeCode().launch(SETTING)
    assert launch.command == (
        "exec '/opt/the agent/claude-code/claude' -p --output-format stream-json --verbose"
        " --permission-mode dontAsk --allowed-tools Bash,Read,Edit,Write,Skill"
        " --tools Bash,Read,Edit,Write,Skill --setting-sources project --strict-mcp-config"
        " --no-session-persistence --model claude-haiku-4-5 --max-turns 7 < '/run/it'\"'\"'s'"
    )
    assert launch.env == {
        "ANTHROPIC_API_KEY": "sgm-secret",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:8180",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000",
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "CLAUDE_CONFIG_DIR": "/home/w/.claude-code",
    }
    assert launch.files == {}


MAX = "API Error: Claude's response exceeded the 8000 output token maximum."
SERVER = "This is a server-side issue, usually temporary — try again in a moment."
BUDGET = (
    "API Error: 402 skillgate: the rest of this run's $0.000100 or of its tokens cannot pay for this call"
)
CASES = {
    "normal": Reading(turns=2, tool_calls=1, usd_micros=70),
    "skill": Reading(turns=3, tool_calls=1, usd_micros=70),
    "denied": Reading(turns=2, tool_calls=1, denials=1, usd_micros=70),
    "killed": Reading(Failure.AGENT_CRASH, "ended without a result, exit code 9", turns=2, tool_calls=2),
    "turn-limit": Reading(
        Failure.AGENT_TURNS, "Reached maximum number of turns (2)", turns=3, tool_calls=2, usd_micros=70
    ),
    "refusal": Reading(
        Failure.AGENT_REFUSED, "API Error: Haiku 4.5 can't help with this.", turns=2, usd_micros=70
    ),
    "max-tokens": Reading(Failure.AGENT_CRASH, MAX, turns=4, usd_micros=140),
    "rate-limit": Reading(
        Failure.API_RATE_LIMIT, "API Error: Request rejected (429) · scripted", turns=1, usd_micros=0
    ),
    "server-error": Reading(
        Failure.API_SERVER, f"API Error: 500 scripted. {SERVER}", turns=2, tool_calls=1, usd_micros=35
    ),
    "overload": Reading(Failure.API_OVERLOADED, f"API Error: 529 scripted. {SERVER}", turns=1, usd_micros=0),
    "cut-stream": Reading(
        Failure.UNKNOWN,  # the meter knows why
        f"API Error: 502 skillgate: the model API broke the connection. {SERVER}",
        turns=1,
        usd_micros=45,
    ),
    "budget": Reading(Failure.UNKNOWN, BUDGET, turns=1, usd_micros=0),
}


@pytest.mark.parametrize("case", CASES)
def test_what_it_printed_is_read(case: str) -> None:
    expected = CASES[case]
    found = read(recorded(case), 9)
    assert found.detail.startswith(expected.detail)
    assert found._replace(detail=expected.detail) == expected
    assert len(found.detail) <= 200


@pytest.mark.parametrize(("case", "used"), [("skill", True), ("killed", True), ("normal", False)])
def test_a_skill_is_used_when_it_was_read(case: str, used: bool) -> None:
    assert read(recorded(case), skill="greet").skill_used is used
    assert read(recorded(case), skill="gree").skill_used is False
    assert read(recorded(case)).skill_used is None


def test_a_denial_counts_in_a_run_that_was_cut_too() -> None:
    assert [read(recorded("denied")).denials, read(recorded("denied")[:-1]).denials] == [1, 1]


def call(name: str, **given: Any) -> str:
    block = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    return json.dumps({"type": "assistant", "message": {"id": "m1", "content": [block]}})


def result(is_error: bool) -> str:
    block = {"type": "tool_result", "tool_use_id": "t1", "is_error": is_error, "content": "x"}
    return json.dumps({"type": "user", "message": {"content": [block]}})


@pytest.mark.parametrize(
    ("event", "used"),
    [
        (call("Skill", skill="greet"), True),
        (call("Skill", skill="plugin:greet"), True),
        (call("Skill", skill="greeting"), False),
        (call("Skill", skill=["greet"]), False),
        (call("Read", file_path="/workspace/.claude/skills/greet/SKILL.md"), True),
        (call("Read", file_path="/workspace/.claude/skills/other/SKILL.md"), False),
        (call("Bash", command="cat .claude/skills/*/SKILL.md"), True),
        (call("Bash", command="ls .claude/skills"), False),
        (call("Edit", file_path=".claude/skills/greet/SKILL.md"), False),
    ],
)
def test_a_use_is_a_call_that_did_not_fail(event: str, used: bool) -> None:
    assert read([event], skill="greet").skill_used is used
    assert read([event, result(is_error=False)], skill="greet").skill_used is used
    assert read([event, result(is_error=True)], skill="greet").skill_used is False


@pytest.mark.parametrize(
    ("members", "failure"),
    [
        ({}, None),
        ({"subtype": "success", "is_error": True, "api_error_status": 401}, Failure.API_AUTH),
        ({"is_error": True, "api_error_status": 404}, Failure.UNKNOWN),
        ({"is_error": True, "api_error_status": 413}, Failure.AGENT_CRASH),
        ({"is_error": True, "api_error_status": 503}, Failure.API_OVERLOADED),
        ({"is_error": True, "terminal_reason": "api_error"}, Failure.API_UNREACHABLE),
        ({"is_error": True, "terminal_reason": "prompt_too_long"}, Failure.AGENT_CRASH),
        ({"subtype": "error_during_execution", "is_error": True, "errors": ["no"]}, Failure.AGENT_CRASH),
        ({"terminal_reason": "aborted_tools"}, Failure.AGENT_CRASH),
        ({"stop_reason": "refusal"}, Failure.AGENT_REFUSED),
        ({"errors": 3, "is_error": True}, Failure.AGENT_CRASH),
        ({"total_cost_usd": "much", "num_turns": None, "permission_denials": 4}, None),
    ],
)
def test_success_is_not_what_the_subtype_says(members: dict[str, Any], failure: Failure | None) -> None:
    assert read([json.dumps({"type": "result", "subtype": "success", **members})]).failure is failure
