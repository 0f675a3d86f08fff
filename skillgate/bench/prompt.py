"""Task, skill and feedback -> what the agent is told. Pure.

Both arms get the same words but for the skill, and that only where it is injected into the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable

from skillgate.bench.suite import Task
from skillgate.core import Grade, Inject
from skillgate.skill import Skill

MAX_FEEDBACK = 4000


def compose(task: Task, skill: Skill | None, inject: Inject, feedback: str = "") -> str:
    """Return the prompt of one attempt."""
    before = _introduce(skill) if skill is not None and inject is Inject.PROMPT else ""
    after = (
        f"\n## Your last attempt\n\nIt is not done yet. The checks said:\n\n{feedback}" if feedback else ""
    )
    return f"{before}{task.prompt}{after}"


def feedback_of(grades: Iterable[Grade]) -> str:
    """Return what failed graders said, for the next attempt; each gets an equal share of the room."""
    failed = [grade for grade in grades if not grade.passed]
    room = MAX_FEEDBACK // max(len(failed), 1)
    return "".join(f"- {grade.grader}: {grade.detail.strip() or 'failed'}"[:room] + "\n" for grade in failed)


def _introduce(skill: Skill) -> str:
    return f'Use this skill where it helps.\n\n<skill name="{skill.name}">\n{skill.body}\n</skill>\n\n'
