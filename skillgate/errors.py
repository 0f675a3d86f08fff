"""The errors a user can see, each with the exit code it ends in.

`message` says what is wrong and where (`path:line`), `hint` what to do about it.
Neither ever holds a secret. Anything else that escapes is a bug (exit code 3).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What the process returns; a contract with callers."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    BUG = 3
    PREREQUISITE = 4
    INTERRUPTED = 130


class SkillgateError(Exception):
    """The root of every error that is told to the user in one line."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SkillgateError):
    """Wrong arguments: not a repository, an unknown revision, no such folder."""


class ConfigError(SkillgateError):
    """`skillgate.yml` cannot be used."""


class OptionError(ConfigError):
    """The `lint` block names a rule or an option that there is not; `keys` lead to it."""

    def __init__(self, keys: tuple[str, ...], message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.keys = keys


class RuleError(SkillgateError):
    """A rule file cannot be used."""


class SuiteError(SkillgateError):
    """A suite, a task or an agent script cannot be used."""


class ReportError(SkillgateError):
    """A saved report cannot be read back."""


class PrerequisiteError(SkillgateError):
    """Something outside this program is missing: Docker, a key, enough budget."""

    exit_code = ExitCode.PREREQUISITE


class GitHubUnavailable(SkillgateError):
    """GitHub did not answer, or not with sense: a fault of neither the user nor the change."""

    exit_code = ExitCode.BUG  # 3 as well: nothing was judged, and nobody but time can mend it


class Interrupted(SkillgateError):
    """The user stopped the work; what was finished is in the journal."""

    exit_code = ExitCode.INTERRUPTED


@contextmanager
def writing(path: Path, hint: str = "Choose another --out.") -> Iterator[None]:
    """Turn what keeps a file from being written into an error with a way on; `hint` says which."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some space, then run this again (a gate with --resume: nothing finished is lost)."
            raise PrerequisiteError(f"{path}: the disk is full", hint) from None
        raise UsageError(f"{path}: cannot be written ({problem.strerror})", hint) from None
