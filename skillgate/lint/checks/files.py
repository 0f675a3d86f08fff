"""Checks of files as such: not found, not readable, or holding bytes that a client trips over."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence

from skillgate.config import FILE_NAME
from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, Library, LibraryCheck
from skillgate.skill import MAX_FILE_BYTES, MAX_LINES, SKILL_FILE, Skill, Source, is_too_long
from skillgate.values import Location

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINK = re.compile(r"(?:\.\.?/)*[\w.@+-]+(?:/[\w.@+-]+)*")
_MAX_LINK_CHARS = 1_000


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


class ByteOrderMark(Check, kw_only=True, rename="kebab"):
    """SKILL.md starts with a UTF-8 byte-order mark."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first character."""
        if skill.facts.bom and skill.facts.encoding == "utf-8":
            yield Hit(where=skill.source.location(0), match="BOM")


class LineEndings(Check, kw_only=True, rename="kebab"):
    """Lines of SKILL.md (variants `crlf`, `mixed`) or of a program (`script`) end in a carriage return."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first line of each file."""
        for source in skill.sources:
            kind = "mixed" if source.facts.mixed else "crlf"
            if source is not skill.source:
                kind = "script" if source.text.startswith("#!") else ""
            if source.facts.crlf and kind:
                yield Hit(where=source.location(0), match=kind, variant=kind)


class ControlCharacter(Check, kw_only=True, rename="kebab"):
    """A Markdown file holds control characters; those in the frontmatter make it invalid YAML anyway."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first one of each file, with the number of all."""
        for source in skill.sources:
            start = len(skill.text) - len(skill.body) if source is skill.source else 0
            told = source.facts.encoding != "utf-8"  # then they come from guessing
            found = _CONTROL.findall(source.text, start) if source.is_markdown and not told else []
            if found:
                where = source.location(source.text.index(found[0], start))
                shown = ", ".join(sorted({f"U+{ord(char):04X}" for char in found}))
                values = {"count": f"{len(found):,}", "characters": shown}
                yield Hit(where=where, match=shown, values=values)


class LinkAsText(Check, kw_only=True, rename="kebab"):
    """A file holds nothing but a path: a symbolic link that was committed as text.

    The variant `skill` is SKILL.md itself.
    """

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each such file."""
        for source in skill.sources:
            target = link_in(source)
            if target:
                variant = "skill" if source is skill.source else ""
                yield Hit(where=source.location(0), match=target, variant=variant, values={"target": target})


def link_in(source: Source) -> str:
    """Return the path that a file holds instead of text, as git writes a link where there are none."""
    path = source.text
    if "/" not in path or len(path) > _MAX_LINK_CHARS or not _LINK.fullmatch(path):
        return ""
    suffix = posixpath.splitext(source.path)[1]
    return path if posixpath.splitext(path)[1] == suffix and (suffix or path.startswith("../")) else ""


class NoSkills(LibraryCheck, kw_only=True, rename="kebab"):
    """The search found no skill.

    The variant `case` is one whose file is spelled otherwise, `left-out` what no pattern fits.
    """

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give the folder that was searched, or the misspelt file."""
        if not library.skills and library.left_out:
            values = {"skills": f"{library.left_out:,}"}
            yield Hit(where=Location(path=FILE_NAME), match="skills", variant="left-out", values=values)
        elif not library.skills:
            misspelt = next((stray.path for stray in library.strays if stray.kind == "case"), "")
            where = Location(path=misspelt or library.folder)
            values = {"folder": library.folder, "file": misspelt}
            yield Hit(where=where, match=where.path, variant="case" if misspelt else "", values=values)


class Strays(LibraryCheck, kw_only=True, rename="kebab"):
    """The search found what a person takes for a skill and a client does not, of one of these `kinds`.

    The variant is the kind; `beside` is a misspelt SKILL.md beside a right one.
    """

    kinds: tuple[str, ...]

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give each stray; a misspelt one where there is no skill at all is told as that."""
        owners = {skill.path for skill in library.skills}
        for stray in library.strays:
            if stray.kind not in self.kinds or (stray.kind == "case" and not owners):
                continue
            folder, name = posixpath.split(stray.path)
            beside = stray.kind == "case" and (folder or ".") in owners
            values = {"name": name, "path": stray.path, "right": posixpath.join(folder, SKILL_FILE)}
            variant = "beside" if beside else stray.kind
            yield Hit(where=Location(path=stray.path), match=name, variant=variant, values=values)
