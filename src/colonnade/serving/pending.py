"""Answers that somebody waits for: so many at once, until nobody answers any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from torch import Tensor

from colonnade.errors import ServiceBusy, ServiceEnded

__all__ = ["Pending", "give", "refuse"]

_MOST = 64  # that are waited for at once


class Pending:
    """What a service owes to whoever asked.

    Examples
    --------
    >>> pending, asked = Pending(), []
    >>> answer = pending.admit(asked.append)
    >>> give(asked[0], Tensor([0.5]))
    >>> answer.result()
    tensor([0.5000])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Future[Tensor]] = set()
        self._ended: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nobody answers any more."""
        return self._ended is not None

    def admit(self, begin: Callable[[Future[Tensor]], object]) -> Future[Tensor]:
        """Return an answer that is waited for from now on.

        Parameters
        ----------
        begin
            Called with it before anything ends, and has somebody see to it.

        Raises
        ------
        ServiceEnded
            If nobody answers any more.
        ServiceBusy
            If too many are waited for.
        """
        answer: Future[Tensor] = Future()
        answer.add_done_callback(self._close)
        with self._lock:
            if self._ended is not None:
                raise ServiceEnded(self._ended)
            if len(self._open) >= _MOST:
                raise ServiceBusy(f"{_MOST} requests wait already; ask again later")
            self._open.add(answer)
            begin(answer)
        return answer

    def end(self, why: str) -> None:
        """Admit nobody any more, and tell whoever waits."""
        with self._lock:
            self._ended = self._ended or why
            waiting = [*self._open]
        for answer in waiting:
            refuse(answer, ServiceEnded(why))

    def _close(self, answer: Future[Tensor]) -> None:
        with self._lock:
            self._open.discard(answer)


def give(answer: Future[Tensor], scores: Tensor) -> None:
    """Answer, unless the service has ended in the meantime, or nobody waits any more."""
    with suppress(InvalidStateError):
        answer.set_result(scores)


def refuse(answer: Future[Tensor], error: BaseException) -> None:
    """Say why there is no answer, unless there is one, or nobody waits any more."""
    with suppress(InvalidStateError):
        answer.set_exception(error)
