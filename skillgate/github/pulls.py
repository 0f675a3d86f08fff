"""What GitHub says of a pull request and of git's objects: read only, checked, with patience.

Everything that comes back is text of a stranger: it becomes a typed value or an error, and a blob is
believed only when it hashes to its name. Which files matter is not decided here.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from skillgate.errors import GitHubUnavailable, PrerequisiteError, SkillgateError, UsageError
from skillgate.github.answers import (
    SHA,
    BlobAnswer,
    ComparisonAnswer,
    PullAnswer,
    Tree,
)
from skillgate.github.patience import AGAIN, Trouble, connect, patiently

PAGE = 100
PATIENCE_S = 300.0  # for all waits of a job together: every request may be told to wait a minute
_CONTENTS, _PULLS = "contents: read", "pull-requests: read"

T = TypeVar("T")


class Pull(NamedTuple):
    """A pull request as it is now; `head_repository` is None once the fork is deleted."""

    number: int
    is_open: bool
    is_draft: bool
    is_bot: bool
    is_fork: bool
    head_sha: str
    base_sha: str
    base_ref: str
    head_repository: str | None


class Reader:
    """Reads from one repository; use it with `contextlib.closing`.

    Every method raises GitHubUnavailable when GitHub does not answer, and PrerequisiteError when the token
    may not read. `requests` counts what was sent, repeats included.

    Args:
        api_url: GITHUB_API_URL, so that GitHub Enterprise Server works.
        sleep: waits between attempts, in seconds.
    """

    def __init__(
        self, api_url: str, token: str, repository: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.repository = repository
        self.requests = 0
        self._waited_s, self._sleep = 0.0, sleep
        self._github = connect(api_url, token)

    def close(self) -> None:
        """Close the connections."""
        self._github.close()

    def pull(self, number: int) -> Pull:
        """Read a pull request."""
        return self._pull(self._read_pull(number))

    def pull_of(self, head_sha: str, head_repository: str | None, branch: str) -> Pull | None:
        """Find the open pull request whose head is exactly this commit, None when there is none.

        A `workflow_run` of a fork names no pull request, and a number from an artifact is not to be believed.
        Raises: UsageError when there are several: they may be judged by different bases.
        """
        found: dict[int, Pull] = {}
        for said in self._candidates(_checked(head_sha), head_repository, branch):
            pull = self._pull(said)
            is_there = head_repository is None or pull.head_repository == head_repository
            if pull.is_open and pull.head_sha == head_sha and is_there:
                found[pull.number] = pull
        if len(found) > 1:
            names = ", ".join(f"#{number}" for number in sorted(found))
            raise UsageError(f"{head_sha[:12]} is the head of several pull requests: {names}", _CLOSE)
        return next(iter(found.values()), None)

    def merge_base(self, base_sha: str, head_sha: str) -> str:
        """Return the commit where head left base. Raises: UsageError when there is none."""
        path = f"compare/{_checked(base_sha)}...{_checked(head_sha)}"
        what = f"{base_sha[:12]}...{head_sha[:12]}"
        return self._get(path, ComparisonAnswer, _CONTENTS, what, per_page=1).merge_base_commit.sha

    def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        """List a tree, or that of a commit; with all that lies below unless GitHub truncates it."""
        deep = {"recursive": "1"} if recursive else {}
        return self._get(f"git/trees/{_checked(sha)}", Tree, _CONTENTS, f"the tree {sha[:12]}", **deep)

    def blob(self, sha: str, size: int) -> bytes:
        """Return the bytes of a blob of this size.

        Raises: GitHubUnavailable when what comes is not that blob.
        """
        found = self._get(f"git/blobs/{_checked(sha)}", BlobAnswer, _CONTENTS, f"the blob {sha[:12]}")
        try:
            content = base64.b64decode(found.content)
        except ValueError:
            content = b""
        if len(content) != size or blob_id(content, len(sha)) != sha:
            raise GitHubUnavailable(f"GitHub's answer for the blob {sha} is not that blob", AGAIN)
        return content

    def _candidates(self, head_sha: str, head_repository: str | None, branch: str) -> list[PullAnswer]:
        """Look where a fork's pull request is found, and where one of this repository is."""
        what, found = f"the pull requests of {head_sha[:12]}", list[PullAnswer]()
        if head_repository and branch:
            head = f"{head_repository.partition('/')[0]}:{branch}"
            wanted = {"state": "open", "head": head, "per_page": PAGE}
            found += self._get("pulls", tuple[PullAnswer, ...], _PULLS, what, **wanted)
        path = f"commits/{head_sha}/pulls"
        return [*found, *self._get(path, tuple[PullAnswer, ...], _PULLS, what, per_page=PAGE)]

    def _read_pull(self, number: int) -> PullAnswer:
        return self._get(f"pulls/{number}", PullAnswer, _PULLS, f"pull request {number}")

    def _pull(self, said: PullAnswer) -> Pull:
        head_repository = said.head.repo.full_name if said.head.repo else None
        return Pull(
            number=said.number,
            is_open=said.state == "open",
            is_draft=said.draft,
            is_bot=said.user is None or said.user.type != "User",  # nobody vouches for a deleted account
            is_fork=head_repository != self.repository,
            head_sha=said.head.sha,
            base_sha=said.base.sha,
            base_ref=said.base.ref,
            head_repository=head_repository,
        )

    def _get(self, path: str, kind: type[T], permission: str, what: str, **parameters: Any) -> T:
        def work() -> T:
            self.requests += 1
            url = f"/repos/{self.repository}/{path}"
            _, said = self._github.requester.requestJsonAndCheck("GET", url, parameters=parameters or None)
            return msgspec.convert(said, kind)

        answer = patiently(work, permission, self._wait)
        if isinstance(answer, Trouble):
            raise _error(answer, what)
        return answer

    def _wait(self, seconds: float) -> None:
        self._waited_s += seconds
        if self._waited_s > PATIENCE_S:
            problem = f"GitHub asked to wait for more than {PATIENCE_S:.0f} seconds altogether"
            raise GitHubUnavailable(problem, AGAIN)
        self._sleep(seconds)


_CLOSE = "Close all but one: a commit has one status, and each base judges by its own configuration."
_GONE = "Check that it still exists, and that the job has `contents: read` and `pull-requests: read`."


def blob_id(content: bytes, length: int = 40) -> str:
    """Return the name that git gives to the content of a file, of 40 or 64 digits."""
    algorithm = "sha1" if length == 40 else "sha256"
    said = b"blob %d\0" % len(content) + content
    return hashlib.new(algorithm, said, usedforsecurity=False).hexdigest()


def _checked(sha: str) -> str:
    """Return a full commit or object id: anything else would be a path of the API."""
    if not re.match(SHA, sha):
        raise UsageError(f"{sha[:80]!r} is no full commit id", "Give all 40 digits of it.")
    return sha


def _error(trouble: Trouble, what: str) -> SkillgateError:
    problem = f"{what}: {trouble.problem}"
    if trouble.passes:
        return GitHubUnavailable(problem, trouble.hint or AGAIN)
    if trouble.status == 404 and "ancestor" in trouble.problem:
        return UsageError(problem, "Propose a branch that grew from its base.")
    return PrerequisiteError(problem, trouble.hint or (_GONE if trouble.status == 404 else ""))
