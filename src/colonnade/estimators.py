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
from colonnade.convergence import best_epoch, epochs_done, warn_if_improving
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
from colonnade.tables import HashSplit, IdForm, VerticalTables, as_frame, vertical_tables
from colonnade.tables.new_rows import Absent
from colonnade.tables.table import Table, as_table
from colonnade.tables.truth import check_index, truth, with_ids
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
        self.aligned = aligned
        self.normalise = normalise
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

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the epochs ran out with the metric of the validation rows still getting better.
        """
        data, holder = self._prepared(X, y)
        with self._watcher() as watcher:
            run = self._trained(data, holder, watcher, self.out)
        self.run_ = replace(run, record=None)
        self.batch_size_ = run.summary["batch_size"]
        self.n_iter_ = epochs_done(run)
        self.best_epoch_ = best_epoch(run)
        self.data_ = data.without_rows()
        self.parties_ = data.parties
        self.label_holder_ = holder
        self.n_features_in_ = sum(map(len, data.columns.values()))
        warn_if_improving(run, run.summary["epochs"], self.patience)
        return self

    def prediction(self, X: Any, *, absent: Absent = "error") -> Prediction:  # noqa: N803
        """Return the label holder's scores of new rows, whose they are, and what it took.

        Parameters
        ----------
        X
            As for ``fit``, without labels. Rows come back in the order of its first table.
        absent
            What happens to people of whom some table has no row: "error", or "drop", which leaves
            them out and counts them in ``left_out``.
        """
        check_is_fitted(self)
        return self._predicted(self._tables(X), absent)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the page of the training run, and return its path.

        Raises
        ------
        ConfigurationError
            If there is a file that Colonnade did not write.
        """
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
            normalise=self.normalise,
            aligned=self._are_aligned(),
            # Also of people whom the same seed has divided before.
            split=HashSplit(self.validation, 0.0, self.random_state, "fit"),
            transformers=self.transformers,
            task=self._task,
        )
        if self.validation and not self.metrics:
            _check_judges(data)
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
        >>> data = vertical_tables({"shop": shop}, [i % 2 for i in range(100)], aligned=True)
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
            check_index(y, X if isinstance(X, Mapping) and self.parties is None else {"X": X})
            return tables, with_ids(y, self.id), None
        owners = [name for name, table in tables.items() if y in table.schema]
        if len(owners) != 1:
            found = f"in the tables of {' and '.join(owners)}" if owners else "in no table"
            raise DataError(f"the column of labels {y!r} is {found}; it must be in one")
        owner = owners[0]
        table = tables[owner]
        labels = as_table(table, [y] if self.id is None else [self.id, y])
        tables[owner] = as_table(table, [name for name in table.schema if name != y])
        return tables, labels, owner

    def _tables(self, X: Any) -> dict[str, Table]:  # noqa: N803
        if isinstance(X, Mapping) and self.parties is None:
            return {name: as_table(table) for name, table in X.items()}
        if self.parties is None:
            raise ConfigurationError(
                "give each party's table in a dict, or one table and parties={name: columns}"
            )
        frame = as_frame(X)
        key = [] if self.id is None else [self.id]
        divided: dict[str, Table] = {}
        for name, columns in self.parties.items():
            absent = [column for column in (*key, *columns) if column not in frame.columns]
            if absent:
                raise DataError(f"the table has no column {absent[0]!r}, which {name!r} is to hold")
            divided[name] = as_table(frame.select([*key, *columns]))
        return divided

    def _predicted(self, tables: Mapping[str, Table], absent: Absent) -> Prediction:
        ids, features = self.data_.transform(tables, self.id, absent)
        prediction = self.run_.predict(features, self.driver)
        left_out = {} if ids is None else {n: t.height - len(ids) for n, t in tables.items()}
        return replace(prediction, ids=ids, left_out=left_out)

    def _compared(self, X: Any, y: Any, absent: Absent) -> tuple[Prediction, pl.Series]:  # noqa: N803
        """Return what is predicted, and the labels of the same rows."""
        check_is_fitted(self)
        tables, labels, _ = self._divided(X, y)
        prediction = self._predicted(tables, absent)
        return prediction, truth(
            labels, tables, self.id, prediction.ids, self._are_aligned(), self.normalise
        )

    def _are_aligned(self) -> bool:
        # Rows of one table that is divided by columns belong together.
        return self.aligned or (self.parties is not None and self.id is None)


def _check_judges(data: VerticalTables) -> None:
    """Refuse validation rows of one of two classes alone, by which no AUC is defined."""
    found = set(data.labels[torch.from_numpy(data.validation)].tolist())
    if data.classes is None or len(data.classes) != 2 or len(found) == 2:
        return
    lacking = min({0, 1} - found)
    raise DataError(
        f"the validation rows, {len(data.validation)} of {len(data.labels)}, have none of class "
        f"{data.classes[lacking]!r}, so they cannot judge a model; set more aside by a greater "
        "validation=, or none by validation=0, which trains all epochs"
    )


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
        The column that says whom a row is about, in every table. Without it tables must be of
        pandas and share an index that is more than a count, or be ``aligned``.
    aligned
        Whether row i is the same person in every table, also in those to be predicted.
    normalise
        The form in which ids are compared, where different hands have written them; see
        ``IdForm``.
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
    n_iter_
        How many epochs were trained.
    best_epoch_
        After which of them the model was best on the validation rows; None without such rows.
    data_
        How tables become features: the fitted transformers, the columns, the classes. The tables
        themselves are not kept: ``joblib.dump`` of a fitted estimator holds no row, id or label.

    Examples
    --------
    >>> people = range(300)
    >>> bank = pl.DataFrame({"income": [i * 37 % 100 for i in people]})
    >>> shop = pl.DataFrame({"spent": [i * 59 % 101 for i in people]})
    >>> bought = ["yes" if i * 37 % 100 + i * 59 % 101 > 100 else "no" for i in people]
    >>> model = VerticalClassifier(aligned=True, epochs=30, learning_rate=0.01, batch_size=32)
    >>> model.fit({"bank": bank, "shop": shop}, bought)
    VerticalClassifier(aligned=True, batch_size=32, epochs=30, learning_rate=0.01)
    >>> model.score({"bank": bank, "shop": shop}, bought) > 0.9
    True
    """

    _task = "classification"

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
        self.class_weight = class_weight
        self.threshold = threshold

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted; the columns of ``predict_proba``."""
        check_is_fitted(self, "data_")
        return np.array(self.data_.classes)

    def predict(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the predicted label of each row, in the order of the first table in ``X``.

        With ``absent="drop"`` people of whom some table has no row are left out, and a frame says
        whose the others are: the ids, and ``predicted``.
        """
        prediction = self.prediction(X, absent=absent)
        predicted = self.classes_[prediction.classes(self.threshold).numpy()]
        return predicted if absent == "error" else prediction.by_id({"predicted": predicted})

    def predict_proba(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the probability of each class, ``[rows, classes]``, rows as in ``predict``.

        With ``absent="drop"`` it is a frame: the ids, and a column for each class.
        """
        prediction = self.prediction(X, absent=absent)
        found = prediction.probabilities().numpy()
        if absent == "error":
            return found
        return prediction.by_id(dict(zip(map(str, self.classes_), found.T, strict=True)))

    def score(self, X: Any, y: Any, *, absent: Absent = "error") -> float:  # noqa: N803
        """Return the accuracy on new rows.

        Parameters
        ----------
        X, y
            As for ``fit``. Labels with ids are matched by these, in whatever order they are; labels
            without are one for each row, in the tables' common order.
        absent
            As for ``prediction``; those left out do not count.
        """
        prediction, truth = self._compared(X, y, absent)
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
    parties, id, aligned, normalise, method, hidden, top, activation, dropout, bottoms, \
    transformers, learning_rate, optimiser, scheduler, batch_size, epochs, validation, patience, \
    metrics, label_holder, driver, device, out, verbose, random_state
        As for ``VerticalClassifier``; the deciding metric is RMSE by default.

    Examples
    --------
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
        """Return R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2 on new rows, as of a classifier."""
        prediction, labels = self._compared(X, y, absent)
        predicted = prediction.scores.flatten().double()
        truth = torch.tensor(labels.to_list(), dtype=torch.float64)
        errors, spread = truth - predicted, truth - truth.mean()
        return 1 - float(errors.square().sum() / spread.square().sum())

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        return Regression(tuple(self.metrics))
