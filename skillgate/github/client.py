"""The pull request's side of GitHub: one sticky comment and one commit status.

Built on PyGithub, which is slow to import: the command line imports this package only for
`skillgate action`. Nothing here decides anything: what could not be posted comes back as a
value that says what is missing, because a failed comment must never change a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Literal

from github.GithubException import GithubException, RateLimitExceededException, UnknownObjectException
from github.Issue import Issue
from github.IssueComment import IssueComment

from skillgate.github.patience import Trouble, connect, patiently
from skillgate.report.escape import clean
from skillgate.values import Struct

STATUS_LIMIT = 140
_APP_LOGIN = "github-actions[bot]"


State = Literal["success", "failure", "pending", "error"]


class Change(StrEnum):
    """What happened to a comment or a status."""

    CREATED = "created"
    EDITED = "edited"
    UNCHANGED = "unchanged"
    NOT_NEEDED = "not needed"


class Posted(Struct, kw_only=True):
    """GitHub shows it at `url`; empty when nothing was needed."""

    change: Change
    url: str = ""


class NotPosted(Struct, kw_only=True):
    """GitHub does not show it: why, and what to do."""

    problem: str
    hint: str = ""


class Client:
    """Talks to one repository; use it with `contextlib.closing`.

    Args:
        api_url: GITHUB_API_URL, so that GitHub Enterprise Server works.
        sleep: waits between attempts, in seconds.
    """

    def __init__(
        self, api_url: str, token: str, repository: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._repository = repository
        self._sleep = sleep
        self._github = connect(api_url, token)

    def close(self) -> None:
        """Close the connections."""
        self._github.close()

    def put_comment(self, number: int, body: str, *, create: bool = True) -> Posted | NotPosted:
        """Create or edit the comment whose first line is the first line of `body`.

        Args:
            create: False only edits a comment that is already there.
        """
        return self._patiently("pull-requests: write", lambda: self._put(number, body, create))

    def post_status(
        self,
        sha: str,
        *,
        context: str,
        state: State,
        description: str,
        target_url: str,
    ) -> Posted | NotPosted:
        """Set a commit status on exactly this commit."""
        content = {
            "state": state,
            "context": context,
            "description": clean(description, STATUS_LIMIT),
            "target_url": target_url,
        }
        return self._patiently("statuses: write", lambda: self._status(sha, content))

    def _status(self, sha: str, content: dict[str, str]) -> Posted:
        url = f"/repos/{self._repository}/statuses/{sha}"
        _, answer = self._github.requester.requestJsonAndCheck("POST", url, input=content)
        return Posted(change=Change.CREATED, url=str(answer["url"]))

    def _put(self, number: int, body: str, create: bool) -> Posted:
        issue = self._github.get_repo(self._repository).get_issue(number)
        mine = self._find(issue, body.partition("\n")[0])
        if mine is not None and _same(mine.body, body):
            return Posted(change=Change.UNCHANGED, url=mine.html_url)
        if mine is not None:
            try:
                mine.edit(body)
                return Posted(change=Change.EDITED, url=mine.html_url)
            except UnknownObjectException:
                pass  # somebody deleted it since it was listed
        if not create:
            return Posted(change=Change.NOT_NEEDED)
        return Posted(change=Change.CREATED, url=issue.create_comment(body).html_url)

    def _find(self, issue: Issue, marker: str) -> IssueComment | None:
        """Look through all pages: a busy pull request has more comments than one page."""
        login = self._login()
        for comment in issue.get_comments():
            # The author must be us: anybody can write our marker. A login with brackets belongs to
            # an app and no person can register one, so the account's type says nothing more.
            if comment.user is None or comment.user.login != login:
                continue
            if (comment.body or "").partition("\n")[0].rstrip() == marker:
                return comment
        return None

    def _login(self) -> str:
        try:
            return str(self._github.get_user().login)
        except RateLimitExceededException:
            raise
        except GithubException as error:
            if error.status != 403:
                raise
            return _APP_LOGIN  # the workflow's own token may not ask who it is

    def _patiently(self, permission: str, work: Callable[[], Posted]) -> Posted | NotPosted:
        answer = patiently(work, permission, self._sleep)
        return NotPosted(problem=answer.problem, hint=answer.hint) if isinstance(answer, Trouble) else answer


def _same(old: str | None, new: str) -> bool:
    """Compare as GitHub stores a body: it may change line ends and trim."""
    return (old or "").replace("\r\n", "\n").strip() == new.strip()
