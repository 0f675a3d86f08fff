"""Every agent as it is: outcome, money, requests and seconds of whatever happens; whom it asks; the arms.

`tests/golden/agents.md` is the table of what happens to them; SKILLGATE_UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.bench.agents.api.agent import ApiAgent, ApiSettings
from skillgate.bench.agents.claude_code import ClaudeCode
from skillgate.bench.agents.codex import Codex
from skillgate.bench.agents.gemini import Gemini
from skillgate.bench.agents.opencode import OpenCode
from skillgate.bench.failure import Failure, ruling
from skillgate.values import usd
from tests.fakes.driving import BODY, SAID, Driven, Hire, drive, program

GOLDEN = Path(__file__).parents[2] / "golden/agents.md"
HEAD = """\
| agent | what happens | what it is | outcome | booked | requests |
|---|---|---|---|---|---|
"""
READ = "cat .agents/skills/greet/SKILL.md"


class Kind(NamedTuple):
    """An agent: its provider, the tool that runs a command, the one that uses a skill.

    `budget` is that of a run whose first call uses `used` and whose second cannot be paid for.
    """

    hire: Callable[[Path], Hire]
    provider: str
    tool: Callable[[str], dict[str, Any]]
    skill: dict[str, Any]
    budget: int = 90_000
    used: Mapping[str, int] = {"input": 40_000, "output": 8_000}

    def runs(self, command: str) -> dict[str, Any]:
        """Return a turn in which the model runs a command."""
        return {"text": "I write.", "stop": "tool", "tool": self.tool(command)}


def bash(name: str, argument: str = "command", **more: str) -> Callable[[str], dict[str, Any]]:
    return lambda command: {"name": name, "input": {argument: command, **more}}


def hire_api(_: Path) -> Hire:
    return lambda meter, run: ApiAgent(
        meter, run.model, ApiSettings(max_turns=run.max_turns, pauses_s=(0.0, 0.0, 0.0))
    )


KINDS = {
    "claude-code": Kind(
        lambda cache: program(ClaudeCode(), cache),
        "anthropic",
        bash("Bash", description="Write."),
        {"name": "Skill", "input": {"skill": "greet"}},
    ),
    "codex": Kind(
        lambda cache: program(Codex(), cache),
        "openai",
        bash("exec_command", "cmd"),
        bash("exec_command", "cmd")(READ),
    ),
    "gemini": Kind(
        lambda cache: program(Gemini(), cache),
        "gemini",
        bash("run_shell_command"),
        {"name": "activate_skill", "input": {"name": "greet"}},
    ),
    "opencode": Kind(
        lambda cache: program(OpenCode(), cache),
        "openai",
        bash("bash", description="Write."),
        {"name": "skill", "input": {"name": "greet"}},
    ),
    "api": Kind(
        hire_api,
        "anthropic",
        bash("bash"),
        bash("bash")(READ.replace(".agents", ".claude")),
        30_000,
        {"input": 1_000, "output": 5_500},
    ),
}
PROGRAMS = [name for name in KINDS if name != "api"]
DONE: dict[str, Any] = {"text": "Done."}
WRITES = "echo hi > made.txt"
COST = 35  # micro-dollars of an answer of the script


class Case(NamedTuple):
    """What the API does after a first turn that writes, and what the run comes to; `unlike`: of some."""

    then: Mapping[str, Any]
    failure: Failure | None
    unlike: Mapping[str, Failure | None] = {}
    held: bool = False
    kill: bool = False


OVERLOAD: dict[str, dict[str, Any]] = {
    "anthropic": {"status": 529, "error": "overloaded_error"},
    "openai": {"status": 503, "error": "server_is_overloaded"},
    "gemini": {"status": 503},
}
CASES = {
    "normal": Case(DONE, None),
    "rate limit": Case({"status": 429, "error": "rate_limit_error"}, Failure.API_RATE_LIMIT),
    "500": Case({"status": 500}, Failure.API_SERVER),
    "overload": Case({}, Failure.API_OVERLOADED),
    "cut stream": Case({"cut-after": 1}, Failure.API_SERVER, held=True),
    "refusal": Case({"stop": "refusal", "text": ""}, Failure.AGENT_REFUSED, {"codex": None}),
    "max tokens": Case(
        {"stop": "max-tokens", "text": "So"},
        Failure.AGENT_CRASH,
        {"gemini": None, "opencode": None, "api": Failure.AGENT_TURNS},
    ),
    "turn limit": Case({}, Failure.AGENT_TURNS),
    "budget exhausted": Case(DONE, Failure.AGENT_BUDGET),
    "killed": Case({"hang-after": 1}, Failure.AGENT_CRASH, held=True, kill=True),
}


def marked(name: str, case: str = "normal") -> Any:
    """Mark what needs a program, and all cases but one as long."""
    marks = [pytest.mark.agents] if name in PROGRAMS else []
    marks += [pytest.mark.long] if case != "normal" else []
    return marks


CELLS = [
    (name, case)
    for name in KINDS
    for case in CASES
    if (name, case) != ("api", "killed")  # it runs here
]
cells = pytest.mark.parametrize(
    ("name", "case"), [pytest.param(*cell, marks=marked(*cell)) for cell in CELLS]
)
agents = pytest.mark.parametrize("name", [pytest.param(name, marks=marked(name)) for name in KINDS])


@pytest.fixture
def cache(request: pytest.FixtureRequest) -> Path:
    """Return the cache with the programs, anything for what needs none."""
    named = os.environ.get("SKILLGATE_TEST_AGENTS")
    return Path(named) if named else Path("none")


def run(name: str, cache: Path, suite: Path, turns: Iterable[Mapping[str, Any]], **named: Any) -> Driven:
    return drive(KINDS[name].hire(cache), KINDS[name].provider, suite, list(turns), **named)


@cells
def test_whatever_happens_is_told_and_paid_for(name: str, case: str, cache: Path, tiny_suite: Path) -> None:
    kind, expected = KINDS[name], CASES[case]
    first, then = kind.runs(WRITES), expected.then
    named: dict[str, Any] = {"kill": expected.kill}
    if case == "budget exhausted":
        first["used"], named["usd_micros"] = kind.used, kind.budget
    elif case == "turn limit":
        then, named["max_turns"] = first, 3
    elif case == "overload":
        then = OVERLOAD[kind.provider]
    done = run(name, cache, tiny_suite, [first, then], **named)
    print(row(name, case, done), f"{done.wall_s:.1f} s")
    assert done.result.failure is expected.unlike.get(name, expected.failure), done.trace
    assert done.made
    assert (done.held > 0) is expected.held
    assert done.settled + done.held == done.result.usage.usd_micros <= named.get("usd_micros", 5_000_000)
    expect(row(name, case, done))


def row(name: str, case: str, done: Driven) -> str:
    """Return a row of the table; what a hold is depends on the length of a request."""
    failure = done.result.failure
    decided = ruling(failure).outcome if failure else None
    booked = f"${usd(done.settled):.6f}"
    if done.held:
        cut = len(done.calls) - done.result.usage.turns
        booked += f" + {cut} hold{'s'[: cut - 1]}"
    what, outcome = failure or "finished", decided or "graded"
    return f"| {' | '.join((name, case, what, outcome, booked, str(len(done.calls))))} |"


def cell_of(line: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in line.split("|")[1:3])


def expect(line: str) -> None:
    """Compare a row with that of the table, or write it."""
    if os.environ.get("SKILLGATE_UPDATE_GOLDEN") == "1":
        with GOLDEN.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # other processes write other rows
            file.seek(0)
            rows = {cell_of(old): old for old in file.read().splitlines()[2:]} | {cell_of(line): line}
            file.truncate(0)
            file.write(HEAD + "".join(f"{rows[cell]}\n" for cell in CELLS if cell in rows))
    assert line in GOLDEN.read_text(encoding="utf-8").splitlines()


def test_the_table_has_every_agent_and_case_once() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    assert [cell_of(line) for line in text.splitlines()[2:]] == CELLS


@agents
def test_a_skill_is_listed_once_and_used_when_it_is_read(name: str, cache: Path, tiny_suite: Path) -> None:
    reads = {"text": "I look.", "stop": "tool", "tool": KINDS[name].skill}
    done = run(name, cache, tiny_suite, [reads, DONE], skill=True)
    assert (done.result.failure, done.result.skill_used, len(done.calls)) == (None, True, 2)
    assert done.asked(0).count(SAID) == 1
    assert BODY not in done.asked(0)
    assert BODY in done.asked(1)


IDS = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|Chunk ID: [0-9a-f]+|Wall time: [\d.]+"
)


def shown(done: Driven) -> list[str]:
    """Return what a model may see of its first request, in pieces: no ids, nothing for the provider alone."""
    body = json.loads(done.asked(0))
    seen = {name: value for name, value in body.items() if name not in ("client_metadata", "metadata")}
    return re.split(r'\\n|[{}"]|(?<=\.) ', IDS.sub("ID", json.dumps(seen, sort_keys=True)))


@pytest.mark.long
@agents
def test_the_arms_differ_in_what_is_said_of_skills_alone(name: str, cache: Path, tiny_suite: Path) -> None:
    none, again, skill = (
        shown(run(name, cache, tiny_suite, [DONE], skill=one)) for one in (False, False, True)
    )
    assert none == again
    matcher = difflib.SequenceMatcher(None, none, skill, autojunk=False)
    parts = [(none[a:b], skill[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]
    assert SAID in str(parts)
    assert [one for one in parts if not re.search("skill|greet", str(one), re.I)] == []


@pytest.mark.long
@agents
def test_faults_that_pass_are_got_over(name: str, cache: Path, tiny_suite: Path) -> None:
    limited = {"status": 429, "error": "rate_limit_error", "headers": {"retry-after": "1"}}
    done = run(name, cache, tiny_suite, [KINDS[name].runs(WRITES), {"status": 503}, limited, DONE])
    assert (done.result.failure, done.settled, done.held, len(done.calls)) == (None, 2 * COST, 0, 4)


@pytest.mark.long
@agents
def test_an_outage_that_costs_the_budget_is_not_the_agents_doing(
    name: str, cache: Path, tiny_suite: Path
) -> None:
    turns = [KINDS[name].runs(WRITES), {"cut-after": 1}]  # what is cut may have cost all
    done = run(name, cache, tiny_suite, turns, usd_micros=3 * KINDS[name].budget)
    assert done.result.failure is Failure.API_SERVER
    assert 0 < done.held <= 3 * KINDS[name].budget - done.settled


@pytest.mark.long
@agents
def test_a_long_prompt_arrives_whole(name: str, cache: Path, tiny_suite: Path) -> None:
    prompt = "".join(f"Line {number} of 'a' $LONG `prompt`.\n" for number in range(12_000)) + "The end. €"
    done = run(name, cache, tiny_suite, [DONE], prompt=prompt)
    if name != "gemini":  # it prints the prompt again, and exits before a full pipe has taken all of it
        assert done.result.failure is None
    assert json.dumps(prompt)[1:-1] in done.asked(0)


@pytest.mark.long
@pytest.mark.agents
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_asks_nobody_but_the_meter(name: str, cache: Path, tiny_suite: Path, tmp_path: Path) -> None:
    log = tmp_path / "strace.log"
    calls = "trace=connect,sendto,sendmsg,sendmmsg"
    trace = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", calls, "-o", str(log)]
    done = run(name, cache, tiny_suite, [KINDS[name].runs(WRITES), DONE], prefix=trace)
    assert done.made
    text = log.read_text(encoding="utf-8", errors="replace")
    addresses = set(re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', text))
    assert addresses == {("127.0.0.1", "")}
    assert len(set(re.findall(r"sin_port=htons\((\d+)\)", text))) == 1
    assert {one.path for one in done.seen} == {one.path for one in done.calls}


@pytest.mark.long
@pytest.mark.agents
def test_the_cost_that_claude_code_says_is_the_cost_in_the_books(cache: Path, tiny_suite: Path) -> None:
    used = {"input": 900, "output": 77, "cache-read": 5000, "cache-write": 300}
    done = run("claude-code", cache, tiny_suite, [{**KINDS["claude-code"].runs(WRITES), "used": used}, DONE])
    assert done.result.reported_usd_micros == pytest.approx(done.settled, abs=2)


@pytest.mark.long
@pytest.mark.agents
def test_an_image_that_claude_code_looks_at_is_paid_for(
    cache: Path, tiny_suite: Path, tmp_path: Path
) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    path = str(tmp_path / "dot.png")
    makes = KINDS["claude-code"].runs(f"echo {dot} | base64 -d > {path}")
    looks = {"text": "", "stop": "tool", "tool": {"name": "Read", "input": {"file_path": path}}}
    done = run("claude-code", cache, tiny_suite, [makes, looks, DONE])
    assert (done.result.failure, len(done.calls)) == (None, 3)
    assert '"type": "image"' in done.asked(2)


@pytest.mark.long
@pytest.mark.agents
@pytest.mark.parametrize("model", ["claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5"])
def test_what_claude_code_asks_of_other_models_is_served(model: str, cache: Path, tiny_suite: Path) -> None:
    done = run("claude-code", cache, tiny_suite, [KINDS["claude-code"].runs(WRITES), DONE], model=model)
    assert (done.result.failure, done.made, len(done.calls)) == (None, True, 2)


@pytest.mark.long
@pytest.mark.agents
def test_a_refusal_whose_figures_look_like_a_status_does_not_keep_opencode_waiting(
    cache: Path, tiny_suite: Path
) -> None:
    done = run("opencode", cache, tiny_suite, [DONE], usd_micros=500)  # "$0.000500" is a 500 to it
    assert (done.account.failure, done.calls) == (Failure.AGENT_BUDGET, ())
    assert done.wall_s < 30  # five times again with its own pauses are more than a minute
