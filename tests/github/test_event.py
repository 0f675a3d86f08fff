from __future__ import annotations

import json
from typing import Any

import pytest

from skillgate.errors import UsageError
from skillgate.github.event import Activity, Files, Mode, read_event
from tests.github.events import EVENTS, read_payload

BASE = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
RUN_HEAD = "5779607b49aab1200488439f02372c57b4f75444"
EVALUATED = "Linted and evaluated: a branch of this repository."
FORK = "Linted only: the pull request comes from a fork, whose text must not meet a model key."
BOT = "Linted only: the pull request comes from a bot."
DRAFT = (
    "Linted only: the pull request is a draft. It is evaluated once it is ready for review "
    "(the workflow needs `types: [opened, synchronize, reopened, ready_for_review]`)."
)
MODE_LINT = "Linted only: the input `mode` is `lint`."
OPENED, RUN, DISPATCH = "pull_request.opened", "workflow_run.completed", "workflow_dispatch.event"
MALLORY = {"full_name": "mallory/Hello-World"}
PULL = {"workflow_run__event": "pull_request", "repository__full_name": "octo-org/octo-repo"}
CLOSED = "Nothing to do: the pull request is closed."


def _without(file: str, field: str) -> bytes:
    """Return the payload as JSON, less one field that is named by its path."""
    whole = read_payload(file)
    *way, last = field.split(".")
    inner = whole
    for step in way:
        inner = inner[step]
    del inner[last]
    return json.dumps(whole).encode()


def _activity(**changes: Any) -> Activity:
    usual: dict[str, Any] = {
        "event": "pull_request",
        "reason": EVALUATED,
        "lint": True,
        "evaluate": True,
        "post": True,
        "repository": "Codertocat/Hello-World",
        "base_sha": BASE,
        "base_ref": "master",
        "default_branch": "master",
        "head_sha": HEAD,
        "head_branch": "changes",
        "number": 2,
        "head_repository": "Codertocat/Hello-World",
    }
    return Activity(**{**usual, **changes})


# --- pull requests ----------------------------------------------------------------------


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "ready_for_review", "labeled"])
def test_a_branch_of_the_repository_is_evaluated(action: str) -> None:
    sent = (EVENTS / f"pull_request.{action}.json").read_bytes()
    assert read_event("pull_request", sent) == _activity()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"pull_request__head__repo": MALLORY},
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
                "pull_request__head__repo": MALLORY,
                "pull_request__draft": True,
                "pull_request__user__type": "Bot",
            },
            {
                "reason": FORK,
                "is_fork": True,
                "is_bot": True,
                "is_draft": True,
                "head_repository": "mallory/Hello-World",
            },
            id="all three",
        ),
    ],
)
def test_forks_drafts_and_bots_are_linted_only(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    activity = read_event("pull_request", read_payload(**changes))
    assert activity == _activity(evaluate=False, **expected)


def test_a_repository_that_is_a_fork_itself_evaluates_its_own_branches() -> None:
    own = read_payload(pull_request__head__repo__fork=True, repository__fork=True)
    assert read_event("pull_request", own) == _activity()


def test_who_clicked_does_not_matter() -> None:
    clicked = read_payload(sender={"login": "dependabot[bot]", "type": "Bot"})
    assert read_event("pull_request", clicked) == _activity()


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target"])
@pytest.mark.parametrize(
    "payload",
    [
        read_payload("pull_request.closed"),
        read_payload("pull_request.closed", pull_request__state="open"),
        read_payload("pull_request.labeled", pull_request__state="closed"),
    ],
)
def test_a_closed_pull_request_has_nothing_to_do(name: str, payload: dict[str, Any]) -> None:
    assert read_event(name, payload) == _activity(
        event=name, reason=CLOSED, lint=False, evaluate=False, post=False
    )


def test_mode_lint_evaluates_nothing() -> None:
    assert read_event("pull_request", read_payload(), Mode.LINT) == _activity(
        reason=MODE_LINT, evaluate=False
    )


@pytest.mark.parametrize("action", ["opened", "synchronize", "labeled", "unlabeled"])
@pytest.mark.parametrize(
    ("labels", "evaluate"),
    [
        ([], False),
        (["bug"], False),
        (["bug", "skillgate"], True),
        (["SkillGate"], True),
        (["skillgate-not"], False),
    ],
)
def test_the_labels_that_are_set_decide_and_not_the_one_that_came(
    action: str, labels: list[str], evaluate: bool
) -> None:
    changes: dict[str, Any] = {"pull_request__labels": [{"name": name} for name in labels], "action": action}
    for came in ("bug", "skillgate"):
        pulled = read_payload("pull_request.labeled", label={"name": came}, **changes)
        for wanted in ("skillgate", "Skillgate"):
            assert read_event("pull_request", pulled, label=wanted).evaluate is evaluate


def test_a_missing_label_is_named_with_what_the_workflow_needs() -> None:
    assert read_event("pull_request", read_payload(), label="measure") == _activity(
        reason="Linted only: the pull request does not carry the label `measure`. It is evaluated once it "
        "does (the workflow needs `labeled` among its `types`).",
        evaluate=False,
    )


@pytest.mark.parametrize("mode", [Mode.GATE, Mode.LINT])
def test_pull_request_target_reads_through_the_api_and_evaluates_nothing(mode: Mode) -> None:
    assert read_event("pull_request_target", read_payload(), mode, "bug") == _activity(
        event="pull_request_target",
        reason="Linted only, from the API: on `pull_request_target` the job holds the rights of the base "
        "branch, so nothing of the pull request is checked out or run.",
        evaluate=False,
        files=Files.API,
    )


# --- other events -----------------------------------------------------------------------


def test_a_merge_group_is_linted() -> None:
    assert read_event("merge_group", read_payload("merge_group.checks_requested")) == Activity(
        event="merge_group",
        reason="Linted only: a merge group was evaluated in its pull requests.",
        lint=True,
        post=True,
        repository="octo-org/octo-repo",
        base_sha="380387fbc80638b734a49e1be1c4dfec1c01b33c",
        base_ref="main",
        default_branch="main",
        head_sha="2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d",
    )


def _run(**changes: Any) -> Activity:
    usual: dict[str, Any] = {
        "event": "workflow_run",
        "default_branch": "main",
        "reason": "Linted only, from the API: this job can write, so it runs and checks out nothing of the "
        "pull request.",
        "lint": True,
        "post": True,
        "files": Files.API,
        "repository": "octo-org/octo-repo",
        "head_sha": RUN_HEAD,
        "head_branch": "main",
        "head_repository": "octo-org/octo-repo",
    }
    return Activity(**{**usual, **changes})


@pytest.mark.parametrize("conclusion", ["success", "failure", "cancelled", "action_required", None])
@pytest.mark.parametrize("pulls", [[], [{"number": 7, "head": {"sha": BASE}, "base": {"sha": HEAD}}]])
def test_a_run_of_a_pull_request_is_linted_however_it_ended_and_whatever_it_lists(
    conclusion: str | None, pulls: list[dict[str, Any]]
) -> None:
    changes = {**PULL, "workflow_run__conclusion": conclusion, "workflow_run__pull_requests": pulls}
    assert read_event("workflow_run", read_payload(RUN, **changes)) == _run()


@pytest.mark.parametrize(
    ("repository", "name"), [({"full_name": "mallory/octo-repo"}, "mallory/octo-repo"), (None, None)]
)
def test_a_run_of_a_fork_is_known_by_its_repository(
    repository: dict[str, str] | None, name: str | None
) -> None:
    fork = read_payload(RUN, **PULL, workflow_run__head_repository=repository, workflow_run__head_branch=None)
    assert read_event("workflow_run", fork) == _run(is_fork=True, head_repository=name, head_branch="")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (read_payload("workflow_run.requested"), "Nothing to do: the workflow has not ended yet."),
        (read_payload(RUN), "Nothing to do: no pull request started that workflow."),
        (
            read_payload(RUN, workflow_run__event="push"),
            "Nothing to do: no pull request started that workflow.",
        ),
    ],
)
def test_other_runs_have_nothing_to_do(payload: dict[str, Any], reason: str) -> None:
    assert read_event("workflow_run", payload) == Activity(event="workflow_run", reason=reason)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.EVALUATE, {"reason": "Linted and evaluated", "lint": True, "evaluate": True}),
        (Mode.POST, {"reason": "Posted", "post": True}),
    ],
)
def test_what_somebody_typed_is_evaluated_by_one_job_and_posted_by_another(
    mode: Mode, expected: dict[str, Any]
) -> None:
    typed = read_payload(DISPATCH, inputs={"pr": " 12 ", "sha": f"{HEAD.upper()}\n", "more": "x"})
    by = f": commit {HEAD} of pull request 12, as somebody who may write typed it."
    assert read_event("workflow_dispatch", json.dumps(typed).encode(), mode) == Activity(
        event="workflow_dispatch",
        files=Files.API,
        repository="octo-org/octo-repo",
        default_branch="main",
        head_sha=HEAD,
        typed_sha=HEAD,
        number=12,
        **expected | {"reason": expected["reason"] + by},
    )


PR_HINT = "the number of the pull request, digits only, such as `12`."
SHA_HINT = "all 40 characters of the head commit that you have looked at."


@pytest.mark.parametrize("mode", [Mode.EVALUATE, Mode.POST])
@pytest.mark.parametrize(
    ("inputs", "message", "hint"),
    [
        (None, "`pr` of the workflow is missing", PR_HINT),
        ({"pr": "12"}, "`sha` of the workflow is missing", SHA_HINT),
        ({"pr": None, "sha": HEAD}, "`pr` of the workflow is empty", PR_HINT),
        ({"pr": "", "sha": HEAD}, "`pr` of the workflow is empty", PR_HINT),
        ({"pr": "#12", "sha": HEAD}, "`pr` of the workflow is `#12`", PR_HINT),
        ({"pr": "0", "sha": HEAD}, "`pr` of the workflow is `0`", PR_HINT),
        ({"pr": "-1", "sha": HEAD}, "`pr` of the workflow is `-1`", PR_HINT),
        ({"pr": "١٢", "sha": HEAD}, "`pr` of the workflow is `١٢`", PR_HINT),
        ({"pr": "12\n13", "sha": HEAD}, "`pr` of the workflow is `12\n13`", PR_HINT),
        ({"pr": "9" * 300, "sha": HEAD}, f"`pr` of the workflow is `{'9' * 80}`", PR_HINT),
        ({"pr": "12", "sha": HEAD[:39]}, f"`sha` of the workflow is `{HEAD[:39]}`", SHA_HINT),
        ({"pr": "12", "sha": f"{HEAD}0"}, f"`sha` of the workflow is `{HEAD}0`", SHA_HINT),
        ({"pr": "12", "sha": "main"}, "`sha` of the workflow is `main`", SHA_HINT),
        ({"pr": "12", "sha": "--upload-pack=x"}, "`sha` of the workflow is `--upload-pack=x`", SHA_HINT),
    ],
)
def test_whoever_types_something_else_is_told_what_to_type(
    mode: Mode, inputs: dict[str, Any] | None, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_event("workflow_dispatch", read_payload(DISPATCH, inputs=inputs), mode)
    assert caught.value.message == f"input {message}"
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch"])
def test_watching_evaluates_and_posts_nothing(name: str) -> None:
    assert read_event(name, read_payload(DISPATCH), Mode.WATCH) == Activity(
        event=name,
        reason="Watched: every skill is linted and evaluated against none.",
        lint=True,
        evaluate=True,
        watch=True,
        repository="octo-org/octo-repo",
    )


def test_a_schedule_needs_no_repository_in_its_payload() -> None:
    assert read_event("schedule", b'{"schedule": "0 3 * * 1"}', Mode.WATCH).repository == ""


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", ["push", "issue_comment", "pull_request_review", "release", ""])
def test_other_events_have_nothing_to_do(name: str, mode: Mode) -> None:
    reason = f"Nothing to do: `{name}` does not propose a change."
    assert read_event(name, b"not even read", mode) == Activity(event=name, reason=reason)


@pytest.mark.parametrize(
    ("name", "fitting", "hint"),
    [
        ("pull_request", "gate lint", "`gate` or `lint`"),
        ("pull_request_target", "gate lint", "`gate` or `lint`"),
        ("merge_group", "gate lint", "`gate` or `lint`"),
        ("workflow_run", "gate lint", "`gate` or `lint`"),
        ("workflow_dispatch", "evaluate post watch", "`evaluate`, `post` or `watch`"),
        ("schedule", "watch", "`watch`"),
    ],
)
def test_a_mode_that_does_nothing_on_an_event_is_an_error(name: str, fitting: str, hint: str) -> None:
    for mode in set(Mode) - {Mode(fit) for fit in fitting.split()}:
        with pytest.raises(UsageError) as caught:
            read_event(name, {}, mode)
        assert caught.value.message == f"input `mode` is `{mode}`, which does nothing on `{name}`"
        assert caught.value.hint == f"On `{name}` set it to {hint} under `with:` in the workflow."


# --- payloads that are not usable ---------------------------------------------------------

NEEDED = [
    "action",
    "pull_request",
    "pull_request.number",
    "pull_request.state",
    "pull_request.draft",
    "pull_request.labels",
    "pull_request.user",
    "pull_request.user.type",
    "pull_request.base.sha",
    "pull_request.head",
    "pull_request.head.sha",
    "pull_request.head.ref",
    "pull_request.head.repo",
    "pull_request.head.repo.full_name",
    "repository.full_name",
]
NEEDED_OF_OTHERS = [
    ("merge_group.checks_requested", "action"),
    ("merge_group.checks_requested", "merge_group"),
    ("merge_group.checks_requested", "merge_group.base_sha"),
    ("merge_group.checks_requested", "merge_group.head_sha"),
    ("merge_group.checks_requested", "repository"),
    (RUN, "action"),
    (RUN, "workflow_run"),
    (RUN, "workflow_run.event"),
    (RUN, "workflow_run.head_sha"),
    (RUN, "workflow_run.head_branch"),
    (RUN, "workflow_run.head_repository"),
    (RUN, "workflow_run.head_repository.full_name"),
    (RUN, "repository"),
    (DISPATCH, "repository"),
    (DISPATCH, "repository.full_name"),
]


@pytest.mark.parametrize(
    ("file", "field"), [*((OPENED, field) for field in NEEDED), *NEEDED_OF_OTHERS], ids=str
)
def test_a_missing_field_is_named(file: str, field: str) -> None:
    name = file.partition(".")[0]
    mode = Mode.EVALUATE if name == "workflow_dispatch" else Mode.GATE
    with pytest.raises(UsageError) as caught:
        read_event(name, _without(file, field), mode)
    assert caught.value.message == f"the event payload is not usable: `{field}` is missing"


NO_SHA = "expected `str` matching regex '^[0-9a-f]{40}([0-9a-f]{24})?\\\\Z'"


@pytest.mark.parametrize(
    ("file", "changes", "problem"),
    [
        (
            OPENED,
            {"pull_request__head__sha": "--upload-pack=x"},
            f"`pull_request.head.sha`: {NO_SHA}",
        ),
        (OPENED, {"pull_request__base__sha": f"{BASE}\n"}, f"`pull_request.base.sha`: {NO_SHA}"),
        (OPENED, {"pull_request__user": None}, "`pull_request.user`: expected `object`, got `null`"),
        (OPENED, {"pull_request__number": "2"}, "`pull_request.number`: expected `int`, got `str`"),
        (
            OPENED,
            {"pull_request__labels": [{"name": 1}]},
            "`pull_request.labels[0].name`: expected `str`, got `int`",
        ),
        (RUN, {"workflow_run__head_sha": "HEAD"}, f"`workflow_run.head_sha`: {NO_SHA}"),
        (
            "merge_group.checks_requested",
            {"merge_group__base_sha": ""},
            f"`merge_group.base_sha`: {NO_SHA}",
        ),
    ],
)
def test_a_wrong_field_is_named(file: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_event(file.partition(".")[0], json.dumps(read_payload(file, **changes)).encode())
    assert caught.value.message == f"the event payload is not usable: {problem}"


@pytest.mark.parametrize("payload", [b"", b"not json", b"[]", b"\xff"])
@pytest.mark.parametrize("name", ["pull_request", "merge_group", "workflow_run"])
def test_a_payload_that_is_no_object_is_a_usage_error(name: str, payload: bytes) -> None:
    with pytest.raises(UsageError, match="the event payload is not usable"):
        read_event(name, payload)
