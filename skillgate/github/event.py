"""A webhook event -> Activity: what may run for it, with which pull request, and why.

Pure: a name and a payload in, a value or a UsageError out. It decides only from the payload,
never from `github.actor` or anything else that a re-run or another person's click can change.
A payload is text of a stranger: its SHAs reach git as arguments, so they are checked here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

from skillgate.errors import UsageError
from skillgate.values import Struct

T = TypeVar("T")
Sha = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?\Z")]

_NOT_YET = ("pull_request_target", "schedule", "workflow_dispatch", "workflow_run")
_MISSING = re.compile(r"missing required field `(.+?)`")
_WHERE = re.compile(r" - at `\$\.?(.*)`$")


class Activity(Struct, kw_only=True):
    """What one event asks for; without `lint` there is nothing to do, and `reason` says why."""

    event: str
    reason: str
    lint: bool = False
    evaluate: bool = False
    repository: str = ""
    base_sha: str = ""
    head_sha: str = ""
    number: int | None = None
    head_repository: str | None = None
    is_fork: bool = False
    is_draft: bool = False
    is_bot: bool = False


class _Repository(msgspec.Struct, frozen=True):
    full_name: str


class _User(msgspec.Struct, frozen=True):
    type: str


class _Base(msgspec.Struct, frozen=True):
    sha: Sha


class _Head(msgspec.Struct, frozen=True):
    sha: Sha
    repo: _Repository | None  # null once the fork is deleted


class _PullRequest(msgspec.Struct, frozen=True):
    number: int
    draft: bool
    user: _User
    base: _Base
    head: _Head


class _PullRequestEvent(msgspec.Struct, frozen=True):
    action: str
    pull_request: _PullRequest
    repository: _Repository


class _MergeGroup(msgspec.Struct, frozen=True):
    base_sha: Sha
    head_sha: Sha


class _MergeGroupEvent(msgspec.Struct, frozen=True):
    merge_group: _MergeGroup
    repository: _Repository


def read_event(name: str, payload: bytes | dict[str, Any]) -> Activity:
    """Decide what may run for this event.

    Args:
        name: the event's name, as in GITHUB_EVENT_NAME.
        payload: the webhook payload, as JSON text or already decoded.
    Raises: UsageError naming the field that is missing or wrong.
    """
    match name:
        case "pull_request":
            return _pull_request(_decode(payload, _PullRequestEvent))
        case "merge_group":
            return _merge_group(_decode(payload, _MergeGroupEvent))
        case _ if name in _NOT_YET:
            return Activity(event=name, reason=f"Nothing to do: `{name}` is not supported yet.")
        case _:
            return Activity(event=name, reason=f"Nothing to do: `{name}` does not propose a change.")


def _pull_request(event: _PullRequestEvent) -> Activity:
    pull, repository = event.pull_request, event.repository.full_name
    head_repository = pull.head.repo.full_name if pull.head.repo else None
    # `head.repo.fork` is also true inside a repository that is itself a fork: compare the names.
    is_fork, is_bot = head_repository != repository, pull.user.type != "User"
    # Every other action gates again, `labeled` too: the newest run of a required check wins, so
    # an event that is waved through would turn a failed gate green.
    is_closed = event.action == "closed"
    lint_only = _lint_only(is_fork, pull.draft, is_bot)
    return Activity(
        event="pull_request",
        reason=_CLOSED if is_closed else lint_only or "Linted and evaluated: a branch of this repository.",
        lint=not is_closed,
        evaluate=not is_closed and not lint_only,
        repository=repository,
        base_sha=pull.base.sha,
        head_sha=pull.head.sha,
        number=pull.number,
        head_repository=head_repository,
        is_fork=is_fork,
        is_draft=pull.draft,
        is_bot=is_bot,
    )


_CLOSED = "Nothing to do: the pull request is closed."


def _lint_only(is_fork: bool, is_draft: bool, is_bot: bool) -> str:
    """Return why a pull request must not spend money, or nothing."""
    if is_fork:
        return "Linted only: the pull request comes from a fork, whose text must not meet a model key."
    if is_bot:
        return "Linted only: the pull request comes from a bot."
    if is_draft:
        return (
            "Linted only: the pull request is a draft. It is evaluated once it is ready for review "
            "(the workflow needs `types: [opened, synchronize, reopened, ready_for_review]`)."
        )
    return ""


def _merge_group(event: _MergeGroupEvent) -> Activity:
    return Activity(
        event="merge_group",
        reason="Linted only: a merge group was evaluated in its pull requests.",
        lint=True,
        repository=event.repository.full_name,
        base_sha=event.merge_group.base_sha,
        head_sha=event.merge_group.head_sha,
    )


def _decode(payload: bytes | dict[str, Any], kind: type[T]) -> T:
    try:
        if isinstance(payload, bytes):
            return msgspec.json.decode(payload, type=kind)
        return msgspec.convert(payload, kind)
    except msgspec.DecodeError as error:
        raise UsageError(f"the event payload is not usable: {_explain(str(error))}", _HINT) from None


_HINT = "GITHUB_EVENT_NAME and GITHUB_EVENT_PATH must be those of one webhook event."


def _explain(problem: str) -> str:
    """Turn msgspec's sentence into one that leads with the field's full name."""
    message, where = _WHERE.sub("", problem), _WHERE.search(problem)
    missing = _MISSING.search(message)
    path = ".".join(part for part in (where[1] if where else "", missing[1] if missing else "") if part)
    if not path:
        return message
    return f"`{path}` is missing" if missing else f"`{path}`: {message[0].lower() + message[1:]}"
