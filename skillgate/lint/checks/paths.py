"""The check of hard-coded paths: those of one machine, and those that fix where output goes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from skillgate.core import Location, TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.collision import collide, describe
from skillgate.skill import Skill, Source, is_file_name

MAX_MATCHES = 200  # per file; one finding per home folder names the first places
_STOP = r"\s\"'`<>()\[\]{},;:*$|/\\"
_HOME = re.compile(
    rf"(?<![\w.~$}}\]>*@%-])(?P<unix>/(?:home|Users)/(?P<user>[^{_STOP}]+))(?=/[\w.])"
    rf"|(?<!\w)(?P<windows>[A-Za-z]:(?P<slash>\\\\?|/)Users(?P=slash)(?P<owner>[^{_STOP}]+))(?=[\\/])"
)
_ROUTE = re.compile(r"(?:\b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s+|(?:href|to|src|url|route)=?[({]?[\"'])$")
_AVOIDS = re.compile(
    r"\b(?:never|avoid|don['’]t|do not|instead of|rather than|hard-?cod\w*|bad|wrong|anti-?pattern)\b|❌|✗",
    re.IGNORECASE,
)
_PATH = r"(?:[~.]{0,2}/)?(?:[\w.@{}<>$*-]+/)+[\w.@{}<>$*-]*"
_VERB = r"(?:(?:write|save|store|put|place|output|export|create|generate|dump)s?|written|saved|stored|placed)"
_OUTPUT = re.compile(
    rf"\b{_VERB}\b[^.!?`|]{{0,80}}?\b(?:to|at|as|in|into|under)\s+(?:the (?:file|folder|directory) )?"
    rf"(?:[`\"'](?P<code>{_PATH})[`\"']|(?<!\S)(?P<bare>{_PATH}\.\w+)(?=[\s,;:.)]|$))",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"[<>{}$*]|\bpath/to\b|\byour[-_]", re.IGNORECASE)
_SYSTEM = ("/dev/", "/etc/", "/proc/", "/sys/", "/tmp/", "/var/")  # noqa: S108  text to compare with, no file is made


class HardcodedPath(Check, kw_only=True, rename="kebab"):
    """A home folder in any file of the skill, or a sentence of SKILL.md that says where output goes."""

    shared_users: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give home folders once per file, then output paths: `collision` where a task wants it elsewhere."""
        for source in skill.sources:
            yield from self._homes(source)
        yield from _outputs(skill, tasks)

    def _homes(self, source: Source) -> Iterator[Hit]:
        lines: dict[str, list[Location]] = {}
        may_hold = "/home/" in source.text or "Users" in source.text  # much faster than the pattern
        for match in islice(_HOME.finditer(source.text), MAX_MATCHES if may_hold else 0):
            user = match["user"] or match["owner"]
            where = source.location(match.start())
            before, after = source.around(match.start(), match.end())
            generic = user.lower() in self.shared_users or user.lower().startswith("your") or user.isdigit()
            if not generic and not _ROUTE.search(before) and not _AVOIDS.search(before + after):
                lines.setdefault(match["unix"] or match["windows"], []).append(where)
        for home, places in lines.items():
            yield Hit(where=places[0], match=home, values={"path": home, "also": _also(places)})


def _also(places: Sequence[Location]) -> str:
    more = sorted({place.line for place in places[1:]} - {places[0].line})
    shown = ", ".join(map(str, more[:5])) + (", …" if len(more) > 5 else "")
    return f" (also on {'line' if len(more) == 1 else 'lines'} {shown})" if more else ""


def _outputs(skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
    seen = {block.path for block in skill.code_blocks}  # template-anchoring speaks of those
    for number, text in skill.prose:
        for match in _OUTPUT.finditer(text):
            path = match["code"] or match["bare"]
            if path in seen or not _is_fixed(path) or _AVOIDS.search(text):
                continue
            seen.add(path)
            group = "code" if match["code"] else "bare"
            where = Location(path=skill.file, line=number, column=match.start(group) + 1)
            values = {"path": path, "line": str(number)}
            collisions = collide(path, tasks)
            if collisions:
                yield Hit(where=where, match=path, variant="collision", values=values | describe(collisions))
            elif not path.startswith(_SYSTEM):
                yield Hit(where=where, match=path, variant="output", values=values)


def _is_fixed(path: str) -> bool:
    """Say whether the folder holds no placeholder and the whole is a folder or a file."""
    folder, name = posixpath.split(path)
    return not _PLACEHOLDER.search(folder) and (not name or is_file_name(name))
