"""The paired run of one skill, wave by wave: a look after each, and no run once the answer is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from skillgate.bench.attempt import Evaluation
from skillgate.bench.canary import canary_verdict
from skillgate.bench.reuse import Baselines, Refusal, describe_refused
from skillgate.bench.runner import Bench, Execution
from skillgate.config import Config
from skillgate.core import (
    HEAD_ARM,
    ArmPair,
    Cell,
    Comparison,
    GradeKind,
    Look,
    Outcome,
    Plan,
    Run,
    Stop,
)
from skillgate.errors import Interrupted
from skillgate.stats.compare import compare
from skillgate.stats.sequential import Design, examine, repeated_p

INTERRUPTED = "not started: the gate was interrupted"


class Paired(NamedTuple):
    """What a paired run gave; `is_partial` when the user stopped it.

    `not_needed` cells were planned and not run, as the verdict was known.
    """

    runs: tuple[Run, ...]
    comparisons: tuple[Comparison, ...]
    looks: tuple[Look, ...]
    drop_p: float
    reused: frozenset[Cell]
    not_needed: tuple[Cell, ...]
    notes: tuple[str, ...]
    is_partial: bool


def run_paired(
    evaluation: Evaluation, bench: Bench, config: Config, baselines: Baselines, skills: int
) -> Paired:
    """Run the waves of a plan, up to the look that decides; then as many repeats of a third arm.

    Args: skills: how many skills of this gate a block has to stand up to.
    Raises: PrerequisiteError when the journal cannot be written.
    """
    paired = _PairedRun(evaluation, bench, config, baselines, skills)
    with paired.execution:
        return paired.play()


def broken_graders(runs: Iterable[Run]) -> str:
    """Name the graders that no run in any arm could pass although doing nothing should; empty when none."""
    grades = [(run.cell.task, grade) for run in runs if run.outcome.is_scored for grade in run.grades]
    passed = {(task, grade.grader) for task, grade in grades if grade.passed}
    safe = {(task, grade.grader) for task, grade in grades if grade.kind is GradeKind.PASS_TO_PASS}
    dead = sorted(safe - passed)
    if not grades or (passed and not dead):
        return ""
    return f"the pass-to-pass grader `{dead[0][1]}` of {dead[0][0]}" if dead else "every grader of every task"


def p_of_drop(comparisons: Sequence[Comparison]) -> float:
    """Return the p value of a drop of the pass ratio, 1 when there is none; without repeats the test's."""
    if not comparisons or comparisons[0].delta >= 0:
        return 1.0
    scores = comparisons[0]
    if scores.p is not None:
        return scores.p
    return scores.sign_flip.p if scores.sign_flip else 1.0


class _PairedRun:
    """The state between looks: the runs so far, and the looks that were taken."""

    def __init__(
        self, evaluation: Evaluation, bench: Bench, config: Config, baselines: Baselines, skills: int
    ) -> None:
        self._evaluation, self._bench = evaluation, bench
        self.execution = Execution(evaluation, bench, self._reuse)
        self._baselines, self._reuses_earlier = baselines, config.run.cache_days > 0
        self._policy, self._early, self._skills = config.policy, config.run.stop_early, skills
        self._plan: Plan = evaluation.plan
        self._arms = ArmPair(next(arm for arm in self._plan.arms if arm != HEAD_ARM), HEAD_ARM)
        self._repeats = self._plan.task_repeats
        self._runs: dict[Cell, Run] = {}
        self._tried: set[Cell] = set()
        self._earlier: set[Cell] = set()
        self._looks: list[Look] = []
        self._notes: list[str] = []
        self._is_partial = False

    def play(self) -> Paired:
        design = self._design()
        for number, repeats in enumerate(design.repeats):
            self._run(c for c in self._plan.cells if c.arm in self._arms and self._is_due(c, repeats))
            if number == 0 and not self._is_partial and not self._confirm(self._arms.base):
                design = self._design()
            self._looks.append(self._look(design, number))
            if self._looks[-1].stop is not None or self._is_partial:
                self._tell(self._looks[-1])
                break
        used = self._looks[-1].repeats
        third = [arm for arm in self._plan.arms if arm not in self._arms]
        for arm in third if self._looks[-1].stop is not Stop.BROKEN and not self._is_partial else ():
            self._run(c for c in self._plan.cells if c.arm == arm and c.repeat < used)
            self._confirm(arm)
        return self._result(design)

    def _tell(self, look: Look) -> None:
        """Say on the console why fewer runs are made than were announced."""
        if look.stop is not Stop.LAST:
            after = f"{look.repeats} of {look.planned} repeats"
            self._bench.progress.note(f"{self._evaluation.label}: ended after {after}: {look.stop}")

    def _is_due(self, cell: Cell, repeats: int) -> bool:
        return cell.repeat < repeats or self._is_extra(cell)

    def _is_extra(self, cell: Cell) -> bool:
        """Say whether a cell is a repeat of the base beyond the head's: it costs nothing or is not run."""
        return cell.arm != HEAD_ARM and cell.repeat >= self._repeats[cell.task]

    def _design(self) -> Design:
        """Plan the looks on the cells that there are, before any look."""
        lost = {cell for cell in self._tried if self._is_extra(cell) and cell not in self._runs}
        base = Counter(c.task for c in self._plan.cells if c.arm == self._arms.base and c not in lost)
        head = list(self._repeats.values())
        alpha = 1 - self._policy.level
        return Design.of(head, [base[task] for task in self._repeats], alpha, early=self._early)

    def _run(self, cells: Iterable[Cell]) -> None:
        """Run cells that were not tried before, or take them from other runs."""
        wave = [cell for cell in cells if cell not in self._tried]
        try:
            found = self.execution.run(wave, {cell for cell in wave if self._is_extra(cell)})
        except Interrupted:
            self._is_partial = True
            found = self.execution.finished(wave, INTERRUPTED)
        self._tried.update(wave)
        self._runs |= {run.cell: run for run in found}

    def _reuse(self, cell: Cell) -> Run | None:
        """Find another run for a cell of a baseline: of this gate, or (but the first) of an earlier one."""
        if cell.arm == HEAD_ARM:
            return None
        run = self._baselines.shared(cell)
        if run is None and cell.repeat and self._reuses_earlier:
            run = self._baselines.earlier(cell)
            self._earlier |= {cell} if run else set()
        return run

    def _confirm(self, arm: str) -> bool:
        """Hold fresh runs of a baseline against earlier ones; where they differ, run those cells anew."""
        mine = {cell for cell in self._earlier if cell.arm == arm}
        fresh = [r for c, r in self._runs.items() if c.arm == arm and c.repeat == 0]
        doubt = canary_verdict(fresh, self._baselines.candidates(arm)) if mine else ""
        if not doubt:
            return True
        self._baselines.distrust()
        self._notes.append(f"{len(mine)} runs of earlier gates were not reused. {doubt}")
        self.execution.forget(mine)
        self._earlier -= mine
        again = sorted(cell for cell in mine if not self._is_extra(cell))
        for cell in mine:
            del self._runs[cell]
        self._tried -= set(again)
        self._run(again)
        return False

    def _look(self, design: Design, number: int) -> Look:
        level = 1 - design.levels[number]
        return Look(
            repeats=design.repeats[number],
            planned=self._plan.repeats,
            information=design.times[number],
            level=level,
            stop=self._stop(design, number, level),
        )

    def _stop(self, design: Design, number: int, level: float) -> Stop | None:
        if self._is_partial or any(run.outcome is Outcome.SKIPPED for run in self._runs.values()):
            return Stop.CUT
        if broken_graders(self._runs.values()):
            return Stop.BROKEN
        return examine(self._compare(self._arms, level), self._policy, design, number, self._skills)

    def _compare(self, arms: ArmPair, level: float) -> tuple[Comparison, ...]:
        """Compare what was tried; what the money did not reach after the first look was not planned."""
        first = min(2, self._plan.repeats)
        planned = [
            cell
            for cell in self._tried
            if cell.repeat < first or (cell in self._runs and self._runs[cell].outcome is not Outcome.SKIPPED)
        ]
        return compare(tuple(self._runs.values()), arms, planned, level=level, seed=self._plan.seed)

    def _result(self, design: Design) -> Paired:
        last = self._looks[-1]
        comparisons = self._compare(self._arms, last.level)
        for arm in self._plan.arms:
            if arm not in self._arms:
                comparisons += self._compare(ArmPair(arm, HEAD_ARM), self._policy.level)
        return Paired(
            runs=tuple(self._runs[cell] for cell in self._plan.cells if cell in self._runs),
            comparisons=comparisons,
            looks=tuple(self._looks),
            drop_p=repeated_p(design, len(self._looks) - 1, p_of_drop(comparisons)),
            reused=frozenset(self.execution.reused),
            not_needed=tuple(c for c in self._plan.cells if c not in self._tried and not self._is_extra(c)),
            notes=(*self._notes, *self._refusals()),
            is_partial=self._is_partial,
        )

    def _refusals(self) -> Iterable[str]:
        """Say what was wrong with earlier runs; that some are old is nothing to tell."""
        refused = self._baselines.refused
        del refused[Refusal.EXPIRED]
        return filter(None, [describe_refused(refused)])
