"""The text editor tool: what a model asks of it -> what it is told; files are those of the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from skillgate.bench.agents.api.files import FileProblem, Hands, quoted

NAME = "str_replace_based_edit_tool"
TOOL = {"type": "text_editor_20250728", "name": NAME}
_IN_FOLDER = "cd {} && find . -maxdepth 2 -not -path '*/.*' | LC_ALL=C sort | head -n 500"
_SHOWN_PLACES = 5


def edit(hands: Hands, asked: Mapping[str, Any]) -> str:
    """Do what is asked, and say so. Raises: FileProblem, End, SandboxFailure."""
    path = _text(asked, "path")
    match asked.get("command"):
        case "view":
            return _view(hands, path, asked.get("view_range"))
        case "create":
            hands.write(path, _bytes(_text(asked, "file_text")))
            return f"Wrote {path}."
        case "str_replace":
            return _replace(hands, path, _text(asked, "old_str"), _text(asked, "new_str", ""))
        case "insert":
            line = asked.get("insert_line")
            return _insert(hands, path, line, _text(asked, "insert_text"))
    raise FileProblem("`command` is none of view, create, str_replace, insert")


def _view(hands: Hands, path: str, wanted: object) -> str:
    try:
        lines = _lines(hands.read(path))
    except FileProblem as problem:
        if not str(problem).endswith("is a folder"):
            raise
        return hands.run(_IN_FOLDER.format(quoted(path))).output
    first, last = _range(wanted, len(lines))
    return "".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _range(wanted: object, count: int) -> tuple[int, int]:
    if wanted is None:
        return 1, count
    match wanted:
        case [int(first), int(last)] if 1 <= first <= count and (last == -1 or last >= first):
            return first, count if last == -1 else min(last, count)
    raise FileProblem(f"`view_range` is [first, last] with lines from 1 to {count}, or -1 for the last")


def _replace(hands: Hands, path: str, old: str, new: str) -> str:
    text = _decode(hands.read(path))
    found = text.count(old) if old else 0
    if found == 0:
        raise FileProblem(f"nothing replaced: `old_str` does not occur in {path} letter by letter")
    if found > 1:
        places = ", ".join(map(str, islice(_places(text, old), _SHOWN_PLACES)))
        raise FileProblem(f"nothing replaced: `old_str` occurs {found} times in {path}, at lines {places}")
    hands.write(path, _bytes(text.replace(old, new)))
    return f"Changed {path} at line {next(_places(text, old))}."


def _places(text: str, part: str) -> Iterator[int]:
    """Yield the lines in which a part begins."""
    at = text.find(part)
    while at >= 0:
        yield text.count("\n", 0, at) + 1
        at = text.find(part, at + len(part))


def _insert(hands: Hands, path: str, line: object, text: str) -> str:
    lines = _lines(hands.read(path))
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
        raise FileProblem(f"`insert_line` is a line after which to insert, from 0 to {len(lines)}")
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += "\n"
    if line < len(lines) and not text.endswith("\n"):
        text += "\n"
    hands.write(path, _bytes("".join([*lines[:line], text, *lines[line:]])))
    return f"Inserted into {path} after line {line}."


def _text(asked: Mapping[str, Any], name: str, default: str | None = None) -> str:
    found = asked.get(name, default)
    if not isinstance(found, str):
        raise FileProblem(f"`{name}` is missing, or no text")
    return found


def _decode(content: bytes) -> str:
    """Return a text that `_bytes` turns into the same bytes, whatever they are."""
    return content.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _lines(content: bytes) -> list[str]:
    """Return the lines with their ends; the last one may have none."""
    return re.findall(r"[^\n]*\n|[^\n]+", _decode(content))
