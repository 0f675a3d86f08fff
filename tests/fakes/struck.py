"""A suite that needs only a shell, an agent that runs a command, and a sandbox that something happens to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from skillgate.bench.agents.agent import NO_PROGRAMS, SKILL_FOLDERS, AgentJob, AgentResult
from skillgate.bench.attempt import Evaluation
from skillgate.bench.failure import Failure
from skillgate.bench.journal import Journal
from skillgate.bench.meter.ledger import Ledger
from skillgate.bench.plan import Wanted, make_plan
from skillgate.bench.runner import Bench, Quiet, execute
from skillgate.bench.sandbox import CommandResult, Limit, Phase, Sandbox, Session
from skillgate.bench.suite import Limits, load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Outcome, Run
from skillgate.skill import Files, parse
from skillgate.values import Usage
from tests.fakes.private_engine import eventually

USED, HOLD = 10, 100_000
SKILL = parse(Files.from_map({"SKILL.md": b"---\nname: s\ndescription: d\n---\nBody.\n"}), "skills/s")
TASK = """\
title: Answer
prompt: Write the answer to `answer`.
deliverables: [answer]
graders:
  - {name: answered, run: "test -f answer", kind: fail-to-pass, timeout-s: 15}
  - {name: alive, run: "test -f repo", kind: pass-to-pass, timeout-s: 15}
"""
SUITE = """\
version: 1
title: A shell
why: It needs no other program.
limits: {timeout-s: 15, memory-mb: 32, pids: 32}
"""
PATCH = (
    "diff --git a/answer b/answer\nnew file mode 100644\n--- /dev/null\n+++ b/answer\n@@ -0,0 +1 @@\n+42\n"
)
FILES = {
    "suite.yml": SUITE,
    "repo/repo": "",
    "tasks/answer/task.yml": TASK,
    "tasks/answer/solution.patch": PATCH,
}
_AT_LIMIT = {
    Limit.CLOCK: Failure.AGENT_CLOCK,
    Limit.MEMORY: Failure.AGENT_MEMORY,
    Limit.DISK: Failure.AGENT_DISK,
}


def write_suite(folder: Path, files: dict[str, str] = FILES) -> Path:
    """Write a suite with one task, `answer`; return its folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


class Shell:
    """An agent that runs one command, and says at which limit it ended."""

    name, version, runs_model_commands = "shell", "1", True

    programs = NO_PROGRAMS

    skill_folders = SKILL_FOLDERS

    memory_mb = open_usd_micros = 0

    def __init__(self, command: str) -> None:
        self._command = command

    def require(self, arms: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        """Need nothing."""

    def run(self, job: AgentJob) -> AgentResult:
        result = job.session.run(self._command, 15)
        failure = _AT_LIMIT[result.limit] if result.limit else None
        return AgentResult(usage=Usage(usd_micros=USED), failure=failure)


class Blow:
    """What happens once, while a command of so many seconds runs; it is told the id of the container."""

    def __init__(self, phase: Phase, happen: Callable[[str], object], timeout_s: float = 15) -> None:
        self.timeout_s = timeout_s
        self._phase = phase
        self._happen = happen
        self._is_dealt = False

    def is_due(self, phase: Phase) -> bool:
        """Say whether this is the command; it is only once."""
        due = phase is self._phase and not self._is_dealt
        self._is_dealt |= due
        return due

    def fall(self, container: str, started: Path) -> None:
        """Wait until the command runs, and happen."""
        eventually(started.exists, "the command runs")
        self._happen(container)


class Struck:
    """A sandbox that a blow falls on; the session ends when the blow has had its effect."""

    def __init__(self, sandbox: Sandbox, blow: Blow) -> None:
        self._sandbox = sandbox
        self._blow = blow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    @contextmanager
    def session(self, workspace: Workspace, phase: Phase, limits: Limits) -> Iterator[Session]:
        with self._sandbox.session(workspace, phase, limits) as session:
            yield _StruckSession(session, workspace, phase, self._blow)


class _StruckSession:
    refused: tuple[str, ...] = ()

    def __init__(self, session: Any, workspace: Workspace, phase: Phase, blow: Blow) -> None:
        self._session, self._phase, self._blow = session, phase, blow
        self._started = workspace.temp / "started"

    def run(self, command: str, timeout_s: float, *more: Any) -> CommandResult:
        if not self._blow.is_due(self._phase):
            return self._run(command, timeout_s, *more)
        container = str(self._session._container.id)
        thread = threading.Thread(target=self._blow.fall, args=(container, self._started))
        thread.start()
        try:
            return self._run(f": > $TMPDIR/started; sleep 60; {command}", self._blow.timeout_s, *more)
        finally:
            thread.join()

    def _run(self, command: str, timeout_s: float, *more: Any) -> CommandResult:
        result: CommandResult = self._session.run(command, timeout_s, *more)
        return result


class Tried(NamedTuple):
    """What the journal has of one attempt; `used` None: the money is held for good."""

    outcome: Outcome
    reason: str
    used: int | None


class Trial(NamedTuple):
    """What became of the cells: runs, every attempt at them, and the money."""

    runs: tuple[Run, ...]
    attempts: list[Tried]
    spent: int
    held: int


def try_cells(suite: Path, sandbox: Any, agent: Shell, out: Path, **options: Any) -> Trial:
    """Run the task once in each of `arms`, one after the other, while `progress` watches."""
    loaded = load_suite(suite)
    arms = options.get("arms", ["head"])
    plan = make_plan(
        Wanted(
            tasks=list(loaded.units),
            arms=arms,
            repeats=1,
            seed=1,
            agent="shell",
            model="none",
            cap_usd_micros=10_000_000,
            per_run_usd_micros=HOLD,
        )
    )
    units = {name: (loaded, tasks) for name, tasks in loaded.units.items()}
    with Journal(out) as journal:
        journal.open_gate("k", resume=False)
        ledger = Ledger(10_000_000)
        evaluation = Evaluation("e", "s", plan, units, {"none": None, "head": SKILL}, agent, sandbox)
        progress = options.get("progress", Quiet())
        runs = execute(evaluation, Bench(journal, ledger, progress, workers=1, backoff_s=0.01))
        rows = journal._db.execute("SELECT run, used_usd_micros FROM attempts ORDER BY id").fetchall()
    tried = [(msgspec.json.decode(blob, type=Run), used) for blob, used in rows]
    attempts = [Tried(run.outcome, run.reason, used) for run, used in tried]
    return Trial(runs, attempts, ledger.spent_usd_micros, ledger.held_usd_micros)
