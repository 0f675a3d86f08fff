"""What answers on the loopback of one container: doors that are opened again at each of its starts."""

from __future__ import annotations

from skillgate.bench.network.netns import listen_inside
from skillgate.bench.sandbox import Door, Serve


class Doors:
    """The doors of one container; `refused` and `unreachable` are hosts that were asked for in vain."""

    def __init__(self, container: str) -> None:
        self._container = container
        self._pid: int | None = None
        self._ways: list[tuple[int, Serve]] = []
        self._open: list[Door] = []
        self.refused: tuple[str, ...] = ()
        self.unreachable: tuple[str, ...] = ()

    def add(self, port: int, serve: Serve) -> None:
        """Open one at this port at every start, and now when the container runs. Raises: OSError."""
        self._ways.append((port, serve))
        if self._pid is not None:
            self._open_one(self._pid, port, serve)

    def open(self, pid: int) -> None:
        """Open all in the network of the container, whose process this is. Raises: OSError."""
        self._pid = pid
        for port, serve in self._ways:
            self._open_one(pid, port, serve)

    def note(self) -> None:
        """Keep what was refused or failed until now."""
        for door in self._open:
            self.refused = tuple(dict.fromkeys((*self.refused, *door.refused)))
            self.unreachable = tuple(dict.fromkeys((*self.unreachable, *door.broken)))

    def close(self) -> None:
        """End every connection, and keep what was refused or failed."""
        self._pid = None
        for door in self._open:
            door.close()
        self.note()
        self._open.clear()

    def _open_one(self, pid: int, port: int, serve: Serve) -> None:
        self._open.append(serve(listen_inside(pid, self._container, port)))
