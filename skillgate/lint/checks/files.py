"""Checks of what could not be looked at: files cut short, undecodable, unreadable; no skill at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from skillgate.core import Location, TaskFacts
from skillgate.lint.check import Check, Hit, Library, LibraryCheck
from skillgate.skill import MAX_FILE_BYTES, MAX_LINES, Skill, is_too_long


class NotFullyRead(Check, kw_only=True, rename="kebab"):
    """A text file of the skill was not read, only in part, or only by guessing its encoding."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give one hit per file and reason."""
        for name in filter(is_too_long, skill.files.names):
            values = {"bytes": str(len(os.fsencode(name)))}
            yield Hit(where=Location(path=skill.locate(name)), match=name, variant="path", values=values)
        limits = {"bytes": f"{MAX_FILE_BYTES:,}", "lines": f"{MAX_LINES:,}"}
        for source in skill.sources:
            facts, where = source.facts, Location(path=source.path)
            if facts.unreadable:
                variant = "skill" if source is skill.source else ""
                values = {"detail": facts.unreadable}
                yield Hit(where=where, match="unreadable", variant=variant, values=values)
            if facts.truncated:
                yield Hit(where=where, match="size", variant="size", values=limits)
            if facts.encoding != "utf-8":
                yield Hit(
                    where=where, match="encoding", variant="encoding", values={"encoding": facts.encoding}
                )


class NoSkills(LibraryCheck, kw_only=True, rename="kebab"):
    """The search found no skill."""

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give the folder that was searched."""
        if not library.skills:
            where = Location(path=library.folder)
            yield Hit(where=where, match=library.folder, values={"folder": library.folder})
