"""A client's request -> what it is for, and its body; or why it is not served.

Strict on purpose: a path is on the list letter by letter, a body is plain JSON of a known size.
"""

from __future__ import annotations

import aiohttp
from aiohttp import web

from skillgate.bench.meter.account import Account
from skillgate.bench.meter.dialect import Denied, Dialect, Route, Trouble, malformed
from skillgate.bench.meter.headers import query_of, tokens_of

MAX_BODY_BYTES = 32 * 1024 * 1024  # what the providers take


class ClientGone(Exception):
    """Nobody reads the answer any more."""


def admit(request: web.BaseRequest, dialect: Dialect, account: Account) -> tuple[Route, str]:
    """Return what is asked for, and the query to ask the upstream with. Raises: Denied."""
    path, _, text = request.raw_path.partition("?")
    route = dialect.route(request.method, path)
    if route is None:
        raise Denied(Trouble.PATH, "this method and path are not served here")
    query = query_of(text, route)
    if not any(map(account.accepts, tokens_of(request.headers, query, dialect))):
        raise Denied(Trouble.TOKEN, "this is not the token of this run")
    kept = "&".join(f"{name}={value}" for name, value in query.items() if name != "key")
    return route, f"?{kept}" if kept else ""


async def read_body(request: web.BaseRequest) -> bytes:
    """Read the body. Raises: Denied, ClientGone."""
    _check_kind(request)
    too_large = Denied(Trouble.TOO_LARGE, f"a body has at most {MAX_BODY_BYTES} bytes")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large
    data = bytearray()
    try:
        async for chunk in request.content.iter_any():
            data += chunk
            if len(data) > MAX_BODY_BYTES:
                raise too_large
    except (aiohttp.ClientError, web.RequestPayloadError, ConnectionError):
        raise ClientGone from None
    return bytes(data)


def _check_kind(request: web.BaseRequest) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise malformed("a compressed body is not served; send it as it is")
    if request.method == "POST" and request.content_type != "application/json":
        raise malformed("only bodies of `application/json` are served")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise malformed("only bodies in UTF-8 are served")
