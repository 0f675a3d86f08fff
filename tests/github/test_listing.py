"""A tree that GitHub does not list whole is opened where it matters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.errors import UsageError
from skillgate.gate.changes import skill_folders as folders_of_a_gate
from skillgate.git import Entry
from skillgate.github.answers import Node, Tree
from skillgate.github.listing import Listing, open_differences, skill_folders

PARTS = ("SKILL.md", "a", "b", ".c")
PATHS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join)


def _is_tree(paths: Sequence[str]) -> bool:
    return not any(other.startswith(f"{path}/") for path in paths for other in paths)


@given(st.lists(PATHS, unique=True, max_size=8).filter(_is_tree))
def test_a_file_belongs_to_the_same_skill_as_in_a_gate(paths: list[str]) -> None:
    files = {path: Entry("100644", "a" * 40, 1) for path in paths}
    expected = {
        "" if folder == "." else folder: {name if folder == "." else f"{folder}/{name}" for name in inside}
        for folder, inside in folders_of_a_gate(files).items()
    }
    assert {folder: set(inside) for folder, inside in skill_folders(files).items()} == expected


class Forest:
    """Trees in memory, whose ids are those of their content; lists at most `most` entries."""

    def __init__(self, most: int) -> None:
        self.most, self.trees = most, dict[str, list[Node]]()

    def plant(self, files: Mapping[str, str]) -> str:
        here, below = list[Node](), dict[str, dict[str, str]]()
        for path, blob in files.items():
            first, _, rest = path.partition("/")
            if rest:
                below.setdefault(first, {})[rest] = blob
            else:
                here.append(Node(path=first, mode="100644", type="blob", sha=blob))
        for name, inside in below.items():
            here.append(Node(path=name, mode="040000", type="tree", sha=self.plant(inside)))
        sha = random.Random(repr(sorted((n.path, n.sha) for n in here))).randbytes(20).hex()
        self.trees[sha] = here
        return sha

    def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        found = list(self._walk(sha, "")) if recursive else self.trees[sha]
        is_cut = recursive and len(found) > self.most
        return Tree(tree=tuple(found[: self.most] if is_cut else found), truncated=is_cut)

    def _walk(self, sha: str, prefix: str) -> Iterator[Node]:
        for node in self.trees[sha]:
            path = prefix + node.path
            yield Node(path=path, mode=node.mode, type=node.type, sha=node.sha)
            if node.type == "tree":
                yield from self._walk(node.sha, f"{path}/")


FILES = st.dictionaries(PATHS, st.sampled_from(["a" * 40, "b" * 40]), max_size=8).filter(
    lambda f: _is_tree([*f])
)


@settings(deadline=None)
@given(FILES, FILES, st.integers(4, 12))
def test_opened_trees_differ_as_whole_ones_do(one: dict[str, str], other: dict[str, str], most: int) -> None:
    forest = Forest(most)
    sides = [Listing(forest, forest.plant(files)) for files in (one, other)]
    open_differences(*sides)
    seen = {(path, entry.blob) for side in sides for path, entry in side.files.items()}
    assert seen >= set(one.items()) ^ set(other.items())
    assert sides[0].closed == sides[1].closed
    for side, files in zip(sides, (one, other), strict=True):
        assert {path: entry.blob for path, entry in side.files.items()}.items() <= files.items()
        assert all(
            any(path.startswith(f"{c}/") for c in side.closed) for path in files.keys() - side.files.keys()
        )


def test_a_folder_of_a_hundred_thousand_files_is_told() -> None:
    class Endless:
        def tree(self, sha: str, *, recursive: bool = True) -> Tree:
            return Tree(tree=(), truncated=True)

    with pytest.raises(UsageError, match="the repository holds too many files to be listed"):
        Listing(Endless(), "a" * 40)
