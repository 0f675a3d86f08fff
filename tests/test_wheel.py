"""The wheel holds the rules and fixtures and works from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("skillgate_action-*.whl")
    return built


def test_it_holds_every_rule_and_fixture_and_nothing_else_of_the_checkout(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = subprocess.run(
        ["git", "ls-files", "skillgate", "rules", "fixtures", "examples"], cwd=ROOT, capture_output=True
    )
    tracked = listed.stdout.decode().splitlines()
    wanted = {name if name.startswith("skillgate/") else f"skillgate/_shipped/{name}" for name in tracked}
    assert wanted - names == set()
    assert {name for name in names - wanted if ".dist-info/" not in name} == set()


@pytest.mark.long
def test_it_works_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    env = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path / "site")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "skillgate", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        ).stdout

    where = "import skillgate; print(skillgate.__file__)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", where], env=env, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(tmp_path))
    assert "token-weight" in run("rules")
    assert run("suite", "check", "builtin:ci-workflows", "--sandbox", "local").count("ok ") == 10
