"""How a program behind the meter ends -> outcome, money, requests; and that nothing spends after its end."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import docker
import msgspec
import pytest

from skillgate.bench.agents.cli_agent import write_files
from skillgate.bench.agents.metered import result_of, served
from skillgate.bench.agents.program import Launch, Reading
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.host.owner import LABEL
from skillgate.bench.meter.account import Account
from skillgate.bench.meter.dialect import ADDED_TOKENS
from skillgate.bench.meter.limits import Limits, Want
from skillgate.bench.meter.proxy import Meter, Provider
from skillgate.bench.sandbox import NO_NAMES, CommandResult, Door, Sandbox, Serve, Sink
from skillgate.bench.suite import load_suite
from skillgate.core import Outcome
from skillgate.prices import CacheUse, Tokens
from skillgate.values import Usage
from tests.fakes import shell_program as shell
from tests.fakes.metering import HAIKU, KEY, PRICES, free_port
from tests.fakes.model_api import ModelApi
from tests.fakes.shell_program import AMPLE, Place, ShellProgram

PRICE = PRICES.price(HAIKU)
assert PRICE is not None
ONE = PRICE.cost(Tokens(10, 5))  # of a call as the scripted API answers it


@pytest.fixture
def place(tiny_suite: Path, tmp_path: Path) -> Place:
    (tmp_path / "program").mkdir()
    return Place(tiny_suite, tmp_path / "program")


class Row(NamedTuple):
    """What a program does, how the API answers, and what comes of it.

    `lost`: the last call was cut, so that all it could cost is booked beside `cost`.
    """

    body: str
    turns: str
    outcome: Outcome
    failure: Failure | None
    cost: int = 0
    requests: int = 1
    options: Mapping[str, Any] = {}
    lost: bool = False


def error(status: int) -> str:
    return f"[{{status: {status}}}]"


PASSED, FAILED, LIMIT, INVALID = Outcome.PASSED, Outcome.FAILED, Outcome.LIMIT, Outcome.INVALID
FINE = "[{}]"
TRY_TWICE = "if ask() != 200 and ask() != 200: sys.exit(1)\ndeliver(); end()"
THEN_STOP = "ask()\n" + shell.STOP_ON_ERROR
TABLE = {
    "normal": Row(shell.NORMAL, FINE, PASSED, None, ONE),
    "many calls": Row(shell.MANY, FINE, PASSED, None, 5 * ONE, 5),
    "nothing delivered": Row("ask(); end()", FINE, FAILED, None, ONE),
    "429": Row(shell.STOP_ON_ERROR, error(429), INVALID, Failure.API_RATE_LIMIT),
    "500": Row(shell.STOP_ON_ERROR, error(500), INVALID, Failure.API_SERVER),
    "529": Row(shell.STOP_ON_ERROR, error(529), INVALID, Failure.API_OVERLOADED),
    "401": Row(shell.STOP_ON_ERROR, error(401), INVALID, Failure.API_AUTH),
    "402": Row(shell.STOP_ON_ERROR, error(402), INVALID, Failure.API_CREDIT),
    "529 in the middle": Row(THEN_STOP, "[{}, {status: 529}]", INVALID, Failure.API_OVERLOADED, ONE, 2),
    "got over a 529": Row(TRY_TWICE, "[{status: 529}, {}]", PASSED, None, ONE, 2),
    "529 and yet it says it is done": Row(
        "ask(); end()", error(529), INVALID, Failure.API_OVERLOADED
    ),
    "nobody there": Row(
        shell.STOP_ON_ERROR, FINE, INVALID, Failure.API_UNREACHABLE, options={"url": "free"}
    ),
    "a cut stream": Row(
        "ask(stream=True); sys.exit(1)", "[{cut-after: 2}]", INVALID, Failure.API_SERVER, lost=True
    ),
    "a cut stream after an answer": Row(
        "ask(); ask(stream=True); sys.exit(1)",
        "[{}, {cut-after: 2}]", INVALID, Failure.API_SERVER, ONE, 2, lost=True,
    ),
    "got over a cut stream": Row(
        "ask(); ask(stream=True); ask(); deliver(); end()",
        "[{}, {cut-after: 2, used: {input: 1000}}, {}]", PASSED, None, 2 * ONE, 3, lost=True,
    ),
    "refusal": Row("ask(); sys.exit(1)", "[{stop: refusal}]", FAILED, Failure.AGENT_REFUSED, ONE),
    "crash": Row(shell.CRASH, FINE, PASSED, Failure.AGENT_CRASH, ONE),
    "crash before a call": Row("sys.exit(3)", FINE, INVALID, Failure.AGENT_START, 0, 0),
    "no money for the first answer": Row(
        shell.SPEND, FINE, INVALID, Failure.AGENT_START, 0, 1, {"budget": 100}
    ),
    "no money for the first answer, and it says it is done": Row(
        "ask(); end()", FINE, INVALID, Failure.AGENT_START, 0, 1, {"budget": 100}
    ),
    "requests": Row(shell.SPEND, FINE, LIMIT, Failure.AGENT_TURNS, 22 * ONE, 22, {"max_turns": 1}),
    "requests, and it says it is done": Row(
        "spend(); deliver(); end()", FINE, LIMIT, Failure.AGENT_TURNS, 22 * ONE, 22, {"max_turns": 1}
    ),
    "tokens": Row(
        shell.SPEND, "[{used: {input: 1000, output: 900}}]", LIMIT, Failure.AGENT_BUDGET,
        5_500, 2, {"tokens": 3_000},
    ),
    "clock": Row(shell.HANG, FINE, LIMIT, Failure.AGENT_CLOCK, ONE, 1, {"timeout_s": 0.8}),
    "clock, while the API does not answer": Row(
        "ask(); ask(); ask()", "[{}, {status: 529}, {hang-after: 0}]", INVALID, Failure.API_OVERLOADED,
        ONE, 3, {"timeout_s": 0.8}, lost=True,
    ),
    "clock, in the middle of an answer": Row(
        "ask(); ask()", "[{}, {hang-after: 0}]", LIMIT, Failure.AGENT_CLOCK,
        ONE, 2, {"timeout_s": 0.8}, lost=True,
    ),
    "clock before a call": Row(
        shell.HANG_AT_ONCE, FINE, INVALID, Failure.AGENT_START, 0, 0, {"timeout_s": 0.4}
    ),
    "unknown model": Row(
        shell.STOP_ON_ERROR, FINE, INVALID, Failure.API_REFUSED, 0, 0, {"model": "no-such-model"}
    ),
    "an image": Row(
        "sys.exit(ask(messages=[{'role': 'user', 'content': [{'type': 'image', 'source': {}}]}]))",
        FINE, INVALID, Failure.API_REFUSED, 0, 0,
    ),
    "an unknown model after an answer": Row(
        "ask(); sys.exit(ask(model='no-such-model'))", FINE, FAILED, Failure.AGENT_CRASH, ONE
    ),
    "ended well without a call": Row(shell.SILENT, FINE, INVALID, Failure.AGENT_START, 0, 0),
    "killed by itself": Row(
        "ask(); os.kill(os.getpid(), signal.SIGKILL)", FINE, FAILED, Failure.AGENT_CRASH, ONE
    ),
}  # fmt: skip


def hold_of(body: bytes) -> int:
    return PRICE.hold(len(body) + ADDED_TOKENS, json.loads(body)["max_tokens"], CacheUse.NONE)


def lost_hold(api: ModelApi) -> int:
    """Return what the one call that was cut could have cost: the streamed one, else the last."""
    bodies = [call.body for call in api.calls]
    return hold_of(next((body for body in bodies if b'"stream": true' in body), bodies[-1]))


@pytest.mark.parametrize("name", TABLE)
def test_how_a_program_ends_decides_outcome_and_money(place: Place, name: str) -> None:
    row = TABLE[name]
    options = dict(row.options)
    if "timeout_s" in options:
        place.limit(timeout_s=options.pop("timeout_s"))
    if options.get("url") == "free":
        options["url"] = f"http://127.0.0.1:{free_port()}"
    with ModelApi(f"turns: {row.turns}") as api:
        run, failure, _ = place.play(ShellProgram(row.body), api, **options)
    cost = row.cost + (lost_hold(api) if row.lost else 0)
    found = (run.outcome, failure, run.usage.usd_micros, run.usage.requests)
    assert found == (row.outcome, row.failure, cost, row.requests), run.reason
    assert "sgm-" not in run.reason


WORST = "turns: [{used: {worst: true}}]"


def worst_cost(api: ModelApi) -> int:
    """Return what all calls have cost when each used all it could."""
    bodies = [call.body for call in api.calls]
    return sum(PRICE.cost(Tokens(len(body), json.loads(body)["max_tokens"])) for body in bodies)


@pytest.mark.parametrize("arm", ["none", "head"])
def test_a_program_that_spends_without_end_is_stopped_at_its_budget(place: Place, arm: str) -> None:
    with ModelApi(WORST) as api:
        run, failure, _ = place.play(ShellProgram(shell.SPEND), api, budget=23_456, arm=arm)
    assert (run.outcome, failure) == (LIMIT, Failure.AGENT_BUDGET)
    assert 20_000 < run.usage.usd_micros == worst_cost(api) <= 23_456
    assert "cannot pay for this call" in run.reason


def test_money_that_an_earlier_try_used_up_is_the_agents_own_limit(place: Place) -> None:
    """The second try is refused before its first answer, but the first one was answered."""
    with (place.suite / "suite.yml").open("a") as file:
        file.write("attempts: 2\n")
    body = "if ask() != 200: sys.exit('refused')\nend()"
    with ModelApi("turns: [{used: {worst: true}}]") as api:
        run, failure, _ = place.play(ShellProgram(body), api, budget=6_000)
    assert (run.outcome, failure) == (LIMIT, Failure.AGENT_BUDGET)
    assert len(run.grades) == 4
    assert run.usage.usd_micros == worst_cost(api) > 4_500
    assert run.usage.turns == len(api.calls) == 1


def test_a_token_that_the_agent_hides_in_files_and_names_is_masked_in_what_graders_say(place: Place) -> None:
    body = """
ask()
with open("calc/double.py", "w") as file:
    file.write(f"raise ImportError('it is {TOKEN}')")
open(f"calc/{TOKEN}.py", "w").close()
end()
"""
    with ModelApi() as api:
        run, failure, _ = place.play(ShellProgram(body), api)
    assert (run.outcome, failure) == (FAILED, None)
    assert {*run.changed_files} == {"calc/[token].py", "calc/double.py"}
    assert any("it is [token]" in grade.detail for grade in run.grades)
    assert "sgm-" not in msgspec.json.encode(run).decode()


def test_what_the_program_says_of_itself_is_kept_apart(place: Place) -> None:
    body = "say('skill'); say('tool'); say('tool'); say('denied'); ask(); deliver(); end(usd_micros=36)"
    program = ShellProgram(body)
    with ModelApi() as api:
        run, *_ = place.play(program, api, arm="head")
    assert run.usage == Usage(requests=1, input=10, output=5, usd_micros=ONE, turns=1, tool_calls=2)
    assert (run.skill_used, run.models, run.reported_usd_micros) == (True, (HAIKU,), 36)
    assert run.reason == "1 uses of tools were denied"
    assert run.trace_path is not None
    (setting,) = program.settings
    assert (setting.model, setting.max_turns) == (HAIKU, 30)
    assert KEY not in repr(setting)


def test_the_program_finds_its_prompt_and_its_files_and_no_key(place: Place) -> None:
    body = """
with open(sys.argv[1]) as prompt: say("prompt", text=prompt.read())
say("home", files=sorted(os.listdir(os.environ["HOME"] + "/agent")))
say("names", names=sorted(os.environ)); ask(); end()
"""
    program = ShellProgram(body)
    launch = program.launch
    program.launch = lambda setting: launch(setting)._replace(  # type: ignore[method-assign]
        command=f'python3 "$HOME/agent/main.py" {setting.prompt}'
    )
    with ModelApi() as api:
        place.play(program, api)
    events = [json.loads(line) for line in place.trace().splitlines()]
    assert events[0]["text"] == load_suite(place.suite).tasks[0].prompt
    assert events[1]["files"] == ["main.py"]
    known = {
        "HOME",
        "LANG",
        "METER",
        "MODEL",
        "PATH",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
        "TMPDIR",
        "TOKEN",
        "TZ",
    }
    assert {*events[2]["names"]} - {"LC_CTYPE", "SHLVL", "_", "OLDPWD"} == known


def test_a_program_that_is_not_there_broke_off_before_it_began(place: Place) -> None:
    with ModelApi() as api:
        run, failure, _ = place.play(ShellProgram("", command="exec /no/such/program"), api)
    assert (run.outcome, failure, run.usage) == (INVALID, Failure.AGENT_START, Usage())
    assert "exit code 127" in run.reason
    assert api.seen == []


def test_neither_trace_nor_reason_has_the_token(place: Place) -> None:
    with ModelApi() as api:
        run, *_ = place.play(ShellProgram(shell.TELL), api)
    assert run.outcome is PASSED
    said = place.trace()
    assert "sgm-" in said  # the start of it is no secret, and shows that the program knew it
    assert said.count("[token]") == 2
    assert "sgm-" not in said.replace('"split": "sgm-', "")
    assert "sgm-" not in msgspec.json.encode(run).decode()


@contextmanager
def metered(script: str = "turns: [{}]") -> Iterator[tuple[ModelApi, Meter]]:
    with ModelApi(script) as api, closing(Meter(Provider("anthropic", api.url, KEY), PRICES.price)) as meter:
        yield api, meter


class Loopback:
    """A session whose sandbox is this machine; `again` opens its doors anew, as a restart does."""

    refused: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._serve: list[Serve] = []
        self.doors: list[Door] = []

    def listen(self, serve: Serve) -> int:
        self._serve.append(serve)
        return self.again()

    def again(self) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        self.ports.append(int(listener.getsockname()[1]))
        self.doors.append(self._serve[0](listener))
        return self.ports[-1]

    def where(self, path: Path) -> str:
        return str(path)

    def run(
        self, command: str, timeout_s: float, env: Mapping[str, str] = NO_NAMES, sink: Sink | None = None
    ) -> CommandResult:
        raise AssertionError


def call(port: int, token: str) -> bool:
    """Call the meter; say whether it answered at all."""
    body = {"model": HAIKU, "max_tokens": 100, "messages": [{"role": "user", "content": "x"}]}
    sent = {"content-type": "application/json", "x-api-key": token}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/messages", json.dumps(body).encode(), sent)
    with suppress(OSError), urllib.request.urlopen(request, timeout=20) as answer:
        return bool(answer.read())
    return False


def test_what_is_read_after_the_door_is_closed_is_final() -> None:
    """Somebody who was not ended calls in a loop, at the moment of the close too."""
    account = Account(Limits(AMPLE))
    served_once, stop = threading.Semaphore(0), threading.Event()

    def keep_calling(port: int) -> None:
        while not stop.is_set():
            if call(port, account.token):
                served_once.release()

    with metered() as (_, meter):
        with served(Loopback(), meter, account) as url:
            port = int(url.rpartition(":")[2])
            callers = [threading.Thread(target=keep_calling, args=(port,), daemon=True) for _ in range(4)]
            for caller in callers:
                caller.start()
            for _ in range(20):
                assert served_once.acquire(timeout=20)
        final = result_of(account, None).usage
        assert not any(call(port, account.token) for _ in range(20))
        stop.set()
        for caller in callers:
            caller.join()
        assert result_of(account, None).usage == final
        assert final.usd_micros >= 20 * PRICE.cost(Tokens(10, 5))
        assert not account.has_open_calls


def test_every_door_of_a_run_is_closed_at_its_end() -> None:
    account = Account(Limits(AMPLE))
    session = Loopback()
    with metered() as (_, meter):
        with suppress(KeyError), served(session, meter, account):
            session.again()
            assert [call(port, account.token) for port in session.ports] == [True, True]
            raise KeyError
        assert [call(port, account.token) for port in session.ports] == [False, False]


def test_what_a_run_has_to_pay_is_never_above_its_limit() -> None:
    account = Account(Limits(2_000))
    account.open(PRICE, Want(100, 200, 1)).settle(Tokens(100, 2_000))
    found = result_of(account, None)
    assert (found.usage.usd_micros, account.booked_usd_micros) == (2_000, 10_100)
    assert found.detail.startswith("$0.008100 more than could be asked for")


def test_files_of_a_home_are_written_below_it(tmp_path: Path) -> None:
    write_files(tmp_path / "home", Launch("", {}, {".config/x/y.json": "{}", "a": "b"}))
    found = {p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {"home/.config/x/y.json": "{}", "home/a": "b"}


@pytest.fixture
def container(place: Place, docker_image: str) -> Sandbox:
    return docker_sandbox(docker_image, programs={"shell": place.folder})


@pytest.mark.docker
@pytest.mark.parametrize(
    "body", [shell.LEAVE, pytest.param(shell.LEAVE_AND_GO, marks=pytest.mark.long)], ids=["after", "before"]
)
def test_who_is_left_behind_in_a_container_spends_nothing_more(
    place: Place, container: Sandbox, body: str
) -> None:
    with ModelApi() as api:
        run, failure, _ = place.play(ShellProgram(body), api, container, max_turns=10_000)
        asked = len(api.calls)
        assert (run.outcome, failure) == (PASSED, None), run.reason
        assert 1 <= asked <= run.usage.requests <= asked + 1
        assert run.usage.usd_micros >= run.usage.turns * ONE
    assert len(api.calls) == asked


DOCKER_TABLE = {
    "memory": Row("ask(); x = bytearray(600_000_000); ask()", FINE, LIMIT, Failure.AGENT_MEMORY, ONE),
    "memory before a call": Row(
        "x = bytearray(600_000_000); ask()", FINE, INVALID, Failure.AGENT_START, 0, 0
    ),
    "disk": Row(
        "ask()\nfor n in range(6): open(f'big-{n}', 'wb').write(bytes(20_000_000))\ntime.sleep(60)",
        FINE, LIMIT, Failure.AGENT_DISK, ONE,
    ),
    "clock": TABLE["clock"]._replace(options={"timeout_s": 2}),
    "crash": TABLE["crash"],
    "429": TABLE["429"],
    "cut": TABLE["a cut stream after an answer"],
}  # fmt: skip


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.parametrize("name", DOCKER_TABLE)
def test_how_a_program_in_a_container_ends(place: Place, container: Sandbox, name: str) -> None:
    row = DOCKER_TABLE[name]
    place.limit(disk_mb=50, **row.options)
    with ModelApi(f"turns: {row.turns}") as api:
        run, failure, _ = place.play(ShellProgram(row.body), api, container)
    cost = row.cost + (lost_hold(api) if row.lost else 0)
    found = (run.outcome, failure, run.usage.usd_micros, run.usage.requests)
    assert found == (row.outcome, row.failure, cost, row.requests), run.reason


@pytest.mark.docker
def test_a_container_that_is_killed_from_outside_scores_nothing_and_its_cost_is_known(
    place: Place, container: Sandbox
) -> None:
    def kill(api: ModelApi) -> None:
        assert api.hangs.wait(20)
        with closing(docker.from_env()) as client:
            for one in client.containers.list(filters={"label": f"{LABEL}=1"}, ignore_removed=True):
                if any(m["Source"] == str(place.folder) for m in one.attrs["Mounts"]):
                    one.kill()

    with ModelApi("turns: [{}, {hang-after: 0}]") as api:
        killer = threading.Thread(target=kill, args=(api,))
        killer.start()
        run, failure, _ = place.play(ShellProgram("ask(); ask(); end()"), api, container)
        killer.join()
    assert (run.outcome, failure) == (INVALID, Failure.SANDBOX_LOST)
    assert run.usage.usd_micros == ONE + hold_of(api.calls[-1].body)
    assert (run.usage.requests, run.usage.turns) == (2, 1)


def test_output_that_nobody_can_read_loses_no_cost(tiny_suite: Path, tmp_path: Path) -> None:
    class Unreadable(ShellProgram):
        def read(self, output: Iterable[str], exit_code: int, skill: str | None) -> Reading:
            raise RecursionError("too deep")

    with ModelApi() as api:
        ended = Place(tiny_suite, tmp_path).play(Unreadable(shell.NORMAL), api)
    assert (ended.run.outcome, ended.failure, ended.cost_known) == (Outcome.INVALID, Failure.UNKNOWN, True)
    assert ended.run.usage.usd_micros > 0
    assert "too deep" in ended.run.reason
