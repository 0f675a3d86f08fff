"""What a hostile contributor tried against the flow for forks: each of these got through once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillgate.core import Decision
from skillgate.errors import SuiteError, UsageError
from tests.fakes.github_reading import GithubReading
from tests.gate.conftest import Repo
from tests.github.test_action_modes import CONFIG, FORK, SCRIPT, Job, clone, evaluate, job, never

__all__ = ["job"]
OTHER_FORK = "other/Hello-World"
BROKEN = "---\nfoo: [\n---\n"


def judge_of_the_fork(repo: Repo, suite: Path, mark: Path) -> None:
    """Let the head bring a suite whose grader leaves a mark on the machine that runs it."""
    shutil.copytree(suite, repo.folder / "suites" / "tiny")
    for task in (repo.folder / "suites/tiny/tasks").glob("*/task.yml"):
        text = task.read_text(encoding="utf-8")
        task.write_text(text.replace("python3 -IB tests/test_add.py", f"touch {mark}"), encoding="utf-8")
    repo.write("script.yml", SCRIPT)


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "origin")
    repo.skill("calc", "To be written.")
    return repo


def proposed(tmp_path: Path, origin: Repo, api: GithubReading) -> Job:
    made = Job(tmp_path, api, origin)
    api.propose(7, made.head, made.base, repository=FORK)
    clone(made)
    made.dispatch(made.head)
    return made


def test_a_fork_brings_no_configuration_where_the_base_has_none(
    tmp_path: Path, origin: Repo, tiny_suite: Path
) -> None:
    origin.commit()
    origin.skill("calc", "Write `double` first.")
    judge_of_the_fork(origin, tiny_suite, tmp_path / "mark")
    origin.write("skillgate.yml", CONFIG)
    origin.commit()
    with GithubReading(origin.folder, repository="Codertocat/Hello-World") as api:
        made = proposed(tmp_path, origin, api)
        made.run("evaluate")
        reports = made.report().reports
    (one,) = [one for one in reports if one.skill == "skills/calc"]
    assert (one.plan, one.verdict.decision) == (None, Decision.NOT_RUN)
    assert not any(report.runs for report in reports)
    assert not (tmp_path / "mark").exists()


def test_a_fork_brings_no_suite_that_the_base_names_and_lacks(
    tmp_path: Path, origin: Repo, tiny_suite: Path
) -> None:
    origin.write("skillgate.yml", CONFIG)
    origin.write("script.yml", SCRIPT)
    origin.commit()
    origin.skill("calc", "Write `double` first.")
    judge_of_the_fork(origin, tiny_suite, tmp_path / "mark")
    origin.commit()
    with GithubReading(origin.folder, repository="Codertocat/Hello-World") as api:
        made = proposed(tmp_path, origin, api)
        with pytest.raises(SuiteError):
            made.run("evaluate")
    assert not (tmp_path / "mark").exists()


@pytest.fixture
def bases(tmp_path: Path, origin: Repo) -> Iterator[Job]:
    """The main branch is strict, the branch `old` lets everything through; the head is broken."""
    origin.write("skillgate.yml", "lint: {fail-on: none}\n")
    origin.commit()
    old = origin.rev("HEAD")
    origin.write("skillgate.yml", "lint: {fail-on: error}\n")
    origin.commit()
    main = origin.rev("HEAD")
    origin.write("skills/calc/SKILL.md", BROKEN)
    origin.commit()
    with GithubReading(origin.folder, repository="Codertocat/Hello-World") as api:
        made = Job(tmp_path, api, origin)
        api.propose(7, made.head, old, repository=FORK, base_ref="old")
        api.propose(8, made.head, main, repository=OTHER_FORK, base_ref="main")
        yield made


def test_what_passes_on_a_lenient_branch_says_nothing_of_the_main_one(bases: Job) -> None:
    for fork in (OTHER_FORK, FORK):

        def change(payload: dict[str, Any], fork: str = fork) -> None:
            run = payload["workflow_run"]
            run |= {"event": "pull_request", "head_sha": bases.head, "head_branch": "topic"}
            run["head_repository"]["full_name"] = fork
            payload["repository"]["default_branch"] = "main"

        bases.event("workflow_run", change)
        bases.run("lint")
    found = {status["context"]: status["state"] for status in bases.api.statuses}
    assert found == {"skillgate": "failure", "skillgate (old)": "success"}


def test_a_lint_of_the_record_leaves_the_evaluation_as_it_was(job: Job) -> None:
    evaluate(job)
    forge(job, verdict("block"))
    job.finish_run(job.head)  # the author closes and opens the pull request again
    job.run("lint")
    found = {status["context"]: status["state"] for status in job.api.statuses}
    assert found == {"skillgate/evaluation": "failure", "skillgate": "success"}
    assert len(job.api.bodies) == 2


def forge(job: Job, change: Callable[[dict[str, Any]], None]) -> None:
    """Publish, as forks.yml does, a report that somebody changed."""
    value = json.loads((job.folder / "temp/skillgate-default/report.json").read_text(encoding="utf-8"))
    change(value)
    (job.folder / "workspace/artifact.json").write_text(json.dumps(value), encoding="utf-8")
    job.dispatch(job.head)
    job.run("post", never, SKILLGATE_REPORT="artifact.json", SKILLGATE_COMMENT_ID="evaluation")


def verdict(decision: str) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        value["verdict"] = value["reports"][0]["verdict"] = {"decision": decision, "reasons": ["because"]}

    return change


def without_skills(value: dict[str, Any]) -> None:
    value.update(reports=[], verdict={"decision": "merge", "reasons": ["fine"]})


def a_skill_twice(value: dict[str, Any]) -> None:
    verdict("merge")(value)
    value["reports"].insert(0, {**value["reports"][0], "verdict": {"decision": "block", "reasons": []}})


def a_finding_that_fails(value: dict[str, Any]) -> None:
    verdict("merge")(value)
    where = {"path": "skills/calc/SKILL.md", "line": 1, "column": 1}
    finding = {"rule": "x", "severity": "error", "scope": "spec", "message": "bad", "where": where}
    value["reports"][0]["findings"] = [finding]


def too_much_money(value: dict[str, Any]) -> None:
    value["spend"]["spent_usd_micros"] = 10**3000


def money_back(value: dict[str, Any]) -> None:
    value["spend"]["spent_usd_micros"] = -1


@pytest.mark.parametrize(
    "change", [without_skills, a_skill_twice, a_finding_that_fails, too_much_money, money_back]
)
def test_a_report_that_says_more_than_its_parts_is_refused(
    job: Job, change: Callable[[dict[str, Any]], None]
) -> None:
    evaluate(job)
    with pytest.raises(UsageError):
        forge(job, change)
    assert (job.api.bodies, job.api.statuses) == ([], [])
