"""Numbers over columns that several organisations hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from torch import nn

from colonnade import defaults
from colonnade.assembly import Layers
from colonnade.drivers import Driver
from colonnade.estimators.estimator import VerticalEstimator
from colonnade.methods import Method
from colonnade.metrics import Metric, checked_metrics
from colonnade.models import OptimiserFactory, SchedulerFactory
from colonnade.objectives import Objective, Regression
from colonnade.tables import IdForm
from colonnade.tables.labels import encode_labels
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
    target_mean, target_scale
        About where targets lie and how far apart; by default as those of the training rows do. A
        defence of labels wants them given: see ``Regression``.

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

    def __init__(
        self,
        *,
        parties: Mapping[str, Sequence[str]] | None = None,
        id: str | None = None,
        aligned: bool = False,
        normalise: IdForm | None = None,
        method: Method | None = None,
        hidden: Sequence[int] = defaults.HIDDEN,
        top: Sequence[int] | nn.Module = defaults.TOP,
        activation: str = defaults.ACTIVATION,
        dropout: float = 0.0,
        bottoms: Mapping[str, nn.Module | Layers] | None = None,
        transformers: Any = None,
        learning_rate: float = defaults.LEARNING_RATE,
        optimiser: OptimiserFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        batch_size: int | Literal["auto"] = "auto",
        epochs: int | Literal["auto"] = "auto",
        validation: float = defaults.VALIDATION,
        patience: int | None = defaults.PATIENCE,
        target_mean: float | None = None,
        target_scale: float | None = None,
        metrics: Sequence[Metric] = (),
        label_holder: str | None = None,
        driver: Driver | None = None,
        device: str = "cpu",
        out: str | Path | None = None,
        verbose: bool = False,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            parties=parties,
            id=id,
            aligned=aligned,
            normalise=normalise,
            method=method,
            hidden=hidden,
            top=top,
            activation=activation,
            dropout=dropout,
            bottoms=bottoms,
            transformers=transformers,
            learning_rate=learning_rate,
            optimiser=optimiser,
            scheduler=scheduler,
            batch_size=batch_size,
            epochs=epochs,
            validation=validation,
            patience=patience,
            metrics=metrics,
            label_holder=label_holder,
            driver=driver,
            device=device,
            out=out,
            verbose=verbose,
            random_state=random_state,
        )
        self.target_mean = target_mean
        self.target_scale = target_scale

    def predict(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the predicted number of each row; order and ``absent`` as of a classifier.

        So a column of ids that is called ``predicted`` is ``predicted (id)`` in a frame.
        """
        prediction = self.prediction(X, absent=absent)
        numbers = prediction.scores.flatten().numpy()
        return numbers if absent == "error" else prediction.by_id({"predicted": numbers})

    def score(self, X: Any, y: Any, *, absent: Absent = "error") -> float:  # noqa: N803
        """Return R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2 on new rows, as of a classifier.

        As scikit-learn's ``r2_score``: of a constant y it is 1 if p is y throughout, and 0 else.
        """
        prediction, targets = self._compared(X, y, absent)
        return float(r2_score(targets, prediction.scores.flatten().double().numpy()))

    def _targets(self, labels: pl.Series) -> NDArray[Any]:
        encode_labels(labels, "regression")
        return labels.cast(pl.Float64).to_numpy()

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        return Regression(checked_metrics(self.metrics), self.target_mean, self.target_scale)
