"""What a run costs beside its commands: `python benchmarks/sandbox.py [--sandbox docker|local]`.

Runs a small suite of its own with an agent that gives one command, as a gate would, and shows: seconds of
a run beside those of a bare `docker run` of that command; runs per minute; whether later runs take longer;
the memory of this process with all of a gate loaded; with `--profile`, what the engine was asked.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import docker

import skillgate.gate.pipeline  # noqa: F401 - a gate has it in memory too
from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.docker import docker_sandbox
from skillgate.bench.journal import Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.runner import Bench, Evaluation, Quiet, execute
from skillgate.bench.sandbox import Sandbox, local_sandbox
from skillgate.bench.suite import Suite, load_suite
from skillgate.core import Outcome, Run
from skillgate.values import Usage

IMAGE = os.environ.get("SKILLGATE_TEST_IMAGE", "skillgate-base:bookworm-2")
MAX_OVERHEAD_S, MAX_GROWTH, MAX_MEMORY_MB = 1.0, 1.1, 200.0
WARM_UP = 2
USD = 1_000_000
COMMAND = "echo made > made"
TASK = """\
title: Make it
prompt: Make it.
deliverables: [made]
graders: [{name: made, run: test -f made, kind: fail-to-pass}]
"""
FILES = {
    "suite.yml": "version: 1\ntitle: A benchmark\nwhy: Small.\nlimits: {timeout-s: 60, memory-mb: 256}\n",
    "tasks/make/task.yml": TASK,
    "tasks/make/solution.patch": "",
    **{f"repo/package/module_{number}.py": "value = 1\n" * 50 for number in range(20)},
}


class OneCommand:
    """An agent that gives one command."""

    name, version, runs_model_commands = "one-command", "1", False

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Need nothing."""

    def run(self, job: AgentJob) -> AgentResult:
        job.session.run(COMMAND, 60)
        return AgentResult(usage=Usage(requests=1))


class Series(Quiet):
    """Runs in a row: seconds and memory of each, and of all together.

    After each it clocks `yardstick`, when there is one: how fast the machine is in that moment.
    """

    def __init__(self, yardstick: Callable[[], float] | None) -> None:
        self.seconds: list[float] = []
        self.memory_mb: list[float] = []
        self.yardstick_s: list[float] = []
        self.total_s = 0.0
        self._yardstick = yardstick

    def finish_run(self, run: Run, ledger: Ledger) -> None:
        if run.outcome is not Outcome.PASSED:
            raise SystemExit(f"a run is {run.outcome}: {run.reason}")
        self.seconds.append(run.wall_s)
        self.memory_mb.append(memory_mb("VmRSS"))
        if self._yardstick is not None:
            self.yardstick_s.append(self._yardstick())


class Stand(NamedTuple):
    """Where runs are timed."""

    suite: Suite
    sandbox: Sandbox
    folder: Path
    image: str | None  # None for the local sandbox

    def bare(self) -> float:
        """Return the seconds of a container for the command alone; without containers, of a process."""
        command = [sys.executable, "-c", "pass"]
        if self.image:  # without a network, as runs are
            command = ["docker", "run", "--rm", "--network", "none", self.image, "sh", "-c", COMMAND]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"docker run: {done.stderr.decode(errors='replace')}")
        return time.perf_counter() - start

    def run(self, count: int, workers: int = 1, yardstick: Callable[[], float] | None = None) -> Series:
        """Execute the one task `count` times, as a gate does."""
        task, agent, done = self.suite.tasks[0], OneCommand(), Series(yardstick)
        plan = make_plan(
            Wanted(
                [task.id],
                ["none"],
                repeats=count,
                seed=1,
                agent=agent.name,
                model="none",
                cap_usd_micros=2 * USD * count,
                per_run_usd_micros=USD,
            )
        )
        tasks = {task.id: (self.suite, (task,))}
        evaluation = Evaluation("e", "benchmark", plan, tasks, {"none": None}, agent, self.sandbox)
        with Journal(self.folder / "journal.sqlite") as journal:
            journal.open_gate("k", resume=False)
            start = time.perf_counter()
            execute(evaluation, Bench(journal, Ledger(USD * count), done, workers))
            done.total_s = time.perf_counter() - start
        return done


def write_suite(folder: Path) -> Suite:
    for name, content in FILES.items():
        path = folder / "benchmark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return load_suite(folder / "benchmark")


def memory_mb(field: str) -> float:
    """Return what this process has in memory (VmRSS), or the most it ever had (VmHWM)."""
    found = re.search(rf"^{field}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else float("nan")


def ends(values: Sequence[float], part: int = 50) -> tuple[float, float]:
    """Return the medians of the first and of the last values."""
    part = max(1, min(part, len(values) // 2))
    return statistics.median(values[:part]), statistics.median(values[-part:])


def slope(values: Sequence[float]) -> float:
    """Return by how much a straight line through the values rises from one to the next."""
    return statistics.linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *rows)) + "\n"


def overhead(stand: Stand, repeats: int) -> str:
    """Compare a run with a bare container, in turn, so that a busy machine slows both alike."""
    rounds = [(stand.bare(), stand.run(1).total_s) for _ in range(repeats)]
    more = statistics.median(run - bare for bare, run in rounds)
    named = zip(
        ("`docker run` of its command", "a run: agent, graders"), zip(*rounds, strict=True), strict=True
    )
    rows = [(what, f"{statistics.median(seconds):.3f}") for what, seconds in named]
    met = verdict(more <= MAX_OVERHEAD_S)
    said = f"Overhead: at most {MAX_OVERHEAD_S:.1f} s at the median of {repeats}: {met} ({more:.3f} s).\n\n"
    return said + table(("what", "seconds"), rows)


def throughput(stand: Stand, count: int) -> str:
    rows = []
    for workers in (1, 2, 4):
        done = stand.run(count, workers)
        median = statistics.median(done.seconds)
        rows.append((str(workers), f"{60 * count / done.total_s:.0f}", f"{median:.3f}"))
    said = f"Throughput: {count} runs for each line, {os.cpu_count()} cores.\n\n"
    return said + table(("workers", "runs per minute", "seconds of a run"), rows)


def endurance(stand: Stand, count: int) -> str:
    """Say whether later runs take longer, on a machine of the same speed, and what memory they need."""
    done = stand.run(count, yardstick=stand.bare)
    ratios = [mine / its for mine, its in zip(done.seconds, done.yardstick_s, strict=True)]
    (first, last), most = ends(ratios), memory_mb("VmHWM")
    said = (
        f"Growth: the last of {count} runs take at most {MAX_GROWTH:g} times as long as the first, beside a "
        f"bare command after each: {verdict(last <= MAX_GROWTH * first)} ({last / first:.3f} times; "
        f"{count * slope(ratios) / statistics.median(ratios):+.1%} on a straight line through all).\n"
        f"Memory: below {MAX_MEMORY_MB:.0f} MB: {verdict(most < MAX_MEMORY_MB)} (at most {most:.1f} MB).\n\n"
    )
    rows = [
        ("seconds", *(f"{value:.3f}" for value in ends(done.seconds))),
        ("seconds of the bare command", *(f"{value:.3f}" for value in ends(done.yardstick_s))),
        ("times as long", *(f"{value:.2f}" for value in (first, last))),
        ("memory, MB", *(f"{value:.1f}" for value in ends(done.memory_mb))),
    ]
    return said + table(("a run", "median of the first", "of the last"), rows)


@contextmanager
def asked_of_the_engine() -> Iterator[dict[str, list[float]]]:
    """Collect the seconds of every call of the engine's API, until its answer starts."""
    calls: dict[str, list[float]] = defaultdict(list)
    send = docker.APIClient.send

    def timed(self: Any, request: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return send(self, request, **options)
        finally:
            path = re.sub(r"/v[\d.]+|/[0-9a-f]{64}", "", request.path_url.partition("?")[0])
            calls[f"{request.method} {path}"].append(time.perf_counter() - start)

    docker.APIClient.send = timed  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        docker.APIClient.send = send  # type: ignore[method-assign]


def profile(stand: Stand, count: int) -> str:
    with asked_of_the_engine() as calls:
        seconds = stand.run(count).seconds
    rows = [
        (call, f"{len(took) / count:.1f}", f"{1000 * sum(took) / count:.0f}")
        for call, took in sorted(calls.items(), key=lambda item: -sum(item[1]))
    ]
    known = sum(map(sum, calls.values()))
    rows.append(("everything else", "", f"{1000 * (sum(seconds) - known) / count:.0f}"))
    said = f"Profile: the mean of {count} runs takes {sum(seconds) / count:.3f} s.\n\n"
    return said + table(("call", "per run", "ms per run"), rows)


def parts(stand: Stand, asked: argparse.Namespace) -> Iterator[Callable[[], str]]:
    if asked.sandbox == "docker" and asked.repeats:
        yield lambda: overhead(stand, asked.repeats)
    if asked.runs:
        yield lambda: throughput(stand, asked.runs)
    if asked.long:
        yield lambda: endurance(stand, asked.long)
    if asked.profile:
        yield lambda: profile(stand, asked.profile)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandbox", choices=("docker", "local"), default="docker")
    parser.add_argument("--image", default=IMAGE)
    parser.add_argument("--repeats", type=int, default=20, help="rounds beside bare containers")
    parser.add_argument("--runs", type=int, default=40, help="for each number of workers")
    parser.add_argument("--long", type=int, default=500, help="runs in a row, one at a time")
    parser.add_argument("--profile", type=int, default=0, metavar="RUNS", help="show the calls of the engine")
    asked = parser.parse_args(arguments)
    python_bin = Path(sys.executable).parent
    local = asked.sandbox == "local"
    sandbox = local_sandbox(python_bin) if local else docker_sandbox(asked.image)
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(write_suite(Path(folder)), sandbox, Path(folder), None if local else asked.image)
        stand.run(WARM_UP)
        for part in parts(stand, asked):
            print(part(), flush=True)


if __name__ == "__main__":
    main()
