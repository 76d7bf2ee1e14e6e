"""Requests that wait for the label holder's role."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.roles.serve import Asked
from colonnade.serving.answers import State
from colonnade.serving.pending import Pending, give, refuse

__all__ = ["Waiting"]

_LOOK = 0.2  # seconds after which a role that nobody asks may look at what else there is


class Waiting:
    """A ``Desk``, at which any thread asks and one role answers.

    Examples
    --------
    >>> waiting = Waiting()
    >>> answer = waiting.ask(np.array([3]))
    >>> waiting().answer(Tensor([0.5]))  # as the role does
    >>> answer.result()
    tensor([0.5000])
    """

    def __init__(self) -> None:
        self._requests: queue.Queue[Asked] = queue.Queue()
        self._pending = Pending()
        self._listened = False

    @property
    def state(self) -> State:
        """How the service stands."""
        if self._pending.ended:
            return "ended"
        return "serving" if self._listened else "starting"

    def __call__(self) -> Asked | None:
        """Return what is asked for next; None where that was nothing in a while."""
        self._listened = True
        try:
            return self._requests.get(timeout=_LOOK)
        except queue.Empty:
            return None

    def ask(self, rows: NDArray[np.int64]) -> Future[Tensor]:
        """Ask for these rows, and wait for nothing: the top model's outputs come when they do.

        Raises
        ------
        ServiceEnded
            If nobody answers any more; the answer raises it if that is so later.
        ServiceBusy
            If too many wait.
        """
        return self._pending.admit(
            lambda answer: self._requests.put(
                Asked(rows, partial(give, answer), partial(refuse, answer))
            )
        )

    def end(self, why: str) -> None:
        """Answer nobody any more, and tell whoever waits."""
        self._pending.end(why)
