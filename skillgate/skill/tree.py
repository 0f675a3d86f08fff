"""The text files of a skill -> which of its files they lead to, and over how many others.

A text leads to a file when the name of the file without its suffix stands in it as a word (so an import
counts), or a folder that holds the file (`references/`, `rules/*.md`). That says too much rather than too
little: what nothing leads to is really named nowhere.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from skillgate.skill.source import Source

_WORD = re.compile(r"[\w-]+")
_FOLDER_END = re.compile(r"(?<=[\w.-])/(?![\w-]|\.[\w./])")
_QUOTED_FOLDER = re.compile(r"`(?:[\w.-]+/)*([\w.-]+)`")
_MAX_NAME, _MAX_FOLDERS, _MAX_TRIES = 80, 20_000, 200  # characters; mentions in one text; of one word
_ASIDE = re.compile(
    r"(?:.*/)?(?:(?:licen[cs]e|copying|notice|readme|changelog|contributing|authors|requirements|makefile|dockerfile)"
    r"(?:\..*|-.*\.txt)?|(?:skill|agents|claude|gemini|history|security|version)(?:\.md)?"
    r"|(?:package|package-lock|tsconfig|metadata|plugin|skill|tile|pyproject|go|setup|conftest|agents/openai)"
    r"\.(?:json|toml|ya?ml|mod|sum|py|cfg))"
    r"|.*\.lock|(?:.*/)?(?:\.|__).*|(?:.*/)?(?:tests?|evals?|fixtures|testdata)/.*|(?:.*/)?test[_-].*"
    r"|.*[._-](?:test|spec)s?\..*",
    re.IGNORECASE,
)


class Step(NamedTuple):
    """Over how many files SKILL.md leads to a file (1: it names it itself), and the last one of them."""

    level: int
    via: str


def is_aside(name: str) -> bool:
    """Say whether nobody expects a skill to name a file: a licence, a README, a manifest, a test."""
    return _ASIDE.fullmatch(name) is not None


def steps(names: Iterable[str], texts: Mapping[str, Source], start: str) -> dict[str, Step]:
    """Return how `start` leads to the files in `names`, and then what lies aside to the rest.

    `texts` maps names to what stands in them; what lies aside is at level 0.
    """
    aside = [name for name in names if is_aside(name) and name != start]
    found = {name: Step(0, "") for name in (start, *aside)}
    left = set(names).difference(found)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for name in left:
        for key in _keys(name):
            wanted[key].add(name)
    for level in ([start], aside):
        while level and left:
            level = [
                name for via in level if via in texts for name in _follow(via, texts[via], wanted, found)
            ]
            left.difference_update(level)
    return found


def _follow(via: str, text: Source, wanted: dict[str, set[str]], found: dict[str, Step]) -> list[str]:
    likely = {key for key in wanted if text.holds(key.rstrip("/"))}
    folders = {key for key in likely if key.endswith("/")}
    there = {key for key in likely - folders if _stands(key, text.lower)}
    there |= folders & _folders(text.lower) if folders else set()
    said = [wanted.pop(key) for key in there]
    reached = sorted(set[str]().union(*said).difference(found))
    found.update((name, Step(found[via].level + 1, via)) for name in reached)
    return reached


def _keys(name: str) -> frozenset[str]:
    """Return the words that lead to a file: the name without a suffix, and each folder with a slash."""
    return frozenset([stem(name), *(f"{folder}/" for folder in name.lower().split("/")[:-1])])


def stem(name: str) -> str:
    """Return the name of a file without suffixes, in lower case; of several words the longest."""
    plain = posixpath.basename(name).lower().split(".")[0]
    return max(_WORD.findall(plain), key=len, default=plain)


def _stands(word: str, text: str) -> bool:
    """Say whether a text holds a name as a whole word; one that stands in very many others may."""
    at = -1
    for _ in range(_MAX_TRIES):
        at = text.find(word, at + 1)
        if at < 0:
            return False
        end = at + len(word)
        if not (_WORD.match(text[at - 1 : at]) or _WORD.match(text[end : end + 1])):
            return True
    return True


def _folders(text: str) -> set[str]:
    """Return the folders that a text names, each with a slash."""
    found = set[str]()
    found.update(f"{name}/" for name in _QUOTED_FOLDER.findall(text))
    for end in islice(_FOLDER_END.finditer(text), _MAX_FOLDERS):
        before = text[max(0, end.start() - _MAX_NAME) : end.start()]
        found.add(re.split(r"[^\w.-]", before)[-1] + "/")
    return found
