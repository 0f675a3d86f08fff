"""What a program printed -> the events in it, and what to make of them. Pure.

Output is what came through one pipe: events, JSON objects one a line, among words of stderr, cut anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from skillgate.bench.failure import Failure

Json = dict[str, Any]
MAX_DETAIL = 200
_OF_METER = "skillgate: "  # so its refusals begin
_BY_STATUS = {
    401: Failure.API_AUTH,
    402: Failure.API_CREDIT,
    403: Failure.API_AUTH,
    404: Failure.UNKNOWN,
    408: Failure.API_SERVER,
    429: Failure.API_RATE_LIMIT,
    503: Failure.API_OVERLOADED,
    529: Failure.API_OVERLOADED,
}


def read_events(output: Iterable[str], take: Callable[[Json], None]) -> str:
    """Hand over every event; return the words after the last of them.

    An event may follow words that had no end of line; one that is cut is lost.
    """
    words = ""
    for line in output:
        start = line.find('{"')
        event = _object(line[start:]) if start >= 0 else None
        if event is not None:
            words = ""
            take(event)
        else:
            words = line.strip() or words
    return words


def _object(text: str) -> Json | None:
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None  # cut, or no JSON at all
    return found if isinstance(found, dict) else None


def part(found: object, *names: str) -> Any:
    """Return what is at the end of a path of members, None where it breaks off."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def parts(found: object, *names: str) -> list[Json]:
    """Return the objects of a list at the end of a path, none where there is no list."""
    there = part(found, *names)
    return [one for one in there if isinstance(one, dict)] if isinstance(there, list) else []


def text_at(found: object, *names: str) -> str:
    """Return a text at the end of a path, an empty one where there is none."""
    there = part(found, *names)
    return there if isinstance(there, str) else ""


def clip(text: str) -> str:
    """Make words of a program fit for a sentence of a report."""
    return " ".join(text.split())[:MAX_DETAIL]


def without_result(exit_code: int, words: str) -> tuple[Failure, str]:
    """Return why a program ended that did not say so, with its last words."""
    last = f": {clip(words)}" if words else ""
    return Failure.AGENT_CRASH, f"ended without a result, exit code {exit_code}{last}"


def failure_of_api(status: object, said: str) -> Failure | None:
    """Return what it means that a run ended with an answer of the API; None where it had no status.

    What the meter refused says so: the meter knows why, and if it does not, nobody does. A request that
    is too large or not taken is the agent's own doing; a path or a model that is not there is ours.
    """
    if _OF_METER in said:
        return Failure.UNKNOWN
    if not isinstance(status, int):
        return None
    return _BY_STATUS.get(status, Failure.API_SERVER if status >= 500 else Failure.AGENT_CRASH)


def reads_skill(command: str, skill: str) -> bool:
    """Say whether a command, or a path, is about the text of a skill: its SKILL.md, or a file beside it."""
    name = rf"(?<![\w.-]){re.escape(skill)}(?![\w.-])"
    if re.search(rf"skills/+{name}/+[^\s'\"]", command):
        return True
    return "SKILL.md" in command and re.search(rf"{name}|\*/+SKILL\.md", command) is not None
