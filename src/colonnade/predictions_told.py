"""What the predictions of a run disclose together, counted and told.

A budget ends training, and a prediction is a release like those. Nobody tells a run which new rows
are of the same people, so it counts as if all its predictions were of the same rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.errors import PrivacyWarning
from colonnade.predictions_counted import PredictionCount

__all__ = ["Predicted"]


@dataclass
class Predicted:
    """How often a run has predicted, which its copies share.

    Parameters
    ----------
    times
        Calls, each of which released every row that it was given once.
    over
        Whether a row that was in all of them is known to be beyond the budget.
    kept
        Where it is counted for whoever else has the run, where that has a folder.
    """

    times: int = 0
    over: bool = False
    kept: PredictionCount | None = None

    def count(self) -> None:
        """Count a prediction that is about to be made.

        Raises
        ------
        DataError
            If what was counted before is damaged or gone.
        Unwritten
            If it cannot be written.
        """
        if self.kept is None or not self.kept.is_there:
            self.times += 1
        else:
            self.times = self.kept.add(self.times)

    def tell(self, once: Mapping[str, Any], whole: Mapping[str, Any], training: Any) -> None:
        """Warn at the first prediction, and where all of them together pass the budget.

        Parameters
        ----------
        once, whole
            The account of this prediction, and of a row that was in all of them.
        training
            That of training, ``summary["privacy_loss"]``.
        """
        spent = training or {}
        if once["epsilon"] is None and spent.get("epsilon") is None:
            return  # nothing was protected in training either, as the summary says
        budget = _value(spent.get("budget"))
        if self.times == 1:
            trained = f", which spent up to {_said(spent)}" if spent else ""
            limit = "" if math.isinf(budget) else f", and the budget of {budget:g} ends that alone"
            _warn(
                f"this prediction showed of its rows' embeddings: {_said(once)} for each row. "
                f"Predictions of the same row add up, and to training{trained}{limit}: keep what "
                "was predicted rather than predict a row again"
            )
        if not self.over and _value(whole["epsilon"]) > budget:
            self.over = True
            _warn(
                f"a row that was in all {self.times} predictions of this run is at {_said(whole)} "
                f"by them alone, and the budget was {budget:g}: do not predict a row again"
            )


def _warn(text: str) -> None:
    warnings.warn(text, PrivacyWarning, stacklevel=4)


def _value(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _said(loss: Mapping[str, Any]) -> str:
    if loss["epsilon"] is None:
        return "an epsilon that nothing bounds"
    return f"epsilon {loss['epsilon']:.3g} at delta {loss['delta']:g}"
