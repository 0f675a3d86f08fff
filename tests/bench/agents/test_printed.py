"""What the readers of the four programs have in common, with what was recorded of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillgate.bench.agents.claude_code import ClaudeCode
from skillgate.bench.agents.codex import Codex
from skillgate.bench.agents.gemini import Gemini
from skillgate.bench.agents.opencode import OpenCode
from skillgate.bench.agents.printed import (
    MAX_DETAIL,
    Json,
    failure_of_api,
    part,
    parts,
    read_events,
    reads_skill,
)
from skillgate.bench.agents.program import Program
from skillgate.bench.failure import Failure

RECORDED = Path(__file__).parents[2] / "data/agents"
PROGRAMS: tuple[Program, ...] = (ClaudeCode(), Codex(), Gemini(), OpenCode())
OUTPUTS = [
    pytest.param(program, path, id=path.stem)
    for program in PROGRAMS
    for path in sorted(RECORDED.glob(f"{program.name}-*"))
]
BETWEEN = [
    *("warning: x", "{", '{"a": ', "[1]", '{"type": "result"', "null", "{}", '{"type": 1}'),
    *('{"type": "item.started"}', "[" * 9999, '{"a":' * 20_000),
]


@pytest.mark.parametrize(("program", "path"), OUTPUTS)
def test_output_that_is_cut_anywhere_is_read(program: Program, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    whole = program.read(text.splitlines(), 0, "greet")
    for at in range(0, len(text), 97):
        head, tail = (program.read(piece.splitlines(), 137, "greet") for piece in (text[:at], text[at:]))
        gap = program.read(f"{text[: at // 2]}\n[{at} bytes left out]\n{text[at:]}".splitlines(), 0, "greet")
        assert max(head.tool_calls, gap.tool_calls) <= whole.tool_calls
        assert tail.failure in (whole.failure, Failure.AGENT_CRASH, Failure.AGENT_REFUSED)
        assert len(head.detail) < 2 * MAX_DETAIL
    assert program.read(text[: len(text) // 4].splitlines(), 137, None).failure is Failure.AGENT_CRASH


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_what_stands_between_events_does_no_harm(program: Program) -> None:
    (path,) = RECORDED.glob(f"{program.name}-skill.*")
    events = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    expected = program.read(events, 0, None)
    huge = json.dumps({"type": "x", "message": "x" * 5_000_000})
    assert (
        program.read([huge, *(line for event in events for line in (*BETWEEN, event))], 0, None) == expected
    )
    assert program.read([f"words without an end of line{event}" for event in events], 0, None) == expected
    assert expected.failure is None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_an_end_without_a_result_is_a_crash_with_its_last_words(program: Program) -> None:
    crash = Failure.AGENT_CRASH
    last = program.read(["warning", "sh: not found", ""], 127, None)
    assert program.read([], 0, None)[:2] == (crash, "ended without a result, exit code 0")
    assert last[:2] == (crash, "ended without a result, exit code 127: sh: not found")


REFUSALS = ["claude-code-cut-stream", "claude-code-budget", "gemini-budget"]
REFUSALS += [f"opencode-{case}" for case in ("rate-limit", "server", "cut", "budget", "turns")]


@pytest.mark.parametrize("name", REFUSALS)
def test_why_the_meter_refused_it_knows_better(name: str) -> None:
    (program,) = (one for one in PROGRAMS if name.startswith(one.name))
    (path,) = RECORDED.glob(f"{name}.*")
    reading = program.read(path.read_text(encoding="utf-8").splitlines(), 429 % 256, None)
    assert reading.failure is Failure.UNKNOWN
    assert "skillgate: " in reading.detail


def test_codex_never_tells_what_the_meter_said_but_if_it_did() -> None:
    said = (
        "unexpected status 429 Too Many Requests: skillgate: this run's 3 requests are used up, url: http://x"
    )
    event = json.dumps({"type": "turn.failed", "error": {"message": said}})
    assert Codex().read([event], 1, None).failure is Failure.UNKNOWN


@pytest.mark.parametrize(
    ("status", "said", "failure"),
    [
        (401, "", Failure.API_AUTH),
        (402, "", Failure.API_CREDIT),
        (403, "", Failure.API_AUTH),
        (404, "", Failure.UNKNOWN),
        (408, "", Failure.API_SERVER),
        (413, "", Failure.AGENT_CRASH),
        (429, "", Failure.API_RATE_LIMIT),
        (500, "", Failure.API_SERVER),
        (502, "", Failure.API_SERVER),
        (503, "", Failure.API_OVERLOADED),
        (529, "", Failure.API_OVERLOADED),
        (402, "402 skillgate: this run's 900 s are over", Failure.UNKNOWN),
        (None, "[skillgate: no]", Failure.UNKNOWN),
        (None, "fetch failed", None),
        ("500", "", None),
    ],
)
def test_what_an_answer_of_the_api_means(status: object, said: str, failure: Failure | None) -> None:
    assert failure_of_api(status, said) is failure


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat .agents/skills/greet/SKILL.md", True),
        ("/workspace/.claude/skills/greet/references/a.md", True),
        ("cat .claude/skills/*/SKILL.md", True),
        ("cd .claude/skills/greet && cat SKILL.md", True),
        ("sed -n 1,200p '/w/.codex/skills//greet/a.md'", True),
        ("cat .agents/skills/greeter/SKILL.md | head", False),
        ("cat .agents/skills/meet-greet/SKILL.md", False),
        ("cat '.agents/skills/greet/' ", False),
        ("ls .agents/skills/", False),
        ("cat greet/a.md", False),
        ("", False),
    ],
)
def test_what_is_about_the_text_of_a_skill(command: str, reads: bool) -> None:
    assert reads_skill(command, "greet") is reads


def test_events_are_objects_and_words_are_those_after_the_last() -> None:
    events: list[Json] = []
    lines = ["lost", 'say: {"type": "a"}', "", '{"b": [1, {"c": 2}]} and more', "first\n", "last\n", " \n"]
    assert read_events(lines, events.append) == "last"
    assert events == [{"type": "a"}, {"b": [1, {"c": 2}]}]
    assert read_events(["words", '{"a": 1}'], events.append) == ""
    assert (parts(events[1], "b"), part(events[1], "b", "c"), parts(events[0], "type")) == (
        [{"c": 2}],
        None,
        [],
    )
