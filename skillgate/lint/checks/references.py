"""The check that what a SKILL.md refers to is there."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator, Sequence

from skillgate.core import Location, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.skill import Files, Link, Skill

_ELSEWHERE = re.compile(
    r"[A-Za-z][\w+.-]*:|[/#?~]"
)  # a scheme, an absolute path, a part of this page, a home
_PLACEHOLDER = re.compile(r"[<>{}$*\[\]]|\.\.\.|…|\bpath/to\b|\byour[-_]")
_PLACEHOLDER_LINE = re.compile(r"\[[A-Z][A-Za-z ]*\](?!\()|<[a-z-]+>")
_NEW_FILE = re.compile(r"\b(?:creat|writ|sav|add|generat|output|produc|stor)(?:es?|ed|ing)?\b", re.IGNORECASE)


_NEAR = 500  # characters of a line that are looked at around a link
_MAX_SUGGESTED, _MAX_HITS = 20, 200


class BrokenReference(Check, kw_only=True, rename="kebab"):
    """A relative link, or a code span that names a file in one of `folders`, leads nowhere in the skill."""

    folders: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first place of each missing target."""
        seen: set[str] = set()
        for link in sorted((*skill.links, *self._spans(skill)), key=lambda link: link.where):
            path = _relative(link.target)
            if path is None or path in seen or skill.files.has(path):
                continue
            around = slice(max(link.where.column - _NEAR, 0), link.where.column + _NEAR)
            if _PLACEHOLDER_LINE.search(skill.source.lines[link.where.line - 1][around]):
                continue
            seen.add(path)
            nearest = _nearest(path, skill.files) if len(seen) <= _MAX_SUGGESTED else ""
            yield Hit(where=link.where, match=path, values={"target": path, "nearest": nearest})
            if len(seen) == _MAX_HITS:
                return

    def _spans(self, skill: Skill) -> Iterator[Link]:
        span = re.compile(rf"`((?:\./)?(?:{'|'.join(map(re.escape, self.folders))})/[\w./-]*\.\w+)`")
        for number, text in skill.prose if self.folders else ():
            if "`" not in text or _NEW_FILE.search(text):
                continue
            for match in span.finditer(text):
                where = Location(path=skill.file, line=number, column=match.start(1) + 1)
                yield Link(target=match[1], where=where)


def _relative(target: str) -> str | None:
    """Return the path in the skill that a target names, None when it leads elsewhere or is a placeholder."""
    if not target or _ELSEWHERE.match(target) or _PLACEHOLDER.search(target):
        return None
    path = posixpath.normpath(re.split(r"[?#]", target)[0].replace("\\", "/"))
    return None if path.startswith("..") else path


def _nearest(path: str, files: Files) -> str:
    same = [
        name for name in files.names if posixpath.basename(name).lower() == posixpath.basename(path).lower()
    ]
    close = same or difflib.get_close_matches(path, files.names[:500], n=1, cutoff=0.8)
    return f"Did you mean `{close[0]}`? " if close else ""
