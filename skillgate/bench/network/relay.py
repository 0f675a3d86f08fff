"""A client's socket and an upstream's -> bytes carried both ways until both have ended.

Holds one chunk each way, so a slow reader slows the writer. Looks at nothing but the first
bytes of the client: whether they were a whole TLS hello, which every server answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_CHUNK = 64 * 1024
_OPENING = 9  # TLS: record type, version (2), record length (2), message type, message length (3)
_HANDSHAKE, _CLIENT_HELLO = b"\x16", b"\x01"


async def connect(address: str, port: int) -> socket.socket:
    """Return a socket that is connected and does not block. Raises: OSError."""
    upstream = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        upstream.setblocking(False)
        await asyncio.get_running_loop().sock_connect(upstream, (address, port))
    except BaseException:
        upstream.close()
        raise
    return upstream


class Relay:
    """One connection of a client to an upstream; neither socket blocks, the caller closes both.

    `note_failure` is called when the upstream ended, broke or fell silent before its first byte,
    although asked, and before the client can know. Asked is who got a whole TLS hello from a
    client that did not end: with less a client could make it look so, for a server waits for the
    rest, or hangs up.
    """

    def __init__(
        self, client: socket.socket, upstream: socket.socket, idle_s: float, note_failure: Callable[[], None]
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._idle_s = idle_s
        self._note_failure = note_failure
        self._loop = asyncio.get_running_loop()
        self._opening = b""
        self._sent = self._received = 0
        self._client_ended = self._upstream_lost = False
        for side in (client, upstream):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def run(self, first: bytes) -> None:
        """Carry bytes, `first` before what the client sends, until both ended, one broke or all is silent."""
        try:
            async with asyncio.timeout(self._idle_s) as self._clock, asyncio.TaskGroup() as both:
                both.create_task(self._carry_out(first))
                both.create_task(self._carry_back())
        except* TimeoutError:
            self._upstream_lost = True
        except* OSError:  # one side broke, and the other was ended for it
            pass
        finally:
            self._judge()

    async def _carry_out(self, chunk: bytes) -> None:
        chunk = chunk or await self._loop.sock_recv(self._client, _CHUNK)
        while chunk:
            self._opening += chunk[: _OPENING - len(self._opening)]
            self._sent += len(chunk)
            try:
                await self._loop.sock_sendall(self._upstream, chunk)
            except OSError:
                self._upstream_lost = True
                raise
            await self._breathe()
            chunk = await self._loop.sock_recv(self._client, _CHUNK)
        self._client_ended = True
        self._upstream.shutdown(socket.SHUT_WR)

    async def _carry_back(self) -> None:
        while chunk := await self._from_upstream():
            self._received += len(chunk)
            await self._loop.sock_sendall(self._client, chunk)
            await self._breathe()
        self._judge()
        self._client.shutdown(socket.SHUT_WR)

    async def _from_upstream(self) -> bytes:
        try:
            chunk = await self._loop.sock_recv(self._upstream, _CHUNK)
        except OSError:
            self._upstream_lost = True
            raise
        if not chunk and not self._client_ended:
            self._upstream_lost = True
        return chunk

    async def _breathe(self) -> None:
        """Start the idle clock anew, and give others a turn: sockets that are always ready never would."""
        if not self._clock.expired():
            self._clock.reschedule(self._loop.time() + self._idle_s)
        await asyncio.sleep(0)

    def _judge(self) -> None:
        if self._upstream_lost and self._received == 0 and self._was_asked():
            self._note_failure()

    def _was_asked(self) -> bool:
        record, message = (int.from_bytes(self._opening[at]) for at in (slice(3, 5), slice(6, 9)))
        is_hello = self._opening[:1] == _HANDSHAKE and self._opening[5:6] == _CLIENT_HELLO
        return is_hello and message + 4 <= record <= self._sent - 5
