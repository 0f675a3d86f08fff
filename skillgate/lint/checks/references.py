"""The checks that what a skill refers to is there, belongs to the skill and says when to read it."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, more
from skillgate.lint.lazy import lazy
from skillgate.lint.near import surroundings
from skillgate.skill import Files, Link, Skill
from skillgate.values import Location

_ELSEWHERE = lazy(r"[A-Za-z][\w+.-]*:|[/#?~]")  # a scheme, an absolute path, a part of this page, a home
_PLACEHOLDER = lazy(r"[<>{}$*\[\]]|\.\.\.|…|\bpath/to\b|\byour[-_]")
_PLACEHOLDER_LINE = lazy(r"\[[A-Z][A-Za-z ]*\](?!\()|<[a-z-]+>")
_NOT_HERE = lazy(
    r"\b(?:(?:creat|writ|sav|add|generat|output|produc|stor)(?:es?|ed|ing)?|plugin|repository|repo|codebase)\b",
    re.IGNORECASE,
)  # a file that is to be made, or that lies elsewhere
_PROGRAMS = "python3?|bash|sh|zsh|node|bun|deno run|ruby|perl|Rscript|uv run|tsx|source"
_SUFFIXES = "md|py|sh|js|ts|json|txt|ya?ml|html|csv"
_ALONE = r"(?<![\w/`(\[.\"'\\}>~<=-])"  # in no longer path, link, quotation or attribute
_RUN = lazy(
    rf"(?:^|[\s;&|(])(?:{_PROGRAMS})[ \t]+"
    r"(?:-\S+[ \t]+)?(?:\./)?$"
    r"|^[ \t]*(?:\$[ \t]+)?\./$"
)

_NEAR = 500  # characters of a line that are looked at around a link
_MAX_SUGGESTED, _MAX_HITS, _MAX_SPANS = 20, 200, 2_000


class BrokenReference(Check, kw_only=True, rename="kebab"):
    """A relative link leads nowhere in the skill, nor does a file in one of `folders` that SKILL.md names.

    Such a file is named alone or in a code span, where a command may stand before it, or as what a command
    in a code block runs; that only counts where the skill has the folder, as the command may otherwise run a
    file of the project. A folder that differs by a letter or two from one of the skill counts like it.
    """

    folders: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first place of each target in each file; of targets in one wrong folder the first."""
        found: dict[tuple[str, str], tuple[Link, _Fault]] = {}
        links = (*skill.all_links, *self._named(skill), *self._commands(skill))
        for link in sorted(links, key=lambda link: link.where):
            fault = _fault(link, skill)
            if fault is not None and not _is_placeholder(link, skill):
                found.setdefault((link.where.path, fault.path), (link, fault))
            if len(found) == _MAX_HITS:
                break
        yield from _hits(list(found.values()), skill.files)

    def _named(self, skill: Skill) -> Iterator[Link]:
        text, known = skill.prose_text, (*self.folders, *_mistyped(skill))
        here = [name for name in known if f"{name}/" in text or f"{name}\\" in text]
        if not here or not self.folders:
            return
        names = _any(here)
        named = re.compile(
            rf"`(?:(?:{_PROGRAMS})[ \t]+(?:-\S+[ \t]+)?)?"
            rf"((?:\./)?(?:{names})[/\\][\w./\\-]{{0,200}}\.\w+)(?=[` ])"
            rf"|{_ALONE}((?:\./)?(?:{names})/[\w/-]{{1,200}}\.(?:{_SUFFIXES}))(?![\w`/\](])"
        )
        near = surroundings([name.lower() for name in here], skill.source)
        matches = (match for start, end in near for match in named.finditer(text, start, end))
        for match in islice(matches, _MAX_SPANS):
            if not _NOT_HERE.search("".join(skill.source.around(match.start(), match.end()))):
                group = 1 if match[1] else 2
                yield Link(target=match[group], where=skill.source.location(match.start(group)))

    def _commands(self, skill: Skill) -> Iterator[Link]:
        folders = [name for name in self.folders if f"{name}/" in skill.text and skill.files.has(name)]
        if not folders:
            return
        made = {block.path for block in skill.code_blocks}
        named = re.compile(rf"(?:{_any(folders)})/[\w./-]{{0,200}}\.\w+")
        for match in islice(named.finditer(skill.code_text), _MAX_SPANS):
            before, _ = skill.source.around(match.start(), match.end())
            if _RUN.search(before) and match[0] not in made:
                yield Link(target=match[0], where=skill.source.location(match.start()))


class ReferenceOutside(Check, kw_only=True, rename="kebab"):
    """A link leads out of the folder of the skill, and not just to a skill beside it."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first such link, with the number of the others."""
        found: dict[str, Link] = {}
        for link in skill.all_links:
            targets = paths(link, skill)
            if targets and all(map(_is_outside, targets)) and not _is_placeholder(link, skill):
                found.setdefault(targets[0], link)
        for path, link in list(found.items())[:1]:
            values = {"target": link.target, "more": more(list(found)[1:])}
            yield Hit(where=link.where, match=path, values=values)


class BrokenAnchor(Check, kw_only=True, rename="kebab"):
    """A link leads to a heading of SKILL.md that it does not have; what stands in code is no heading."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each such target once."""
        links = {
            link.target: link
            for link in reversed(skill.links)
            if link.target[:1] == "#" and _letters(link.target)
        }
        if not links:
            return
        known = {_letters(part.title) for part in skill.slices}
        known.update(_letters("".join(names)) for names in _ANCHOR.findall(skill.prose_text))
        for target, link in sorted(links.items(), key=lambda pair: pair[1].where):
            plain = re.sub(r"-\d+$", "", target)  # the second of two equal headings has a number
            if not known.intersection((_letters(target), _letters(plain))) and not _is_placeholder(
                link, skill
            ):
                yield Hit(where=link.where, match=target, values={"target": target})


_ANCHOR = lazy(r"\b(?:id|name)=[\"']?([\w-]{1,100})|\{#([\w-]{1,100})\}")


def _letters(text: str) -> str:
    """Return what all ways to make an anchor of a heading agree on: its letters and digits."""
    return "".join(filter(str.isalnum, text.lower()))


class ReferenceWithoutCue(Check, kw_only=True, rename="kebab"):
    """SKILL.md names a Markdown file of the skill only as an item of a list that holds nothing else."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first such item, with the number of the others."""
        found = [(number, name) for number, name in _bare_items(skill) if skill.body.count(name) <= 2]
        for number, name in found[:1]:
            values = {"target": name, "more": more([other for _, other in found[1:]])}
            yield Hit(where=Location(path=skill.file, line=number), match=name, values=values)


class _Fault(NamedTuple):
    path: str
    variant: str = ""
    right: str = ""


def _fault(link: Link, skill: Skill) -> _Fault | None:
    """Say what is wrong with a target, None when nothing is or it leads out of the skill."""
    plain = re.split(r"[?#]", link.target)[0]
    if plain.startswith("/") and len(plain) > 1:
        inside = posixpath.normpath(plain.lstrip("/"))
        return _Fault(plain, "absolute", inside) if skill.files.has(inside) else None
    inner = [path for path in paths(link, skill) if not path.startswith("..")]
    there = next((path for path in inner if skill.files.has(path)), None)
    if there is not None:
        return _Fault(plain, "backslash", there) if "\\" in plain else None
    if not inner:
        return None
    lower = {path.lower() for path in inner}
    same = next((name for name in skill.files.names if name.lower() in lower), None)
    return _Fault(inner[0], "case", same) if same else _Fault(inner[0])


def paths(link: Link, skill: Skill) -> tuple[str, ...]:
    """Return where a relative target may lead, seen from its file and from the skill; empty for others."""
    target = link.target
    if not target or _ELSEWHERE.match(target) or _PLACEHOLDER.search(target):
        return ()
    plain = re.split(r"[?#]", target)[0].replace("\\", "/")
    folder = posixpath.dirname(skill.name_of(link.where.path))
    seen_from = (posixpath.join(folder, plain), plain)
    return tuple(dict.fromkeys(map(posixpath.normpath, seen_from)))


def _is_outside(path: str) -> bool:
    above, beside, *_ = (*path.split("/"), "", "")
    return above == ".." and (beside == ".." or ("." in beside and path.count("/") == 1))


def _is_placeholder(link: Link, skill: Skill) -> bool:
    where = link.where
    source = skill.texts[skill.name_of(where.path)]
    around = slice(max(where.column - _NEAR, 0), where.column + _NEAR)
    return _PLACEHOLDER_LINE.search(source.lines[where.line - 1][around]) is not None


def _hits(found: Sequence[tuple[Link, _Fault]], files: Files) -> Iterator[Hit]:
    """Give one hit for all that look in one folder for what lies in another, one for each of the others."""
    names: dict[str, str] = {}
    for name in reversed(files.names):
        names[posixpath.basename(name).lower()] = name
    moved: dict[tuple[str, str], list[tuple[Link, _Fault]]] = {}
    for link, fault in found:
        same = "" if fault.variant else names.get(posixpath.basename(fault.path).lower(), "")
        folders = (posixpath.dirname(fault.path), posixpath.dirname(same)) if same else ("", fault.path)
        moved.setdefault(folders, []).append((link, fault))
    suggested = 0
    for (wrong, right), group in moved.items():
        link, fault = group[0]
        if wrong and right and len(group) > 1:
            values = {"count": str(len(group)), "target": wrong, "right": right}
            yield Hit(where=link.where, match=wrong, variant="folder", values=values)
            continue
        for link, fault in group:
            near = "" if fault.right or suggested >= _MAX_SUGGESTED else _nearest(fault.path, names, files)
            suggested += 1
            values = {"target": fault.path, "nearest": near, "right": fault.right}
            yield Hit(where=link.where, match=fault.path, variant=fault.variant, values=values)


def _nearest(path: str, names: Mapping[str, str], files: Files) -> str:
    same = names.get(posixpath.basename(path).lower())
    close = [same] if same else difflib.get_close_matches(path, files.names[:500], n=1, cutoff=0.8)
    return f"Did you mean `{close[0]}`? " if close else ""


def _mistyped(skill: Skill) -> Sequence[str]:
    """Return folders that a code span begins with and that nearly have the name of one of the skill."""
    there = {name.partition("/")[0] for name in islice(skill.files.names, _MAX_SPANS) if "/" in name}
    named = islice(re.finditer(r"`(?:\./)?([\w-]{3,40})/", skill.prose_text), _MAX_SPANS) if there else ()
    unknown = sorted({match[1] for match in named} - there)[:_MAX_SUGGESTED]
    return [name for name in unknown if difflib.get_close_matches(name, sorted(there)[:50], n=1, cutoff=0.85)]


def _any(names: Sequence[str]) -> str:
    return "|".join(map(re.escape, names))


# --- cues -------------------------------------------------------------------------

_ITEM = lazy(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\S")
_BARE = lazy(
    r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[`?[\w./-]+`?\]\(([\w./-]+)\)|`([\w./-]+)`|([\w./-]+))[ \t]*"
)
_CUE = lazy(r"\b(?:when|if|before|after|for|only|while|whenever)\b", re.IGNORECASE)


def _bare_items(skill: Skill) -> Iterator[tuple[int, str]]:
    """Give the items that are nothing but a file, below no heading or sentence that says when to read it."""
    above = ""
    lines = dict(skill.prose)
    for number, text in lines.items():
        match = _BARE.fullmatch(text) if ".md" in text else None
        name = posixpath.normpath(match[1] or match[2] or match[3]) if match else ""
        below = lines.get(number + 1, "")
        goes_on = below[:1] in (" ", "\t") and not _ITEM.match(below)
        if name.endswith(".md") and skill.files.has(name) and not goes_on and not _CUE.search(above):
            yield number, name
        elif text.rstrip().endswith(":") or (text.strip() and not _ITEM.match(text)):
            above = text
