from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from skillgate.bench.repos import fetch as fetch_module
from skillgate.bench.repos.checkout import GitSource, checkout
from skillgate.document import decode
from skillgate.errors import PrerequisiteError, SuiteError
from tests.fakes.git_origin import FILES, WHERE, Origin, Site, commit_all, found, git, unfinished


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/srv/repository", "`git` is a path, not a URL"),
        *(
            (url, "`git` is neither an https:// nor a file:// URL")
            for url in (
                "repository",
                "../repository",
                "http://127.0.0.1/secret-x",
                "HTTPS://127.0.0.1/secret-x",
                "git://127.0.0.1/secret-x",
                "ssh://127.0.0.1/secret-x",
                "git@127.0.0.1:secret-x",
                "ext::sh -c 'touch secret-x'",
                "--upload-pack=touch secret-x",
                "-u",
                "file://relative/secret-x",
                "file:///",
                "file:///a\nb",
                "https://127.0.0.1",
                "https:///secret-x",
                "https://127.0.0.1/secret x",
                "https://127.0.0.1/secret\nx",
                "https://127.0.0.1:port/secret-x",
                " https://127.0.0.1/secret-x",
                "https::https://127.0.0.1/secret-x",
            )
        ),
        *(
            (url, "the URL in `git` holds credentials")
            for url in (
                "https://secret-x@127.0.0.1/r",
                "https://user:secret-x@127.0.0.1/r",
                "http://user:secret-x@127.0.0.1",
                "ssh://secret-x@127.0.0.1/r",
            )
        ),
    ],
)
def test_only_plain_https_and_file_urls_are_taken_and_no_other_is_shown(
    tmp_path: Path, url: str, message: str
) -> None:
    with pytest.raises(SuiteError) as caught:
        checkout(GitSource(git=url, commit="0" * 40), tmp_path / "cache", WHERE)
    assert caught.value.message == f"{WHERE}: {message}"
    assert "secret" not in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "commit", ["main", "HEAD", "0" * 39, "0" * 41, "A" * 40, "0" * 40 + "\n", "--help", ""]
)
def test_a_commit_is_its_full_id(tmp_path: Path, commit: str) -> None:
    with pytest.raises(SuiteError, match="`commit` is not a full commit id"):
        checkout(GitSource(git="file:///nowhere", commit=commit), tmp_path, WHERE)
    text = f"git: file:///nowhere\ncommit: {commit!r}\n"
    with pytest.raises(SuiteError, match=r"^suite\.yml:2: "):
        decode(text, GitSource, "suite.yml", SuiteError)


def test_an_id_that_names_something_else_or_nothing(origin: Origin) -> None:
    git(origin.folder, "tag", "-a", "v1", "-m", "annotated")
    ids = [git(origin.folder, "rev-parse", name) for name in ("v1", "HEAD:empty", "HEAD^{tree}")]
    shown = f"file://{origin.folder}"
    assert [origin.refused(i).message for i in (*ids, "1" * 40)] == [
        f"{WHERE}: {ids[0]} is a tag, not a commit",
        f"{WHERE}: {ids[1]} is a blob, not a commit",
        f"{WHERE}: {ids[2]} is a tree, not a commit",
        f"{WHERE}: {shown} has no commit {'1' * 40}",
    ]
    assert found(origin.checkout(git(origin.folder, "rev-parse", "v1^{commit}"))) == FILES


def test_a_commit_that_no_branch_has_any_more(origin: Origin) -> None:
    git(origin.folder, "commit", "-q", "--amend", "-m", "pushed by force")
    assert git(origin.folder, "branch", "--contains", origin.commit) == ""
    assert found(origin.checkout()) == FILES


def speak_old_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """With protocol 0 a server hands out only what it advertises: the tips of its branches and tags."""
    monkeypatch.setattr(fetch_module, "_OPTIONS", (*fetch_module._OPTIONS, "-c", "protocol.version=0"))


def test_a_server_that_hands_out_tips_only(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    speak_old_protocol(monkeypatch)
    tip = git(origin.folder, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "newer")
    git(origin.folder, "tag", "v2", tip)
    git(origin.folder, "checkout", "-q", "--orphan", "other")
    commit_all(origin.folder, "another history")
    git(origin.folder, "branch", "-q", "-D", "main")
    assert found(origin.checkout()) == FILES  # behind the tip of a tag

    git(origin.folder, "tag", "-d", "v2")
    shutil.rmtree(origin.cache)
    assert origin.refused().message == f"{WHERE}: file://{origin.folder} has no commit {origin.commit}"


def test_nothing_of_either_repository_and_nothing_of_the_user_runs_or_counts(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    hooks = tmp_path / "template/hooks"
    hooks.mkdir(parents=True)
    names = (
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
    )
    for folder in (hooks, origin.folder / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(trap, folder / name)
    for key in ("core.fsmonitor", "uploadpack.packObjectsHook", "filter.up.smudge", "filter.up.process"):
        git(origin.folder, "config", key, str(trap))
    home = tmp_path / "home"
    home.mkdir()
    for file, tool in ((".gitconfig", "--file"), ("system", "--file")):
        for key, value in (
            (f"url.file://{tmp_path}/nowhere.insteadOf", "file://"),
            ("core.hooksPath", str(hooks)),
            ("init.templateDir", str(tmp_path / "template")),
            ("uploadpack.packObjectsHook", str(trap)),
            ("credential.helper", str(trap)),
            ("filter.up.smudge", str(trap)),
            ("fetch.recurseSubmodules", "true"),
        ):
            git(tmp_path, "config", tool, str(home / file), "--add", key, value)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(home / "system"))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_ASKPASS", str(trap))
    assert [found(origin.checkout()) for _ in "12"] == [FILES] * 2
    assert not (tmp_path / "sprung").exists()
    assert not (origin.store() / "hooks").exists()


def test_a_fetch_has_a_clock_and_what_is_killed_is_gone(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(origin.folder / ".git/packed-refs")  # the other side waits for somebody to write
    monkeypatch.setattr(fetch_module, "TIMEOUT_S", 1.5)
    problem = origin.refused()
    assert isinstance(problem, PrerequisiteError)
    assert problem.message == f"{WHERE}: fetching file://{origin.folder} took more than 1.5 s"
    assert processes_about(origin.folder) == []


def processes_about(folder: Path) -> list[str]:
    commands = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [command for command in commands if str(folder) in command]


def test_what_cannot_be_fetched_says_why_without_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    messages = []
    for url in (f"file://{tmp_path}/gone", "https://127.0.0.1:1/r.git?token=secret#secret"):
        with pytest.raises(PrerequisiteError) as caught:
            checkout(GitSource(git=url, commit="0" * 40), tmp_path / "cache", WHERE)
        messages.append(caught.value.message)
        assert "secret" not in caught.value.message + caught.value.hint
    gone, unreachable = messages
    assert gone == (
        f"{WHERE}: file://{tmp_path}/gone cannot be fetched: "
        f"fatal: '{tmp_path}/gone' does not appear to be a git repository"
    )
    assert unreachable.startswith(
        f"{WHERE}: https://127.0.0.1:1/r.git cannot be fetched: fatal: unable to access"
    )


def test_without_git(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PrerequisiteError, match="git is not installed"):
        origin.checkout()
    assert unfinished(origin.cache) == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl for a certificate")
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with closing(Site(tmp_path)) as opened:
        options = (*fetch_module._OPTIONS, "-c", f"http.sslCAInfo={opened.certificate}")
        monkeypatch.setattr(fetch_module, "_OPTIONS", options)
        yield opened


def test_https_of_plain_files_also_behind_a_move(origin: Origin, site: Site) -> None:
    git(origin.folder, "clone", "-q", "--bare", ".", str(site.root / "r.git"))
    git(site.root / "r.git", "update-server-info")
    for path in ("/r.git", "/moved/r.git"):
        source = GitSource(git=site.url + path, commit=origin.commit)
        assert found(checkout(source, origin.cache, WHERE)) == FILES
        assert found(checkout(source, origin.cache, WHERE)) == FILES


def test_https_never_becomes_http_and_sends_nobodys_password(
    origin: Origin, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    git(
        tmp_path,
        "config",
        "--file",
        str(tmp_path / ".gitconfig"),
        "http.extraHeader",
        "Authorization: secret",
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    messages = []
    for path in ("/private/r.git", "/plain/r.git", "/gone.git"):
        with pytest.raises(PrerequisiteError) as caught:
            checkout(GitSource(git=site.url + path, commit=origin.commit), origin.cache, WHERE)
        messages.append(caught.value.message.split("cannot be fetched: ")[1])
    private, plain, gone = messages
    assert private == f"fatal: could not read Username for '{site.url}': terminal prompts disabled"
    assert plain.startswith(f"fatal: unable to access '{site.url}/plain/r.git/': Protocol ")
    assert "disabled" in plain
    assert gone == f"fatal: repository '{site.url}/gone.git/' not found"
    assert site.passwords == []


def test_https_with_a_certificate_that_nobody_vouches_for(
    origin: Origin, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "_OPTIONS", fetch_module._OPTIONS[:-2])
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    with pytest.raises(PrerequisiteError, match="certificate"):
        checkout(GitSource(git=f"{site.url}/r.git", commit=origin.commit), origin.cache, WHERE)
