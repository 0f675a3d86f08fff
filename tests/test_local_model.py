"""What the honest run with a small model needs: a proven suite, a whole model, a page of its report."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from skillgate.bench.check import check_suite
from skillgate.bench.sandbox import local_sandbox
from skillgate.bench.suite import load_suite
from skillgate.config import parse
from skillgate.gate.agents import check_agent

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks/local-model"
PARTS = [b"a" * 10, b"b" * 10, b"c" * 4]


@pytest.fixture
def local_model(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, with a model of three small parts."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("local_model")
    content = b"".join(PARTS)
    for name, value in (("PART_BYTES", 10), ("PARTS", 3), ("MODEL_BYTES", len(content))):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "MODEL_SHA256", hashlib.sha256(content).hexdigest())
    return module


def test_an_interrupted_download_goes_on_where_it_was_cut(
    local_model: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []

    def append(number: int, target: int) -> None:
        fetched.append(number)
        if fetched == [1, 2]:
            os.write(target, PARTS[1][:3])
            raise KeyboardInterrupt
        os.write(target, PARTS[number - 1])

    monkeypatch.setattr(local_model, "_append", append)
    with pytest.raises(KeyboardInterrupt):
        local_model.fetch(tmp_path)
    assert local_model.fetch(tmp_path).read_bytes() == b"".join(PARTS)
    assert fetched == [1, 2, 2, 3]


def test_a_model_of_other_bytes_is_not_kept(
    local_model: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "_append", lambda number, target: os.write(target, b"x" * 8))
    with pytest.raises(SystemExit, match="not"):
        local_model.fetch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_the_page_shows_every_run_and_the_comment(local_model: ModuleType) -> None:
    page = local_model.page((ROOT / "tests/golden/scripted.json").read_text())
    assert "\n| pass ratio | " in page
    assert "\n> " in page
    assert "{" not in page.partition("Every run:")[0]


def test_the_configuration_can_be_run() -> None:
    config = parse((FOLDER / "skillgate.yml").read_text())
    check_agent(config)
    assert config.run.provider.base_url == "http://127.0.0.1:18231"


@pytest.mark.long
def test_the_suite_is_proven() -> None:
    suite = load_suite(FOLDER / "smallsteps")
    checks = check_suite(suite, local_sandbox(Path(sys.executable).parent))
    assert [check.problems for check in checks] == [()] * 8
