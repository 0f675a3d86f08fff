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

import github
from github.GithubException import (
    BadAttributeException,
    GithubException,
    RateLimitExceededException,
    UnknownObjectException,
)
from github.Issue import Issue
from github.IssueComment import IssueComment
from requests import RequestException

from skillgate.report.escape import clean
from skillgate.values import Struct

ATTEMPTS = 3
MAX_WAIT_S = 60.0  # a longer Retry-After is not waited for: the runner's minutes cost money too
STATUS_LIMIT = 140
_APP_LOGIN = "github-actions[bot]"
_NO_ACCESS = "Resource not accessible"
# PyGithub checks no answer: the page of a proxy that answers 200 ends in one of these.
_NONSENSE = (BadAttributeException, KeyError, TypeError, ValueError)


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
        # Retries are ours (`_patiently`): PyGithub's own wait without a ceiling and repeat a POST
        # that may have succeeded. Its pauses are for crawlers; this makes a handful of requests.
        self._github = github.Github(
            auth=github.Auth.Token(token),
            base_url=api_url,
            retry=0,
            per_page=100,
            seconds_between_requests=0,
            seconds_between_writes=0,
            lazy=True,
        )

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
        """Try a few times. `work` starts with reading, so a write that did succeed is found again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return work()
            except (GithubException, RequestException) as error:
                wait_s = _wait_s(error, attempt)
                if wait_s is None or wait_s > MAX_WAIT_S or attempt == ATTEMPTS:
                    return _explain(error, permission)
                self._sleep(wait_s)
            except _NONSENSE as error:
                return NotPosted(
                    problem=f"GitHub's answer makes no sense ({type(error).__name__})", hint=_AGAIN
                )
        raise AssertionError("unreachable")


def _wait_s(error: GithubException | RequestException, attempt: int) -> float | None:
    """Return how long to wait before another attempt, None when it would not help."""
    if isinstance(error, RequestException):
        return float(2**attempt)
    retry_after = (error.headers or {}).get("retry-after", "")
    if retry_after.isdigit():
        return float(retry_after)
    if isinstance(error, RateLimitExceededException):
        return MAX_WAIT_S  # GitHub asks for at least a minute when it names no time
    return float(2**attempt) if error.status >= 500 else None


def _explain(error: GithubException | RequestException, permission: str) -> NotPosted:
    if isinstance(error, RequestException):
        # The text of a RequestException may hold the URL with credentials of a proxy.
        return NotPosted(problem=f"GitHub could not be reached ({type(error).__name__})", hint=_AGAIN)
    said = error.data.get("message") if isinstance(error.data, dict) else None
    problem = f"GitHub answered {error.status}: {said or 'no reason given'}"
    if error.status == 403 and str(said).startswith(_NO_ACCESS):
        accepted = (error.headers or {}).get("x-accepted-github-permissions", "")
        return _missing_permission(problem, accepted, permission)
    if error.status == 401:
        return NotPosted(problem=problem, hint="Pass a valid `github-token`.")
    return NotPosted(problem=problem, hint=_AGAIN if _wait_s(error, 1) else "")


_AGAIN = "Run the job again later."


def _missing_permission(problem: str, accepted: str, permission: str) -> NotPosted:
    """Name the lines to add; `accepted` lists alternatives as `issues=write; pull_requests=write`."""
    alternatives = [part.strip().replace("_", "-").replace("=", ": ") for part in accepted.split(";")]
    if permission not in alternatives and alternatives[0]:
        permission = alternatives[0]
    lines = "\n".join(
        ("permissions:", "  contents: read", *(f"  {p.strip()}" for p in permission.split(",")))
    )
    return NotPosted(
        problem=f"{problem}; the token lacks `{permission}`", hint=f"Add to the job in the workflow:\n{lines}"
    )


def _same(old: str | None, new: str) -> bool:
    """Compare as GitHub stores a body: it may change line ends and trim."""
    return (old or "").replace("\r\n", "\n").strip() == new.strip()
