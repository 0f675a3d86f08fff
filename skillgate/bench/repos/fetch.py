"""A URL and a commit id -> a bare repository with that commit, fetched by git.

Git runs without settings of the user or the machine, without credentials, hooks and templates,
and over https and file only, so that the same suite is fetched alike everywhere and no secret
is sent or shown. A proxy is taken from the usual variables of the environment.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skillgate.errors import PrerequisiteError, SuiteError
from skillgate.git import clean_environment

TIMEOUT_S = 600.0
PART = ".part"
COMMIT = r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z"

_HTTPS = re.compile(r"https://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/[!-~]+")
_FILE = re.compile(r"file:///[^\x00-\x1f\x7f]+")
_QUERY = re.compile(r"(https?://[^\s'\"?#]*)[?#][^\s'\"]*")
_PINNED = "refs/skillgate/pinned"  # what a ref leads to is never collected as garbage
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# what servers say that hand out advertised commits only, or are plain files: all branches may still help
_ONLY_WHOLE = ("unadvertised object", " not valid", "dumb http transport")
_OPTIONS = (
    *("-c", "fetch.fsckObjects=true"),
    *("-c", "core.hooksPath=" + os.devnull),
    *("-c", "credential.helper="),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
_NO_SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "HOME": os.devnull,  # also for ~/.netrc
    "XDG_CONFIG_HOME": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_ALLOW_PROTOCOL": "https:file",
}
_MAX_SAID = 64 * 1024


def refuse_source(url: str, commit: str, where: str) -> None:
    """Refuse what git must never see; such a URL may hold a secret, so no message shows it.

    Raises: SuiteError.
    """
    authority = re.split(r"[/?#]", url.partition("://")[2])[0]
    if "@" in authority:
        hint = "Remove them: a suite is shown in reports. Only a public repository can be named."
        raise SuiteError(f"{where}: the URL in `git` holds credentials", hint)
    if url.startswith("/"):
        raise SuiteError(f"{where}: `git` is a path, not a URL", f"Write `git: file://{url}`.")
    if not (_HTTPS.fullmatch(url) or _FILE.fullmatch(url)):
        hint = "Write https://HOST/PATH, or file:///PATH for a repository of this machine."
        raise SuiteError(f"{where}: `git` is neither an https:// nor a file:// URL", hint)
    if not re.search(COMMIT, commit):
        hint = "Write all its 40 (or 64) digits, as `git rev-parse` prints them: a name may move."
        raise SuiteError(f"{where}: `commit` is not a full commit id", hint)


def fetch(url: str, commit: str, store: Path, where: str) -> None:
    """Fetch a commit, its history left out, into the new bare repository `store`; all of it or nothing.

    Raises: SuiteError when there is no such commit; PrerequisiteError when git cannot fetch.
    """
    deadline = time.monotonic() + TIMEOUT_S
    shown = _QUERY.sub(r"\1", url)
    try:
        with unfinished(store) as part:
            code, said = _fetch_into(part, url, commit, deadline)
            if code and "not our ref" not in said:
                hint = "Look for a wrong URL, no network, or a private repository (a public one is needed)."
                raise PrerequisiteError(f"{where}: {shown} cannot be fetched: {_gist(said)}", hint)
            code, kind = _git(part, deadline, "cat-file", "-t", commit)
            _refuse_object("" if code else kind.strip(), commit, shown, where)
            part.rename(store)
    except subprocess.TimeoutExpired:
        message = f"{where}: fetching {shown} took more than {TIMEOUT_S:g} s"
        raise PrerequisiteError(message, "Run this again, or name a smaller repository.") from None


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Give a new folder beside `path`, to be renamed to it when it is whole; else it is removed."""
    part = Path(tempfile.mkdtemp(prefix=f"{path.name}.", suffix=PART, dir=path.parent))
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fetch_into(part: Path, url: str, commit: str, deadline: float) -> tuple[int, str]:
    kind = "sha256" if len(commit) == 64 else "sha1"
    _git(part, deadline, "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", ".")
    command = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    code, said = _git(part, deadline, *command, "--depth=1", url, f"{commit}:{_PINNED}")
    if code and any(words in said for words in _ONLY_WHOLE):
        return _git(part, deadline, *command, url, *_EVERYTHING)
    return code, said


def _refuse_object(kind: str, commit: str, shown: str, where: str) -> None:
    if not kind:
        hint = "Correct the id, or push a branch or a tag that has the commit."
        raise SuiteError(f"{where}: {shown} has no commit {commit}", hint)
    if kind != "commit":
        hint = "Write the id of a commit; `git rev-parse TAG^{commit}` prints that of a tag."
        raise SuiteError(f"{where}: {commit} is a {kind}, not a commit", hint)


def _git(repository: Path, deadline: float, *arguments: str) -> tuple[int, str]:
    """Run git in the repository; return its exit code and what it said at last.

    Raises: subprocess.TimeoutExpired, when nothing of it runs any more; PrerequisiteError without git.
    """
    with tempfile.TemporaryFile() as said:  # a server may talk without end
        try:
            process = subprocess.Popen(
                ["git", *_OPTIONS, *arguments],
                cwd=repository,
                env=clean_environment() | _NO_SETTINGS,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise PrerequisiteError("git is not installed", "Install git and run this again.") from None
        with process:
            try:
                code = process.wait(deadline - time.monotonic())
            except BaseException:  # too late, or Ctrl-C: its helpers end with it
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        said.seek(max(0, said.seek(0, os.SEEK_END) - _MAX_SAID))
        return code, said.read().decode("utf-8", "replace")


def _gist(said: str) -> str:
    """Return the line that says what went wrong, without the query of any URL."""
    lines = [line for line in said.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    return _QUERY.sub(r"\1", next(iter(wrong or lines[-1:]), "git gave no reason"))[:300]
