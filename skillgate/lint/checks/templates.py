"""The check of code blocks that are whole files: an agent may copy them although the task wants another."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from skillgate.core import Location, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.collision import collide, describe
from skillgate.skill import CodeBlock, Skill, Slice

_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w -]*>|\{\{ ?[\w-]+ ?\}\}|\bYOUR[_-]|\byour[_-]|\bTODO\b|\bCHANGE_?ME\b"
    r"|\bexample\.(?:com|org)\b|\bpath/to/|\bxxx+\b|# ?\.\.\.|// ?\.\.\.|^[ \t]*\.\.\.[ \t]*$",
    re.MULTILINE,
)
_PATH_PLACEHOLDER = re.compile(r"[<>{}$*]|\bpath/to\b|\b(?:your|my|example|foo)\b", re.IGNORECASE)
_ADAPT = re.compile(
    r"\b(?:adapt|adjust|customi[sz]e|tailor|modify|rename)\b|\breplace\b.{1,40}\bwith\b"
    r"|\b(?:do not|don['’]t|never) copy\b"
    r"|\bwhere the (?:task|user|project|repository)\b|\bonly (?:a sketch|an example|an illustration)\b",
    re.IGNORECASE,
)
_WHOLE_FILE = {
    kind: [re.compile(pattern, re.MULTILINE) for pattern in patterns]
    for kind, patterns in {
        "workflow": (r"^on:", r"^jobs:"),
        "composite action": (r"^runs:", r"^ +using:"),
        "manifest": (r"^apiVersion:", r"^kind:"),
        "compose file": (r"^services:",),
        "Dockerfile": (r"^FROM [\w$]", r"^RUN "),
        "page": (r"^<!(?:DOCTYPE|doctype) html",),
        "script": (r"\A#!",),
    }.items()
}


class TemplateAnchoring(Check, kw_only=True, rename="kebab"):
    """A block that names its own path, or is a whole file by its content, and invites copying.

    Its weight is 0 to 3: one each for a fixed path, no placeholder, no sentence nearby that says to adapt it.
    """

    min_lines: int = 20
    min_weight: int = 2

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each block: the variant `collision` where a task wants such a file in another folder."""
        adapting = [number for number, text in skill.prose if _ADAPT.search(text)]
        for block in skill.code_blocks:
            path = block.path or ""
            fixed = not _PATH_PLACEHOLDER.search(posixpath.dirname(path))
            collisions = collide(path, tasks) if fixed else ()
            if collisions:
                column = skill.source.lines[block.path_line - 1].find(path) + 1
                where = Location(path=skill.file, line=block.path_line, column=column or 1)
                values = {"path": path, "line": str(block.path_line)} | describe(collisions)
                yield Hit(where=where, match=path, variant="collision", values=values)
            else:
                yield from self._anchors(skill, block, adapting)

    def _anchors(self, skill: Skill, block: CodeBlock, adapting: Sequence[int]) -> Iterator[Hit]:
        kind = self._kind(block)
        points = _points(skill, block, adapting) if kind else []
        if len(points) < self.min_weight:
            return
        values = {"kind": kind, "lines": str(block.content.count("\n"))}
        values |= {"at": f" for `{block.path}`" if block.path else ""}
        values |= {"weight": str(len(points)), "why": ", ".join(points)}
        where = Location(path=skill.file, line=block.line)
        yield Hit(where=where, match=block.path or block.content[:200], values=values)

    def _kind(self, block: CodeBlock) -> str:
        """Name what whole file a block is, empty for an excerpt."""
        lines = block.content.count("\n")
        if block.path and lines >= (5 if posixpath.dirname(block.path) else self.min_lines):
            return "file"
        kinds = _WHOLE_FILE.items() if lines >= self.min_lines else ()
        return next((kind for kind, parts in kinds if all(part.search(block.content) for part in parts)), "")


def _points(skill: Skill, block: CodeBlock, adapting: Sequence[int]) -> list[str]:
    fixed = block.path and posixpath.dirname(block.path) and not _PATH_PLACEHOLDER.search(block.path)
    section = next((part for part in reversed(skill.slices) if part.line <= block.line), None)
    reasons = {
        "its path is fixed": bool(fixed),
        "it holds no placeholder": not _PLACEHOLDER.search(block.content),
        "no sentence says to adapt it": not _says_adapt(skill, section, adapting),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _says_adapt(skill: Skill, section: Slice | None, adapting: Sequence[int]) -> bool:
    first, last = (section.line, section.end_line) if section else (1, len(skill.source.lines))
    return bisect_left(adapting, first) < bisect_right(adapting, last)
