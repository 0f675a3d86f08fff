"""What a check is: a struct whose fields are the options of a rule and whose call gives hits.

A check knows nothing of ids, severities and wording: the rule file says those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skillgate.core import TaskFacts
from skillgate.skill import Skill, Stray
from skillgate.values import Location, Struct

MAX_TITLE_CHARS, MAX_NAMED = 60, 3


class Hit(Struct, kw_only=True):
    """A place that a check found; `values` fill the `{...}` in what the rule says of its `variant`.

    `match` identifies the hit when lines move; a redacted one holds nothing of a secret.
    """

    where: Location
    match: str = ""
    variant: str = ""
    values: dict[str, str] = {}
    redacted: bool = False


class Check(Struct, kw_only=True, rename="kebab", dict=True):
    """The base of every kind of check that looks at one skill."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the hits of one skill. Tasks are those of the suites that judge it, none without a suite."""
        raise NotImplementedError

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give the options that are regular expressions, by name: to refuse a wrong one before it is used."""
        return iter(())


class Listed(Struct, kw_only=True):
    """What the other skills of a repository, and a client's list, need to know of one skill.

    `when_to_use` is Claude Code's second description; a skill is `hidden` when no model may choose it.
    """

    path: str
    name: str
    description: str
    name_at: Location
    description_at: Location
    when_to_use: str = ""
    hidden: bool = False


class Library(NamedTuple):
    """The skills that were found together, and what looks like one and is none; `folder` was searched.

    Of two skills that clash the later one is told: sort those last that a change touches. `about` is the
    path of the one skill that is judged, where what is true of all must not be told. `left_out` skills
    are there and not wanted by the configuration.
    """

    skills: tuple[Listed, ...]
    strays: tuple[Stray, ...] = ()
    folder: str = "."
    about: str = ""
    left_out: int = 0

    def place_of(self, skills: Sequence[Listed]) -> Listed | None:
        """Return which of these is told what holds for all: the one judged, or the same however they lie."""
        chosen = [skill for skill in skills if self.about in ("", skill.path)]
        return min(chosen, key=lambda skill: skill.path, default=None)


class LibraryCheck(Struct, kw_only=True, rename="kebab"):
    """The base of every kind of check that looks at all skills together."""

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give the hits of all skills; `where` lies in the skill that is told."""
        raise NotImplementedError


def listed(skill: Skill) -> Listed:
    """Return what the others need to know of a skill."""
    fields, start = skill.frontmatter, skill.source.location(0)
    name, description, when = (fields.get(key) for key in ("name", "description", "when_to_use"))
    return Listed(
        path=skill.path,
        name=skill.name or "",
        description=skill.description or "",
        name_at=name.value_at if name else start,
        description_at=description.value_at if description else start,
        when_to_use=(when.text or "") if when else "",
        hidden=skill.is_hidden,
    )


def quoted(names: Sequence[str]) -> str:
    """Write names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)


def shortened(title: str) -> str:
    """Cut a title that is too long to be one."""
    return title if len(title) <= MAX_TITLE_CHARS else f"{title[: MAX_TITLE_CHARS - 1].rstrip()}…"


def some(names: Sequence[str]) -> str:
    """Write at most three names as code, and how many are left."""
    left = len(names) - MAX_NAMED
    return f"{quoted(names[:MAX_NAMED])}{f' and {left} more' if left > 0 else ''}"


def more(names: Sequence[str]) -> str:
    """Name the others of a group in parentheses, at most three of them; nothing when there are none."""
    return f" (also {some(names)})" if names else ""
