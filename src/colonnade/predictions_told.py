"""What the predictions of a run disclose together, counted and told.

A budget ends training, and a prediction is a release like those. Nobody tells a run which new rows
are of the same people, so it counts as if all its predictions were of the same rows.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.errors import PrivacyWarning
from colonnade.layout import Layout
from colonnade.predictions_counted import UNKNOWN, PredictionCount, Times
from colonnade.uplinks import Uplink
from colonnade.uplinks.account import most_told

__all__ = ["Predicted", "disclosed_together", "without_budget"]


def disclosed_together(
    uplink: Uplink, layout: Layout, times: Mapping[int, int], everybody: int
) -> dict[str, Any]:
    """Return what predictions disclosed of a row that was in all of them.

    Those of which nobody knows how many parties took part count as what discloses most.

    Parameters
    ----------
    uplink
        Of new rows.
    layout
        Of one of the predictions.
    times
        How often a run has predicted, by how many parties took part.
    everybody
        How many parties the run has.

    Returns
    -------
    dict
        As ``summary["privacy_loss"]`` says it of training, without what ends that alone; empty
        where the uplink keeps no account.
    """
    unknown = times.get(UNKNOWN, 0)
    known = Times({parties: count for parties, count in times.items() if parties != UNKNOWN})
    possible = range(1, everybody + 1) if unknown else (everybody,)
    told = [
        uplink.spending_of_predictions(layout, known + Times({parties: unknown}))
        for parties in possible
    ]
    return without_budget(most_told(told))


def without_budget(loss: Mapping[str, Any]) -> dict[str, Any]:
    """Return an account without what ends training alone."""
    return {name: value for name, value in loss.items() if name != "budget"}


_counting = threading.Lock()


@dataclass
class Predicted:
    """How often a run has predicted, which its copies in this process share.

    Once a run without a folder was pickled, nobody knows what all that were made of it predict. A
    process that was forked knows that it counts for itself alone, and who forked it knows nothing.

    Parameters
    ----------
    times
        Calls, each of which released every row that it was given once, by how many parties took
        part.
    over
        Whether a row that was in all of them is known to be beyond the budget.
    told
        The account that was told of the first one.
    untold
        How many were counted here, and none of them told yet.
    kept
        Where it is counted for whoever else has the run, where that has a folder.
    """

    times: Times = field(default_factory=Times)
    over: bool = False
    told: Mapping[str, Any] | None = None
    kept: PredictionCount | None = None
    untold: int = 0
    is_copied: bool = False
    """Whether it was pickled, or is a forked process's, and counts for itself alone since."""
    is_told_alone: bool = False
    """Whether that was told."""
    process: int = field(default_factory=os.getpid)

    def __deepcopy__(self, copied: object) -> Predicted:
        return self

    def __getstate__(self) -> dict[str, Any]:
        self.is_copied = self.kept is None
        return self.__dict__ | {"is_told_alone": False}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.process, self.is_copied = os.getpid(), self.kept is None

    def count(self, parties: int) -> None:
        """Count a prediction that is about to be made.

        Parameters
        ----------
        parties
            How many take part in it.

        Raises
        ------
        DataError
            If what was counted before is damaged or gone.
        Unwritten
            If it cannot be written.
        """
        with _counting:
            if self.kept is None:
                self.is_copied = self.is_copied or self.process != os.getpid()
                self.times[parties] += 1
            else:
                self.times = self.kept.add(parties, self.times)
            self.untold += 1

    def tell(self, once: Mapping[str, Any], whole: Mapping[str, Any], training: Any) -> None:
        """Warn at the first prediction, and where all of them together pass the budget.

        Parameters
        ----------
        once, whole
            The account of this prediction, of all that it sent, and of a row that was in all of
            them.
        training
            That of training, ``summary["privacy_loss"]``.
        """
        first, self.untold = self.times.total() == self.untold, 0
        spent = training or {}
        if not _protected(once, spent):
            return
        budget = _value(spent.get("budget"))
        if first:
            self.told = once
            trained = f", which spent up to {_said(spent)}" if spent else ""
            limit = "" if math.isinf(budget) else f", and the budget of {budget:g} ends that alone"
            _warn(
                f"this prediction showed of its rows' embeddings: {_said(once)} for each row. "
                f"Predictions of the same row add up, and to training{trained}{limit}: keep what "
                "was predicted rather than predict a row again"
            )
        if self.is_copied and not self.is_told_alone:
            self.is_told_alone = True
            _warn(
                "this run has no folder, and was pickled or is a forked process's, so what all "
                "copies of it disclose together is counted by nobody: train with out=, whose "
                "folder counts for all"
            )
        if not self.over and _value(whole["epsilon"]) > budget:
            self.over = True
            _warn(
                f"a row that was in all {self.times.total()} predictions of this run is at "
                f"{_said(whole)} by them alone, and the budget was {budget:g}: do not predict a "
                "row again"
            )

    def sentence(
        self, once: Mapping[str, Any] | None, whole: Mapping[str, Any] | None, training: Any
    ) -> str | None:
        """Return what a prediction and all of them showed; None where that was told, or nothing is.

        Parameters
        ----------
        once, whole, training
            As of ``tell``; None where no account is kept.
        """
        if not once or not whole or not _protected(once, training or {}):
            return None
        if whole == once == self.told:
            return None
        return (
            f"This prediction showed of its rows' embeddings: {_said(once)} for each row; a row "
            f"that was in all {self.times.total()} predictions of this run is at {_said(whole)} by "
            "them alone."
        )


def _protected(once: Mapping[str, Any], training: Mapping[str, Any]) -> bool:
    """Return whether something was: where nothing is in training either, its summary says so."""
    return once["epsilon"] is not None or training.get("epsilon") is not None


def _warn(text: str) -> None:
    warnings.warn(text, PrivacyWarning, stacklevel=5)


def _value(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _said(loss: Mapping[str, Any]) -> str:
    if loss["epsilon"] is None:
        return "an epsilon that nothing bounds"
    return f"epsilon {loss['epsilon']:.3g} at delta {loss['delta']:g}"
