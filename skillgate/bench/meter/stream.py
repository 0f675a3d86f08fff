"""A stream of server-sent events in any pieces -> the data of its events; and bytes without a key.

Pure. Nothing is changed or held back but the beginning of a key at the end of a piece.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024


class Events:
    """Reads `data:` of a stream; an event that is too long ends the reading, and `broken` says so."""

    def __init__(self) -> None:
        self.broken = False
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that end in this piece."""
        found: list[bytes] = []
        if self.broken:
            return found
        *lines, rest = self._normal(chunk).split(b"\n")
        for line in lines:
            self._take(bytes(self._line) + line, found)
            self._line.clear()
        self._line += rest
        self.broken = len(self._line) + self._size > MAX_EVENT_BYTES
        return found

    def _normal(self, chunk: bytes) -> bytes:
        """Turn every kind of end of line into a newline, also one that is in two pieces."""
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_return = False
        if chunk:
            self._after_return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if line.startswith(b"data:"):
            data = line[5:].removeprefix(b" ")
            self._data.append(data)
            self._size += len(data)
        elif not line and self._data:
            found.append(b"\n".join(self._data))
            self._data, self._size = [], 0


class Scrubber:
    """Replaces a secret in bytes that come in pieces."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._mask = b"*" * len(secret)
        self._kept = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that can be passed on."""
        if not self._secret:
            return chunk
        data = (self._kept + chunk).replace(self._secret, self._mask)
        keep = self._beginning(data)
        self._kept = data[len(data) - keep :]
        return data[: len(data) - keep]

    def rest(self) -> bytes:
        """Return what was held back, once nothing follows."""
        kept, self._kept = self._kept, b""
        return kept

    def _beginning(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of the secret."""
        longest = min(len(self._secret) - 1, len(data))
        return next((n for n in range(longest, 0, -1) if data.endswith(self._secret[:n])), 0)
