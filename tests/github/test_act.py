"""action.yml as a consumer meets it: which changes it gates, and for whom it spends money."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.github_api import FORBIDDEN, error
from tests.github.act import (
    BEGUN,
    COMMENTS,
    MARKER,
    OUTPUTS,
    SECRET,
    Consumer,
    consuming,
    copy_action,
    skill,
    writes,
)


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_action(tmp_path_factory.mktemp("actions") / "skillgate")


@pytest.fixture
def consumer(tmp_path: Path, action: Path) -> Iterator[Consumer]:
    with consuming(tmp_path, action) as consumer:
        yield consumer


def _states(consumer: Consumer) -> list[tuple[str, str]]:
    return [(status["sha"], status["state"]) for status in consumer.api.statuses]


# --- what changed -------------------------------------------------------------------


def test_a_pull_request_is_gated_and_its_comment_follows_it(consumer: Consumer) -> None:
    api = consumer.api
    good = consumer.change("helps")
    first = consumer.pull(good)
    assert (first.result, first.exit_code) == ("success", 0), first.log
    assert first.was_evaluated
    assert {name: first.outputs[name] for name in ("verdict", "decision-by-skill", "skills-changed")} == {
        "verdict": "merge",
        "decision-by-skill": '{"skills/helps": "merge"}',
        "skills-changed": "1",
    }
    assert writes(api) == [f"POST {COMMENTS}", f"POST /repos/acme/skills/statuses/{good}"]
    (old,) = api.bodies
    assert first.said("summary") == [old]

    consumer.back()
    bad = consumer.change("breaks")
    second = consumer.pull(bad)
    assert (second.result, second.exit_code) == ("failure", 1)
    assert set(second.outputs) == set(OUTPUTS)
    assert all(second.outputs.values())
    assert second.outputs["verdict"] == "block"
    assert json.loads(second.outputs["decision-by-skill"]) == {"skills/breaks": "block"}
    assert second.outputs["comment-url"] == "https://github.com/acme/skills/pull/2#issuecomment-1"
    assert writes(api) == [
        "PATCH /repos/acme/skills/issues/comments/1",
        f"POST /repos/acme/skills/statuses/{bad}",
    ]
    (new,) = api.bodies
    assert new.splitlines()[0] == old.splitlines()[0] == MARKER
    assert second.said("summary") == [new] != [old]

    assert _states(consumer) == [(good, "success"), (bad, "failure")]


def test_a_new_skill_is_compared_with_none(consumer: Consumer) -> None:
    consumer.write("skills/new/SKILL.md", skill("new"))
    job = consumer.pull(consumer.commit("Add a skill"))
    assert (job.result, job.outputs["decision-by-skill"]) == ("success", '{"skills/new": "merge"}'), job.log
    (report,) = job.report["reports"]
    assert report["change"]["kind"] == "added"
    (body,) = consumer.api.bodies
    assert "|  | `none` | `head` |" in body


def test_a_deleted_and_a_renamed_skill_are_one_each(consumer: Consumer) -> None:
    consumer.write("skills/leaves/SKILL.md", skill("leaves", "Read the journal of the press.\n\n" * 20))
    consumer.base = consumer.commit("Add what will go")
    consumer.git("rm", "--quiet", "-r", "skills/leaves")
    consumer.git("mv", "skills/helps", "skills/assists")
    consumer.write("skills/assists/SKILL.md", skill("assists", BEGUN))
    job = consumer.pull(consumer.commit("Remove one, rename one"))
    assert (job.result, job.outputs["skills-changed"]) == ("success", "2"), job.log
    changes = {report["skill"]: report["change"] for report in job.report["reports"]}
    assert {path: (change["kind"], change["old_path"]) for path, change in changes.items()} == {
        "skills/assists": ("renamed", "skills/helps"),
        "skills/leaves": ("deleted", None),
    }
    assert json.loads(job.outputs["decision-by-skill"]) == {
        "skills/assists": "merge",
        "skills/leaves": "not-run",
    }
    assert len(consumer.api.comments) == 1


def test_without_a_skill_there_is_nothing_to_do_and_the_required_check_still_reports(
    consumer: Consumer,
) -> None:
    consumer.write("README.md", "# Skills\n")
    head = consumer.commit("Explain")
    job = consumer.pull(head)
    assert (job.result, job.outputs["verdict"], job.outputs["skills-changed"]) == ("success", "not-run", "0")
    assert writes(consumer.api) == [f"POST /repos/acme/skills/statuses/{head}"]
    (status,) = consumer.api.statuses
    assert (status["state"], status["description"]) == (
        "success",
        "not-run: no skill changed in this range: nothing to do",
    )
    (summary,) = job.said("summary")
    assert "nothing to do" in summary


@pytest.mark.long
def test_few_skills_among_three_thousand_files(consumer: Consumer) -> None:
    consumer.use({"gate": {"mode": "lint"}})
    consumer.base = consumer.commit("Lint")
    for number in range(3100):
        consumer.write(f"site/{number % 50}/page {number}.md", f"{number}\n")
    for name in ("first", "last"):
        consumer.write(f"skills/{name}/SKILL.md", skill(name))
    consumer.write("zzz/SKILL.md", skill("zzz"))
    job = consumer.pull(consumer.commit("Add a site"))
    assert (job.result, job.outputs["skills-changed"]) == ("success", "3"), job.log
    assert set(json.loads(job.outputs["decision-by-skill"])) == {"skills/first", "skills/last", "zzz"}
    (body,) = consumer.api.bodies
    assert "site/" not in body


# --- for whom -------------------------------------------------------------------------


def test_a_fork_is_linted_and_a_refused_comment_changes_nothing(consumer: Consumer) -> None:
    consumer.api.plan("POST ", error(403, FORBIDDEN, x_accepted_github_permissions="pull_requests=write"))
    consumer.api.plan("POST ", error(403, FORBIDDEN, x_accepted_github_permissions="statuses=write"))
    head = consumer.change("breaks")
    job = consumer.pull(head, pull_request__head__repo={"full_name": "mallory/skills"})
    assert (job.result, job.exit_code) == ("success", 0), job.log
    assert (job.outputs["verdict"], job.outputs["comment-url"]) == ("not-run", "")
    assert consumer.api.bodies == []
    assert not job.was_evaluated
    assert (job.outputs["cost-usd"], job.report["reports"][0]["runs"]) == ("0.000000", [])
    (summary,) = job.said("summary")
    assert summary.startswith(MARKER)
    assert "The comment was not posted." in summary
    assert SECRET not in job.text + json.dumps(job.report)
    notices = job.said("notice")
    assert len(notices) == 3
    assert notices[0].startswith("Linted only: the pull request comes from a fork")


@pytest.mark.parametrize(
    ("changes", "reason", "state"),
    [
        pytest.param(
            {"pull_request__draft": True}, "Linted only: the pull request is a draft.", "pending", id="draft"
        ),
        pytest.param(
            {"pull_request__user": {"login": "dependabot[bot]", "type": "Bot"}},
            "Linted only: the pull request comes from a bot.",
            "success",
            id="bot",
        ),
    ],
)
def test_drafts_and_bots_are_linted_only(
    consumer: Consumer, changes: dict[str, Any], reason: str, state: str
) -> None:
    head = consumer.change("breaks")
    job = consumer.pull(head, **changes)
    assert (job.result, job.outputs["verdict"]) == ("success", "not-run"), job.log
    assert not job.was_evaluated
    assert job.said("notice")[0].startswith(reason)
    assert _states(consumer) == [(head, state)]
    (body,) = consumer.api.bodies
    assert reason in body


def test_a_merge_group_is_linted_and_gets_a_status_and_no_comment(consumer: Consumer) -> None:
    consumer.change("helps")
    head = consumer.change("breaks")
    job = consumer.queue(head)
    assert (job.result, job.outputs["verdict"], job.outputs["skills-changed"]) == ("success", "not-run", "2")
    assert not job.was_evaluated
    assert writes(consumer.api) == [f"POST /repos/acme/skills/statuses/{head}"]
    assert _states(consumer) == [(head, "success")]


def test_a_label_decides_whether_to_evaluate_and_an_unrelated_one_turns_nothing_green(
    consumer: Consumer,
) -> None:
    consumer.use({"gate": {"label": "measure", "status": "true"}})
    consumer.base = consumer.commit("Measure what is labelled")
    head = consumer.change("breaks")
    without = consumer.pull(head, pull_request__labels=[{"name": "bug"}])
    assert (without.result, without.outputs["verdict"]) == ("success", "not-run"), without.log
    assert not without.was_evaluated
    assert "does not carry the label `measure`" in without.said("notice")[0]

    labels = [{"name": "bug"}, {"name": "measure"}]
    job = consumer.pull(head, "pull_request.labeled", label={"name": "bug"}, pull_request__labels=labels)
    assert (job.result, job.outputs["verdict"]) == ("failure", "block"), job.log
    assert len(consumer.api.comments) == 1
    assert [state for _, state in _states(consumer)][1:] == ["failure"]


def test_a_broken_configuration_is_exit_code_2_and_an_annotation(consumer: Consumer) -> None:
    consumer.write("skillgate.yml", "version: 1\nsuite: {}\n")
    consumer.base = consumer.commit("Break the configuration")
    job = consumer.pull(consumer.change("helps"))
    assert "exit status 2" in job.log.splitlines(), job.log
    assert job.said("error") == ["skillgate.yml:2: unknown key `suite`\nDid you mean `suites`?"]
    assert len(consumer.api.comments) == 0
