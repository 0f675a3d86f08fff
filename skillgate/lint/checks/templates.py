"""The check of code blocks that are whole files: an agent may copy them although the task wants another."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.collision import collide, describe
from skillgate.lint.lazy import lazy
from skillgate.skill import CodeBlock, Skill
from skillgate.values import Location

MAX_LINES_SHOWN = 5
_PLACEHOLDER = lazy(
    r"<[A-Za-z][\w -]*>|\{\{ ?[\w-]+ ?\}\}|\bYOUR[_-]|\byour[_-]|\bTODO\b|\bCHANGE_?ME\b"
    r"|\{\w+(?: \w+)+\}|\[[A-Z]\w*(?: \w+)+\]|\bexample\.(?:com|org)\b|\bpath/to/|\bxxx+\b"
    r"|# ?\.\.\.|// ?\.\.\.|^[ \t]*\.\.\.[ \t]*$",
    re.MULTILINE,
)
_PATH_PLACEHOLDER = lazy(r"[<>{}$*]|\bpath/to\b|\b(?:your|my|example|foo)\b", re.IGNORECASE)
_ADAPT = lazy(
    r"\b(?:adapt|adjust|customi[sz]e|tailor|modify|rename)\b|\breplace\b.{1,40}\bwith\b"
    r"|\b(?:do not|don['’]t|never) copy\b"
    r"|\bwhere the (?:task|user|project|repository)\b|\bonly (?:a sketch|an example|an illustration)\b",
    re.IGNORECASE,
)
_AS_IT_IS = lazy(
    r"\b(?:do not|don['’]t|never|without|no need to) (?:\w+ )?"
    r"(?:adapt|adjust|customi[sz]e|tailor|modify|rename)"
    r"|\b(?:as[- ]is|verbatim|unchanged)\b",
    re.IGNORECASE,
)
_EXCERPT = lazy(
    r"\b(?:append|change|edit|extend|inside|modify|update)\b|\badd\b.{1,60}\bto\b|\bin your\b", re.IGNORECASE
)
_COMMENT = lazy(r"^[ \t]*(?:#|//|--|<!--|/?\*).*$", re.MULTILINE)
_WHOLE_FILE = [
    (kind, [re.compile(pattern, re.MULTILINE) for pattern in patterns])
    for kind, *patterns in (
        ("workflow", r"^on:", r"^jobs:"),
        ("composite action", r"^runs:", r"^ +using:"),
        ("manifest", r"^apiVersion:", r"^kind:"),
        ("manifest", r"\A\{", r'^ +"(?:scripts|dependencies|devDependencies)":'),
        ("manifest", r"^\[(?:project|package|build-system)\]"),
        ("compose file", r"^services:"),
        ("Dockerfile", r"^FROM [\w$]", r"^RUN "),
        ("page", r"^<!(?:DOCTYPE|doctype) html"),
        ("script", r"\A#!"),
        ("module", r"^(?:import|from) \w", r"^(?:async )?(?:def|class) [^\n]*\n(?:(?:[ \t][^\n]*)?\n){8}"),
        (
            "module",
            r"^(?:import|from) \w",
            r"^def [^\n]*\n(?:(?:[ \t][^\n]*)?\n){1,8}(?:async )?(?:def|class) ",
        ),
        ("module", r"^import [^\n]{1,200} from ['\"]", r"^export \w"),
        ("module", r"^package \w+;?$", r"^(?:func|(?:public )?class) "),
        ("module", r"^use \w", r"^(?:pub )?(?:fn|struct|mod) \w"),
    )
]


class _Template(NamedTuple):
    """A block that is a whole file, and why it may be copied as it stands."""

    points: tuple[str, ...]
    lines: int
    kind: str
    block: CodeBlock


class TemplateAnchoring(Check, kw_only=True, rename="kebab"):
    """A block that names its own path, or is a whole file by its content, and invites copying.

    Its weight is 0 to 3: one each for a fixed path, no placeholder, no sentence in its part of the text, in
    those around it or in its comments that says to adapt it.
    """

    min_lines: int = 20
    min_weight: int = 2

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each block that a task collides with, then the heaviest of the others with their number."""
        templates: list[tuple[str, CodeBlock]] = []
        for block in skill.code_blocks:
            path = block.path or ""
            fixed = not _PATH_PLACEHOLDER.search(posixpath.dirname(path))
            collisions = collide(path, tasks) if fixed else ()
            if collisions:
                column = skill.source.lines[block.path_line - 1].find(path) + 1
                where = Location(path=skill.file, line=block.path_line, column=column or 1)
                values = {"path": path, "line": str(block.path_line)} | describe(collisions)
                yield Hit(where=where, match=path, variant="collision", values=values)
            elif kind := self._kind(skill, block):
                templates.append((kind, block))
        adapting = [number for number, text in skill.prose if templates and _says_adapt(text)]
        weighed = [_weigh(skill, kind, block, adapting) for kind, block in templates]
        heavy = [template for template in weighed if len(template.points) >= self.min_weight]
        if heavy:
            yield _hit(skill, heavy)

    def _kind(self, skill: Skill, block: CodeBlock) -> str:
        """Name what whole file a block is, empty for an excerpt and for a file that the skill has itself."""
        lines = block.content.count("\n")
        said = skill.source.lines[block.path_line - 1] if block.path_line < block.line else ""
        if block.path and skill.files.has(posixpath.normpath(block.path)):
            return ""
        if (
            block.path
            and not _EXCERPT.search(said)
            and lines >= (5 if posixpath.dirname(block.path) else self.min_lines)
        ):
            return "file"
        kinds = _WHOLE_FILE if lines >= self.min_lines else ()
        return next((kind for kind, parts in kinds if all(part.search(block.content) for part in parts)), "")


def _hit(skill: Skill, templates: Sequence[_Template]) -> Hit:
    first = max(templates, key=lambda template: (len(template.points), template.lines))
    others = [str(template.block.line) for template in templates if template is not first]
    shown = ", ".join(others[:MAX_LINES_SHOWN]) + (", …" if len(others) > MAX_LINES_SHOWN else "")
    block = first.block
    values = {
        "kind": first.kind,
        "lines": str(first.lines),
        "at": f" for `{block.path}`" if block.path else "",
        "weight": str(len(first.points)),
        "why": ", ".join(first.points),
        "more": f"; {len(others)} more at line{'s' if len(others) > 1 else ''} {shown}" if others else "",
    }
    names = [template.block.path or template.block.content.partition("\n")[0] for template in templates]
    where = Location(path=skill.file, line=block.line)
    return Hit(where=where, match=", ".join(sorted(names)), values=values)


def _weigh(skill: Skill, kind: str, block: CodeBlock, adapting: Sequence[int]) -> _Template:
    fixed = block.path and posixpath.dirname(block.path) and not _PATH_PLACEHOLDER.search(block.path)
    adapted = any(
        bisect_left(adapting, first) < bisect_right(adapting, last) for first, last in _around(skill, block)
    )
    adapted = adapted or any(_says_adapt(comment[0]) for comment in _COMMENT.finditer(block.content))
    reasons = {
        "its path is fixed": bool(fixed),
        "it holds no placeholder": not _PLACEHOLDER.search(block.content),
        "no sentence says to adapt it": not adapted,
    }
    points = tuple(reason for reason, holds in reasons.items() if holds)
    return _Template(points, block.content.count("\n"), kind, block)


def _says_adapt(text: str) -> bool:
    return bool(_ADAPT.search(text)) and not _AS_IT_IS.search(text)


def _around(skill: Skill, block: CodeBlock) -> Iterator[tuple[int, int]]:
    """Give the lines of the part that a block stands in, and of those parts that this one belongs to."""
    over = skill.slices_over(block.line)
    return ((part.line, part.end_line) for part in over) if over else iter([(1, block.line)])
