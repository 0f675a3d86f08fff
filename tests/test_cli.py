from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillgate import cli, shipped
from skillgate.cli import main
from skillgate.errors import ExitCode, UsageError

GOOD = "---\nname: good\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "skills" / "good").mkdir(parents=True)
    (folder / "skills" / "good" / "SKILL.md").write_text(GOOD)
    monkeypatch.chdir(folder)
    return folder


def test_lint_prints_the_result_on_stdout_and_passes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--format", "json"]) == ExitCode.OK
    out = capsys.readouterr()
    assert (json.loads(out.out), out.err) == (
        {"schema": 1, "skills": 1, "ignored": 0, "baselined": 0, "stale": 0, "findings": []},
        "",
    )


def test_lint_fails_from_the_level_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "skills" / "bad").mkdir()
    (here / "skills" / "bad" / "SKILL.md").write_text(GOOD.replace("name: good", "name: Bad"))
    assert main(["lint"]) == ExitCode.GATE_FAILED
    assert "skills/bad/SKILL.md:2:7" in capsys.readouterr().out
    assert main(["lint", "--fail-on", "none"]) == ExitCode.OK
    assert main(["lint", "skills/good"]) == ExitCode.OK
    assert main(["lint", "skills/bad/SKILL.md"]) == ExitCode.GATE_FAILED


def test_lint_of_no_skills_is_an_error_not_a_pass(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    assert main(["lint", "empty", "--format", "json"]) == ExitCode.GATE_FAILED
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["rule"], f["where"]["path"]) for f in found] == [("no-skills-found", "empty")]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["lint", "nowhere"], 2, "skillgate: nowhere: no such file or folder"),
        (["rules", "nope"], 2, "skillgate: no rule `nope`"),
        (["gate"], 2, "not a git repository"),
        (["gate", "--repo", "nowhere"], 2, "no such folder"),
        (["run", "--skill", "skills/gone"], 2, "skillgate: skills/gone: no skill there"),
        (["report", "missing.json"], 2, "skillgate: missing.json: cannot be read"),
        (["suite", "check", "nowhere"], 2, "nowhere: no suite there"),
        (["suite", "check"], 2, "skillgate: no suite below fixtures/"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["lint", "--format", "xml"], 2, "Invalid value for '--format'"),
        (["action"], 2, "not set in the environment"),
    ],
)
def test_bad_input_is_one_clear_line(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.delenv("GITHUB_EVENT_NAME", raising=False)
    if "suite" in arguments:
        arguments = [*arguments, "--sandbox", "local"]
    assert main(arguments) == code
    out = capsys.readouterr()
    assert message in out.err
    assert arguments == ["action"] or out.out == ""  # a runner reads annotations from stdout


def test_a_broken_config_is_named_by_line_with_the_nearest_key(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "skillgate.yml").write_text("lint:\n  fail-om: error\n")
    assert main(["lint"]) == ExitCode.USAGE
    assert (
        capsys.readouterr().err
        == "skillgate: skillgate.yml:2: unknown key `fail-om`\n  Did you mean `fail-on`?\n"
    )


def test_docker_that_is_absent_exits_4_and_says_how_to_get_it(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    suite = shipped.shipped("fixtures") / "textkit"
    assert main(["suite", "check", str(suite), "--sandbox", "docker"]) == ExitCode.PREREQUISITE
    assert "Docker" in capsys.readouterr().err
    assert main(["doctor"]) == ExitCode.PREREQUISITE
    assert "missing Docker" in capsys.readouterr().out


def test_a_bug_leaves_its_traceback_in_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr("skillgate.linting.lint_paths", broken)
    assert main(["lint"]) == ExitCode.BUG
    message = capsys.readouterr().err
    path = Path(message.strip().rpartition(" ")[2])
    assert "RuntimeError: surprise" in path.read_text()
    path.unlink()


def test_an_error_is_no_command_of_a_runner_and_no_escape_code(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise UsageError("a\n::set-output name=x::y\n##[add-mask]z\x1b[31m", "Hint.")

    monkeypatch.setattr("skillgate.linting.lint_paths", broken)
    assert main(["lint"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert [line for line in said.splitlines() if line.lstrip().startswith("::")] == []
    assert "##[" not in said
    assert "\x1b" not in said


def test_the_suite_that_is_broken_is_named(tiny_suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(tiny_suite / "tasks/add-double/solution.patch", tiny_suite / "saved.patch")
    assert main(["suite", "check", str(tiny_suite), "--sandbox", "local"]) == ExitCode.OK
    assert capsys.readouterr().out == "ok   tiny/add-double\n"
    text = (tiny_suite / "saved.patch").read_text().replace("2 * number_to_double", "3 * number_to_double")
    (tiny_suite / "tasks/add-double/solution.patch").write_text(text)
    assert main(["suite", "check", str(tiny_suite), "--sandbox", "local"]) == ExitCode.USAGE
    assert "doubles/doubles.two" in capsys.readouterr().out


def test_a_closed_pipe_changes_no_exit_code(here: Path) -> None:
    """The reader leaves before the command writes: no crash, and the command's own code stands."""
    (here / "skills/good/SKILL.md").write_text(GOOD.replace("name: good", "name: Bad"))
    command = f"{sys.executable} -m skillgate lint | (exec <&-; sleep 1)"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}} >&2"], capture_output=True, text=True
    )
    assert done.stderr.split() == ["1"]


def test_lint_finds_the_configuration_above_and_names_paths_from_there(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "skillgate.yml").write_text("lint: {fail-on: none}")
    (here / "skills/good/SKILL.md").write_text(GOOD.replace("name: good", "name: Bad"))
    (here / "other").mkdir()
    monkeypatch.chdir(here / "skills")
    spellings = ([], ["good"], ["../skills/good"], [str(here / "skills/good/SKILL.md")])
    for paths in spellings:
        assert main(["lint", *paths]) == ExitCode.OK
        assert capsys.readouterr().out.startswith("skills/good/SKILL.md:2:7: error")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--repeats", "0"], "--repeats: expected `int` >= 1"),
        (["--budget-usd", "-1"], "--budget-usd: expected `float` >= 0.0"),
        (["--budget-usd", "inf"], "--budget-usd: expected `float` <= 1000000.0"),
        (["--workers", "0"], "--workers: expected `int` >= 1"),
        (["--seed", "-1"], "--seed: expected `int` >= 0"),
        (["--agent", "copilot"], "unknown agent `copilot`"),
        (["--script", "nope.yml"], "nope.yml: no such file"),
        (["--config", "nope.yml"], "nope.yml: no such file"),
    ],
)
def test_a_wrong_option_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    command = ["run", "--skill", "skills/good", "--suite", "builtin:textkit", "--agent", "scripted"]
    assert main([*command, "--sandbox", "local", *options]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_docker_that_is_absent_stops_a_run_before_anything_is_spent(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    script = str(shipped.shipped("fixtures") / "demo/script.yml")
    command = ["run", "--skill", "skills/good", "--suite", "builtin:textkit", "--agent", "scripted"]
    assert main([*command, "--script", script, "--sandbox", "docker"]) == ExitCode.PREREQUISITE
    assert "no Docker engine answers" in capsys.readouterr().err
    assert not (here / ".skillgate").exists()


def test_a_folder_that_cannot_be_written_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").touch()
    assert main(["run", "--skill", "skills/good", "--out", "file"]) == ExitCode.USAGE
    assert "skillgate: file: cannot be written" in capsys.readouterr().err
    assert main(["demo", "--out", "file"]) == ExitCode.USAGE
    assert "skillgate: file: cannot be written" in capsys.readouterr().err


def test_no_text_tells_anyone_to_install_a_package_of_somebody_else() -> None:
    root = Path(cli.__file__).parent.parent
    files = [
        *root.glob("*.md"),
        *root.glob("*.toml"),
        *root.glob("*.yml"),
        *(root / "skillgate").rglob("*.py"),
    ]
    wanted = "pip install " + "skillgate"
    assert [p.name for p in files if wanted in p.read_text().replace(wanted + "-action", "")] == []
