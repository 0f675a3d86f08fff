"""What the types of `core` are made of: the struct base, ranked enums, places, amounts and weights."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, dataclass_transform

import msgspec

MICROS_PER_USD = 1_000_000

Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]


# Tells type checkers what msgspec does at run time: subclasses are frozen without saying so again.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every value type; each subclass says `kw_only`, which is not inherited."""


def usd(micros: int) -> float:
    """Turn micro-dollars into dollars, for showing only."""
    return micros / MICROS_PER_USD


class Ranked(StrEnum):
    """An enum whose members are listed from the best to the worst."""

    @property
    def rank(self) -> int:
        """Return the place in the list, 0 for the best."""
        return list(type(self)).index(self)


class Severity(Ranked):
    """How bad a finding is."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class FailOn(StrEnum):
    """The least severity that makes a lint or a gate fail."""

    NONE = "none"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    def catches(self, severity: Severity) -> bool:
        """Say whether a finding of this severity fails the check."""
        return self is not FailOn.NONE and severity.rank >= Severity(self.value).rank


class Location(Struct, kw_only=True, order=True):
    """A place in a file; line and column count from 1, columns in characters."""

    path: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class TokenWeight(Struct, kw_only=True):
    """Token counts of a skill: listing is paid on every request, body on use."""

    listing: int
    body: int
    references: int = 0
    tokenizer: str = "cl100k_base"

    @property
    def total(self) -> int:
        """Return the tokens of the whole tree."""
        return self.listing + self.body + self.references


class InputPrice(Struct, kw_only=True):
    """US dollars per million input tokens that are read without a cache, and whose price it is."""

    usd_per_mtok: float
    source: str

    def usd_per_1000(self, count: int) -> float:
        """Return what it costs to read so many tokens a thousand times."""
        return count * self.usd_per_mtok / 1000


class Usage(Struct, kw_only=True):
    """What one run consumed; adds up. `input`, `output` and `cache_*` count tokens."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    usd_micros: int = 0
    turns: int = 0
    tool_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        pairs = ((name, getattr(self, name) + getattr(other, name)) for name in self.__struct_fields__)
        return Usage(**dict(pairs))

    @property
    def tokens(self) -> int:
        """Return all tokens, whatever their price."""
        return self.input + self.output + self.cache_read + self.cache_write


class Secret:
    """A text that no `repr`, `str` or JSON shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret()"
