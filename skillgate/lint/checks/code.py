"""The checks of fenced code: is it closed, how long is a block, how much of the body is code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit
from skillgate.skill import Skill
from skillgate.values import Location
from skillgate.weights import code_lines


class UnclosedFence(Check, kw_only=True, rename="kebab"):
    """A fence in a Markdown file is never closed, so that all that follows is code."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the fence of each file that is left open."""
        for source in skill.sources:
            if not source.is_markdown or source.facts.truncated:
                continue
            for block in source.fenced:
                if block["end"] is None:
                    lines = block[0].rstrip().count("\n")
                    where, variant = source.location(block.start("fence")), "" if lines else "last"
                    values = {"lines": f"{lines:,}"}
                    yield Hit(where=where, match=block["fence"], variant=variant, values=values)


class LongCodeBlock(Check, kw_only=True, rename="kebab"):
    """A code block of SKILL.md has more than `max_lines` lines and names no file of its own."""

    max_lines: int = 100

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the longest such block, with the number of the others."""
        blocks = [block for block in skill.code_blocks if block.closed and block.path is None]
        long = [block for block in blocks if block.content.count("\n") > self.max_lines]
        longest = max(long, key=lambda block: block.content.count("\n"), default=None)
        if longest is not None:
            others = f" (and {len(long) - 1} more like it)" if len(long) > 1 else ""
            lines = f"{longest.content.count(chr(10)):,}"
            values = {"lines": lines, "max": f"{self.max_lines:,}", "others": others}
            where = Location(path=skill.file, line=longest.line)
            yield Hit(where=where, match=longest.content.strip().partition("\n")[0][:80], values=values)


class CodeShare(Check, kw_only=True, rename="kebab"):
    """More than `max_percent` of the lines of a body are code, and these are at least `min_lines`."""

    max_percent: int = 79
    min_lines: int = 40

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first block of a body with too much code."""
        code, lines = code_lines(skill)
        if code >= self.min_lines and 100 * code > self.max_percent * lines:
            where = Location(path=skill.file, line=skill.code_blocks[0].line)
            yield Hit(where=where, match="code", values={"percent": str(100 * code // lines)})
