"""A door into a container without network, against a real engine: what it opens, and what it does not."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import docker
import pytest
from docker.models.containers import Container

from skillgate.bench.network import netns
from skillgate.bench.network.hosts import environment
from skillgate.bench.network.netns import listen_inside, why_not
from skillgate.bench.network.relay import connect
from skillgate.bench.network.tunnel import Door, Tunnel
from tests.fakes.upstream import HOST, PUBLIC, Upstream, echo, say_hello, self_signed, until

PORT = 3128
USER = "skillgate-ci"  # may become root by `sudo -n`; .ci/docker-engine makes it


class Box(NamedTuple):
    """A container as the sandbox makes them."""

    container: Container

    @property
    def pid(self) -> int:
        self.container.reload()
        return int(self.container.attrs["State"]["Pid"])

    @property
    def id(self) -> str:
        return str(self.container.id)

    def python(self, code: str, env: dict[str, str] | None = None) -> str:
        command = ["timeout", "20", "python3", "-c", code]
        return str(self.container.exec_run(command, user="1000:1000", environment=env).output.decode())

    def ask(self, target: str) -> str:
        """Return the first line of what the door answers."""
        return self.python(
            f"import socket; s = socket.create_connection(('127.0.0.1', {PORT}), 10);"
            f"s.sendall(b'CONNECT {target} HTTP/1.1\\r\\n\\r\\n');"
            "print(s.recv(4096).decode().splitlines()[0])"
        ).strip()


@contextmanager
def started(image: str, network: str = "none") -> Iterator[Box]:
    with closing(docker.from_env()) as client:
        container = client.containers.run(
            image,
            ["sleep", "infinity"],
            detach=True,
            init=True,
            user="65534:65534",
            network_mode=network,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=64,
        )
        try:
            yield Box(container)
        finally:
            container.remove(force=True)


@pytest.fixture(scope="module")
def box(docker_image: str) -> Iterator[Box]:
    with started(docker_image) as made:
        yield made


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    context, _ = self_signed(tmp_path_factory.mktemp("tls"))
    with closing(Upstream(say_hello, context)) as server:
        yield server


@pytest.fixture
def tunnel(upstream: Upstream) -> Iterator[Tunnel]:
    async def lead_there(address: str, port: int) -> socket.socket:
        assert (address, port) == (PUBLIC, 443)
        return await connect("127.0.0.1", upstream.port)

    async def look_up(host: str, port: int) -> list[str]:
        return [PUBLIC]

    with closing(Tunnel([HOST], lead_there, look_up)) as made:
        yield made


@pytest.fixture
def door(box: Box, tunnel: Tunnel) -> Iterator[Door]:
    with closing(tunnel.serve(listen_inside(box.pid, box.id, PORT))) as opened:
        yield opened


@pytest.mark.docker
def test_the_container_still_has_nothing_but_its_loopback(box: Box, door: Door) -> None:
    code = "import os; print(open('/proc/net/dev').read().count(':'), os.listdir('/sys/class/net'))"
    assert box.python(code) == "1 ['lo']\n"
    assert box.python("print(len(open('/proc/net/route').read().splitlines()))") in ("0\n", "1\n")
    v6 = "from pathlib import Path; print({line.split()[-1] for p in Path('/proc/net').glob('if_inet6')"
    assert box.python(f"{v6} for line in p.open()}})") in ("{'lo'}\n", "set()\n")
    assert "Network is unreachable" in box.python(
        "import socket; socket.create_connection(('192.0.2.1', 443), 2)"
    )
    assert "gaierror" in box.python(f"import socket; socket.getaddrinfo('{HOST}', 443)")


@pytest.mark.docker
def test_a_program_inside_reaches_what_is_listed_and_nothing_else(
    box: Box, door: Door, upstream: Upstream
) -> None:
    fetch = (
        "import ssl, sys, urllib.request\n"
        "try: print(urllib.request.urlopen(sys.argv[1], context=ssl._create_unverified_context()).read())\n"
        "except OSError as problem: print(problem)\n"
    )

    def get(url: str) -> str:
        return box.python(f"import sys; sys.argv.append({url!r})\n{fetch}", environment(PORT))

    assert get(f"https://{HOST}/") == "b'hello\\n'\n"
    assert get("https://other.example/") == (
        "<urlopen error Tunnel connection failed: 403 Not on the allow-list>\n"
    )
    assert get("http://plain.example/") == "HTTP Error 403: Not on the allow-list\n"
    assert (door.refused, door.broken, upstream.connections) == (
        ("other.example:443", "GET http://plain.example"),
        (),
        1,
    )


@pytest.mark.docker
def test_a_server_of_the_containers_own_is_not_asked_for_through_the_door(box: Box, door: Door) -> None:
    code = """if True:
        import http.server, threading, urllib.request
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        threading.Thread(target=server.handle_request).start()
        try: urllib.request.urlopen(f"http://localhost:{server.server_port}/")
        except OSError as problem: print(problem)
    """
    assert "HTTP Error 501" in box.python(code, environment(PORT))
    assert door.refused == ()


@pytest.mark.docker
def test_what_listens_on_the_hosts_loopback_stays_out_of_reach(box: Box, door: Door) -> None:
    with closing(Upstream(echo)) as service:
        direct = box.python(f"import socket; socket.create_connection(('127.0.0.1', {service.port}), 5)")
        assert "ConnectionRefusedError" in direct
        targets = [f"127.0.0.1:{service.port}", f"localhost:{service.port}", f"[::1]:{service.port}"]
        assert {box.ask(target) for target in targets} == {"HTTP/1.1 403 Not on the allow-list"}
        assert (door.refused, service.connections) == (tuple(targets), 0)
    with pytest.raises(OSError, match="refused"):  # and the door is not on the host's
        socket.create_connection(("127.0.0.1", PORT), 5)


@pytest.mark.docker
def test_nothing_answers_behind_a_closed_door(box: Box, door: Door) -> None:
    assert box.ask(f"{HOST}:443") == "HTTP/1.1 200 Connection established"
    door.close()
    assert "ConnectionRefusedError" in box.ask(f"{HOST}:443")


@pytest.mark.docker
def test_a_restarted_container_needs_a_new_door(docker_image: str, tunnel: Tunnel) -> None:
    with started(docker_image) as box:
        before = box.pid
        old = tunnel.serve(listen_inside(before, box.id, PORT))
        box.container.restart(timeout=0)
        assert "ConnectionRefusedError" in box.ask(f"{HOST}:443")  # it leads to a namespace that is gone
        with pytest.raises(ProcessLookupError):
            listen_inside(before, box.id, PORT)
        with closing(tunnel.serve(listen_inside(box.pid, box.id, PORT))):
            old.close()
            assert box.ask(f"{HOST}:443") == "HTTP/1.1 200 Connection established"


@pytest.mark.docker
def test_the_socket_is_ours_alone_and_we_stay_where_we_are(box: Box) -> None:
    here = namespaces()
    with closing(listen_inside(box.pid, box.id, PORT)) as listener:
        assert listener.getsockname() == ("127.0.0.1", PORT)
        assert (listener.getblocking(), listener.get_inheritable()) == (False, False)
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        with pytest.raises(OSError, match="Address already in use") as caught:
            listen_inside(box.pid, box.id, PORT)
        assert caught.value.errno == errno.EADDRINUSE
    assert len(here) == 1
    until(lambda: namespaces() == here)  # the kernel may end a thread a moment after Python has


def namespaces() -> set[str]:
    """Return those of all our threads."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has just ended
            found.add(str((task / "ns/net").readlink()))
    return found


@pytest.mark.docker
def test_a_process_that_is_not_the_containers_is_left_alone(box: Box, docker_image: str) -> None:
    pid = box.pid
    with started(docker_image) as other, subprocess.Popen(["sleep", "60"]) as ended:
        ended.kill()
        ended.wait()
        strangers = [
            (os.getpid(), box.id),
            (1, box.id),
            (other.pid, box.id),
            (pid, other.id),
            (ended.pid, box.id),
        ]
        for stranger, container in (*strangers, (pid, ""), (pid, box.id[:12]), (pid, "/" * 64)):
            with pytest.raises(ProcessLookupError, match="is not a process of the container"):
                listen_inside(stranger, container, PORT)
    with started(docker_image, "host") as open_box, pytest.raises(PermissionError, match="of its own"):
        listen_inside(open_box.pid, open_box.id, PORT)


def test_an_open_folder_of_a_process_is_no_other_process_that_gets_its_number() -> None:
    """What `_namespace_of` relies on: the kernel binds the open folder to the process, not to the number."""
    with subprocess.Popen(["sleep", "60"]) as process:
        folder = os.open(f"/proc/{process.pid}", os.O_PATH)
        os.close(os.open("cgroup", os.O_RDONLY, dir_fd=folder))
        process.kill()
        process.wait()
        for name in ("cgroup", "ns/net"):
            with pytest.raises((ProcessLookupError, FileNotFoundError)):
                os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)


@pytest.mark.docker
def test_three_hundred_doors_leave_no_file_and_no_thread(box: Box, tunnel: Tunnel) -> None:
    pid = box.pid

    def in_use() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    before = in_use()
    for _ in range(300):
        tunnel.serve(listen_inside(pid, box.id, PORT)).close()
        with pytest.raises(ProcessLookupError):
            listen_inside(pid, "0" * 64, PORT)
    assert in_use() == before


def test_another_machine_and_a_user_without_rights_are_told(
    as_nobody: Callable[[Callable[[], bool]], bool],
) -> None:
    assert why_not("http://engine.example:2375") == "the Docker engine is on another machine"
    if os.geteuid() == 0:  # otherwise this user may well have what it needs
        assert as_nobody(lambda: str(why_not()).startswith("it needs root, or sudo without password and "))
        assert as_nobody(lambda: _refused(lambda: listen_inside(1, "0" * 64, PORT)))


def _refused(work: Callable[[], object]) -> bool:
    try:
        work()
    except OSError as problem:
        return bool(problem.strerror) and "\n" not in str(problem)
    return False


@pytest.mark.docker
def test_this_machine_can() -> None:
    assert why_not() is None


AS_USER = """
import importlib.util, os, sys
file, evil, pid, container, port = sys.argv[1:]
spec = importlib.util.spec_from_file_location("netns", file)
netns = importlib.util.module_from_spec(spec)
spec.loader.exec_module(netns)
os.chdir(evil)
os.environ.update(PYTHONPATH=evil, PYTHONSTARTUP=evil + "/socket.py", PATH=evil + ":" + os.environ["PATH"])
assert os.geteuid() != 0
print(netns.why_not())
for wrong in ((int(pid), "0" * 64), (os.getpid(), container)):
    try: netns.listen_inside(*wrong, int(port))
    except ProcessLookupError as problem: print(problem.strerror.split()[1:7])
files = len(os.listdir("/proc/self/fd"))
for _ in range(3):
    netns.listen_inside(int(pid), container, int(port)).close()
listener = netns.listen_inside(int(pid), container, int(port))
print(listener.getsockname(), listener.getblocking(), listener.get_inheritable())
print(len(os.listdir("/proc/self/fd")) - files, flush=True)
listener.settimeout(20)
client, _ = listener.accept()
client.sendall(b"hello from outside")
"""


class User(NamedTuple):
    """How to run Python as somebody who is not root, but may become it."""

    command: list[str]
    folder: Path


@pytest.fixture
def user() -> Iterator[User]:
    """Find or be that user; its files are in a folder of its own, as a checkout may be closed to it."""
    as_user = f"setpriv --reuid={USER} --regid={USER} --init-groups -- env"  # `env` looks up without rights
    prefix = as_user.split() if os.geteuid() == 0 else []
    pythons = (sys.executable, "/usr/bin/python3")
    usable = [python for python in pythons if _runs([*prefix, python, "-c", ""])]
    if not usable or not _runs([*prefix, "sudo", "-n", "true"]):
        message = f"needs the user {USER} with sudo, as .ci/docker-engine makes it"
        if os.environ.get("SKILLGATE_REQUIRE_DOCKER") == "1":
            pytest.fail(f"SKILLGATE_REQUIRE_DOCKER=1 and this {message}", pytrace=False)
        pytest.skip(message)
    folder = Path(tempfile.mkdtemp(prefix="skillgate-netns-"))
    folder.chmod(0o755)
    yield User([*prefix, usable[0]], folder)
    shutil.rmtree(folder)


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.docker
def test_without_root_sudo_fetches_the_socket_and_imports_nothing_of_the_users(box: Box, user: User) -> None:
    evil, file, owned = user.folder / "evil", user.folder / "netns.py", user.folder / "owned"
    shutil.copy(netns.__file__, file)
    file.chmod(0o644)
    evil.mkdir()
    modules = ("socket", "ctypes", "threading", "subprocess", "sitecustomize", "usercustomize", "errno")
    for name in modules:
        for folder in (evil, user.folder):  # the working folder and PYTHONPATH, and beside the file
            (folder / f"{name}.py").write_text(f"open({str(owned)!r}, 'a').write({name!r})")
    (evil / "sudo").write_text(f'#!/bin/sh\necho sudo >> {owned}\nexec /usr/bin/sudo "$@"\n')
    (evil / "sudo").chmod(0o755)
    user.folder.chmod(0o777)  # whatever runs as the user can write the marker too
    words = [str(file), str(evil), str(box.pid), box.id, str(PORT)]
    command = [*user.command, "-I", "-S", "-c", AS_USER, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        said = box.python(
            f"import socket; print(socket.create_connection(('127.0.0.1', {PORT}), 10).recv(99))"
        )
        complaint = process.communicate(timeout=30)[1]
    wrong = "['is', 'not', 'a', 'process', 'of', 'the']\n"
    assert (lines, complaint) == (
        ["None\n", wrong, wrong, f"('127.0.0.1', {PORT}) False False\n", "1\n"],
        "",
    )
    assert said == "b'hello from outside'\n"
    assert not owned.exists()
