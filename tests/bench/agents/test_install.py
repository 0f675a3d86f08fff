"""Agent programs are installed whole or not at all, and nothing but what was pinned."""

from __future__ import annotations

import base64
import hashlib
import io
import multiprocessing
import os
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from skillgate.bench.agents import install as room
from skillgate.bench.agents import pinned as table
from skillgate.bench.agents.install import install, installed, verify
from skillgate.bench.agents.pinned import Package, Pinned, catalog, pinned
from skillgate.errors import PrerequisiteError, UsageError

CLI = b"#!/bin/sh\necho cli\n"


def archive(*members: tuple[str, bytes, int], link: str = "") -> bytes:
    """Pack as npm does: below one folder, with times and owners of its own."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("package/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return data.getvalue()


WHOLE = archive(
    ("package/bin/cli", CLI, 0o700), ("package/lib/a.js", b"1", 0o600), ("package/docs/b.md", b"2", 0o644)
)
NODE = archive(("package/bin/node", b"node", 0o755), ("package/include/node.h", b"h", 0o644))


def integrity(data: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"


class Npm:
    """What `npm pack` does, from tarballs at hand."""

    def __init__(self, **tarballs: bytes) -> None:
        self.tarballs = tarballs
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(list(command))
        assert command[:2] == ["npm", "pack"]
        assert "--ignore-scripts" in command
        name = command[2].rpartition("@")[0]
        if name not in self.tarballs:
            return subprocess.CompletedProcess(command, 1, "", "npm error 404\nnot found\n")
        folder = Path(command[command.index("--pack-destination") + 1])
        (folder / f"{name}.tgz").write_bytes(self.tarballs[name])
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> Pinned:
    """Pin an agent of two small packages."""
    packages = (
        Package(name="cli", version="1.2.3", folder="cli", integrity=integrity(WHOLE)),
        Package(
            name="node", version="22.0.0", folder="node", integrity=integrity(NODE), keep=("bin/node", "doc")
        ),
    )
    one = Pinned(name="tiny", version="1.2.3", platform="linux-x64", packages=packages)
    monkeypatch.setattr(room, "pinned", lambda name, machine="": one)
    return one


def files(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def left_over(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "agents").iterdir() if not path.name.endswith(".lock"))


def test_a_program_is_unpacked_for_everybody_and_nothing_else_is_left(tmp_path: Path, agent: Pinned) -> None:
    before = os.umask(0o077)
    try:
        folder = install("tiny", tmp_path, Npm(cli=WHOLE, node=NODE))
    finally:
        os.umask(before)
    assert folder == tmp_path / "agents" / agent.folder_name
    assert agent.folder_name.startswith("tiny-1.2.3-")
    assert files(folder) == {
        "cli/bin/cli": 0o755,
        "cli/docs/b.md": 0o644,
        "cli/lib/a.js": 0o644,
        "manifest.json": 0o644,
        "node/bin/node": 0o755,
    }
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o755}
    assert left_over(tmp_path) == [agent.folder_name]
    assert installed("tiny", tmp_path) == verify("tiny", tmp_path) == folder


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    npm = Npm(cli=WHOLE, node=NODE)
    assert installed("tiny", tmp_path) is None
    assert install("tiny", tmp_path, npm) == install("tiny", tmp_path, npm)
    assert [command[2] for command in npm.commands] == ["cli@1.2.3", "node@22.0.0"]


def test_other_bytes_than_the_pinned_are_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"node@22\.0\.0 is not the package that was pinned"):
        install("tiny", tmp_path, Npm(cli=WHOLE, node=archive(("package/bin/node", b"evil", 0o755))))
    assert left_over(tmp_path) == []
    assert installed("tiny", tmp_path) is None


def test_what_npm_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        PrerequisiteError, match=r"npm could not fetch node@22\.0\.0: npm error 404 not found"
    ):
        install("tiny", tmp_path, Npm(cli=WHOLE))
    assert left_over(tmp_path) == []


def test_without_npm_there_is_a_way_on(tmp_path: Path) -> None:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError(command[0])

    with pytest.raises(PrerequisiteError, match="npm, which fetches") as problem:
        install("tiny", tmp_path, run)
    assert "Node.js" in problem.value.hint
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "cli/bin/cli").write_bytes(b"evil"), "cli/bin/cli"),
        (lambda folder: (folder / "cli/bin/cli").chmod(0o644), "cli/bin/cli"),
        (lambda folder: (folder / "cli/lib/a.js").unlink(), "cli/lib/a.js"),
        (lambda folder: (folder / "node/more.js").write_bytes(b""), "node/more.js"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json"),
    ],
)
def test_what_was_changed_is_not_used_and_is_installed_anew(tmp_path: Path, change, said: str) -> None:  # type: ignore[no-untyped-def]
    folder = install("tiny", tmp_path, Npm(cli=WHOLE, node=NODE))
    change(folder)
    with pytest.raises(PrerequisiteError, match=f"changed: {said}") as problem:
        verify("tiny", tmp_path)
    assert problem.value.hint == "Run `skillgate agents install tiny`."
    assert install("tiny", tmp_path, Npm(cli=WHOLE, node=NODE)) == verify("tiny", tmp_path) == folder


def test_what_is_not_installed_says_how(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="tiny is not installed") as problem:
        verify("tiny", tmp_path)
    assert problem.value.hint == "Run `skillgate agents install tiny`."


@pytest.mark.parametrize("name", ["package/../../../out", "/etc/passwd", "package//etc/passwd"])
def test_no_file_gets_out_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = archive((name, b"evil", 0o644), link="/etc")
    package = Package(name="cli", version="1", folder="cli", integrity=integrity(data))
    one = Pinned(name="tiny", version="1", platform="linux-x64", packages=(package,))
    monkeypatch.setattr(room, "pinned", lambda name, machine="": one)
    try:
        folder = install("tiny", tmp_path / "cache", Npm(cli=data))
    except PrerequisiteError as problem:
        assert "cannot be unpacked" in problem.message  # noqa: PT017 - either is safe
        assert left_over(tmp_path / "cache") == []
    else:
        assert set(files(folder)) <= {"cli/passwd", "cli/etc/passwd", "manifest.json"}
        assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "cache/out").exists()


def test_links_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive(("package/bin/cli", CLI, 0o755), link="bin/cli")
    package = Package(name="cli", version="1", folder="cli", integrity=integrity(data))
    one = Pinned(name="tiny", version="1", platform="linux-x64", packages=(package,))
    monkeypatch.setattr(room, "pinned", lambda name, machine="": one)
    folder = install("tiny", tmp_path, Npm(cli=data))
    assert list(files(folder)) == ["cli/bin/cli", "manifest.json"]
    (folder / "cli/link").symlink_to("bin/cli")
    with pytest.raises(PrerequisiteError, match="changed: cli/link"):
        verify("tiny", tmp_path)


def _install_and_die(cache: Path, where: str) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(*((room, "_hashes") if where == "unpacked" else (Path, "rename")), die)
    install("tiny", cache, Npm(cli=WHOLE, node=NODE))


@pytest.mark.parametrize("where", ["unpacked", "manifest"])
def test_a_killed_install_is_not_taken_for_one(tmp_path: Path, where: str) -> None:
    process = multiprocessing.get_context("fork").Process(target=_install_and_die, args=(tmp_path, where))
    process.start()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    (new,) = left_over(tmp_path)
    assert new.startswith(".new-")
    assert installed("tiny", tmp_path) is None
    folder = install("tiny", tmp_path, Npm(cli=WHOLE, node=NODE))
    assert left_over(tmp_path) == [folder.name]


def _install_and_count(cache: Path, counts: Path) -> None:
    npm = Npm(cli=WHOLE, node=NODE)
    install("tiny", cache, npm)
    (counts / str(os.getpid())).write_text(str(len(npm.commands)), encoding="utf-8")


def test_two_at_once_fetch_once(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_install_and_count, args=(tmp_path, counts)) for _ in range(4)]
    for process in both:
        process.start()
    for process in both:
        process.join(20)
    assert [process.exitcode for process in both] == [0] * 4
    assert sorted(path.read_text() for path in counts.iterdir()) == ["0", "0", "0", "2"]
    assert verify("tiny", tmp_path).is_dir()


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        install("tiny", tmp_path, Npm(cli=WHOLE, node=NODE))


def test_the_table_pins_each_program_for_this_kind_of_machine() -> None:
    assert {one.name: one.platform for one in catalog("x86_64")} == dict.fromkeys(
        ("claude-code", "codex", "gemini", "opencode"), "linux-x64"
    )
    assert [one.name for one in catalog("arm64")] == ["claude-code", "codex", "gemini"]
    folders = [one.folder_name for machine in ("x86_64", "aarch64") for one in catalog(machine)]
    assert len(set(folders)) == 7
    assert all(one.packages for one in catalog("AMD64"))


def test_what_is_not_pinned_says_what_is() -> None:
    with pytest.raises(UsageError, match="no agent program `codx`") as unknown:
        table.pinned("codx", "x86_64")
    assert unknown.value.hint == "Did you mean `codex`?"
    with pytest.raises(PrerequisiteError, match=r"opencode 1\.\S+ is not published for linux-arm64"):
        table.pinned("opencode", "aarch64")
    with pytest.raises(PrerequisiteError, match="the architecture riscv64"):
        catalog("riscv64")


@pytest.mark.agents
@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "opencode"])
def test_the_real_packages_are_as_they_were_installed(
    name: str, agent_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "pinned", pinned)
    folder = verify(name, agent_cache)
    assert folder == install(name, agent_cache, run=Npm())  # which has nothing: all is there


@pytest.mark.agents
def test_npm_asks_no_host_that_the_current_folder_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout may bring an .npmrc that sends a variable, such as a key, to a registry of its own."""
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def instead(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        options = list(command)[3:]
        found = subprocess.run(
            ["npm", "config", "get", "registry", *options], capture_output=True, text=True, check=True
        )
        asked.append(found.stdout.strip())
        return subprocess.CompletedProcess(command, 1, "", "not fetched")

    with pytest.raises(PrerequisiteError, match="not fetched"):
        install("codex", tmp_path / "cache", run=instead)
    assert asked
    assert "127.0.0.1:9" not in asked[0]
