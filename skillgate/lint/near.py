"""Where in a text is a pattern worth trying? Near the words that it cannot match without.

Most words of a rule stand in no file at all, and a set of the words of a file tells so at once; where they
do, only the lines around them are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skillgate.skill import Source

BEFORE, AFTER = 150, 450  # characters around a word, widened to whole lines


def surroundings(words: Iterable[str], source: Source) -> Iterator[tuple[int, int]]:
    """Give start and end of the lines around each place of the words, joined where they touch."""
    first = last = -1
    low = source.lower
    for place in sorted(place for word in words if source.holds(word) for place in _places(low, word)):
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


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
