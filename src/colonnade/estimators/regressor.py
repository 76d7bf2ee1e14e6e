"""Numbers over columns that several organisations hold."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from colonnade.estimators.estimator import VerticalEstimator
from colonnade.objectives import Objective, Regression
from colonnade.tables.new_rows import Absent

__all__ = ["VerticalRegressor"]


class VerticalRegressor(RegressorMixin, VerticalEstimator):  # type: ignore[misc]
    """A regressor over columns that several organisations hold.

    The network learns standardised targets; predictions are in the target's own unit.

    Parameters
    ----------
    parties, id, aligned, normalise, method, hidden, top, activation, dropout, bottoms, \
    transformers, learning_rate, optimiser, scheduler, batch_size, epochs, validation, patience, \
    metrics, label_holder, driver, device, out, verbose, random_state
        As for ``VerticalClassifier``; the deciding metric is RMSE by default.

    Examples
    --------
    >>> import polars as pl
    >>> people = range(300)
    >>> bank = pl.DataFrame({"income": [float(i * 37 % 100) for i in people]})
    >>> shop = pl.DataFrame({"visits": [float(i * 59 % 100) for i in people]})
    >>> tables = {"bank": bank, "shop": shop}
    >>> spent = [i * 37 % 100 + 2 * (i * 59 % 100) for i in people]
    >>> model = VerticalRegressor(aligned=True, epochs=40, learning_rate=0.01, batch_size=32)
    >>> model.fit(tables, spent).score(tables, spent) > 0.9
    True
    """

    _task = "regression"

    def predict(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the predicted number of each row; order and ``absent`` as of a classifier."""
        prediction = self.prediction(X, absent=absent)
        numbers = prediction.scores.flatten().numpy()
        return numbers if absent == "error" else prediction.by_id({"predicted": numbers})

    def score(self, X: Any, y: Any, *, absent: Absent = "error") -> float:  # noqa: N803
        """Return R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2 on new rows, as of a classifier.

        As scikit-learn's ``r2_score``: of a constant y it is 1 if p is y throughout, and 0 else.
        """
        prediction, labels = self._compared(X, y, absent)
        return float(r2_score(labels.to_numpy(), prediction.scores.flatten().double().numpy()))

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        return Regression(tuple(self.metrics))
