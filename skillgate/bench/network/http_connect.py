"""The HTTP of a tunnel: one request head per connection, and the answers that end it.

Strict on purpose: what a careless reader could take for another request is no request. Pure
but for the two functions that read from a client, each with a limit of bytes and of time.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket

MAX_HEAD_BYTES = 8 * 1024
MAX_SHOWN_CHARS = 100
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

_END = b"\r\n\r\n"
_REQUEST = re.compile(
    rb"(?P<method>[A-Z]{1,16}) (?P<target>[!-~]+) HTTP/1\.[01]\r\n"
    rb"(?:[!#$%&'*+.^`|~\w-]+:[^\0\r\n]*\r\n)*\r\n"
)
_ORIGIN = re.compile(r"([a-z]+://)(?:[^/?#]*@)?([^/?#]+)", re.I)  # a password in the URL is left out


class Refusal(Exception):
    """Why a client gets no tunnel; `answer` is what to send it."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(f"{status}: {text}")
        body = f"skillgate: {text}\n".encode()
        self.answer = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode() + body


def target_of(head: bytes) -> str | None:
    """Return what a CONNECT asks for; of another request its method and the host it names, if any.

    Only the target of a CONNECT has no space in it.

    Returns: None when the head is not that of a request.
    """
    request = _REQUEST.fullmatch(head)
    if request is None:
        return None
    method, target = request["method"].decode(), request["target"].decode()
    if method == "CONNECT":
        return target
    origin = _ORIGIN.match(target)
    return f"{method} {origin[1]}{origin[2]}" if origin else f"{method} /"


async def read_head(client: socket.socket, head_s: float) -> tuple[bytes, bytes]:
    """Return a request's head and what came behind it, which is for the upstream.

    Raises: Refusal, OSError when the client left.
    """
    try:
        async with asyncio.timeout(head_s):
            return await _read_until_end(client)
    except TimeoutError:
        raise Refusal("408 Request Timeout", "the head of the request took too long.") from None


async def _read_until_end(client: socket.socket) -> tuple[bytes, bytes]:
    data = bytearray()
    while (end := data.find(_END)) < 0:
        if len(data) == MAX_HEAD_BYTES:
            raise Refusal("431 Request Header Fields Too Large", "the head of the request is too long.")
        chunk = await asyncio.get_running_loop().sock_recv(client, MAX_HEAD_BYTES - len(data))
        if not chunk:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the client left")
        data += chunk
    split = end + len(_END)
    return bytes(data[:split]), bytes(data[split:])


async def turn_away(client: socket.socket, refusal: Refusal, linger_s: float) -> None:
    """Answer, then read what still comes: to hang up on unread bytes may destroy the answer on its way.

    Raises: OSError when the client left, or stays for too long.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(linger_s):
        await loop.sock_sendall(client, refusal.answer)
        client.shutdown(socket.SHUT_WR)
        while await loop.sock_recv(client, MAX_HEAD_BYTES):
            await asyncio.sleep(0)


def clip(text: str) -> str:
    """Make what a client sent fit for a report: one short printable line."""
    shown = text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 3]}..."
    return "".join(c if " " <= c <= "~" else "?" for c in shown)
