"""The agent `api` with tools: what it does in the sandbox, and how every end is booked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.agents.api.agent import ApiSettings
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.meter import proxy
from skillgate.bench.meter.proxy import Clocks
from skillgate.bench.sandbox import KILLED, CommandResult, Limit
from skillgate.config import Protocol
from skillgate.core import Inject
from skillgate.values import Usage
from tests.conftest import TEST_IMAGE
from tests.fakes.agent_jobs import ADDER, BODY, QUICK, Played, bash, edit, played, turns
from tests.fakes.metering import HAIKU, KEY

DOUBLE = "def double(n):\n    return 2 * n\n"
DONE = "{}"
ERROR = "{status: %d, error: %s, message: '%s'}"
RATE = ERROR % (429, "rate_limit_error", "slow down")
BROKEN = ERROR % (500, "api_error", "oops")
BUSY = ERROR % (529, "overloaded_error", "later")
LONG = ERROR % (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
ODD = ERROR % (400, "invalid_request_error", "messages: odd")
NO_KEY = ERROR % (401, "authentication_error", "invalid x-api-key")
CUT = "{text: Thinking about it, cut_after: 2}".replace("_", "-")
MID_ERROR = "{error-after: 3, error: overloaded_error}"
REFUSED = "{stop: refusal, text: No.}"
MOST = "{stop: max-tokens, text: I will}"
HANGS = "{hang-after: 2}"
FREE: dict[str, int] = {}
CALL = {"requests": 1, "turns": 1, "input": 10, "output": 5, "usd_micros": 35}
TOOL = {"requests": 1, "turns": 1, "input": 100, "output": 40, "usd_micros": 300, "tool_calls": 1}


def times(number: int, used: dict[str, int]) -> dict[str, int]:
    return {name: number * value for name, value in used.items()}


# how it ends, the requests that the API saw, and what is booked: a usage, or the number of whole holds
TABLE: dict[str, tuple[list[str], Failure | None, int, dict[str, int] | int]] = {
    "normal": ([bash("ls"), DONE], None, 2, {k: TOOL.get(k, 0) + CALL.get(k, 0) for k in TOOL}),
    "rate limit, then well": ([RATE, DONE], None, 2, CALL | {"requests": 2}),
    "rate limit": ([RATE], Failure.API_RATE_LIMIT, 3, {"requests": 3}),
    "500": ([BROKEN], Failure.API_SERVER, 3, {"requests": 3}),
    "overload": ([BUSY], Failure.API_OVERLOADED, 3, {"requests": 3}),
    "overload in the middle": ([MID_ERROR], Failure.API_OVERLOADED, 3, 3),
    "cut": ([CUT], Failure.API_SERVER, 3, 3),
    "cut, then well": ([CUT, DONE], None, 2, 1),
    "no key": ([NO_KEY], Failure.API_AUTH, 1, {"requests": 1}),
    "no request": ([ODD], Failure.UNKNOWN, 1, {"requests": 1}),
    "too long": ([LONG], Failure.AGENT_TURNS, 1, {"requests": 1}),
    "refusal": ([REFUSED], Failure.AGENT_REFUSED, 1, CALL),
    "max tokens": ([MOST], Failure.AGENT_TURNS, 4, times(4, CALL)),
    "max tokens, then well": ([MOST, MOST, DONE], None, 3, times(3, CALL)),
    "turn limit": ([bash("true")], Failure.AGENT_TURNS, 5, times(5, TOOL)),
    "outage after work": ([bash("ls"), BROKEN], Failure.API_SERVER, 4, TOOL | {"requests": 4}),
}


@pytest.mark.parametrize("name", TABLE)
def test_how_it_ends(tiny_suite: Path, name: str) -> None:
    script, failure, requests, used = TABLE[name]
    settings = ApiSettings(max_turns=5, pauses_s=QUICK)
    with played(tiny_suite, turns(*script), settings, skill=ADDER) as run:
        assert (run.result.failure, len(run.api.calls)) == (failure, requests), run.result.detail
        if isinstance(used, int):  # 8000 tokens of output, and a prompt
            assert 40_000 * used < run.result.usage.usd_micros < 55_000 * used
        else:
            assert run.result.usage == Usage(**used)
        keeps_secrets(run)


def keeps_secrets(run: Played) -> None:
    """Neither the key nor a token is anywhere."""
    assert run.api.calls[0].headers["x-api-key"] == KEY  # the meter sent it
    for text in (run.trace, repr(run.result), repr(run.agent), *map(repr, vars(run.agent).values())):
        assert KEY not in text
        assert "sgm-" not in text


def test_a_script_of_exhausted_money(tiny_suite: Path) -> None:
    dear = bash("true").replace('"input": 100, "output": 40', '"worst": true')
    with played(tiny_suite, turns(dear), budget=60_000) as run:
        assert (run.result.failure, len(run.api.calls)) == (Failure.AGENT_BUDGET, 2)
        assert 55_000 < run.result.usage.usd_micros <= 60_000
        assert [call.json["max_tokens"] < 8000 for call in run.api.calls] == [False, True]
        assert "cannot pay" in run.result.detail
        keeps_secrets(run)


def test_calls_that_broke_do_not_make_the_budget_the_agents_fault(tiny_suite: Path) -> None:
    with played(tiny_suite, turns(CUT), budget=45_000) as run:
        assert run.result.failure is Failure.API_SERVER
        assert run.result.usage.usd_micros <= 45_000
    with played(tiny_suite, turns(CUT, bash("true")), budget=60_000) as run:
        assert (run.result.failure, run.result.usage.tool_calls > 0) == (Failure.API_SERVER, True)


def test_a_hanging_call_ends_at_the_clock_of_the_task(tiny_suite: Path) -> None:
    task = tiny_suite / "tasks/add-double/task.yml"
    task.write_text(task.read_text() + "limits: {timeout-s: 1}\n")
    with played(tiny_suite, turns(HANGS)) as run:
        assert (run.result.failure, len(run.api.calls)) == (Failure.AGENT_CLOCK, 1)
        assert run.result.usage.usd_micros > 40_000
        keeps_secrets(run)


def test_an_outage_up_to_the_clock_is_the_apis_fault(tiny_suite: Path) -> None:
    task = tiny_suite / "tasks/add-double/task.yml"
    task.write_text(task.read_text() + "limits: {timeout-s: 0.5}\n")
    with played(tiny_suite, turns(BROKEN), ApiSettings(pauses_s=(60.0, 60.0))) as run:
        assert (run.result.failure, len(run.api.calls)) == (Failure.API_SERVER, 1)


def test_the_door_is_closed_when_it_ends(tiny_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skillgate.bench.agents.api import agent as api

    listeners = []

    def listen() -> Any:
        listeners.append(proxy.listen())
        return listeners[-1]

    monkeypatch.setattr(api, "listen", listen)
    for script in (DONE, NO_KEY):
        with played(tiny_suite, turns(script)):
            assert listeners[-1].fileno() == -1
    assert len(listeners) == 2


def test_a_silent_upstream_is_its_own_fault(tiny_suite: Path) -> None:
    with played(tiny_suite, turns(HANGS), clocks=Clocks(5.0, 0.1)) as run:
        assert (run.result.failure, len(run.api.calls)) == (Failure.API_SERVER, 3)


def test_an_unreachable_upstream(tiny_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fakes.model_api import ModelApi

    monkeypatch.setattr(ModelApi, "url", "http://127.0.0.1:9", raising=False)
    monkeypatch.setattr(ModelApi, "_start", _start_elsewhere)
    with played(tiny_suite, turns(DONE)) as run:
        assert (run.result.failure, run.result.usage) == (Failure.API_UNREACHABLE, Usage(requests=3))


async def _start_elsewhere(api: Any) -> None:
    from aiohttp import web

    api._web = web.Server(api._answer)
    api._server = await api._loop.create_server(api._web, "127.0.0.1", 0)


def test_what_it_writes_is_in_the_workspace(tiny_suite: Path) -> None:
    script = turns(
        edit("create", path="calc/double.py", file_text=DOUBLE.replace("2", "3")),
        edit("str_replace", path="calc/double.py", old_str="3 * n", new_str="2 * n"),
        bash("python3 -c 'from calc.double import double; print(double(4))'"),
        DONE,
    )
    with played(tiny_suite, script) as run:
        assert (run.root / "calc/double.py").read_text() == DOUBLE
        assert run.told(3)[0]["content"] == "8\n"
        assert run.result.usage.tool_calls == 3
        assert run.result.models == (HAIKU,)
        kinds = [line["type"] for line in run.lines]
        assert kinds == ["start", *["answer", "tool"] * 3, "answer", "end"]


def test_the_arms_differ_in_one_line_of_the_system_prompt(tiny_suite: Path) -> None:
    asked = []
    for skill in (None, ADDER):
        with played(tiny_suite, turns(DONE), skill=skill) as run:
            asked.append(run.asked(0))
            assert run.result.skill_used is (None if skill is None else False)
    without, with_skill = (one.pop("system") for one in asked)
    assert asked[0] == asked[1]
    assert with_skill.startswith(without)
    assert with_skill.removeprefix(without) == (
        "\nSkill `adder`: How we add. "
        "Before you work on what it is about, read `.claude/skills/adder/SKILL.md`."
    )


@pytest.mark.parametrize(
    ("call", "used"),
    [
        (bash("cat .claude/skills/adder/SKILL.md"), True),
        (bash("cd .agents/skills/adder && cat *"), True),
        (edit("view", path=".claude/skills/adder/SKILL.md"), True),
        (edit("view", path=".claude/skills/adder/SKILL.md", view_range=[1, 4]), False),
        (bash("ls .claude/skills/adder/SKILL.md"), False),
        (bash("cat .claude/skills/other/SKILL.md"), False),
    ],
)
def test_it_used_the_skill_when_it_has_seen_its_words(tiny_suite: Path, call: str, used: bool) -> None:
    with played(tiny_suite, turns(call, DONE), skill=ADDER) as run:
        assert run.result.skill_used is used


def test_a_skill_in_the_prompt_is_not_listed_again(tiny_suite: Path) -> None:
    with played(tiny_suite, turns(DONE), skill=ADDER, inject=Inject.PROMPT) as run:
        assert "adder" not in run.asked(0)["system"]
        assert run.result.skill_used is True


@pytest.mark.parametrize(
    ("command", "told", "is_error"),
    [
        ("echo a; echo b >&2; exit 3", "a\nb\n\n[exit code 3]", False),
        ("true", "[no output]", False),
        ("[[ a == a ]] && echo yes", "yes\n", False),
        ("echo 'it''s'; cat <<'END'\n$x `y`\nEND", "its\n$x `y`\n", False),
        ("pwd | grep -c workspace; cd calc", "1\n", False),
        ("  ", "`command` is missing, or no text", True),
        ("echo \0", "`command` is missing, or no text", True),
        ("#" * 100_000, "the command is too long; write a file first", True),
    ],
)
def test_commands(tiny_suite: Path, command: str, told: str, is_error: bool) -> None:
    with played(tiny_suite, turns(bash(command), DONE)) as run:
        (result,) = run.told(1)
        assert (result["content"], result["is_error"]) == (told, is_error)


def test_a_long_output_loses_its_middle(tiny_suite: Path) -> None:
    calls = bash("seq 1 20000; seq 1 20000 > long"), edit("view", path="long"), DONE
    with played(tiny_suite, turns(*calls)) as run:
        assert len(run.told(2)[0]["content"]) < 16_100
        told = run.told(1)[0]["content"]
        assert len(told) < 16_100
        assert told.startswith("1\n2\n")
        assert told.endswith("20000\n")
        assert "characters left out" in told


def test_what_a_tool_cannot_do_is_told(tiny_suite: Path) -> None:
    odd = '{text: "", stop: tool, tool: {name: browse, input: {url: x}}}'
    with played(tiny_suite, turns(odd, edit("erase", path="a"), DONE)) as run:
        assert run.told(1)[0]["content"] == "there is no tool `browse`"
        assert run.told(2)[0]["content"] == "`command` is none of view, create, str_replace, insert"
        assert run.result.failure is None


def test_a_call_that_was_cut_is_not_done(tiny_suite: Path) -> None:
    cut = bash("touch done").replace('"stop": "tool"', '"stop": "max-tokens"')
    with played(tiny_suite, turns(cut, DONE)) as run:
        (result,) = run.told(1)
        assert (result["type"], result["is_error"]) == ("tool_result", True)
        assert "cut" in result["content"]
        assert not (run.root / "done").exists()


@pytest.mark.parametrize(
    ("limit", "failure"), [(Limit.DISK, Failure.AGENT_DISK), (Limit.MEMORY, Failure.AGENT_MEMORY)]
)
def test_limits_of_the_sandbox_end_it(tiny_suite: Path, limit: Limit, failure: Failure) -> None:
    def answer(command: str) -> CommandResult | None:
        return (
            CommandResult(exit_code=KILLED, output="", wall_s=0.1, limit=limit) if "dd" in command else None
        )

    with played(tiny_suite, turns(bash("dd"), DONE), answer=answer) as run:
        assert (run.result.failure, run.result.usage) == (failure, Usage(**TOOL))


def test_a_slow_command_is_told(tiny_suite: Path) -> None:
    settings = ApiSettings(command_s=0.3)
    with played(tiny_suite, turns(bash("echo on; exec sleep 30"), DONE), settings) as run:
        assert run.told(1)[0]["content"] == "on\n\n[ended: it took longer than 0.3 s]"
        assert run.result.failure is None


def test_the_token_is_masked_wherever_it_comes_from(
    tiny_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "fixed")
    said = bash("echo sgm-fixed").replace('"text": ""', '"text": "It is sgm-fixed."')
    with played(tiny_suite, turns(said, ERROR % (400, "x", "sgm-fixed"))) as run:
        assert run.told(1)[0]["content"] == "[token of the run]\n"
        assert run.result.detail == "HTTP 400: [token of the run]"
        assert run.trace.count("[token of the run]") == 4  # said, to be run, its output, the end
        assert "sgm-fixed" not in run.trace


def test_half_a_character_is_no_end(tiny_suite: Path) -> None:
    half = bash("cat odd").replace('"text": ""', r'"text": "so \ud83d"')

    def write(root: Path) -> None:
        (root / "odd").write_bytes(b"caf\xe9\n")

    script = turns(half, edit("view", path="odd"), DONE)
    with played(tiny_suite, script, before=write) as run:
        assert run.result.failure is None
        assert run.asked(1)["messages"][1]["content"][0]["text"] == "so ?"
        assert run.told(1)[0]["content"] == "caf\ufffd\n"
        assert run.told(2)[0]["content"] == "     1\tcaf?\n"


def test_the_environment_of_the_operator_is_not_used(
    tiny_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "ANTHROPIC_API_KEY": "sk-operator",
        "ANTHROPIC_AUTH_TOKEN": "sk-operator",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    with played(tiny_suite, turns(DONE)) as run:
        assert run.result.failure is None
        assert "sk-operator" not in repr(run.api.seen)


def test_what_it_cannot_speak_is_refused_before(tiny_suite: Path) -> None:
    from skillgate.errors import ConfigError

    for settings, message in (
        (ApiSettings(kind="gemini", protocol=Protocol.TEXT), "provider of kind `gemini`"),
        (ApiSettings(kind="openai"), "no tools"),
    ):
        with played(tiny_suite, turns(DONE), ApiSettings()) as run:
            agent = type(run.agent)(run.agent._meter, HAIKU, settings)
            with pytest.raises(ConfigError, match=message):
                agent.require((), ())
            run.agent.require((), ())
            assert agent.version.startswith(f"1 ({settings.protocol}")


@pytest.mark.docker
def test_in_a_container_without_a_network(tiny_suite: Path) -> None:
    script = turns(
        edit("create", path="calc/double.py", file_text=DOUBLE),
        edit("view", path="calc/double.py"),
        bash("cat /proc/net/route | wc -l; cat .claude/skills/adder/SKILL.md"),
        DONE,
    )
    with played(tiny_suite, script, skill=ADDER, sandbox=docker_sandbox(TEST_IMAGE)) as run:
        assert run.told(2)[0]["content"] == "     1\tdef double(n):\n     2\t    return 2 * n\n"
        assert run.told(3)[0]["content"].startswith("1\n")
        assert BODY in run.told(3)[0]["content"]
        assert (run.result.failure, run.result.skill_used) == (None, True)
        assert (run.root / "calc/double.py").read_text() == DOUBLE
