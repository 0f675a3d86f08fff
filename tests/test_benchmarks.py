"""The page that compares linters says of ours what holds today; no peer is needed."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skillgate.cli import main

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("peers")


@pytest.fixture
def say(peers: ModuleType, tmp_path: Path, monkeypatch: Any, capsys: Any) -> Any:
    """Return what skillgate says of a trap, without a process of its own."""

    def say(trap: Any) -> tuple[list[str], str]:
        root = tmp_path / trap.id / "repository"
        peers.write_trap(trap, peers.read_traps().texts, root)
        monkeypatch.chdir(root)
        code = main(["lint", ".", "--format", "json", "--no-cache"])
        told = capsys.readouterr()
        said: tuple[list[str], str] = peers.heard(code, told.out, told.err)
        return said

    return say


def column(page: str) -> dict[str, str]:
    """Read our column, the first, out of all tables of traps."""
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| .*? \| (\*\*yes\*\*|alarm|broke|·) \|", page, re.MULTILINE))


@pytest.mark.long
def test_our_column_is_what_skillgate_says_today(peers: ModuleType, say: Any) -> None:
    clean, _ = say(peers.CLEAN)
    traps = peers.read_traps().traps
    told = [(trap, *say(trap)) for trap in traps]
    marks = {trap.id: peers.mark(trap, peers.judge(trap, said, clean), crash) for trap, said, crash in told}
    assert marks == column(PAGE), "run `python benchmarks/peers.py --only skillgate`"


def test_the_page_is_written_from_the_results(peers: ModuleType) -> None:
    assert peers.page(peers.read_traps(), peers.read_tools(), peers.read_results()) == PAGE


def test_every_trap_has_a_name_of_its_own(peers: ModuleType) -> None:
    names = [trap.id for trap in peers.read_traps().traps]
    assert sorted(set(names)) == sorted(names)


def test_what_is_said_of_the_clean_skill_does_not_count(peers: ModuleType) -> None:
    trap = peers.Trap(id="x", group="", says="", caught="token")
    assert peers.judge(trap, ["info: 12 tokens"], ["info: 7 tokens"]) == ""
    assert peers.judge(trap, ["info: 12 tokens", "warning: too many Tokens"], []) == "info: 12 tokens"


def test_findings_are_read_from_json_and_from_text(peers: ModuleType) -> None:
    found = {"files": [{"name": "a", "issues": [{"code": "X1", "message": "too long", "context": "secret"}]}]}
    passed = {"check": "Y1", "message": "all is well", "passed": True}
    assert list(peers.findings(json.dumps([found, passed]))) == ["X1: too long"]
    assert list(peers.findings("first [line\n\n  second\n")) == ["first [line", "second"]
    assert list(peers.findings("")) == []


def test_a_crash_is_told_from_a_failure(peers: ModuleType) -> None:
    assert peers.heard(1, "broken link\n", "") == (["broken link", "ended with a failure"], "")
    crash = "Traceback (most recent call last):\n  ...\nValueError: bad\n"
    assert peers.heard(1, "", crash) == ([], "ValueError: bad")
    assert peers.heard(-9, "", "") == ([], "signal 9")
