"""The A/A test against known truths, broken intervals, and the recorded runs of a real model."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from skillgate.core import FlakyTask, Policy
from skillgate.stats.batch import Noises
from skillgate.stats.calibrate import Content, Score, TooFewRuns, _arms, calibrate, rate

RECORDED = Path(__file__).parents[1] / "data" / "local-model-runs.jsonl"
INPUT_USD, OUTPUT_USD = 0.1e-6, 0.5e-6
SUITES = 60


def rows(*tasks: tuple[float, ...]) -> Content:
    """Tasks a, b, ... with these pass ratios, at a dollar each."""
    return {"abcdefgh"[i]: [Score(ratio, 1.0) for ratio in task] for i, task in enumerate(tasks)}


def recorded() -> dict[str, Content]:
    found: dict[str, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        usage = run["usage"]
        read = usage["input_tokens"] + usage["cache_read_input_tokens"]
        usd = INPUT_USD * read + OUTPUT_USD * usage["output_tokens"]
        found[run["arm"]][run["task"]].append(Score(run["ratio"], usd))
    return found


def simulated(seed: int, runs: int, drift: float = 0.0) -> Content:
    """Twelve tasks that pass or fail, which is noise enough to reach the nominal rates.

    The later half of the runs may be better: then runs in a row are no fair arms, but random ones are.
    """
    generator = np.random.default_rng(seed)
    chances = generator.uniform(0.2, 0.8 - drift, size=(12, 1)) + drift * (np.arange(runs) >= runs // 2)
    passed = generator.random((12, runs)) < chances
    dollars = np.exp(generator.normal(-2, 0.3, size=passed.shape))
    both = np.stack([passed, dollars], axis=2).tolist()
    return {f"t{number}": [Score(*run) for run in task] for number, task in enumerate(both)}


@pytest.mark.parametrize(
    ("arm", "block", "merge", "different", "sd", "worst"),
    [
        ("none", 0.0, 0.0, 0.0, 0.3227, "wf-lint"),
        ("help", 0.0120, 0.0030, 0.0253, 0.4537, "wf-docs"),
        ("harm", 0.0140, 0.0019, 0.0276, 0.3824, "wf-lint"),
    ],
)
def test_the_runs_of_a_real_model(arm, block, merge, different, sd, worst):
    found = calibrate([recorded()[arm]], Policy())

    assert (found.contents, found.tasks, found.runs, found.repeats, found.splits) == (1, 8, 32, 2, 10_000)
    assert found.distinct == 6**8
    noise = 4 * math.sqrt(0.03 / 10_000)  # other generators draw other splits
    assert found.false_block.share == pytest.approx(block, abs=noise)
    assert found.false_merge.share == pytest.approx(merge, abs=noise)
    assert found.called_different.share == pytest.approx(different, abs=noise)
    assert found.coverage.share == 1 - found.called_different.share
    assert (found.sd, found.flaky[0].task) == (pytest.approx(sd, abs=1e-4), worst)


def test_the_arms_of_a_real_model_pooled():
    found = calibrate(list(recorded().values()), Policy())

    assert (found.contents, found.tasks, found.runs, found.splits) == (3, 8, 96, 10_000)
    assert found.called_different.trials == 10_000
    assert found.called_different.share == pytest.approx(0.0183, abs=0.007)


@pytest.mark.parametrize("drift", [0.0, 0.3], ids=["exchangeable", "better and better"])
@pytest.mark.parametrize("runs", [6, 10], ids=["one look", "looks"])
def test_rates_are_what_the_level_says_on_real_noise(runs, drift):
    found = [calibrate([simulated(seed, runs, drift)], Policy(), splits=400) for seed in range(SUITES)]

    def mean(name: str) -> tuple[float, float]:
        shares = np.array([getattr(one, name).share for one in found])
        return shares.mean(), 4 * shares.std(ddof=1) / math.sqrt(SUITES)

    for name, most in (("false_block", 0.025), ("false_merge", 0.025), ("called_different", 0.05)):
        share, noise = mean(name)
        assert share <= most + noise, name
    share, noise = mean("coverage")
    assert share >= 0.95 - noise
    assert mean("called_different")[0] > 0.02  # near the nominal rate: this can see one that is too high
    assert {one.repeats for one in found} == {runs // 2}


def test_an_interval_without_noise_is_found_out(monkeypatch):
    honest = Noises.of

    def broken(*arguments):
        noises = honest(*arguments)
        return noises._replace(error=noises.error * 1e-6)

    monkeypatch.setattr(Noises, "of", broken)
    found = calibrate([simulated(1, 6)], Policy(), splits=400)

    assert found.called_different.low > 0.05
    assert found.false_block.low > 0.025
    assert found.coverage.high < 0.95


def test_the_arms_of_a_split_share_no_run_and_no_order_is_kept():
    content = {name: [Score(100 * task + run, run + 1) for run in range(7)] for task, name in enumerate("ab")}
    (arms,) = _arms(content, 3, 200, np.random.default_rng(0))

    assert arms.base.shape == arms.head.shape == (200, 2, 3)
    for base, head in zip(arms.base, arms.head, strict=True):
        both = np.concatenate([base, head], axis=1)
        assert all(len(set(row)) == 6 for row in both.tolist())
        assert (both // 100 == [[0], [1]]).all()
    assert (arms.base_usd == arms.base % 100 + 1).all()
    shares = np.array([(arms.base[:, 0] == run).any(axis=1).mean() for run in range(7)])
    assert shares == pytest.approx(np.full(7, 3 / 7), abs=4 * math.sqrt(12 / 49 / 200))
    assert (arms.base == [[0, 1, 2], [100, 101, 102]]).all(axis=(1, 2)).mean() < 0.05


def test_without_costs_there_is_no_cost_interval():
    content = {"a": [Score(1.0, 1.0), Score(1.0, 0.0), Score(0.0, 1.0), Score(1.0, 1.0)]}
    (arms,) = _arms(content, 2, 3, np.random.default_rng(0))
    assert (arms.base_usd, arms.head_usd) == (None, None)


def test_contents_are_never_compared_with_each_other():
    found = calibrate([rows((0.0,) * 4, (0.0,) * 4), rows((1.0,) * 4, (1.0,) * 4)], Policy(), splits=101)

    assert (found.contents, found.called_different.events, found.coverage.events) == (2, 0, 101)
    assert (found.sd, found.flaky) == (0.0, ())


def test_a_planted_drop_of_the_margin_rarely_merges_and_none_does():
    content = rows(*[(0.8,) * 10] * 8)
    assert calibrate([content], Policy(), splits=50).false_merge.events == 0
    assert calibrate([content], Policy(margin=0.001), splits=50).false_merge.events == 0
    tiny = Policy(margin=0.001, level=0.5)  # at this level half of the width is less than the drop
    assert calibrate([content], tiny, splits=50).coverage.events == 50


def test_tasks_with_too_few_runs_are_left_out_and_named():
    found = calibrate([rows((1.0, 0.0, 1.0, 0.0), (0.5,) * 3, (0.5,) * 9)], Policy(), splits=20)

    assert (found.tasks, found.runs, found.repeats, found.left_out) == (2, 13, 2, ("b",))
    assert found.distinct == 6 * math.comb(9, 4) * 6
    assert found.flaky == (
        FlakyTask(task="a", runs=4, sd=pytest.approx(math.sqrt(1 / 3)), low=0.0, high=1.0),
    )
    assert found.sd == pytest.approx(math.sqrt(1 / (3 + 8)))


def test_given_repeats_are_kept_to():
    content = rows((1.0,) * 4, (0.5,) * 6)
    found = calibrate([content], Policy(), repeats=3, splits=20)
    assert (found.tasks, found.repeats, found.left_out) == (1, 3, ("a",))


def test_a_content_with_few_of_the_tasks_is_no_gate_of_this_suite():
    whole, part = rows(*[(1.0,) * 4] * 5), rows((1.0, 0.0, 1.0, 0.0), (0.0,) * 4)
    found = calibrate([whole, part], Policy(), splits=20)
    assert (found.contents, found.runs, found.flaky) == (1, 20, ())


def test_a_task_is_as_flaky_as_where_it_is_worst():
    calm, wild = rows((0.8, 0.8, 0.8, 1.0)), rows((0.0, 1.0, 0.0, 1.0, 0.0))
    found = calibrate([calm, wild], Policy(), splits=20)
    assert [(task.runs, task.low, task.high) for task in found.flaky] == [(5, 0.0, 1.0)]


@pytest.mark.parametrize(
    ("contents", "repeats", "needed", "missing"),
    [
        ([], None, 4, 4),
        ([rows((1.0,) * 3, (1.0,) * 2), rows((1.0,) * 1)], None, 4, 3),
        ([rows((1.0,) * 4, (1.0,) * 5)], 3, 6, 3),
    ],
)
def test_too_few_runs_say_how_many_more(contents, repeats, needed, missing):
    with pytest.raises(TooFewRuns) as caught:
        calibrate(contents, Policy(), repeats=repeats)
    assert (caught.value.needed, caught.value.missing) == (needed, missing)


@pytest.mark.parametrize("options", [{"repeats": 1}, {"repeats": 0}, {"splits": 0}])
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match="at least two repeats"):
        calibrate([rows((1.0,) * 4)], Policy(), **options)


def test_a_seed_gives_the_same_splits_again_and_another_seed_others():
    contents = list(recorded().values())
    first = calibrate(contents, Policy(), splits=3_000, seed=1)
    assert first == calibrate(contents, Policy(), splits=3_000, seed=1)
    assert first != calibrate(contents, Policy(), splits=3_000, seed=2)


@pytest.mark.parametrize(
    ("events", "trials", "low", "high"),
    [(0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0), (1, 20, 0.0013, 0.2487)],
)
def test_rates_have_exact_intervals(events, trials, low, high):
    found = rate(events, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert found.share == events / trials
