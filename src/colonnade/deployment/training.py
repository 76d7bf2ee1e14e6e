"""An organisation that trains with others: from its tables to its part of the model."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from colonnade import __version__
from colonnade.agreement import (
    Agreement,
    HolderRole,
    HolderSeat,
    PartyRole,
    PartySeat,
    Shared,
    handed_back,
    learners_of,
)
from colonnade.assembly import judge_of
from colonnade.checkpoints import Checkpoint
from colonnade.deployment import meeting
from colonnade.deployment.confided import confided
from colonnade.deployment.engagement import Folders
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving, leaving_in_training, repeated
from colonnade.deployment.paths_in_jobs import placed
from colonnade.deployment.site import OwnPart, SiteConfig, own_part
from colonnade.descriptions import device_told
from colonnade.drawing import drawing
from colonnade.drivers import RunRecord
from colonnade.errors import CheckpointError, InvalidInput, RemoteProtocolError
from colonnade.export import blank, form_of
from colonnade.fallbacks import mean_embeddings
from colonnade.flows import Limits
from colonnade.labelling import LabelForm
from colonnade.layout import Layout
from colonnade.ledger import Ledger
from colonnade.models import parameter_count, terms_of
from colonnade.organisations import LabelHolder
from colonnade.prediction import Predictor
from colonnade.run_folder import RunFolder
from colonnade.runs import Run
from colonnade.runs_told import VERSIONS, Circumstances, run_told
from colonnade.tables.together import LABELS

__all__ = ["TrainingTogether"]

_ALIGNED = "rows were aligned by private set intersection; who learned what is with each alignment"


_LARGEST_LABEL = 2**20  # numbers of a row


@dataclass(frozen=True)
class _Over:
    """How a run was carried out, as its account tells."""

    label: str
    repeats: bool = False
    network: None = None

    @property
    def clock(self) -> Mapping[str, str]:
        return {"network": "measured", "compute": "measured"}


class TrainingTogether:
    """An organisation in a run.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.
    label
        How runs are carried out, for the summary.
    """

    def __init__(self, job: JobConfig, site: SiteConfig, label: str) -> None:
        self.job, self.site, self.name = job, site, site.organisation
        self._label = label
        self._folder = RunFolder(
            site.runs / job.run, "give the run another name", "submit the job again"
        )
        self._method = placed(job.method, self._folder.surrogates).build()
        self._shares_labels = self._method.exchange.labels == "shared"

    @cached_property
    def part(self) -> OwnPart:
        """What the organisation brings; its tables are read."""
        return own_part(self.job, self.site)

    @property
    def _terms(self) -> int | None:
        """Of how many terms the organisation's bottom is, where it is a polynomial."""
        party = self.part.party
        return None if party is None else terms_of({self.name: party.bottom}).get(self.name)

    def brings(self) -> meeting.Brings:
        """See ``Engagement``."""
        part = self.part
        people = part.kept.digest
        return meeting.Brings(
            meeting.PROTOCOL,
            __version__,
            self.job.digest,
            len(part.tables.ids),
            people,
            part.width,
            self._terms,
        )

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        """See ``Engagement``."""
        holder, tables = self._label_holder(everybody), self.part.tables
        labels = None
        if self._shares_labels:
            form = LabelForm.of(holder.labels)
            classes = None if tables.classes is None else len(tables.classes)
            learned = self.part.blueprint.objective.learned(holder.labels[tables.train])
            told = (form.dtype, form.shape, form.lowest, form.highest)
            labels = meeting.Labels(told, classes, learned)
        which = self._folder.training or secrets.token_hex(16)
        return meeting.Top(parameter_count(holder.top), labels, which)

    def agree(self, everybody: meeting.Everybody) -> str:
        """See ``Engagement``."""
        assert everybody.top is not None
        labels, self._training = everybody.top.labels, everybody.top.training
        if self._shares_labels != (labels is not None):
            raise RemoteProtocolError("the label holder tells of labels what the method does not")
        shared = None if labels is None else self._shared(labels, everybody)
        form = None if labels is None else self._form(labels)
        widths = everybody.widths_of(self.job.everybody)
        self._agreement = self._on(widths, everybody.terms, everybody.top.parameters, form)
        self._agreement.warm_up()
        if self.part.is_label_holder:
            metrics = tuple(self.part.blueprint.objective.metrics())
            self._seat: PartySeat | HolderSeat = HolderSeat(self._label_holder(everybody), metrics)
        else:
            assert self.part.party is not None
            self._seat = PartySeat(self.part.party, shared)
        return self._agreement.digest

    def rehearse(self) -> None:
        """Try what all would agree on, if every other party brought what this organisation brings.

        What hangs on labels that are shared is left out, and at the label holder what hangs on
        parties' models.

        Raises
        ------
        ConfigurationError
            If method, training, and how many take part do not fit together.
        """
        part, job = self.part, self.job
        names = [*job.parties, *([job.label_holder.name] if job.label_holder.holds else [])]
        widths = dict.fromkeys(names, part.width or 1)
        terms = {} if self._terms is None else dict.fromkeys(job.parties, self._terms)
        agreement = self._on(widths, terms, 1, None)
        if not (part.is_label_holder or self._shares_labels):
            agreement.warm_up()

    def _on(
        self,
        widths: dict[str, int],
        terms: dict[str, int],
        parameters: int,
        labels: LabelForm | None,
    ) -> Agreement:
        """Return what is agreed on, where all bring this."""
        job, rows = self.job, self.part.tables
        training = job.training.build(len(rows.validation)).for_rows(len(rows.train))
        layout = Layout(
            tuple(job.parties),
            job.label_holder.name,
            widths,
            len(rows.ids),
            training.seed,
            simulated=training.secrets == "seed",
            terms=terms,
        )
        return Agreement(
            self._method,
            training,
            layout,
            parameters,
            rows.train,
            rows.validation,
            rows.test,
            labels,
        )

    @property
    def leaving(self) -> Leaving:
        """See ``Engagement``."""
        return leaving_in_training(self._agreement, self.name)

    def leaving_again(self, sent: Ledger) -> Leaving:
        """See ``Engagement``."""
        per_epoch = self._agreement.wanted.rounds_per_epoch
        return leaving_in_training(self._agreement, self.name, repeated(sent.lost, per_epoch))

    @property
    def every(self) -> int:
        """See ``Engagement``."""
        agreement = self._agreement
        return agreement.training.checkpoint_every or agreement.batches.rounds_per_epoch

    @property
    def limits(self) -> Limits:
        """See ``Engagement``."""
        return self._agreement.limits()

    @contextmanager
    def folders(self) -> Iterator[Folders]:
        """See ``Engagement``."""
        folder = self._folder
        with folder.alone():
            store = folder.store(
                {
                    "what was agreed on, or what it brings,": self._agreement.fingerprint(
                        self._seat
                    ),
                    "the delta of a budget": repr(self._agreement.deltas),
                }
            )
            held = {checkpoint.round: checkpoint for checkpoint in store.held(self._try)}
            if held and folder.training not in (None, self._training):
                raise CheckpointError(
                    f"{self.name} has checkpoints of another training than the label holder would "
                    "go on with, by the same job; remove them, or give the run another name"
                )
            has_begun = folder.has_begun
            # A job that another site refused has left its configuration here, and nothing else.
            folder.begin(self._told, resume=True, known=bool(held) or folder.has_only_begun)
            folder.keep_training(self._training)
            with folder.safeguarded(store):
                store.make()
                yield Folders(store, held, folder.journals, folder.departures, has_begun)

    noted_in = None  # but with its checkpoints

    def cast(self) -> PartyRole | HolderRole:
        """See ``Engagement``."""
        return self._agreement.cast(self._seat)

    def conclude(self, role: Any, ledger: Ledger, record: RunRecord | None) -> None:
        """See ``Engagement``."""
        models = {self.name: handed_back(role)}
        predictor, folder = self._predictor(models, self._means(role)), self._folder
        if record is None:
            told = {"method": self._method.name, "versions": VERSIONS, "training": self._training}
            own = Run(told, pl.DataFrame(), ledger, models, None, self._told, predictor=predictor)
            with folder.results():
                own.write_parts(folder.parts)
                folder.keep(ledger)
            return
        part = self.part
        circumstances = Circumstances(
            {self.name: device_told(part.blueprint.device)},
            {"left_out": part.kept.left_out[LABELS], "absent": dict(part.kept.absent)},
            (*part.tables.warnings, *self.site.notes),
            _ALIGNED,
            part.tables.classes,
        )
        history, others, summary = run_told(
            record,
            self._agreement,
            role,
            part.blueprint.objective.metrics(),
            _Over(self._label),
            circumstances,
        )
        run = Run(
            summary | {"training": self._training},
            history,
            record.ledger,
            models,
            record,
            self._told,
            folder.path,
            predictor,
            others,
        )
        from colonnade.reports import draw_run, write_page  # only here: parties draw nothing

        with folder.results():
            run.write_parts(folder.parts)
            folder.finish(run)
            draw_run(run, folder.path / "run.png")
            write_page(run, folder.path / "report.html")

    @property
    def _told(self) -> dict[str, Any]:
        """What the run's folder says of it."""
        return {"job": self.job.as_dict(), "organisation": self.name}

    @drawing()
    def _label_holder(self, everybody: meeting.Everybody) -> LabelHolder:
        return self.part.label_holder([*everybody.widths_of(self.job.everybody).values()])

    @drawing()
    def _shared(self, labels: meeting.Labels, everybody: meeting.Everybody) -> Shared:
        """Return what a party computes a loss by, where labels are shared."""
        widths = [*everybody.widths_of(self.job.everybody).values()]
        assert everybody.top is not None
        with self._making_sense():
            objective = self.job.objective.build(labels.classes)
            blueprint = replace(self.part.blueprint, objective=objective)
            with torch.device("meta"):  # how large it is, before it is made
                _, top = judge_of(labels.learned, widths, blueprint)
            if parameter_count(top) != everybody.top.parameters:
                raise ValueError(f"its top model cannot have {everybody.top.parameters} parameters")
            return Shared(*judge_of(labels.learned, widths, blueprint))

    def _form(self, labels: meeting.Labels) -> LabelForm:
        """Return what labels are made of, as all know them."""
        _, shape, lowest, highest = labels.form
        with self._making_sense():
            if prod(shape) > _LARGEST_LABEL or not -(2**63) <= lowest <= highest < 2**63:
                raise ValueError(f"no label is of shape {list(shape)}, from {lowest} to {highest}")
            return LabelForm(*labels.form)

    @contextmanager
    def _making_sense(self) -> Iterator[None]:
        """Blame the label holder where what it told of its labels is of no use."""
        try:
            yield
        except (InvalidInput, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise RemoteProtocolError(
                f"{self.job.label_holder.name!r} told of its labels what makes no sense: {error}"
            ) from None

    @drawing()
    def _try(self, checkpoint: Checkpoint) -> None:
        """Raise ``CheckpointError`` unless a role takes it: it may name files elsewhere."""
        with confided():
            role = self.cast()
        role.load_state_dict(checkpoint.state(self.name))

    def _predictor(
        self, models: Mapping[str, Mapping[str, nn.Module]], means: Mapping[str, Tensor]
    ) -> Predictor:
        """Return the organisation's own part of what predicts."""
        part, layout = self.part, self._agreement.layout
        party = part.party
        return Predictor(
            layout.label_holder,
            models,
            dict(layout.widths),
            self._agreement.method.uplink.of_new_rows(),
            self._agreement.method.fusion,
            {self.name: part.blueprint.device},
            {} if party is None or party.transformer is None else {self.name: party.transformer},
            {} if party is None else {self.name: blank(form_of(party.features))},
            self._agreement.training.seed,
            part.tables.classes,
            means=means,
        )

    def _means(self, role: PartyRole | HolderRole) -> dict[str, Tensor]:
        """Return the mean of a party's embeddings, which is its own to give when it leaves."""
        part = self.part
        if part.party is None or part.is_label_holder:
            return {}
        of = {self.name: (learners_of(role)["bottom"], part.party.features)}
        seed = self._agreement.training.seed
        return mean_embeddings(of, self._method.uplink.embedder, part.tables.train, seed)
