"""A webhook event and a mode -> Activity: what may run for it, with which pull request, and why.

Pure: a name and a payload in, a value or a UsageError out. It decides only from the payload,
never from `github.actor` or anything else that a re-run or another person's click can change.
`tests/golden/events.md` is the whole table of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgspec

from skillgate.errors import UsageError
from skillgate.github.payload import (
    FULL_SHA,
    NUMBER,
    DispatchEvent,
    Label,
    MergeGroupEvent,
    PullRequestEvent,
    RunEvent,
    ScheduleEvent,
    decode,
    typed,
)
from skillgate.values import Struct


class Mode(StrEnum):
    """What the input `mode` asks for."""

    LINT = "lint"
    GATE = "gate"
    EVALUATE = "evaluate"
    POST = "post"
    WATCH = "watch"


class Files(StrEnum):
    """Where the files of the change are read."""

    CHECKOUT = "checkout"
    API = "api"  # nothing of the head is checked out


class Activity(Struct, kw_only=True):
    """What one event asks for, and in `reason` why.

    A provider key may be there only with `evaluate`, a token that can write only with `post`.
    `number` and `base_sha` are not known where only the API can tell them. `typed_sha` is what a
    person has looked at: it must be the head before anything starts and before anything is posted.
    """

    event: str
    reason: str
    lint: bool = False
    evaluate: bool = False
    post: bool = False
    watch: bool = False
    files: Files = Files.CHECKOUT
    repository: str = ""
    base_sha: str = ""
    base_ref: str = ""
    default_branch: str = ""
    head_sha: str = ""
    head_branch: str = ""
    typed_sha: str = ""
    number: int | None = None
    head_repository: str | None = None
    is_fork: bool = False
    is_draft: bool = False
    is_bot: bool = False

    @property
    def is_idle(self) -> bool:
        """Say whether there is nothing to do."""
        return not (self.lint or self.post)


_CHANGE = (Mode.GATE, Mode.LINT)
_MODES = MappingProxyType(
    {
        "pull_request": _CHANGE,
        "pull_request_target": _CHANGE,
        "merge_group": _CHANGE,
        "workflow_run": _CHANGE,
        "workflow_dispatch": (Mode.EVALUATE, Mode.POST, Mode.WATCH),
        "schedule": (Mode.WATCH,),
    }
)


def read_event(
    name: str, payload: bytes | dict[str, Any], mode: Mode = Mode.GATE, label: str = ""
) -> Activity:
    """Decide what may run for this event.

    Args:
        name: the event's name, as in GITHUB_EVENT_NAME.
        payload: the webhook payload, as JSON text or already decoded.
        label: only a pull request that carries it is evaluated; empty asks for none.
    Raises: UsageError naming the field or input that is missing or wrong, or a mode that does not
        belong to the event: a required check that does nothing must not be green.
    """
    if name not in _MODES:
        return Activity(event=name, reason=f"Nothing to do: `{name}` does not propose a change.")
    if mode not in _MODES[name]:
        raise _unfit(name, mode)
    match name:
        case "pull_request":
            return _pull_request(decode(payload, PullRequestEvent), mode, label)
        case "pull_request_target":
            return _target(decode(payload, PullRequestEvent))
        case "merge_group":
            return _merge_group(decode(payload, MergeGroupEvent), mode)
        case "workflow_run":
            return _workflow_run(decode(payload, RunEvent))
        case _ if mode is Mode.WATCH:
            return _watch(name, decode(payload, ScheduleEvent))
        case _:
            return _dispatch(decode(payload, DispatchEvent), mode)


def _unfit(name: str, mode: Mode) -> UsageError:
    *most, last = (f"`{fit}`" for fit in _MODES[name])
    fitting = f"{', '.join(most)} or {last}" if most else last
    return UsageError(
        f"input `mode` is `{mode}`, which does nothing on `{name}`",
        f"On `{name}` set it to {fitting} under `with:` in the workflow.",
    )


# --- pull requests ----------------------------------------------------------------

_CLOSED = "Nothing to do: the pull request is closed."
_MODE_LINT = "Linted only: the input `mode` is `lint`."
_TARGET = (
    "Linted only, from the API: on `pull_request_target` the job holds the rights of the base branch, "
    "so nothing of the pull request is checked out or run."
)


def _pull_request(event: PullRequestEvent, mode: Mode, label: str) -> Activity:
    # Every action gates again, `labeled` too: the newest run of a required check wins, so an event
    # that is waved through would turn a failed gate green.
    seen = _seen("pull_request", event)
    if _is_closed(event):
        return seen
    why_not = _MODE_LINT if mode is Mode.LINT else _lint_only(seen, event.pull_request.labels, label)
    reason = why_not or "Linted and evaluated: a branch of this repository."
    return msgspec.structs.replace(seen, reason=reason, lint=True, evaluate=not why_not, post=True)


def _target(event: PullRequestEvent) -> Activity:
    seen = _seen("pull_request_target", event)
    if _is_closed(event):
        return seen
    return msgspec.structs.replace(seen, reason=_TARGET, lint=True, post=True, files=Files.API)


def _is_closed(event: PullRequestEvent) -> bool:
    # a label may be set, or a run repeated, long after the pull request was closed
    return event.action == "closed" or event.pull_request.state == "closed"


def _seen(name: str, event: PullRequestEvent) -> Activity:
    """Return who and what the pull request is; nothing may run yet."""
    pull, repository = event.pull_request, event.repository.full_name
    head_repository = pull.head.repo.full_name if pull.head.repo else None
    return Activity(
        event=name,
        reason=_CLOSED,
        repository=repository,
        base_sha=pull.base.sha,
        base_ref=pull.base.ref,
        default_branch=event.repository.default_branch,
        head_sha=pull.head.sha,
        head_branch=pull.head.ref,
        number=pull.number,
        head_repository=head_repository,
        # `head.repo.fork` is also true inside a repository that is itself a fork: compare the names
        is_fork=head_repository != repository,
        is_draft=pull.draft,
        is_bot=pull.user.type != "User",
    )


def _lint_only(seen: Activity, labels: Sequence[Label], label: str) -> str:
    """Return why a pull request must not spend money, or nothing."""
    if seen.is_fork:
        return "Linted only: the pull request comes from a fork, whose text must not meet a model key."
    if seen.is_bot:
        return "Linted only: the pull request comes from a bot."
    if seen.is_draft:
        return (
            "Linted only: the pull request is a draft. It is evaluated once it is ready for review "
            "(the workflow needs `types: [opened, synchronize, reopened, ready_for_review]`)."
        )
    # GitHub takes labels that differ in case for the same one
    if label and label.casefold() not in {carried.name.casefold() for carried in labels}:
        return (
            f"Linted only: the pull request does not carry the label `{label}`. It is evaluated once it "
            "does (the workflow needs `labeled` among its `types`)."
        )
    return ""


# --- everything else --------------------------------------------------------------


def _merge_group(event: MergeGroupEvent, mode: Mode) -> Activity:
    if event.action != "checks_requested":
        return Activity(event="merge_group", reason="Nothing to do: the merge group is gone.")
    evaluated = "Linted only: a merge group was evaluated in its pull requests."
    return Activity(
        event="merge_group",
        reason=_MODE_LINT if mode is Mode.LINT else evaluated,
        lint=True,
        post=True,  # a status; without a number there is nothing to comment on
        repository=event.repository.full_name,
        base_sha=event.merge_group.base_sha,
        base_ref=event.merge_group.base_ref.removeprefix("refs/heads/"),
        default_branch=event.repository.default_branch,
        head_sha=event.merge_group.head_sha,
    )


def _workflow_run(event: RunEvent) -> Activity:
    run, repository = event.workflow_run, event.repository.full_name
    if event.action != "completed":
        return Activity(event="workflow_run", reason="Nothing to do: the workflow has not ended yet.")
    if run.event != "pull_request":
        return Activity(event="workflow_run", reason="Nothing to do: no pull request started that workflow.")
    head_repository = run.head_repository.full_name if run.head_repository else None
    # How that workflow ended says nothing: the pull request can edit it. Its list of pull requests
    # is empty for a fork and may name those of other repositories, so the API is asked instead.
    return Activity(
        event="workflow_run",
        reason="Linted only, from the API: this job can write, so it runs and checks out nothing of the "
        "pull request.",
        lint=True,
        post=True,
        files=Files.API,
        repository=repository,
        default_branch=event.repository.default_branch,
        head_sha=run.head_sha,
        head_branch=run.head_branch or "",
        head_repository=head_repository,
        is_fork=head_repository != repository,
    )


def _dispatch(event: DispatchEvent, mode: Mode) -> Activity:
    inputs = event.inputs or {}
    number = typed(inputs, "pr", NUMBER, "the number of the pull request, digits only, such as `12`")
    sha = typed(inputs, "sha", FULL_SHA, "all 40 characters of the head commit that you have looked at")
    evaluate = mode is Mode.EVALUATE
    done = "Linted and evaluated" if evaluate else "Posted"
    return Activity(
        event="workflow_dispatch",
        reason=f"{done}: commit {sha} of pull request {number}, as somebody who may write typed it.",
        lint=evaluate,
        evaluate=evaluate,
        post=not evaluate,
        files=Files.API,
        repository=event.repository.full_name,
        default_branch=event.repository.default_branch,
        head_sha=sha,
        typed_sha=sha,
        number=int(number),
    )


def _watch(name: str, event: ScheduleEvent) -> Activity:
    return Activity(
        event=name,
        reason="Watched: every skill is linted and evaluated against none.",
        lint=True,
        evaluate=True,
        watch=True,
        repository=event.repository.full_name if event.repository else "",
    )
