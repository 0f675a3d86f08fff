"""The YAML between the two `---` lines -> fields with marks, also when it is broken.

A client that cannot read the YAML loses every field; a reader of findings must not. So the first
problem is kept as a value and the other fields are read as far as they can be. Aliases are never expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import yaml

from skillgate.document import compose, refuse_bomb, refuse_duplicates
from skillgate.skill.source import Source
from skillgate.values import Location, Struct

MAX_FRONTMATTER_CHARS = 32_000
MAX_BRACKETS = 500  # thousands of open ones cost the slower loader seconds


class Child(NamedTuple):
    """What a list or a mapping holds; `key` is empty in a list, `value` as that of a field."""

    key: str
    value: str
    tag: str
    at: Location


class Field(Struct, kw_only=True):
    """One key of the frontmatter. `text` is None unless the value is text; `tag` is its YAML type.

    `value` is a scalar as it is written, whatever its type, empty for a list or a mapping; those have
    `children`. The value stands from `value_at` up to `end_at`.
    """

    key: str
    text: str | None
    tag: str
    value: str = ""
    children: tuple[Child, ...] = ()
    key_at: Location
    value_at: Location
    end_at: Location


class Problem(Struct, kw_only=True):
    """Why the frontmatter is not what a client can read; `kind` is a variant of a rule."""

    kind: str
    detail: str
    where: Location
    key: str = ""


class Frontmatter(NamedTuple):
    """The fields, also those that could be saved from broken YAML; the body starts at `body`, an offset."""

    fields: Mapping[str, Field]
    problem: Problem | None
    body: int


_OPEN = re.compile(r"---[ \t]*\n")
_CLOSE = re.compile(r"^---[ \t]*$\n?", re.MULTILINE)
_LATE = re.compile(r"\s*---[ \t]*\n(?:[\w-]+:.*\n)")
_KEY_LINE = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_DOUBLE = re.compile(r"the key `(.*)` stands here twice", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_PLAIN = "binary bool float int map merge null omap pairs seq set str timestamp value"
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in _PLAIN.split())
_UNQUOTED_COLON = re.compile(r"[^\S\n]*(?:- )?([\w-]+):[ \t]+(?![\"'|>\[{&*!#])\S.*?:(?: |$)")


def read_frontmatter(source: Source) -> Frontmatter:
    """Read what stands between the first line and the next line of three dashes."""
    text = source.text
    opened = _OPEN.match(text)
    if opened is None:
        kind = "empty" if not text.strip() else "late" if _LATE.match(text) else "missing"
        return Frontmatter({}, Problem(kind=kind, detail="", where=source.location(0)), 0)
    closed = _CLOSE.search(text, opened.end())
    if closed is None:
        return Frontmatter({}, Problem(kind="unclosed", detail="", where=source.location(0)), 0)
    start, end = opened.end(), closed.start()
    if end - start > MAX_FRONTMATTER_CHARS:
        detail = f"longer than {MAX_FRONTMATTER_CHARS:,} characters"
        return Frontmatter({}, Problem(kind="yaml", detail=detail, where=source.location(0)), closed.end())
    return _read_yaml(source, text[start:end], start, closed.end())


def _read_yaml(source: Source, text: str, start: int, body: int) -> Frontmatter:
    fields: dict[str, Field] = {}
    problem: Problem | None = None
    try:
        if text.count("[") + text.count("{") > MAX_BRACKETS:
            raise ValueError(f"it holds more than {MAX_BRACKETS} brackets")
        node = compose(text)
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("it is not a list of `key: value`")
        fields = dict(_fields(source, node, start))
        refuse_bomb(node)
        refuse_duplicates(node)
        problem = _half_character(fields) or _unsafe_tag(source, node, start)
    except yaml.MarkedYAMLError as error:
        ended = "end of stream" in str(error.problem)  # what was opened tells more than where the text ends
        mark = (error.context_mark if ended else None) or error.problem_mark or error.context_mark
        problem = _explain(source, start + min(mark.index if mark else 0, len(text)), error)
    except RecursionError:
        problem = Problem(kind="yaml", detail="it is nested too deeply", where=source.location(start))
    except (yaml.YAMLError, ValueError) as error:
        where = source.location(start + getattr(error, "position", 0))
        problem = Problem(kind="yaml", detail=getattr(error, "reason", "") or str(error), where=where)
    return Frontmatter(fields or (_salvage(source, text, start) if problem else {}), problem, body)


def _fields(source: Source, node: yaml.MappingNode, start: int) -> Iterator[tuple[str, Field]]:
    for key, value in node.value:
        scalar = _scalar(value)
        yield (
            str(key.value),
            Field(
                key=str(key.value),
                text=scalar if value.tag == "tag:yaml.org,2002:str" else None,
                tag=_short(value.tag),
                value=scalar,
                children=tuple(_children(source, value, start)),
                key_at=source.location(start + key.start_mark.index),
                value_at=source.location(start + value.start_mark.index),
                end_at=source.location(start + value.end_mark.index),
            ),
        )


def _children(source: Source, node: yaml.Node, start: int) -> Iterator[Child]:
    for item in () if isinstance(node, yaml.ScalarNode) else node.value:
        key, value = item if isinstance(item, tuple) else (None, item)
        at = source.location(start + (key or value).start_mark.index)
        yield Child(_scalar(key), _scalar(value), _short(value.tag), at)


def _scalar(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _short(tag: str) -> str:
    return tag.rpartition(":")[2]


def _half_character(fields: Mapping[str, Field]) -> Problem | None:
    """Find what libyaml refuses and other loaders let through: an escape for half of a character."""
    for field in fields.values():
        half = _HALF.search(field.value)
        if half:
            detail = f"`\\u{ord(half[0]):x}` in the value of `{field.key}` is only half of a character"
            return Problem(kind="yaml", detail=detail, where=field.value_at, key=field.key)
    return None


def _unsafe_tag(source: Source, node: yaml.Node, start: int) -> Problem | None:
    """Find a tag that asks for more than text, numbers, lists and mappings."""
    for item in _walk(node):
        if item.tag not in _PLAIN_TAGS:
            shown = item.tag.replace("tag:yaml.org,2002:", "!!")
            where = source.location(start + item.start_mark.index)
            return Problem(kind="unsafe-tag", detail=shown, where=where)
    return None


def _walk(node: yaml.Node) -> Iterator[yaml.Node]:
    stack, seen = [node], set[int]()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        for part in () if isinstance(item, yaml.ScalarNode) else item.value:
            stack += part if isinstance(part, tuple) else (part,)


def _salvage(source: Source, text: str, start: int) -> dict[str, Field]:
    """Read `key: value` lines out of broken YAML, so that one bad line does not hide the others."""
    found = {}
    for match in _KEY_LINE.finditer(text):
        value = " ".join(match[2].split()).lstrip("|>-+ ").strip("\"' ")
        found[match[1]] = Field(
            key=match[1],
            text=value or None,
            tag="str" if value else "null",
            value=value,
            key_at=source.location(start + match.start(1)),
            value_at=source.location(start + match.start(2)),
            end_at=source.location(start + match.end(2)),
        )
    return found


def _explain(source: Source, offset: int, error: yaml.MarkedYAMLError) -> Problem:
    where = source.location(offset)
    line = _UNQUOTED_COLON.match(source.lines[where.line - 1])
    if line and "mapping values are not allowed" in str(error.problem):
        return Problem(kind="unquoted-colon", detail=line[1], where=where, key=line[1])
    double = _DOUBLE.fullmatch(str(error.problem))
    if double:
        return Problem(kind="duplicate-key", detail=double[1], where=where, key=double[1])
    detail = ", ".join(str(part) for part in (error.context, error.problem) if part)
    return Problem(kind="yaml", detail=detail, where=where)
