from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillgate.bench.runner import Quiet
from skillgate.core import SCRIPTED_LABEL, Decision, Metric
from skillgate.demo import SCENARIOS, make_room, play
from skillgate.errors import UsageError
from skillgate.report import json, text

PYTHON_BIN = Path(sys.executable).parent


@pytest.mark.long
def test_the_three_scenarios_get_the_verdicts_they_are_named_for(tmp_path: Path, readme: Any) -> None:
    out = tmp_path / "demo"
    report = play(tuple(SCENARIOS), out, PYTHON_BIN, Quiet())
    decisions = {one.skill.removeprefix("skills/"): one.verdict.decision for one in report.reports}
    assert decisions["careful-changes"] is Decision.MERGE
    assert decisions["workflow-templates"] in (Decision.BLOCK, Decision.HOLD)
    assert decisions["quality-mindset"] in (Decision.INCONCLUSIVE, Decision.HOLD)
    assert {p.name for p in out.iterdir()} >= {"report.json", "comment.md", "journal.sqlite", "repo"}
    assert json.load((out / "report.json").read_text(), "report.json") == report
    for shown in ((out / "comment.md").read_text(), text.render(report)):
        assert SCRIPTED_LABEL in shown
    comment = (out / "comment.md").read_text()
    readme.expect(
        "demo-comment",
        "> " + comment.partition("<details")[0].partition("\n")[2].strip().replace("\n", "\n> "),
    )
    for one in report.reports:
        ratio = one.comparison(Metric.PASS_RATIO)
        assert ratio is not None
        assert (ratio.tasks, ratio.repeats, ratio.n_dropped) == (10, one.looks[-1].repeats, 0)
    assert report.spend.saved_runs > 0


def test_the_command_shows_how_a_template_displaces_files(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "skillgate", "demo", "--scenario", "harms", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert SCRIPTED_LABEL in done.stdout
    assert "ended after 2 of 4 repeats: decided" in done.stderr
    (one,) = json.load((out / "report.json").read_text(), "report.json").reports
    assert {f.rule for f in one.findings} == {"template-anchoring"}
    moved = {path for run in one.runs if run.cell.arm == "head" for path in run.changed_files}
    assert ".github/workflows/reusable-test.yml" in moved


def test_only_the_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    mine, earlier = tmp_path / "mine", tmp_path / "earlier"
    mine.mkdir()
    (mine / "file.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        make_room(mine)
    assert (mine / "file.txt").read_text() == "mine"
    make_room(earlier)
    (earlier / "repo").mkdir()
    make_room(earlier)
    assert not (earlier / "repo").exists()
