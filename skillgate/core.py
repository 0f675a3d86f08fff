"""The types everything flows through, from a cell to a gate report.

All are frozen, keyword-only structs whose field names are also the JSON field names.
Money is integer micro-dollars, time is seconds, lines and columns count from 1, paths
are relative to the repository root with forward slashes. No I/O, no other layer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

# isort: off
from skillgate.comparison import (  # a part of this module
    ArmPair as ArmPair,
    Calibration as Calibration,
    Comparison as Comparison,
    FlakyTask as FlakyTask,
    Interval as Interval,
    Label as Label,
    Look as Look,
    Metric as Metric,
    Rate as Rate,
    SignFlip as SignFlip,
    Stop as Stop,
    TaskDelta as TaskDelta,
)

# isort: on
from skillgate.values import FailOn, InputPrice, Location, Ranked, Ratio, Severity, Struct, TokenWeight, Usage

SCHEMA_VERSION = 1
API_AGENT = "api"
SCRIPTED_AGENT = "scripted"
SCRIPTED_LABEL = "scripted, not a measurement"

# --- findings ---------------------------------------------------------------------


class Finding(Struct, kw_only=True):
    """One hit of one rule. A risk with its source, never a prediction.

    A redacted one speaks of a secret: the line that it stands on is not to be shown. One that is
    `at_base` was there before the change that is judged.
    """

    rule: str
    severity: Severity
    scope: str
    message: str
    where: Location
    hint: str = ""
    evidence: str = ""
    match: str = ""
    redacted: bool = False
    at_base: bool = False

    @property
    def order(self) -> tuple[int, bool, Location, str]:
        """Sort by it to have the severest first, of these what a change brings, then by place."""
        return -self.severity.rank, self.at_base, self.where, self.rule

    @property
    def statement(self) -> str:
        """Return the message as it is shown, which tells whether the change brought it."""
        return f"{self.message} (already there before this change)" if self.at_base else self.message

    @property
    def fingerprint(self) -> str:
        """Identify this finding by rule, path and matched text: it survives moved lines."""
        key = "\0".join((self.rule, self.where.path, self.match))
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Answer(Struct, kw_only=True):
    """A text that gives a task away; `source` says where in the suite it stands."""

    text: str
    source: str


class TaskFacts(Struct, kw_only=True):
    """What the linter may know of a task: where it wants its files, and its answers."""

    task: str
    where: Location
    deliverables: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()


# --- the paired run ---------------------------------------------------------------

NONE_ARM = "none"
BASE_ARM = "base"
HEAD_ARM = "head"
CONTROL_ARM = "control"
ARMS = (NONE_ARM, BASE_ARM, HEAD_ARM, CONTROL_ARM)  # and "without:<slice>"


class Cell(Struct, kw_only=True, order=True):
    """One planned execution. `task` is `suite/task`; `repeat` counts from 0."""

    task: str
    arm: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.task} [{self.arm} #{self.repeat + 1}]"


class Inject(StrEnum):
    """How an agent gets the skill: as a folder where it looks for skills, or as words of its prompt."""

    SKILL = "skill"
    PROMPT = "prompt"


class Plan(Struct, kw_only=True):
    """The cells in the order they start, arms interleaved; same config and seed, same plan.

    A task may have fewer repeats than another, which is cheaper. `reused` are cells that earlier runs are
    expected to fill; `task_usd_micros` is what a run of a task should cost, where that is known.
    """

    cells: tuple[Cell, ...]
    seed: int
    agent: str
    model: str
    cap_usd_micros: int
    per_run_usd_micros: int
    expected_run_usd_micros: int
    expected_from: str
    inject: Inject = Inject.SKILL
    reused: tuple[Cell, ...] = ()
    task_usd_micros: dict[str, int] = {}

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arms in the order of their first cell."""
        return tuple(dict.fromkeys(cell.arm for cell in self.cells))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the task ids, sorted."""
        return tuple(sorted({cell.task for cell in self.cells}))

    @property
    def repeats(self) -> int:
        """Return the planned repeats of the head, of a task that has most."""
        return max((cell.repeat for cell in self.cells if cell.arm == HEAD_ARM), default=-1) + 1

    @property
    def task_repeats(self) -> dict[str, int]:
        """Return the planned repeats of the head by task."""
        return dict(sorted(Counter(cell.task for cell in self.cells if cell.arm == HEAD_ARM).items()))

    @property
    def worst_case_usd_micros(self) -> int:
        """Return what this plan can cost at most: every new run at its own limit, or the cap."""
        new = len(self.cells) - len(self.reused)
        return min(self.cap_usd_micros, new * self.per_run_usd_micros)

    @property
    def expected_usd_micros(self) -> int:
        """Return what this plan is expected to cost."""
        return self.cost_of(set(self.cells) - set(self.reused))

    def cost_of(self, cells: Iterable[Cell]) -> int:
        """Return what new runs of some cells should cost."""
        return sum(self.task_usd_micros.get(cell.task, self.expected_run_usd_micros) for cell in cells)

    @property
    def is_scripted(self) -> bool:
        """Say whether its runs show the machinery only and measure no skill."""
        return self.agent == SCRIPTED_AGENT


class Outcome(StrEnum):
    """How a run ended. INVALID and SKIPPED have no score."""

    PASSED = "passed"
    FAILED = "failed"
    LIMIT = "limit"
    INVALID = "invalid"
    SKIPPED = "skipped"

    @property
    def is_scored(self) -> bool:
        """Say whether the run has a pass ratio."""
        return self in (Outcome.PASSED, Outcome.FAILED, Outcome.LIMIT)


class GradeKind(StrEnum):
    """A grader either starts to pass with the task done, or must keep passing."""

    FAIL_TO_PASS = "fail-to-pass"
    PASS_TO_PASS = "pass-to-pass"


class Grade(Struct, kw_only=True):
    """What one grader (or one JUnit test case of it) said."""

    grader: str
    kind: GradeKind
    passed: bool
    detail: str = ""


class Step(Struct, kw_only=True):
    """One task of a chain, or a task with several attempts; `passed_at` counts attempts from 1."""

    task: str
    passed_at: int | None = None


class Run(Struct, kw_only=True):
    """An executed cell.

    `steps` are those of `planned_steps` that were reached, if there can be more than one; `models` answered;
    by the agent's own books it cost `reported_usd_micros`; `trace_path`, as seen from the report, has what it
    said.
    """

    cell: Cell
    outcome: Outcome
    grades: tuple[Grade, ...] = ()
    usage: Usage = Usage()
    wall_s: float = 0.0
    reason: str = ""
    skill_used: bool | None = None
    changed_files: tuple[str, ...] = ()
    trace_path: str | None = None
    steps: tuple[Step, ...] = ()
    planned_steps: int = 0
    models: tuple[str, ...] = ()
    reported_usd_micros: int | None = None

    @property
    def pass_ratio(self) -> float | None:
        """Return the share of passed graders in [0, 1], None when the run has no score."""
        if not self.outcome.is_scored or not self.grades:
            return None
        return sum(grade.passed for grade in self.grades) / len(self.grades)


# --- policy and verdict -------------------------------------------------------------


class OnInconclusive(StrEnum):
    """What an inconclusive verdict does to the exit code."""

    PASS = "pass"
    FAIL = "fail"


class Policy(Struct, kw_only=True, rename="kebab"):
    """When a change may merge; ratios, not percent. Spelled in JSON as in skillgate.yml."""

    margin: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.10
    max_cost_increase: Annotated[float, msgspec.Meta(ge=0)] = 0.20
    on_inconclusive: OnInconclusive = OnInconclusive.PASS
    max_dropped: Ratio = 0.20
    level: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.95


class Decision(Ranked):
    """The word of a verdict; a gate takes the worst of its skills."""

    MERGE = "merge"
    NOT_RUN = "not-run"
    INCONCLUSIVE = "inconclusive"
    HOLD = "hold"
    BLOCK = "block"


class Verdict(Struct, kw_only=True):
    """A decision and why, in sentences with numbers."""

    decision: Decision
    reasons: tuple[str, ...] = ()

    def passes(self, policy: Policy) -> bool:
        """Say whether the gate lets the change through."""
        if self.decision is Decision.INCONCLUSIVE:
            return policy.on_inconclusive is OnInconclusive.PASS
        return self.decision in (Decision.MERGE, Decision.NOT_RUN)


# --- reports ----------------------------------------------------------------------


class ChangeKind(StrEnum):
    """What a git range did to a skill."""

    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    DELETED = "deleted"


class SkillChange(Struct, kw_only=True):
    """One skill folder of a git range; `old_path` only after a rename."""

    path: str
    kind: ChangeKind
    old_path: str | None = None
    files: tuple[str, ...] = ()


class Spend(Struct, kw_only=True):
    """Money: spent for certain, held for calls whose cost nobody knows, and the cap.

    Reused runs are of earlier gates, or of another skill of this one; saved ones were not needed any more
    when the verdict was known, and would have cost about `saved_usd_micros`.
    """

    spent_usd_micros: int = 0
    held_usd_micros: int = 0
    cap_usd_micros: int = 0
    runs: int = 0
    invalid_runs: int = 0
    skipped_runs: int = 0
    reused_runs: int = 0
    saved_runs: int = 0
    saved_usd_micros: int = 0


class Report(Struct, kw_only=True):
    """Everything about one skill; every renderer works from this alone.

    `adjusted_p` is the p value of a drop, by Holm's method among the `skills_compared` of the gate, None
    where the skill is alone.
    """

    schema: int = SCHEMA_VERSION
    skill: str
    change: SkillChange
    findings: tuple[Finding, ...] = ()
    weight_base: TokenWeight | None = None
    weight_head: TokenWeight | None = None
    input_price: InputPrice | None = None
    plan: Plan | None = None
    runs: tuple[Run, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    judged: ArmPair | None = None
    looks: tuple[Look, ...] = ()
    skills_compared: int = 1
    adjusted_p: float | None = None
    calibration: Calibration | None = None
    verdict: Verdict
    spend: Spend = Spend()
    versions: dict[str, str] = {}

    def comparison(self, metric: Metric) -> Comparison | None:
        """Return the comparison that the verdict used for this metric; `judged` names its arms."""
        found = (c for c in self.comparisons if c.metric is metric and self.judged in (None, c.arms))
        return next(found, None)


class GateReport(Struct, kw_only=True):
    """What `report.json` holds: one report per changed skill and the worst verdict.

    `notes` say what a reader of the verdict has to know of how it came about; it `is_partial` when
    somebody stopped the runs.
    """

    schema: int = SCHEMA_VERSION
    base: str
    head: str
    reports: tuple[Report, ...] = ()
    policy: Policy = Policy()
    fail_on: FailOn = FailOn.ERROR
    verdict: Verdict
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    spend: Spend = Spend()
    versions: dict[str, str] = {}

    @property
    def passes(self) -> bool:
        """Say whether the gate lets the range through; a partial result never does."""
        return not self.is_partial and self.verdict.passes(self.policy)

    @property
    def is_scripted(self) -> bool:
        """Say whether any number in here comes from the scripted agent."""
        return any(report.plan is not None and report.plan.is_scripted for report in self.reports)
