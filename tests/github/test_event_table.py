"""The table of what may run for which event: `tests/golden/events.md`.

SKILLGATE_UPDATE_GOLDEN=1 writes it anew: read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.errors import UsageError
from skillgate.github.event import Activity, Files, Mode, read_event
from tests.github.events import EVENTS, read_payload

GOLDEN = Path(__file__).parents[1] / "golden" / "events.md"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"


class Case(NamedTuple):
    """One row of the table, for every mode; `what` is empty for a payload as GitHub sent it."""

    file: str
    what: str = ""
    changes: dict[str, Any] = {}
    label: str = ""
    event: str = ""

    @property
    def name(self) -> str:
        return self.event or self.file.partition(".")[0]

    @property
    def title(self) -> str:
        return self.what or self.file.partition(".")[2]

    def read(self, mode: Mode) -> Activity:
        return read_event(self.name, read_payload(self.file, **self.changes), mode, self.label)


OPENED, RUN, DISPATCH = "pull_request.opened", "workflow_run.completed", "workflow_dispatch.event"
PULL = {"workflow_run__event": "pull_request", "repository__full_name": "octo-org/octo-repo"}
MALLORY = {"full_name": "mallory/Hello-World"}
LABELS: dict[str, Any] = {"pull_request__labels": [{"name": "bug"}, {"name": "Skillgate"}]}
TYPED = {"pr": "12", "sha": HEAD}
REAL = [Case(path.stem) for path in sorted(EVENTS.glob("*.json"))]
CASES = [
    *REAL,
    Case(OPENED, "from a fork", {"pull_request__head__repo": MALLORY}),
    Case(OPENED, "from a fork that is deleted", {"pull_request__head__repo": None}),
    Case(
        OPENED,
        "from a fork, in a repository that is a fork",
        {"pull_request__head__repo": MALLORY | {"fork": True}, "repository__fork": True},
    ),
    Case(
        OPENED,
        "from a branch, in a repository that is a fork",
        {"pull_request__head__repo__fork": True, "repository__fork": True},
    ),
    Case(OPENED, "draft", {"pull_request__draft": True}),
    Case(OPENED, "from a bot", {"pull_request__user__type": "Bot"}),
    Case(
        OPENED,
        "from Dependabot",
        {"pull_request__user": {"login": "dependabot[bot]", "type": "Bot"}, "pull_request__labels": []},
    ),
    Case(OPENED, "a bot clicked", {"sender": {"login": "dependabot[bot]", "type": "Bot"}}),
    Case(
        OPENED,
        "fork, draft and bot",
        {
            "pull_request__head__repo": MALLORY,
            "pull_request__draft": True,
            "pull_request__user__type": "Bot",
        },
    ),
    Case(OPENED, "label wanted, none set", label="skillgate"),
    Case(OPENED, "label wanted and set", LABELS, label="skillgate"),
    Case("pull_request.labeled", "label wanted, another one came", label="skillgate"),
    Case("pull_request.labeled", "label set before, another one came", LABELS, label="skillgate"),
    Case(OPENED, "label set on a draft", LABELS | {"pull_request__draft": True}, label="skillgate"),
    Case(OPENED, "label set, from a fork", LABELS | {"pull_request__head__repo": MALLORY}, label="skillgate"),
    Case("pull_request.labeled", "closed, then labelled", {"pull_request__state": "closed"}),
    Case(OPENED, event="pull_request_target"),
    Case(OPENED, "from a fork", {"pull_request__head__repo": MALLORY}, event="pull_request_target"),
    Case(
        OPENED,
        "label set, from a fork",
        LABELS | {"pull_request__head__repo": MALLORY},
        label="skillgate",
        event="pull_request_target",
    ),
    Case("pull_request.closed", event="pull_request_target"),
    Case("merge_group.checks_requested", "destroyed", {"action": "destroyed"}),
    Case(RUN, "of a pull request", PULL | {"workflow_run__conclusion": "success"}),
    Case(RUN, "of a pull request, failed", PULL | {"workflow_run__conclusion": "failure"}),
    Case(
        RUN,
        "of a pull request from a fork",
        PULL | {"workflow_run__head_repository": {"full_name": "mallory/octo-repo"}},
    ),
    Case(RUN, "of a pull request, only requested", PULL | {"action": "requested"}),
    Case(RUN, "of a merge group", {"workflow_run__event": "merge_group"}),
    Case(DISPATCH, "pr and sha typed", {"inputs": TYPED}),
    Case(DISPATCH, "sha too short", {"inputs": TYPED | {"sha": HEAD[:7]}}),
    Case(DISPATCH, "pr is a link", {"inputs": TYPED | {"pr": "https://github.com/a/b/pull/12"}}),
    Case(DISPATCH, "no sha", {"inputs": {"pr": "12"}}),
    Case("push.event", "schedule", event="schedule"),
]
INTRODUCTION = """\
# What may run for which event

Which modes belong to an event. Any other is an error: a required check that does nothing must not be green.

"""
LEGEND = """
Then what runs. `evaluate`: a provider key may be there. `post`: comment and status may be posted. `files`:
where the change is read; with `api` nothing of the head is checked out.

"""


def _table() -> str:
    names = list(dict.fromkeys(case.name for case in CASES))
    lines = ["event", *Mode], ["---"] * (1 + len(Mode))
    modes = [[name, *("yes" if _fits(name, mode) else "" for mode in Mode)] for name in sorted(names)]
    rows = [row for case in sorted(CASES, key=lambda case: case.name) for row in _rows(case)]
    head = "event", "case", "mode", "lint", "evaluate", "post", "watch", "files", "why"
    return INTRODUCTION + _markdown(*lines, *modes) + LEGEND + _markdown(head, ["---"] * 9, *rows)


def _markdown(*rows: Sequence[str]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _fits(name: str, mode: Mode) -> bool:
    try:
        read_event(name, {}, mode)
    except UsageError as error:
        return not error.message.startswith("input `mode` ")
    return True


def _rows(case: Case) -> list[list[str]]:
    """Write one row for the modes that are answered alike."""
    modes: dict[tuple[str, ...], list[str]] = {}
    for mode in Mode:
        if _fits(case.name, mode):
            modes.setdefault(_answer(case, mode), []).append(mode)
    label = f"{case.title} (input `label`)" if case.label else case.title
    return [[case.name, label, ", ".join(names), *answer] for answer, names in modes.items()]


def _answer(case: Case, mode: Mode) -> tuple[str, ...]:
    try:
        done = case.read(mode)
    except UsageError as error:
        return *[""] * 5, f"error: {error.message}. {error.hint}"
    flags = ["yes" if flag else "" for flag in (done.lint, done.evaluate, done.post, done.watch)]
    return *flags, done.files if done.lint else "", done.reason


def test_the_table_is_the_golden_one() -> None:
    if os.environ.get("SKILLGATE_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(_table(), encoding="utf-8")
    assert _table() == GOLDEN.read_text(encoding="utf-8"), f"{GOLDEN} differs"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
@pytest.mark.parametrize("mode", Mode)
def test_a_key_and_a_token_that_can_write_are_apart_from_the_text_of_strangers(
    case: Case, mode: Mode
) -> None:
    try:
        done = case.read(mode)
    except UsageError:
        return  # the table has its words
    assert done.reason.endswith(".")
    assert done.is_idle is done.reason.startswith("Nothing to do: ")
    if done.is_idle:
        assert (done.evaluate, done.watch) == (False, False)
    if done.evaluate and done.post:
        assert (done.is_fork, done.is_draft, done.is_bot) == (False, False, False)
    if done.event in ("pull_request_target", "workflow_run"):
        assert not done.evaluate
        assert done.is_idle or done.files is Files.API
    if done.watch:
        assert (done.post, done.number, done.head_sha) == (False, None, "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_run_that_is_repeated_gets_the_same_answer_whoever_repeats_it(case: Case) -> None:
    again = case._replace(changes={**case.changes, "sender": {"login": "another", "type": "Bot"}})
    for mode in Mode:
        answers = [_answer(either, mode) for either in (case, case, again)]
        assert len(set(answers)) == 1
