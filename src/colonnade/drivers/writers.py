"""A thread for each peer that writes what is sent to it, so that a role computes while it flies."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from colonnade.drivers.failures import ours

__all__ = ["Writers"]

Item = TypeVar("Item")

_LOOK = 0.1  # seconds after which it is looked whether a wait is in vain


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
        self._pending = {name: _Pending[Item](backlog) for name in peers}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Write from now on."""
        for name in self._pending:
            thread = threading.Thread(target=self._work, args=(name,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def put(self, peer: str, item: Item) -> None:
        """Take something to write; wait while too much is waiting."""
        self._pending[peer].put(item)

    def finish(
        self, seconds: float | None = None, over: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until all is written, for so long at most; nothing is taken any more.

        Where it is ``over``, nobody waits: writing may take without end.
        """
        for pending in self._pending.values():
            pending.end()
        until = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            while thread.is_alive() and not over():
                left = _LOOK if until is None else min(_LOOK, until - time.monotonic())
                if left <= 0:
                    break
                thread.join(left)

    def abandon(self) -> None:
        """Drop all that waits, and take nothing any more; nobody waits for room."""
        for pending in self._pending.values():
            pending.drop()

    def _work(self, peer: str) -> None:
        pending = self._pending[peer]
        try:
            while (item := pending.take()) is not None:
                self._write(peer, item)
        except ConnectionError:
            pass
        except Exception as error:  # such as a lack of memory or of buffers
            self._fail(ours(f"messages to {peer!r} cannot be sent", error))
        pending.drop()  # so that the role, which has not heard of it yet, is not held up


class _Pending(Generic[Item]):
    """What waits to be written to a peer: a queue with an end, as Python has from 3.13 on.

    Parameters
    ----------
    most
        How many there may be; 0 for any number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: deque[Item] = deque()
        self._has_ended = False
        self._changed = threading.Condition()

    def put(self, item: Item) -> None:
        """Take one more; wait while there are too many, and drop it after the end."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._most or len(self._items) < self._most or self._has_ended
            )
            if not self._has_ended:
                self._items.append(item)
                self._changed.notify_all()

    def take(self) -> Item | None:
        """Return the next one, as soon as it is there; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._has_ended)
            if not self._items:
                return None
            self._changed.notify_all()
            return self._items.popleft()

    def end(self) -> None:
        """Let those that are there be the last."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def drop(self) -> None:
        """Let there be none any more."""
        with self._changed:
            self._items.clear()
            self.end()
