"""One changed skill, ready to be judged: its findings, its suites, and why nothing will run, if so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from skillgate.bench.suite import Suite, Task, task_facts
from skillgate.config import Config, LintConfig
from skillgate.core import BASE_ARM, HEAD_ARM, NONE_ARM, ArmPair, Finding, Plan, TaskFacts
from skillgate.gate.changes import Subject
from skillgate.lint.check import Library
from skillgate.lint.engine import Checked, check_skill, lint_library
from skillgate.lint.rule import Rule
from skillgate.lint.sift import Baseline, merged, sift
from skillgate.skill import Skill, is_too_long

NO_AGENT = "no agent is configured: set `run.agent` in skillgate.yml for a paired run"
NO_SUITE = "no suite judges this skill: name one under `suites` in skillgate.yml"
SAME_CONTENT = "its content is the same as before: nothing to compare"
NOT_INSTALLED = "what changed is not installed in a run (links, modes, skipped folders), look at it: {files}"
TOO_LONG = "it holds a path that is too long to be installed"
DELETED = "the skill was deleted: nothing to run"


class Case(NamedTuple):
    """A subject that is ready to be judged; `why_not` says why nothing will run."""

    subject: Subject
    suites: tuple[Suite, ...]
    findings: tuple[Finding, ...]
    plan: Plan | None
    why_not: str

    @property
    def units(self) -> dict[str, tuple[Suite, tuple[Task, ...]]]:
        """Map what a cell executes to its suite and tasks."""
        return {name: (suite, tasks) for suite in self.suites for name, tasks in suite.units.items()}

    @property
    def arms(self) -> ArmPair:
        """Return the two arms that decide: base to head, or none to head of a new skill."""
        return ArmPair(NONE_ARM if self.subject.base is None else BASE_ARM, HEAD_ARM)

    @property
    def skills(self) -> dict[str, Skill | None]:
        """Map arms to the skill they install."""
        return {NONE_ARM: None, BASE_ARM: self.subject.base, HEAD_ARM: self.subject.head}


class Linter(NamedTuple):
    """What every subject of a gate is linted with."""

    rules: Sequence[Rule]
    library: Library
    baseline: Baseline
    config: LintConfig

    def lint(self, subject: Subject, tasks: Sequence[TaskFacts]) -> tuple[Finding, ...]:
        """Lint the head of a subject: alone, and among the other skills of its repository.

        What the base has too is marked; it still counts.
        """
        if subject.head is None:
            return ()
        head = check_skill(subject.head, self.rules, tasks)
        base = check_skill(subject.base, self.rules, tasks) if subject.base is not None else None
        library = self.library._replace(about=subject.head.path)
        others = [f for f in lint_library(library, self.rules) if f.where.path == subject.head.file]
        found = (*head.findings, *others)
        trusted = self._silenced(base) if base else ()
        sifted = sift(found, head.comments, self.rules, self.config, baseline=self.baseline, trusted=trusted)
        old = _known(base.findings, subject.base) if base and subject.base else Counter()
        return tuple(merged(_marked(sifted.findings, subject.head, old)))

    def _silenced(self, base: Checked) -> list[str]:
        """Return what comments silence at the base."""
        ignored = sift(base.findings, base.comments, self.rules, self.config).ignored
        return [finding.fingerprint for finding in ignored]


def _known(findings: Iterable[Finding], skill: Skill) -> Counter[tuple[str, str, str]]:
    """Count findings by rule, file and match; the file as seen from the skill, which may have moved."""
    return Counter((finding.rule, skill.name_of(finding.where.path), finding.match) for finding in findings)


def _marked(
    findings: Iterable[Finding], skill: Skill, old: Counter[tuple[str, str, str]]
) -> Iterator[Finding]:
    """Mark each finding that the base has too, of equal ones no more than it has."""
    for finding in findings:
        (key,) = _known([finding], skill)
        old[key] -= 1
        yield replace(finding, at_base=old[key] >= 0)


def prepare(
    subject: Subject,
    suites: Sequence[Suite],
    linter: Linter,
    config: Config,
    why_not: str = "",
    *,
    against_itself: bool = False,
) -> Case:
    """Lint a subject, knowing the tasks that will judge it, and say why it will not run, if so.

    Args: against_itself: both versions are meant to be the same.
    """
    facts = [fact for suite in suites for fact in task_facts(suite)]
    findings = linter.lint(subject, facts)
    limited = tuple(_limited(suite, config.run.timeout_s) for suite in suites)
    reason = _why_not(subject, suites, config, why_not, against_itself=against_itself)
    return Case(subject, limited, findings, None, reason)


def _limited(suite: Suite, timeout_s: float) -> Suite:
    """Let no task run longer than the configuration allows."""
    capped = ((task, min(task.limits.timeout_s, timeout_s)) for task in suite.tasks)
    tasks = tuple(replace(task, limits=replace(task.limits, timeout_s=limit)) for task, limit in capped)
    return replace(suite, tasks=tasks)


def _why_not(
    subject: Subject, suites: Sequence[Suite], config: Config, why_not: str, *, against_itself: bool
) -> str:
    """Return the first reason not to run, in the order of what a reader can change least."""
    if subject.head is None:
        return DELETED
    if subject.head.facts.unreadable:
        return f"{subject.head.file} cannot be read: {subject.head.facts.unreadable}"
    if subject.is_same_content and subject.change.files:
        return NOT_INSTALLED.format(files=", ".join(subject.change.files[:5]))
    if subject.is_same_content and not against_itself:
        return SAME_CONTENT
    if any(map(is_too_long, subject.head.files.names)):
        return TOO_LONG
    if why_not:
        return why_not
    if config.run.agent is None:
        return NO_AGENT
    return "" if suites else NO_SUITE
