"""What estimators share: parameters, training, and prediction by whom a row is about."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import nn

from colonnade import defaults
from colonnade.annotated import check_kind, is_number, is_whole
from colonnade.assembly import Blueprint, Layers, assemble
from colonnade.convergence import best_epoch, epochs_done, warn_if_improving
from colonnade.drivers import Driver
from colonnade.errors import ConfigurationError, DataError
from colonnade.estimators.given import Given, given, party_tables, tell_order
from colonnade.estimators.scalars import plain
from colonnade.federation import Federation
from colonnade.method import checked_method
from colonnade.methods import Method
from colonnade.metrics import Metric, checked_metrics
from colonnade.models import Concat, Features, OptimiserFactory, SchedulerFactory
from colonnade.objectives import Objective
from colonnade.partners import PartnerValues, partner_values
from colonnade.paths import as_path
from colonnade.prediction import Prediction
from colonnade.progress import watched
from colonnade.reports import write_page
from colonnade.runs import Run
from colonnade.tables import HashSplit, IdForm, VerticalTables, vertical_tables
from colonnade.tables.new_rows import Absent
from colonnade.tables.notes import tell
from colonnade.tables.table import Table
from colonnade.tables.truth import truth
from colonnade.telling import shown
from colonnade.training import EarlyStopping, Training, Watcher

__all__ = ["VerticalEstimator"]

_Parties: TypeAlias = Mapping[str, Sequence[str]] | None
_MANY = 0.2  # of the people with a label who are left out, of which is told


class VerticalEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
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
        DataWarning
            If more than a fifth of the people with a label are left out, since some company has no
            row of them; or columns, classes or ids should be looked at.
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
        self.label_column_ = y if isinstance(y, str) else None
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

        Warns
        -----
        PrivacyWarning
            If embeddings travel with noise: each call, also by ``predict``, ``predict_proba`` and
            ``score``, discloses more of its rows, and no budget holds for it. Take classes and
            probabilities from what one call returns.
        """
        check_is_fitted(self)
        if self.aligned:
            tell_order(X, parties=self.parties)
        tables = party_tables(X, self._parties_of_new_rows(), self.id)
        return self._predicted(tables, *self._transformed(tables, absent))

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the page of the training run, and return its path.

        Raises
        ------
        ConfigurationError
            If this is no path, or there is a file that Colonnade did not write.
        """
        check_is_fitted(self)
        page = as_path("a report is written to the path of a file", path)
        write_page(self.run_, page)
        return page

    def partner_values(
        self,
        X: Any,  # noqa: N803
        y: Any,
        seeds: int | Iterable[int] = (0,),
    ) -> PartnerValues:
        """Train with everybody and without each party in turn, to see what its columns add.

        The metric is that of the validation rows, at the epoch that was best for each.

        Parameters
        ----------
        X, y
            As for ``fit``.
        seeds
            Random states to train from, or how many: 3 is (0, 1, 2). Three or more give a usable
            standard error.

        Raises
        ------
        ConfigurationError
            If a seed is none, or there are not two parties besides the label holder.
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

    @abstractmethod
    def _targets(self, labels: pl.Series) -> NDArray[Any]:
        """Return labels of new rows as what predictions are compared with.

        Raises
        ------
        DataError
            If one is none that could have been trained on.
        """

    def _check_parameters(self) -> None:
        """Refuse what would be taken for something else, or fails in somebody else's words."""
        check_kind("bottoms", self.bottoms, Mapping[str, Any] | None)
        check_kind("label_holder", self.label_holder, str | None)
        if self.normalise is not None and not isinstance(self.normalise, IdForm):
            raise ConfigurationError(
                f"normalise must be an IdForm or None, not {self.normalise!r}: say "
                "colonnade.tables.IdForm(...)"
            )
        if not isinstance(self.aligned, bool | np.bool_):
            raise ConfigurationError(f"aligned must be True or False, not {self.aligned!r}")
        rate: Any = self.learning_rate
        if self.optimiser is None and not (is_number(rate) and 0 < _as_float(rate) < math.inf):
            raise ConfigurationError(
                f"learning_rate must be a number above 0, not {rate!r}: with none nothing is "
                "learned"
            )
        checked_metrics(self.metrics)

    def _prepared(self, X: Any, y: Any) -> tuple[VerticalTables, str]:  # noqa: N803
        """Return the aligned tables, and the name of the label holder."""
        self._check_parameters()
        tables, labels, owner = self._given(X, y, self.parties)
        data = vertical_tables(
            tables,
            labels,
            id=self.id,
            normalise=self.normalise,
            aligned=self._are_aligned(),
            # Also of people whom the same seed has divided before.
            split=HashSplit(plain(self.validation), 0.0, plain(self.random_state), "fit"),
            transformers=self.transformers,
            task=self._task,
        )
        if self.validation and not self.metrics:
            _check_judges(data)
        if (note := _left_out(data)) is not None:
            tell([note])
            data = replace(data, warnings=(*data.warnings, note))
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
        >>> from colonnade import VerticalClassifier
        >>> shop = pl.DataFrame({"spent": range(100)})
        >>> data = vertical_tables({"shop": shop}, [i % 2 for i in range(100)], aligned=True)
        >>> model = VerticalClassifier()
        >>> model.federation(data).train(training=model.training()).summary["batch_size"]
        16
        """
        self._check_parameters()
        check_kind("label_holder", label_holder, str)
        top: Any = self.top
        blueprint = Blueprint(
            self._objective(data.classes),
            label_holder,
            label_holder if label_holder in data.features else None,
            self._layers(),
            self.bottoms or {},
            self._layers(None if top is None else _widths("top", top)) if _are_widths(top) else top,
            fusion=Concat() if self.method is None else checked_method(self.method).fusion,
            optimiser=self._adam() if self.optimiser is None else self.optimiser,
            scheduler=self.scheduler,
            device=self.device,
            seed=plain(self.random_state),
        )
        return assemble(data, blueprint)

    def training(self) -> Training:
        """Return how long and in which steps ``fit`` trains."""
        stops = self.validation and self.patience is not None
        stopping = EarlyStopping(plain(self.patience)) if stops else None
        return Training(
            epochs=plain(self.epochs),
            batch_size=plain(self.batch_size),
            seed=plain(self.random_state),
            early_stopping=stopping,
        )

    # Reading parameters

    def _layers(self, widths: tuple[int, ...] | None = None) -> Layers:
        if widths is None:
            widths = _widths("hidden", self.hidden)
        return Layers(widths, self.activation, self.dropout)

    def _adam(self) -> OptimiserFactory:
        return partial(torch.optim.Adam, lr=float(self.learning_rate))

    @contextmanager
    def _watcher(self) -> Iterator[Watcher | None]:
        if not self.verbose:
            yield None
            return
        with watched(1) as watch:
            yield watch.run(type(self).__name__)

    def _given(self, X: Any, y: Any, parties: _Parties) -> Given:  # noqa: N803
        if self.aligned:
            tell_order(X, y, parties)
        return given(X, y, parties, self.id, self.aligned)

    def _parties_of_new_rows(self) -> _Parties:
        """Return whose the columns are; among them were, of whom had the labels, these too."""
        label = self.label_column_
        if label is None or not isinstance(self.parties, Mapping):
            return self.parties
        return {
            name: [each for each in columns if each != label] if label in columns else columns
            for name, columns in self.parties.items()
        }

    def _transformed(
        self, tables: Mapping[str, Table], absent: Absent
    ) -> tuple[pl.Series | None, dict[str, Features]]:
        aligned = self._are_aligned() or None  # else as in training
        return self.data_.transform(tables, self.id, absent, aligned)

    def _predicted(
        self, tables: Mapping[str, Table], ids: pl.Series | None, features: Mapping[str, Features]
    ) -> Prediction:
        prediction = self.run_.predict(features, self.driver)
        left_out = {} if ids is None else {n: t.height - len(ids) for n, t in tables.items()}
        return replace(prediction, ids=ids, left_out=left_out)

    def _compared(self, X: Any, y: Any, absent: Absent) -> tuple[Prediction, NDArray[Any]]:  # noqa: N803
        """Return what is predicted, and the targets of the same rows, which are read before."""
        check_is_fitted(self)
        parties = self.parties if isinstance(y, str) else self._parties_of_new_rows()
        tables, labels, _ = self._given(X, y, parties)
        ids, features = self._transformed(tables, absent)
        known = truth(labels, tables, self.id, ids, self._are_aligned(), self.normalise)
        targets = self._targets(known)
        return self._predicted(tables, ids, features), targets

    def _are_aligned(self) -> bool:
        # Rows of one table that is divided by columns belong together.
        return self.aligned or (self.parties is not None and self.id is None)


def _are_widths(top: object) -> bool:
    """Whether it is layers that were asked for, and no model."""
    if isinstance(top, Integral):
        return True
    return top is None or (isinstance(top, Iterable) and not isinstance(top, nn.Module | str))


def _widths(name: str, given: Any) -> tuple[int, ...]:
    """Return the widths of layers; one number is that of one layer, as scikit-learn takes it."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if is_whole(given):
        return (int(given),)
    alone = isinstance(given, str | bytes | torch.Tensor) or not isinstance(given, Iterable)
    widths = (given,) if alone else [*given]
    if not all(map(is_whole, widths)):
        raise ConfigurationError(
            f"{name} must be the widths of layers, such as (32, 16), not {shown(given)}"
        )
    return tuple(map(int, widths))


def _left_out(data: VerticalTables) -> str | None:
    """Return how many people with a label are left out, where they are many; None else."""
    people, kept = data.people, len(data.labels)
    if people is None or people["left_out"] <= _MANY * (people["left_out"] + kept):
        return None
    where = ", ".join(f"{name!r} ({count})" for name, count in people["absent"].items() if count)
    return (
        f"{people['left_out']} of {people['left_out'] + kept} people with a label are left out of "
        f"training, since there is no row of them at {where}; check the ids if you expected more "
        "of them to be there"
    )


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


def _as_float(value: Any) -> float:
    """Return a number as a float, without end where no float is as large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
