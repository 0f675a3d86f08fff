"""Typed YAML: text and a struct type in, the value or an error with path:line out.

Used for every YAML file of ours (skillgate.yml, rules, suites, tasks, agent scripts).
An unknown key names the nearest known one, a duplicate key is an error, an alias bomb is
refused before it is expanded. No I/O: the caller reads the file and names it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from skillgate.errors import ConfigError, SkillgateError

T = TypeVar("T")
_C_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster
MAX_NODES = 100_000
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `(.+?)`")


def decode(
    text: str, kind: type[T], path: str, error: type[SkillgateError] = ConfigError, *, is_ours: bool = False
) -> T:
    """Read one YAML document as `kind`; one that travels with the program is no bomb and has no double key.

    Raises: `error` with `path:line` in its message and what to write instead as its hint.
    """
    try:
        node = compose(text)
        if not is_ours:
            refuse_bomb(node)
            refuse_duplicates(node)
        value = yaml.SafeLoader("").construct_document(node) if node is not None else {}
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark else 1
        raise error(f"{path}:{line}: {problem.problem or problem.context}", "Correct the YAML.") from None
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as problem:
        raise error(f"{path}:1: {problem or 'nested too deeply'}", "Correct the YAML.") from None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise _explain(str(problem), node, kind, path, error) from None


def compose(text: str) -> yaml.Node | None:
    """Compose one document with libyaml; where it fails the slower loader, which says more, decides.

    Raises: yaml.YAMLError, ValueError, RecursionError.
    """
    try:
        return yaml.compose(text, Loader=_C_LOADER)
    except (yaml.YAMLError, UnicodeError):
        return yaml.compose(text, Loader=yaml.SafeLoader)


def line_of(text: str, keys: Iterable[str]) -> int:
    """Return the line of a key in a valid document, given the keys that lead to it; 1 if it is not there."""
    node, line = compose(text), 1
    for name in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        key, node = next(((k, v) for k, v in pairs if k.value == name), (None, None))
        line = key.start_mark.line + 1 if key is not None else line
    return line


def refuse_duplicates(node: yaml.Node | None) -> None:
    """Raise yaml.MarkedYAMLError at the first key that a mapping holds twice."""
    for mapping in _mappings(node):
        seen: set[str] = set()
        for key, _ in mapping.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{name}` stands here twice", problem_mark=key.start_mark
                )
            seen.add(name)


def refuse_bomb(node: yaml.Node | None) -> None:
    """Raise ValueError when aliases would expand to more than MAX_NODES nodes."""
    sizes: dict[int, int] = {}

    def size(item: yaml.Node) -> int:
        if id(item) in sizes:
            return sizes[id(item)]
        sizes[id(item)] = MAX_NODES + 1  # a node inside itself expands for ever
        total = 1 + sum(size(child) for child in _children(item))
        sizes[id(item)] = min(total, MAX_NODES + 1)
        return sizes[id(item)]

    if node is not None and size(node) > MAX_NODES:
        raise ValueError(f"the document expands to more than {MAX_NODES:,} nodes")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint sentence with the nearest known name, or all of them."""
    names = sorted(known)
    close = like(name, names)
    return f"Did you mean `{close}`?" if close else f"Known here: {', '.join(names)}."


def like(name: str, known: Iterable[str]) -> str:
    """Return the known name that is nearest, empty when none is near."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)), "")


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    stack, seen = [node] if node is not None else [], set[int]()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, yaml.MappingNode):
            yield item
        stack.extend(_children(item))


def _explain(
    problem: str, node: yaml.Node | None, kind: type, path: str, error: type[SkillgateError]
) -> SkillgateError:
    message, _, where = problem.partition(" - at `")
    steps = [(name, index) for name, index in _STEP.findall(where.rstrip("`"))]
    nodes = [node] if node is not None else []
    for name, index in steps:
        nodes = [child for item in nodes for child in _step(item, name, index)] or nodes
    unknown = _UNKNOWN.search(message)
    if unknown:
        marks = [key for item in nodes for key in _keys(item) if key.value == unknown[1]]
        hint = nearest(unknown[1], _known_names(msgspec.inspect.type_info(kind), steps))
        return error(f"{path}:{_line(marks or nodes)}: unknown key `{unknown[1]}`", hint)
    spot = "".join(f".{name}" if name else f"[{index}]" for name, index in steps).lstrip(".")
    what = message[0].lower() + message[1:]
    hint = _how_to(what, _reach(msgspec.inspect.type_info(kind), steps))
    return error(f"{path}:{_line(nodes)}: {f'`{spot}`: ' if spot else ''}{what}", hint)


def _how_to(problem: str, kinds: list[Any]) -> str:
    """Say what to write in place of a wrong value."""
    if problem.startswith("invalid enum value"):
        values = [str(value) for kind in kinds for value in _values(kind)]
        return f"Write one of: {', '.join(values)}."
    if problem.startswith("expected `array`, got"):
        return "Write a list: `[one, two]`."
    return "Add it." if "missing required field" in problem else "Correct the value."


def _values(kind: Any) -> list[Any]:
    if isinstance(kind, msgspec.inspect.EnumType):
        return [member.value for member in kind.cls]
    return list(kind.values) if isinstance(kind, msgspec.inspect.LiteralType) else []


def _keys(node: yaml.Node) -> list[yaml.Node]:
    return [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []


def _step(node: yaml.Node, name: str, index: str) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for key, value in node.value if index == "..." or key.value == name]
    if isinstance(node, yaml.SequenceNode) and index.isdigit() and int(index) < len(node.value):
        return [node.value[int(index)]]
    return []


def _line(nodes: list[yaml.Node]) -> int:
    return int(nodes[0].start_mark.line) + 1 if nodes else 1


def _known_names(info: Any, steps: list[tuple[str, str]]) -> set[str]:
    """Collect the field names of the structs that the steps end in."""
    structs = [kind for kind in _reach(info, steps) if isinstance(kind, msgspec.inspect.StructType)]
    return {f.encode_name for struct in structs for f in struct.fields}


def _reach(info: Any, steps: list[tuple[str, str]]) -> list[Any]:
    """Follow the steps through the type; return the types that they may end in."""
    kinds = _flat(info)
    for name, _ in steps:
        reached: list[Any] = []
        for kind in kinds:
            if isinstance(kind, msgspec.inspect.StructType):
                reached += [f.type for f in kind.fields if f.encode_name == name]
            elif isinstance(kind, msgspec.inspect.DictType):
                reached.append(kind.value_type)
            elif isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
                reached.append(kind.item_type)
        kinds = [flat for item in reached for flat in _flat(item)]
    return kinds


def _flat(info: Any) -> list[Any]:
    return list(info.types) if isinstance(info, msgspec.inspect.UnionType) else [info]
