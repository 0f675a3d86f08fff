"""How long to try when GitHub does not answer, and what to say when it did not.

Reading and posting share it. Retries are ours: PyGithub's own wait without a ceiling and repeat a
POST that may have succeeded. What failed comes back as a value with a way on, never with a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import github
import msgspec
from github.GithubException import BadAttributeException, GithubException, RateLimitExceededException
from requests import RequestException

ATTEMPTS = 3
MAX_WAIT_S = 60.0  # a longer Retry-After is not waited for: the runner's minutes cost money too
AGAIN = "Run the job again later."
_NO_ACCESS = "Resource not accessible"
# PyGithub checks no answer: the page of a proxy that answers 200 ends in one of these.
_NONSENSE = (BadAttributeException, KeyError, TypeError, ValueError, msgspec.ValidationError)

T = TypeVar("T")


class Trouble(NamedTuple):
    """What went wrong and what to do; `passes` when another try may do better, `status` as answered."""

    problem: str
    hint: str = ""
    passes: bool = False
    status: int = 0


def connect(api_url: str, token: str) -> github.Github:
    """Return a connection that never waits by itself: PyGithub's pauses are for crawlers."""
    return github.Github(
        auth=github.Auth.Token(token),
        base_url=api_url,
        retry=0,
        per_page=100,
        seconds_between_requests=0,
        seconds_between_writes=0,
        lazy=True,
    )


def patiently(work: Callable[[], T], permission: str, sleep: Callable[[float], None]) -> T | Trouble:
    """Try a few times. `work` starts with reading, so a write that did succeed is found again.

    Args:
        permission: what the token needs for it, as in a workflow (`statuses: write`).
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (GithubException, RequestException) as error:
            wait_s = _wait_s(error, attempt)
            if wait_s is None or wait_s > MAX_WAIT_S or attempt == ATTEMPTS:
                return _explain(error, permission)
            sleep(wait_s)
        except _NONSENSE as error:
            return Trouble(f"GitHub's answer makes no sense ({type(error).__name__})", AGAIN, passes=True)
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


def _explain(error: GithubException | RequestException, permission: str) -> Trouble:
    if isinstance(error, RequestException):
        # The text of a RequestException may hold the URL with credentials of a proxy.
        return Trouble(f"GitHub could not be reached ({type(error).__name__})", AGAIN, passes=True)
    said = error.data.get("message") if isinstance(error.data, dict) else None
    problem = f"GitHub answered {error.status}: {said or 'no reason given'}"
    if error.status == 403 and str(said).startswith(_NO_ACCESS):
        accepted = (error.headers or {}).get("x-accepted-github-permissions", "")
        return _missing_permission(problem, accepted, permission)
    if error.status == 401:
        return Trouble(problem, "Pass a valid `github-token`.", status=401)
    wait_s = _wait_s(error, 1)
    return Trouble(
        problem,
        AGAIN if wait_s else "",
        passes=wait_s is not None or error.status == 429,
        status=error.status,
    )


def _missing_permission(problem: str, accepted: str, permission: str) -> Trouble:
    """Name the lines to add; `accepted` lists alternatives as `issues=write; pull_requests=write`."""
    alternatives = [part.strip().replace("_", "-").replace("=", ": ") for part in accepted.split(";")]
    if permission not in alternatives and alternatives[0]:
        permission = alternatives[0]
    needed = dict.fromkeys(("contents: read", *(part.strip() for part in permission.split(","))))
    lines = "\n".join(("permissions:", *(f"  {part}" for part in needed)))
    hint = f"Add to the job in the workflow:\n{lines}"
    return Trouble(f"{problem}; the token lacks `{permission}`", hint, status=403)
