"""The command is stopped in mid-run: nothing finished is lost, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.journal import Journal
from skillgate.core import Decision, GateReport, Metric, Stop
from skillgate.errors import ExitCode
from skillgate.report import json as report_json

PART = "{{moves: {{{}: 1}}, input: {{median: 9000}}, output: {{median: 900}}}}"


def script(base: str, head: str) -> str:
    parts = {"none": "nothing", "base": base, "head": head}
    return "price: {input: 2.0, output: 10.0}\narms:\n" + "".join(
        f"  {arm}: {PART.format(move)}\n" for arm, move in parts.items()
    )


def command(repo: Any, out: Path, *options: str) -> list[str]:
    fixed = ["gate", "--base", "HEAD~1", "--repo", str(repo.folder), "--out", str(out)]
    return [sys.executable, "-m", "skillgate", *fixed, *options]


@contextmanager
def started(repo: Any, out: Path, tmp_path: Path, runs: int) -> Iterator[subprocess.Popen[str]]:
    """Start a gate and wait until it has told of `runs` runs."""
    env = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    pipe = subprocess.PIPE
    with subprocess.Popen(command(repo, out), stderr=pipe, stdout=pipe, text=True, env=env) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"  {runs}/"):
                break
        yield process


def load(out: Path) -> GateReport:
    return report_json.load((out / "report.json").read_text(), "report.json")


def scores(report: GateReport) -> object:
    (one,) = report.reports
    runs = [(run.cell, run.outcome, run.usage, run.pass_ratio) for run in one.runs]
    return runs, [c for c in one.comparisons if c.metric is not Metric.WALL_S], one.verdict


def change(repo: Any, base: str, head: str) -> Any:
    repo.write("script.yml", script(base, head))
    repo.commit()
    repo.skill("calc", "Write `double` first.")
    repo.commit()
    return repo


@pytest.mark.parametrize("runs", [1, pytest.param(4, marks=pytest.mark.long)])
def test_killed_and_resumed_gives_the_numbers_of_an_undisturbed_gate(
    repo: Any, tmp_path: Path, runs: int
) -> None:
    change(repo, "nothing", "oracle")
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "out"
    assert subprocess.run(command(repo, undisturbed), capture_output=True).returncode == 0
    with started(repo, out, tmp_path, runs) as process:
        process.kill()
    assert not (out / "report.json").exists()
    done = subprocess.run(command(repo, out, "--resume"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "finished earlier" in done.stderr
    assert scores(load(out)) == scores(load(undisturbed))
    assert load(out).spend.spent_usd_micros == load(undisturbed).spend.spent_usd_micros


def children(folder: Path) -> list[str]:
    """Return the commands of all processes whose environment names a folder."""
    found = []
    for pid in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            if os.fsencode(folder) in (pid / "environ").read_bytes():
                found.append((pid / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_terminated_it_ends_what_is_in_flight_and_leaves_nothing(repo: Any, tmp_path: Path) -> None:
    change(repo, "nothing", "timeout")
    out = tmp_path / "out"
    with started(repo, out, tmp_path, 1) as process:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=15)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "--resume" in said
    assert (children(tmp_path / "scratch"), list((tmp_path / "scratch").iterdir())) == ([], [])
    with Journal(out / "journal.sqlite"):
        pass  # the lock is free


def test_what_was_stopped_leaves_a_partial_report_that_decides_nothing(repo: Any, tmp_path: Path) -> None:
    change(repo, "nothing", "timeout")
    repo.skill("other", "New too.")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "--no-edit")
    out = tmp_path / "out"
    with started(repo, out, tmp_path, 1) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
    report = load(out)
    assert (report.is_partial, report.passes, report.verdict.decision) == (True, False, Decision.INCONCLUSIVE)
    first, second = report.reports
    assert first.verdict.reasons[0].startswith("Interrupted after ")
    assert first.looks[-1].stop is Stop.CUT
    assert second.verdict.decision is Decision.NOT_RUN
    assert second.verdict.reasons == ("the gate was interrupted before it ran",)
    assert "Interrupted after " in (out / "comment.md").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_says_how_to_go_on(repo: Any, tmp_path: Path) -> None:
    change(repo, "nothing", "oracle")
    out = tmp_path / "out"
    out.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(out)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine cannot mount a small disk")
    try:
        (out / "ballast").write_bytes(b"x" * 20_000)
        done = subprocess.run(command(repo, out), capture_output=True, text=True)
        assert done.returncode == ExitCode.PREREQUISITE, done.stderr
        assert "--resume" in done.stderr
        (out / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", str(out)], check=True)
        done = subprocess.run(command(repo, out, "--resume"), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert load(out).spend.skipped_runs == 0
    finally:
        subprocess.run(["umount", str(out)], check=True)
