"""The public API: describe who holds what, choose a method, train.

A ``Federation`` is checked when it is made: shapes, labels, values. ``train`` copies the modules it
was given, so one federation can be trained again and again from the same start, by other methods
or under other drivers, and compared.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from colonnade import __version__
from colonnade.batches import BatchPlan, pieces
from colonnade.checks import (
    check_features,
    check_labels,
    embedding_width,
    extreme_rows,
    first_line,
    shown,
)
from colonnade.drivers import Assignment, Driver, RunRecord, Simulate
from colonnade.drivers.driver import Values
from colonnade.errors import ConfigurationError, DataError
from colonnade.links import Rows
from colonnade.methods import Method, svfl
from colonnade.metrics import ACCURACY, LOG_LOSS, RMSE, Metric
from colonnade.models import Features, Learner, OptimiserFactory
from colonnade.reports import draw_run
from colonnade.roles import EvaluationPlan, SplitLabelHolder, SplitParty
from colonnade.runs import Run, RunFolder, history_frame, summarise
from colonnade.streams import StreamKey

__all__ = ["Federation", "LabelHolder", "Party", "Training", "Watcher"]


def _adam() -> OptimiserFactory:
    return partial(torch.optim.Adam, lr=1e-3)


@dataclass(frozen=True)
class Party:
    """An organisation with feature columns.

    Parameters
    ----------
    name
        Its name, unique in the federation.
    features
        Its columns: a tensor ``[N, ...]``, or a dict of such tensors; row i is the same sample in
        every organisation.
    bottom
        Its bottom model, from a batch of features to embeddings ``[B, E]``.
    optimiser
        Makes the bottom's optimiser, by default Adam with learning rate 0.001.
    """

    name: str
    features: Features
    bottom: nn.Module
    optimiser: OptimiserFactory = field(default_factory=_adam)


@dataclass(frozen=True)
class LabelHolder:
    """The organisation with the labels, and possibly columns of its own.

    Parameters
    ----------
    name
        Its name, unique in the federation.
    labels
        A label for each sample, ``[N]``: classes 0, 1, ... as int64, or numbers as float32.
    top
        The top model, from fused embeddings to predictions.
    loss
        From predictions and labels of a batch to the mean loss; by default cross entropy, or the
        mean squared error when the labels are floating point.
    features, bottom
        Its own columns and bottom model; both or neither.
    optimiser
        Makes the optimisers of top and bottom, by default Adam with learning rate 0.001.
    """

    name: str
    labels: Tensor
    top: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor] | None = None
    features: Features | None = None
    bottom: nn.Module | None = None
    optimiser: OptimiserFactory = field(default_factory=_adam)


@dataclass(frozen=True)
class Training:
    """How long and in which steps to train.

    Parameters
    ----------
    epochs
        Passes over the training rows.
    batch_size
        Rows in a batch.
    seed
        Decides batches, dropout, dither: everything random that is not secret.
    threads
        Threads within a torch operation. The last bits of a result depend on it.
    evaluate_every
        Rounds between evaluations on the test rows; an epoch by default.
    evaluation_rows
        Test rows that travel in one message.
    checkpoint_every
        Rounds between checkpoints; an epoch by default. Kept only when the run has a folder.
    """

    epochs: int = 1
    batch_size: int = 128
    seed: int = 0
    threads: int = 1
    evaluate_every: int | None = None
    evaluation_rows: int = 1024
    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        lowest = {"epochs": 1, "batch_size": 1, "threads": 1, "evaluation_rows": 1}
        lowest |= {"evaluate_every": 1, "checkpoint_every": 1}
        for name, least in lowest.items():
            value = getattr(self, name)
            optional = name in ("evaluate_every", "checkpoint_every")
            if not _whole(value, least, 2**63) and not (optional and value is None):
                raise ConfigurationError(
                    f"training.{name} must be a whole number, {least} or more, not {value!r}"
                )
        if not _whole(self.seed, -(2**63), 2**63):
            raise ConfigurationError(
                f"training.seed must be a whole number of 64 bits, not {self.seed!r}"
            )


@dataclass(frozen=True)
class Watcher:
    """Who is told how a run goes, and may end it.

    Parameters
    ----------
    on_begin
        Called with the first and the last round before the roles start.
    on_round
        Called with a role's name whenever it enters a round, and the round.
    on_report
        Called with the values of each evaluation.
    interrupted
        Asked between rounds; once true, the run stops at the next boundary and can be resumed.
    """

    on_begin: Callable[[int, int], None] = lambda first, last: None
    on_round: Callable[[str, int], None] = lambda role, round: None
    on_report: Callable[[Values], None] = lambda values: None
    interrupted: Callable[[], bool] = lambda: False


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
    metrics
        What an evaluation reports, the first being the one that ``best`` is chosen by. By default
        accuracy and log-loss for classes, RMSE for numbers.

    Raises
    ------
    ConfigurationError
        If names, shapes or models do not fit together.
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

    def __init__(
        self,
        parties: Sequence[Party],
        label_holder: LabelHolder,
        train_rows: ArrayLike | None = None,
        test_rows: ArrayLike | None = None,
        metrics: Sequence[Metric] | None = None,
    ) -> None:
        self.parties = tuple(parties)
        self.label_holder = label_holder
        self._check_names()
        check_labels(label_holder.name, label_holder.labels)
        self.rows = len(label_holder.labels)
        self.train_rows = self._checked_rows(
            "train_rows", np.arange(self.rows) if train_rows is None else train_rows
        )
        self.test_rows = self._checked_rows("test_rows", [] if test_rows is None else test_rows)
        classes = not label_holder.labels.is_floating_point()
        self.metrics = tuple(metrics or ((ACCURACY, LOG_LOSS) if classes else (RMSE,)))
        self.loss = label_holder.loss or (
            nn.functional.cross_entropy if classes else _squared_error
        )
        for party in self._holders():
            check_features(party.name, party.features, self.rows)
        self.widths = {
            p.name: embedding_width(p.name, p.bottom, p.features) for p in self._holders()
        }

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
            Go on from the newest checkpoint in ``out``; start anew when there is none.
        stop_before
            Stop at the boundary of this round, as an interruption would.
        watcher
            Who is told how it goes.
        config
            What ``config.yaml`` shall hold, by default a description of the federation.

        Raises
        ------
        ConfigurationError
            If the method does not fit the federation, or ``out`` holds another run.
        Diverged
            If the loss stops being a finite number.
        """
        method = method or svfl()
        training = training or Training()
        driver = driver or Simulate()
        watcher = watcher or Watcher()
        self._check_top(method)
        self._warm_up(method)
        batches = BatchPlan(self.train_rows, training.batch_size, training.epochs, training.seed)
        roles = self._roles(method, training, batches)
        description = self._describe(method, training, roles)
        folder = None if out is None else RunFolder(Path(out))
        store = checkpoint = None
        if folder is not None:
            store = folder.store(self._fingerprint(description))
            checkpoint = store.latest() if resume else None
            folder.begin(config or description, resume)
        assignment = Assignment(
            seed=training.seed,
            threads=training.threads,
            store=store,
            checkpoint_every=training.checkpoint_every or batches.rounds_per_epoch,
            resume=checkpoint,
            stop_before=stop_before,
            interrupted=watcher.interrupted,
            on_round=watcher.on_round,
            on_report=watcher.on_report,
            max_body_bytes=self._max_body_bytes(method, training),
        )
        watcher.on_begin(assignment.first_round, batches.rounds)
        record = driver.run(list(roles.values()), assignment)
        run = self._run(method, training, driver, roles, record, folder)
        if folder is not None:
            folder.finish(run)
            draw_run(run, folder.path / "run.png")
        return run

    # Making the roles

    def _holders(self) -> list[Party]:
        """Return everybody with features, the label holder (if it has any) last."""
        holder = self.label_holder
        if holder.bottom is None or holder.features is None:
            return list(self.parties)
        own = Party(holder.name, holder.features, holder.bottom, holder.optimiser)
        return [*self.parties, own]

    def _roles(
        self, method: Method, training: Training, batches: BatchPlan
    ) -> dict[str, SplitParty | SplitLabelHolder]:
        holder, seed = self.label_holder, training.seed
        evaluation = EvaluationPlan(
            pieces(self.test_rows, training.evaluation_rows),
            training.evaluate_every or batches.rounds_per_epoch,
            batches.rounds,
        )
        widths = {party.name: self.widths[party.name] for party in self.parties}
        roles: dict[str, SplitParty | SplitLabelHolder] = {
            party.name: SplitParty(
                party.name,
                holder.name,
                Learner(copy.deepcopy(party.bottom), party.optimiser),
                party.features,
                batches,
                evaluation,
                method.uplink.uploader(
                    party.name, holder.name, self.rows, widths[party.name], seed
                ),
                method.downlink.receiver(self.rows, widths[party.name]),
                seed,
            )
            for party in self.parties
        }
        bottom = copy.deepcopy(holder.bottom)
        roles[holder.name] = SplitLabelHolder(
            holder.name,
            Learner(copy.deepcopy(holder.top), holder.optimiser),
            holder.labels,
            self.loss,
            None if bottom is None else Learner(bottom, holder.optimiser),
            holder.features,
            batches,
            evaluation,
            method.uplink.collector(widths, self.rows, method.fusion, seed),
            {name: method.downlink.sender(self.rows, width) for name, width in widths.items()},
            _NamedMetrics(self.metrics),
            seed,
        )
        return roles

    def _max_body_bytes(self, method: Method, training: Training) -> int:
        rows = max(training.batch_size, training.evaluation_rows)
        widths = [self.widths[party.name] for party in self.parties]
        links = (method.uplink.link, method.downlink)
        return max(link.bytes_at_most(rows, width) for link in links for width in widths)

    # Telling what happened

    def _run(
        self,
        method: Method,
        training: Training,
        driver: Driver,
        roles: Mapping[str, SplitParty | SplitLabelHolder],
        record: RunRecord,
        folder: RunFolder | None,
    ) -> Run:
        holder = self.label_holder.name
        history = history_frame(record, holder)
        summary = summarise(
            record,
            history,
            holder,
            method=method.name,
            metric=f"test_{self.metrics[0].name}",
            greater_is_better=self.metrics[0].greater_is_better,
            clock=_clock(driver),
            privacy=_privacy(),
            warnings=_warnings(),
            details={
                "parties": list(self.widths),
                "label_holder": holder,
                "rows_train": len(self.train_rows),
                "rows_test": len(self.test_rows),
                "seed": training.seed,
                "driver": driver.label,
                "versions": {"colonnade": __version__, "torch": torch.__version__},
            },
        )
        models: dict[str, dict[str, nn.Module]] = {}
        for name, role in roles.items():
            models[name] = {} if role.bottom is None else {"bottom": role.bottom.module}
            if isinstance(role, SplitLabelHolder):
                models[name]["top"] = role.top.module
        path = None if folder is None else folder.path
        return Run(summary, history, record.ledger, models, record, path)

    def _describe(
        self,
        method: Method,
        training: Training,
        roles: Mapping[str, SplitParty | SplitLabelHolder],
    ) -> dict[str, Any]:
        """Return what tells this run from another, as plain values."""
        organisations = {}
        for name, role in roles.items():
            organisations[name] = {
                part: _described(learner)
                for part in ("bottom", "top")
                if (learner := getattr(role, part, None)) is not None
            }
        return {
            "method": repr(method),
            "training": asdict(training),
            "organisations": organisations,
            "rows": [self.rows, len(self.train_rows), len(self.test_rows)],
            "metrics": [metric.name for metric in self.metrics],
        }

    def _fingerprint(self, description: Mapping[str, Any]) -> str:
        """Return what a checkpoint must share with a run that goes on from it: also the data."""
        digest = hashlib.blake2b(json.dumps(description).encode(), digest_size=16)
        for party in self._holders():
            columns = party.features
            parts = [columns] if isinstance(columns, Tensor) else columns.values()
            for values in parts:
                digest.update(_bytes_of(values))
        digest.update(_bytes_of(self.label_holder.labels))
        for rows in (self.train_rows, self.test_rows):
            digest.update(rows.data)
        return digest.hexdigest()

    # Checking

    def _check_names(self) -> None:
        holder = self.label_holder
        if not self.parties:
            raise ConfigurationError("a federation needs a party besides the label holder")
        names = [party.name for party in self.parties] + [holder.name]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two organisations are called {name!r}")
            if not name or any(c in name for c in "/\\\0") or name.startswith("."):
                raise ConfigurationError(f"an organisation cannot be called {name!r}")
        if (holder.features is None) != (holder.bottom is None):
            lacks = "bottom" if holder.bottom is None else "features"
            raise ConfigurationError(
                f"label holder {holder.name!r} needs both features and a bottom model, "
                f"or neither: it has no {lacks}"
            )

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
        return array.astype(np.int64)

    def _check_top(self, method: Method) -> None:
        """Try the top model and the loss on two rows of zeros, and check the labels' range.

        The rows are those of the smallest and the largest label, the likeliest to be refused.
        """
        holder = self.label_holder
        fused = method.fusion.width(list(self.widths.values()))
        rows = extreme_rows(holder.labels)
        with torch.no_grad():
            try:
                output = copy.deepcopy(holder.top).eval()(torch.zeros(len(rows), fused))
            except Exception as error:  # a user's module may raise anything
                raise ConfigurationError(
                    f"the top model of {holder.name!r} does not take fused embeddings of width "
                    f"{fused} ({' + '.join(f'{n}: {w}' for n, w in self.widths.items())}): "
                    f"{first_line(error)}"
                ) from error
            if not isinstance(output, Tensor) or output.shape[:1] != (len(rows),):
                raise ConfigurationError(
                    f"the top model of {holder.name!r} must return predictions of shape "
                    f"[rows, ...], but for {len(rows)} rows it returned {shown(output)}"
                )
            labels = holder.labels
            if not labels.is_floating_point() and output.dim() == 2 and holder.loss is None:
                wrong = ((labels < 0) | (labels >= output.shape[1])).nonzero()
                if len(wrong):
                    row = int(wrong[0, 0])
                    raise DataError(
                        f"the label of row {row} is {int(labels[row])}, but the top model of "
                        f"{holder.name!r} has outputs for the classes 0 to {output.shape[1] - 1}"
                    )
            try:
                loss = self.loss(output, labels[torch.from_numpy(rows)])
            except Exception as error:
                raise ConfigurationError(
                    f"the loss of {holder.name!r} does not take predictions of shape "
                    f"{list(output.shape)} and the labels, {shown(labels)}, of the rows "
                    f"{' and '.join(map(str, rows))}: {first_line(error)}"
                ) from error
            if not isinstance(loss, Tensor) or loss.dim() != 0:
                raise ConfigurationError(
                    f"the loss of {holder.name!r} must return one number, the mean of a batch, "
                    f"but it returned {shown(loss)}"
                )

    def _warm_up(self, method: Method) -> None:
        """Send two rows of zeros through each link, so that no measured work compiles a kernel."""
        rows = np.arange(2, dtype=np.int64)
        key = StreamKey(0, "", "warm-up", 0)
        for link in (method.uplink.link, method.downlink):
            for width in {self.widths[party.name] for party in self.parties}:
                body = link.sender(self.rows, width).send(torch.zeros(2, width), rows, key)
                link.receiver(self.rows, width).receive(body, rows, key)


class _NamedMetrics:
    """Computes metrics on held-out rows, named as the history names them."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def __call__(self, outputs: Tensor, labels: Tensor) -> dict[str, float]:
        return {f"test_{metric.name}": metric(outputs, labels) for metric in self._metrics}


def _squared_error(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared error of predictions ``[B]`` or ``[B, 1]`` for labels ``[B]``."""
    # Without the common shape, torch would compare every prediction with every label.
    return nn.functional.mse_loss(predictions.reshape(labels.shape), labels)


def _whole(value: object, least: int, beyond: int) -> bool:
    return isinstance(value, int) and least <= value < beyond


def _described(learner: Learner) -> dict[str, Any]:
    """Return a model's structure, its start, and its optimiser's settings."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in learner.module.state_dict().items():
        digest.update(name.encode())
        digest.update(_bytes_of(value))
    optimiser = learner.optimiser
    return {
        "model": str(learner.module),
        "start": digest.hexdigest(),
        "optimiser": type(optimiser).__name__ if optimiser else "none",
        "settings": {k: repr(v) for k, v in optimiser.defaults.items()} if optimiser else {},
    }


def _bytes_of(values: Tensor) -> memoryview:
    return values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _clock(driver: Driver) -> dict[str, str]:
    if isinstance(driver, Simulate):
        return {"network": "modelled", "compute": driver.costs.label}
    return {"network": "measured", "compute": "measured"}


def _privacy() -> dict[str, str]:
    return {
        "mechanism": "none",
        "labels": "stay with the label holder; derivatives and predictions still tell of them",
        "embeddings": "seen by the label holder as the codec leaves them",
        "alignment": "rows were aligned before training; not protected here",
    }


def _warnings() -> list[str]:
    return [
        "no protection is on: the label holder sees every party's embeddings, "
        "from which features can in part be reconstructed"
    ]
