from __future__ import annotations

import json

import msgspec
import pytest
from msgspec.structs import replace

from skillgate.core import SCRIPTED_LABEL, Calibration, FlakyTask, Rate
from skillgate.report.calibration import MAX_FLAKY, cite, dump, render


def rate(events: int, low: float, high: float) -> Rate:
    return Rate(events=events, trials=10_000, low=low, high=high)


RECORD = Calibration(
    made="2026-11-30T10:00:00+00:00",
    skillgate="0.6.0",
    agent="api",
    model="small",
    suites={"smallsteps": "0123456789abcdef"},
    tasks=8,
    runs=96,
    repeats=2,
    splits=10_000,
    seed=0,
    margin=0.10,
    level=0.95,
    false_block=rate(102, 0.0083, 0.0124),
    false_merge=rate(8, 0.0003, 0.0016),
    called_different=rate(183, 0.0158, 0.0211),
    coverage=rate(9817, 0.9789, 0.9842),
    sd=0.39,
    flaky=(
        FlakyTask(task="smallsteps/wf-lint", runs=4, sd=0.577, low=0.0, high=1.0),
        FlakyTask(task="smallsteps/dur", runs=4, sd=0.1, low=0.4, high=0.6),
    ),
)
TEXT = """\
Calibration of smallsteps (0123456789abcdef)
agent api, model small, skillgate 0.6.0, 2026-11-30T10:00:00+00:00
96 runs of 8 tasks, split 10,000 times at random (seed 0) into two arms of 2 repeats

                                   splits     95 % interval  promised
identical skills called different   1.8 %    1.58 to 2.11 %  at most 5 %
  of these blocked                  1.0 %    0.83 to 1.24 %  at most 2.5 %
a drop of 10 points merged          0.1 %    0.03 to 0.16 %  at most 2.5 %
interval holds the truth           98.2 %  97.89 to 98.42 %  at least 95 %

The intervals are about random splits of these runs; they say nothing of another suite or model.

Standard deviation of the pass ratio among runs of a task: 39.0 points.

flaky task          runs    sd    from       to
smallsteps/wf-lint     4  57.7   0.0 %  100.0 %
smallsteps/dur         4  10.0  40.0 %   60.0 %

Pooled over 3 skills.
"""


def test_the_text_in_full() -> None:
    assert render(RECORD, ["Pooled over 3 skills."]) == TEXT


def test_a_report_cites_one_sentence() -> None:
    assert cite(RECORD) == (
        "On this suite, identical skills were called different in 1.8 % of 10,000 random splits of 96 runs "
        "into arms of 2 repeats."
    )
    assert cite(replace(RECORD, suites={"a": "1", "b": "2"})).startswith("On these suites, ")


def test_what_is_not_kept_is_said() -> None:
    bad = replace(RECORD, false_block=rate(400, 0.036, 0.044), coverage=rate(9000, 0.894, 0.906))
    lines = render(bad).splitlines()
    assert [line.split()[0] for line in lines if line.endswith(": NOT KEPT")] == ["of", "interval"]
    open_end = replace(RECORD, false_block=rate(256, 0.0226, 0.0289))  # 2.56 %, but 2.5 % is within
    assert "NOT KEPT" not in render(open_end)


def test_scripted_runs_are_labelled_wherever_a_number_stands() -> None:
    scripted = replace(RECORD, agent="scripted", model="scripted")
    assert render(scripted).splitlines()[0] == SCRIPTED_LABEL
    assert cite(scripted).endswith(f"({SCRIPTED_LABEL}).")
    assert SCRIPTED_LABEL not in render(RECORD) + cite(RECORD)


def test_runs_that_all_agree_are_said_to() -> None:
    assert "No task's runs disagree." in render(replace(RECORD, flaky=()))


def test_a_long_list_of_flaky_tasks_is_cut() -> None:
    many = tuple(replace(RECORD.flaky[0], task=f"s/{number}") for number in range(MAX_FLAKY + 2))
    text = render(replace(RECORD, flaky=many))
    assert f"s/{MAX_FLAKY - 1} " in text
    assert f"s/{MAX_FLAKY} " not in text
    assert "and 2 more" in text


@pytest.mark.parametrize("field", ["agent", "model", "made", "skillgate"])
def test_nothing_in_a_record_drives_the_terminal(field: str) -> None:
    text = render(replace(RECORD, **{field: "x\x1b[2J\u202ey\nz"}), ["a\x1b[31m"])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == len(TEXT.splitlines())


def test_an_unknown_version_of_a_suite_is_said() -> None:
    assert render(replace(RECORD, suites={"s": ""})).startswith("Calibration of s (version unknown)\n")


def test_json_is_the_record() -> None:
    assert msgspec.convert(json.loads(dump(RECORD)), Calibration) == RECORD
