"""What a case should cost, what earlier runs spare it, and its share of the money: before a run starts."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from skillgate import __version__
from skillgate.bench.history import past_scores, past_task_costs
from skillgate.bench.journal import Who
from skillgate.bench.plan import Wanted, expect, make_plan
from skillgate.bench.reuse import Terms, cached_counts, graders_of
from skillgate.bench.suite import unit_digest
from skillgate.config import Config
from skillgate.core import HEAD_ARM, NONE_ARM, SCRIPTED_AGENT, Cell, Plan
from skillgate.gate.case import Case
from skillgate.gate.means import Means
from skillgate.stats.power import PASS_RATIO_SD, POWER, detectable_effect, needed_repeats, pooled_sd
from skillgate.values import usd

DAY_S = 86_400
ENOUGH_FREEDOM = 20
"""With fewer degrees of freedom a published standard deviation says more than the journal's."""


class Store(NamedTuple):
    """Where runs of earlier gates are, and the key that sealed them."""

    path: Path
    key: bytes = b""

    def counts(
        self, contents: Mapping[tuple[str, str], str], terms: Terms, *, resume: bool
    ) -> dict[tuple[str, str], int]:
        """Return how many may be reused, by task and arm."""
        if terms.max_age_s <= 0:
            return {}
        return cached_counts(self.path, contents, terms, resume=resume, key=self.key)


class _Known(NamedTuple):
    """What the journal says of a case: costs by task, contents and numbers of baselines by task and arm."""

    costs: Mapping[str, Sequence[int]]
    baselines: Mapping[tuple[str, str], str]
    counts: Mapping[tuple[str, str], int]


class History:
    """What the runs of earlier gates, and those that this gate will do before, say to a plan.

    Reads the journal without a lock. Once the means are built it knows the image too, which decides what
    may be reused.
    """

    def __init__(self, config: Config, store: Store, *, resume: bool, means: Means | None = None) -> None:
        self._config, self._store, self._resume, self._means = config, store, resume, means
        self._who = Who(config.run.agent or "", config.run.model)
        self._planned: dict[str, int] = {}
        self._known: dict[str, _Known] = {}

    def costs(self, case: Case) -> Mapping[str, Sequence[int]]:
        """Return micro-dollars of earlier runs by task."""
        return self._of(case).costs

    def spread(self, case: Case) -> tuple[float, str]:
        """Return the standard deviation of pass ratios within a task and arm, and how it is known."""
        path, key = self._store
        past = past_scores(path, self._who, list(case.units), resume=self._resume, key=key)
        sd, freedom = pooled_sd([cell for cells in past.values() for cell in cells])
        if freedom < ENOUGH_FREEDOM:
            return PASS_RATIO_SD, "assumed"
        return sd, "from earlier runs of these tasks"

    def filled(self, case: Case) -> frozenset[Cell]:
        """Return the cells of baselines that earlier runs fill.

        Of an earlier gate's never the first repeat: a fresh one shows whether they still hold.
        """
        known = self._of(case)
        cells: set[Cell] = set()
        for (task, arm), content in known.baselines.items():
            beside = range(self._planned.get(content, 0))
            earlier = range(1, 1 + known.counts.get((task, arm), 0))
            cells |= {Cell(task=task, arm=arm, repeat=repeat) for repeat in (*beside, *earlier)}
        return frozenset(cells)

    def add(self, case: Case) -> None:
        """Take note of a planned case: those that follow share its baselines."""
        if case.plan is None:
            return
        for (task, arm), content in self._of(case).baselines.items():
            repeats = sum(cell.task == task and cell.arm == arm for cell in case.plan.cells)
            self._planned[content] = max(repeats, self._planned.get(content, 0))

    def _of(self, case: Case) -> _Known:
        """Look once into the journal, and at the files of the suites, for each case: it is planned often."""
        path = case.subject.change.path
        if path not in self._known:
            contents = contents_of(case, self._config, self._means)
            baselines = {key: content for key, content in contents.items() if key[1] != HEAD_ARM}
            self._known[path] = _Known(
                past_task_costs(self._store.path, self._who, list(case.units), resume=self._resume),
                baselines,
                self._store.counts(baselines, terms_of(case, self._config), resume=self._resume),
            )
        return self._known[path]


def plan_case(case: Case, config: Config, history: History, cap_usd_micros: int, shared_by: int = 1) -> Case:
    """Plan the runs of a case that will run within its share of the money, spending nothing.

    The arm none is added when the share pays all repeats of three arms.

    Raises: PrerequisiteError when the share cannot pay two repeats, and more than one are wanted.
    """
    if case.why_not:
        return case
    wanted = _wanted(case, config, history)._replace(cap_usd_micros=cap_usd_micros, shared_by=shared_by)
    three = wanted._replace(third=NONE_ARM)
    has_more_to_tell = NONE_ARM not in wanted.arms and not case.subject.is_same_content
    pays = has_more_to_tell and three.least_usd_micros(config.run.repeats) <= cap_usd_micros
    return case._replace(plan=make_plan(three if pays else wanted))


def plan_together(cases: Sequence[Case], config: Config, history: History) -> list[Case]:
    """Plan cases as if each took all of its share of the budget, which no other then needs.

    Raises: PrerequisiteError when it cannot pay two repeats of each, and more than one are wanted.
    """
    needs = [need_usd_micros(case, config, history) for case in cases]
    running = sum(not case.why_not for case in cases)
    planned = []
    for number, case in enumerate(cases):
        share = share_of(config.run.cap_usd_micros, [needs[number], *needs[:number], *needs[number + 1 :]])
        planned.append(plan_case(case, config, history, share, running))
        history.add(planned[-1])
    return planned


def need_usd_micros(case: Case, config: Config, history: History) -> int:
    """Return what all repeats of the two arms that decide need; 0 for a case that will not run."""
    return 0 if case.why_not else _wanted(case, config, history).least_usd_micros(config.run.repeats)


def _wanted(case: Case, config: Config, history: History) -> Wanted:
    run = config.run
    return Wanted(
        tasks=list(case.units),
        arms=case.arms,
        repeats=run.repeats,
        seed=run.seed,
        agent=run.agent or "",
        model=run.model,
        cap_usd_micros=run.cap_usd_micros,
        per_run_usd_micros=run.per_run_usd_micros,
        inject=run.inject,
        expected=expect(history.costs(case), run.per_run_usd_micros),
        filled=history.filled(case),
    )


def describe(case: Case, plan: Plan, config: Config, history: History) -> str:
    """Say in lines what a plan does, what it can cost, and what it can and cannot show."""
    head = list(plan.task_repeats.values())
    base = Counter(cell.task for cell in plan.cells if cell.arm == case.arms.base)
    sd, known = history.spread(case)
    effect = detectable_effect(head, [base[task] for task in plan.task_repeats], sd)
    least, most = min(head), max(head)
    repeats = f"{most} repeats" if least == most else f"{least} to {most} repeats, more of what is cheap"
    reused = f"  {len(plan.reused)} of them are there from earlier gates and cost nothing"
    shows = f"{effect * 100:.0f} points" if effect else "nothing: one repeat has no suite interval"
    lines = (
        f"{case.subject.change.path}: {len(plan.cells)} runs",
        f"  {len(plan.tasks)} tasks x arms {', '.join(plan.arms)} x {repeats}",
        f"  agent {plan.agent}, model {plan.model}, seed {plan.seed}",
        *([reused] if plan.reused else []),
        f"  expected ${usd(plan.expected_usd_micros):.2f} ({plan.expected_from})",
        f"  at most ${usd(plan.worst_case_usd_micros):.2f}; the cap is ${usd(plan.cap_usd_micros):.2f}",
        f"  smallest detectable change of the pass ratio: {shows} (power {POWER:g}, sd {sd:.2g} {known})",
        f"  {_no_worse(case, plan, config, history, sd)}",
        *(f"  {number:4} {cell}" for number, cell in enumerate(plan.cells, 1)),
    )
    return "\n".join(lines) + "\n"


def _no_worse(case: Case, plan: Plan, config: Config, history: History, sd: float) -> str:
    """Say whether a plan can call a skill that changed nothing no worse, and what would do."""
    margin, had = config.policy.margin, min(plan.task_repeats.values())
    what = f"to call an unchanged skill no worse (margin {100 * margin:g} points, power {POWER:g})"
    needed = needed_repeats(len(plan.tasks), margin, sd)
    if needed is None:
        return f"TOO SMALL {what}: more tasks are needed"
    if had >= needed:
        return f"enough {what}: {needed} repeats do"
    cents = math.ceil(_wanted(case, config, history).least_usd_micros(needed) / 10_000)
    return (
        f"TOO SMALL {what}: run.repeats {needed} and run.budget-usd {cents / 100:.2f} would do, or more tasks"
    )


def share_of(remaining_usd_micros: int, needs_usd_micros: Sequence[int]) -> int:
    """Return what the first of the skills that are still to run may use.

    What the others need is kept for them; where it does not do for all, each gets its part. So what one did
    not need flows on to the next.
    """
    first, others = needs_usd_micros[0], sum(needs_usd_micros[1:])
    fair = remaining_usd_micros * first // max(1, first + others)
    return max(fair, remaining_usd_micros - others)


def contents_of(case: Case, config: Config, means: Means | None) -> dict[tuple[str, str], str]:
    """Return, by task and arm, a digest of everything that decides a run: equal ones are exchangeable.

    The skill's bytes, the task without any skill, agent, model, meter settings and prices; with `means` the
    versions of agent and image too, in a second half: without them the first half is the start of it.
    """
    run = config.run
    settings = (
        (__version__, run.agent, run.model, run.inject, run.per_run_usd, run.per_run_tokens),
        (run.timeout_s, run.max_turns, run.provider, run.network, config.prices),
        run.seed if run.agent == SCRIPTED_AGENT else 0,
    )
    skills = {
        arm: (skill.folder_name, skill.files.digest()) if skill is not None else None
        for arm, skill in case.skills.items()
    }
    units = {unit: unit_digest(suite, tasks) for unit, (suite, tasks) in case.units.items()}
    place = "" if means is None else _digest((means.agent.version, means.sandbox.describe(), means.script))
    return {
        (unit, arm): _digest((settings, digest, skill)) + place
        for unit, digest in units.items()
        for arm, skill in skills.items()
    }


def terms_of(case: Case, config: Config) -> Terms:
    """Say what an earlier run must be like to stand for one of a case."""
    graders = {unit: graders_of(suite, tasks) for unit, (suite, tasks) in case.units.items()}
    return Terms(graders, config.run.per_run_usd_micros, DAY_S * config.run.cache_days)


def _digest(value: object) -> str:
    text = json.dumps(msgspec.to_builtins(value), sort_keys=True)  # escapes what is not UTF-8 in a path
    return hashlib.sha256(text.encode()).hexdigest()[:32]
