"""Paths that mean something else somewhere, and deep trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillgate.errors import UsageError
from skillgate.git import Entry
from skillgate.github.objects import Objects, check_path
from tests.fakes.ranges import tree


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "a/../b", "..", "a//b", "./a", "a/.", ""),
        *(".git/config", "a/.GIT/hooks", "a/.git", "a/.git./x", "a/.git /x", ".gi\u200ct/x", "git~1/x"),
        *(".git::$INDEX_ALLOCATION/x", "a\0b", "x" * 4001, "\ud800"),
    ],
)
def test_a_path_that_could_be_another_one_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="is no path for a file of a skill") as caught:
        check_path(path)
    assert repr(path[:200]) in caught.value.message


@pytest.mark.parametrize("path", [".gitignore", "a/.github/x", "a.git/x", "...", "a/..b", "git/x", "\udcff"])
def test_an_odd_path_is_only_odd(path: str) -> None:
    check_path(path)


def test_depth_costs_a_stranger_nothing(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "r")
    blob = objects.write(b"x")
    path = "/".join("d" * 400)
    commit = objects.commit({f"{path}/{n}": Entry("100644", blob, 1) for n in range(50)}, (), "deep\n")
    assert len(tree(tmp_path / "r", commit)) == 50
