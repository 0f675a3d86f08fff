"""Which headers go through the proxy, and what a client's query and token say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

from skillgate.bench.meter.dialect import Denied, Dialect, Route, Trouble, clip, malformed

Pairs = list[tuple[str, str]]

# of one connection, not of the message (RFC 9110, 7.6.1)
_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_OWN = {"accept-encoding", "content-length", "cookie", "expect", "host"}
_CREDENTIALS = {"api-key", "authorization", "x-api-key", "x-goog-api-key"}
_BACK = {"content-length", "set-cookie", "alt-svc", "strict-transport-security"}
_VALUES = {"beta": {"true"}, "alt": {"sse", "json"}}


def forwarded(headers: Iterable[tuple[str, str]], dialect: Dialect, key: str, token: str) -> Pairs:
    """Return what goes to the upstream: all but what is of this connection, with the key for the token."""
    pairs = list(headers)
    left_out = _HOP | _OWN | _CREDENTIALS | _named_by_connection(pairs)
    kept = [(n, v) for n, v in pairs if n.lower() not in left_out and token not in v]
    own = [*dialect.key_headers(key).items()] if key else []
    return [*kept, ("accept-encoding", "identity"), *own]


def returned(headers: Iterable[tuple[str, str]], key: str) -> Pairs:
    """Return what goes back to the client; a header that has the key in it does not."""
    pairs = list(headers)
    left_out = _HOP | _BACK | _named_by_connection(pairs)
    return [(n, v) for n, v in pairs if n.lower() not in left_out and not (key and key in v)]


def _named_by_connection(pairs: Pairs) -> set[str]:
    values = (value for name, value in pairs if name.lower() == "connection")
    return {name.strip().lower() for value in values for name in value.split(",")}


def tokens_of(headers: Mapping[str, str], query: Mapping[str, str], dialect: Dialect) -> list[str]:
    """Return everything that a client sent as its token."""
    found = [headers[name] for name in dialect.credentials if name in headers]
    if "key" in query:
        found.append(query["key"])
    return [value[7:].strip() if value[:7].lower() == "bearer " else value for value in found]


def query_of(text: str, route: Route) -> dict[str, str]:
    """Read the query of a request. Raises: Denied."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=8)
    except ValueError:
        raise malformed("the query cannot be read") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise malformed("a name is in the query twice")
    for name, value in query.items():
        if name not in route.params or value not in _VALUES.get(name, {value}):
            raise Denied(
                Trouble.PATH, f"`{clip(name)}` with this value is not served in the query; leave it out"
            )
    if route.streams and query.get("alt") != "sse":
        raise Denied(Trouble.PATH, "a stream is served as events only; add `alt=sse` to the query")
    return query
