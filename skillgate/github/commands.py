"""What a step tells the runner: workflow commands, step outputs, the job summary.

Text of a skill, a model or a test must never be read as a command or as an output: values
are escaped, delimiters are random, and whatever prints such text does it inside `stopped`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

SUMMARY_LIMIT = 1024 * 1024  # bytes per step; GitHub drops the whole summary above it
_CUT = "\n\n(The summary was cut here: a job summary holds 1 MiB. The report file has the rest.)\n"


def message(kind: Literal["notice", "warning", "error"], text: str) -> str:
    """Return the command that shows `text` as an annotation of the run."""
    return f"::{kind} title=skillgate::{_escape(text)}\n"


def add_mask(secret: str) -> str:
    """Return the command that hides `secret` in the rest of the log."""
    return f"::add-mask::{_escape(secret)}\n"


@contextmanager
def stopped(stdout: TextIO) -> Iterator[None]:
    """Make the runner take no commands from what is printed meanwhile, here or on stderr."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", file=stdout, flush=True)
    try:
        yield
    finally:
        # On a line of its own: behind a line left open it would be no command, and all later ones void.
        print(f"\n::{token}::", file=stdout, flush=True)


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append step outputs; a random delimiter keeps a value from ending itself early."""
    delimiter = f"skillgate_{secrets.token_hex(16)}"
    with path.open("a", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in outputs.items())


def write_summary(path: Path, markdown: str) -> None:
    """Append to the job summary what fits into it."""
    content = markdown.encode("utf-8", "replace")
    used = path.stat().st_size if path.exists() else 0
    room = SUMMARY_LIMIT - used
    if len(content) > room:
        cut = content[: max(0, room - len(_CUT))]
        content = cut[: cut.rfind(b"\n") + 1] + _CUT.encode()
    with path.open("ab") as file:
        file.write(content[: max(0, room)])


def _escape(text: str) -> str:
    # A name that is no UTF-8 holds half a character, which no log can take.
    text = text.encode("utf-8", "replace").decode()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
