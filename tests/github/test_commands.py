from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.runner import Quiet
from skillgate.core import ChangeKind, GateReport
from skillgate.gate.pipeline import Options, gate_range
from skillgate.github import commands
from skillgate.report import annotations, markdown, text
from skillgate.report import json as report_json
from tests.report.hostile import CORPUS, Page, log_lines, runs_command

SKILL = (
    "---\nname: x\ndescription: Adds things. Use when a task asks for a new thing.\n---\n# Things\n\n{body}\n"
)
NAMES = (
    "::set-output name=verdict::merge",
    "-rf",
    "--help",
    "$(touch pwned)",
    "`touch pwned`",
    "a\n::error::injected",
    "a\rb\tc",
    "with \"double\" and 'single' quotes",
    "EOF\nverdict=merge",
    "x%0A::error::y",
    "##[error]x",
    "</details><b>x @octocat #1",
    "| a |\n|---|",
    "<!-- skillgate:report:v1 id=default -->",
    "-->",
    "{0} %s \\ ${{ github.token }}",
    "naïve 漢字 \u202eexe.gnp",
    "half \udcff a character",
    " spaces ",
    "*?[x]~",
    ":(top)",
)  # fmt: skip


def _read_outputs(text: str) -> dict[str, str]:
    """Read step outputs as the runner does."""
    outputs, lines = {}, iter(re.split(r"\r\n|\n", text.removesuffix("\n")))
    for line in lines:
        name, delimiter = line.split("<<")
        value: list[str] = []
        while (row := next(lines)) != delimiter:
            value.append(row)
        outputs[name] = "\n".join(value)
    return outputs


def test_a_message_stays_one_command() -> None:
    assert commands.message("error", "100% wrong\r\n::set-output name=x::y") == (
        "::error title=skillgate::100%25 wrong%0D%0A::set-output name=x::y\n"
    )


def test_a_mask_stays_one_command() -> None:
    assert commands.add_mask("a\nb%") == "::add-mask::a%0Ab%25\n"


def test_commands_are_stopped_with_an_unguessable_token_and_resume_after_an_error() -> None:
    stdout = io.StringIO()

    def crash() -> None:
        with commands.stopped(stdout):
            print("::error::from a skill", file=stdout)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    token = re.fullmatch(
        r"::stop-commands::([0-9a-f]{32})\n::error::from a skill\n\n::\1::\n", stdout.getvalue()
    )
    assert token is not None
    again = io.StringIO()
    with commands.stopped(again):
        pass
    assert token[1] not in again.getvalue()


def test_outputs_are_appended_and_no_value_can_end_itself(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("before<<X\n1\nX\n")
    hostile = "skillgate_\nEOF\nverdict=merge\nverdict<<EOF\nmerge\nEOF"
    commands.write_outputs(path, {"verdict": "block", "decision-by-skill": hostile, "comment-url": ""})
    first = path.read_text()
    assert _read_outputs(first) == {
        "before": "1",
        "verdict": "block",
        "decision-by-skill": hostile,
        "comment-url": "",
    }
    commands.write_outputs(path, {"again": "1"})
    delimiters = re.findall(r"<<(skillgate_[0-9a-f]{32})\n", path.read_text())
    assert len(set(delimiters)) == 2


def test_a_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    commands.write_summary(path, "### one\n")
    commands.write_summary(path, "two ⛔\n")
    assert path.read_text(encoding="utf-8") == "### one\ntwo ⛔\n"


@pytest.mark.parametrize("used", [0, 1000, commands.SUMMARY_LIMIT - 50, commands.SUMMARY_LIMIT])
def test_a_summary_never_exceeds_what_github_shows(tmp_path: Path, used: int) -> None:
    path = tmp_path / "summary"
    path.write_bytes(b"x" * used)
    commands.write_summary(path, "a line with ⛔\n" * 100_000)
    content = path.read_bytes()
    assert len(content) <= commands.SUMMARY_LIMIT
    if used <= 1000:
        text = content.decode("utf-8")
        assert text.endswith("\na line with ⛔\n" + commands._CUT)


# --- as the runner reads it --------------------------------------------------------


def _obeyed(log: str) -> Iterator[str]:
    """Give the lines of a log that the runner obeys: none between a stop and its token."""
    token = None
    for line in log_lines(log):
        shown = line.lstrip()
        if token is not None:
            token = None if shown.startswith(f"::{token}::") else token
        elif shown.startswith("::stop-commands::"):
            token = shown.removeprefix("::stop-commands::")
        elif runs_command(line):
            yield line


@pytest.mark.parametrize("hostile", CORPUS.values(), ids=CORPUS)
def test_nothing_is_obeyed_while_commands_are_stopped(hostile: str) -> None:
    """Also where the last line is left open, which would hide the token that ends it."""
    log = io.StringIO()
    with commands.stopped(log):
        log.write(hostile)
    log.write(commands.message("error", hostile) + commands.add_mask("key"))
    error, mask = _obeyed(log.getvalue())
    assert error.startswith("::error title=skillgate::")
    assert mask == "::add-mask::key"
    log.getvalue().split("::error title=", 1)[1].encode()


@given(st.text() | st.sampled_from([*CORPUS.values()]))
def test_a_message_is_one_line_and_says_all(said: str) -> None:
    line, rest = log_lines(commands.message("notice", said))
    assert rest == ""
    data = line.removeprefix("::notice title=skillgate::")
    whole = data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    assert whole.encode() == said.encode("utf-8", "replace")


@pytest.mark.parametrize("hostile", CORPUS.values(), ids=CORPUS)
def test_an_output_comes_back_as_it_was(hostile: str, tmp_path: Path) -> None:
    path = tmp_path / "output"
    commands.write_outputs(path, {"first": hostile, "verdict": "block"})
    found = _read_outputs(path.read_bytes().decode())
    assert found["verdict"] == "block"
    assert found.keys() == {"first", "verdict"}
    assert found["first"] == hostile.encode("utf-8", "replace").decode().replace("\r\n", "\n")


# --- from git to the outputs -------------------------------------------------------


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hostile_range(tmp_path_factory: pytest.TempPathFactory) -> tuple[GateReport, Path]:
    """Gate a range that adds a skill of each name, with a file of each name in the first."""
    folder = tmp_path_factory.mktemp("range")
    repository = folder / "repo"
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    _git(repository, "commit", "-qm", "nothing yet", "--allow-empty")
    for name in NAMES:
        # A slash would be two folders.
        skill = repository / "skills" / name.replace("/", "∕")
        skill.mkdir(parents=True)
        body = "See [it](references/missing.md)."
        (skill / "SKILL.md").write_text(SKILL.format(body=body), encoding="utf-8")
    for name in NAMES:
        (repository / "skills" / "-rf" / name.replace("/", "∕")).write_text("x", encoding="utf-8")
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "$(touch pwned)\n\n::error::x")
    options = Options(out=folder / "out", why_not="Linted only: ::error::x")
    return gate_range(repository, "HEAD~1", "HEAD", options, Quiet()), folder


def test_hostile_names_reach_the_report_as_they_are(hostile_range: tuple[GateReport, Path]) -> None:
    report, folder = hostile_range
    assert {one.skill for one in report.reports} == {f"skills/{name.replace('/', '∕')}" for name in NAMES}
    assert {one.change.kind for one in report.reports} == {ChangeKind.ADDED}
    (first,) = (one for one in report.reports if one.skill == "skills/-rf")
    assert set(first.change.files) == {"SKILL.md", *(name.replace("/", "∕") for name in NAMES)}
    saved = (folder / "out" / "report.json").read_text(encoding="utf-8")
    assert report_json.load(saved, "report.json") == report
    assert not [*folder.rglob("pwned")]


def test_hostile_names_are_shown_and_not_obeyed(hostile_range: tuple[GateReport, Path]) -> None:
    report, folder = hostile_range
    shown = (folder / "out" / "comment.md").read_text(encoding="utf-8")
    assert shown == markdown.render(report)
    page = Page(shown)
    assert [*page.references()] == page.strays == page.links == []
    assert page.tags["details"] == page.tags["summary"] == len(NAMES)
    assert page.comments == [" skillgate:report:v1 id=default "]
    found = [finding for one in report.reports for finding in one.findings]
    assert len(found) >= len(NAMES)
    assert [line for line in log_lines(text.render(report)) if runs_command(line)] == []
    commands_shown = log_lines(annotations.render(found).rstrip("\n"))
    assert all(
        re.match(r"::(error|warning|notice) (file=[^,]*,line=\d+,col=\d+,)?title=", line)
        for line in commands_shown
    )


def test_hostile_names_come_back_from_the_outputs(
    hostile_range: tuple[GateReport, Path], tmp_path: Path
) -> None:
    report, folder = hostile_range
    decisions = {one.skill: one.verdict.decision for one in report.reports}
    path, summary = tmp_path / "output", tmp_path / "summary"
    written = {"decision-by-skill": json.dumps(decisions), "verdict": "block", "report-path": "a\nb=c"}
    commands.write_outputs(path, written)
    commands.write_summary(summary, (folder / "out" / "comment.md").read_text(encoding="utf-8"))
    found = _read_outputs(path.read_bytes().decode())
    assert found == written
    assert json.loads(found["decision-by-skill"]) == decisions
    assert summary.stat().st_size < commands.SUMMARY_LIMIT
