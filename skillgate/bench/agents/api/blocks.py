"""A model's answer in plain text -> the files in it: fenced blocks, each headed by its path. Pure.

Small models keep no format: the path may stand behind the fence, on the line before or in a comment
on the first line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^`]*?)\s*")
_PATH = r"/?[\w.@+-]+(?:/[\w.@+-]+)*"
_LABEL = r"(?:(?i:file ?name|file|path|title)\s*[:=]\s*)?"
_MARKED = re.compile(rf"[`*]+({_PATH})[`*]+")
_COMMENT = re.compile(rf"\s*(?:#|//|/\*|<!--|--|;)\s*{_LABEL}`?({_PATH})`?\s*(?:\*/|-->)?\s*")
_HEADING = re.compile(rf"[#*>\s`\"'(\[{{-]*(?:\d+\.\s+)?{_LABEL}[*\s`\"']*({_PATH})[*\s`\"')\]}}:]*")
_FILE_NAME = re.compile(r"[\w.-]*\w\.[A-Za-z]\w{0,4}|\.\w+")


class _Block(NamedTuple):
    info: str
    before: str
    lines: list[str]
    is_closed: bool


def parse(
    answer: str, known: Collection[str], only: str | None = None, *, is_cut: bool = False
) -> dict[str, str]:
    """Return the files of an answer, texts by path.

    Args:
        known: paths that exist or are asked for; any word that is one of them is taken for it.
        only: the path of a single block that names none.
        is_cut: the answer is not whole; a block without an end is left out then.
    """
    files: dict[str, str] = {}
    nameless: list[str] = []
    heading = ""  # a path in a block of its own heads the next one
    for block in _blocks(answer.replace("\r\n", "\n").removesuffix("\n").split("\n")):
        path, lines = _name(block, known)
        heading, before = ("", heading) if path else (_only_a_path(block, known), heading)
        path = path or before
        if heading:
            continue
        text = "".join(f"{line}\n" for line in lines)
        if not block.is_closed and is_cut:
            continue
        if path:
            files[path] = text
        else:
            nameless.append(text)
    if only is not None and only not in files and len(nameless) == 1 and nameless[0].strip():
        files[only] = nameless[0]
    return files


def _blocks(lines: list[str]) -> list[_Block]:
    """Find the outermost blocks; a fence with words behind it can only open one inside."""
    found: list[_Block] = []
    marks: list[str] = []
    before = ""
    for line in lines:
        fence = _FENCE.fullmatch(line)
        mark, info = (fence[1], fence[2]) if fence else ("", "")
        if not marks:
            if fence:
                marks.append(mark)
                found.append(_Block(info, before, [], False))
                before = ""
            else:
                before = line if line.strip() else before
            continue
        if mark and mark[0] == marks[-1][0] and len(mark) >= len(marks[-1]):
            if info:
                marks.append(mark)
            else:
                marks.pop()
        if marks:
            found[-1].lines.append(line)
        else:
            found[-1] = found[-1]._replace(is_closed=True)
    return found


def _name(block: _Block, known: Collection[str]) -> tuple[str, list[str]]:
    """Return the path of a block, or an empty one, and its lines without one that only names it."""
    for text in (block.info.partition(" ")[2], block.info.partition(":")[2], block.info, block.before):
        if path := _in_line(text, known):
            return path, block.lines
    comment = _COMMENT.fullmatch(block.lines[0]) if block.lines else None
    if comment and _is_path(comment[1], known):
        return comment[1].removeprefix("./"), block.lines[1:]
    return "", block.lines


def _only_a_path(block: _Block, known: Collection[str]) -> str:
    lines = [line for line in block.lines if line.strip()]
    return _in_line(lines[0], known) if len(lines) == 1 and _HEADING.fullmatch(lines[0]) else ""


def _in_line(text: str, known: Collection[str]) -> str:
    """Return the path that a line names: all of it, what is marked in it, or a word that is known."""
    heading = _HEADING.fullmatch(text)
    if heading and _is_path(heading[1], known):
        return heading[1].removeprefix("./")
    for word in _MARKED.findall(text):
        if word in known or "/" in word:
            return str(word).removeprefix("./")
    return next((word for word in (one.rstrip(".") for one in re.findall(_PATH, text)) if word in known), "")


def _is_path(word: str, known: Collection[str]) -> bool:
    return word.removeprefix("./") in known or "/" in word or _FILE_NAME.fullmatch(word) is not None
