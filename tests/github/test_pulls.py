from __future__ import annotations

import base64
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillgate.errors import ExitCode, GitHubUnavailable, PrerequisiteError, SkillgateError, UsageError
from skillgate.github.pulls import Pull, Reader, blob_id
from tests.fakes.github_api import FORBIDDEN, SECONDARY, Reply, error
from tests.fakes.github_reading import GithubReading

HEAD, BASE, OTHER = "a" * 40, "b" * 40, "c" * 40
FORK = "octocat/skills-fork"
HOSTILE = (
    "skills/new\nline/SKILL.md",
    "skills/'quote\"/SKILL.md",
    "skills/$(id)`id`/SKILL.md",
    "-rf/SKILL.md",
    r"skills/\303\251/SKILL.md",
    "skills/\u202egnp/SKILL.md",
)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "one.txt").write_text("one\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "run.sh").write_text("two\n")
    (folder / "sub" / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("sub")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "step")
    return folder


@pytest.fixture
def api(origin: Path) -> Iterator[GithubReading]:
    with GithubReading(origin) as running:
        yield running
    assert running.violations == []


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def reader(api: GithubReading, waits: list[float]) -> Iterator[Reader]:
    with closing(Reader(api.url, api.token, api.repository, sleep=waits.append)) as made:
        yield made


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


# --- which pull request ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, {}),
        ({"repository": FORK}, {"is_fork": True, "head_repository": FORK}),
        ({"draft": True}, {"is_draft": True}),
        ({"bot": True}, {"is_bot": True}),
        ({"state": "closed"}, {"is_open": False}),
        ({"base_ref": "release-1"}, {"base_ref": "release-1"}),
    ],
)
def test_a_pull_request_is_read(
    api: GithubReading, reader: Reader, facts: dict[str, Any], expected: dict[str, Any]
) -> None:
    api.propose(7, HEAD, BASE, **facts)
    plain = Pull(7, True, False, False, False, HEAD, BASE, "main", "acme/skills")
    assert reader.pull(7) == plain._replace(**expected)


def test_a_pull_request_whose_fork_or_author_is_deleted_is_a_strangers(origin: Path) -> None:
    with GithubReading(origin) as api:  # GitHub's description knows neither null: its violations do not count
        api.propose(7, HEAD, BASE)["head"]["repo"] = None
        api.pulls[7]["user"] = None
        with closing(Reader(api.url, api.token, api.repository)) as reader:
            pull = reader.pull(7)
    assert (pull.is_fork, pull.head_repository, pull.is_bot) == (True, None, True)


@pytest.mark.parametrize("repository", ["acme/skills", FORK])
def test_the_pull_request_of_a_run_is_found_by_its_head(
    api: GithubReading, reader: Reader, repository: str
) -> None:
    api.propose(6, OTHER, BASE, repository=repository, branch="other")
    api.propose(7, HEAD, BASE, repository=repository, branch="patch-1/with slash&more")
    found = reader.pull_of(HEAD, repository, "patch-1/with slash&more")
    assert (found and found.number, found and found.head_repository) == (7, repository)


def test_a_branch_that_was_renamed_since_is_found_by_its_commit(api: GithubReading, reader: Reader) -> None:
    api.propose(7, HEAD, BASE, branch="new-name")
    assert reader.pull_of(HEAD, "acme/skills", "old-name") == reader.pull(7)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"repository": FORK, "head_sha": OTHER}, id="the head moved"),
        pytest.param({"repository": FORK, "state": "closed"}, id="closed"),
        pytest.param({"repository": "octocat/another-fork"}, id="another repository of the same owner"),
        pytest.param({"repository": "mallory/skills-fork"}, id="another owner"),
        pytest.param({"repository": "acme/skills"}, id="this repository"),
    ],
)
def test_no_other_pull_request_is_taken_for_it(
    api: GithubReading, reader: Reader, facts: dict[str, Any]
) -> None:
    api.propose(7, facts.pop("head_sha", HEAD), BASE, branch="topic", **facts)
    assert reader.pull_of(HEAD, FORK, "topic") is None


def test_a_closed_pull_request_of_the_commit_is_not_taken(api: GithubReading, reader: Reader) -> None:
    api.propose(7, HEAD, BASE, state="closed")
    assert reader.pull_of(HEAD, "acme/skills", "topic") is None


def test_a_commit_of_two_pull_requests_is_nobodys(api: GithubReading, reader: Reader) -> None:
    """The second one may aim at a branch whose configuration lets everything pass."""
    api.propose(7, HEAD, BASE, repository=FORK)
    api.propose(8, HEAD, OTHER, repository=FORK, base_ref="weak")
    with pytest.raises(UsageError, match=r"is the head of several pull requests: #7, #8"):
        reader.pull_of(HEAD, FORK, "topic")


# --- objects ----------------------------------------------------------------------------


def test_a_tree_says_what_lies_in_it(api: GithubReading, reader: Reader, origin: Path) -> None:
    tree = reader.tree(_git(origin, "rev-parse", "HEAD"))
    assert tree.truncated is False
    assert [(node.path, node.mode, node.type, node.size) for node in tree.tree] == [
        ("link", "120000", "blob", 3),
        ("one.txt", "100644", "blob", 4),
        ("sub", "040000", "tree", 0),
        ("sub/run.sh", "100755", "blob", 4),
    ]
    assert [node.path for node in reader.tree(_git(origin, "rev-parse", "HEAD"), recursive=False).tree] == [
        "link",
        "one.txt",
        "sub",
    ]


def test_a_truncated_tree_says_so(api: GithubReading, reader: Reader, origin: Path) -> None:
    api.most_entries = 1
    assert reader.tree(_git(origin, "rev-parse", "HEAD")).truncated is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "100644", "type": "commit"},
        {"mode": "160000", "type": "blob"},
        {"mode": "040000", "type": "blob"},
        {"mode": "100644", "type": "tag"},
        {"mode": "100644 blob x\ty", "type": "blob"},
        {"sha": "HEAD"},
        {"path": ""},
    ],
)
def test_an_entry_that_git_would_not_write_is_refused(origin: Path, wrong: dict[str, str]) -> None:
    node = {"path": "x", "mode": "100644", "type": "blob", "sha": HEAD} | wrong
    with GithubReading(origin) as api, closing(Reader(api.url, api.token, api.repository)) as reader:
        api.plan("GET ", Reply(200, {"sha": HEAD, "tree": [node], "truncated": False}))
        with pytest.raises(GitHubUnavailable, match="makes no sense"):
            reader.tree(HEAD)


def test_a_blob_comes_byte_for_byte(api: GithubReading, reader: Reader, origin: Path) -> None:
    content = bytes(range(256)) * 20
    (origin / "raw").write_bytes(content)
    sha = _git(origin, "hash-object", "-w", "raw")
    assert reader.blob(sha, len(content)) == content
    assert blob_id(content) == sha


@pytest.mark.parametrize(
    "lie", [b"two\n", b"one\n\0", b"on"], ids=["other bytes", "longer bytes", "shorter bytes"]
)
def test_a_blob_that_does_not_hash_to_its_name_is_refused(
    api: GithubReading, reader: Reader, origin: Path, lie: bytes
) -> None:
    sha = _git(origin, "rev-parse", "HEAD:one.txt")
    api.lies[sha] = lie
    with pytest.raises(GitHubUnavailable, match=f"the blob {sha} is not that blob"):
        reader.blob(sha, 4)


@pytest.mark.parametrize("name", ["HEAD", "../../user", "a" * 39, HEAD + "\n", "A" * 40, ""])
def test_only_full_ids_are_asked_for(api: GithubReading, reader: Reader, name: str) -> None:
    asks = (
        lambda: reader.tree(name),
        lambda: reader.blob(name, 1),
        lambda: reader.merge_base(HEAD, name),
        lambda: reader.pull_of(name, FORK, "topic"),
    )
    for ask in asks:
        with pytest.raises(UsageError, match="no full commit id"):
            ask()
    assert api.log == []


def test_the_commit_where_head_left_base_is_found(api: GithubReading, reader: Reader, origin: Path) -> None:
    start = _git(origin, "rev-parse", "HEAD")
    _git(origin, "commit", "-qm", "base", "--allow-empty")
    base = _git(origin, "rev-parse", "HEAD")
    _git(origin, "checkout", "-q", start)
    _git(origin, "commit", "-qm", "head", "--allow-empty")
    assert reader.merge_base(base, _git(origin, "rev-parse", "HEAD")) == start


def test_commits_without_a_common_ancestor_are_a_mistake(
    api: GithubReading, reader: Reader, origin: Path
) -> None:
    base = _git(origin, "rev-parse", "HEAD")
    _git(origin, "checkout", "-q", "--orphan", "other")
    _git(origin, "commit", "-qm", "head")
    with pytest.raises(UsageError, match="No common ancestor"):
        reader.merge_base(base, _git(origin, "rev-parse", "HEAD"))


# --- when GitHub does not answer ------------------------------------------------------------


def test_what_passes_is_waited_for(
    api: GithubReading, reader: Reader, origin: Path, waits: list[float]
) -> None:
    sha = _git(origin, "rev-parse", "HEAD:one.txt")
    api.plan("GET ", error(403, SECONDARY, Retry_After="3"), error(502, "Server Error"))
    assert reader.blob(sha, 4) == b"one\n"
    assert (waits, reader.requests) == ([3.0, 4.0], 3)


@pytest.mark.parametrize(
    ("replies", "waited"),
    [
        pytest.param([error(403, SECONDARY, Retry_After="3600")], [], id="Retry-After above the ceiling"),
        pytest.param([error(503, "Unavailable")] * 3, [2.0, 4.0], id="a dead service"),
        pytest.param([error(429, "Too many requests")], [], id="429 without Retry-After"),
    ],
)
def test_a_dead_api_ends_in_3_with_a_hint_to_come_again(
    api: GithubReading, reader: Reader, waits: list[float], replies: list[Reply], waited: list[float]
) -> None:
    api.plan("GET ", *replies)
    with pytest.raises(GitHubUnavailable) as caught:
        reader.pull(7)
    assert (caught.value.exit_code, caught.value.hint) == (3, "Run the job again later.")
    assert caught.value.message.startswith("pull request 7: GitHub answered ")
    assert waits == waited


def test_no_connection_ends_in_3() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    told = pytest.raises(GitHubUnavailable, match=r"could not be reached \(ConnectionError\)")
    api_url = f"http://127.0.0.1:{port}"
    with closing(Reader(api_url, "t", "acme/skills", sleep=[].append)) as reader, told as caught:
        reader.pull(7)
    assert caught.value.exit_code == 3


def test_many_short_waits_end_as_well(api: GithubReading, reader: Reader, waits: list[float]) -> None:
    """300 requests that are each told to wait a minute would hold a runner for five hours."""
    api.propose(7, HEAD, BASE)
    for _ in range(5):
        api.plan("GET ", error(403, SECONDARY, Retry_After="60"))
        reader.pull(7)
    api.plan("GET ", error(403, SECONDARY, Retry_After="60"))
    with pytest.raises(GitHubUnavailable, match="more than 300 seconds altogether"):
        reader.pull(7)
    assert waits == [60.0] * 5


@pytest.mark.parametrize(
    ("reply", "hint"),
    [
        (error(404, "Not Found"), "Check that it still exists"),
        (error(401, "Bad credentials"), "Pass a valid `github-token`."),
        (
            error(403, FORBIDDEN, x_accepted_github_permissions="pull_requests=read"),
            "Add to the job in the workflow:\npermissions:\n  contents: read\n  pull-requests: read",
        ),
    ],
)
def test_what_does_not_pass_says_what_to_do(
    api: GithubReading, reader: Reader, reply: Reply, hint: str
) -> None:
    api.plan("GET ", reply)
    with pytest.raises(PrerequisiteError) as caught:
        reader.pull(7)
    assert caught.value.exit_code is ExitCode.PREREQUISITE
    assert caught.value.hint.startswith(hint)


def test_a_missing_permission_is_named_once(api: GithubReading, reader: Reader) -> None:
    api.plan("GET ", error(403, FORBIDDEN))
    with pytest.raises(PrerequisiteError) as caught:
        reader.tree(HEAD)
    assert caught.value.hint == "Add to the job in the workflow:\npermissions:\n  contents: read"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("<html>", id="the page of a proxy"),
        pytest.param({"sha": HEAD}, id="fields are missing"),
        pytest.param([], id="another type"),
        pytest.param(None, id="nothing"),
    ],
)
def test_an_answer_that_is_not_githubs_is_no_crash(origin: Path, body: object) -> None:
    with GithubReading(origin) as api, closing(Reader(api.url, api.token, api.repository)) as reader:
        api.plan("GET ", *[Reply(200, body)] * 4)
        asks = (
            lambda: reader.pull(7),
            lambda: reader.tree(HEAD),
            lambda: reader.blob(HEAD, 1),
            lambda: reader.merge_base(HEAD, BASE),
        )
        for ask in asks:
            with pytest.raises(GitHubUnavailable, match="makes no sense"):
                ask()


def test_a_blob_that_is_no_base64_is_no_crash(origin: Path) -> None:
    with GithubReading(origin) as api, closing(Reader(api.url, api.token, api.repository)) as reader:
        api.plan("GET ", Reply(200, {"content": "x", "encoding": "base64"}))
        with pytest.raises(SkillgateError, match="is not that blob"):
            reader.blob(HEAD, 1)


def test_an_enterprise_server_has_its_api_under_a_path(origin: Path) -> None:
    with GithubReading(origin, prefix="/api/v3") as api:
        api.propose(7, HEAD, BASE)
        with closing(Reader(api.url, api.token, api.repository)) as reader:
            assert reader.pull(7).number == 7
    assert api.violations == []


def test_the_double_notices_a_blob_that_github_would_not_give(origin: Path) -> None:
    with GithubReading(origin) as api, closing(Reader(api.url, api.token, api.repository)) as reader:
        content = base64.b64encode(b"x").decode()
        api.plan("GET ", Reply(200, {"content": content, "encoding": "base64"}))
        reader.blob(blob_id(b"x"), 1)
        assert len(api.violations) == 1
