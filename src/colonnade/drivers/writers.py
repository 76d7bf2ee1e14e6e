"""A thread for each peer that writes what is sent to it, so that a role computes while it flies."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from colonnade.drivers.failures import failure
from colonnade.errors import ColonnadeError

__all__ = ["Writers"]

Item = TypeVar("Item")


class Writers(Generic[Item]):
    """Threads that write to peers, each in the order in which it was given what to write.

    Two that send to each other at once cannot block each other.

    Parameters
    ----------
    peers
        Their names.
    backlog
        What may wait to be written to one peer; one more waits. 0 for any number.
    write
        Writes to a peer. A ``ConnectionError`` says that it takes nothing any more: what else is
        for it is then dropped, and whoever watches the peer knows why.
    fail
        Takes what else went wrong.
    """

    def __init__(
        self,
        peers: Iterable[str],
        backlog: int,
        write: Callable[[str, Item], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._write, self._fail = write, fail
        self._queues: dict[str, queue.Queue[Item | None]] = {
            name: queue.Queue(maxsize=backlog) for name in peers
        }
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Write from now on."""
        for name in self._queues:
            thread = threading.Thread(target=self._work, args=(name,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def put(self, peer: str, item: Item) -> None:
        """Take something to write; wait while too much is waiting."""
        self._queues[peer].put(item)

    def finish(self) -> None:
        """Wait until all is written; nothing is taken any more."""
        for pending in self._queues.values():
            pending.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, peer: str) -> None:
        pending = self._queues[peer]
        try:
            while (item := pending.get()) is not None:
                self._write(peer, item)
            return
        except ConnectionError:
            pass
        except ColonnadeError as error:
            self._fail(error)
        except Exception as error:  # such as a lack of memory or of buffers
            self._fail(failure(f"messages to {peer!r} cannot be sent", error))
        while pending.get() is not None:
            pass  # so that the role, which has not heard of it yet, is not held up
