"""The bytes of a request's JSON object -> its members, and the same bytes with some members changed.

Pure. What two readers could read differently is no body: a member given twice, NaN, a byte order
mark, other text than UTF-8. Members that are not changed keep their bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")


class BodyError(ValueError):
    """Why bytes are no body; the text is a sentence without anything of the body in it."""


class Body(NamedTuple):
    """A JSON object; `spans` says where in `text` the value of each member is.

    `inner` are the names of members at any depth below the first.
    """

    text: str
    members: dict[str, Any]
    spans: dict[str, tuple[int, int]]
    inner: set[str]

    def edited(self, changes: Mapping[str, Any]) -> str:
        """Return the text with new values for members, those that were missing in front."""
        text = self.text
        old = [name for name in changes if name in self.spans]
        for name in sorted(old, key=lambda name: self.spans[name], reverse=True):
            start, end = self.spans[name]
            text = text[:start] + json.dumps(changes[name]) + text[end:]
        new = [f"{json.dumps(name)}:{json.dumps(changes[name])}" for name in changes if name not in old]
        if not new:
            return text
        start = text.index("{") + 1
        return text[:start] + ",".join(new) + ("," if self.members else "") + text[start:]

    def digest(self, names: Collection[str]) -> str:
        """Return what identifies the text of some members."""
        digest = hashlib.sha256()
        for name in sorted(name for name in names if name in self.spans):
            value = self.text[slice(*self.spans[name])].encode()
            digest.update(f"{name} {len(value)} ".encode() + value)
        return digest.hexdigest()


def parse_body(data: bytes) -> Body:
    """Read a JSON object strictly. Raises: BodyError."""
    try:
        text = data.decode("utf-8")
        return _scan(text)
    except BodyError:
        raise
    except UnicodeDecodeError:
        raise BodyError("the body is not UTF-8") from None
    except RecursionError:
        raise BodyError("the body is nested too deeply") from None
    except (ValueError, IndexError):
        raise BodyError("the body is not one JSON object") from None


def _scan(text: str) -> Body:
    members: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    inner: set[str] = set()
    decoder = _decoder(inner)
    at = _after(text, 0, "{")
    while text[at] != "}":
        if members:
            at = _after(text, at, ",")
        name, at = decoder.raw_decode(text, at)
        if not isinstance(name, str) or name in members:
            raise BodyError(_TWICE if isinstance(name, str) else "the body is not one JSON object")
        start = _after(text, at, ":")
        members[name], end = decoder.raw_decode(text, start)
        spans[name] = (start, end)
        at = _skip(text, end)
    if _skip(text, at + 1) != len(text):
        raise BodyError("something follows the JSON object")
    return Body(text, members, spans, inner)


def _after(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at] != mark:
        raise BodyError("the body is not one JSON object")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_TWICE = "a member of the body is given twice"


def _refuse(_: str) -> Any:
    raise BodyError("NaN and Infinity are no JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise BodyError("a number is too large")
    return found


def _decoder(names: set[str]) -> json.JSONDecoder:
    """Return a decoder that collects the names in objects, and wants each once."""

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BodyError(_TWICE)
        names.update(found)
        return found

    return json.JSONDecoder(object_pairs_hook=take, parse_constant=_refuse, parse_float=_finite)
