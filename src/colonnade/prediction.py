"""Predictions for new rows, by the trained parts, through the uplink they were trained with."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colonnade.annotated import is_whole
from colonnade.batches import pieces
from colonnade.checks import check_features, embedding_width
from colonnade.drawing import drawing_by
from colonnade.drivers import Assignment, Driver, Simulate, checked_driver
from colonnade.effects import Role
from colonnade.errors import ConfigurationError, DataError
from colonnade.evaluation import HeldOut
from colonnade.fallbacks import NOBODY, Fallbacks, Lost, check_fallbacks, completed, constants_of
from colonnade.flows import Limits
from colonnade.layout import Layout
from colonnade.ledger import Ledger
from colonnade.models import Features, Fusion, Learner, shown, terms_of
from colonnade.organisations import Party, Transformer
from colonnade.predictions_told import disclosed_together, without_budget
from colonnade.roles import PredictLabelHolder, PredictParty
from colonnade.secure import Secrets
from colonnade.stragglers import Wait
from colonnade.streams import work_seed
from colonnade.tables.fitted import FittedTransformer
from colonnade.tables.in_order import check_ids_in_order, check_indices_in_order
from colonnade.tables.table import Table, keyed_tables
from colonnade.traces import Traces
from colonnade.uplinks import Uplink
from colonnade.wire import Purpose

__all__ = ["ROWS_TOGETHER", "Prediction", "Predictor", "class_names", "columns_of"]

ROWS_TOGETHER = 1024
"""Rows that travel in one message, where nobody says otherwise."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the label holder learns of new rows, and what it took.

    Parameters
    ----------
    scores
        The top model's outputs, a row for each new row: logits ``[n, C]``, or numbers.
    ledger
        Every message, with the purpose ``prediction``.
    ids
        Whose the rows are, where tables were aligned by ids.
    left_out
        For each table, how many of its rows are of people of whom another one has none.
    privacy_loss
        What this disclosed of each row, as ``summary["privacy_loss"]`` says it of a run's, but
        without a budget, which ends only training; None where the uplink keeps no account.
    privacy_loss_of_all
        The same of a row that was in this and all earlier predictions of the run; what training
        disclosed of a row comes besides. None, too, where nobody knows: of a run without a folder
        that was pickled, whose copies may have predicted, and by ``Predictor.predict_uncounted``.
    lost
        What constants in place of parties that have left lose, where that was measured.

    Examples
    --------
    >>> prediction = Prediction(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), Ledger())
    >>> prediction.classes()
    tensor([1, 0])
    """

    scores: Tensor
    ledger: Ledger
    ids: pl.Series | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    privacy_loss: Mapping[str, Any] | None = None
    privacy_loss_of_all: Mapping[str, Any] | None = None
    lost: Lost | None = None

    def by_id(self, columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
        """Return a frame of the ids and of these columns, a value for each row.

        The column of ids has another name where one of these has it.
        """
        ids = [] if self.ids is None else [self.ids.alias(_apart(self.ids.name, columns))]
        return pl.DataFrame([*ids, *(pl.Series(name, c) for name, c in columns.items())])

    def probabilities(self) -> Tensor:
        """Return the probability of each class, ``[n, C]``; a single logit s stands for (0, s).

        Raises
        ------
        ConfigurationError
            If the scores are those of no classifier.
        """
        return self._logits().softmax(dim=1)

    def classes(self, threshold: float | None = None) -> Tensor:
        """Return the predicted class of each row, int64 ``[n]``.

        Parameters
        ----------
        threshold
            With two classes: class 1 is predicted where its probability is at least this. By
            default the most probable class is.

        Raises
        ------
        ConfigurationError
            If the scores are those of no classifier, or there is a threshold and more classes.
        """
        logits = self._logits()
        if threshold is None:
            return logits.argmax(dim=1)
        if logits.shape[1] != 2 or not 0 < threshold < 1:
            raise ConfigurationError(
                f"a threshold is a probability of one of two classes, not {threshold} "
                f"with {logits.shape[1]} classes"
            )
        odds = math.log(threshold / (1 - threshold))
        return (logits[:, 1] - logits[:, 0] >= odds).long()

    def frame(
        self, key: str, classes: Sequence[Any] | None, threshold: float | None = None
    ) -> pl.DataFrame:
        """Return whose each row is, what is predicted, and of classes how probable each is.

        Parameters
        ----------
        key
            The column of whose rows they are.
        classes
            What each class stands for; None for numbers.
        threshold
            See ``classes``.
        """
        if classes is None:
            values = [pl.Series(self.scores.flatten().numpy())]
        else:
            chosen = self.classes(threshold).numpy()
            probabilities = self.probabilities().numpy().T
            values = [pl.Series(classes).gather(chosen), *map(pl.Series, probabilities)]
        whose = pl.Series(self.ids)
        return pl.DataFrame(dict(zip(columns_of(key, classes), [whose, *values], strict=True)))

    def _logits(self) -> Tensor:
        scores = self.scores
        if scores.dim() == 1:
            scores = scores[:, None]
        if scores.dim() != 2 or not scores.is_floating_point():
            raise ConfigurationError(f"these scores are not logits of classes: {shown(scores)}")
        if scores.shape[1] == 1:
            scores = torch.cat([torch.zeros_like(scores), scores], dim=1)
        return scores


@dataclass(frozen=True)
class Predictor:
    """The trained parts of all organisations, and how their embeddings meet.

    Parameters
    ----------
    label_holder
        Its name.
    models
        Each organisation's trained modules, in party order: ``bottom``, and the label holder's
        ``top``.
    widths
        How wide each organisation's embeddings are.
    uplink, fusion
        How embeddings of new rows reach the top model.
    devices
        Where each organisation's models compute.
    transformers
        Of organisations that brought tables: how those become features.
    examples
        Two rows of zeros in the form of each organisation's features, which show what its bottom
        model takes.
    seed
        Of the codecs' dither.
    classes
        What each class stands for; None for numbers, or where nobody said it.
    secrets
        Of parties that were given some, whose identities the others may know. What is predicted is
        never declared a simulation: the others draw from their systems. They are not pickled:
        whoever loads a predictor and has them gives them anew (``dataclasses.replace``).
    means
        The mean of each party's embeddings, where it is known here.
    traces
        By what it is seen that an organisation's ``features`` or ``labels`` are those that were
        trained on (``trace_of``), where that is known here. They are not pickled either.
    """

    label_holder: str
    models: Mapping[str, Mapping[str, nn.Module]]
    widths: Mapping[str, int]
    uplink: Uplink
    fusion: Fusion
    devices: Mapping[str, str | torch.device]
    transformers: Mapping[str, Transformer]
    examples: Mapping[str, Features]
    seed: int
    classes: tuple[Any, ...] | None = None
    secrets: Mapping[str, Secrets] = field(default_factory=dict)
    means: Mapping[str, Tensor] = field(default_factory=dict)
    traces: Mapping[str, Traces] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "secrets": {}, "traces": {}}

    def predict_uncounted(
        self,
        tables: Mapping[str, Any],
        driver: Driver | None = None,
        rows_per_message: int = ROWS_TOGETHER,
        *,
        without: Fallbacks = NOBODY,
        begin: Callable[[], object] | None = None,
    ) -> Prediction:
        """Predict rows that every organisation has, in the same order, and leave all accounts be.

        ``Run.predict`` counts what that discloses, adds it up and warns of it; this does nothing of
        the kind, however often the same rows are predicted.

        Parameters
        ----------
        tables
            For each organisation with columns: features as its bottom model takes them, or a table
            where it was trained from one.
        driver
            By default the simulator with an infinitely fast network.
        rows_per_message
            Rows that travel in one message.
        without
            Parties that have left, and what stands for each; nobody has their columns.
        begin
            Called when all is found to be in order, before anything leaves.

        Raises
        ------
        ConfigurationError
            If an organisation is missing, unknown, or has no transformer for its table, or nothing
            can stand for one.
        DataError
            If the rows or the values do not fit, or ids or pandas' indices contradict the order of
            the rows.
        """
        driver = Simulate() if driver is None else checked_driver(driver)
        _check_rows_per_message(rows_per_message)
        self._check_without(without)
        fusion = completed(self.fusion, constants_of(without, self.widths, self.means))
        self.uplink.check(fusion, Wait())
        with drawing_by(work_seed(self.seed, self.label_holder, "prediction", 0, 0)):
            features = self._features(tables, without)
            rows = self._rows(features)
            new = HeldOut("new", pieces(np.arange(rows, dtype=np.int64), rows_per_message))
            layout = self._layout(rows, without)
            names = layout.parties
            own = {name: self._with_models(name, columns) for name, columns in features.items()}
            holder = PredictLabelHolder(
                layout,
                Learner(
                    self.models[self.label_holder]["top"],
                    device=self.devices.get(self.label_holder, "cpu"),
                ),
                own.get(self.label_holder),
                self.uplink,
                fusion,
                new,
            )
            parties = [PredictParty(layout, own[name], self.uplink, new) for name in names]
        roles: list[Role] = [*parties, holder]
        flows = self.uplink.flows(layout, min(rows, rows_per_message), Purpose.PREDICTION)
        assignment = Assignment(seed=self.seed, limits=Limits.of(flows, len(new.pieces)))
        if begin is not None:
            begin()
        record = driver.run(roles, assignment)
        assert holder.predictions is not None
        spent = without_budget(holder.spent()) or None
        return Prediction(holder.predictions, record.ledger, privacy_loss=spent)

    def cost(self, times: Mapping[int, int]) -> dict[str, Any]:
        """Return what it discloses of a row to predict it so often; empty without an account.

        Parameters
        ----------
        times
            By how many parties take part.
        """
        layout = self._layout(1, NOBODY)
        return disclosed_together(self.uplink, layout, times, len(layout.parties))

    def parties(self, without: Fallbacks = NOBODY) -> int:
        """Return how many parties take part without these.

        Raises
        ------
        ConfigurationError
            If nothing can stand for one of them.
        """
        self._check_without(without)
        return len(self._layout(1, without).parties)

    def _check_without(self, without: Fallbacks) -> None:
        check_fallbacks(without, [name for name in self.widths if name != self.label_holder])

    def _layout(self, rows: int, without: Fallbacks) -> Layout:
        widths = {name: width for name, width in self.widths.items() if name not in without}
        names = tuple(name for name in widths if name != self.label_holder)
        terms = terms_of({name: self.models[name]["bottom"] for name in names})
        return Layout(names, self.label_holder, widths, rows, self.seed, terms=terms)

    def _features(self, tables: Mapping[str, Any], without: Fallbacks) -> dict[str, Features]:
        needed = [name for name in self.widths if name not in without]
        if not isinstance(tables, Mapping):
            raise ConfigurationError(
                f"a prediction needs the columns of {', '.join(needed)}, by name in a dict, "
                f"not {shown(tables)}"
            )
        if set(tables) != set(needed):
            raise ConfigurationError(
                f"a prediction needs the columns of {', '.join(needed)}, "
                f"but there are those of {', '.join(map(str, tables)) or 'nobody'}"
            )
        features: dict[str, Features] = {}
        read = self._in_one_order({n: tables[n] for n in needed if not _are_features(tables[n])})
        for name in needed:
            given: Any = read.get(name, tables[name])
            if _are_features(given):
                features[name] = given
            elif name in self.transformers:
                features[name] = self.transformers[name].transform(given)
            else:
                raise ConfigurationError(
                    f"{name!r} was trained on tensors and has no transformer for a table: "
                    f"give its features as tensors, not {shown(given)}"
                )
        return features

    def _in_one_order(self, tables: Mapping[str, Any]) -> dict[str, Table]:
        """Refuse tables that contradict the order of rows; return those that were read for it."""
        own = {name: self.transformers.get(name) for name in tables}
        known = {name: each for name, each in own.items() if isinstance(each, FittedTransformer)}
        whose = next((each for each in known.values() if each.id is not None), None)
        if whose is None or whose.id is None:
            check_indices_in_order(tables)
            return {}
        read = keyed_tables({name: tables[name] for name in known}, whose.id)
        if not check_ids_in_order(read, whose.id, whose.normalise) or len(known) < len(tables):
            check_indices_in_order(tables)
        return read

    def _rows(self, features: Mapping[str, Features]) -> int:
        """Return how many rows there are, of features that everybody's bottom model takes."""
        first = next(iter(features))
        example = _first(features[first])
        rows = len(example) if example.dim() else 0
        for name, columns in features.items():
            check_features(name, columns, rows, f"of {first!r}")
        if rows == 0:
            raise DataError("there is no row to predict")
        for name, columns in features.items():
            if name in self.examples and _form(columns) != _form(self.examples[name]):
                # It may take other forms than that of training: whether, only trying it tells.
                embedding_width(name, self.models[name]["bottom"], columns)
        return rows

    def _with_models(self, name: str, features: Features) -> Party:
        bottom = self.models[name]["bottom"]
        return Party(
            name,
            features,
            bottom,
            device=self.devices.get(name, "cpu"),
            secrets=self.secrets.get(name),
        )


def class_names(classes: Sequence[Any]) -> list[str]:
    """Return what classes are called, truth values as files write them.

    >>> class_names([False, True]), class_names([0, 1])
    (['false', 'true'], ['0', '1'])
    """
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in classes]


def columns_of(key: str, classes: Sequence[Any] | None) -> list[str]:
    """Return the columns of ``Prediction.frame``; the first has another name where that is taken.

    >>> columns_of("predicted", ["no", "yes"])
    ['predicted (id)', 'predicted', 'probability of no', 'probability of yes']
    """
    others = ["predicted", *(f"probability of {name}" for name in class_names(classes or ()))]
    return [_apart(key, others), *others]


def _apart(key: str, others: Collection[str]) -> str:
    """Return what the column of ids is called beside these."""
    while key in others:
        key = f"{key} (id)"
    return key


def _check_rows_per_message(rows: object) -> None:
    if not is_whole(rows) or rows < 1:
        raise ConfigurationError(
            f"rows_per_message must be a whole number, 1 or more, not {rows!r}"
        )


def _are_features(given: Any) -> bool:
    if isinstance(given, Mapping):
        return bool(given) and all(isinstance(values, Tensor) for values in given.values())
    return isinstance(given, Tensor)


def _form(features: Features) -> dict[str, Any]:
    """Return what a row of each tensor is like."""
    columns = {"": features} if isinstance(features, Tensor) else features
    return {name: (values.dtype, values.shape[1:]) for name, values in columns.items()}


def _first(features: Features) -> Tensor:
    return features if isinstance(features, Tensor) else next(iter(features.values()))
