"""A run whose parts are all in one hand, asked again and again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.config.trained import NewPeople, Trained
from colonnade.errors import ConfigurationError, ServiceEnded
from colonnade.fallbacks import NOBODY, Fallbacks
from colonnade.serving.answers import State
from colonnade.serving.people import People

__all__ = ["RunAnswers"]


class RunAnswers:
    """Answers of a run that a configuration made: in each the parts meet anew.

    Parameters
    ----------
    trained
        The run.
    new
        Who can be asked for.
    without
        Parties that have left, and what stands for each.

    Raises
    ------
    ConfigurationError
        If these people have no ids.
    """

    def __init__(self, trained: Trained, new: NewPeople, without: Fallbacks = NOBODY) -> None:
        if new.ids is None:
            raise ConfigurationError(
                "people are asked for by an id, and the tables of this run have none (data.id)"
            )
        self.people = People(new.ids, trained.form)
        self.classes: Sequence[Any] | None = trained.classes
        self.threshold = trained.config.objective.threshold
        folder = trained.run.folder
        self.run = trained.run.summary["method"] if folder is None else folder.name
        self._trained, self._new, self._without = trained, new, without
        self._alone = threading.Lock()
        self._ended = False

    @property
    def state(self) -> State:
        """How the service stands."""
        return "ended" if self._ended else "serving"

    def predict(self, rows: NDArray[np.int64]) -> Tensor:
        """See ``Answers``; one request at a time."""
        with self._alone:
            if self._ended:
                raise ServiceEnded("the service is over")
            return self._trained.predict_people(self._new.take(rows), self._without).scores

    def end(self) -> None:
        """Answer nobody any more; what is being answered is answered first."""
        with self._alone:
            self._ended = True
