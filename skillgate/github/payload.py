"""What is read of the webhook payloads, and an error that names the field which is wrong.

Pure. A payload is text of a stranger: its SHAs reach git as arguments, so they are checked here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

from skillgate.errors import UsageError

T = TypeVar("T")
Sha = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?\Z")]

NUMBER = re.compile(r"[1-9][0-9]{0,8}")
FULL_SHA = re.compile(r"[0-9a-f]{40}")
_MISSING = re.compile(r"missing required field `(.+?)`")
_WHERE = re.compile(r" - at `\$\.?(.*)`$")


class Repository(msgspec.Struct, frozen=True):
    """A repository, by its full name: `owner/name`."""

    full_name: str
    default_branch: str = ""


class User(msgspec.Struct, frozen=True):
    """An account: `User`, `Bot`, `Organization` or `Mannequin`."""

    type: str


class Label(msgspec.Struct, frozen=True):
    """A label of a pull request."""

    name: str


class Base(msgspec.Struct, frozen=True):
    """Where a pull request wants to go."""

    sha: Sha
    ref: str = ""


class Head(msgspec.Struct, frozen=True):
    """What a pull request brings."""

    sha: Sha
    ref: str
    repo: Repository | None  # null once the fork is deleted


class PullRequest(msgspec.Struct, frozen=True):
    """A pull request as it was when the event came."""

    number: int
    state: str
    draft: bool
    labels: list[Label]
    user: User
    base: Base
    head: Head


class PullRequestEvent(msgspec.Struct, frozen=True):
    """The payload of `pull_request` and `pull_request_target`."""

    action: str
    pull_request: PullRequest
    repository: Repository


class MergeGroup(msgspec.Struct, frozen=True):
    """Several pull requests, merged for a try."""

    base_sha: Sha
    head_sha: Sha
    base_ref: str = ""


class MergeGroupEvent(msgspec.Struct, frozen=True):
    """The payload of `merge_group`."""

    action: str
    merge_group: MergeGroup
    repository: Repository


class Run(msgspec.Struct, frozen=True):
    """A run of another workflow."""

    event: str
    head_sha: Sha
    head_branch: str | None
    head_repository: Repository | None


class RunEvent(msgspec.Struct, frozen=True):
    """The payload of `workflow_run`."""

    action: str
    workflow_run: Run
    repository: Repository


class DispatchEvent(msgspec.Struct, frozen=True):
    """The payload of `workflow_dispatch`, with what somebody typed."""

    repository: Repository
    inputs: dict[str, Any] | None = None


class ScheduleEvent(msgspec.Struct, frozen=True):
    """The payload of `schedule`."""

    repository: Repository | None = None


def decode(payload: bytes | dict[str, Any], kind: type[T]) -> T:
    """Read a payload, as JSON text or already decoded. Raises: UsageError that names the wrong field."""
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


def typed(inputs: dict[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    """Return what somebody typed into an input. Raises: UsageError that says `what` to type."""
    hint = f"Run the workflow again and type into `{name}` {what}."
    if name not in inputs:
        raise UsageError(
            f"input `{name}` of the workflow is missing",
            f"Declare it under `on: workflow_dispatch: inputs:`, and type {what}.",
        )
    text = str(inputs[name] or "").strip().lower()
    if not pattern.fullmatch(text):
        shown = f"is `{text[:80]}`" if text else "is empty"
        raise UsageError(f"input `{name}` of the workflow {shown}", hint)
    return text
