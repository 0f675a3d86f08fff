"""The bytes of a SKILL.md -> the same bytes, without what can be mended safely. Pure.

Safe means: the file says what it said before, but for the field that was wrong. Where that is in doubt
nothing is changed, and the finding stays for the author.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from skillgate.lint.checks.frontmatter import MAX_NAME_CHARS, NameFolder, inner_field
from skillgate.skill import SKILL_FILE, Files, Skill, parse

MAX_QUOTED = 20  # values in one file: each costs a parse
_MARK = "\ufeff"
_LINE_END = re.compile(r"(\r\n|\r|\n)")
_CONTINUED = re.compile(r"[ \t]+[^ \t]")
_KEY = re.compile(r"([\w-]+):[ \t]+")
# what may be a comment; further lines that may be a list, or fields of their own
_DOUBTFUL = re.compile(r"[ \t]#|\n[ \t]+(?:[-?]|[\w-]+:)(?=[ \t\n]|$)")
_NO_TEXT = ("hooks", "metadata")  # quoted they would be valid YAML and still not what is meant


class Fixed(NamedTuple):
    """The new bytes, and the rules whose findings they mend."""

    raw: bytes
    rules: tuple[str, ...]


def fix(raw: bytes, path: str, rules: Collection[str]) -> Fixed:
    """Mend a SKILL.md; `path` is that of its skill, `rules` are those with a finding to show there.

    What is not UTF-8, or too large to be read as a whole, stays as it is.
    """
    facts = _parse(raw, path).facts
    if facts.encoding != "utf-8" or facts.truncated:
        return Fixed(raw, ())
    text, mended = raw.decode(), list[str]()
    for rule, mend in FIXES.items():
        before, text = text, mend(text, path) if rule in rules else text
        mended += [rule] if text != before else []
    return Fixed(text.encode(), tuple(mended))


def _parse(raw: bytes, path: str) -> Skill:
    return parse(Files.from_map({SKILL_FILE: raw}), path)


def _without_mark(text: str, path: str) -> str:
    """Remove the byte-order mark; behind a first one a second one would only move up."""
    return text if text.startswith(_MARK * 2) else text.removeprefix(_MARK)


def _with_line_feeds(text: str, path: str) -> str:
    return _LINE_END.sub("\n", text)


def _quoted(text: str, path: str) -> str:
    """Quote the values that an unquoted colon breaks, if the YAML is valid then and says the same."""
    pieces = _LINE_END.split(text)  # lines, and between them their ends
    said: dict[str, str | None] = {}
    skill = _parse(text.encode(), path)
    while skill.problem is not None:
        key, line = skill.problem.key, skill.problem.where.line
        if skill.problem.kind != "unquoted-colon" or key in said or len(said) == MAX_QUOTED:
            return text
        said[key] = _quote(pieces, line)
        skill = _parse("".join(pieces).encode(), path)
    read = {key: field.text for key, field in skill.frontmatter.items()}
    return "".join(pieces) if said.items() <= read.items() else text


def _quote(pieces: list[str], line: int) -> str | None:
    """Put quotes around the value of a field; return its text, None where that is in doubt."""
    first = last = 2 * (line - 1)
    while _CONTINUED.match(pieces[last + 2]):
        last += 2
    key = _KEY.match(pieces[first])
    whole = "\n".join(pieces[first : last + 1 : 2])
    value = whole[key.end() :].rstrip(" \t") if key else ""
    if key is None or key[1] in _NO_TEXT or _DOUBTFUL.search(value) or inner_field(value):
        return None
    mark = "'" if '"' in value or "\\" in value else '"'
    quoted = f"{mark}{value.replace(mark, mark * 2)}{mark}"
    pieces[first : last + 1 : 2] = (key[0] + quoted + whole[key.end() + len(value) :]).split("\n")
    return " ".join(part.strip(" \t") for part in value.split("\n"))


def _renamed(text: str, path: str) -> str:
    """Write the name of the folder in place of the name, in the quotes that stand there."""
    skill = _parse(text.encode(), path)
    hit = next(iter(NameFolder()(skill, ())), None)
    folder = posixpath.basename(path)
    if skill.problem or hit is None or hit.variant or len(folder) > MAX_NAME_CHARS:
        return text
    pieces = _LINE_END.split(text)
    at = 2 * (hit.where.line - 1)
    before, rest = pieces[at][: hit.where.column - 1], pieces[at][hit.where.column - 1 :]
    mark = rest[:1] if rest[:1] in ("'", '"') else ""
    old = f"{mark}{skill.name}{mark}"
    if not rest.startswith(old):
        return text  # on more than one line, with an anchor or a tag, or with escapes
    for new in _spellings(folder, mark):
        pieces[at] = before + new + rest.removeprefix(old)
        if _parse("".join(pieces).encode(), path).name == folder:
            return "".join(pieces)
    return text


def _spellings(folder: str, mark: str) -> tuple[str, ...]:
    """Return how a name may be written: unquoted some are a number or a yes to some reader of YAML."""
    if mark or folder[0].isdigit():
        mark = mark or '"'
        return (f"{mark}{folder}{mark}",)
    return (folder, f'"{folder}"')


FIXES: dict[str, Callable[[str, str], str]] = {
    "byte-order-mark": _without_mark,
    "line-endings": _with_line_feeds,
    "frontmatter-invalid": _quoted,
    "name-matches-folder": _renamed,
}
