"""Requests that wait for the label holder's role, and whoever asked waits for an answer."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future, InvalidStateError

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import ServiceBusy, ServiceEnded
from colonnade.roles.serve import Asked
from colonnade.serving.answers import State

__all__ = ["Waiting"]

_MOST = 64  # that wait at once
_LOOK = 0.2  # seconds after which a role that nobody asks may look at what else there is


class Waiting:
    """A ``Desk``, at which threads ask and one role answers.

    Examples
    --------
    >>> from threading import Thread
    >>> waiting = Waiting()
    >>> def play():
    ...     asked = None
    ...     while asked is None:
    ...         asked = waiting()
    ...     asked.answer(Tensor([0.5]))
    >>> role = Thread(target=play)
    >>> role.start()
    >>> waiting.ask(np.array([3]))
    tensor([0.5000])
    >>> role.join()
    """

    def __init__(self) -> None:
        self._requests: queue.Queue[Asked] = queue.Queue()
        self._lock = threading.Lock()
        self._open: set[Future[Tensor]] = set()
        self._ended: str | None = None
        self._listened = False

    @property
    def state(self) -> State:
        """How the service stands."""
        if self._ended is not None:
            return "ended"
        return "serving" if self._listened else "starting"

    def __call__(self) -> Asked | None:
        """Return what is asked for next; None where that was nothing in a while."""
        self._listened = True
        try:
            return self._requests.get(timeout=_LOOK)
        except queue.Empty:
            return None

    def ask(self, rows: NDArray[np.int64]) -> Tensor:
        """Ask for these rows, and wait for the top model's outputs.

        Raises
        ------
        ServiceEnded
            If nobody answers any more.
        ServiceBusy
            If too many wait.
        """
        answer: Future[Tensor] = Future()
        with self._lock:
            if self._ended is not None:
                raise ServiceEnded(self._ended)
            if len(self._open) >= _MOST:
                raise ServiceBusy(f"{_MOST} requests wait already; ask again later")
            self._open.add(answer)
        self._requests.put(Asked(rows, lambda scores: _give(answer, scores)))
        try:
            return answer.result()
        finally:
            with self._lock:
                self._open.discard(answer)

    def end(self, why: str) -> None:
        """Answer nobody any more, and tell whoever waits."""
        with self._lock:
            self._ended = self._ended or why
            waiting = [*self._open]
        for answer in waiting:
            try:
                answer.set_exception(ServiceEnded(why))
            except InvalidStateError:
                continue  # it was answered in the meantime


def _give(answer: Future[Tensor], scores: Tensor) -> None:
    try:
        answer.set_result(scores)
    except InvalidStateError:
        return  # the service has ended in the meantime
