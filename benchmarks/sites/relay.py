"""The network between a site and the server: a relay that can stall, or refuse."""

from __future__ import annotations

import contextlib
import socket
import threading

__all__ = ["Relay"]


class Relay:
    """Passes on what comes to a port of this machine, unless the network is away.

    Parameters
    ----------
    port
        Where it passes it on to, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._open: set[socket.socket] = set()
        self._changing = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Pass on nothing, and close nothing, until the network is back."""
        self._passes.clear()

    def refuse(self) -> None:
        """Close all connections, and take no other until the network is back."""
        with self._changing:
            self._refuses = True
            for end in self._open:
                _close(end)

    def restore(self) -> None:
        """Let the network be back."""
        self._refuses = False
        self._passes.set()

    def close(self) -> None:
        """End it."""
        self.refuse()
        _close(self._listening)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            with self._changing:
                if self._refuses:
                    _close(here)
                    continue
                try:
                    there = socket.create_connection(("127.0.0.1", self._to))
                except OSError:  # nobody is there, as without a relay
                    _close(here)
                    continue
                self._open |= {here, there}
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                self._passes.wait()
                sink.sendall(data)
        with self._changing:
            self._open -= {source, sink}
        _close(source)
        _close(sink)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
