"""A gate or its engine is killed: what was finished counts, the rest is done again, nothing stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.core import Decision, GateReport, Metric, Outcome
from skillgate.errors import ExitCode
from skillgate.report import json as report_json
from tests.fakes.private_engine import IMAGE, PrivateEngine, eventually, private_engine, require_engine
from tests.fakes.struck import FILES, SUITE, TASK, write_suite

pytestmark = [pytest.mark.docker, pytest.mark.long]

SLOW = FILES | {"tasks/answer/task.yml": TASK.replace("test -f repo", "sleep 0.5; test -f repo")}
CONFIG = f"""\
version: 1
suites: {{"skills/**": [suites/shell]}}
run: {{agent: scripted, script: script.yml, sandbox: docker, image: "{IMAGE}", repeats: 2,
  budget-usd: 2, per-run-usd: 0.2}}
"""
SCRIPT = """\
price: {input: 2.0, output: 10.0}
arms:
  none: &idle {moves: {nothing: 1}, input: {median: 9000}, output: {median: 900}}
  base: *idle
  head: {moves: {oracle: 1}, input: {median: 9000}, output: {median: 900}}
"""
SET_UP = f"environment: {{{{base: '{IMAGE}', setup: '{{}}', network: false}}}}"
HOLD = 200_000


class Place(NamedTuple):
    """An engine, a repository with one change, and a folder for temporary files."""

    engine: PrivateEngine
    repo: Any
    scratch: Path

    def popen(self, out: Path, *options: str) -> subprocess.Popen[str]:
        """Start a gate."""
        fixed = ["gate", "--base", "HEAD~1", "--repo", str(self.repo.folder), "--out", str(out)]
        env = {**os.environ, "TMPDIR": str(self.scratch), "DOCKER_HOST": self.engine.host}
        # what a shell without job control starts in the background ignores Ctrl-C, and so do its children
        command, pipe = ["env", "--default-signal=INT", sys.executable, "-m", "skillgate"], subprocess.PIPE
        command += [*fixed, *options]
        return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)

    def gate(self, out: Path, *options: str) -> tuple[int, str]:
        """Run a gate to its end; return its exit code and what it said."""
        with self.popen(out, *options) as process:
            _, said = process.communicate(timeout=120)
        return process.returncode, said

    @contextmanager
    def in_mid_run(self, out: Path) -> Iterator[subprocess.Popen[str]]:
        """Start a gate, and wait until a run has ended and another one has a container."""
        with self.popen(out) as process:
            try:
                assert process.stderr is not None
                while not (line := process.stderr.readline()).startswith("  1/"):
                    assert line, "it ended"
                before = set(self.engine.ours())
                eventually(lambda: set(self.engine.ours()) - before, "a container")
                yield process
            finally:
                process.kill()

    def change_suite(self, line: str) -> None:
        """Make it the state before the change that the suite has a line more."""
        self.repo.git("reset", "-q", "--hard", "HEAD~1")
        self.repo.write("suites/shell/suite.yml", f"{SUITE}{line}\n")
        self.repo.commit()
        self.repo.skill("calc", "Write the answer now.")
        self.repo.commit()

    def left(self) -> tuple[list[str], list[str], list[str]]:
        """Return what there is of ours on the engine, among the folders and among the processes."""
        return self.engine.ours(), sorted(path.name for path in self.scratch.iterdir()), self._processes()

    def _processes(self) -> list[str]:
        found = []
        for pid in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
            try:
                if os.fsencode(f"TMPDIR={self.scratch}") in (pid / "environ").read_bytes():
                    found.append((pid / "cmdline").read_text())
            except OSError:
                continue
        return found


NOTHING: tuple[list[str], list[str], list[str]] = ([], [], [])


@pytest.fixture(scope="module")
def one_engine() -> Iterator[PrivateEngine]:
    require_engine()
    with private_engine() as engine:
        yield engine


@pytest.fixture
def place(one_engine: PrivateEngine, repo: Any, tmp_path: Path) -> Iterator[Place]:
    one_engine.ensure()
    (tmp_path / "scratch").mkdir()
    shutil.rmtree(repo.folder / "suites")
    write_suite(repo.folder / "suites/shell", SLOW)
    repo.write("skillgate.yml", CONFIG)
    repo.write("script.yml", SCRIPT)
    repo.commit()
    repo.skill("calc", "Write the answer first.")
    repo.commit()
    yield Place(one_engine, repo, tmp_path / "scratch")
    one_engine.ensure()
    one_engine.clear()


def load(out: Path) -> GateReport:
    return report_json.load((out / "report.json").read_text(), "report.json")


def scores(out: Path) -> object:
    (one,) = load(out).reports
    runs = [(run.cell, run.outcome, run.usage, run.pass_ratio) for run in one.runs]
    return runs, [c for c in one.comparisons if c.metric is not Metric.WALL_S], one.verdict


@pytest.fixture
def undisturbed(place: Place, tmp_path: Path) -> object:
    code, said = place.gate(tmp_path / "undisturbed")
    assert (code, place.left()) == (0, NOTHING), said
    return scores(tmp_path / "undisturbed")


def test_two_gates_at_once_and_one_is_killed_and_resumed(
    place: Place, undisturbed: object, tmp_path: Path
) -> None:
    killed, other = tmp_path / "killed", tmp_path / "other"
    with place.in_mid_run(killed) as process:
        process.kill()
    containers, folders, processes = place.left()
    assert (bool(containers), bool(folders), processes) == (True, True, [])
    assert not (killed / "report.json").exists()
    with place.in_mid_run(other) as living:
        assert not {*containers} & {*place.engine.ours()}  # any gate removes them
        code, said = place.gate(killed, "--resume")
        assert (code, "finished earlier" in said) == (0, True), said
        living.communicate(timeout=120)
    assert living.returncode == 0
    assert (scores(killed), scores(other)) == (undisturbed, undisturbed)
    spend = load(killed).spend
    assert 0 < spend.held_usd_micros <= 2 * HOLD  # what was cut may have cost all of it
    assert place.left() == NOTHING


def test_an_engine_that_goes_away_scores_nothing_and_the_gate_can_be_resumed(
    place: Place, undisturbed: object, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with place.in_mid_run(out) as process:
        place.engine.kill()
        _, said = process.communicate(timeout=120)
    (report,) = load(out).reports
    lost = [run for run in report.runs if run.outcome is Outcome.INVALID]
    assert {run.pass_ratio for run in lost} == {None}
    assert {run.reason.partition(":")[0] for run in lost} == {"the Docker engine went away"}
    assert report.spend.invalid_runs == len(lost) >= 3
    assert (process.returncode, report.verdict.decision) == (0, Decision.INCONCLUSIVE), said
    place.engine.start()
    code, said = place.gate(out, "--resume")
    assert (code, scores(out)) == (0, undisturbed), said
    assert place.left() == NOTHING


@pytest.mark.parametrize(
    ("extra", "reasons"),
    [
        (
            "image: 127.0.0.1:9/no-such/image:1",
            ["the image 127.0.0.1:9/no-such/image:1 is not on this machine"],
        ),
        (SET_UP.format("echo no luck; exit 3"), ["the image of suite `shell` was not built", "| no luck"]),
    ],
    ids=["pull", "build"],
)
def test_without_an_image_nothing_is_spent(
    place: Place, tmp_path: Path, extra: str, reasons: list[str]
) -> None:
    place.change_suite(extra)
    code, said = place.gate(tmp_path / "out")
    assert code == ExitCode.PREREQUISITE
    assert [reason for reason in reasons if reason not in said] == [], said
    assert not (tmp_path / "out/journal.sqlite").exists()
    assert place.left() == NOTHING


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_interrupted_leaves_nothing(
    place: Place, tmp_path: Path, number: signal.Signals
) -> None:
    place.change_suite(SET_UP.format("sleep 60"))
    with place.popen(tmp_path / "out") as process:
        try:
            eventually(place.engine.running, "the set-up runs")
            process.send_signal(number)
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, said.strip()) == (ExitCode.INTERRUPTED, "")
    eventually(lambda: not place.engine.running(), "the engine gave up")
    assert place.left() == NOTHING
