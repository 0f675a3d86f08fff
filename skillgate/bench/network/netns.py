"""A container's process -> a socket that listens inside its network namespace, held by us.

A socket stays in the namespace it was made in, whichever process uses it. So a thread enters
the namespace (setns), makes the socket there and ends; the container sees a service on its own
loopback and needs no network for it: no interface, no route, no resolver.

Entering needs root. Without, `sudo -n` runs this file, which sends the socket back through its
standard input. It imports nothing but the standard library and is run with `-I -S -B`: nothing
of the environment, the working folder, the user's or the site's packages is imported as root.
Whoever may write this file or the interpreter is the user who may become root anyway; where
sudo allows nothing but this one command, both have to belong to root.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOCAL_ENGINE = "http+docker://localhost"  # what the SDK calls an engine behind a socket of this machine

_CLONE_NEWNET = 0x40000000
_BACKLOG = 64
_INT = ctypes.sizeof(ctypes.c_int)
_SUDO_S = 20.0
# not the user's PATH: `sudo` is the one program here that has to be the real one
_PATHS = "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin"
_READY = b"ready"
_OWN_NAMESPACE = "/proc/self/ns/net"


def listen_inside(pid: int, container: str, port: int) -> socket.socket:
    """Listen on 127.0.0.1:`port` inside a container; the socket does not block and is not inherited.

    Args:
        pid: a process of the container as this machine numbers it (the engine's `State.Pid`).
        container: its whole id. The control groups of the process have to name it.

    Raises: OSError; ProcessLookupError when `pid` is no process of the container, or no longer.
    """
    words = (str(pid), container, str(port))
    listener = _work(*words) if os.geteuid() == 0 else _work_by_sudo(*words)
    if listener is None or listener.getsockname() != (LOOPBACK, port):
        raise OSError(errno.EPROTO, "the helper that ran as root sent no socket")
    listener.setblocking(False)
    return listener


def why_not(engine: str = LOCAL_ENGINE) -> str | None:
    """Return why `listen_inside` cannot work on this machine, None when it can.

    Args:
        engine: the base URL of the Docker SDK's client.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux lets another process into a container's network namespace"
    if engine != LOCAL_ENGINE:
        return "the Docker engine is on another machine"
    try:
        listener = _work() if os.geteuid() == 0 else _work_by_sudo()
    except OSError as problem:
        return f"it needs root, or sudo without password and input log ({problem.strerror or problem})"
    return None if listener is None else "the helper that ran as root is not ours"


def _work(*words: str) -> socket.socket | None:
    """Make the socket, as root; without words only try whether namespaces can be entered."""
    if not words:
        return _inside(os.open(_OWN_NAMESPACE, os.O_RDONLY), None)
    pid, container, port = words
    return _inside(_namespace_of(int(pid), container), int(port))


def _namespace_of(pid: int, container: str) -> int:
    """Open the network namespace of a process that is proven to be the container's.

    A number can be given to another process at any time. But a folder of /proc, once open, is
    that of one process: when it ends, what is in the folder can no longer be opened, whoever has
    the number then. So what its control groups say and the namespace are of the same process.
    """
    gone = ProcessLookupError(errno.ESRCH, f"{pid} is not a process of the container {container[:12]}")
    if len(container) != 64 or not container.isalnum():
        raise gone
    try:
        process = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        raise gone from None
    try:
        groups = os.open("cgroup", os.O_RDONLY, dir_fd=process)
        with os.fdopen(groups, encoding="utf-8", errors="replace") as file:
            if container not in file.read():
                raise gone
        namespace = os.open("ns/net", os.O_RDONLY, dir_fd=process)
    except (FileNotFoundError, ProcessLookupError):
        raise gone from None
    finally:
        os.close(process)
    if os.path.samestat(os.fstat(namespace), Path(_OWN_NAMESPACE).stat()):  # `--network host`
        os.close(namespace)
        raise PermissionError(errno.EPERM, "the container has no network namespace of its own")
    return namespace


def _inside(namespace: int, port: int | None) -> socket.socket | None:
    """Enter the namespace, which is closed, in a thread that ends, and listen there if a port is given."""
    made: list[socket.socket] = []
    problems: list[OSError] = []

    def enter() -> None:
        try:
            _setns(namespace)
            if port is not None:
                made.append(_listen(port))
        except OSError as problem:
            problems.append(problem)

    thread = threading.Thread(target=enter, name="skillgate-netns")
    thread.start()
    thread.join()
    os.close(namespace)
    if problems:
        raise problems[0]
    return made[0] if made else None


def _setns(namespace: int) -> None:
    """Move this thread; `os.setns` came with Python 3.12."""
    setns = getattr(ctypes.CDLL(None, use_errno=True), "setns", None)
    if setns is None:
        raise OSError(errno.ENOSYS, "this C library has no setns")
    if setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # connections that a door before this one has ended may still hold the port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _work_by_sudo(*words: str) -> socket.socket | None:
    """Have this file do `_work` as root; its socket, or its error, comes back through a socket pair."""
    file = str(Path(__file__).absolute())
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = subprocess.Popen(
                ["sudo", "-n", "--", sys.executable, "-I", "-S", "-B", file, *words],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env={"PATH": _PATHS, "LANG": "C.UTF-8"},
                start_new_session=True,  # no terminal to ask on, no Ctrl-C in the middle
            )
        said, listener = _receive(ours)
    try:
        complaint = helper.communicate(timeout=_SUDO_S)[1]
    except subprocess.TimeoutExpired:
        complaint = b"sudo does not end"
    if said != _READY:
        raise _problem(said, complaint)
    return listener


def _receive(ours: socket.socket) -> tuple[bytes, socket.socket | None]:
    """Wait for what the helper sends; nothing when it ended, or was not ready in time."""
    ours.settimeout(_SUDO_S)
    try:
        # `socket.recv_fds` drops its flags, and what another thread starts now would inherit the socket
        said, extra, _, _ = ours.recvmsg(512, socket.CMSG_LEN(_INT), socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        return b"", None
    sockets = [
        int.from_bytes(data[:_INT], sys.byteorder) for _, kind, data in extra if kind == socket.SCM_RIGHTS
    ]
    return said, socket.socket(fileno=sockets[0]) if sockets else None


def _problem(said: bytes, complaint: bytes) -> OSError:
    """Return the helper's own error, or what sudo said when there was no helper."""
    number, _, text = said.decode("utf-8", "replace").partition(" ")
    if number.isdigit():
        return OSError(int(number), text)
    lines = complaint.decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return PermissionError(errno.EPERM, "".join(c for c in last if c.isprintable())[:200])


def _send_back(words: list[str]) -> int:
    """Do the work of the helper: the socket of standard input gets the answer."""
    with socket.socket(fileno=os.dup(0)) as caller:
        try:
            listener = _work(*words)
        except OSError as problem:
            caller.sendall(f"{problem.errno or errno.EIO} {problem.strerror or problem}".encode())
            return 1
        if listener is None:
            caller.sendall(_READY)
        else:
            with listener:
                socket.send_fds(caller, [_READY], [listener.fileno()])
    return 0


if __name__ == "__main__":
    raise SystemExit(_send_back(sys.argv[1:]))
