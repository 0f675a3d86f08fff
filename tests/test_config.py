from __future__ import annotations

from pathlib import Path

import pytest

from skillgate import config
from skillgate.core import OnInconclusive, Policy
from skillgate.errors import ConfigError
from skillgate.values import FailOn, Severity

FULL = """\
version: 1
skills: ["skills/**", ".claude/skills/**"]
lint:
  fail-on: warning
  rules: {token-weight: {max-tokens: 4000}, house-style: off, unknown-key: error}
suites:
  "skills/fastapi-*": [fixtures/fastapi]
  "skills/**": [fixtures/all, fixtures/fastapi]
run:
  agent: claude-code
  models: [claude-haiku-5-5]
  repeats: 5
  sandbox: docker
  budget-usd: 5.00
  per-run-usd: 0.50
  timeout-s: 900
  network: [pypi, npm]
policy:
  margin: 0.05
  max-cost-increase: 0.30
  on-inconclusive: fail
"""


def test_every_documented_key_is_read() -> None:
    read = config.parse(FULL)
    assert read.lint.fail_on is FailOn.WARNING
    assert read.lint.rules == {
        "token-weight": {"max-tokens": 4000},
        "house-style": False,
        "unknown-key": Severity.ERROR,
    }
    assert (read.run.cap_usd_micros, read.run.per_run_usd_micros) == (5_000_000, 500_000)
    assert read.run.model == "claude-haiku-5-5"
    assert read.policy == Policy(margin=0.05, max_cost_increase=0.30, on_inconclusive=OnInconclusive.FAIL)


def test_every_key_is_optional() -> None:
    assert config.parse("") == config.Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run:\n  repeat: 5", "skillgate.yml:2: unknown key `repeat`"),
        ("run:\n  repeats: 0", "skillgate.yml:2: `run.repeats`: expected `int` >= 1"),
        ("policy:\n  margin: 10", "skillgate.yml:2: `policy.margin`: expected `float` < 1.0"),
        ("run: {sandbox: podman}", "skillgate.yml:1: `run.sandbox`: invalid enum value 'podman'"),
        ("run:\n  budget-usd: 1.0e+20", "skillgate.yml:2: `run.budget-usd`: expected `float` <= 1000000.0"),
        ("run:\n  timeout-s: .inf", "skillgate.yml:2: `run`: amounts and times are finite numbers"),
        ("run: {seed: -1}", "skillgate.yml:1: `run.seed`: expected `int` >= 0"),
        ("version: 2", "skillgate.yml:1: `version`: invalid enum value 2"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("run: {sandbox: podman}", "Write one of: docker, local."),
        ("lint: {fail-on: all}", "Write one of: none, note, warning, error."),
        ("suites: {a: b}", "Write a list: `[one, two]`."),
    ],
)
def test_a_wrong_value_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    assert caught.value.hint == hint


def test_suites_of_all_matching_patterns_in_order_without_doubles() -> None:
    read = config.parse(FULL)
    assert read.suites_for("skills/fastapi-users") == ("fixtures/fastapi", "fixtures/all")
    assert read.suites_for("skills/django") == ("fixtures/all", "fixtures/fastapi")
    assert read.suites_for("other/django") == ()


@pytest.mark.parametrize(
    ("path", "pattern", "hit"),
    [
        (".", "**", True),
        ("skills/a", "skills/**", True),
        ("skills/a/b", "skills/**", True),
        ("skills", "skills/**", False),
        ("x/skills/a", "**/skills/*", True),
        ("skills/a", "**/skills/*", True),
        ("skills/a", "skills/a/", True),
        ("Skills/a", "skills/*", False),
    ],
)
def test_patterns(path: str, pattern: str, hit: bool) -> None:
    assert config.matches(path, pattern) is hit


def test_the_root_is_where_the_configuration_or_the_repository_is(tmp_path: Path) -> None:
    (tmp_path / "repo/skills/a").mkdir(parents=True)
    start = tmp_path / "repo/skills/a"
    (tmp_path / "repo/.git").mkdir()
    assert config.find_root(start) == tmp_path / "repo"
    (tmp_path / "repo/skills/skillgate.yml").touch()
    assert config.find_root(start) == tmp_path / "repo/skills"


def test_the_schema_names_the_keys_of_the_file() -> None:
    assert "budget-usd" in str(config.schema())


def test_prices_of_models_are_tiers_shortest_first() -> None:
    rates = "[{up-to-tokens: 10, input: 1, output: 2}, {input: 3, output: 4, cache-read: 0}]"
    prices = config.parse(f"prices:\n  m: {rates}\n").prices
    assert [(rate.up_to_tokens, rate.input, rate.cache_read) for rate in prices["m"]] == [
        (10, 1, None),
        (None, 3, 0),
    ]


@pytest.mark.parametrize(
    "rates",
    [
        "[]",
        "[{input: 1}]",
        "[{input: -1, output: 1}]",
        "[{input: .inf, output: 1}]",
        "[{input: 1, output: 1, up-to-tokens: 5}]",
    ],
)
def test_a_price_that_is_none_is_refused(rates: str) -> None:
    with pytest.raises(ConfigError, match=r"^skillgate\.yml:"):
        config.parse(f"prices:\n  m: {rates}\n")
