"""The checks of what a skill lets an agent run: which version, does it start, does it wait for a person."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, more
from skillgate.lint.checks.pattern import Pattern, compiled, is_avoided
from skillgate.lint.lazy import lazy
from skillgate.lint.near import surroundings
from skillgate.skill import Skill, Source


class OncePerSkill(Pattern, kw_only=True, rename="kebab"):
    """As `pattern`, but what is matched counts once in a skill, at its first place."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each matched text once."""
        seen: set[str] = set()
        for hit in super().__call__(skill, tasks):
            if hit.match not in seen:
                seen.add(hit.match)
                yield hit


class InteractivePrompt(Check, kw_only=True, rename="kebab"):
    """A command in a Markdown file, or a bundled script, waits for somebody who types.

    `commands` are expressions for the start of a line or of a code span, tried where one of `words` stands.
    `scripts` maps suffixes to calls; a script with one of `handled` can do without an answer. A line that
    matches `unless` is about a person, and so is a README.
    """

    commands: tuple[str, ...]
    scripts: dict[str, tuple[str, ...]] = {}
    words: tuple[str, ...] = ()
    unless: str = ""
    handled: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each command once in a skill, and the first prompt of each script."""
        seen: set[str] = set()
        for source in skill.sources:
            found = self._told(skill, source) if source.is_markdown else self._asked(source)
            for hit in found:
                if hit.variant or hit.match not in seen:
                    seen.add(hit.match)
                    yield hit

    def _told(self, skill: Skill, source: Source) -> Iterator[Hit]:
        command = compiled(rf"(?:^|`)[ \t>]*(?:\$ )?({'|'.join(self.commands)})")
        for match in _near(self.words, source, command) if "readme" not in source.path.lower() else ():
            before, after = source.around(match.start(), match.end())
            is_for_person = self.unless and compiled(self.unless).search(before + after)
            if not is_for_person and not is_avoided(skill, source, match.start(), match.end()):
                shown = match[1].strip()
                yield Hit(where=source.location(match.start(1)), match=shown, values={"match": shown})

    def _asked(self, source: Source) -> Iterator[Hit]:
        calls = self.scripts.get(posixpath.splitext(source.path)[1].lower(), ())
        if any(word in source.lower for word in self.handled):
            return
        places = ((at, call) for call in calls if (at := _call(source, call)) >= 0)
        for at, call in sorted(places)[:1]:
            yield Hit(where=source.location(at), match=call, variant="script", values={"match": call})


_MAX_PLACES = 200  # of a command in the lines around a word


def _near(words: Sequence[str], source: Source, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Give the matches that hold one of the words, in order: most of the text is never searched."""
    for start, end in surroundings(words, source):
        for match in islice(pattern.finditer(source.text, start, end), _MAX_PLACES):
            if any(word in match[0].lower() for word in words):
                yield match


def _call(source: Source, call: str) -> int:
    """Return where a call begins that is no comment and no end of another name, -1 when nowhere."""
    if call not in source.text:
        return -1
    for match in re.finditer((r"(?<![\w.])" if call[0].isalpha() else "") + re.escape(call), source.text):
        before, _ = source.around(match.start(), match.start())
        if not before.lstrip().startswith(("#", "//", "*")):
            return match.start()
    return -1


class ScriptStart(Check, kw_only=True, rename="kebab"):
    """SKILL.md runs a bundled script by its path, and no line says what runs it, or nobody may run it."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first such script, with the names of the others; empty files and programs say nothing."""
        found: dict[str, tuple[int, str]] = {}
        for offset, name in _started(skill):
            variant = _why_not(skill, name)
            if variant is not None:
                found.setdefault(name, (offset, variant))
        for variant in ("", "bit"):
            names = [name for name, (_, why) in found.items() if why == variant]
            for name in names[:1]:
                values = {"script": name, "more": more(names[1:])}
                where = skill.source.location(found[name][0])
                yield Hit(where=where, match=name, variant=variant, values=values)


_START = lazy(r"^[ \t]*(?:\$ )?(?:\./)?([\w-][\w./-]{0,200})(?=\s|$)|`\./([\w-][\w./-]{0,200})(?=[ `])", re.M)
_SCRIPT = lazy(r".*\.(?:sh|bash|zsh|py|js|mjs|rb|pl|ts)|(?:.*/)?[\w-]+")


def _started(skill: Skill) -> Iterator[tuple[int, str]]:
    """Give the bundled scripts that stand where a shell expects a command."""
    names = {name for name in skill.files.names if _SCRIPT.fullmatch(name)}
    for match in _START.finditer(skill.text) if names else ():
        name, line = match[1] or match[2], skill.source.location(match.start()).line
        if name in names and bool(match[1]) == skill.is_code(line):
            yield match.start(1 if match[1] else 2), name


def _why_not(skill: Skill, name: str) -> str | None:
    """Return the variant for what keeps a script from starting, None when nothing does."""
    source = skill.texts.get(name)
    if source is None or not source.text.strip():
        return None
    if not source.text.startswith("#!"):
        return ""
    programs = skill.files.programs
    can_run = programs is None or name in programs or "chmod" in skill.text
    return None if can_run else "bit"
