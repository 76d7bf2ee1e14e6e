"""A run that a configuration made, read from its folder with its models: to predict, to export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colonnade.annotated import check_kind
from colonnade.assembly import VerticalData
from colonnade.config.parse import parse_config
from colonnade.config.run import RunConfig
from colonnade.config.same_data import changes_since
from colonnade.config.tables import TablesConfig, check_sources
from colonnade.errors import ColonnadeError, ConfigurationError, DataError
from colonnade.export import Part, blank
from colonnade.fallbacks import NOBODY, Fallbacks, Lost, check_fallbacks, lost_by
from colonnade.federation import Federation
from colonnade.ledger import Ledger
from colonnade.models import Features, take
from colonnade.organisations import Transformer
from colonnade.prediction import Prediction, columns_of
from colonnade.predictions_told import Predicted
from colonnade.run_folder import RunFolder
from colonnade.run_read import check_has_parts, load_means, load_parts, load_run
from colonnade.runs import Run
from colonnade.streamed import RowEncoder
from colonnade.tables import FittedTransformer, IdForm, VerticalTables
from colonnade.tables.new_rows import Absent, features_of_new_rows
from colonnade.tables.notes import tell
from colonnade.tables.table import keyed_tables
from colonnade.telling import first_line

__all__ = ["NewPeople", "Rows", "Trained", "load_trained", "transformer_of"]

_ROW = "row"

Rows: TypeAlias = Literal["train", "validation", "test"]
"""Some of the rows that a run was trained and tested on."""


@dataclass(frozen=True, eq=False)
class NewPeople:
    """Rows of people who can be predicted, the same at every party.

    Parameters
    ----------
    ids
        Whose they are; None where tables have no ids.
    features
        Those of each part of the data.
    left_out
        For each table, how many of its rows are of people of whom another one has none.
    """

    ids: pl.Series | None
    features: Mapping[str, Features]
    left_out: Mapping[str, int]

    def take(self, rows: NDArray[np.int64]) -> NewPeople:
        """Return some of them, in this order."""
        features = {name: take(each, rows) for name, each in self.features.items()}
        return replace(self, ids=None if self.ids is None else self.ids[rows], features=features)


@dataclass(frozen=True)
class Trained:
    """A run with its models, and the configuration that made it.

    Parameters
    ----------
    run
        The run; it predicts and exports as the one that training returned.
    config
        What made it.
    """

    run: Run
    config: RunConfig

    def predict_tables(
        self,
        sources: Mapping[str, str | Path] | None = None,
        absent: Absent = "error",
        without: Fallbacks = NOBODY,
    ) -> Prediction:
        """Predict the people of new tables, or all whom the run's own tables have.

        Parameters
        ----------
        sources
            For parties whose new rows are elsewhere: a file, or the URL of a database; how it is
            read the run's configuration says.
        absent
            What becomes of people of whom some table has no row: "error", or "drop" to leave them
            out, counted in ``left_out``.
        without
            Parties that have left, and what stands for each: see ``Run.predict``. What is lost by
            it is measured on the run's validation rows (``lost``). These are predicted as well if
            they are not among the rows of the run's own tables that are predicted; who is in both
            predictions is in ``privacy_loss`` twice.

        Raises
        ------
        ConfigurationError
            If the run was not trained on tables, somebody named is no party of it, or a source is
            no file or URL.
        DataError
            If a table cannot be read, or its rows not be predicted.
        """
        new = self.new_people(sources, absent, without)
        found = self._people(new, without)
        if without and (data := self._measurable(without)) is not None:
            places = None if sources else self._places(data, found)
            found = self._measured(found, without, data, places)
        return self.run.told(found)

    def new_people(
        self,
        sources: Mapping[str, str | Path] | None = None,
        absent: Absent = "error",
        without: Fallbacks = NOBODY,
    ) -> NewPeople:
        """Read the people of new tables; arguments and errors are those of ``predict_tables``."""
        data = self.config.data
        if not isinstance(data, TablesConfig):
            raise ConfigurationError(
                f"this run was trained on {data.name}, not on tables: predict some of its own rows "
                "(--rows test), or features of yours by load_trained(folder).run.predict(features)"
            )
        sources = {} if sources is None else sources
        check_sources(sources)
        assert self.run.predictor is not None
        transformers = self.run.predictor.transformers
        parties = data.taking_part
        check_fallbacks(without, [name for name in parties if self._owner(name) == name])
        if returned := sorted(set(sources) & set(without)):
            raise ConfigurationError(f"{returned[0]!r} has left, and has a table of new rows")
        if lacking := [name for name in parties if self._owner(name) not in transformers]:
            raise DataError(
                f"the part of {lacking[0]!r} does not say how a table becomes features, though "
                "this run was trained on tables: it was changed"
            )
        text = {party: transformers[self._owner(party)].text_columns for party in parties}
        tables = keyed_tables(data.tables_of_new_rows(sources, text, [*without]), data.id)
        ids, features, notes = features_of_new_rows(
            tables,
            {party: transformers[self._owner(party)] for party in tables},
            data.id,
            aligned=data.aligned,
            normalise=data.form(),
            absent=absent,
        )
        tell(notes)
        known = None if ids is None else len(ids)
        left_out = {
            name: table.height - known for name, table in tables.items() if known is not None
        }
        return NewPeople(ids, features, left_out)

    def predict_people(self, new: NewPeople, without: Fallbacks = NOBODY) -> Prediction:
        """Predict people whose tables were read.

        Parameters
        ----------
        new
            From ``new_people``, without the same parties.
        without
            As there.
        """
        return self.run.told(self._people(new, without))

    def predict_rows(self, rows: Rows, without: Fallbacks = NOBODY) -> Prediction:
        """Predict rows that the run was trained or tested on, read again from where they are.

        Parameters
        ----------
        rows
            Which.
        without
            As for ``predict_tables``.

        Raises
        ------
        ConfigurationError
            If there are no such rows.
        DataError
            If the data cannot be read, or are not those that the run was trained on.
        """
        check_kind("rows", rows, Rows)
        data = self._own_data()
        numbers: NDArray[np.int64] = getattr(data, rows)
        if not len(numbers):
            raise ConfigurationError(f"this run has no {rows} rows")
        found = self._predict_of(data, numbers, without)
        found = replace(found, ids=self._ids_of(data, numbers))
        if without and (known := self._measurable(without, data)) is not None:
            found = self._measured(found, without, known, self._places(known, found))
        return self.run.told(found)

    @property
    def columns(self) -> list[str]:
        """The columns of ``frame``."""
        return columns_of(self._key or _ROW, self.classes)

    @property
    def form(self) -> IdForm | None:
        """How ids are written before they are compared; None as they are."""
        return self.config.data.form() if isinstance(self.config.data, TablesConfig) else None

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """What each class stands for; None of numbers."""
        assert self.run.predictor is not None
        return self.run.predictor.classes

    def frame(self, prediction: Prediction) -> pl.DataFrame:
        """Return whose each row is, what is predicted, and of classes how probable each is."""
        key, threshold = self._key or _ROW, self.config.objective.threshold
        return prediction.frame(key, self.classes, threshold)

    @property
    def _key(self) -> str | None:
        """The column of ids, where rows are found by one."""
        return self.config.data.id if isinstance(self.config.data, TablesConfig) else None

    def _ids_of(self, data: VerticalData, numbers: NDArray[np.int64]) -> pl.Series:
        """Return whose these of the run's own rows are: ids, or their numbers."""
        if self._key is None:
            return pl.Series(_ROW, numbers)
        assert isinstance(data, VerticalTables)
        assert data.ids is not None
        return data.ids[numbers]

    def _own_data(self) -> VerticalData:
        """Read the run's own data again."""
        data = self.config.data.load()
        predictor, holds = self.run.predictor, self.config.label_holder.holds
        assert predictor is not None
        if changes := changes_since(self.run.summary, predictor, data, holds):
            raise DataError(
                f"the data have changed since this run was trained on them: {'; '.join(changes)}. "
                "Rows of the run are those of its data as they were; predict people by their tables"
            )
        return data

    def _measurable(
        self, without: Fallbacks, data: VerticalData | None = None
    ) -> VerticalData | None:
        """Return the run's data, on whose validation rows is measured what is lost.

        None where these rows are not there any more, which is said.
        """
        why = "there are no validation rows"
        try:
            data = self._own_data() if data is None else data
            if len(data.validation):
                return data
        except (ColonnadeError, OSError) as error:
            why = first_line(error)
        tell([f"what is lost without {', '.join(without)} is not measured: {why}"])
        return None

    def _places(self, data: VerticalData, found: Prediction) -> list[int]:
        """Return where in a prediction validation rows lie, of those that are in it, by their ids.

        Rows without ids are numbered, and the run's own tables have the numbers of its data.
        """
        ids = map(str, self._ids_of(data, data.validation))  # whole numbers may be text
        places = {str(id): place for place, id in enumerate(() if found.ids is None else found.ids)}
        return [places[id] for id in ids if id in places]

    def _measured(
        self,
        found: Prediction,
        without: Fallbacks,
        data: VerticalData,
        places: Sequence[int] | None,
    ) -> Prediction:
        """Return a prediction with what was lost by who has left, on the validation rows.

        Parameters
        ----------
        found
            The prediction.
        without
            Who has left.
        data
            From ``_measurable``.
        places
            Where in the prediction the run's own validation rows lie, which are not sent again if
            all do; None of one of other tables.
        """
        if places is not None and len(places) == len(data.validation):
            return replace(found, lost=self._lost(data, found.scores[list(places)]))
        known = self._predict_of(data, data.validation, without)
        if places is None:  # who they are other tables say by an id alone
            again = self._key is None or bool(self._places(data, found))
        else:
            again = bool(places)
        return replace(
            found,
            ledger=Ledger([*found.ledger, *known.ledger]),
            privacy_loss=self._twice(without) if again else found.privacy_loss,
            lost=self._lost(data, known.scores),
        )

    def _twice(self, without: Fallbacks) -> Mapping[str, Any] | None:
        """Return what two predictions disclose of a row that is in both."""
        predictor = self.run.predictor
        assert predictor is not None
        return predictor.cost({predictor.parties(without): 2}) or None

    def _lost(self, data: VerticalData, scores: Tensor) -> Lost:
        """Return what is lost by scores of the validation rows."""
        classes, training = self.classes, self.config.training.build(len(data.validation))
        return lost_by(
            self.run.summary,
            self.config.objective.build(None if classes is None else len(classes)).metrics(),
            scores,
            data.labels[torch.from_numpy(data.validation)],
            best_counts=training.early_stopping is not None,
        )

    def _people(self, new: NewPeople, without: Fallbacks) -> Prediction:
        """Predict people whose tables were read, and leave it to ``told`` to warn of it."""
        found = self._predict(new.features, without)
        if new.ids is None:
            return replace(found, ids=pl.Series(_ROW, np.arange(len(found.scores))))
        return replace(found, ids=new.ids, left_out=new.left_out)

    def _predict_of(
        self, data: VerticalData, numbers: NDArray[np.int64], without: Fallbacks
    ) -> Prediction:
        """Predict these of the run's own rows."""
        features = {name: take(each, numbers) for name, each in data.features.items()}
        return self._predict({n: c for n, c in features.items() if n not in without}, without)

    def _predict(self, features: Mapping[str, Features], without: Fallbacks) -> Prediction:
        return self.run.predict_untold(
            {self._owner(name): columns for name, columns in features.items()},
            self.config.build_driver(),
            without=without,
        )

    def _owner(self, part: str) -> str:
        """Return which organisation has a part of the data."""
        holder = self.config.label_holder
        return holder.name if part == holder.holds else part


def load_trained(path: str | Path) -> Trained:
    """Read a run that a configuration made, with its trained models.

    Each organisation's models and what makes its features are in its own folder under ``parts/``;
    no training table is read.

    Raises
    ------
    ConfigurationError
        If the run was not made from a configuration.
    DataError
        If there is no run, a file is missing or damaged, or a part is of another run.

    Examples
    --------
    >>> load_trained("runs/credit")
    Traceback (most recent call last):
    colonnade.errors.DataError: runs/credit holds no run that can be read: config.yaml, history.csv, ledger.csv, summary.json are not there

    Of one that is there, ``trained.predict_tables({"bank": "new.csv"})`` predicts new people.
    """  # noqa: E501 - a message is one line
    run = load_run(path)
    folder = Path(path)
    if "job" in run.config:
        raise ConfigurationError(
            f"the run in {folder} was trained between organisations, and has one's part alone: new "
            "people are predicted by the job predict that `colonnade deploy --to` writes, or by "
            "`colonnade deploy --local --new`"
        )
    if "data" not in run.config:
        raise ConfigurationError(
            f"the run in {folder} was not made from a configuration file, so what its models are "
            "is known to your code alone: give them what they learned by "
            f"load_part({str(RunFolder(folder).parts / '...')!r}).load_into(module)"
        )
    check_has_parts(folder)
    config = parse_config(dict(run.config), str(folder / "config.yaml"))
    holder, parts = config.label_holder.name, load_parts(folder)
    means = load_means(folder, parts)
    try:
        federation = config.build_federation(_blank_data(parts, config))
        models = _models(parts, federation)
        traces = {name: part.details.get("data_traces") or {} for name, part in parts.items()}
        predictor = federation.predictor(
            config.method.build(), config.training.seed, models, means, traces
        )
    except ColonnadeError:
        raise
    except Exception as error:  # what a digest is right of may be anything
        raise DataError(
            f"the parts in {RunFolder(folder).parts} are not those of the run that "
            f"{folder / 'config.yaml'} describes: {first_line(error)}"
        ) from error
    counted = RunFolder(folder).predictions(holder)
    predicted = Predicted(counted.times(), kept=counted)
    return Trained(replace(run, models=models, predictor=predictor, predicted=predicted), config)


def _models(parts: Mapping[str, Part], federation: Federation) -> dict[str, dict[str, nn.Module]]:
    """Return everybody's models as they were trained."""
    models: dict[str, dict[str, nn.Module]] = {
        party.name: {"bottom": parts[party.name].load_into(party.bottom)}
        for party in federation.parties
    }
    label_holder = federation.label_holder
    holder = parts[label_holder.name]
    models[label_holder.name] = {"top": holder.load_into(label_holder.top, "top")}
    if label_holder.bottom is not None:
        models[label_holder.name]["bottom"] = holder.load_into(label_holder.bottom)
    return models


@dataclass(frozen=True)
class _Blank:
    """Data of no one, in the form that a run's were, so that its models can be made again."""

    features: Mapping[str, Features]
    labels: Tensor
    classes: tuple[Any, ...] | None
    transformers: Mapping[str, Transformer]
    validation: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    test: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    people: None = None
    warnings: tuple[str, ...] = ()

    @property
    def train(self) -> NDArray[np.int64]:
        return np.arange(len(self.labels))


def _blank_data(parts: Mapping[str, Part], config: RunConfig) -> _Blank:
    holder = config.label_holder
    said = parts[holder.name].classes
    labels = torch.tensor([0.0, 1.0]) if said is None else torch.arange(len(said))
    own = {name: part for name, part in parts.items() if part.said("features") is not None}
    named = {holder.holds or name if name == holder.name else name: p for name, p in own.items()}
    data = config.data if isinstance(config.data, TablesConfig) else None
    id, form = (None, None) if data is None else (data.id, data.form())
    return _Blank(
        {name: blank(part.said("features"), len(labels)) for name, part in named.items()},
        labels,
        None if said is None else tuple(said),
        {
            name: transformer
            for name, part in named.items()
            if (transformer := transformer_of(name, part, id, form)) is not None
        },
    )


def transformer_of(
    name: str, part: Part, id: str | None = None, normalise: IdForm | None = None
) -> Transformer | None:
    """Return what makes features of a table for a trained part; None of one without tables.

    Parameters
    ----------
    name
        What the table is called in messages.
    part
        The part.
    id, normalise
        The column of ids, and the form in which they are compared; None without one.

    Raises
    ------
    DataError
        If the part does not say.
    """
    state = part.said("transformer")
    if state is None:
        return None
    if "encoder" in state:
        return RowEncoder.from_state(state)
    from colonnade.tables import TableTransformer  # only here: it needs scikit-learn

    own = TableTransformer.from_state(state)
    columns = tuple(map(str, own.feature_names_in_))
    return FittedTransformer(own, columns, name, id, normalise)
