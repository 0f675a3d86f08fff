"""What the wires have in common: the questions that the proxy asks of each, and the values it gets.

Pure. A dialect knows one provider's paths, members, prices' traps and error shapes; the proxy
knows none of them. What a dialect does not know it refuses: an unknown member may cost something.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from skillgate.bench.failure import Failure
from skillgate.bench.meter.body import Body
from skillgate.prices import CacheUse, Tokens

DEFAULT_OUTPUT = 32_000  # tokens, where a client names no limit
MIN_OUTPUT = 512  # tokens; a clamp below it would only cut the answer
MAX_TOKENS = 10_000_000
# A prompt has at most a token for each byte of the body. What the provider adds is beside that: the words
# around messages are shorter than their JSON, but there is a system prompt for tools, one for each tool that
# is known by its name alone, and one for structured answers. These allowances are assumed, not published
# limits: a call that costs more than its hold stops the run (`Account.overrun_usd_micros`).
ADDED_TOKENS = 1_024
ADDED_TOKENS_PER_TOOL = 1_024
ADDED_TOKENS_PER_IMAGE = 8_192  # it is scaled down to what costs less, however few its bytes are

Json = Mapping[str, Any]


class Trouble(Enum):
    """Why the proxy itself answers."""

    TOKEN = auto()
    PATH = auto()
    MALFORMED = auto()
    TOO_LARGE = auto()
    STOP = auto()
    UNREACHABLE = auto()
    TIMEOUT = auto()


class Denied(Exception):
    """Why a request is not forwarded, in a sentence that says what to do."""

    def __init__(self, trouble: Trouble, sentence: str) -> None:
        super().__init__(sentence)
        self.trouble = trouble
        self.sentence = sentence


class Service(Enum):
    """What a path is for: a call that costs, a free count of tokens, a free list."""

    CALL = auto()
    COUNT = auto()
    LIST = auto()


class Route(NamedTuple):
    """A path that is served; `params` may be in its query; `model` and `streams` where the path says so."""

    path: str
    service: Service
    params: frozenset[str] = frozenset()
    model: str | None = None
    streams: bool | None = None


class Ask(NamedTuple):
    """What a call asks for: at most so much output; `added` is what its prompt has beside its bytes."""

    model: str
    output: int
    streams: bool
    added: int
    cache_use: CacheUse = CacheUse.NONE
    minimum: int = MIN_OUTPUT


class Answer(NamedTuple):
    """A whole answer of the proxy's own."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Reading:
    """What an answer has said so far; `done` once its last usage has come.

    `odd` is a sentence when the answer was charged by something the price does not know.
    """

    def __init__(self) -> None:
        self.tokens = Tokens()
        self.done = False
        self.ended = False
        self.fault: Failure | None = None
        self.model = ""
        self.odd = ""


class Dialect(Protocol):
    """One provider's wire."""

    @property
    def credentials(self) -> tuple[str, ...]:
        """Return the headers that a client may send its token in."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Return texts of which every event of a stream has one that says something that counts."""

    def route(self, method: str, path: str) -> Route | None:
        """Return what a path is for, None when it is not served."""

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry a key."""

    def ask(self, route: Route, body: Body) -> Ask:
        """Read what a call wants. Raises: Denied."""

    def changes(self, body: Body, ask: Ask, output: int) -> dict[str, Any]:
        """Return the members to change so that the answer has at most `output` tokens. Raises: Denied."""

    def prompt_members(self, route: Route) -> frozenset[str]:
        """Return the members that decide how long the prompt is."""

    def count(self, route: Route, body: Body) -> tuple[Route, bytes] | None:
        """Return the free request that counts a call's prompt, None where there is none."""

    def counted(self, answer: Json) -> int | None:
        """Return the number in the answer to a count."""

    def read(self, reading: Reading, event: Json) -> None:
        """Take what a whole answer, or an event of a stream, says of usage, model and faults."""

    def fault(self, status: int, error: Json) -> Failure | None:
        """Return what an upstream's error means; None for what the client did wrong."""

    def answer(self, trouble: Trouble, sentence: str, path: str = "") -> Answer:
        """Return an answer of the proxy's own in the shape that clients of a path know."""


def say(status: int, body: Json, **headers: str) -> Answer:
    """Make an answer of JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


def deny(sentence: str) -> Denied:
    """Make a refusal that is to stop the client."""
    return Denied(Trouble.STOP, sentence)


def malformed(sentence: str) -> Denied:
    """Make a refusal of what is no request."""
    return Denied(Trouble.MALFORMED, sentence)


def only(members: Json, known: frozenset[str], where: str) -> None:
    """Make sure that nothing is asked for that nobody here knows the price of. Raises: Denied."""
    for name in members:
        if name not in known:
            raise deny(
                f"`{clip(name)}` in {where} is not metered, because it may cost something; leave it out"
            )


def text_of(members: Json, name: str) -> str:
    """Return a member that has to be a text. Raises: Denied."""
    found = members.get(name)
    if not isinstance(found, str) or not found:
        raise malformed(f"`{name}` is no text")
    return found


def flag_of(members: Json, name: str) -> bool:
    """Return a member that has to be true or false, or is missing. Raises: Denied."""
    found = members.get(name)
    if found is not None and not isinstance(found, bool):
        raise malformed(f"`{name}` is neither true nor false")
    return bool(found)


def count_of(members: Json, name: str) -> int | None:
    """Return a member that has to be a whole number, None when it is missing. Raises: Denied."""
    found = members.get(name)
    if found is None:
        return None
    if not is_count(found):
        raise malformed(f"`{name}` is no whole number from 0 to {MAX_TOKENS}")
    return int(found)


def is_count(found: object) -> bool:
    """Say whether a value is a number of tokens."""
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_TOKENS


def objects(found: object, where: str) -> list[dict[str, Any]]:
    """Return a list of objects, an empty one when it is missing. Raises: Denied."""
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise malformed(f"{where} is no list of objects")
    return found


def each_type(blocks: Iterable[Json], known: frozenset[str], where: str, default: str | None = None) -> None:
    """Make sure that every block is of a type whose price is known. Raises: Denied."""
    for block in blocks:
        kind = block.get("type", default)
        if kind not in known if isinstance(kind, str) else True:
            raise deny(
                f"`{clip(str(kind))}` in {where} is not metered: only text and client tools are; leave it out"
            )


def numbers(usage: object, *names: str) -> list[int] | None:
    """Return the counts of a usage, 0 for those that it does not have; None when one is no count."""
    if not isinstance(usage, Mapping):
        return None
    found = [0 if usage.get(name) is None else usage[name] for name in names]
    return found if all(map(is_count, found)) else None


def has_key(found: object, test: Callable[[str, Any], bool]) -> bool:
    """Say whether any member at any depth passes a test."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if any(test(name, value) for name, value in one.items()):
                return True
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return False


def clip(text: str) -> str:
    """Make what a client sent fit for a sentence."""
    return "".join(c if " " <= c <= "~" and c != "`" else "?" for c in text[:60])
