"""The check of hard-coded paths: those of one machine, and those that fix where output goes."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, more
from skillgate.lint.collision import collide, describe
from skillgate.lint.lazy import lazy
from skillgate.skill import Skill, Source, is_file_name
from skillgate.values import Location

MAX_LINE_CHARS = 10_000
MAX_MATCHES = 200  # per file
_STOP = r"\s\"'`<>()\[\]{},;:*$|/\\"
_HOME = lazy(
    rf"(?<![\w.~$}}\]>*@%-])(?P<unix>/home/(?P<user>[^{_STOP}]+)(?=/)"
    rf"|(?:(?:/mnt)?/[a-z])?/Users/(?P<mac>[^{_STOP}]+)(?=[/\s\"'`]|$))"
    rf"|(?<!\w)(?P<windows>[A-Za-z]:(?P<slash>\\\\?|/)Users(?P=slash)(?P<owner>[^{_STOP}]+))(?=[\\/])",
    re.MULTILINE,
)
_HOMES = ("/home/", "/Users/", "\\Users\\")
_ROUTE = lazy(r"(?:\b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s+|(?:href|to|src|url|route)=?[({]?[\"'])$")
_SHEBANG = lazy(r"#![ \t]*(/(?!(?:usr/)?(?:local/)?s?bin/|home/|Users/)[^\s<>{}$]+)")
_AVOIDS = lazy(
    r"\b(?:never|avoid|don['’]t|do not|can(?:no|['’])t|instead of|rather than|hard-?cod\w*|bad|wrong"
    r"|anti-?pattern|endpoints?)\b|❌|✗",
    re.IGNORECASE,
)
_PATH = r"(?:[~.]{0,2}/)?(?:[\w.@{}<>$*-]+/)+[\w.@{}<>$*-]*"
_VERB = (
    r"(?:(?:write|save|store|put|place|output|export|create|generate|dump)s?"
    r"|written|saved|stored|placed|go(?:es)?)"
)
_QUOTED = rf"[`\"'](?P<code>{_PATH})[`\"']"
_OUTPUT = lazy(
    rf"\b{_VERB}\b[^.!?`|]{{0,80}}?\b(?:to|at|as|in|into|under)\b:?\**:?\s+"
    r"(?:the (?:file|folder|directory) )?"
    rf"(?:{_QUOTED}|(?<!\S)(?P<bare>{_PATH}\.\w+)(?=[\s,;:.)]|$))",
    re.IGNORECASE,
)
_LABEL = lazy(
    r"^\W*(?:location|destination|output"
    rf"|(?:output|report|results?|save) (?:file|folder|directory|path|location))\W{{1,5}}{_QUOTED}",
    re.IGNORECASE,
)
_COMMAND = lazy(
    r"(?:(?<![-=\w])>>?[ ]?|\btee (?:-a )?|\s-o[ =]|\s--out(?:put|file)?(?:-(?:file|dir|path))?[ =])"
    rf"[\"']?(?P<code>{_PATH})"
)
_YIELDS = lazy(
    r"\b(?:unless|overrid\w+|where(?:ver)? the (?:task|user)|come(?:s)? first|by default"
    r"|(?:task|user|project) (?:names|asks|says|wants|prefers|gives|chooses))\b",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy(r"[<>{}$*]|\bpath/to\b|\byour[-_]", re.IGNORECASE)
_SYSTEM = ("/dev/", "/etc/", "/proc/", "/sys/", "/tmp/", "/var/")  # noqa: S108  text to compare with, no file is made


class HardcodedPath(Check, kw_only=True, rename="kebab"):
    """A home folder or an interpreter of one machine, or a place that the skill fixes for output."""

    shared_users: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each home folder, then output paths: `collision` where a task wants it elsewhere."""
        for source in skill.sources:
            shebang = _SHEBANG.match(source.text)
            if shebang:
                where = source.location(shebang.start(1))
                yield Hit(where=where, match=shebang[1], variant="shebang", values={"path": shebang[1]})
            yield from self._homes(source)
        yield from _outputs(skill, tasks)

    def _homes(self, source: Source) -> Iterator[Hit]:
        may_hold = any(part in source.text for part in _HOMES)  # much faster than the pattern
        for match in islice(_HOME.finditer(source.text), MAX_MATCHES if may_hold else 0):
            user = (match["user"] or match["mac"] or match["owner"]).lower()
            where = source.location(match.start())
            before, after = source.around(match.start(), match.end())
            generic = user in self.shared_users or user.startswith("your") or user.isdigit()
            if not generic and not _ROUTE.search(before) and not _AVOIDS.search(_plain(before + after)):
                home = match["unix"] or match["windows"]
                yield Hit(where=where, match=home, values={"path": home})


class _Output(NamedTuple):
    """A path that the skill writes to: by order, or in an example that only a known task makes a problem."""

    path: str
    where: Location
    is_order: bool


def _outputs(skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
    seen = {block.path for block in skill.code_blocks}  # template-anchoring speaks of those
    orders: list[_Output] = []
    for output in _output_paths(skill, with_examples=bool(tasks)):
        path = output.path
        if path in seen or not _is_fixed(path) or skill.files.has(posixpath.normpath(path)):
            continue
        collisions = collide(path, tasks)
        if collisions or output.is_order:
            seen.add(path)
        if collisions:
            name = posixpath.relpath(output.where.path, skill.path)
            values = {"path": path, "at": f"{name}:{output.where.line}"} | describe(collisions)
            yield Hit(where=output.where, match=path, variant="collision", values=values)
        elif output.is_order and not path.startswith(_SYSTEM):
            orders.append(output)
    yield from _fixed(skill, orders)


def _fixed(skill: Skill, orders: Sequence[_Output]) -> Iterator[Hit]:
    """Give the first order and name the others; none where the text lets another place come first."""
    yielding = [number for number, text in skill.prose if orders and _YIELDS.search(text)]
    free = {posixpath.dirname(o.path) for o in orders if _is_near(skill, o.where.line, yielding)}
    fixed = [order for order in orders if posixpath.dirname(order.path) not in free]
    if fixed:
        first, others = fixed[0], [order.path for order in fixed[1:]]
        values = {"path": first.path, "also": more(others)}
        match = ", ".join((first.path, *others))
        yield Hit(where=first.where, match=match, variant="output", values=values)


def _is_near(skill: Skill, line: int, others: Sequence[int]) -> bool:
    """Say whether one of the other lines stands in the same part of the body."""
    over = skill.slices_over(line)
    end = skill.slices[0].line if skill.slices else len(skill.source.lines)
    first, last = (over[-1].line, over[-1].end_line) if over else (1, end)
    return bisect_left(others, first) < bisect_right(others, last)


def _output_paths(skill: Skill, *, with_examples: bool) -> Iterator[_Output]:
    yield from _written(skill.source, skill.prose, (_LABEL, _OUTPUT), is_order=True)
    if with_examples:
        code = enumerate(skill.code_text.split("\n"), 1)
        yield from _written(skill.source, code, (_COMMAND,), is_order=False)
        for source in skill.sources[1:]:
            if source.is_markdown:
                prose = enumerate(source.prose.split("\n"), 1)
                yield from _written(source, prose, (_LABEL, _OUTPUT), is_order=False)


def _written(
    source: Source, lines: Iterable[tuple[int, str]], patterns: Sequence[re.Pattern[str]], *, is_order: bool
) -> Iterator[_Output]:
    for number, text in lines:
        shown = text[:MAX_LINE_CHARS]
        if "/" not in shown or _AVOIDS.search(_plain(shown)):
            continue
        for match in (match for pattern in patterns for match in pattern.finditer(shown)):
            group = "bare" if match.groupdict().get("bare") else "code"
            where = Location(path=source.path, line=number, column=match.start(group) + 1)
            yield _Output(match[group], where, is_order)


def _plain(text: str) -> str:
    return text.replace("*", "")  # do **not** is a do not


def _is_fixed(path: str) -> bool:
    """Say whether the folder holds no placeholder and the whole is a folder or a file."""
    folder, name = posixpath.split(path)
    return not _PLACEHOLDER.search(folder) and (not name or is_file_name(name))
