"""Who answers the service's requests: the trained parts of one run, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.serving.people import People

__all__ = ["Answers", "State"]

State: TypeAlias = Literal["starting", "serving", "ended"]
"""How a service stands: parts are still meeting, it answers, or it never will again."""


class Answers(Protocol):
    """Predicts whoever is asked for; any thread may ask."""

    @property
    def run(self) -> str:
        """What the run is called."""
        ...

    @property
    def people(self) -> People:
        """Who can be asked for."""
        ...

    @property
    def classes(self) -> Sequence[Any] | None:
        """What each class stands for; None of numbers."""
        ...

    @property
    def threshold(self) -> float | None:
        """From which probability on the second of two classes is predicted."""
        ...

    @property
    def state(self) -> State:
        """How it stands."""
        ...

    def ask(self, rows: NDArray[np.int64]) -> Future[Tensor]:
        """Ask for the top model's outputs, a row for each that is asked for, and wait for nothing.

        Parameters
        ----------
        rows
            Which of the people, each once, at most as many as travel in one message.

        Raises
        ------
        ServiceEnded
            If nobody answers any more.
        ServiceBusy
            If too many others wait.
        ColonnadeError
            From the answer: if these cannot be predicted, or the service has ended since.
        """
        ...
