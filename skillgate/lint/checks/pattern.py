"""The check that most rule files need: a pattern stands in one kind of text of a skill.

Patterns are data of the rule file. A pattern is only tried where one of its `words` stands, which is a
hundred times faster than trying it; a text that says what to avoid is not the thing itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.lint.near import surroundings
from skillgate.skill import Skill, Source

MAX_HITS = 50  # per pattern and file
MAX_MATCH_CHARS = 200
_FLAGS = re.IGNORECASE | re.MULTILINE
AVOIDS = re.compile(
    r"\b(?:never|avoid\w*|don['’]?t|do not|does not|must not|should not|cannot|instead of|rather than"
    r"|bad|wrong|anti-?patterns?|pitfalls?|mistakes?|forbid\w*|prohibit\w*|disallow\w*|refuse\w*|reject\w*)\b|❌|✗|🚫",
    re.IGNORECASE,
)


class Pattern(Check, kw_only=True, rename="kebab"):
    r"""A regular expression (ignoring case, `^` and `$` at lines) matches in one kind of text.

    `patterns` maps names to expressions; the name is `{name}` in the message, and the variant where the
    rule has one of that name. `words` are whole ones in lower case: of all patterns, or of each by its name.
    `where` is what is searched: `prose` and `code` are the two halves of the body of SKILL.md, `skill` the
    whole file, `description` that field, `text` this and the prose, `markdown` all Markdown files whole,
    `scripts` the other text files, `all` every text file. A hit whose line matches one of `unless` does not
    count, nor, with `unless-avoided`, one whose line or heading tells to avoid it. Group 1, where there is
    one, is what is shown. `once` gives the first hit of a name in each file alone.
    """

    patterns: dict[str, str]
    words: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    where: Literal["prose", "code", "skill", "description", "text", "markdown", "scripts", "all"] = "prose"
    unless: tuple[str, ...] = ()
    unless_avoided: bool = False
    once: bool = False

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Give the patterns and the excuses."""
        yield from ((f"patterns.{name}", pattern) for name, pattern in self.patterns.items())
        yield from (("unless", pattern) for pattern in self.unless)

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each match."""
        for source, text in texts(skill, self.where):
            for name, pattern in self.patterns.items():
                words = self.words if isinstance(self.words, tuple) else self.words.get(name, ())
                yield from self._find(skill, source, text, name, pattern, words)

    def _find(
        self, skill: Skill, source: Source, text: str, name: str, pattern: str, words: Sequence[str]
    ) -> Iterator[Hit]:
        given = 0
        places = surroundings(words, source) if words else ((0, len(text)),)
        for match in (
            match for start, end in places for match in compiled(pattern).finditer(text, start, end)
        ):
            if self._excused(skill, source, match):
                continue
            given += 1
            group = 1 if match.re.groups and match[1] is not None else 0
            shown = match[group].strip()[:MAX_MATCH_CHARS]
            where = source.location(match.start(group))
            values = {"match": shown.replace("`", ""), "name": name}  # the message shows it as code
            yield Hit(where=where, match=shown, variant=name, values=values)
            if self.once or given >= MAX_HITS:
                return

    def _excused(self, skill: Skill, source: Source, match: re.Match[str]) -> bool:
        before, after = source.around(match.start(), match.end())
        line = before + source.text[match.start() : match.end()] + after
        if any(compiled(pattern).search(line) for pattern in self.unless):
            return True
        return self.unless_avoided and is_avoided(skill, source, match.start(), match.end())


def texts(skill: Skill, where: str) -> Iterator[tuple[Source, str]]:
    """Give the sources of one kind, each with the text to search; offsets are those of the source."""
    match where:
        case "prose":
            yield skill.source, skill.prose_text
        case "code":
            yield skill.source, skill.code_text
        case "skill":
            yield skill.source, skill.text
        case "description" | "text":
            field = skill.frontmatter.get("description")
            ends = (field.value_at, field.end_at) if field else (skill.source.location(0),) * 2
            start, end = map(skill.source.offset, ends)
            rest = skill.prose_text[end:] if where == "text" else ""
            yield skill.source, " " * start + skill.text[start:end] + rest
        case _:
            for source in skill.sources:
                if where == "all" or source.is_markdown == (where == "markdown"):
                    yield source, source.text


def is_avoided(skill: Skill, source: Source, start: int, end: int) -> bool:
    """Say whether the text around, the rest of its line or its heading, tells to avoid what stands there."""
    before, after = source.around(start, end)
    if AVOIDS.search(before) or AVOIDS.search(after):
        return True
    if source is not skill.source:
        return False
    part = skill.slice_at(source.location(start).line)
    return part is not None and AVOIDS.search(part.title) is not None


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of a rule file once."""
    return re.compile(pattern, _FLAGS)
