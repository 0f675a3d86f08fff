"""What a check is: a struct whose fields are the options of a rule and whose call gives hits.

A check knows nothing of ids, severities and wording: the rule file says those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillgate.core import Location, Struct, TaskFacts
from skillgate.skill import Skill


class Hit(Struct, kw_only=True):
    """A place that a check found; `values` fill the `{...}` in what the rule says of its `variant`."""

    where: Location
    match: str = ""
    variant: str = ""
    values: dict[str, str] = {}


class Check(Struct, kw_only=True, rename="kebab"):
    """The base of every kind of check."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the hits of one skill. Tasks are those of the suites that judge it, none without a suite."""
        raise NotImplementedError


def quoted(names: Sequence[str]) -> str:
    """Write names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)
