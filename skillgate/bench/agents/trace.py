"""What an agent said, line by line, in a file: without the token, and of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

MAX_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024
MASK = b"[token]"
_CUT = b"[the rest is left out]\n"


class Trace:
    """A file that takes output as it comes; a context manager. Raises: OSError.

    Args: secret: what stands in no line of the file.
    """

    def __init__(self, path: Path, secret: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._secret = secret.encode()
        self._line = b""
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            self._write(line + b"\n")
        if len(self._line) > MAX_LINE_BYTES:  # the end may be the start of a secret
            line = self._line.replace(self._secret, MASK)  # before it is cut in the middle of one
            cut = max(0, len(line) - len(self._secret) + 1)
            self._write(line[:cut])
            self._line = line[cut:]

    def _write(self, piece: bytes) -> None:
        if self._size > MAX_BYTES:
            return
        piece = piece.replace(self._secret, MASK)
        self._size += len(piece)
        self._file.write(piece if self._size <= MAX_BYTES else _CUT)

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._write(self._line)
        self._file.close()


def lines_of(path: Path) -> Iterator[str]:
    """Read a trace. Raises: OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from file
