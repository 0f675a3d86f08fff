"""The body of a SKILL.md -> Markdown tokens, slices, code blocks with the file each names, links.

Blocks are parsed once with CommonMark rules. Inline syntax is parsed only where a link can be: that is half
of the time. Line numbers are those of the file, as the frontmatter is replaced by blank lines.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from skillgate.skill.source import Source
from skillgate.values import Location, Struct

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_INLINE_CHARS = 2_500  # nested brackets cost more than their length
MAX_LINKED_CHARS = 100_000
MAX_TITLE_CHARS = 300  # what names a file is short


class Slice(Struct, kw_only=True):
    """A heading and what stands under it up to the next heading; lines count from 1, both included."""

    title: str
    level: int
    line: int
    end_line: int


class CodeBlock(Struct, kw_only=True):
    """A fenced or indented block; `path` is the file it says it is, `path_line` where it says so.

    A fence that is never closed runs to the end of what holds it.
    """

    language: str
    info: str
    content: str
    line: int
    end_line: int
    closed: bool = True
    path: str | None = None
    path_line: int = 0


class Link(Struct, kw_only=True):
    """The target of a link or an image, percent-decoded."""

    target: str
    where: Location


class Parsed(NamedTuple):
    """Block tokens (inline content unparsed) and the link reference definitions."""

    tokens: tuple[Token, ...]
    references: dict[str, Any]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # here, as it costs 50 ms that a command without Markdown need not pay

    return MarkdownIt("commonmark").disable("inline")


def parse(source: Source, body: int) -> Parsed:
    """Parse what follows the offset `body`."""
    env: dict[str, Any] = {}
    blank = "\n" * source.text.count("\n", 0, body)
    tokens = _parser().parse(blank + source.text[body:], env)
    return Parsed(tuple(tokens), env.get("references", {}))


# --- slices -----------------------------------------------------------------------


def slices(tokens: Sequence[Token], last_line: int) -> tuple[Slice, ...]:
    """Cut at every heading that stands in no list or quote."""
    heads = [
        (_span(token)[0] + 1, int(token.tag[1]), inline.content)
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    nexts = [line for line, _, _ in heads[1:]] + [last_line + 1]
    return tuple(
        Slice(title=title, level=level, line=line, end_line=following - 1)
        for (line, level, title), following in zip(heads, nexts, strict=False)
    )


def nested(parts: Sequence[Slice]) -> tuple[tuple[Slice, ...], ...]:
    """Return each part behind those that it belongs to, outermost first."""
    over: list[tuple[Slice, ...]] = []
    for part in parts:
        last = over[-1] if over else ()
        over.append((*(one for one in last if one.level < part.level), part))
    return tuple(over)


def _span(token: Token) -> tuple[int, int]:
    first, end = token.map or (0, 0)
    return first, end


# --- code blocks ------------------------------------------------------------------

_SUFFIXES = re.compile(
    r"bash|c|cc|cfg|cjs|clj|conf|cpp|cs|css|csv|dart|env|exs?|go|gradle|graphql|h|hcl|hpp|html|ini|ipynb|java|jsx?"
    r"|jsonc?|kts?|less|lock|lua|mdx?|mjs|php|pl|prisma|proto|ps1|pyi?|r|rb|rs|rst|scala|scss|sh|sol|sql|svelte|svg"
    r"|swift|tex|tf|tfvars|toml|tsx?|txt|vue|xml|ya?ml|zig"
)
_NAMES = frozenset({"dockerfile", "makefile", "procfile", "jenkinsfile", "gemfile", "rakefile", "justfile"})
_LIBRARY = re.compile(r"[A-Z]\w*\.js")  # Node.js, Next.js
_PATH = r"[\w.@~/{}<>$*\[\]-]*[\w}>\]]"
_IN_INFO = re.compile(
    rf"\b(?:title|file|filename|path|name)[=:] ?[\"']?({_PATH})|^[\w+-]+[: ]({_PATH})$"
    r"|^((?:[\w.@-]+/)+[\w.@-]+)$"
)
_IN_COMMENT = re.compile(
    rf"\s*(?:#|//|--|;|%|/\*++|<!--)\s*(?:(?:[Ff]ile(?:name)?|[Pp]ath|[Ss]ave (?:as|to)):?\s+)?`?({_PATH})`?"
    r"(?:\s+[-–—(](?!.*\b(?:excerpt|partial|snippet|add|change)).{1,80})?\s*(?:\*/|-->)?\s*"
)
_IN_COMMAND = re.compile(rf"(?:cat|tee)\s+>?>?\s*({_PATH})\s*<<.*|cat\s+<<\S*\s*>>?\s*({_PATH})")
_IN_TITLE = re.compile(rf"`({_PATH})`|\*\*({_PATH}):?\*\*|(?:^|[\s(])((?:[\w.@-]+/)+[\w.@-]+\w)")
_LABEL = re.compile(r"\**(?:file|filename|path):", re.IGNORECASE)
_CREATES = re.compile(r"\b(?:create|save|write|put|place|store)\b", re.IGNORECASE)
_SAME_LANGUAGE = (
    "yaml yml",
    "js jsx mjs cjs javascript ts tsx typescript",
    "py python python3",
    "sh bash shell zsh",
    "md markdown mdx",
    "json jsonc",
    "rb ruby",
    "rs rust",
    "cs csharp",
    "kt kts kotlin",
    "tf hcl terraform",
    "dockerfile docker",
    "makefile make",
)
_FAMILY = {word: family.split()[0] for family in _SAME_LANGUAGE for word in family.split()}


def is_file_name(path: str) -> bool:
    """Say whether the last part of a path is what files are called (`x.yml`, `Dockerfile`)."""
    name = posixpath.basename(path)
    stem, dot, suffix = name.lower().rpartition(".")
    if _LIBRARY.fullmatch(path):
        return False
    return name.lower() in _NAMES or stem in _NAMES or bool(dot and _SUFFIXES.fullmatch(suffix))


def code_blocks(tokens: Sequence[Token]) -> tuple[CodeBlock, ...]:
    """Return the fenced and indented blocks in order, each with the path that it names itself by."""
    return tuple(
        _block(tokens, at) for at, token in enumerate(tokens) if token.type in ("fence", "code_block")
    )


def _block(tokens: Sequence[Token], at: int) -> CodeBlock:
    token = tokens[at]
    first, end = _span(token)
    info = token.info.strip()
    language = re.split(r"[\s:{,]", info, maxsplit=1)[0].lower()
    path, path_line = _named_path(tokens, at, language) or (None, 0)
    return CodeBlock(
        language=language,
        info=info,
        content=token.content,
        line=first + 1,
        end_line=end,
        closed=token.type != "fence" or _is_closed(token),
        path=path,
        path_line=path_line,
    )


def _is_closed(fence: Token) -> bool:
    first, end = _span(fence)
    content = fence.content.count("\n") + (fence.content[-1:] not in ("", "\n"))
    return end - first - content == 2


def _named_path(tokens: Sequence[Token], at: int, language: str) -> tuple[str, int] | None:
    """Look in the info string, the first comment, then the heading or sentence just before."""
    token = tokens[at]
    line = _span(token)[0] + 1
    found = _first_path(_IN_INFO.search(token.info.strip()))
    if found:
        return found, line
    line += token.type == "fence"
    for number, text in enumerate(token.content.split("\n", 2)[:2]):
        shown = text[:MAX_TITLE_CHARS]
        found = _first_path(_IN_COMMENT.fullmatch(shown) or _IN_COMMAND.fullmatch(shown.strip()))
        if found:
            return found, line + number
        if text.strip() not in ("", "---") and not text.startswith("#!"):
            break
    return _announced(tokens, at, language)


def _announced(tokens: Sequence[Token], at: int, language: str) -> tuple[str, int] | None:
    """Look in the line just before; where a sentence is there, in the heading over it too."""
    if at >= 3 and tokens[at - 1].type in ("heading_close", "paragraph_close"):
        found = _named_in(tokens[at - 2], tokens[at - 1].type, language)
        under_heading = at >= 6 and tokens[at - 1].type == "paragraph_close"
        if not found and under_heading and tokens[at - 4].type == "heading_close":
            found = _named_in(tokens[at - 5], "heading_close", language)
        return found
    return None


def _named_in(inline: Token, closing: str, language: str) -> tuple[str, int] | None:
    text = inline.content.rpartition("\n")[2].strip()[-MAX_TITLE_CHARS:]
    names = closing == "heading_close" or text.rstrip("*").endswith(":") or _CREATES.search(text)
    for match in _IN_TITLE.finditer(text):
        path = _first_path(match)
        alone = _LABEL.sub("", text).strip("*:` ") == path
        if path and (names or alone) and _speaks(path, language):
            return path, _span(inline)[1]
    return None


def _first_path(match: re.Match[str] | None) -> str | None:
    path = next((group for group in match.groups() if group), "") if match else ""
    return path if is_file_name(path) else None


def _speaks(path: str, language: str) -> bool:
    """Say whether a block of this language can be this file: `Run x.py:` before shell code names no file."""
    suffix = posixpath.basename(path).lower().rpartition(".")[2]
    return not language or _FAMILY.get(suffix, suffix) == _FAMILY.get(language, language)


# --- links ------------------------------------------------------------------------

_PLAIN_LINK = re.compile(r"`[^`\n]*`|\]\(<?([^()\s<>]+)>?(?:[ \t]+[\"'][^\"'\n]*[\"'])?\)")


def plain_links(source: Source) -> Iterator[Link]:
    """Give the targets of inline links without a parse: for files whose blocks no rule looks at."""
    if "](" not in source.text:
        return
    for match in _PLAIN_LINK.finditer(source.prose):
        if match[1]:
            yield Link(target=unquote(match[1]), where=source.location(match.start(1)))


def links(source: Source, parsed: Parsed) -> tuple[Link, ...]:
    """Return the targets of inline links, images and reference definitions in the order of the file."""
    found: list[Link] = []
    left = MAX_LINKED_CHARS
    for token in parsed.tokens:
        if token.type == "inline" and "](" in token.content and len(token.content) <= MAX_INLINE_CHARS:
            left -= len(token.content)
            found += _inline_links(source, token) if left >= 0 else ()
    for reference in parsed.references.values():
        first, end = reference["map"]
        found.append(_locate(source, reference["href"], source.start(first), source.start(end)))
    return tuple(sorted(found, key=lambda link: link.where))


def _inline_links(source: Source, token: Token) -> Iterator[Link]:
    children: list[Token] = []
    parser = _parser()
    parser.inline.parse(token.content, parser, {}, children)
    first, last = _span(token)
    start, end = source.start(first), source.start(last)
    for child in children:
        href = child.attrs.get("href" if child.type == "link_open" else "src")
        if isinstance(href, str) and child.info != "auto":
            link = _locate(source, href, start, end)
            start = source.offset(link.where)
            yield link


def _locate(source: Source, href: str, start: int, end: int) -> Link:
    """Find the place of a target in the raw text, else name the start of its block."""
    target = unquote(href)
    for spelling in (href, target):
        for opening in ("](", "](<", "]: ", ""):
            at = source.text.find(opening + spelling, start, end)
            if at >= 0:
                return Link(target=target, where=source.location(at + len(opening)))
    return Link(target=target, where=source.location(start))
