"""The public API: describe who holds what, choose a method, train.

A ``Federation`` is checked when it is made: shapes, labels, values. ``train`` copies the modules it
was given, so one federation can be trained again and again from the same start, by other methods
or under other drivers, and compared.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

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
from colonnade.annotated import check_kind
from colonnade.checkpoints import Checkpoint
from colonnade.checks import (
    check_class_names,
    check_classes,
    check_codes,
    check_device,
    check_features,
    check_labels,
    check_labels_usual,
    check_lets_through,
    check_loss,
    check_saved,
    class_names,
    embedding_width,
    extreme_rows,
)
from colonnade.clocks import Clock
from colonnade.descriptions import content_of, described, device_told
from colonnade.drawing import drawing_apart
from colonnade.drivers import Assignment, Driver, RunRecord, Simulate, checked_driver
from colonnade.errors import ConfigurationError
from colonnade.export import blank, form_of
from colonnade.fallbacks import mean_embeddings
from colonnade.faults import blamed
from colonnade.forked import check_not_forked
from colonnade.labelling import LabelForm
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.method import Method, checked_method
from colonnade.methods import svfl
from colonnade.metrics import Metric, checked_metrics, usual_metrics
from colonnade.models import (
    check_gradients,
    check_module,
    check_optimiser,
    check_top_learns,
    looking_at_no_weights,
    parameter_count,
    shown,
    take,
    terms_of,
    tried,
)
from colonnade.notes import (
    before_loss,
    notes_of_draws,
    notes_of_loss,
    notes_of_mode,
    notes_of_optimiser,
    notes_of_unsaved,
)
from colonnade.organisations import LabelHolder, Party, check_everybody, copied_loss
from colonnade.paths import as_path
from colonnade.prediction import Predictor
from colonnade.predictions_told import Predicted
from colonnade.reports import draw_run, write_page
from colonnade.run_folder import RunFolder
from colonnade.runs import Run
from colonnade.runs_told import Circumstances, clock_of, run_told
from colonnade.traces import Traces, trace_of
from colonnade.training import Training, Watcher, checked_training

__all__ = ["Federation"]

_Seat = PartySeat | HolderSeat
_Roles = dict[str, PartyRole | HolderRole]


class Federation:
    """Parties and a label holder that can train a joint model.

    Parameters
    ----------
    parties
        The organisations with features, in party order.
    label_holder
        The organisation with the labels.
    train_rows, test_rows
        Row numbers to train and to evaluate on. By default all rows, and none.
    validation_rows
        Row numbers to evaluate on as training goes, and to choose the best model by; the test rows
        are then evaluated on once, at the end. By default none: the test rows are evaluated on as
        training goes.
    metrics
        What an evaluation reports, the first being the one that ``best`` is chosen by. By default
        accuracy and log-loss for classes, RMSE for numbers.
    classes
        What each class stands for, for predictions: as many as the top model has outputs, where
        it has several, all different.
    people
        Who was left out before training, for the summary; see ``VerticalTables.people``.
    warnings
        What should be known of the data, for the summary.

    Raises
    ------
    ConfigurationError
        If names, shapes or models do not fit together, or something is of another kind than it is
        annotated.
    DataError
        If a feature is not finite, or a label is out of range.

    Examples
    --------
    >>> x, y = torch.randn(100, 6), torch.randint(2, (100,))
    >>> federation = Federation(
    ...     [Party("bank", x[:, :4], nn.Linear(4, 3)), Party("shop", x[:, 4:], nn.Linear(2, 3))],
    ...     LabelHolder("insurer", y, top=nn.Linear(6, 2)),
    ... )
    >>> run = federation.train(training=Training(epochs=2, batch_size=50))
    >>> run.summary["bytes_up"]  # 2 epochs of 100 rows, 2 parties, 3 components of 4 bytes
    4800
    """

    @drawing_apart()
    def __init__(
        self,
        parties: Sequence[Party],
        label_holder: LabelHolder,
        train_rows: ArrayLike | None = None,
        test_rows: ArrayLike | None = None,
        metrics: Sequence[Metric] | None = None,
        validation_rows: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        people: Mapping[str, Any] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        check_kind("parties", parties, Sequence[Party])
        check_kind("label_holder", label_holder, LabelHolder)
        check_kind("people", people, Mapping[str, Any] | None)
        check_kind("warnings", warnings, Sequence[str])
        self.parties = tuple(parties)
        self.label_holder = label_holder
        check_everybody(self.parties, label_holder)
        check_labels(label_holder.name, label_holder.labels)
        self.rows = len(label_holder.labels)
        self.train_rows = self._checked_rows(
            "train_rows", np.arange(self.rows) if train_rows is None else train_rows
        )
        self.validation_rows = self._checked_rows(
            "validation_rows", [] if validation_rows is None else validation_rows
        )
        self.test_rows = self._checked_rows("test_rows", [] if test_rows is None else test_rows)
        self._check_disjoint()
        asked = checked_metrics(metrics)
        judged = bool(asked) or not (len(self.validation_rows) or len(self.test_rows))
        labels, brings_loss = label_holder.labels, label_holder.loss is not None
        check_labels_usual(label_holder.name, labels, brings_loss, judged)
        self.metrics = asked or usual_metrics(label_holder.labels)
        self.loss = label_holder.objective()
        self.classes = class_names(classes)
        self.people, self.warnings = people, tuple(warnings)
        for party in self.parties:
            check_device(party.name, party.device)
        check_device(label_holder.name, label_holder.device)
        for party in self._holders():
            check_features(party.name, party.features, self.rows)
        self.widths = {
            p.name: embedding_width(p.name, p.bottom, p.features) for p in self._holders()
        }
        used = np.concatenate([self.train_rows, self.validation_rows, self.test_rows])
        for party in self._holders():  # whose bottoms are modules, as just tried
            check_codes(party.name, party.bottom, party.features, used)
            check_gradients(party.name, party.bottom, party.optimiser)

    def on(self, device: str | torch.device) -> Federation:
        """Return this federation with everybody's models on a device, as torch names it.

        Raises
        ------
        ConfigurationError
            If torch cannot compute there.
        """
        for name in (*(party.name for party in self.parties), self.label_holder.name):
            check_device(name, device)
        moved = copy.copy(self)
        moved.parties = tuple(replace(party, device=device) for party in self.parties)
        moved.label_holder = replace(self.label_holder, device=device)
        return moved

    def train(
        self,
        method: Method | None = None,
        training: Training | None = None,
        driver: Driver | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        stop_before: int | None = None,
        watcher: Watcher | None = None,
        config: Mapping[str, Any] | None = None,
        report: bool = True,
    ) -> Run:
        """Train by ``method``, by default vanilla split learning, and return the run.

        Parameters
        ----------
        method
            A value from ``colonnade.methods``, by default ``svfl()``.
        training
            Epochs, batches, seed.
        driver
            How the roles are run, by default ``Simulate()``.
        out
            The run's folder; None keeps everything in memory.
        resume
            Go on from the newest checkpoint in ``out``; start when there is no run, or this one
            was stopped before its first checkpoint.
        stop_before
            Stop at the boundary of this round, as an interruption would.
        watcher
            Who is told how it goes.
        config
            What ``config.yaml`` shall hold, by default a description of the federation.
        report
            Whether to draw ``run.png`` and write ``report.html`` into the folder too.

        Raises
        ------
        ConfigurationError
            If the method does not fit the federation, ``out`` holds another run, or another process
            is at work in it.
        CheckpointError
            If ``out`` holds checkpoints to go on from that are of another run, or all damaged.
        Diverged
            If the loss stops being a finite number.
        Unwritten
            If the folder or its disk does not take what is written; it says what is safe.
        """
        method = svfl() if method is None else checked_method(method)
        training = checked_training(training).for_rows(len(self.train_rows))
        driver = Simulate() if driver is None else checked_driver(driver)
        watcher = watcher or Watcher()
        notes, agreement, seats, roles, description = self._prepared(method, training)
        batches = agreement.batches
        place = None if out is None else as_path("out is the path of a folder", out)
        folder = None if place is None else RunFolder(place)
        with ExitStack() as kept:
            store = checkpoint = None
            if folder is not None:
                kept.enter_context(folder.alone())
                timing = driver.timing if method.timed else None
                # A larger budget is no other run: it lets one go on that has used up a smaller.
                same = self._fingerprint(method.unlimited(), description, agreement, seats)
                clock = clock_of(driver, agreement.layout, driver.timing)
                store = folder.store(same, timing, clock)
                checkpoint = store.latest(partial(self._try, agreement, seats)) if resume else None
                folder.begin(config or description, resume, checkpoint is not None)
                kept.enter_context(folder.safeguarded(store))
                store.make()
                if checkpoint is not None:
                    store.go_back_to(checkpoint)
            assignment = Assignment(
                seed=training.seed,
                threads=training.threads,
                store=store,
                checkpoint_every=training.checkpoint_every or batches.rounds_per_epoch,
                resume=checkpoint,
                journals=None if folder is None else folder.journals,
                departures=None if folder is None else folder.departures,
                stop_before=stop_before,
                interrupted=watcher.interrupted,
                on_round=watcher.on_round,
                on_report=watcher.on_report,
                limits=agreement.limits(),
            )
            watcher.on_begin(assignment.first_round, batches.rounds)
            record = driver.run(list(roles.values()), assignment)
            clocks = () if store is None else store.clocks_before(record.round)
            told = config or description
            run = self._run(method, agreement, driver, clocks, roles, record, told, folder, notes)
            if folder is not None:
                kept.enter_context(folder.results())
                run.write_parts(folder.parts)
                folder.finish(run)
            if folder is not None and report:
                draw_run(run, folder.path / "run.png")
                write_page(run, folder.path / "report.html")
        return run

    # Making the roles

    @drawing_apart()
    def _prepared(
        self, method: Method, training: Training
    ) -> tuple[list[str], Agreement, dict[str, _Seat], _Roles, dict[str, Any]]:
        """Try all that trains; return notes, what is agreed on, seats, roles and a description."""
        notes = self._check_predictions(method)
        self._check_watched(training)
        agreement = self.agreement(method, training)
        agreement.warm_up()
        seats = self._seats(agreement)
        roles = _cast(agreement, seats)  # which tries optimisers
        for name, role in roles.items():
            for learner in learners_of(role).values():
                check_saved(name, learner)
        notes = [*self._notes_of_models(method), *notes]
        return notes, agreement, seats, roles, self._describe(method, training, roles)

    def _holders(self) -> list[Party]:
        """Return everybody with features, the label holder (if it has any) last."""
        own = self.label_holder.as_party()
        return [*self.parties, *([own] if own else [])]

    @drawing_apart()
    def agreement(self, method: Method, training: Training) -> Agreement:
        """Return all that the organisations would share in training by ``method``."""
        holder = self.label_holder
        names = tuple(party.name for party in self.parties)
        return Agreement(
            method,
            training,
            Layout(
                names,
                holder.name,
                self.widths,
                self.rows,
                training.seed,
                simulated=training.secrets == "seed",
                terms=terms_of({party.name: party.bottom for party in self.parties}),
            ),
            parameter_count(holder.top),
            self.train_rows,
            self.validation_rows,
            self.test_rows,
            LabelForm.of(holder.labels) if method.exchange.labels == "shared" else None,
        )

    def _seats(self, agreement: Agreement) -> dict[str, _Seat]:
        """Return what every organisation alone has, in party order, the label holder last."""
        holder = self.label_holder
        is_shared = agreement.method.exchange.labels == "shared"
        shared = Shared(self.loss, holder.top) if is_shared else None
        seats: dict[str, _Seat] = {p.name: PartySeat(p, shared) for p in self.parties}
        return seats | {holder.name: HolderSeat(holder, self.metrics)}

    @staticmethod
    @drawing_apart()
    def _try(agreement: Agreement, seats: Mapping[str, _Seat], checkpoint: Checkpoint) -> None:
        """Raise ``CheckpointError`` unless roles take a checkpoint: it may name files elsewhere.

        They are others than those that will play, which are not left with half a state.
        """
        for name, role in _cast(agreement, seats).items():
            role.load_state_dict(checkpoint.state(name))

    # Telling what happened

    @drawing_apart()
    def _run(
        self,
        method: Method,
        agreement: Agreement,
        driver: Driver,
        clocks: Sequence[Clock],
        roles: Mapping[str, PartyRole | HolderRole],
        record: RunRecord,
        config: Mapping[str, Any],
        folder: RunFolder | None,
        notes: Sequence[str],
    ) -> Run:
        holder = self.label_holder.name
        history, others, summary = run_told(
            record,
            agreement,
            roles[holder],
            self.metrics,
            driver,
            Circumstances(
                self._devices(),
                self.people,
                [*self.warnings, *notes],
                classes=self.classes,
                clocks=clocks,
            ),
            [roles[party.name] for party in self.parties],
        )
        models = {name: handed_back(role) for name, role in roles.items()}
        seed = agreement.training.seed
        means = self._means(method, seed, roles)
        traces = {} if folder is None else self._traces()
        return Run(
            summary,
            history,
            record.ledger,
            models,
            record,
            config,
            None if folder is None else folder.path,
            self.predictor(method, seed, models, means, traces),
            others,
            Predicted() if folder is None else Predicted(kept=folder.predictions(holder)),
        )

    def _devices(self) -> dict[str, str]:
        """Return where each organisation's models compute, in words."""
        told = {party.name: device_told(party.device) for party in self.parties}
        return told | {self.label_holder.name: device_told(self.label_holder.device)}

    def headcount(self) -> dict[str, Any]:
        """Return how many rows there are of each kind, and which people were left out."""
        return {
            "rows_train": len(self.train_rows),
            "rows_validation": len(self.validation_rows),
            "rows_test": len(self.test_rows),
            "people": None if self.people is None else dict(self.people),
        }

    def predictor(
        self,
        method: Method,
        seed: int,
        models: Mapping[str, Mapping[str, nn.Module]],
        means: Mapping[str, Tensor],
        traces: Mapping[str, Traces],
    ) -> Predictor:
        """Return what predicts new rows by trained models, as they were trained with a method.

        Parameters
        ----------
        method
            By which they were trained.
        seed
            Of the codecs' dither.
        models
            For each organisation its ``bottom``, and the label holder's ``top``.
        means
            The mean of each party's embeddings, where it is known.
        traces
            Of each organisation's features and labels, where they are known.
        """
        label_holder = self.label_holder
        return Predictor(
            label_holder.name,
            models,
            self.widths,
            method.uplink.of_new_rows(),
            method.fusion,
            {o.name: o.device for o in self.parties} | {label_holder.name: label_holder.device},
            {o.name: o.transformer for o in self._holders() if o.transformer is not None},
            {o.name: blank(form_of(o.features)) for o in self._holders()},
            seed,
            self.classes,
            {o.name: o.secrets for o in self.parties if o.secrets and not o.secrets.simulated},
            means,
            traces,
        )

    def _traces(self) -> dict[str, Traces]:
        """Return by what it is seen later whether data are what they are now."""
        features = {own.name: {"features": trace_of(own.features)} for own in self._holders()}
        holder = self.label_holder.name
        labels = {"labels": trace_of(self.label_holder.labels)}
        return {**features, holder: {**features.get(holder, {}), **labels}}

    def _means(
        self, method: Method, seed: int, roles: Mapping[str, PartyRole | HolderRole]
    ) -> dict[str, Tensor]:
        """Return the mean of each party's embeddings, which could stand for it one day."""
        of = {p.name: (learners_of(roles[p.name])["bottom"], p.features) for p in self.parties}
        return mean_embeddings(of, method.uplink.embedder, self.train_rows, seed)

    def _describe(
        self,
        method: Method,
        training: Training,
        roles: Mapping[str, PartyRole | HolderRole],
    ) -> dict[str, Any]:
        """Return what tells this run from another, as plain values."""
        organisations = {
            name: {part: described(learner) for part, learner in learners_of(role).items()}
            for name, role in roles.items()
        }
        return {
            "method": repr(method),
            "training": asdict(training),
            "organisations": organisations,
            "rows": [self.rows, *map(len, (self.train_rows, self.validation_rows, self.test_rows))],
            "objective": content_of(self.loss),
            "metrics": [content_of([metric, metric.function]) for metric in self.metrics],
        }

    def _fingerprint(
        self,
        method: Method,
        description: Mapping[str, Any],
        agreement: Agreement,
        seats: Mapping[str, _Seat],
    ) -> dict[str, str]:
        """Return what a checkpoint must share with a run that goes on from it: also the data.

        What a checkpoint of an earlier version does not tell is not compared. That there are more
        organisations the layout tells, which all have told.
        """
        told = {
            "the method": content_of(method),
            "the delta of a budget": agreement.deltas,
            "the training": description["training"],
            "the rows": [description["rows"], agreement.digest_of_rows],
            "the layout": repr(replace(agreement.layout, seed=0)),  # the seed is the training's
            "the loss": description["objective"],
            "the metrics": description["metrics"],
            "what classes are called": None if self.classes is None else [*map(str, self.classes)],
        }
        for name, models in description["organisations"].items():
            told[f"a model or optimiser of {name!r}"] = models
            told[f"what {name!r} brings (data, models, how they learn)"] = seats[name].content
        return {
            what: hashlib.blake2b(json.dumps(each).encode(), digest_size=16).hexdigest()
            for what, each in told.items()
        }

    # Checking

    def _checked_rows(self, what: str, rows: ArrayLike) -> Rows:
        # A copy: what the caller does to its array later does not change the run.
        array = np.array(rows)
        if array.ndim == 1 and not len(array):
            return array.astype(np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ConfigurationError(
                f"{what} must be whole numbers in one dimension, not {array.dtype} of shape "
                f"{list(array.shape)}; of a mask, take numpy.flatnonzero"
            )
        wrong = np.flatnonzero((array < 0) | (array >= self.rows))
        if len(wrong):
            raise ConfigurationError(
                f"{what} must be row numbers from 0 to {self.rows - 1}, the rows of the labels, "
                f"but number {wrong[0]} of them is {array[wrong[0]]}"
            )
        marked = np.zeros(self.rows, dtype=np.bool_)
        marked[array] = True
        if np.count_nonzero(marked) < len(array):
            named, times = np.unique(array, return_counts=True)
            raise ConfigurationError(
                f"{what} has row {named[times > 1][0]} more than once, and {np.sum(times > 1)} "
                "such rows in all: what is disclosed is counted by a use of each row an epoch, so "
                "name each row once (numpy.unique)"
            )
        return array.astype(np.int64)

    def _check_disjoint(self) -> None:
        used = ("train_rows", "validation_rows", "test_rows")
        for one, other in itertools.combinations(used, 2):
            # A mark for each row: sorting millions of row numbers would take a multiple of them.
            marked = np.zeros(self.rows, dtype=np.bool_)
            marked[getattr(self, one)] = True
            rows: Rows = getattr(self, other)
            shared = np.unique(rows[marked[rows]])
            if len(shared):
                raise ConfigurationError(
                    f"row {shared[0]} is both in {one} and in {other}, as are "
                    f"{len(shared)} rows in all; a row is for one thing only"
                )

    def _check_watched(self, training: Training) -> None:
        """Raise if a metric has the name that reports give what early stopping goes by."""
        rule = training.early_stopping
        if rule is not None and rule.by == "loss" and "loss" in [m.name for m in self.metrics]:
            raise ConfigurationError(
                "early stopping goes by what training minimises, which is told as 'loss', and a "
                "metric is called so too: call that otherwise, or stop by='metric'"
            )

    def _check_metrics(self, output: Tensor) -> None:
        """Compute every metric on made-up outputs, so that none fails after hours of training."""
        labels = self.label_holder.labels
        for rows in (self.validation_rows, self.test_rows):
            if len(rows):
                truth = labels[torch.from_numpy(rows)]
                outputs = output[:1].expand(len(rows), *output.shape[1:])
                for metric in self.metrics:
                    metric(outputs, truth)

    def _notes_of_models(self, method: Method) -> list[str]:
        """Return what should be known of how models and optimisers are made."""
        holder = self.label_holder
        two = np.arange(2) % self.rows
        fused = torch.zeros(len(holder.labels[:2]), method.fusion.width([*self.widths.values()]))
        models: list[tuple[Party | LabelHolder, str, nn.Module, Any]] = [
            (own, "bottom", own.bottom, take(own.features, two)) for own in self._holders()
        ]
        models.append((holder, "top", holder.top, fused))
        notes: list[str] = []
        for own, part, module, inputs in models:
            whose = f"the {part} model of {own.name!r}"
            notes += notes_of_mode(whose, module)
            notes += notes_of_draws(whose, module, inputs)
            notes += notes_of_unsaved(whose, module, inputs)
            notes += notes_of_optimiser(own.name, module, own.optimiser, own.scheduler)
        return list(dict.fromkeys(notes))  # the label holder has one optimiser for both of its own

    def _check_learners(self) -> None:
        """Try every bottom model, optimiser and scheduler."""
        holder = self.label_holder
        for own in self._holders():
            own.check_learns(self.widths[own.name])
        check_optimiser(holder.name, holder.top, holder.optimiser, holder.scheduler, holder.device)

    @drawing_apart()
    def check(self, method: Method) -> None:
        """Raise unless top model, loss and metrics fit the labels and this method's fusion.

        Each is tried, on the rows of the smallest and of the largest label, the likeliest to be
        refused.

        Raises
        ------
        ConfigurationError
            If widths do not fit, an optimiser or a scheduler cannot take a step, or the loss does
            not take what the top model returns.
        DataError
            If a label is out of range, or the held-out rows cannot give a metric.
        """
        self._check_predictions(method)
        self._check_learners()

    def _check_predictions(self, method: Method) -> list[str]:
        """Try what ``check`` tries, but for what trains: making the roles tries that.

        What should be known of the loss is returned, which is computed here once.
        """
        check_not_forked()
        holder, labels = self.label_holder, self.label_holder.labels
        fused = method.fusion.width(list(self.widths.values()))
        rows = extreme_rows(labels)
        check_module(f"the top model of {holder.name!r}", holder.top)
        holder.check_apart()
        sum_of = " + ".join(f"{name}: {width}" for name, width in self.widths.items())
        why = f"the top model of {holder.name!r} does not take fused embeddings of width"
        with blamed(f"{why} {fused} ({sum_of})"):
            output = tried(holder.top, torch.zeros(len(rows), fused))
        if not isinstance(output, Tensor) or output.shape[:1] != (len(rows),):
            raise ConfigurationError(
                f"the top model of {holder.name!r} must return predictions of shape "
                f"[rows, ...], but for {len(rows)} rows it returned {shown(output)}"
            )
        if not labels.is_floating_point() and output.dim() == 2 and holder.loss is None:
            check_classes(holder.name, labels, output.shape[1])
        if not labels.is_floating_point() and output.dim() == 2 and output.shape[1] > 1:
            check_class_names(self.classes, output.shape[1])
        check_lets_through(holder.name, holder.top, len(rows), fused)
        check_top_learns(holder.name, holder.top, len(rows), fused)
        output = output.float()  # as it will be in training
        copies: dict[int, Any] = {}
        own = copied_loss(holder.name, self.loss, copies)
        before = before_loss(own)
        models = [holder.top, *(own.bottom for own in self._holders())]
        with looking_at_no_weights(f"the loss of {holder.name!r}", models, copies):
            check_loss(holder.name, own, output, labels, rows)
        notes = notes_of_loss(holder.name, own, before)
        with looking_at_no_weights("a metric", models):
            self._check_metrics(output)
        return notes


def _cast(agreement: Agreement, seats: Mapping[str, _Seat]) -> dict[str, PartyRole | HolderRole]:
    """Return a role for every seat."""
    return {name: agreement.cast(seat) for name, seat in seats.items()}
