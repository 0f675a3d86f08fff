"""A range of an origin, fetched through the REST double and compared with a clone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillgate.core import GateReport
from skillgate.github.fetch import Fetched, fetch_range
from skillgate.github.pulls import Reader
from skillgate.lint.sift import write_baseline
from tests.fakes.github_reading import GithubReading
from tests.fakes.ranges import Repo, facts, make_origin, report

RULE = """\
id: house-rule
title: A rule of the house
severity: warning
scope: security
check: pattern
with: {patterns: {echo: "echo [a-z]+|curl"}, where: all}
message: "{match} stands here"
hint: Remove it.
why: It harms.
evidence: [{source: us, says: so}]
since: 0.2.0
examples: {bad: [x], good: [y]}
"""
CONFIG = """\
version: 1
lint:
  rule-files: [house/rules]
  baseline: house/known.json
suites:
  "skills/**": [house/suite]
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_origin(tmp_path / "origin")


@pytest.fixture
def api(repo: Repo) -> Iterator[GithubReading]:
    with GithubReading(repo.folder) as running:
        yield running
    assert running.violations == []


@pytest.fixture
def fetch(api: GithubReading, repo: Repo, tmp_path: Path) -> Callable[..., Fetched]:
    def run(base: str = "HEAD~1", head: str = "HEAD", into: Path | None = None, **options: Any) -> Fetched:
        ids = (repo.git("rev-parse", name) for name in (base, head))
        with closing(Reader(api.url, api.token, api.repository, sleep=[].append)) as reader:
            return fetch_range(reader, into or tmp_path / "fetched", *ids, **options)

    return run


@pytest.fixture
def compare(repo: Repo, fetch: Callable[..., Fetched], tmp_path: Path) -> Callable[..., GateReport]:
    """Gate a range in its repository and as it was fetched; return the report that both give."""

    def run(base: str = "HEAD~1", head: str = "HEAD", **options: Any) -> GateReport:
        fetched = fetch(base, head, **options)
        real = report(repo.folder, base, head, tmp_path / "real")
        seen = report(
            options.get("into", tmp_path / "fetched"), fetched.base, fetched.head, tmp_path / "seen"
        )
        assert facts(seen) == facts(real)
        return seen

    return run


@pytest.fixture
def judged(repo: Repo, tiny_suite: Path) -> Repo:
    """Return a repository with a configuration, a rule, a baseline and a suite of its own."""
    shutil.copytree(tiny_suite, repo.folder / "house/suite")
    repo.write("skillgate.yml", CONFIG)
    repo.write("house/rules/house-rule.yml", RULE)
    repo.write("house/known.json", write_baseline(()))
    repo.commit()
    return repo
