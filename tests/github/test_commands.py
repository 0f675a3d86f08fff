from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from skillgate.github import commands


def _read_outputs(text: str) -> dict[str, str]:
    """Read step outputs as the runner does."""
    outputs, lines = {}, iter(text.splitlines())
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
        r"::stop-commands::([0-9a-f]{32})\n::error::from a skill\n::\1::\n", stdout.getvalue()
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
