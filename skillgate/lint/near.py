"""Where in a text is a pattern worth trying? Near the words that it cannot match without.

Looking for a word is a hundred times faster than trying a pattern at every place, and most words of a
rule stand in no file at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skillgate.skill import Source

BEFORE, AFTER = 200, 400  # characters around a word, widened to whole lines


def surroundings(words: Iterable[str], source: Source) -> Iterator[tuple[int, int]]:
    """Give start and end of the lines around each place of the words, joined where they touch."""
    low = lowered(source)
    first = last = -1
    for place in sorted(place for word in words for place in _places(low, word)):
        if place < last - AFTER:
            continue
        start = low.rfind("\n", 0, max(place - BEFORE, 0)) + 1
        if start > last:
            if last >= 0:
                yield first, last
            first = start
        end = low.find("\n", place + AFTER)
        last = end if end >= 0 else len(low)
    if last >= 0:
        yield first, last


def lowered(source: Source) -> str:
    """Return the text in lower case with equal offsets: `İ` alone becomes two characters."""
    same = len(source.lower) == len(source.text)
    return source.lower if same else source.text.replace("İ", "i").lower()


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
