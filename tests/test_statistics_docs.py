"""docs/statistics.md: figures are right, tables have the shape of today's benchmark, claims are met."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import binomtest

from skillgate.core import ArmPair, Comparison, Metric
from skillgate.stats.intervals import sign_flip, suite_interval_closed
from skillgate.stats.sequential import nominal_levels
from skillgate.stats.verdict import holm

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
WORDS = re.sub(r"\s+", " ", PAGE)
PARTS = ("needs", "allocation", "headline", "coverage", "bootstrap", "looks", "agreement", "simulator")
MARKED = re.compile(r"<!-- ([a-z]+) -->\n(.*?)<!-- /\1 -->", re.DOTALL)

Table = list[list[str]]


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    """Load the benchmark under another name: `coverage` is also what measures our tests."""
    where = ROOT / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(where.parent)])
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def small(benchmark: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a page of very few data sets, as the command does."""
    page = tmp_path_factory.mktemp("docs") / "statistics.md"
    page.write_text(PAGE, encoding="utf-8")
    benchmark.main(["--data-sets", "3", "--seed", "5", "--write", "--page", str(page)])
    return page.read_text(encoding="utf-8")


def tables(part: str) -> list[Table]:
    """Read all tables of a part: rows of cells, the head first, without the rule."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", part, re.MULTILINE)
    return [
        [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in block.splitlines()
            if "--:" not in line
        ]
        for block in blocks
    ]


def parts(page: str) -> dict[str, str]:
    return dict(MARKED.findall(page))


def labels(table: Table) -> Table:
    """Keep what does not depend on luck: the head, and the cells of words, counts of tasks and limits."""
    named = {"family", "tasks", "repeats", "cost", "looks", "figure", "what", "must be", "published"}
    kept = [place for place, name in enumerate(table[0]) if name in named]
    return [table[0], *([row[place] for place in kept] for row in table[1:])]


def number(text: str) -> float:
    return float(text.removeprefix("± "))


def rows(name: str, place: int = 0) -> list[dict[str, str]]:
    head, *found = tables(parts(PAGE)[name])[place]
    return [dict(zip(head, row, strict=True)) for row in found]


# --- the tables -------------------------------------------------------------------


def test_the_command_fills_every_part(small: str) -> None:
    assert tuple(parts(PAGE)) == PARTS == tuple(parts(small))
    assert MARKED.sub("", small) == MARKED.sub("", PAGE)
    assert "`python benchmarks/coverage.py --data-sets 3 --seed 5 --write`" in parts(small)["headline"]


@pytest.mark.parametrize("name", PARTS)
def test_the_tables_have_the_shape_of_the_command(small: str, name: str) -> None:
    ours, today = tables(parts(PAGE)[name]), tables(parts(small)[name])
    assert [labels(table) for table in ours] == [labels(table) for table in today]
    assert bool(ours) == (name != "allocation")


def test_what_needs_no_draw_is_as_today(small: str) -> None:
    assert parts(PAGE)["needs"] == parts(small)["needs"]


def test_a_page_without_markers_is_refused(benchmark: ModuleType) -> None:
    with pytest.raises(SystemExit, match="lacks <!-- looks -->"):
        benchmark.fill("# no markers\n", {"looks": ""})


def test_the_speed_is_shown_beside_plain_numpy(benchmark: ModuleType) -> None:
    assert re.search(r"10,000 resamples .* [\d.]+ ms \(target 20 ms\); plain numpy", benchmark.speed(times=1))


@pytest.mark.parametrize(
    ("must", "found", "error", "met"),
    [
        (">= .94", 0.945, 0.0, "yes"),
        (">= .94", 0.935, 0.006, "yes"),
        (">= .94", 0.935, 0.004, "MISSED"),
        ("<= .025", 0.024, 0.0, "yes"),
        ("<= .025", 0.030, 0.002, "MISSED"),
        ("", 0.5, 0.0, ""),
    ],
)
def test_a_claim_is_met_but_for_the_luck_of_the_draw(
    benchmark: ModuleType, must: str, found: float, error: float, met: str
) -> None:
    assert benchmark.Claim("", must, found, error, "").met == met


# --- the claims -------------------------------------------------------------------


def test_what_must_be_reached_is_reached() -> None:
    claims = rows("headline")
    limits = [row["must be"] for row in claims if row["must be"]]
    assert limits == [
        *[">= .94"] * 6,
        *[">= .93"] * 2,
        *["<= .025"] * 2,
        "<= .75",
        "<= .55",
        "<= .55",
        "<= .05",
    ]
    for row in claims:
        measured, error = number(row["measured"]), number(row["2 s.e."])
        if row["must be"]:
            sign, bound = row["must be"].split()
            ahead = measured - float(bound) if sign == ">=" else float(bound) - measured
            assert ahead >= -error, row["what"]
            assert error <= 0.01, f"too few data sets: {row['what']}"
            assert row["met"] == "yes"


def test_the_headline_is_the_worst_of_the_tables() -> None:
    claims = {row["what"]: number(row["measured"]) for row in rows("headline")}
    for place, kind in enumerate(("shares", "binary", "dollars", "dollars, outliers")):
        assert claims[f"worst coverage, {kind}"] == min(
            number(row["worst coverage"]) for row in rows("coverage", place)
        )
    for scheme in ("this", "naive peeking"):
        looks = [row for row in rows("looks") if row["looks"] == scheme]
        for error in ("false block", "false merge"):
            assert claims[f"worst {error}, {scheme}"] == max(number(row[error]) for row in looks)


def test_peeking_is_wrong_about_twice_as_often() -> None:
    claims = {row["what"]: number(row["measured"]) for row in rows("headline")}
    for error in ("false block", "false merge"):
        assert claims[f"worst {error}, naive peeking"] > 1.5 * 0.025
        assert claims[f"worst {error}, this"] < 0.7 * claims[f"worst {error}, naive peeking"]


def test_what_is_not_flattering_is_as_said() -> None:
    (binary,) = [row for row in rows("agreement") if (row["family"], row["tasks"]) == ("binary", "20")]
    assert number(binary["inconclusive"]) > 0.5
    assert number(binary["of these, differ"]) > 0.2
    assert number(binary["merge and hold"]) > 0.5 * number(binary["of these, differ"])
    assert number(binary["block"]) <= 0.026
    (reused,) = [row for row in rows("headline") if row["what"].endswith("10 base and 3 head repeats")]
    assert 0.93 <= number(reused["measured"]) < 0.95


def test_more_tasks_need_fewer_repeats_and_a_wider_margin_too() -> None:
    table = [row for row in rows("needs") if "margin, points" in row]
    assert len(table) == 8
    for row in table:
        needed = [int(row[f"{tasks} tasks"]) for tasks in (5, 8, 10, 20, 50)]
        assert needed == sorted(needed, reverse=True)
    (ten,) = [row for row in table if (row["margin, points"], row["sd"]) == ("10", "0.16")]
    assert int(ten["20 tasks"]) * 20 >= 41  # 15.7 sd^2 / margin^2


def test_the_bootstrap_agrees_with_the_closed_form() -> None:
    for row in rows("bootstrap"):
        assert number(row["width, bootstrap / closed form"]) == pytest.approx(1, abs=0.01)
        assert number(row["agree on the truth"]) >= 0.98


def test_the_simulator_meets_what_is_published() -> None:
    """The within-task deviation comes out a little low: what fits the others has no more."""
    tolerance = {"identical pairs": 0.01, "pairs that differ by .5 or more": 0.006, "mean": 0.01, "sd": 0.02}
    for row in rows("simulator"):
        if row["published"]:
            assert number(row["simulated"]) == pytest.approx(
                number(row["published"]), abs=tolerance[row["figure"]]
            )


# --- figures that a reader can check ----------------------------------------------


def test_mcnemar() -> None:
    assert "111 pairs that only the head passed and 74 that only the base passed: p = .00795" in WORDS
    assert binomtest(74, 111 + 74).pvalue == pytest.approx(0.00795, abs=5e-6)


def test_holm() -> None:
    assert "Holm: p = .001, .012, .013, .04, .2 become .005, .048, .048, .08, .2." in WORDS
    assert holm([0.001, 0.012, 0.013, 0.04, 0.2]) == pytest.approx([0.005, 0.048, 0.048, 0.08, 0.2])


def test_hake() -> None:
    found = Comparison(
        metric=Metric.PASS_RATIO,
        arms=ArmPair("none", "head"),
        tasks=1,
        repeats=1,
        n_pairs=1,
        n_dropped=0,
        base=0.339,
        head=0.505,
        delta=0.166,
    )
    assert (
        "from 33.9 to 50.5 % (SkillsBench, arXiv 2602.12670) g = (50.5 - 33.9) / (100 - 33.9) = .2511"
        in WORDS
    )
    assert found.gain == pytest.approx(0.2511, abs=5e-5)


def test_sign_flip() -> None:
    assert "deltas .5, .25, .125, 1, .25 and five zeros: p = .0625" in WORDS
    assert sign_flip([0.5, 0.25, 0.125, 1, 0.25, *[0.0] * 5]) == (pytest.approx(0.0625), 5)


def test_suite_interval() -> None:
    said = re.search(r"base ([\d. /]+), head ([\d. /]+): (-[\d.]+), from (-[\d.]+) to ([\d.]+)\.", WORDS)
    assert said is not None
    base, head = ([[float(y) for y in row.split()] for row in arm.split("/")] for arm in said.groups()[:2])
    found = suite_interval_closed(base, head)
    assert [(found.low + found.high) / 2, found.low, found.high] == pytest.approx(
        [float(part) for part in said.groups()[2:]], abs=5e-5
    )


def test_levels_of_the_looks() -> None:
    assert "2, 3, 4 and 5 repeats are .000788, .007355, .022030 and .042249" in WORDS
    assert nominal_levels((2, 3, 4, 5)) == pytest.approx([0.000788, 0.007355, 0.02203, 0.042249], abs=1e-5)


def test_reused_runs() -> None:
    assert "ten old runs and three new ones cost half of three and three new ones" in WORDS
    assert "at a standard error of .81 of theirs" in WORDS
    error = ((1 / 10 + 1 / 3) / (1 / 3 + 1 / 3)) ** 0.5
    assert error == pytest.approx(0.81, abs=0.005)


def test_twenty_harmless_skills() -> None:
    assert "each with a chance of 2.5 % to be blocked by mistake, give a chance of 40 % that one is" in WORDS
    blocked = 1 - (1 - 0.025) ** 20
    assert blocked == pytest.approx(0.40, abs=0.005)
