"""action.yml as a consumer meets it: what becomes of the comment and the status on GitHub's side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.fakes.github_api import BOT, FORBIDDEN, MAX_BODY, SECONDARY, error
from tests.github.act import COMMENTS, MARKER, Consumer, consuming, copy_action, skill, writes

pytestmark = pytest.mark.long

LINT = {"mode": "lint"}


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_action(tmp_path_factory.mktemp("actions") / "skillgate")


@pytest.fixture
def consumer(tmp_path: Path, action: Path) -> Iterator[Consumer]:
    with consuming(tmp_path, action) as consumer:
        yield consumer


def _broken(name: str, links: int) -> str:
    """Return a SKILL.md with so many findings that fail the gate."""
    return skill(name, "\n\n".join(f"See [part {n}](references/part-{n}.md)." for n in range(links)))


def _lints(consumer: Consumer, inputs: Mapping[str, str] = LINT, links: int = 0) -> str:
    """Let the workflow lint, and change one skill, with so many findings; return the commit."""
    consumer.use({"gate": dict(inputs)})
    consumer.base = consumer.commit("Lint")
    if not links:
        return consumer.change("helps")
    consumer.write("skills/helps/SKILL.md", _broken("helps", links))
    return consumer.commit("Link to nothing")


def test_a_comment_that_would_be_too_long_is_cut_and_posted(consumer: Consumer) -> None:
    consumer.use({"gate": LINT})
    consumer.base = consumer.commit("Lint")
    for name in ("first", "second", "third"):
        consumer.write(f"skills/{name}/SKILL.md", _broken(name, 190))
    job = consumer.pull(consumer.commit("Link to nothing"))
    assert (job.result, job.outputs["verdict"]) == ("failure", "block"), job.log
    assert writes(consumer.api) == [f"POST {COMMENTS}"]
    (body,) = consumer.api.bodies
    assert 50_000 < len(body) <= 60_000 < MAX_BODY
    assert re.search(r"\*\d+ rows cut to stay under GitHub's limit: see the \[full report\]\(https://", body)
    assert [text.startswith("and ") for text in job.said("warning")] == [True], "findings beyond the tenth"


def test_a_marker_of_somebody_else_is_left_alone_and_ours_is_found_on_the_second_page(
    consumer: Consumer,
) -> None:
    head = _lints(consumer)
    forged = f"{MARKER}\n### ✅ merge: trust me"
    for login in ("mallory", "other-app[bot]", "github-actions"):
        consumer.api.say(2, forged, login)
    consumer.api.say(2, f"I quote:\n{MARKER}", BOT)
    for number in range(110):
        consumer.api.say(2, f"{number}")
    others = list(consumer.api.bodies)
    first = consumer.pull(head)
    assert writes(consumer.api) == [f"POST {COMMENTS}"], first.log
    assert first.outputs["comment-url"].endswith(f"#issuecomment-{len(others) + 1}")

    second = consumer.pull(head)
    assert second.outputs["comment-url"] == first.outputs["comment-url"]
    assert writes(consumer.api) == []
    assert consumer.api.bodies[:-1] == others


def test_a_refused_comment_names_the_permission_in_log_and_summary_and_changes_no_verdict(
    consumer: Consumer,
) -> None:
    head = _lints(consumer, LINT | {"status": "true"}, links=1)
    refused = error(403, FORBIDDEN, x_accepted_github_permissions="issues=write; pull_requests=write")
    consumer.api.plan("POST ", refused, error(403, FORBIDDEN, x_accepted_github_permissions="statuses=write"))
    job = consumer.pull(head)
    assert (job.result, job.outputs["verdict"]) == ("failure", "block"), job.log
    lines = "Add to the job in the workflow:\npermissions:\n  contents: read\n  "
    comment, status = job.said("warning")
    assert comment.startswith("The comment was not posted. GitHub answered 403: ")
    assert comment.endswith(f"{lines}pull-requests: write")
    assert status.startswith("The commit status was not posted. GitHub answered 403: ")
    assert status.endswith(f"{lines}statuses: write")
    (summary,) = job.said("summary")
    assert summary.startswith(MARKER)
    assert f"```text\n{lines}pull-requests: write\n```" in summary
    assert f"```text\n{lines}statuses: write\n```" in summary


def test_a_secondary_limit_is_waited_for(consumer: Consumer) -> None:
    consumer.api.plan("POST ", error(403, SECONDARY, retry_after="1"))
    job = consumer.pull(_lints(consumer))
    assert (job.result, job.said("warning")) == ("success", []), job.log
    assert writes(consumer.api) == [f"POST {COMMENTS}"] * 2
    assert len(consumer.api.comments) == 1


def test_a_secondary_limit_of_an_hour_is_not_waited_for_and_changes_no_verdict(consumer: Consumer) -> None:
    consumer.api.plan("POST ", error(403, SECONDARY, retry_after="3600"))
    job = consumer.pull(_lints(consumer, links=1))
    assert (job.result, job.outputs["verdict"]) == ("failure", "block"), job.log
    assert writes(consumer.api) == [f"POST {COMMENTS}"]
    assert job.said("warning") == [
        f"The comment was not posted. GitHub answered 403: {SECONDARY}\nRun the job again later."
    ]
    assert "\n> The comment was not posted. GitHub answered 403: " in job.said("summary")[0]


def test_on_an_enterprise_server_every_link_points_there(tmp_path: Path, action: Path) -> None:
    server = "https://127.0.0.1:1/hub"  # nobody answers there, should act try to fetch anything
    with consuming(tmp_path, action, prefix="/hub/api/v3", server_url=server) as consumer:
        job = consumer.pull(_lints(consumer, LINT | {"status": "true"}, links=1))
        assert job.outputs["comment-url"] == f"{server}/acme/skills/pull/2#issuecomment-1", job.log
        (body,) = consumer.api.bodies
        (status,) = consumer.api.statuses
    links = [*re.findall(r"\]\((http[^)]*)\)", body), status["target_url"]]
    assert len(links) >= 3
    assert [link for link in links if not link.startswith(f"{server}/acme/skills/")] == []
    assert "github.com" not in job.text.replace("https://github.com/skillgate/skillgate", "")


def test_two_comment_ids_in_one_pull_request_are_two_comments_and_two_statuses(consumer: Consumer) -> None:
    names = ("docs", "code")
    consumer.use({name: LINT | {"status": "true", "comment-id": name} for name in names})
    consumer.base = consumer.commit("Gate twice")
    markers = [f"<!-- skillgate:report:v1 id={name} -->" for name in names]
    earlier = consumer.api.say(2, f"{markers[1]}\nof an earlier push", BOT)
    job = consumer.pull(consumer.change("helps"))
    assert job.result == "success", job.log
    assert [line for line in writes(consumer.api) if "comments" in line] == [
        f"POST {COMMENTS}",
        f"PATCH /repos/acme/skills/issues/comments/{earlier}",
    ]
    assert sorted(body.splitlines()[0] for body in consumer.api.bodies) == sorted(markers)
    assert [status["context"] for status in consumer.api.statuses] == ["skillgate/docs", "skillgate/code"]
    urls = {name: job.all_outputs[name]["comment-url"].rpartition("-")[2] for name in names}
    assert urls == {"docs": "2", "code": "1"}
    assert len({job.all_outputs[name]["report-path"] for name in names}) == 2
