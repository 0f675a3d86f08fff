"""What a fetch refuses, what it costs, and where it writes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skillgate.core import GateReport
from skillgate.errors import GitHubUnavailable, PrerequisiteError, UsageError
from skillgate.github.fetch import Fetched, fetch_range
from skillgate.github.pulls import Reader
from skillgate.github.supply import Limits
from tests.fakes.github_api import SECONDARY, error
from tests.fakes.github_reading import GithubReading
from tests.fakes.ranges import Repo, added, changed, report

# --- an existing checkout --------------------------------------------------------------------


def test_in_a_checkout_only_the_head_is_fetched(
    judged: Repo, api: GithubReading, compare: Callable[..., GateReport], tmp_path: Path
) -> None:
    """As in the job of a dispatch: the default branch is there, the fork's commit is not."""
    clone = tmp_path / "clone"
    judged.git("clone", "-q", "--depth=1", f"file://{judged.folder}", str(clone))
    before = sorted(path.name for path in clone.rglob("*") if ".git" not in path.parts)
    judged.skill("skills/one", body="Another text.")
    judged.commit()
    compare(into=clone)
    assert api.asked("/git/blobs/") == 1
    assert before == sorted(path.name for path in clone.rglob("*") if ".git" not in path.parts)
    assert (
        subprocess.run(["git", "-C", str(clone), "status", "--porcelain"], capture_output=True).stdout == b""
    )


def test_the_same_range_gives_the_same_commits_whatever_git_is_told(
    repo: Repo, fetch: Callable[..., Fetched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(repo)
    repo.commit()
    first = fetch(into=tmp_path / "first")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "pre-commit"):
        (hooks / name).write_text("#!/bin/sh\ntouch $(dirname $0)/ran\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / ".gitconfig"
    config.write_text(
        f"[core]\n hooksPath = {hooks}\n autocrlf = true\n[commit]\n gpgsign = true\n"
        f"[init]\n templateDir = {hooks}\n[user]\n name = somebody\n[i18n]\n commitEncoding = ISO-8859-1\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = fetch_range_with_plain_git(repo, tmp_path, monkeypatch)
    assert first == second
    assert not (hooks / "ran").exists()


def fetch_range_with_plain_git(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """Fetch while the environment is bad for git; the double itself must not suffer from it."""
    with GithubReading(repo.folder) as api:
        clean = {"PATH": "/usr/bin:/bin:/usr/local/bin"}

        def git(*arguments: str) -> bytes:
            command = ["git", "-C", str(repo.folder), *arguments]
            return subprocess.run(command, capture_output=True, check=True, env=clean).stdout

        monkeypatch.setattr(api, "git", git)
        base, head = (git("rev-parse", name).decode().strip() for name in ("HEAD~1", "HEAD"))
        with closing(Reader(api.url, api.token, api.repository)) as reader:
            return fetch_range(reader, tmp_path / "second", base, head)


def test_a_folder_that_holds_something_else_is_left_alone(
    repo: Repo, fetch: Callable[..., Fetched], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("other")
    (folder / "file").write_text("x")
    changed(repo)
    repo.commit()
    with pytest.raises(UsageError, match="not a git repository"):
        fetch(into=folder)
    assert [path.name for path in folder.iterdir()] == ["file"]


# --- what is refused ----------------------------------------------------------------------------


def test_a_blob_that_does_not_hash_to_its_name_is_refused(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched]
) -> None:
    changed(repo)
    repo.commit()
    sha = repo.git("rev-parse", "HEAD:skills/one/scripts/run.sh")
    api.lies[sha] = repo.git("cat-file", "blob", sha).replace("curl", "echo").encode() + b"\n"
    with pytest.raises(GitHubUnavailable, match=f"the blob {sha} is not that blob"):
        fetch()


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        pytest.param(
            Limits(file_bytes=999), "'skills/three/large' has 1,000 bytes; at most 999", id="a file"
        ),
        pytest.param(Limits(total_bytes=1100), r"hold 1,\d{3} bytes; at most 1,100 are", id="together"),
        pytest.param(Limits(files=1), "hold 2 files; at most 1", id="files"),
    ],
)
def test_too_much_is_refused_before_anything_is_fetched(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched], limits: Limits, problem: str
) -> None:
    repo.skill("skills/three")
    repo.write("skills/three/large", "x" * 1000)
    repo.commit()
    with pytest.raises(UsageError, match=problem) as caught:
        fetch(limits=limits)
    assert caught.value.hint
    assert api.asked("/git/blobs/") == 0


def test_too_many_files_say_what_to_do(repo: Repo, api: GithubReading, fetch: Callable[..., Fetched]) -> None:
    for number in range(20):
        repo.write(f"skills/one/{number}.md", f"{number}\n")
    repo.commit()
    with pytest.raises(PrerequisiteError, match="needs 25 requests to GitHub or more; at most 24") as caught:
        fetch(limits=Limits(requests=24))
    assert caught.value.hint.startswith("Propose the skills in parts.")
    assert (api.asked("/git/blobs/"), len(api.log)) == (0, 3)


def test_repeated_requests_count_and_the_limit_is_never_passed(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched]
) -> None:
    changed(repo)
    repo.commit()
    api.plan(
        f"GET /repos/{api.repository}/git/blobs/", error(502, "Server Error"), error(502, "Server Error")
    )
    with pytest.raises(PrerequisiteError, match="needs 7 requests to GitHub or more; at most 6"):
        fetch(limits=Limits(requests=6))
    assert len(api.log) == 6


def test_a_tree_that_must_be_walked_has_the_same_limit(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched]
) -> None:
    for number in range(30):
        repo.skill(f"skills/s{number}/deep")
    repo.commit()
    api.most_entries = 1
    with pytest.raises(PrerequisiteError, match="at most 20 are made"):
        fetch(limits=Limits(requests=20))
    assert len(api.log) <= 20


def test_skills_that_did_not_change_are_left_out_first(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    for number in range(10):
        repo.skill(f"skills/s{number}")
    repo.commit()
    changed(repo)
    repo.commit()
    fetched = fetch(limits=Limits(requests=10))
    assert len(api.log) == 10
    assert fetched.notes == ("7 skills that did not change were not compared with: too many requests.",)
    seen = report(tmp_path / "fetched", fetched.base, fetched.head, tmp_path / "seen")
    assert [one.skill for one in seen.reports] == ["skills/one"]


def test_a_walk_says_that_it_saw_only_a_part(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched]
) -> None:
    changed(repo)
    repo.commit()
    api.most_entries = 1
    assert fetch().notes == (
        "The tree is too large to list whole: not all skills were compared with each other.",
    )


@pytest.mark.parametrize("name", [".git", "..", ".GIT "])
def test_a_tree_with_such_a_path_is_refused_by_its_name(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched], name: str
) -> None:
    """git makes such trees when it is asked to; nobody else should."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"text\n")
    inner = repo.git("mktree", "-z", stdin=f"100644 blob {blob}\tconfig\0".encode())
    skill = repo.git("rev-parse", "HEAD:skills/one/SKILL.md")
    rows = f"100644 blob {skill}\tSKILL.md\0" + f"040000 tree {inner}\t{name}\0"
    made = repo.git(
        "mktree", "-z", stdin=f"040000 tree {repo.git('mktree', '-z', stdin=rows.encode())}\tx\0".encode()
    )
    head = repo.git("commit-tree", "-p", "HEAD", "-m", "crafted", made)
    with pytest.raises(UsageError, match="is no path for a file of a skill"):
        fetch("HEAD", head)
    assert api.asked("/git/blobs/") == 0


def test_a_tree_with_one_name_twice_is_refused(repo: Repo, fetch: Callable[..., Fetched]) -> None:
    blob = repo.git("rev-parse", "HEAD:skills/one/SKILL.md")
    rows = bytes.fromhex(blob).join((b"100644 SKILL.md\0", b"100644 SKILL.md\0", b""))
    made = repo.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=rows)
    head = repo.git("commit-tree", "-p", "HEAD", "-m", "crafted", made)
    with pytest.raises(UsageError, match=r"names 'SKILL\.md' twice"):
        fetch("HEAD", head)


# --- when GitHub does not answer, or the head moves ------------------------------------------------


def test_a_head_that_moves_is_not_followed(
    repo: Repo, api: GithubReading, compare: Callable[..., GateReport]
) -> None:
    base = repo.git("rev-parse", "HEAD")
    changed(repo)
    head = repo.commit()
    pull = api.propose(7, head, base, repository="octocat/skills")
    added(repo)
    pull["head"]["sha"] = repo.commit()
    with closing(Reader(api.url, api.token, api.repository)) as reader:
        assert reader.pull_of(head, "octocat/skills", "topic") is None
    assert [one.skill for one in compare(base, head).reports] == ["skills/one"]


def test_a_rate_limit_is_waited_for(
    repo: Repo, api: GithubReading, compare: Callable[..., GateReport]
) -> None:
    changed(repo)
    repo.commit()
    home = f"GET /repos/{api.repository}"
    for part in ("compare", "git/trees", "git/blobs"):
        api.plan(f"{home}/{part}", error(403, SECONDARY, Retry_After="5"))
    compare()


@pytest.mark.parametrize("part", ["compare", "git/trees", "git/blobs"])
def test_a_dead_api_is_nobodys_fault(
    repo: Repo, api: GithubReading, fetch: Callable[..., Fetched], part: str
) -> None:
    changed(repo)
    repo.commit()
    api.plan(f"GET /repos/{api.repository}/{part}", *[error(503, "Unavailable")] * 3)
    with pytest.raises(GitHubUnavailable) as caught:
        fetch()
    assert (caught.value.exit_code, caught.value.hint) == (3, "Run the job again later.")
