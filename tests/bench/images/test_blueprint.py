"""What goes into an image and its key, without an engine."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skillgate.bench.images.blueprint import Blueprint, by_dockerfile, by_recipe
from skillgate.bench.images.recipe import Environment
from skillgate.errors import SuiteError

IDS = ["sha256:1"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a suite folder with a repository, a Dockerfile, and what must stay out of images."""
    folder = tmp_path / "it"
    files = {
        "suite.yml": "",
        "repo/requirements.txt": "x==1\n",
        "repo/tests/test_x.py": "",
        "docker/Dockerfile": "FROM base:1\nCOPY . /x\n",
        "docker/data.txt": "data",
        "tests/held_out.py": "",
        "tasks/one/solution.patch": "the oracle",
    }
    for name, text in files.items():
        write(folder / name, text)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def packed(blueprint: Blueprint) -> list[tuple[str, int, str]]:
    """Return name, mode and content or link of every member."""
    context = io.BytesIO()
    blueprint.pack(context)
    found = []
    with tarfile.open(fileobj=context) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found.append((member.name, member.mode, file.read().decode() if file else member.linkname))
            assert (member.uid, member.gid, member.mtime) == (0, 0, 946_684_800)
    return found


def test_a_recipe_gets_the_repository_in_a_folder_of_its_own(suite: Path) -> None:
    (suite / "repo/run.sh").write_text("#!/bin/sh\n")
    (suite / "repo/run.sh").chmod(0o700)
    (suite / "repo/link").symlink_to("../tasks/one/solution.patch")
    write(suite / "repo/Dockerfile", "FROM the-repositorys-own")
    write(suite / "repo/.dockerignore", "*")
    write(suite / "repo/.git/config", "")
    blueprint = by_recipe(suite, suite / "repo", Environment(base="base:1", network=False))
    assert (blueprint.bases, blueprint.network) == (("base:1",), False)
    assert packed(blueprint) == [
        ("repo", 0o755, ""),
        ("repo/.dockerignore", 0o644, "*"),
        ("repo/Dockerfile", 0o644, "FROM the-repositorys-own"),
        ("repo/link", 0o777, "../tasks/one/solution.patch"),
        ("repo/requirements.txt", 0o644, "x==1\n"),
        ("repo/run.sh", 0o755, "#!/bin/sh\n"),
        ("repo/tests/test_x.py", 0o644, ""),
        ("Dockerfile", 0o644, blueprint.text),
    ]


def test_a_dockerfile_gets_its_own_folder(suite: Path) -> None:
    blueprint = by_dockerfile(suite, "docker/Dockerfile")
    assert (blueprint.bases, blueprint.network) == (("base:1",), True)
    assert packed(blueprint) == [
        ("data.txt", 0o644, "data"),
        ("Dockerfile", 0o644, "FROM base:1\nCOPY . /x\n"),
    ]


def test_what_a_dockerignore_names_stays_out(suite: Path) -> None:
    write(suite / "docker/sub/big.bin", "")
    write(suite / "docker/sub/small.txt", "")
    write(suite / "docker/.dockerignore", "# comment\n\nsub/*.bin\ndata.*\n!data.md\n")
    names = [name for name, *_ in packed(by_dockerfile(suite, "docker/Dockerfile"))]
    assert names == [".dockerignore", "sub/small.txt", "Dockerfile"]


def test_no_pipe_or_socket_is_read(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite / "docker")
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert by_dockerfile(suite, "docker/Dockerfile").files == ("data.txt",)


def test_names_of_any_bytes(suite: Path) -> None:
    name = os.fsdecode(b"\xff\n$(x)")
    (suite / "docker" / name).write_text("kept")
    blueprint = by_dockerfile(suite, "docker/Dockerfile")
    assert (name, 0o644, "kept") in packed(blueprint)
    assert blueprint.key(IDS)


def test_the_same_content_has_the_same_key_anywhere(suite: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(suite, other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    for plan in (by_their_dockerfile, by_their_recipe):
        key = plan(suite).key(IDS)
        assert key == plan(other).key(IDS)
        assert len(key) == 64


def by_their_dockerfile(folder: Path) -> Blueprint:
    return by_dockerfile(folder, "docker/Dockerfile")


def by_their_recipe(folder: Path) -> Blueprint:
    return by_recipe(folder, folder / "repo", Environment())


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write(folder / "repo/requirements.txt", "x==2\n"),
        lambda folder: write(folder / "repo/new", ""),
        lambda folder: (folder / "repo/tests/test_x.py").unlink(),
        lambda folder: (folder / "repo/tests/test_x.py").rename(folder / "repo/tests/test_y.py"),
        lambda folder: (folder / "repo/tests/test_x.py").chmod(0o755),
        lambda folder: (folder / "repo/link").symlink_to("x"),
        lambda folder: write(folder / "repo/pyproject.toml", "[build-system]\n"),
    ],
)
def test_a_change_of_the_repository_changes_the_key(suite: Path, change: Callable[[Path], object]) -> None:
    before = by_their_recipe(suite).key(IDS)
    change(suite)
    assert by_their_recipe(suite).key(IDS) != before


@pytest.mark.parametrize(
    "environment",
    [Environment(base="base:2"), Environment(setup="true"), Environment(network=False)],
)
def test_a_change_of_the_environment_changes_the_key(suite: Path, environment: Environment) -> None:
    changed = by_recipe(suite, suite / "repo", environment)
    assert changed.key(IDS) != by_their_recipe(suite).key(IDS)


def test_a_change_of_the_dockerfile_or_the_base_changes_the_key(suite: Path) -> None:
    before = by_their_dockerfile(suite)
    assert before.key(IDS) != before.key(["sha256:2"])
    key = before.key(IDS)
    write(suite / "docker/Dockerfile", "FROM base:1\nCOPY . /y\n")
    assert by_their_dockerfile(suite).key(IDS) != key


def test_two_lists_of_files_never_look_alike(suite: Path) -> None:
    blueprint = by_their_dockerfile(suite)
    assert blueprint.key(["a", "b"]) != blueprint.key(["ab"])
    assert blueprint.key(["a", ""]) != blueprint.key(["", "a"])


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM a\n", ["a"]),
        (
            "# syntax=x\nARG V=1\nfrom --platform=linux/amd64 a:1 as build\nFROM b\nCOPY --from=build x y\n",
            ["a:1", "b"],
        ),
        (
            "FROM a AS One\nFROM one\nFROM scratch\nCOPY --from=0 x y\nCOPY --chown=1 --from=c:2 x y\n",
            ["a", "c:2"],
        ),
        ("FROM a\nRUN psql -c 'SELECT 1 \\\n FROM things'\nRUN x \\\n# FROM y\nFROM z\n", ["a"]),
        ("FROM \\\n  a\nFROM a\n", ["a"]),
        ("RUN true\n", []),
    ],
)
def test_what_a_dockerfile_starts_from(suite: Path, text: str, bases: list[str]) -> None:
    write(suite / "docker/Dockerfile", text)
    assert list(by_their_dockerfile(suite).bases) == bases


def test_a_variable_in_from_is_refused(suite: Path) -> None:
    write(suite / "docker/Dockerfile", "ARG V=1\nFROM base:${V}\n")
    with pytest.raises(SuiteError) as caught:
        by_their_dockerfile(suite)
    assert caught.value.message == f"{suite}/docker/Dockerfile: `FROM base:${{V}}` holds a variable"


@pytest.mark.parametrize(
    "name", ["Dockerfile", "tests/Dockerfile", "tasks/one/Dockerfile", "sub/../Dockerfile"]
)
def test_the_answers_are_in_no_context_of_a_dockerfile(suite: Path, name: str) -> None:
    (suite / "sub").mkdir()
    write(suite / name, "FROM base:1\n")
    with pytest.raises(SuiteError) as caught:
        by_dockerfile(suite, name)
    held_out = "tests" if name.startswith("tests") else "tasks"
    message = f"{suite}/suite.yml: `{name}` would copy {held_out}/, which holds the answers, into the image"
    assert caught.value.message == message
    assert "docker/" in caught.value.hint


@pytest.mark.parametrize("repo", [".", "tasks", "tasks/one", "tests"])
def test_the_answers_are_in_no_repository_that_is_set_up(suite: Path, repo: str) -> None:
    with pytest.raises(
        SuiteError, match=r"would copy (tasks|tests)/, which holds the answers, into the image"
    ):
        by_recipe(suite, suite / repo, Environment(base="x"))


def test_a_link_leads_to_no_answers(suite: Path) -> None:
    (suite / "docker/inner").symlink_to("../tasks/one")
    write(suite / "tasks/one/Dockerfile", "FROM base:1\n")
    with pytest.raises(SuiteError, match="which holds the answers"):
        by_dockerfile(suite, "docker/inner/Dockerfile")
    (suite / "docker/answers").symlink_to("../tasks/one/solution.patch")
    assert ("answers", 0o777, "../tasks/one/solution.patch") in packed(by_their_dockerfile(suite))


@pytest.mark.parametrize(
    "name", ["docker/No", "../Dockerfile", "docker", "docker/link", "/etc/hostname", "out/x"]
)
def test_a_dockerfile_lies_inside_of_the_suite(suite: Path, name: str) -> None:
    write(suite.parent / "Dockerfile", "FROM base:1\n")
    write(suite.parent / "outside/x", "FROM base:1\n")
    (suite / "docker/link").symlink_to("Dockerfile")
    (suite / "out").symlink_to("../outside")
    with pytest.raises(SuiteError) as caught:
        by_dockerfile(suite, name)
    assert caught.value.message == f"{suite}/suite.yml: no file `{name}` here"


def test_a_file_that_cannot_be_read_is_named(
    suite: Path, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    for folder in (suite, *suite.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    (suite / "docker/data.txt").chmod(0)
    blueprint = by_their_dockerfile(suite)

    def is_named() -> bool:
        with pytest.raises(SuiteError, match=r"docker/data\.txt: cannot be read \(Permission denied\)"):
            blueprint.key(IDS)
        with pytest.raises(SuiteError, match=r"docker/data\.txt: cannot be read"):
            blueprint.pack(io.BytesIO())
        return True

    assert as_nobody(is_named)
