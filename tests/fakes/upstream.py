"""What lies behind a tunnel: servers on 127.0.0.1, and the way of a test to them."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from skillgate.bench.network.relay import connect
from skillgate.bench.network.tunnel import CLOCKS, Clocks, Door, Tunnel

HOST = "allowed.example"
PUBLIC = "93.184.215.14"
TIMEOUT_S = 10


class Upstream:
    """A server that gives each connection to `serve` in a thread; `port` is free as long as it lives."""

    def __init__(self, serve: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self.connections = 0
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._listener.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._threads.append(threading.Thread(target=self._work, args=(client,)))
                self._threads[-1].start()

    def _work(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(TIMEOUT_S)
            if self._tls is None:
                self._serve(client)
            else:
                with self._tls.wrap_socket(client, server_side=True) as closed:
                    self._serve(closed)


@contextmanager
def way_out(
    port: int,
    hosts: Sequence[str] = (HOST,),
    addresses: Sequence[str] = (PUBLIC,),
    clocks: Clocks = CLOCKS,
    dial: Callable[[str, int], Awaitable[socket.socket]] | None = None,
) -> Iterator[tuple[Door, int]]:
    """Open a door on 127.0.0.1 through which every allowed name leads to `port` there."""

    async def lead_there(address: str, _: int) -> socket.socket:
        return await connect("127.0.0.1", port)

    async def look_up(host: str, _: int) -> Sequence[str]:
        return addresses

    with closing(Tunnel(hosts, dial or lead_there, look_up, clocks)) as tunnel:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        yield tunnel.serve(listener), listener.getsockname()[1]


def knock(port: int) -> socket.socket:
    """Connect to a door."""
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_S)


def rest_of(client: socket.socket) -> bytes:
    """Read until the other side has ended."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def ask(port: int, head: bytes) -> bytes:
    """Send a head, return all that comes back."""
    with knock(port) as client:
        client.sendall(head)
        return rest_of(client)


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does in a moment."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def echo(client: socket.socket) -> None:
    """Send everything back, then end."""
    while chunk := client.recv(65536):
        client.sendall(chunk)


def say_hello(client: socket.socket) -> None:
    """Answer one HTTP request."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(65536)
    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")


def self_signed(folder: Path, host: str = HOST) -> tuple[ssl.SSLContext, Path]:
    """Return the server's side of TLS for a host, and the certificate that a client has to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_file = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key_file)
    return context, pem
