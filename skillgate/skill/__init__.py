"""The one loader of a skill: the bytes of a folder in, everything that rules look at out.

All is read and parsed once, when first asked for, and shared. No content makes it raise or takes
unbounded time; what was cut short stands in `facts`. Knows no rule and no tokenizer.
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from skillgate.skill import markdown, tree
from skillgate.skill.files import SKILL_FILE, Files, Stray, is_too_long, scan
from skillgate.skill.frontmatter import Field, Frontmatter, Problem, read_frontmatter
from skillgate.skill.markdown import CodeBlock, Link, Slice, is_file_name
from skillgate.skill.source import MAX_FILE_BYTES, MAX_LINES, Facts, Source, decode
from skillgate.skill.tree import Step

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_LINES",
    "MAX_TREE_BYTES",
    "SKILL_FILE",
    "CodeBlock",
    "Facts",
    "Field",
    "Files",
    "Link",
    "Problem",
    "Skill",
    "Slice",
    "Source",
    "Step",
    "Stray",
    "is_file_name",
    "is_too_long",
    "parse",
    "scan",
]

MAX_TREE_BYTES = 16_000_000
MAX_PROSE_CHARS = 10_000
_TEXT_SUFFIXES = re.compile(
    r"|\.(bash|bat|cfg|cjs|cmd|conf|env|fish|ini|js|json|lua|markdown|md|mdx|mjs|pl|ps1|py|r|rb|rst|sh|sql|toml|ts"
    r"|tsx|txt|xml|ya?ml|zsh)"
)


class Skill:
    """A skill folder; `path` is relative to the root of the repository, `.` for the root itself."""

    def __init__(self, path: str, files: Files) -> None:
        self.path, self.files = path, files

    @property
    def folder_name(self) -> str:
        """Return the name of the folder it lies in, and is installed in."""
        name = posixpath.basename(self.path)
        return "skill" if name in ("", ".", "..") else name

    @property
    def file(self) -> str:
        """Return the path of its SKILL.md."""
        return self.locate(SKILL_FILE)

    def locate(self, name: str) -> str:
        """Turn a name inside the folder into a path from the root of the repository."""
        return posixpath.normpath(posixpath.join(self.path, name))

    # --- SKILL.md

    @cached_property
    def source(self) -> Source:
        """Return the decoded SKILL.md, empty when it cannot be read."""
        return self._load(SKILL_FILE)

    @property
    def text(self) -> str:
        """Return the decoded text: LF line ends, no byte-order mark."""
        return self.source.text

    @property
    def facts(self) -> Facts:
        """Return what decoding changed or could not do."""
        return self.source.facts

    @cached_property
    def _front(self) -> Frontmatter:
        return read_frontmatter(self.source)

    @property
    def frontmatter(self) -> Mapping[str, Field]:
        """Return the keys with their marks, also those saved from broken YAML."""
        return self._front.fields

    @property
    def problem(self) -> Problem | None:
        """Return why the frontmatter cannot be used, None when it can."""
        return self._front.problem

    @property
    def name(self) -> str | None:
        """Return the name, None when it is missing or no text."""
        return self.frontmatter["name"].text if "name" in self.frontmatter else None

    @property
    def description(self) -> str | None:
        """Return the description, None when it is missing or no text."""
        return self.frontmatter["description"].text if "description" in self.frontmatter else None

    @property
    def is_hidden(self) -> bool:
        """Say whether no model may choose it."""
        switch = self.frontmatter.get("disable-model-invocation")
        return switch is not None and switch.value == "true"

    @property
    def body(self) -> str:
        """Return the text after the frontmatter."""
        return self.text[self._front.body :]

    @property
    def body_line(self) -> int:
        """Return the line that the body starts in."""
        return self.source.location(self._front.body).line

    @property
    def text_line(self) -> int:
        """Return the first line of the body that is not blank."""
        blank = self.body[: len(self.body) - len(self.body.lstrip())]
        return self.body_line + blank.count("\n")

    @cached_property
    def _parsed(self) -> markdown.Parsed:
        return markdown.parse(self.source, self._front.body)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Return the Markdown blocks; `map` counts lines of the file from 0, inline content is unparsed."""
        return self._parsed.tokens

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Return the parts of the body, one per heading."""
        return markdown.slices(self.tokens, len(self.source.lines))

    def slice_at(self, line: int) -> Slice | None:
        """Return the part of the body that a line stands in, None before the first heading."""
        over = self.slices_over(line)
        return over[-1] if over else None

    def slices_over(self, line: int) -> tuple[Slice, ...]:
        """Return the part of the body that a line stands in, after those around it, outermost first."""
        at = bisect.bisect_right(self.slices, line, key=lambda part: part.line)
        return self._nested[at - 1] if at else ()

    def text_of(self, part: Slice) -> str:
        """Return a part of the body, heading included."""
        return "\n".join(self.source.lines[part.line - 1 : part.end_line])

    @cached_property
    def _nested(self) -> tuple[tuple[Slice, ...], ...]:
        return markdown.nested(self.slices)

    @cached_property
    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the fenced and indented blocks."""
        return markdown.code_blocks(self.tokens)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Return the targets of links and images."""
        return markdown.links(self.source, self._parsed)

    @cached_property
    def all_links(self) -> tuple[Link, ...]:
        """Return the targets of links and images in all Markdown files of the skill."""
        others = (source for source in self.sources[1:] if source.is_markdown)
        return (*self.links, *(link for source in others for link in markdown.plain_links(source)))

    @cached_property
    def prose(self) -> tuple[tuple[int, str], ...]:
        """Return the lines of the body that stand in no code block, with their numbers; overlong ones cut."""
        lines = enumerate(self.source.lines[self.body_line - 1 :], self.body_line)
        return tuple((n, text[:MAX_PROSE_CHARS]) for n, text in lines if n not in self._code_lines)

    def is_code(self, line: int) -> bool:
        """Say whether a line stands in a code block."""
        return line in self._code_lines

    @cached_property
    def _code_lines(self) -> frozenset[int]:
        blocks = self.code_blocks
        return frozenset(line for block in blocks for line in range(block.line, block.end_line + 1))

    @cached_property
    def prose_text(self) -> str:
        """Return SKILL.md with blanks for frontmatter and code blocks: offsets are those of the text."""
        return self._masked(in_code=False)

    @cached_property
    def code_text(self) -> str:
        """Return SKILL.md with blanks for all but the code blocks: offsets are those of the text."""
        return self._masked(in_code=True)

    def _masked(self, *, in_code: bool) -> str:
        pieces, at = [_blank(self.text[: self._front.body])], self._front.body
        for block in self.code_blocks:  # in the order of the file, and none inside another
            start, end = max(self.source.start(block.line - 1), at), self.source.start(block.end_line)
            prose, code = self.text[at:start], self.text[start:end]
            pieces += (_blank(prose), code) if in_code else (prose, _blank(code))
            at = max(end, at)
        rest = self.text[at:]
        return "".join((*pieces, _blank(rest) if in_code else rest))

    # --- the other files

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Return SKILL.md and the text files beside it, up to MAX_TREE_BYTES in all."""
        return (self.source, *self._siblings())

    @cached_property
    def texts(self) -> Mapping[str, Source]:
        """Return the text files by their names in the folder."""
        return {self.name_of(source.path): source for source in self.sources}

    def name_of(self, path: str) -> str:
        """Turn a path from the root of the repository into a name inside the folder."""
        return path[len(self.locate("x")) - 1 :]

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """Return how SKILL.md leads to the other files; those that nothing leads to are missing."""
        return tree.steps(self.files.names, self.texts, SKILL_FILE)

    def _siblings(self) -> Iterator[Source]:
        left = MAX_TREE_BYTES
        for name in self.files.names:
            suffix = posixpath.splitext(name)[1].lower()
            if name == SKILL_FILE or not (_TEXT_SUFFIXES.fullmatch(suffix) or self._is_script(name)):
                continue
            source = self._load(name)
            left -= len(source.text)
            if left < 0:
                reason = f"the text files of this skill hold more than {MAX_TREE_BYTES:,} characters"
                yield Source(source.path, "", Facts(unreadable=reason))
                return
            if "\0" not in source.text or source.is_markdown:
                yield source
            elif suffix or source.text.startswith("#!"):  # else it is a program in machine code
                yield Source(source.path, source.text.replace("\0", ""), source.facts)  # as a shell reads it

    def _is_script(self, name: str) -> bool:
        """Say whether a file starts as a script does, whatever its name says."""
        try:
            return self.files.read(name, 2) == b"#!"
        except OSError:
            return False

    def _load(self, name: str) -> Source:
        try:
            raw = self.files.read(name, MAX_FILE_BYTES + 1)
        except OSError as error:
            return Source(self.locate(name), "", Facts(unreadable=error.strerror or str(error)))
        return decode(raw, self.locate(name), MAX_LINES if name == SKILL_FILE else None)


def _blank(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))


def parse(files: Files, path: str) -> Skill:
    """Make a skill of a folder's files; `path` is relative to the root of the repository. Never raises."""
    return Skill(path, files)
