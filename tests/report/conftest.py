"""Sample reports for every renderer, and golden files.

`SKILLGATE_UPDATE_GOLDEN=1 pytest tests/report` writes the golden files anew; read the diff.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def _load(name: str) -> ModuleType:
    """Import a helper beside this file; the tests are no package."""
    spec = importlib.util.spec_from_file_location(f"report_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_SAMPLES = _load("samples")


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """The module samples.py."""
    return _SAMPLES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `sample_name` once for every sample."""
    if "sample_name" in metafunc.fixturenames:
        metafunc.parametrize("sample_name", sorted(_SAMPLES.ALL))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with tests/golden/<name>."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("SKILLGATE_UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path} differs"

    return check
