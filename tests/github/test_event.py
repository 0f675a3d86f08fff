from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillgate.errors import UsageError
from skillgate.github.event import Activity, read_event

EVENTS = Path(__file__).parents[1] / "data" / "events"
BASE = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
EVALUATED = "Linted and evaluated: a branch of this repository."
FORK = "Linted only: the pull request comes from a fork, whose text must not meet a model key."
BOT = "Linted only: the pull request comes from a bot."
DRAFT = (
    "Linted only: the pull request is a draft. It is evaluated once it is ready for review "
    "(the workflow needs `types: [opened, synchronize, reopened, ready_for_review]`)."
)


def _payload(name: str = "pull_request.opened", **changes: object) -> dict[str, Any]:
    """Read a real payload; a change is named by its path, with `__` for the dots."""
    payload: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_bytes())
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = payload
        for step in way:
            inner = inner[step]
        inner[last] = value
    return payload


def _activity(**changes: Any) -> Activity:
    usual: dict[str, Any] = {
        "event": "pull_request",
        "reason": EVALUATED,
        "lint": True,
        "evaluate": True,
        "repository": "Codertocat/Hello-World",
        "base_sha": BASE,
        "head_sha": HEAD,
        "number": 2,
        "head_repository": "Codertocat/Hello-World",
    }
    return Activity(**{**usual, **changes})


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "ready_for_review", "labeled"])
def test_a_branch_of_the_repository_is_evaluated(action: str) -> None:
    payload = (EVENTS / f"pull_request.{action}.json").read_bytes()
    assert read_event("pull_request", payload) == _activity()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"pull_request__head__repo": {"full_name": "mallory/Hello-World"}},
            {"reason": FORK, "is_fork": True, "head_repository": "mallory/Hello-World"},
            id="fork",
        ),
        pytest.param(
            {"pull_request__head__repo": None},
            {"reason": FORK, "is_fork": True, "head_repository": None},
            id="deleted fork",
        ),
        pytest.param({"pull_request__draft": True}, {"reason": DRAFT, "is_draft": True}, id="draft"),
        pytest.param({"pull_request__user__type": "Bot"}, {"reason": BOT, "is_bot": True}, id="bot"),
        pytest.param(
            {
                "pull_request__head__repo": {"full_name": "bot/Hello-World"},
                "pull_request__draft": True,
                "pull_request__user__type": "Bot",
            },
            {
                "reason": FORK,
                "is_fork": True,
                "is_bot": True,
                "is_draft": True,
                "head_repository": "bot/Hello-World",
            },
            id="all three",
        ),
    ],
)
def test_forks_drafts_and_bots_are_linted_only(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    activity = read_event("pull_request", _payload(**changes))
    assert activity == _activity(evaluate=False, **expected)


def test_a_repository_that_is_a_fork_itself_evaluates_its_own_branches() -> None:
    assert read_event("pull_request", _payload(pull_request__head__repo__fork=True)) == _activity()


def test_who_clicked_does_not_matter() -> None:
    clicked = _payload(sender={"login": "dependabot[bot]", "type": "Bot"})
    assert read_event("pull_request", clicked) == _activity()


def test_a_closed_pull_request_has_nothing_to_do() -> None:
    reason = "Nothing to do: the pull request is closed."
    assert read_event("pull_request", _payload("pull_request.closed")) == _activity(
        reason=reason, lint=False, evaluate=False
    )


def test_a_merge_group_is_linted() -> None:
    assert read_event("merge_group", _payload("merge_group.checks_requested")) == Activity(
        event="merge_group",
        reason="Linted only: a merge group was evaluated in its pull requests.",
        lint=True,
        repository="octo-org/octo-repo",
        base_sha="380387fbc80638b734a49e1be1c4dfec1c01b33c",
        head_sha="2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d",
    )


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("workflow_run", _payload("workflow_run.completed"), "`workflow_run` is not supported yet."),
        ("pull_request_target", _payload(), "`pull_request_target` is not supported yet."),
        ("schedule", {}, "`schedule` is not supported yet."),
        ("workflow_dispatch", {}, "`workflow_dispatch` is not supported yet."),
        ("push", _payload("push.event"), "`push` does not propose a change."),
    ],
)
def test_other_events_have_nothing_to_do(name: str, payload: dict[str, Any], reason: str) -> None:
    assert read_event(name, payload) == Activity(event=name, reason=f"Nothing to do: {reason}")


NEEDED = [
    "action",
    "pull_request",
    "pull_request.number",
    "pull_request.draft",
    "pull_request.user",
    "pull_request.user.type",
    "pull_request.base.sha",
    "pull_request.head",
    "pull_request.head.sha",
    "pull_request.head.repo",
    "pull_request.head.repo.full_name",
    "repository.full_name",
]


@pytest.mark.parametrize("field", NEEDED)
def test_a_missing_field_is_named(field: str) -> None:
    payload = _payload()
    *way, last = field.split(".")
    inner = payload
    for step in way:
        inner = inner[step]
    del inner[last]
    with pytest.raises(UsageError) as caught:
        read_event("pull_request", json.dumps(payload).encode())
    assert caught.value.message == f"the event payload is not usable: `{field}` is missing"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"pull_request__head__sha": "--upload-pack=x"},
            "`pull_request.head.sha`: expected `str` matching regex '^[0-9a-f]{40}([0-9a-f]{24})?\\\\Z'",
        ),
        (
            {"pull_request__base__sha": f"{BASE}\n"},
            "`pull_request.base.sha`: expected `str` matching regex '^[0-9a-f]{40}([0-9a-f]{24})?\\\\Z'",
        ),
        ({"pull_request__user": None}, "`pull_request.user`: expected `object`, got `null`"),
        ({"pull_request__number": "2"}, "`pull_request.number`: expected `int`, got `str`"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_event("pull_request", json.dumps(_payload(**changes)).encode())
    assert caught.value.message == f"the event payload is not usable: {problem}"


@pytest.mark.parametrize("payload", [b"", b"not json", b"[]", b"\xff"])
def test_a_payload_that_is_no_object_is_a_usage_error(payload: bytes) -> None:
    with pytest.raises(UsageError, match="the event payload is not usable"):
        read_event("pull_request", payload)
