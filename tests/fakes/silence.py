"""A proxy that answers nobody and writes down who was asked for: whoever talks to others is heard."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Silence:
    """The proxy of everything but loopback, while its `with` lasts."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        both = {"http_proxy": url, "https_proxy": url, "no_proxy": "127.0.0.1,localhost"}
        self.env = both | {name.upper(): value for name, value in both.items()} | {"NODE_USE_ENV_PROXY": "1"}

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.settimeout(2)
                self.heard.append(client.recv(4096).partition(b"\r\n")[0].decode("latin-1"))

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
