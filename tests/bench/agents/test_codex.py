"""Codex: its command line and configuration, and what its recorded output says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from skillgate.bench.agents.codex import Codex
from skillgate.bench.agents.program import Reading, Setting
from skillgate.bench.failure import Failure

RECORDED = Path(__file__).parents[2] / "data/agents"
SETTING = Setting(
    model="gpt-test",
    meter="http://127.0.0.1:8180",
    token="sgm-secret",
    program="/opt/the agent",
    prompt="/run/it's",
    home="/home/w",
    max_turns=7,
)


def recorded(case: str) -> list[str]:
    return (RECORDED / f"codex-{case}.jsonl").read_text(encoding="utf-8").splitlines()


def read(lines: list[str], exit_code: int = 0, skill: str | None = None) -> Reading:
    return Codex().read(lines, exit_code, skill)


def test_it_is_started_alone_and_reads_the_prompt_from_a_file() -> None:
    launch = Codex().launch(SETTING)
    assert launch.command == (
        "exec '/opt/the agent'/codex/vendor/*/bin/codex exec --json --ephemeral --skip-git-repo-check"
        " --strict-config -s danger-full-access -m gpt-test - < '/run/it'\"'\"'s'"
    )
    assert launch.env == {"CODEX_HOME": "/home/w/.codex", "SKILLGATE_TOKEN": "sgm-secret"}
    (name,) = launch.files
    assert name == ".codex/config.toml"
    config = tomllib.loads(launch.files[name])
    assert config["model_providers"]["meter"] == {
        "name": "meter",
        "base_url": "http://127.0.0.1:8180/v1",
        "env_key": "SKILLGATE_TOKEN",
        "wire_api": "responses",
        "request_max_retries": 3,
        "stream_max_retries": 3,
    }
    assert (config["web_search"], config["analytics"]["enabled"]) == ("disabled", False)
    assert set(config["features"].values()) == {False}
    assert "sgm-secret" not in launch.files[name] + launch.command


HIGH = "We’re currently experiencing high demand, which may cause temporary errors."
CASES = {
    "normal": Reading(tool_calls=1),
    "skill": Reading(tool_calls=1),
    "killed": Reading(Failure.AGENT_CRASH, "ended without a result, exit code 9", tool_calls=2),
    "refusal": Reading(Failure.AGENT_REFUSED, "it said and did nothing"),
    "max-tokens": Reading(Failure.AGENT_CRASH, "Incomplete response returned, reason: max_output_tokens"),
    "rate-limit": Reading(Failure.API_RATE_LIMIT, "exceeded retry limit, last status: 429 Too Many Requests"),
    "server-error": Reading(Failure.API_SERVER, HIGH, tool_calls=1),
    "overload": Reading(
        Failure.API_OVERLOADED, "Selected model is at capacity. Please try a different model."
    ),
    "cut-stream": Reading(
        Failure.API_SERVER,
        "stream disconnected before completion: Transport error: network error: error decoding response body",
    ),
    "budget": Reading(Failure.API_CREDIT, "Quota exceeded. Check your plan and billing details."),
}


@pytest.mark.parametrize("case", CASES)
def test_what_it_printed_is_read(case: str) -> None:
    assert read(recorded(case), 9) == CASES[case]


@pytest.mark.parametrize(("case", "used"), [("skill", True), ("killed", True), ("normal", False)])
def test_a_skill_is_used_when_it_was_read(case: str, used: bool) -> None:
    assert read(recorded(case), skill="greet").skill_used is used
    assert read(recorded(case), skill="gree").skill_used is False
    assert read(recorded(case)).skill_used is None


def item(kind: str, status: str = "completed", event: str = "item.completed", **members: object) -> str:
    return json.dumps({"type": event, "item": {"id": "i", "type": kind, "status": status, **members}})


@pytest.mark.parametrize(
    ("command", "code", "used"),
    [
        ("cat .agents/skills/greet/SKILL.md", 0, True),
        ("cat .agents/skills/greet/SKILL.md", 1, False),
        ("ls .agents/skills/", 0, False),
    ],
)
def test_a_use_is_a_command_that_did_not_fail(command: str, code: int, used: bool) -> None:
    line = item("command_execution", command=f"/bin/bash -c '{command}'", exit_code=code)
    assert read([line], skill="greet").skill_used is used


def test_a_tool_is_counted_once_and_a_denial_with_it() -> None:
    lines = [
        item("command_execution", "in_progress", "item.started", command="x"),
        item("command_execution", "declined", command="x", exit_code=None),
        item("agent_message", text="No."),
        json.dumps({"type": "turn.completed", "usage": {}}),
    ]
    assert read(lines) == Reading(tool_calls=1, denials=1)


@pytest.mark.parametrize(
    ("sentence", "failure"),
    [
        ("unexpected status 401 Unauthorized: no", Failure.API_AUTH),
        (
            "unexpected status 529 <unknown status code>: x, url: http://127.0.0.1:1/v1",
            Failure.API_OVERLOADED,
        ),
        ("unexpected status 502 Bad Gateway: x", Failure.API_SERVER),
        ("unexpected status 404 Not Found: x", Failure.UNKNOWN),
        ("Codex ran out of room in the model's context window.", Failure.AGENT_CRASH),
        ("Incomplete response returned, reason: content_filter", Failure.AGENT_REFUSED),
        (
            "stream disconnected before completion: error sending request for url (http://x)",
            Failure.API_UNREACHABLE,
        ),
        ("something new", Failure.AGENT_CRASH),
    ],
)
def test_a_sentence_is_all_that_it_says_of_a_failure(sentence: str, failure: Failure) -> None:
    assert read([json.dumps({"type": "turn.failed", "error": {"message": sentence}})]).failure is failure
