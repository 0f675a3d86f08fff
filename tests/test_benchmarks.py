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


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("sandbox")


def titles(page: str) -> list[str]:
    return re.findall(r"^(\w+): ", page, re.MULTILINE)


def test_the_costs_of_a_run_are_shown(sandbox: ModuleType, capsys: Any) -> None:
    sandbox.main(["--sandbox", "local", "--runs", "2", "--long", "4"])
    page = capsys.readouterr().out
    assert titles(page) == ["Throughput", "Growth", "Memory"]
    assert re.findall(r"^\| ([124]) \| \d+ \| \d\.\d{3} \|$", page, re.MULTILINE) == ["1", "2", "4"]
    assert re.search(
        r"Growth: the last of 4 runs .* \(\d+\.\d{3} times; [+-]\d+\.\d% on a straight line", page
    )
    assert re.search(r"Memory: below 200 MB: (met|MISSED) \(at most \d+\.\d MB\)", page)


@pytest.mark.docker
def test_the_costs_of_a_container_are_shown(sandbox: ModuleType, docker_image: str, capsys: Any) -> None:
    sandbox.main(["--image", docker_image, "--repeats", "1", "--runs", "0", "--long", "0", "--profile", "2"])
    page = capsys.readouterr().out
    assert titles(page) == ["Overhead", "Profile"]
    rows = dict(re.findall(r"^\| (.+?) \| (\S*) \| .*\|$", page, re.MULTILINE))
    assert {"POST /containers/create", "POST /containers/start", "everything else"} <= set(rows)
    assert rows["POST /containers/create"] == "2.0"  # one for the agent, one for the graders


def test_a_run_that_fails_is_not_timed(
    sandbox: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sandbox, "COMMAND", "true")
    with pytest.raises(SystemExit, match="a run is failed"):
        sandbox.main(["--sandbox", "local", "--runs", "1", "--long", "0"])
    assert capsys.readouterr().out == ""


def test_growth_is_told_from_noise(sandbox: ModuleType) -> None:
    steady, rising = [1.0, 1.2, 0.8, 1.0] * 50, [1 + number / 1000 for number in range(200)]
    assert (sandbox.ends(steady), round(sandbox.slope(steady), 4)) == ((1.0, 1.0), 0.0)
    assert sandbox.ends(rising) == pytest.approx((1.0245, 1.1745))
    assert sandbox.slope(rising) == pytest.approx(0.001)
    assert (sandbox.ends([3.0]), sandbox.slope([3.0])) == ((3.0, 3.0), 0.0)
