"""What numbers are worth: looks, Holm, the sign-flip test, chains, gain, calibration."""

from __future__ import annotations

import msgspec
import pytest

from skillgate.core import Calibration, Comparison, Interval, Look, Metric, Report, SignFlip, Spend, Stop
from skillgate.report import rows, statistics

SAVED = Spend(saved_runs=32, saved_usd_micros=540_000)
STRICT = "Early looks are stricter, so that all together err as rarely as one: hence the interval at"


def between(low: float, high: float, level: float = 0.95) -> Interval:
    return Interval(low=low, high=high, level=level, method="m")


# --- looks ------------------------------------------------------------------------


def looked(samples, looks: tuple[Look, ...], spend: Spend = SAVED, level: float | None = None) -> str:
    """Say the sentence of a report whose interval has the level of its last look."""
    end = looks[-1].level if level is None else level
    quality = samples.compared(interval=between(0, 0.5, end) if end else None)
    return statistics.looks(samples.bare(quality, looks=looks, spend=spend), quality)


@pytest.mark.parametrize(
    ("stop", "after", "expected"),
    [
        (
            Stop.DECIDED,
            (2,),
            "Stopped at look 1 of 4 (after 2 of 5 repeats): the verdict was known. 32 runs and about $0.54 "
            f"were saved. {STRICT} 99.92 %.",
        ),
        (
            Stop.DECIDED,
            (2, 3),
            "Stopped at look 2 of 4 (after 3 of 5 repeats): the verdict was known. 32 runs and about $0.54 "
            f"were saved. {STRICT} 99.26 %.",
        ),
        (
            Stop.FUTILE,
            (2, 3, 4),
            "Stopped at look 3 of 4 (after 4 of 5 repeats): going on would most likely not have settled it. "
            f"32 runs and about $0.54 were saved. {STRICT} 97.8 %.",
        ),
        (
            Stop.BROKEN,
            (2,),
            "Stopped at look 1 of 4 (after 2 of 5 repeats): more runs of what is broken would show nothing. "
            f"32 runs and about $0.54 were saved. {STRICT} 99.92 %.",
        ),
    ],
)
def test_stopped_before_the_end(stop: Stop, after: tuple[int, ...], expected: str, samples) -> None:
    assert looked(samples, samples.looks(stop, *after)) == expected


def test_the_last_of_several_looks_has_its_own_level(samples) -> None:
    assert looked(samples, samples.looks(Stop.LAST, 2, 3, 4, 5), Spend()) == (
        "The verdict took all 4 looks. All looks together err as rarely as one: hence the interval at "
        "95.78 %."
    )


def test_one_look_is_no_news(samples) -> None:
    single = Look(repeats=3, planned=3, information=1.0, level=0.95, stop=Stop.LAST)
    assert looked(samples, (single,)) == ""
    assert statistics.looks(samples.bare(), samples.compared()) == ""


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((1,), "Ended after 1 of 5 repeats, before the verdict was known: money or time ran out."),
        (
            (2, 3),
            "Ended after 3 of 5 repeats, before the verdict was known: money or time ran out. "
            f"{STRICT} 99.26 %.",
        ),
    ],
)
def test_cut_short(after: tuple[int, ...], expected: str, samples) -> None:
    looks = tuple(
        Look(
            repeats=repeats,
            planned=5,
            information=repeats / 5,
            level=samples.LEVELS.get(repeats, 0.95),
            stop=Stop.CUT if repeats == after[-1] else None,
        )
        for repeats in after
    )
    assert looked(samples, looks, Spend()) == expected


def test_without_an_interval_there_is_no_level_to_explain(samples) -> None:
    assert looked(samples, samples.looks(Stop.BROKEN, 2), Spend(), level=0) == (
        "Stopped at look 1 of 4 (after 2 of 5 repeats): more runs of what is broken would show nothing."
    )


def test_a_run_without_a_scored_pair_still_says_when_it_stopped(samples) -> None:
    (report,) = samples.dropped().reports
    broken = msgspec.structs.replace(report, looks=samples.looks(Stop.BROKEN, 2), spend=SAVED)
    assert rows.judged(broken) is None
    assert rows.small_print(broken) == [
        "Stopped at look 1 of 4 (after 2 of 5 repeats): more runs of what is broken would show nothing. "
        "32 runs and about $0.54 were saved."
    ]


# --- several skills ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("skills", "p", "delta", "expected"),
    [
        (
            2,
            0.0123,
            -0.2,
            "A block must hold among both skills of this gate (Holm's method): adjusted p = 0.012.",
        ),
        (
            11,
            0.0004,
            -0.2,
            "A block must hold among all 11 skills of this gate (Holm's method): adjusted p < 0.001.",
        ),
        (2, 0.0123, 0.2, ""),
        (2, None, -0.2, ""),
        (1, 0.0123, -0.2, ""),
    ],
)
def test_holm(skills: int, p: float | None, delta: float, expected: str, samples) -> None:
    found = samples.bare(skills_compared=skills, adjusted_p=p)
    assert statistics.holm(found, samples.compared(delta=delta)) == expected


# --- tests and labels -------------------------------------------------------------

LESS = (
    "Exact sign-flip test: {} of 8 tasks changed; below 6 it cannot reach .05 whatever the skill does (least "
    "possible p = {}), so it decides nothing here. SWE-Skills-Bench would call that ineffective."
)
FULL = (
    "Exact sign-flip test on the deltas per task: {} ({} of 8 tasks changed). SWE-Skills-Bench would call "
    "that {}"
)


@pytest.mark.parametrize(
    ("test", "delta", "expected"),
    [
        (None, 0.25, ""),
        (SignFlip(p=0.03125, nonzero=6), 0.25, FULL.format("p = 0.031", 6, "golden")),
        (SignFlip(p=0.03125, nonzero=6), -0.25, FULL.format("p = 0.031", 6, "harmful")),
        (SignFlip(p=0.0501, nonzero=8), -0.25, FULL.format("p = 0.050", 8, "ineffective")),
        (SignFlip(p=0.000122, nonzero=8), 0.25, FULL.format("p < 0.001", 8, "golden")),
    ],
)
def test_sign_flip(test: SignFlip | None, delta: float, expected: str, samples) -> None:
    alone = samples.compared(sign_flip=test, delta=delta)
    beside = msgspec.structs.replace(alone, interval=between(0, 1))
    assert statistics.sign_flip(alone) == (expected and f"{expected}.")
    assert statistics.sign_flip(beside) == (expected and f"{expected}; the verdict does not use this test.")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (SignFlip(p=0.0625, nonzero=5), LESS.format(5, "0.0625")),
        (SignFlip(p=1.0, nonzero=0), LESS.format(0, "1")),
    ],
)
def test_sign_flip_of_too_few_changed_tasks(test: SignFlip, expected: str, samples) -> None:
    assert statistics.sign_flip(samples.compared(sign_flip=test)) == expected


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        (0.5, 0.75, "Plain numbers, no test: Hake's gain g = +0.50."),
        (0.95, 0.725, ""),  # -4.50 would say nothing
        (0.5, 0.5, ""),
        (1.0, 1.0, ""),
    ],
)
def test_only_a_gain_has_a_gain(base: float, head: float, expected: str, samples) -> None:
    assert (
        statistics.plain_numbers(samples.compared(base=base, head=head, delta=head - base), None) == expected
    )


def test_total_dollars_stand_beside_the_geometric_ratio(samples) -> None:
    cost = samples.compared(Metric.COST_RATIO, base=0.1, head=0.12, delta=1.25)
    assert statistics.plain_numbers(samples.compared(), cost) == (
        "Plain numbers, no test: total dollars x1.20 beside the geometric x1.25; Hake's gain g = +0.50."
    )


# --- chains -----------------------------------------------------------------------


def chained(samples) -> list[Comparison]:
    return [
        samples.compared(Metric.PASS_AT_1, interval=between(-0.1, 0.6)),
        samples.compared(Metric.PASS_AT_2, base=0.6, head=0.5, delta=-0.1),
        samples.compared(Metric.DEPTH, base=2.04, head=3.3, delta=1.26, interval=between(-0.04, 2.55)),
    ]


def test_chains(samples) -> None:
    assert statistics.steps(chained(samples)) == (
        "Not judged: Pass@1 50.0 % → 75.0 %, +25.0 points (-10.0 to +60.0); Pass@2 60.0 % → 50.0 %, -10.0 "
        "points; depth (tasks passed in a row) 2.0 → 3.3, +1.3 (+0.0 to +2.5)."
    )
    assert statistics.steps([samples.compared()]) == ""


def test_chains_of_other_arms_are_not_mixed_in(samples) -> None:
    quality, other = (
        samples.compared(),
        [msgspec.structs.replace(one, arms=samples.NEW) for one in chained(samples)],
    )
    assert not [line for line in rows.small_print(samples.bare(quality, *other)) if "Pass@1" in line]
    assert [line for line in rows.small_print(samples.bare(quality, *chained(samples))) if "Pass@1" in line]


# --- calibration ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "On this suite identical skills were called different in 1.8 % of 10,000 splits of 160 runs "
            "(`skillgate calibrate`, 2026-11-30).",
        ),
        (
            {"agent": "scripted", "suites": {"a": "1", "b": "2"}},
            "On these suites identical skills were called different in 1.8 % of 10,000 splits of 160 runs "
            "(`skillgate calibrate`, 2026-11-30, scripted, not a measurement).",
        ),
    ],
)
def test_calibration(changes: dict[str, object], expected: str, samples) -> None:
    record = msgspec.structs.replace(samples.CALIBRATION, **changes)
    assert statistics.calibration(record) == expected


@pytest.mark.parametrize(
    ("events", "trials", "share"),
    [(0, 10_000, "0.0 %"), (1, 10_000, "0.01 %"), (10_000, 10_000, "100.0 %"), (4, 100, "4.0 %")],
)
def test_a_rare_error_is_not_rounded_to_none(events: int, trials: int, share: str, samples) -> None:
    rate = msgspec.structs.replace(samples.CALIBRATION.called_different, events=events, trials=trials)
    record: Calibration = msgspec.structs.replace(samples.CALIBRATION, called_different=rate)
    assert f" in {share} of {trials:,} splits" in statistics.calibration(record)


def test_no_record_no_sentence(samples) -> None:
    nothing = msgspec.structs.replace(samples.CALIBRATION.called_different, trials=0)
    assert statistics.calibration(None) == ""
    assert (
        statistics.calibration(msgspec.structs.replace(samples.CALIBRATION, called_different=nothing)) == ""
    )


# --- all together -----------------------------------------------------------------


def test_what_is_added_to_a_comment_stays_short(samples) -> None:
    """With everything that a usual report has: at most six lines more than its reasons."""
    report: Report = samples.early().reports[0]
    lines = rows.small_print(report)
    assert len(lines) <= 6
    assert all(len(line) < 250 for line in lines)
