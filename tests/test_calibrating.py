"""`skillgate calibrate` from the command line to its record, with the scripted agent in the local sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.core import SCRIPTED_LABEL
from skillgate.errors import ExitCode
from skillgate.gate.calibration_record import FILE_NAME, load_record

CONFIG = """\
suites: {"skills/**": [suites/tiny]}
run: {agent: scripted, script: script.yml, sandbox: local, repeats: 4, budget-usd: 9.00, per-run-usd: 0.20}
policy: {margin: 0.15}
"""
SCRIPT = """\
price: {input: 2.0, output: 10.0}
arms:
  none: &noisy {moves: {oracle: 1, nothing: 1}, input: {median: 9000}, output: {median: 900}}
  base: *noisy
  head: *noisy
"""
SKILL = "---\nname: calc\ndescription: Adds functions. Use when a task asks for one.\n---\nAdd it.\n"
RUN = ("calibrate", "--scripted", "--run", "--skill", "skills/calc", "--splits", "200")


@pytest.fixture
def here(tmp_path: Path, tiny_suite: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a suite, a skill and a configuration, which is the current one."""
    root = tmp_path / "root"
    shutil.copytree(tiny_suite, root / "suites" / "tiny")
    files = {"skillgate.yml": CONFIG, "script.yml": SCRIPT, "skills/calc/SKILL.md": SKILL}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def test_a_skill_is_run_against_itself_and_the_record_is_left(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN]) == ExitCode.OK
    shown = capfd.readouterr()
    assert shown.out.splitlines()[0] == SCRIPTED_LABEL
    assert "identical skills called different" in shown.out
    assert "a drop of 15 points merged" in shown.out
    assert "8/8 runs" in shown.err
    record = load_record(here / ".skillgate" / FILE_NAME)
    assert record is not None
    assert (record.agent, record.tasks, record.runs, record.splits) == ("scripted", 1, 8, 200)
    assert (record.margin, list(record.suites), len(record.suites["tiny"])) == (0.15, ["tiny"], 16)
    assert not (here / ".skillgate" / "report.json").exists()

    again = ["calibrate", "--scripted", "--suite", "suites/tiny", "--splits", "200", "--format", "json"]
    assert main(again) == ExitCode.OK
    second = json.loads(capfd.readouterr().out)
    assert second["called_different"]["events"] == record.called_different.events
    assert second == json.loads((here / ".skillgate" / FILE_NAME).read_text())


def test_scripted_runs_are_refused_before_anything_runs(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([part for part in RUN if part != "--scripted"]) == ExitCode.USAGE
    assert "measure no suite" in capfd.readouterr().err
    assert not (here / ".skillgate").exists()


def test_without_runs_it_says_how_to_get_them(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate"]) == ExitCode.PREREQUISITE
    shown = capfd.readouterr()
    assert "skillgate calibrate --run --skill DIR" in shown.err
    assert shown.out == ""
    assert not (here / ".skillgate").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--run"], "--run and --skill go together"),
        (["--skill", "skills/calc"], "--run and --skill go together"),
        (["--repeats", "1"], "--repeats: an arm of one repeat"),
        (["--splits", "0"], "--splits"),
    ],
)
def test_wrong_arguments_are_named(
    here: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["calibrate", *arguments]) == ExitCode.USAGE
    assert says in capfd.readouterr().err


def test_the_command_is_there_without_what_only_calibrating_needs() -> None:
    heavy = ("docker", "anthropic", "scipy", "numpy", "rich", "aiohttp")
    code = f"import sys, skillgate.calibrating; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
