"""A run whose parts are all in one hand, asked again and again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.config.trained import NewPeople, Trained
from colonnade.errors import ConfigurationError
from colonnade.fallbacks import NOBODY, Fallbacks
from colonnade.serving.answers import State
from colonnade.serving.pending import Pending, give, refuse
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
        self._pending, self._one = Pending(), ThreadPoolExecutor(1, "answers")

    @property
    def state(self) -> State:
        """How the service stands."""
        return "ended" if self._pending.ended else "serving"

    def ask(self, rows: NDArray[np.int64]) -> Future[Tensor]:
        """See ``Answers``; one request is answered at a time."""
        return self._pending.admit(lambda answer: self._one.submit(self._answer, answer, rows))

    def end(self) -> None:
        """Answer nobody any more, tell whoever waits, and return when nothing is predicted."""
        self._pending.end("the service is over")
        self._one.shutdown()

    def _answer(self, answer: Future[Tensor], rows: NDArray[np.int64]) -> None:
        if answer.done():  # the service has ended in the meantime
            return
        try:
            scores = self._trained.predict_people(self._new.take(rows), self._without).scores
        except BaseException as error:  # it is raised where the answer is waited for
            refuse(answer, error)
        else:
            give(answer, scores)
