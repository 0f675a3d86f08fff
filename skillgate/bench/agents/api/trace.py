"""What an agent of ours heard, said and did -> lines of JSON in a file, without the token of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from skillgate.bench.sandbox import failure_of

MASK = "[token of the run]"


class Trace:
    """A file of lines, or nothing when nobody wants one; each line is written at once."""

    def __init__(self, file: TextIO | None, token: str) -> None:
        self._file = file
        self._token = token

    def __repr__(self) -> str:
        return "Trace()"

    def mask(self, text: str) -> str:
        """Return a text without the token."""
        return text.replace(self._token, MASK)

    def add(self, kind: str, **members: Any) -> None:
        """Write a line. Raises: SandboxFailure when the disk fails."""
        if self._file is None:
            return
        try:
            self._file.write(self.mask(json.dumps({"type": kind, **members})) + "\n")
            self._file.flush()
        except OSError as problem:
            raise failure_of(problem) from problem


@contextmanager
def traced(path: Path | None, token: str) -> Iterator[Trace]:
    """Open a trace; what the file has already, stays. Raises: SandboxFailure when the disk fails."""
    if path is None:
        yield Trace(None, token)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as problem:
        raise failure_of(problem) from problem
    with file:
        yield Trace(file, token)
