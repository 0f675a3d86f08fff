"""GitHub's answers as far as they are read: typed and checked, or an error of msgspec.

Text of strangers: what reaches git as an argument has a pattern here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SHA = r"^[0-9a-f]{40}([0-9a-f]{24})?\Z"
Sha = Annotated[str, msgspec.Meta(pattern=SHA)]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tree; a folder or a submodule has no size."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    mode: Annotated[str, msgspec.Meta(pattern=r"^[0-7]{6}\Z")]
    type: Literal["blob", "tree", "commit"]
    sha: Sha
    size: int = 0

    def __post_init__(self) -> None:
        fits = {"tree": self.mode == "040000", "commit": self.mode == "160000"}
        if not fits.get(self.type, self.mode.startswith("10") or self.mode == "120000"):
            raise ValueError(f"mode {self.mode} for a {self.type}")


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """What GitHub lists of a tree; a `truncated` list is of no use."""

    tree: tuple[Node, ...]
    truncated: bool


class _Repository(msgspec.Struct, frozen=True):
    full_name: str


class _User(msgspec.Struct, frozen=True):
    type: str


class _Side(msgspec.Struct, frozen=True):
    sha: Sha
    ref: str
    repo: _Repository | None = None  # null once the fork is deleted


class PullAnswer(msgspec.Struct, frozen=True):
    """What is read of a pull request; a list says less than one by its number."""

    number: int
    state: str
    head: _Side
    base: _Side
    user: _User | None = None
    draft: bool = False


class BlobAnswer(msgspec.Struct, frozen=True):
    """What is read of a blob."""

    content: str
    encoding: Literal["base64"]


class _Commit(msgspec.Struct, frozen=True):
    sha: Sha


class ComparisonAnswer(msgspec.Struct, frozen=True):
    """What is read of two commits."""

    merge_base_commit: _Commit
