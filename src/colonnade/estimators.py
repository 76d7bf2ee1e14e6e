"""Estimators in the manner of scikit-learn, over a federation of tables.

``fit`` takes the organisations' tables instead of one matrix; everything else is as one knows it:
parameters are stored untouched, ``clone`` and ``get_params`` work, fitted attributes end in an
underscore. The run behind a fitted estimator, with its bytes and seconds, is ``run_``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import nn

from colonnade import defaults
from colonnade.assembly import Blueprint, Layers, assemble
from colonnade.drivers import Driver
from colonnade.errors import ConfigurationError, DataError
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.metrics import Metric
from colonnade.models import Concat, OptimiserFactory, SchedulerFactory
from colonnade.objectives import Classification, Objective, Regression
from colonnade.partners import PartnerValues, partner_values
from colonnade.prediction import Prediction
from colonnade.progress import watched
from colonnade.reports import write_page
from colonnade.runs import Run
from colonnade.tables import HashSplit, VerticalTables, as_frame, vertical_tables
from colonnade.tables.frames import as_series
from colonnade.training import EarlyStopping, Training, Watcher

__all__ = ["VerticalClassifier", "VerticalRegressor"]


class _VerticalEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """What both estimators share."""

    _task: Literal["classification", "regression"]
    run_: Run

    def __init__(
        self,
        *,
        parties: Mapping[str, Sequence[str]] | None = None,
        id: str | None = None,
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
        metrics: Sequence[Metric] = (),
        label_holder: str | None = None,
        driver: Driver | None = None,
        device: str = "cpu",
        out: str | Path | None = None,
        verbose: bool = False,
        random_state: int = 0,
    ) -> None:
        self.parties = parties
        self.id = id
        self.method = method
        self.hidden = hidden
        self.top = top
        self.activation = activation
        self.dropout = dropout
        self.bottoms = bottoms
        self.transformers = transformers
        self.learning_rate = learning_rate
        self.optimiser = optimiser
        self.scheduler = scheduler
        self.batch_size = batch_size
        self.epochs = epochs
        self.validation = validation
        self.patience = patience
        self.metrics = metrics
        self.label_holder = label_holder
        self.driver = driver
        self.device = device
        self.out = out
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # scikit-learn's name
        """Train on the organisations' tables.

        Parameters
        ----------
        X
            For each party its table: a data frame of polars or pandas, or a dict of arrays. One
            table will do where ``parties`` says whose the columns are.
        y
            A label for each row; with ``id`` a table of ids and labels; or the name of a column of
            one of the tables, which is then taken out of it.

        Raises
        ------
        ConfigurationError
            If a parameter cannot be used.
        DataError
            If tables cannot be aligned or used.
        """
        data, holder = self._prepared(X, y)
        with self._watcher() as watcher:
            self.run_ = self._trained(data, holder, watcher, self.out)
        self.batch_size_ = self.run_.summary["batch_size"]
        self.data_ = data
        self.parties_ = data.parties
        self.label_holder_ = holder
        self.n_features_in_ = sum(map(len, data.columns.values()))
        return self

    def prediction(self, X: Any) -> Prediction:  # noqa: N803
        """Return the label holder's scores of new rows, and the messages that it took."""
        check_is_fitted(self)
        return self._predicted(X)[1]

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the page of the training run, and return its path."""
        check_is_fitted(self)
        path = Path(path)
        write_page(self.run_, path)
        return path

    def partner_values(self, X: Any, y: Any, seeds: Sequence[int] = (0,)) -> PartnerValues:  # noqa: N803
        """Train with everybody and without each party in turn, to see what its columns add.

        The metric is that of the validation rows, at the epoch that was best for each.

        Parameters
        ----------
        X, y
            As for ``fit``.
        seeds
            Random states to train from; three or more give a usable standard error.
        """
        data, holder = self._prepared(X, y)

        def train(partner: str | None, seed: int) -> Run:
            # The same people with everybody and without: whoever is left out took part in aligning.
            kept = {name: columns for name, columns in data.features.items() if name != partner}
            own = clone(self).set_params(
                random_state=seed,
                bottoms={k: v for k, v in (self.bottoms or {}).items() if k != partner},
            )
            run: Run = own._trained(replace(data, features=kept), holder, None, None)
            return run

        return partner_values(train, [name for name in data.parties if name != holder], seeds)

    # What the two differ in

    @abstractmethod
    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        """Return the outputs, loss and metrics for these classes, or for numbers."""

    def _prepared(self, X: Any, y: Any) -> tuple[VerticalTables, str]:  # noqa: N803
        """Return the aligned tables, and the name of the label holder."""
        tables, labels, owner = self._divided(X, y)
        data = vertical_tables(
            tables,
            labels,
            id=self.id,
            split=HashSplit(self.validation, 0.0, self.random_state),
            transformers=self.transformers,
            task=self._task,
        )
        return data, self.label_holder or owner or "label_holder"

    def _trained(
        self,
        data: VerticalTables,
        holder: str,
        watcher: Watcher | None,
        out: str | Path | None,
    ) -> Run:
        federation = self.federation(data, holder)
        return federation.train(self.method, self.training(), self.driver, out=out, watcher=watcher)

    def federation(self, data: VerticalTables, label_holder: str = "label_holder") -> Federation:
        """Return the federation that ``fit`` trains, over tables that are aligned already.

        Parameters
        ----------
        data
            What ``vertical_tables`` returns; its test rows are evaluated once, at the end.
        label_holder
            Who has the labels; a party that does holds its columns itself.

        Examples
        --------
        >>> shop = pl.DataFrame({"spent": range(100)})
        >>> data = vertical_tables({"shop": shop}, [i % 2 for i in range(100)])
        >>> model = VerticalClassifier()
        >>> model.federation(data).train(training=model.training()).summary["batch_size"]
        16
        """
        blueprint = Blueprint(
            self._objective(data.classes),
            label_holder,
            label_holder if label_holder in data.features else None,
            self._layers(),
            self.bottoms or {},
            self.top if isinstance(self.top, nn.Module) else self._layers(self.top),
            fusion=self.method.fusion if self.method else Concat(),
            optimiser=self.optimiser or partial(torch.optim.Adam, lr=self.learning_rate),
            scheduler=self.scheduler,
            device=self.device,
            seed=self.random_state,
        )
        return assemble(data, blueprint)

    def training(self) -> Training:
        """Return how long and in which steps ``fit`` trains."""
        stopping = EarlyStopping(self.patience) if self.validation and self.patience else None
        return Training(self.epochs, self.batch_size, self.random_state, early_stopping=stopping)

    # Reading parameters

    def _layers(self, widths: Sequence[int] | None = None) -> Layers:
        return Layers(
            tuple(self.hidden if widths is None else widths), self.activation, self.dropout
        )

    @contextmanager
    def _watcher(self) -> Iterator[Watcher | None]:
        if not self.verbose:
            yield None
            return
        with watched(1) as watch:
            yield watch.run(type(self).__name__)

    def _divided(self, X: Any, y: Any) -> tuple[dict[str, Any], Any, str | None]:  # noqa: N803
        """Return each party's table, the labels, and who had the column of labels, if anybody."""
        tables = self._tables(X)
        if not isinstance(y, str):
            return tables, y, None
        owners = [name for name, table in tables.items() if y in table.columns]
        if len(owners) != 1:
            found = f"in the tables of {' and '.join(owners)}" if owners else "in no table"
            raise DataError(f"the column of labels {y!r} is {found}; it must be in one")
        owner = owners[0]
        table = tables[owner]
        labels = table.select([y] if self.id is None else [self.id, y])
        tables[owner] = table.drop(y)
        return tables, labels if self.id is not None else labels[y], owner

    def _tables(self, X: Any) -> dict[str, pl.DataFrame]:  # noqa: N803
        if isinstance(X, Mapping) and self.parties is None:
            return {name: as_frame(table) for name, table in X.items()}
        if self.parties is None:
            raise ConfigurationError(
                "give each party's table in a dict, or one table and parties={name: columns}"
            )
        frame = as_frame(X)
        key = [] if self.id is None else [self.id]
        divided = {}
        for name, columns in self.parties.items():
            absent = [column for column in (*key, *columns) if column not in frame.columns]
            if absent:
                raise DataError(f"the table has no column {absent[0]!r}, which {name!r} is to hold")
            divided[name] = frame.select([*key, *columns])
        return divided

    def _predicted(self, X: Any) -> tuple[pl.Series | None, Prediction]:  # noqa: N803
        ids, features = self.data_.transform(self._tables(X))
        return ids, self.run_.predict(features, self.driver)

    def _truth(self, y: Any, ids: pl.Series | None) -> Any:
        """Return labels in the order of the predictions."""
        if self.id is None or ids is None or not hasattr(y, "columns"):
            return as_series(y)
        frame = as_frame(y)
        label = next(column for column in frame.columns if column != self.id)
        wanted = pl.DataFrame({self.id: ids})
        joined = wanted.join(frame, on=self.id, how="left", maintain_order="left")
        if joined[label].null_count():
            first = joined.filter(pl.col(label).is_null())[self.id][0]
            raise DataError(f"there is no label for the id {first!r}")
        return joined[label]


class VerticalClassifier(ClassifierMixin, _VerticalEstimator):  # type: ignore[misc]
    """A classifier over columns that several organisations hold.

    Every party gets a multi-layer perceptron over its own columns, the label holder a top model
    over their embeddings; they are trained by ``method``, in the simulator unless another driver is
    given. A share of the rows is set aside, training ends when the loss on them no longer improves,
    and the best model is kept. How the defaults were chosen, and what they are worth, is in
    ``docs/defaults.md``.

    Parameters
    ----------
    parties
        Where ``fit`` gets one table: whose the columns are, a dict from name to columns.
    id
        The column that says whom a row is about, in every table; None where row i is the same
        person everywhere.
    method
        A value from ``colonnade.methods``; vanilla split learning by default.
    hidden
        Widths of each bottom model's layers; the last is that of the embedding.
    top
        Widths of the top model's layers before its outputs, or a module. With ``()`` it adds what
        the companies contribute, and learns nothing that lies between them.
    activation
        identity, relu, sigmoid, tanh or gelu.
    dropout
        Probability that a component is dropped between layers.
    bottoms
        Bottom models of parties that differ: modules, or ``Layers``.
    transformers
        How tables become features: a scikit-learn transformer, or one for each party;
        ``TableTransformer()`` by default.
    learning_rate
        Of Adam, where no other optimiser is given.
    optimiser, scheduler
        Make the optimiser of some parameters, and the scheduler of an optimiser.
    batch_size
        Rows in a batch; "auto" for 16 to 512, by the number of training rows.
    epochs
        Passes over the training rows at most; "auto" for about 3000 rounds, in 15 to 100 epochs.
    validation
        The share of rows that is set aside; 0 for none, and no early stopping.
    patience
        Epochs without improvement of the loss on those rows after which training ends; None trains
        all of them.
    class_weight
        None, "balanced", or the weight of each class by its label.
    threshold
        With two classes: the probability from which the second is predicted.
    metrics
        What is reported, the deciding one first; AUC (two classes) or accuracy by default.
    label_holder
        Who has the labels. A party that does holds its columns itself. By default the party whose
        table had the column of labels, else an organisation of its own.
    driver
        What runs the organisations' roles.
    device
        Where models compute, as torch names it.
    out
        The run's folder, which must be new; None keeps everything in memory.
    verbose
        Whether to show a progress bar.
    random_state
        Decides everything random: the same twice gives the same bits.

    Attributes
    ----------
    classes_
        The labels, sorted.
    batch_size_
        Rows in a batch.
    run_
        The training run: summary, history, ledger, models.
    data_
        The aligned tables, with the fitted transformers.

    Examples
    --------
    >>> people = range(300)
    >>> bank = pl.DataFrame({"income": [i * 37 % 100 for i in people]})
    >>> shop = pl.DataFrame({"spent": [i * 59 % 101 for i in people]})
    >>> bought = ["yes" if i * 37 % 100 + i * 59 % 101 > 100 else "no" for i in people]
    >>> model = VerticalClassifier(epochs=30, learning_rate=0.01, batch_size=32)
    >>> model.fit({"bank": bank, "shop": shop}, bought)
    VerticalClassifier(batch_size=32, epochs=30, learning_rate=0.01)
    >>> model.score({"bank": bank, "shop": shop}, bought) > 0.9
    True
    """

    _task = "classification"

    def __init__(
        self,
        *,
        parties: Mapping[str, Sequence[str]] | None = None,
        id: str | None = None,
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
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        threshold: float | None = None,
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
        self.class_weight = class_weight
        self.threshold = threshold

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted; the columns of ``predict_proba``."""
        check_is_fitted(self, "data_")
        return np.array(self.data_.classes)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the predicted label of each row, in the order of the first table."""
        check_is_fitted(self)
        _, prediction = self._predicted(X)
        predicted: NDArray[Any] = self.classes_[prediction.classes(self.threshold).numpy()]
        return predicted

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the probability of each class, ``[rows, classes]``."""
        check_is_fitted(self)
        _, prediction = self._predicted(X)
        probabilities: NDArray[np.float32] = prediction.probabilities().numpy()
        return probabilities

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the accuracy on new rows; labels as for ``fit``."""
        check_is_fitted(self)
        tables, labels, _ = self._divided(X, y)
        ids, features = self.data_.transform(tables)
        prediction = self.run_.predict(features, self.driver)
        truth = self._truth(labels, ids)
        codes = {label: code for code, label in enumerate(self.data_.classes or ())}
        unknown = [label for label in truth.unique() if label not in codes]
        if unknown:
            raise DataError(
                f"the label {unknown[0]!r} was not among the training rows', "
                f"which are {', '.join(map(repr, codes))}"
            )
        predicted = prediction.classes(self.threshold)
        target = torch.tensor([codes[label] for label in truth])
        return float((predicted == target).double().mean())

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        assert classes is not None
        weights: Any = self.class_weight
        if isinstance(weights, Mapping):
            absent = [label for label in classes if label not in weights]
            if absent:
                raise ConfigurationError(f"class_weight has no weight for {absent[0]!r}")
            weights = tuple(float(weights[label]) for label in classes)
        return Classification(len(classes), weights, self.threshold, tuple(self.metrics))


class VerticalRegressor(RegressorMixin, _VerticalEstimator):  # type: ignore[misc]
    """A regressor over columns that several organisations hold.

    The network learns standardised targets; predictions are in the target's own unit.

    Parameters
    ----------
    parties, id, method, hidden, top, activation, dropout, bottoms, transformers, learning_rate, \
    optimiser, scheduler, batch_size, epochs, validation, patience, metrics, label_holder, driver, \
    device, out, verbose, random_state
        As for ``VerticalClassifier``; the deciding metric is RMSE by default.

    Examples
    --------
    >>> people = range(300)
    >>> bank = pl.DataFrame({"income": [float(i * 37 % 100) for i in people]})
    >>> shop = pl.DataFrame({"visits": [float(i * 59 % 100) for i in people]})
    >>> tables = {"bank": bank, "shop": shop}
    >>> spent = [i * 37 % 100 + 2 * (i * 59 % 100) for i in people]
    >>> model = VerticalRegressor(epochs=40, learning_rate=0.01, batch_size=32)
    >>> model.fit(tables, spent).score(tables, spent) > 0.9
    True
    """

    _task = "regression"

    def predict(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the predicted number of each row, in the order of the first table."""
        check_is_fitted(self)
        _, prediction = self._predicted(X)
        numbers: NDArray[np.float32] = prediction.scores.flatten().numpy()
        return numbers

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2 on new rows."""
        check_is_fitted(self)
        tables, labels, _ = self._divided(X, y)
        ids, features = self.data_.transform(tables)
        predicted = self.run_.predict(features, self.driver).scores.flatten().double()
        truth = torch.tensor(self._truth(labels, ids).to_list(), dtype=torch.float64)
        errors, spread = truth - predicted, truth - truth.mean()
        return 1 - float(errors.square().sum() / spread.square().sum())

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        return Regression(tuple(self.metrics))
