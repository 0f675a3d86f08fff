"""The checks of how the files of a skill hang together: what leads where, and over how many files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, more
from skillgate.lint.checks.references import paths
from skillgate.lint.lazy import lazy
from skillgate.skill import SKILL_FILE, Skill, Source
from skillgate.skill.tree import stem
from skillgate.values import Location

_MAX_HITS = 10


class OrphanFile(Check, kw_only=True, rename="kebab"):
    """Neither SKILL.md nor a file that it leads to names a file of the skill or a folder that holds it.

    More than `max_files` of them are a project that happens to have a SKILL.md in its root.
    """

    max_files: int = 50

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first such file, with the names of the others; nothing where not all could be read."""
        found = [name for name in skill.files.names if name not in skill.steps]
        if not 0 < len(found) <= self.max_files:
            return
        if any(text.facts.truncated or text.facts.unreadable for text in skill.sources):
            return
        values = {"file": found[0], "more": more(found[1:])}
        yield Hit(where=Location(path=skill.locate(found[0])), match=found[0], values=values)


class ReferenceDepth(Check, kw_only=True, rename="kebab"):
    """SKILL.md leads to a Markdown file only over another one."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the place in a file that names the first such file, with the names of the others."""
        found: dict[str, list[str]] = {}
        for name, step in sorted(skill.steps.items()):
            if step.level > 1 and name.endswith(".md") and skill.texts[step.via].is_markdown:
                found.setdefault(step.via, []).append(name)
        for via, names in sorted(found.items())[:_MAX_HITS]:
            values = {"file": names[0], "via": via, "more": more(names[1:])}
            yield Hit(where=_place(skill.texts[via], names[0]), match=names[0], values=values)


class ReferenceCycle(Check, kw_only=True, rename="kebab"):
    """Markdown files beside SKILL.md each say to read the next one first, round in a circle.

    Files that only point at each other are no fault: most guides do.
    """

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the link that closes the first circle."""
        edges = _edges(skill)
        circle = _circle({name: sorted(targets) for name, targets in edges.items()})
        if circle:
            values = {"circle": " -> ".join(f"`{name}`" for name in (*circle, circle[0]))}
            yield Hit(where=edges[circle[-1]][circle[0]], match=circle[-1], values=values)


class LongReference(Check, kw_only=True, rename="kebab"):
    """A Markdown file beside SKILL.md has more than `max_lines` lines and no contents near the top."""

    max_lines: int = 300

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the longest such file, with the names of the others."""
        found = [
            (text.text.rstrip().count("\n") + 1, name)
            for name, text in skill.texts.items()
            if name != SKILL_FILE and name in skill.steps and text.is_markdown and not _FORM.search(name)
        ]
        long = sorted((-n, name) for n, name in found if n > self.max_lines)
        bare = [(-n, name) for n, name in long if not _is_listed(skill, name)]
        for lines, name in bare[:1]:
            values = {"lines": f"{lines:,}", "max": str(self.max_lines)}
            values |= {"file": name, "more": more([other for _, other in bare[1:]])}
            yield Hit(where=Location(path=skill.locate(name)), match=name, values=values)


def _place(text: Source, name: str) -> Location:
    """Return where a text names a file: by its name, else by the word that led to it, else the first line."""
    for spelled in (posixpath.basename(name), stem(name)):
        match = re.search(re.escape(spelled), text.text, re.IGNORECASE)
        if match:
            return text.location(match.start())
    return text.location(0)


# --- circles ----------------------------------------------------------------------


_SENTENCE_END = lazy(r"[.!?](?:\s|$)")
_READ = lazy(r"\b(?:read|load|open|follow|complete|see)\b", re.IGNORECASE)
_FIRST = lazy(r"\b(?:first|before)\b", re.IGNORECASE)


def _edges(skill: Skill) -> dict[str, dict[str, Location]]:
    """Return the links to files that are to be read first, from and to files beside SKILL.md."""
    edges: dict[str, dict[str, Location]] = {}
    for link in skill.all_links:
        name = skill.name_of(link.where.path)
        target = next((path for path in paths(link, skill) if path in skill.texts and path != name), name)
        known = target != name and SKILL_FILE not in (name, target)
        if known and _comes_first(skill.texts[name], link.where):
            edges.setdefault(name, {}).setdefault(target, link.where)
    return edges


def _comes_first(text: Source, where: Location) -> bool:
    """Say whether the sentence around a link says to read its target before going on."""
    before, after = text.around(text.offset(where), text.offset(where))
    lead = _SENTENCE_END.split(before.rpartition("[")[0])[-1]
    rest = _SENTENCE_END.split(after.partition(")")[2])[0]
    return bool(_READ.search(lead) and _FIRST.search(f"{lead} {rest}"))


def _circle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a circle in order, empty when there is none; in linear time, without recursion."""
    done: set[str] = set()
    for start in edges:
        path = {} if start in done else {start: iter(edges[start])}
        while path:
            name, targets = next(reversed(path.items()))
            target = next(targets, None)
            if target is None:
                done.add(name)
                del path[name]
            elif target in path:
                names = list(path)
                return names[names.index(target) :]
            elif target not in done:
                path[target] = iter(edges.get(target, ()))
    return []


# --- contents ---------------------------------------------------------------------

_TOP, _TOP_CHARS, _MAX_HEADINGS = 40, 10_000, 200  # lines that a preview shows at most
_FORM = lazy(r"(?:^|/)(?:assets|templates?|examples)/|template|(?:^|/)(?:README|CHANGELOG)\b")
_HEADING = lazy(r"^#{1,4}[ \t]+[\d. ]*(\w.{1,200})", re.MULTILINE)
_CONTENTS = lazy(
    r"^[ \t>]*(?:#{1,6}[ \t]+|\*\*)?(?:table of contents|contents|toc|index|navigation"
    r"|quick (?:navigation|links|index)|(?:in|on) this (?:file|document|guide|page|reference)|sections)\b",
    re.IGNORECASE | re.MULTILINE,
)
_FEW_HEADINGS, _FEW_ENTRIES = 4, 3


def _is_listed(skill: Skill, name: str) -> bool:
    """Say whether a file's top or SKILL.md lists what it holds, or there are too few headings to list."""
    text = skill.texts[name]
    if skill.text.count(f"{posixpath.basename(name)}#") >= _FEW_ENTRIES:
        return True
    top = text.lines[:_TOP]
    joined = "\n".join(top)[:_TOP_CHARS]
    if _CONTENTS.search(joined) or joined.count("](#") >= _FEW_ENTRIES:
        return True
    listed = "\n".join(line for line in top if not line.startswith("#"))[:_TOP_CHARS]
    headings = [match[1].strip(" \t#*") for match in islice(_HEADING.finditer(text.prose), _MAX_HEADINGS)]
    return len(headings) < _FEW_HEADINGS or sum(heading in listed for heading in headings) >= _FEW_ENTRIES
