"""Promise 1 for agents behind the meter: what a whole gate spends and holds is never above its budget."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from skillgate.bench.host.owner import LABEL
from skillgate.bench.journal import FILE_NAME, Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.runner import Quiet
from skillgate.core import GateReport, Outcome
from skillgate.gate import pipeline
from skillgate.gate.pipeline import Options, gate_range
from skillgate.prices import Tokens
from skillgate.report import json as report_json
from skillgate.values import Secret
from tests.conftest import docker_trouble
from tests.fakes import shell_program as shell
from tests.fakes.metering import HAIKU, KEY, PRICES
from tests.fakes.model_api import ModelApi, Script
from tests.fakes.private_engine import eventually
from tests.fakes.shell_program import ShellProgram, shell_agent
from tests.fakes.wires import Turn, Used

ROOT = Path(__file__).parents[2]
CONFIG = """\
version: 1
suites: {{"skills/**": [suites/tiny]}}
run:
  agent: shell
  models: [{model}]
  provider: {{base-url: "{url}"}}
  sandbox: {sandbox}
  image: {image}
  repeats: {repeats}
  workers: {workers}
  budget-usd: {budget}
  per-run-usd: {per_run}
"""
DEFAULTS: Mapping[str, Any] = {
    "model": HAIKU, "sandbox": "local", "image": "null", "repeats": 2, "workers": 4,
    "budget": 0.5, "per_run": 0.06,
}  # fmt: skip
PRICE = PRICES.price(HAIKU)
assert PRICE is not None
CAP, HOLD = 500_000, 60_000
ONE = PRICE.cost(Tokens(10, 5))


class Watched(Ledger):
    """A ledger that looks at itself after every step; `most` is the highest sum of spent and held."""

    most = 0
    made: list[Watched] = []

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.made.append(self)

    def reserve(self, usd_micros: int) -> bool:
        return self._look(super().reserve(usd_micros))

    def settle(self, reserved_usd_micros: int, used_usd_micros: int) -> None:
        self._look(super().settle(reserved_usd_micros, used_usd_micros))

    def lose(self, reserved_usd_micros: int) -> None:
        self._look(super().lose(reserved_usd_micros))

    def _look(self, answer: Any) -> Any:
        with self._lock:
            sums = self._spent, self._reserved + self._lost
        assert min(sums) >= 0
        assert sum(sums) <= self.cap_usd_micros
        self.most = max(self.most, sum(sums))
        return answer


def bill(api: ModelApi) -> int:
    """Return what a provider asks for calls that each used all they could."""
    bodies = [call.body for call in api.calls]
    return sum(PRICE.cost(Tokens(len(body), json.loads(body)["max_tokens"])) for body in bodies)


def set_up(repo: Any, api: ModelApi, **settings: Any) -> None:
    """Commit a configuration with an agent behind the meter, then two changed skills."""
    repo.write("skillgate.yml", CONFIG.format(url=api.url, **{**DEFAULTS, **settings}))
    repo.commit()
    for name in ("calc", "other"):
        repo.skill(name, f"Spend all there is, {name}.")
    repo.commit()


class Sampler(threading.Thread):
    """Adds up, again and again, what the upstream may ask for and what the gate says it has promised."""

    def __init__(self, api: ModelApi) -> None:
        super().__init__()
        self.api, self.bills, self.stop = api, [0], threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.02):
            self.bills.append(bill(self.api))


class Open(Quiet):
    """Keeps what the runs in flight have cost, beside what the ledger says."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def tick(self, ledger: Ledger, open_usd_micros: int) -> None:
        self.seen.append((ledger.spent_usd_micros + open_usd_micros, ledger.cap_usd_micros))


WORST, CUT = "{used: {worst: true}}", "{used: {worst: true}, cut-after: 2}"
SPEND_ON_CUTS = "while ask(stream=True) != 402: pass\nsys.exit(1)"


@pytest.mark.parametrize(
    ("body", "turns", "is_cut"),
    [(shell.SPEND, [WORST], False), (SPEND_ON_CUTS, [WORST, CUT] * 100, True)],
    ids=["answered", "cut"],
)
def test_a_gate_of_greedy_agents_never_goes_above_its_budget(
    repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, turns: list[str], is_cut: bool
) -> None:
    shell_agent(tmp_path / "program", ShellProgram(body), monkeypatch.setattr)
    monkeypatch.setattr(pipeline, "Ledger", Watched)
    monkeypatch.setattr("skillgate.gate.judge.Ledger", Watched)
    Watched.made.clear()
    progress = Open()
    with ModelApi(f"turns: [{', '.join(turns)}]") as api:
        set_up(repo, api, repeats=9)
        sampler = Sampler(api)
        sampler.start()
        report = gate(repo, tmp_path, progress)
        sampler.stop.set()
        sampler.join()
    whole, *parts = Watched.made
    spent = report.spend.spent_usd_micros
    first, second = (part.cap_usd_micros for part in parts)
    assert (whole.cap_usd_micros, first) == (CAP, CAP // 2)
    assert second == CAP - parts[0].spent_usd_micros - parts[0].held_usd_micros
    assert (0.5 if is_cut else 0.9) * CAP < spent + report.spend.held_usd_micros <= whole.most <= CAP
    assert sum(part.spent_usd_micros for part in parts) == spent
    assert (bill(api) == spent) is not is_cut
    assert bill(api) <= spent  # nobody could have asked for a micro-dollar more
    assert max(sampler.bills) <= spent
    assert all(sum_ <= cap for sum_, cap in progress.seen)
    runs = [run for one in report.reports for run in one.runs if run.outcome is not Outcome.SKIPPED]
    # what was lost in cut calls was the API's doing, which scores nobody
    assert {run.outcome for run in runs} == {Outcome.INVALID if is_cut else Outcome.LIMIT}
    assert max(run.usage.usd_micros for run in runs) <= 60_000
    with Journal(tmp_path / "out" / FILE_NAME) as journal:
        journal.open_gate(gate_key(tmp_path), resume=True)
        assert journal.sums() == (spent, report.spend.held_usd_micros)


def gate(repo: Any, tmp_path: Path, progress: Quiet) -> GateReport:
    options = Options(
        out=tmp_path / "out",
        python_bin=Path(sys.executable).parent,
        cache=tmp_path / "cache",
        keys={"anthropic": Secret(KEY)},
        allow_unsafe_local=True,
    )
    return gate_range(repo.folder, "HEAD~1", "HEAD", options, progress)


def gate_key(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "out" / FILE_NAME)) as db:
        return str(db.execute("SELECT key FROM gates").fetchone()[0])


def run_command(repo: Any, tmp_path: Path, body: str, *options: str) -> subprocess.Popen[str]:
    """Start the real command in a process of its own, with a program behind the meter."""
    names = {"SHELL_FOLDER": str(tmp_path / "program"), "SHELL_BODY": body, "ANTHROPIC_API_KEY": KEY}
    places = {"TMPDIR": str(tmp_path / "scratch"), "PYTHONPATH": str(ROOT)}
    (tmp_path / "scratch").mkdir(exist_ok=True)
    fixed = ["run", "--skill", "skills/calc", "--out", str(tmp_path / "out"), "--allow-unsafe-local"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.shell_program", *fixed, *options],
        cwd=repo.folder, env={**os.environ, **names, **places},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def left_behind(scratch: Path) -> list[str]:
    """Return processes and containers that have to do with a folder."""
    found = []
    for pid in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        with suppress(OSError):
            if os.fsencode(str(scratch)) in (pid / "environ").read_bytes():
                found.append((pid / "cmdline").read_text())
    if docker_trouble():
        return found
    with closing(docker.from_env()) as client:
        ours = client.containers.list(all=True, filters={"label": f"{LABEL}=1"}, ignore_removed=True)
        mounted = [(one.name, [m["Source"] for m in one.attrs["Mounts"]]) for one in ours]
    return found + [str(name) for name, sources in mounted if any(str(scratch) in s for s in sources)]


@pytest.mark.parametrize(
    "sandbox", ["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long])]
)
def test_a_runner_that_is_killed_in_mid_call_keeps_the_hold_of_that_run(
    repo: Any, tmp_path: Path, docker_image: str, sandbox: str
) -> None:
    with ModelApi("turns: [{}, {hang-after: 0}]") as api:
        set_up(repo, api, sandbox=sandbox, image=docker_image, workers=1)
        with run_command(repo, tmp_path, shell.NORMAL) as process:
            try:
                assert api.hangs.wait(60)
            finally:
                process.kill()
        assert api.left.wait(20)  # nobody holds the connection to the provider any more
        assert not (tmp_path / "out/report.json").exists()
        assert list((tmp_path / "scratch").iterdir()) != []
        api.script = Script()
        with run_command(repo, tmp_path, shell.NORMAL, "--resume") as process:
            _, said = process.communicate(timeout=120)
    report = report_json.load((tmp_path / "out/report.json").read_text(), "report.json")
    (one,) = report.reports
    assert [run.outcome for run in one.runs] == [Outcome.PASSED] * 4, said
    assert (report.spend.spent_usd_micros, report.spend.held_usd_micros) == (4 * ONE, HOLD)
    with Journal(tmp_path / "out" / FILE_NAME) as journal:
        journal.open_gate(gate_key(tmp_path), resume=True)
        assert journal.sums() == (4 * ONE, HOLD)
    assert list((tmp_path / "scratch").iterdir()) == []
    eventually(lambda: not left_behind(tmp_path / "scratch"), "everything has ended")


@pytest.mark.long
def test_what_a_killed_runner_holds_is_not_there_for_the_rest(repo: Any, tmp_path: Path) -> None:
    """The budget pays two runs; one was killed, so that after the resume one more can begin, and no other."""
    with ModelApi("turns: [{hang-after: 0}]") as api:
        set_up(repo, api, workers=1, repeats=1, budget=0.12)
        with run_command(repo, tmp_path, shell.SPEND) as process:
            try:
                assert api.hangs.wait(60)
            finally:
                process.kill()
        first = len(api.calls)
        api.script = Script(turns=(Turn(used=Used(worst=True)),))
        with run_command(repo, tmp_path, shell.SPEND, "--resume") as process:
            process.communicate(timeout=120)
        spent = bill(api)
    report = report_json.load((tmp_path / "out/report.json").read_text(), "report.json")
    assert first == 1
    assert report.spend.held_usd_micros == HOLD
    assert (report.spend.runs, report.spend.skipped_runs) == (1, 1)
    assert spent <= report.spend.spent_usd_micros + HOLD <= 2 * HOLD
