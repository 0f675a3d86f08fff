"""The report in a terminal: golden files, width, color, and no way out of the text."""

from __future__ import annotations

import re

import msgspec
import pytest

from skillgate.core import Verdict
from skillgate.report import text


def test_golden(sample_name: str, samples, golden) -> None:
    golden(f"{sample_name}.txt", text.render(samples.ALL[sample_name](), width=80))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_asked(width: int, sample_name: str, samples) -> None:
    lines = text.render(samples.ALL[sample_name](), width=width).split("\n")
    assert [line for line in lines if len(line) > width] == []


def test_color_only_when_asked(samples) -> None:
    plain, colored = text.render(samples.block()), text.render(samples.block(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mBLOCK\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored).split() == plain.split()


def test_markup_and_escapes_of_the_text_are_shown_not_obeyed(samples) -> None:
    report = samples.not_run()
    verdict = Verdict(decision=report.verdict.decision, reasons=("[red]x[/red] \x1b[31m :smile: \u202e",))
    skill = msgspec.structs.replace(report.reports[0], skill="[link=file:///x]s[/link]", verdict=verdict)
    shown = text.render(msgspec.structs.replace(report, reports=(skill,), verdict=verdict))
    assert shown.split("\n")[0] == "NOT-RUN: [red]x[/red] [31m :smile:"
    assert "[link=file:///x]s[/link] ──" in shown


def test_ends_with_one_newline(samples) -> None:
    shown = text.render(samples.nothing())
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")
