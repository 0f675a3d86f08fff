"""A journal -> the calibration record of a suite: how often identical skills are called different on it.

Runs that differ in nothing that decides them, whatever gate they were made for, are split into pairs of arms.
`calibration.json` is what it leaves and what reports cite.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from skillgate import __version__
from skillgate.bench.history import scored_runs
from skillgate.bench.journal import FILE_NAME as JOURNAL_NAME
from skillgate.bench.runner import Progress
from skillgate.core import Calibration, Policy
from skillgate.errors import PrerequisiteError, UsageError, writing
from skillgate.gate.calibration_record import FILE_NAME
from skillgate.gate.contents import HOW, Picked, Wanted, pick, refuse_scripted, suite_of
from skillgate.gate.pipeline import Options, make_folder, run_against_itself
from skillgate.report.json import write
from skillgate.stats.calibrate import SPLITS, Calibrated, Content, TooFewRuns, calibrate


class Request(NamedTuple):
    """Which runs of the journal in `out` to calibrate on, and how.

    `repeats` in each arm, None for most; `key` sealed the runs.
    """

    out: Path
    wanted: Wanted = Wanted()
    policy: Policy = Policy()
    repeats: int | None = None
    splits: int = SPLITS
    seed: int = 0
    key: bytes = b""


class Found(NamedTuple):
    """A record, and what a reader has to know of how it came about."""

    record: Calibration
    notes: tuple[str, ...]


# --- making a record --------------------------------------------------------------


def calibrate_journal(request: Request) -> Found:
    """Calibrate on the runs that a journal holds. Spends nothing.

    Raises: PrerequisiteError when there are too few runs, UsageError when nothing is as named.
    """
    path = request.out / JOURNAL_NAME
    if not path.is_file():
        raise PrerequisiteError(f"{path}: there is no journal", HOW)
    picked = pick(tuple(scored_runs(path, request.key)), request.wanted)
    try:
        found = calibrate(
            picked.contents, request.policy, repeats=request.repeats, splits=request.splits, seed=request.seed
        )
    except TooFewRuns as problem:
        raise _too_few(problem, picked.contents) from None
    return Found(_record(found, picked, request), (*picked.notes, *_notes(found)))


def save(record: Calibration, out: Path) -> Path:
    """Write the record into a folder, whole or not at all; return the file."""
    path = out / FILE_NAME
    with writing(out):
        make_folder(out)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=out, delete=False) as part:
            part.write(write(record))
        Path(part.name).replace(path)
    return path


def run_for(request: Request, folder: Path, root: Path, options: Options, progress: Progress) -> Request:
    """Run a skill against itself, every planned repeat; return what to calibrate on then.

    Args: request: what is wanted of it is the agent that will run.

    Raises: UsageError when nothing would run, and whatever a gate raises.
    """
    refuse_scripted(request.wanted)
    (report,) = run_against_itself(folder, root, options, progress).reports
    if report.plan is None:
        raise UsageError(f"{report.skill}: nothing was run: {report.verdict.reasons[-1]}")
    suites = tuple(sorted({suite_of(task) for task in report.plan.tasks}))
    wanted = request.wanted._replace(suites=suites, agent=report.plan.agent, model=report.plan.model)
    return request._replace(wanted=wanted, repeats=None)


def _record(found: Calibrated, picked: Picked, request: Request) -> Calibration:
    return Calibration(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        skillgate=__version__,
        agent=picked.who.agent,
        model=picked.who.model,
        suites=picked.suites,
        tasks=found.tasks,
        runs=found.runs,
        repeats=found.repeats,
        splits=found.splits,
        seed=request.seed,
        margin=request.policy.margin,
        level=request.policy.level,
        false_block=found.false_block,
        false_merge=found.false_merge,
        called_different=found.called_different,
        coverage=found.coverage,
        sd=found.sd,
        flaky=found.flaky,
    )


# --- what to say ------------------------------------------------------------------


def _too_few(problem: TooFewRuns, contents: Sequence[Content]) -> PrerequisiteError:
    most = max((len(runs) for content in contents for runs in content.values()), default=0)
    message = (
        f"too few runs to calibrate on: a task needs {problem.needed} of the same skill, no task has more "
        f"than {most}; {problem.missing} more would do"
    )
    return PrerequisiteError(message, HOW)


def _notes(found: Calibrated) -> list[str]:
    notes = []
    if found.left_out:
        notes.append(f"Left out, with less than {2 * found.repeats} runs: {', '.join(found.left_out)}.")
    if found.contents > 1:
        notes.append(f"{found.contents} sets of like runs (a skill, or none), each split by itself.")
    if found.distinct < found.splits:
        notes.append(f"There are only {found.distinct} different splits: more runs would say more.")
    return notes
