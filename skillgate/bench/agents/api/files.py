"""Files of the repository, read and written by commands in the sandbox.

Never by this process: what an agent made of its folder may be links to files of this machine. The commands
need a POSIX shell, `base64`, `head`, `tail` and `wc`: an image may have no Python.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import shlex

from skillgate.bench.agents.api.calls import End
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import CommandResult, Limit, Session

MAX_FILE_BYTES = 400_000
MAX_NAMES = 2000
MAX_COMMAND_BYTES = 100_000  # the kernel takes 131,072 for one argument
_READ_BYTES = 44_000  # in base64 less than what a command may say
_WRITE_BYTES = 66_000  # in base64 less than what a command may be
_MAX_PATH_BYTES = 3000
_SECONDS = 60.0
_TESTS = """\
[ ! -d "$f" ] || exit 21
[ -e "$f" ] || exit 22
[ -f "$f" ] || exit 23
[ -r "$f" ] || exit 24
"""
_PROBLEMS = {
    21: "is a folder",
    22: "does not exist",
    23: "is no plain file",
    24: "may not be read",
    25: "is a link, or lies behind one",
}


class FileProblem(Exception):
    """Why a file is not read or written: a sentence for the model."""


class Hands:
    """What works in a sandbox for an agent; a limit of the whole sandbox ends the agent."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, command: str, timeout_s: float = _SECONDS) -> CommandResult:
        """Run a command. Raises: End, SandboxFailure."""
        result = self._session.run(command, timeout_s)
        if result.limit is Limit.DISK:
            raise End(Failure.AGENT_DISK)
        if result.limit is Limit.MEMORY:
            raise End(Failure.AGENT_MEMORY)
        return result

    def names(self) -> list[str]:
        """Return the plain files below the root, in order, without installed skills and `.git`."""
        skip = r"\( -path ./.git -o -path '*/.claude/skills' -o -path '*/.agents/skills' \)"
        listed = self.run(
            f"find . {skip} -prune -o -type f -print | LC_ALL=C sort | head -n {MAX_NAMES}"
        ).output
        return [name[2:] for name in listed.splitlines() if name.startswith("./")]

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises: FileProblem, End, SandboxFailure."""
        size, content = self._read(path, 0)
        if size > MAX_FILE_BYTES:
            raise FileProblem(f"{path} has {size} bytes, too many; look at parts of it with a command")
        while len(content) < size:
            _, more = self._read(path, len(content))
            if not more:
                raise FileProblem(f"{path} changes while it is read")
            content += more
        return content

    def _read(self, path: str, start: int) -> tuple[int, bytes]:
        part = f'tail -c +{start + 1} "$f" | head -c {_READ_BYTES} | base64'
        result = self.run(f'f={quoted(path)}\n{_TESTS}wc -c < "$f" && {part}')
        if result.exit_code:
            raise _problem(path, result)
        size, _, encoded = result.output.partition("\n")
        try:
            return int(size), base64.b64decode(encoded)
        except (ValueError, binascii.Error):
            raise FileProblem(f"{path} cannot be read") from None

    def write(self, path: str, content: bytes, *, follow: bool = True) -> None:
        """Write a file, and the folders above it; not through links unless `follow`.

        Raises: FileProblem, End, SandboxFailure.
        """
        name = quoted(path)
        folder = quoted(posixpath.dirname(path) or ".")
        check = "" if follow else f'for p in {_chain(path)}; do [ ! -L "$p" ] || exit 25; done && '
        before = f"{check}{{ [ ! -d {name} ] || exit 21; }} && mkdir -p {folder} && "
        sign = ">"
        for start in range(0, max(len(content), 1), _WRITE_BYTES):
            piece = base64.b64encode(content[start : start + _WRITE_BYTES]).decode()
            result = self.run(f"{before}printf %s '{piece}' | base64 -d {sign} {name}")
            if result.exit_code:
                raise _problem(path, result)
            before, sign = "", ">>"


def quoted(path: str) -> str:
    """Return a path as a word of a command, never an option. Raises: FileProblem."""
    size = len(path.encode("utf-8", "replace"))
    if not path or "\0" in path or size > _MAX_PATH_BYTES:
        raise FileProblem("this is no path")
    clean = path.encode("utf-8", "replace").decode()
    return shlex.quote(clean if clean.startswith(("/", "./")) else f"./{clean}")


def _chain(path: str) -> str:
    """Return the folders above a path and itself, as words of a command."""
    parts = path.split("/")
    return " ".join(quoted("/".join(parts[: end + 1])) for end in range(len(parts)))


def _problem(path: str, result: CommandResult) -> FileProblem:
    said = _PROBLEMS.get(result.exit_code) or f"failed: {result.output.strip()[:300] or result.exit_code}"
    return FileProblem(f"{path} {said}")
