"""A finished run: its account, its history, its ledger, and its trained parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from torch import nn

from colonnade.annotated import check_kind
from colonnade.drawing import drawing_apart
from colonnade.drivers import Driver, RunRecord
from colonnade.errors import ConfigurationError
from colonnade.export import check_no_runs_parts, export_part, form_of, write_mean
from colonnade.fallbacks import NOBODY, Fallbacks
from colonnade.ledger import Ledger
from colonnade.outputs import check_place
from colonnade.paths import as_path
from colonnade.prediction import ROWS_TOGETHER, Prediction, Predictor
from colonnade.predictions_told import Predicted
from colonnade.reaching import Reached, reached
from colonnade.sent import bytes_sent

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """What training returns.

    Parameters
    ----------
    summary
        The account of the run; see ``summarise``.
    history
        A row for each evaluation, as the label holder reported it: round, epoch, losses and
        metrics, seconds on the driver's clock, and the training bytes sent until then.
    ledger
        Every message that left an organisation.
    models
        Each organisation's trained modules, by its name: ``bottom``, and the label holder's
        ``top``; in the modes in which they were handed over, so call ``eval()`` before computing by
        them.
    record
        The driver's own record, with the trace that ``Replay`` takes; None of a run that was read
        from its folder, or is behind an estimator.
    config
        What the run was configured with.
    folder
        Where the run was written, if it was.
    predictor
        The trained parts, and how their embeddings meet; None of a run that was read from its
        folder. New rows are predicted by ``predict``, which counts what that discloses.
    others_history
        What organisations other than the label holder reported, if they did: a row each, with
        ``organisation`` and ``seconds``.
    predicted
        How often it has predicted, where that disclosed something of rows.
    """

    summary: dict[str, Any]
    history: pl.DataFrame
    ledger: Ledger
    models: Mapping[str, Mapping[str, nn.Module]]
    record: RunRecord | None
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    predictor: Predictor | None = None
    others_history: pl.DataFrame = field(default_factory=pl.DataFrame)
    predicted: Predicted = field(default_factory=Predicted)

    def reported(self, column: str) -> pl.DataFrame:
        """Return all reports that have a value in a column, the label holder's and the others'.

        Empty where nobody reported it.

        Raises
        ------
        ConfigurationError
            If this is no name of a column.
        """
        check_kind("column", column, str)
        frames = [self.history, self.others_history]
        known = [frame.drop_nulls(column) for frame in frames if column in frame.columns]
        if not known:
            return pl.DataFrame(schema={"organisation": pl.String, column: pl.Float64})
        return pl.concat(known, how="diagonal_relaxed")

    def reached(self, target: float) -> Reached | None:
        """Return what training had cost when the deciding metric was first as good as a target.

        Returns
        -------
        Reached or None
            Rounds, epochs, seconds and bytes until then; None if it never was. Where
            less of the metric is better, as good is as small.

        Raises
        ------
        ConfigurationError
            If the target is no finite number.
        """
        return reached(self.summary, self.history, target)

    def predict(
        self,
        tables: Mapping[str, Any],
        driver: Driver | None = None,
        rows_per_message: int = ROWS_TOGETHER,
        *,
        without: Fallbacks = NOBODY,
    ) -> Prediction:
        """Predict new rows, which every organisation has in the same order.

        The embeddings travel as in training, protected or not; see ``Predictor``.

        Parameters
        ----------
        tables
            For each organisation with columns its features of the new rows, or a table where it
            was trained from one.
        driver
            By default the simulator with an infinitely fast network.
        rows_per_message
            Rows that travel in one message.
        without
            Parties that have left, of which nobody has columns any more, and what stands for the
            embeddings of each: ``{"shop": "zeros"}``, or ``"mean"``, that of its training rows.

        Raises
        ------
        ConfigurationError
            If the run has no models, or an organisation is missing.
        DataError
            If rows or values do not fit, or the number of earlier predictions is damaged or gone.
        Diverged
            If what a model makes of a row is no finite number.
        Unwritten
            If what is disclosed cannot be counted in the run's folder.

        Warns
        -----
        PrivacyWarning
            If embeddings travelled with noise: what that cost of privacy. No budget holds for it.
        """
        return self.told(
            self.predict_untold(tables, driver, rows_per_message=rows_per_message, without=without)
        )

    def predict_untold(
        self,
        tables: Mapping[str, Any],
        driver: Driver | None = None,
        rows_per_message: int = ROWS_TOGETHER,
        *,
        without: Fallbacks = NOBODY,
    ) -> Prediction:
        """Predict new rows as ``predict`` does, and leave it to ``told`` to warn of what that cost.

        So more than one sending is told of together. Arguments and errors are those of ``predict``.
        """
        if self.predictor is None:
            raise ConfigurationError(
                f"the run in {self.folder} was read without its models: predict with the run that "
                "training returned, or with the exported parts"
            )
        parties = self.predictor.parties(without)
        discloses = bool(self.predictor.cost({parties: 1}))
        begin = partial(self.predicted.count, parties) if discloses else None
        return self.predictor.predict_uncounted(
            tables, driver, rows_per_message, without=without, begin=begin
        )

    def told(self, found: Prediction) -> Prediction:
        """Warn of what a prediction disclosed, and return it with what all of the run's did.

        Parameters
        ----------
        found
            From ``predict_untold``; its ``privacy_loss`` is of all that was sent for it.

        Warns
        -----
        PrivacyWarning
            As ``predict``.
        """
        if found.privacy_loss is None or self.predictor is None:
            return found
        whole = self.predictor.cost(self.predicted.times)
        self.predicted.tell(found.privacy_loss, whole, self.summary.get("privacy_loss"))
        return replace(found, privacy_loss_of_all=None if self.predicted.is_copied else whole)

    def export(self, folder: str | Path, *, programs: bool = False) -> None:
        """Write each organisation's trained part into a folder of its own under ``folder``.

        What is written for an organisation is only its own: give each folder to nobody else.

        Parameters
        ----------
        folder
            Gets a subfolder for each organisation; ``load_part`` reads one.
        programs
            Whether to write each bottom also as a program of ``torch.export``, which runs without
            the code that defined it.

        Raises
        ------
        ConfigurationError
            If the run has no models, this is no path, no folder can be there, or a run keeps
            its own parts there.
        DataError
            If torch cannot export a bottom.
        Unwritten
            If the folder cannot be written.
        """
        path = as_path("parts are exported into the path of a folder", folder)
        for own in (".", *self.models):  # a folder of an organisation may be a link
            check_place(path / own)
            check_no_runs_parts(path / own)
        self.write_parts(path, programs=programs)

    @drawing_apart()
    def write_parts(self, folder: Path, *, programs: bool = False) -> None:
        """Write what ``export`` does, also where the run keeps its own."""
        if self.predictor is None:
            raise ConfigurationError(f"the run in {self.folder} was read without its models")
        examples, holder = self.predictor.examples, self.predictor.label_holder
        for name, modules in self.models.items():
            transformer = self.predictor.transformers.get(name)
            details = {
                "method": self.summary["method"],
                "label_holder": holder,
                "organisations": list(self.predictor.widths),
                "fusion": repr(self.predictor.fusion),
                "uplink": repr(self.predictor.uplink),
                "embedding_width": self.predictor.widths.get(name),
                "widths": dict(self.predictor.widths) if name == holder else None,
                "modules": {part: str(module) for part, module in modules.items()},
                "transformer": None if transformer is None else transformer.state(),
                "features": form_of(examples[name]) if name in examples else None,
                "classes": self.predictor.classes if name == holder else None,
                "versions": self.summary["versions"],
                "training": self.summary.get("training"),
                "data_traces": self.predictor.traces.get(name),
            }
            example = examples.get(name) if programs else None
            export_part(folder / name, name, modules, details, example)
            if name in self.predictor.means:
                write_mean(
                    folder / name, name, self.predictor.means[name], self.summary.get("training")
                )

    def __repr__(self) -> str:
        s = self.summary
        best = "not evaluated" if s["best"] is None else f"best {s['metric']} {s['best']:.4g}"
        sent = bytes_sent(s) / 1e6
        return f"Run({s['method']}, {s['rounds']} rounds, {best}, {sent:.3g} MB sent)"
