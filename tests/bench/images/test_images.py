"""The images of suites on a real engine; registries are on 127.0.0.1, set-ups get what they need from files.

pip and npm are the real ones, copied from this machine into an image of the tests; what they install
is used as a run does: as another user, on a read-only root, without network, over a mounted repository.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import uuid
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import docker
import pytest
from docker.errors import APIError, NotFound
from docker.types import Mount

from skillgate.bench.images import engine, images
from skillgate.bench.images.baked import Baked, find_baked
from skillgate.bench.images.engine import ImageBuildFailed, ImageMissing
from skillgate.bench.images.images import BUILT, Image, Images, masks
from skillgate.bench.images.recipe import Environment
from skillgate.errors import ExitCode, PrerequisiteError, SuiteError

ROOT = Path(__file__).parents[2]
MARK = f"skillgate.test={uuid.uuid4().hex}"  # inherited by every image that is made from ours


class Parts(NamedTuple):
    """What `Images` wants to know of a suite."""

    folder: Path
    name: str = "tiny"
    image: str | None = None
    dockerfile: str | None = None
    environment: Environment | None = None

    @property
    def repo(self) -> Path:
        return self.folder / "repo"


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_ours_stays() -> Iterator[None]:
    yield
    with suppress(PrerequisiteError):  # no engine, so no image either
        engine.ask_engine(remove_ours)


def remove_ours(client: docker.DockerClient) -> None:
    """Remove every image with our mark, also what builds that failed have left."""
    for container in client.containers.list(all=True, filters={"label": MARK}):
        container.remove(force=True, v=True)
    while found := client.images.list(all=True, filters={"label": MARK}):
        for image in found:
            for name in image.tags or [image.id]:
                with suppress(APIError):  # another one is made from it, and goes first
                    client.images.remove(name)
        assert len(client.images.list(all=True, filters={"label": MARK})) < len(found)


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    with closing(docker.from_env()) as opened:
        yield opened


@pytest.fixture(scope="session")
def base(client: docker.DockerClient, docker_image: str) -> str:
    """Return an image of our own like the one of all docker tests."""
    return make(client, "base", f"FROM {docker_image}\nLABEL {MARK}\n", {})


@pytest.fixture(scope="session")
def tools(client: docker.DockerClient, base: str) -> str:
    """Return an image with the pip and the npm of this machine."""
    pip, npm = importlib.util.find_spec("pip"), shutil.which("npm")
    if pip is None or pip.origin is None or npm is None:
        message = "needs a pip and an npm to copy"
        (pytest.fail if os.environ.get("SKILLGATE_REQUIRE_DOCKER") == "1" else pytest.skip)(message)
    text = f"""\
FROM {base}
COPY pip /usr/lib/python3/dist-packages/pip
COPY npm /usr/lib/node_modules/npm
RUN ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/bin/npm
"""
    return make(
        client, "tools", text, {"pip": Path(pip.origin).parent, "npm": Path(npm).resolve().parents[1]}
    )


def make(client: docker.DockerClient, name: str, text: str, folders: dict[str, Path]) -> str:
    tag = f"skillgate-test-{name}:{MARK[-12:]}"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for inside, folder in folders.items():
            tar.add(folder, inside, filter=lambda member: None if "__pycache__" in member.name else member)
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=tag, rm=True, network_mode="none")
    return tag


def write(path: Path, content: str | bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Parts:
    folder = tmp_path / "tiny"
    write(folder / "repo/README.md", "")
    write(folder / "tasks/one/solution.patch", "oracle-of-one")
    write(folder / "tests/held_out.py", "held-out-of-all")
    return Parts(folder)


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the search of an image, which takes seconds, where it is not what is tested."""
    monkeypatch.setattr(images, "search_image", lambda _: Baked((), ()))


def set_up(suite: Parts, base: str, setup: str | None = None, network: bool = False) -> Parts:
    return suite._replace(environment=Environment(base=base, setup=setup, network=network))


def from_nothing(suite: Parts, text: str = "") -> Parts:
    """Give the suite a Dockerfile whose image is made, and searched, in no time."""
    write(suite.folder / "docker/data", "")
    write(suite.folder / "docker/Dockerfile", f"FROM scratch\nLABEL {MARK}\nCOPY data /\n{text}")
    return suite._replace(dockerfile="docker/Dockerfile")


def inside(client: docker.DockerClient, image: Image, repo: Path | None, command: str) -> str:
    """Run a command as a sandbox does and return what it said; it must succeed."""
    env = [f"PATH={image.path}", "HOME=/home/agent", *image.env]
    mounts = [Mount("/workspace", str(repo), type="bind")] if repo else []
    mounts += [Mount(folder, None, type="tmpfs", tmpfs_mode=0o1777) for folder in ("/home/agent", "/tmp")]
    container = client.containers.create(
        image.id,
        ["env", "-i", *env, "sh", "-c", f"({command}) 2>&1"],
        entrypoint=[],
        labels={"skillgate": "1"},
        mounts=[*mounts, *masks(image)],
        working_dir="/workspace",
        user="1000:1000",
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )
    try:
        container.start()
        status = container.wait(timeout=60)["StatusCode"]
        output = bytes(container.logs()).decode()
    finally:
        container.remove(force=True, v=True)
    assert status == 0, output
    return output


# ---- what set-ups install


HELLO = """\
def hello():
    return "hello"
def main():
    print("hello from a script")
"""

BACKEND = '''\
"""Builds the editable wheel of this repository, as PEP 660 has it, without any dependency."""
import os, zipfile
def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("mine.pth", os.path.join(os.getcwd(), "src"))
        wheel.writestr("mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n")
        wheel.writestr("mine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n")
        wheel.writestr("mine-1.0.dist-info/RECORD", "")
    return name
'''

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["build"]
[project]
name = "mine"
version = "1.0"
"""


def write_wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": HELLO,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
        f"{info}/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def python_repo(repo: Path) -> None:
    write_wheel(repo / "wheels", "greet", "1.0")
    write(repo / "requirements.txt", "--no-index\n--find-links wheels\ngreet==1.0\n")
    write(repo / "pyproject.toml", PYPROJECT)
    write(repo / "build/backend.py", BACKEND)
    write(repo / "src/mine.py", "VALUE = 1\n")


def write_package(path: Path, version: str) -> str:
    """Write the tarball of an npm package `greet`; return its integrity."""
    manifest = {"name": "greet", "version": version, "main": "index.js", "bin": {"greet": "cli.js"}}
    files = {
        "package.json": (json.dumps(manifest), 0o644),
        "index.js": ("module.exports = () => 'hello'\n", 0o644),
        "cli.js": ("#!/usr/bin/env node\nconsole.log('hello from a script')\n", 0o755),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, (text, mode) in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(text), mode
            tar.addfile(info, io.BytesIO(text.encode()))
    return f"sha512-{base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()}"


def node_repo(repo: Path) -> None:
    """Write a project with a locked package, a workspace that uses it, and a linked folder."""
    integrity = write_package(repo / "vendor/greet.tgz", "1.0.0")
    wants = {"greet": "file:vendor/greet.tgz", "beside": "file:beside"}
    project = {
        "name": "app",
        "version": "1.0.0",
        "workspaces": ["packages/*"],
        "scripts": {"say": "greet"},
        "dependencies": wants,
    }
    greet = {
        "version": "1.0.0",
        "resolved": "file:vendor/greet.tgz",
        "integrity": integrity,
        "bin": {"greet": "cli.js"},
    }
    packages = {
        "": project,
        "beside": {"version": "1.0.0"},
        "node_modules/beside": {"resolved": "beside", "link": True},
        "node_modules/greet": greet,
        "node_modules/part": {"resolved": "packages/part", "link": True},
        "packages/part": {"version": "1.0.0", "dependencies": {"greet": "*"}},
    }
    lock = {"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}
    write(repo / "package.json", json.dumps(project))
    write(repo / "package-lock.json", json.dumps(lock))
    part = {"name": "part", "version": "1.0.0", "main": "i.js", "dependencies": {"greet": "*"}}
    write(repo / "packages/part/package.json", json.dumps(part))
    write(repo / "packages/part/i.js", "module.exports = () => 'part says ' + require('greet')()\n")
    write(repo / "beside/package.json", json.dumps({"name": "beside", "version": "1.0.0", "main": "i.js"}))
    write(repo / "beside/i.js", "module.exports = __filename\n")


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_what_pip_installed_is_there_in_a_run(client: docker.DockerClient, tools: str, suite: Parts) -> None:
    python_repo(suite.repo)
    image = Images().of(set_up(suite, tools), None)
    write(suite.repo / "src/mine.py", "VALUE = 2\n")  # what a run mounts, not what was set up
    asked = "import greet, mine; print(greet.hello(), greet.__file__, mine.VALUE, mine.__file__)"
    assert inside(client, image, suite.repo, f'id -u; python3 -c "{asked}"; greet; touch /x || true') == (
        "1000\nhello /usr/local/lib/python3.11/dist-packages/greet.py 2 /workspace/src/mine.py\n"
        "hello from a script\ntouch: cannot touch '/x': Read-only file system\n"
    )
    assert not [pair for pair in image.env if "PIP" in pair]


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_what_npm_installed_is_there_in_a_run(client: docker.DockerClient, tools: str, suite: Parts) -> None:
    node_repo(suite.repo)
    image = Images().of(set_up(suite, tools), None)
    assert image.path.startswith("/node_modules/.bin:")
    asked = "console.log(require('greet')(), require('part')(), require('beside'))"
    command = f'node -e "{asked}"; greet; node -e "import(\'greet\').then(m => console.log(m.default()))"'
    assert inside(client, image, suite.repo, command) == (
        "hello part says hello /workspace/beside/i.js\nhello from a script\nhello\n"
    )
    script = "npm run --silent say; cd packages && npm exec --no greet"  # a script's PATH is npm's own
    assert inside(client, image, suite.repo, f"({script}) 2>/dev/null") == "hello from a script\n" * 2


@pytest.mark.docker
def test_packages_that_a_run_would_not_see_are_refused(tools: str, suite: Parts) -> None:
    write_package(suite.repo / "vendor/greet-1.tgz", "1.0.0")
    write_package(suite.repo / "vendor/greet-2.tgz", "2.0.0")
    part = {"name": "part", "version": "1.0.0", "dependencies": {"greet": "file:../../vendor/greet-2.tgz"}}
    write(suite.repo / "packages/part/package.json", json.dumps(part))
    wants = {"greet": "file:vendor/greet-1.tgz"}
    project = {"name": "app", "version": "1.0.0", "workspaces": ["packages/*"], "dependencies": wants}
    write(suite.repo / "package.json", json.dumps(project))
    with pytest.raises(ImageBuildFailed) as caught:
        Images().of(set_up(suite, tools), None)
    said = "npm puts packages/part/node_modules/greet into the repository, which a run replaces"
    assert said in caught.value.message


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_a_setup_runs_as_root_beside_the_repository_with_or_without_network(
    client: docker.DockerClient, base: str, suite: Parts
) -> None:
    setup = """
id -u > /opt/told
pwd >> /opt/told
ls -A >> /opt/told
ls /sys/class/net >> /opt/told
"""
    image = Images().of(set_up(suite, base, setup), None)
    assert inside(client, image, suite.repo, "cat /opt/told") == "0\n/workspace\nREADME.md\nlo\n"
    image = Images().of(set_up(suite, base, setup, network=True), None)
    assert "eth0" in inside(client, image, suite.repo, "cat /opt/told")


# ---- what is built, and when


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tags of what is built from now on."""
    tags: list[str] = []

    def build(blueprint: Any, tag: str, key: str, suite: str) -> Any:
        tags.append(tag)
        return engine.build_image(blueprint, tag, key, suite)

    monkeypatch.setattr(images, "build_image", build)
    return tags


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_the_same_content_is_built_once_and_a_changed_one_again(
    client: docker.DockerClient, base: str, suite: Parts, built: list[str]
) -> None:
    python = suite._replace(environment=Environment(base=base, setup="true", network=False))
    write(suite.repo / "requirements.txt", "greet==1.0\n")
    first = Images().of(python, None)
    assert re.fullmatch(rf"{BUILT}:[0-9a-f]{{32}}", first.name)
    labels = client.images.get(first.name).labels
    assert (labels["skillgate"], labels["skillgate.key"][:32]) == ("1", first.name.split(":")[1])
    assert Images().of(python, None) == first
    write(suite.repo / "requirements.txt", "greet==1.1\n")
    second = Images().of(python, None)
    assert second.id != first.id
    write(suite.repo / "requirements.txt", "greet==1.0\n")
    assert Images().of(python, None) == first
    assert built == [first.name, second.name]


@pytest.mark.docker
def test_another_process_builds_nothing(client: docker.DockerClient, suite: Parts) -> None:
    made = Images().of(from_nothing(suite, "COPY data /another\n"), None)
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from skillgate.bench.images import images
from test_images import Parts
images.build_image = None
print(images.Images().of(Parts(Path({str(suite.folder)!r}), dockerfile="docker/Dockerfile"), None).id)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{made.id}\n", "")


@pytest.mark.docker
def test_a_tag_that_is_not_ours_is_not_believed(
    client: docker.DockerClient, suite: Parts, built: list[str]
) -> None:
    asked = from_nothing(suite, "COPY data /trusted\n")
    made = Images().of(asked, None)
    client.images.remove(made.name)
    other = Images().of(from_nothing(suite, "COPY data /planted\n"), None)
    client.images.get(other.name).tag(made.name)
    from_nothing(suite, "COPY data /trusted\n")
    again = Images().of(asked, None)
    assert (again.name, again.id == other.id) == (made.name, False)
    assert built == [made.name, other.name, made.name]


@pytest.mark.docker
def test_one_process_keeps_its_image(suite: Parts, built: list[str]) -> None:
    ours = Images()
    asked = from_nothing(suite, "COPY data /kept\n")
    first = ours.of(asked, None)
    write(suite.folder / "docker/data", "changed")
    assert ours.of(asked, None) == first
    assert len(built) == 1


@pytest.mark.docker
def test_callers_at_once_build_once(suite: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = from_nothing(suite, "COPY data /at-once\n")
    same = Parts(suite.folder, "another name", dockerfile="docker/../docker/Dockerfile")  # the same content
    ours, start, two_builds, tags = Images(), threading.Barrier(6), threading.Barrier(2), list[str]()

    def build(blueprint: Any, tag: str, *rest: str) -> Any:
        tags.append(tag)
        with suppress(threading.BrokenBarrierError):  # wait for a second one, which should not come
            two_builds.wait(0.5)
        return engine.build_image(blueprint, tag, *rest)

    def ask(number: int) -> Image:
        start.wait(20)
        return ours.of(same if number % 2 else asked, None)

    monkeypatch.setattr(images, "build_image", build)
    with ThreadPoolExecutor(6) as pool:
        (found,) = set(pool.map(ask, range(6)))
    assert tags == [found.name]


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_no_answer_is_in_an_image(client: docker.DockerClient, base: str, suite: Parts) -> None:
    image = Images().of(set_up(suite, base, "true"), None)
    look = "grep -rlE 'oracle-of-one|held-out-of-all' --exclude-dir=proc --exclude-dir=sys / 2>/dev/null"
    assert inside(client, image, None, f"ls; {look} || echo none") == "README.md\nnone\n"


@pytest.mark.docker
@pytest.mark.parametrize("dockerfile", ["Dockerfile", "tests/Dockerfile", "tasks/one/Dockerfile"])
def test_a_dockerfile_beside_the_answers_is_refused(suite: Parts, dockerfile: str) -> None:
    write(suite.folder / dockerfile, "FROM scratch\nCOPY . /\n")
    with pytest.raises(SuiteError, match="which holds the answers"):
        Images().of(suite._replace(dockerfile=dockerfile), None)


# ---- what a set-up that fails says


@pytest.mark.docker
def test_a_failing_setup_is_told_with_its_step_and_output(
    client: docker.DockerClient, base: str, suite: Parts
) -> None:
    setup = r"""for n in $(seq 40); do echo "line $n"; done
printf '\033[31mred\033[0m \342\200\256 x\n' >&2
exit 7"""
    before = containers(client)
    with pytest.raises(ImageBuildFailed) as caught:
        Images().of(set_up(suite, base, setup), None)
    step, *lines = caught.value.message.split("\n  ")
    assert step.startswith(
        'the image of suite `tiny` was not built: Step 6/8 : RUN ["sh", "-ec", "exec 2>&1\\nfor n in '
    )
    assert lines[:-1] == [*(f"line {n}" for n in range(27, 41)), "red  x"]
    assert lines[-1].endswith("returned a non-zero code: 7")
    assert caught.value.exit_code is ExitCode.PREREQUISITE
    assert "must be in the base image" in caught.value.hint
    assert containers(client) == before


def containers(client: docker.DockerClient) -> set[str]:
    return {
        str(one.id) for one in client.containers.list(all=True, ignore_removed=True, filters={"label": MARK})
    }


@pytest.mark.docker
def test_a_manifest_that_cannot_be_met_is_told(tools: str, suite: Parts) -> None:
    write(suite.repo / "requirements.txt", "--no-index\n--find-links wheels\nnot-there==1.0\n")
    (suite.repo / "wheels").mkdir()
    write(suite.repo / "wheels/readme", "")
    with pytest.raises(ImageBuildFailed) as caught:
        Images().of(set_up(suite, tools), None)
    assert "python3 -m pip install -r requirements.txt" in caught.value.message.splitlines()[0]
    assert "No matching distribution found for not-there==1.0" in caught.value.message


@pytest.mark.docker
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be empty"),
        ("NONSENSE x\n", "unknown instruction: NONSENSE"),
        ("FROM scratch\nCOPY missing /\n", "missing"),
    ],
)
def test_a_dockerfile_that_cannot_be_built_is_told(suite: Parts, text: str, said: str) -> None:
    write(suite.folder / "docker/Dockerfile", text)
    with pytest.raises(ImageBuildFailed, match=said):
        Images().of(suite._replace(dockerfile="docker/Dockerfile"), None)


@pytest.mark.docker
def test_a_setup_that_hangs_is_ended(
    client: docker.DockerClient, base: str, suite: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SILENT_S", 1)
    with gone(client, 1), pytest.raises(ImageBuildFailed, match="nothing was said for 1 s") as caught:
        Images().of(set_up(suite, base, "echo waits\nsleep 300"), None)
    assert "\n  waits\n" in caught.value.message


class gone:
    """Wait at the end until so many containers with our mark have started and were removed."""

    def __init__(self, client: docker.DockerClient, times: int) -> None:
        self._events = client.events(filters={"label": MARK, "event": ["start", "destroy"]}, decode=True)
        self._times = times
        self._clock = threading.Timer(20, self._events.close)

    def __enter__(self) -> gone:
        self._clock.start()
        return self

    def wait(self, action: str, times: int = 1) -> None:
        for event in self._events:
            times -= event["Action"] == action
            if not times:
                return
        raise AssertionError(f"no container: {action}")

    def __exit__(self, *_: object) -> None:
        try:
            self.wait("destroy", self._times)
        finally:
            self._clock.cancel()
            self._events.close()


@pytest.mark.docker
def test_a_killed_process_leaves_no_container(client: docker.DockerClient, base: str, suite: Parts) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_images import Images, Parts, set_up
Images().of(set_up(Parts(Path({str(suite.folder)!r})), {base!r}, "sleep 301"), None)
"""
    with gone(client, 1) as events:
        builder = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
        try:
            events.wait("start")
        finally:
            builder.send_signal(signal.SIGKILL)
            builder.wait()
    assert containers(client) == set()


# ---- images by name


class Registry(ThreadingHTTPServer):
    """A registry of images with one file each; asked for a digest in `lies`, it sends another image."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.asked: list[str] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def push(self, tag: str, content: str) -> str:
        """Make an image that `tag` leads to from now on; return its digest."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            info = tarfile.TarInfo("data")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
        plain = layer.getvalue()
        label, value = MARK.split("=")
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {label: value}, "Env": ["SAID=by the registry", "HOME=/x"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        }
        kind = "application/vnd.docker"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{kind}.distribution.manifest.v2+json",
            "config": self._add(json.dumps(config).encode(), f"{kind}.container.image.v1+json"),
            "layers": [self._add(plain, f"{kind}.image.rootfs.diff.tar")],
        }
        raw = json.dumps(manifest).encode()
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        self.manifests |= {tag: raw, digest: raw}
        return digest

    def _add(self, content: bytes, media_type: str) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return {"mediaType": media_type, "size": len(content), "digest": digest}


class _Answer(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        *_, kind, name = self.path.split("/")
        self.server.asked.append(self.path)
        found = {"manifests": self.server.manifests, "blobs": self.server.blobs}.get(kind, {"": b"{}"}).get(
            name
        )
        self.send_response(404 if found is None else 200)
        if kind == "manifests" and found is not None:
            self.send_header("Content-Type", json.loads(found)["mediaType"])
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(found).hexdigest()}")
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(found or b"")

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.docker
def test_an_image_that_is_not_here_is_pulled_once(registry: Registry, suite: Parts) -> None:
    digest = registry.push("1", "first")
    name = f"{registry.host}/it:1"
    found = Images().of(suite._replace(image=name), "never:asked")
    assert found == Image(
        name=name,
        id=found.id,
        digest=f"{registry.host}/it@{digest}",
        path=images.DEFAULT_PATH,
        env=("SAID=by the registry",),
    )
    asked = len(registry.asked)
    ours = Images()
    assert ours.of(suite, name) == found
    assert len(registry.asked) == asked
    registry.push("1", "moved")
    assert Images().of(suite, name).id == found.id  # until somebody pulls it
    assert ours.describe() == {f"image {name}": f"{registry.host}/it@{digest}"}


@pytest.mark.docker
@pytest.mark.parametrize("tag", ["", ":1"])
def test_a_digest_gives_the_same_image_when_the_tag_has_moved(
    registry: Registry, suite: Parts, client: docker.DockerClient, tag: str
) -> None:
    digest = registry.push("1", f"pinned {tag}")
    registry.push("1", f"moved {tag}")
    name = f"{registry.host}/it{tag}@{digest}"
    found = Images().of(suite._replace(image=name), None)
    assert found.digest == f"{registry.host}/it@{digest}"
    assert Images().of(suite._replace(image=name), None) == found


@pytest.mark.docker
def test_another_image_than_the_digest_says_is_refused(registry: Registry, suite: Parts) -> None:
    digest = registry.push("1", "the right one")
    registry.push("2", "a wrong one")
    registry.manifests[digest] = registry.manifests["2"]
    with pytest.raises(ImageMissing, match="cannot be pulled: manifest verification failed"):
        Images().of(suite._replace(image=f"{registry.host}/it@{digest}"), None)


@pytest.mark.docker
def test_an_image_that_cannot_be_pulled(registry: Registry, suite: Parts) -> None:
    name = f"{registry.host}/no-such:1"
    with pytest.raises(ImageMissing) as caught:
        Images().of(suite._replace(image=name), None)
    start = f"the image {name} is not on this machine and cannot be pulled: "
    assert caught.value.message.startswith(start)
    assert "404" in caught.value.message
    assert f"`docker pull {name}`" in caught.value.hint
    with pytest.raises(ImageMissing, match="connection refused"):
        Images().find("127.0.0.1:9/it:1")
    with pytest.raises(ImageMissing, match=r"`127.0.0.1:9/It` names no image: .*must be lowercase"):
        Images().find("127.0.0.1:9/It")


@pytest.mark.docker
def test_a_base_is_pulled_and_described(registry: Registry, suite: Parts) -> None:
    digest = registry.push("1", "a base")
    name = f"{registry.host}/base:1"
    ours = Images()
    made = ours.of(set_up(suite, name), None)
    assert ours.describe() == {
        f"image {name}": f"{registry.host}/base@{digest}",
        f"image {made.name}": made.id,
    }
    with pytest.raises(ImageMissing, match=r"/base:2 is not on this machine"):
        ours.of(set_up(suite, f"{registry.host}/base:2"), None)


@pytest.mark.docker
def test_no_image_is_named(suite: Parts) -> None:
    with pytest.raises(PrerequisiteError, match="no image is named") as caught:
        Images().of(suite, None)
    assert "run.image" in caught.value.hint


def test_no_engine(suite: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    write(suite.folder / "docker/Dockerfile", "FROM scratch\n")
    for asked in (suite._replace(image="x"), suite._replace(dockerfile="docker/Dockerfile")):
        with pytest.raises(PrerequisiteError, match="no Docker engine answers: ") as caught:
            Images().of(asked, None)
        assert type(caught.value) is PrerequisiteError


@pytest.mark.docker
def test_an_engine_that_fails_is_not_taken_for_none() -> None:
    with pytest.raises(PrerequisiteError, match="the Docker engine failed: ") as caught:
        engine.ask_engine(lambda client: client.containers.create("sha256:no-such", ["true"]))
    assert "docker system df" in caught.value.hint


# ---- what a run gets from an image


@pytest.mark.docker
@pytest.mark.usefixtures("unsearched")
def test_a_run_gets_the_variables_of_its_image_but_none_of_ours(
    client: docker.DockerClient, base: str, suite: Parts
) -> None:
    text = f"""\
FROM {base}
ENV GREETING="hello  world" EMPTY="" PATH=/opt/bin:$PATH HOME=/x TMPDIR=/x LANG=x TZ=x TESTS=/x RESULTS=/x
ENV PYTHONDONTWRITEBYTECODE="" EQUAL=a=b
"""
    write(suite.folder / "docker/Dockerfile", text)
    image = Images().of(suite._replace(dockerfile="docker/Dockerfile"), None)
    assert image.path == f"/opt/bin:{images.DEFAULT_PATH}"
    assert image.env == ("GREETING=hello  world", "EMPTY=", "EQUAL=a=b")
    assert inside(client, image, suite.repo, 'echo "$GREETING|$EMPTY|$EQUAL|$HOME|$TESTS"') == (
        "hello  world||a=b|/home/agent|\n"
    )


@pytest.mark.docker
def test_baked_skills_are_found_and_hidden(
    client: docker.DockerClient, base: str, suite: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""\
FROM {base}
COPY SKILL.md /root/.claude/skills/evil/
COPY SKILL.md /opt/x/.agents/skills/deep/er/
COPY SKILL.md /srv/tool/
COPY SKILL.md /etc/claude-code/.claude/skills/managed/
COPY SKILL.md /workspace/.claude/skills/mine/
COPY SKILL.md /usr/local/lib/python3.11/dist-packages/lib/skills/data/
RUN mkdir -p /home/y/.claude && ln -s /opt/x/.agents/skills /home/y/.claude/skills \\
 && ln -s /workspace/.claude/skills /home/y/skills && chmod 755 /root /root/.claude
VOLUME /opt/x
"""
    write(suite.folder / "docker/Dockerfile", text)
    write(suite.folder / "docker/SKILL.md", "baked")
    volumes: list[str] = []

    def note(members: Any) -> Any:
        (searched,) = client.containers.list(all=True, filters={"label": MARK, "status": "created"})
        volumes.extend(mount["Name"] for mount in searched.attrs["Mounts"])
        return find_baked(members)

    monkeypatch.setattr(engine, "find_baked", note)
    image = Images().of(suite._replace(dockerfile="docker/Dockerfile"), None)
    assert image.baked == ("/etc/claude-code", "/opt/x/.agents/skills", "/root/.claude/skills")
    assert image.skills == (
        "/etc/claude-code/.claude/skills/managed",
        "/opt/x/.agents/skills/deep/er",
        "/root/.claude/skills/evil",
        "/srv/tool",
        "/usr/local/lib/python3.11/dist-packages/lib/skills/data",
    )
    write(suite.repo / ".claude/skills/mine/SKILL.md", "under test")
    hidden = "/root/.claude/skills /opt/x/.agents/skills /etc/claude-code /home/y/.claude/skills/"
    look = f"for f in {hidden}; do ls -A $f | wc -l; touch $f/x 2>/dev/null && echo written; done"
    shown = "cat /home/y/skills/mine/SKILL.md; find / -name SKILL.md -not -path '/proc/*' 2>/dev/null | sort"
    left = (
        "under test/srv/tool/SKILL.md\n/usr/local/lib/python3.11/dist-packages/lib/skills/data/SKILL.md\n"
        "/workspace/.claude/skills/mine/SKILL.md\n"
    )
    assert inside(client, image, suite.repo, f"{look}; {shown} || true") == f"0\n0\n0\n0\n{left}"
    bare = image._replace(baked=())
    assert inside(client, bare, suite.repo, "cat /root/.claude/skills/evil/SKILL.md") == "baked"

    def refuse(image_id: str) -> None:
        raise AssertionError(f"{image_id} was searched before")

    monkeypatch.setattr(images, "search_image", refuse)
    assert Images().of(suite._replace(dockerfile="docker/Dockerfile"), None) == image
    assert containers(client) == set()
    with pytest.raises(NotFound):  # what VOLUME made for the search
        client.volumes.get(*volumes)
