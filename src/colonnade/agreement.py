"""What organisations agree on before they train: a method, and the numbers that all of them know.

An ``Agreement`` is a method, how long and on which rows it is trained, and the shape of everybody's
embeddings: all that organisations share. Each casts its own role from the agreement and its own
seat, that is what it alone has: its columns and its models. Nothing else is needed, so a role can
be cast where its organisation's data are.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from torch import nn

from colonnade.batches import BatchPlan, pieces
from colonnade.descriptions import content_of
from colonnade.disclosures import Disclosure
from colonnade.drawing import drawing_by
from colonnade.effects import Purpose, Role
from colonnade.errors import ConfigurationError
from colonnade.evaluation import EvaluationPlan, HeldOut
from colonnade.flows import FixedSize, Flow, Limits
from colonnade.labelling import LabelForm
from colonnade.layout import Layout
from colonnade.links import Link, Rows
from colonnade.local_updates import LocalStep, LocalUpdates
from colonnade.metrics import Metric
from colonnade.models import Fusion, Learner, load_own_state, unhooked
from colonnade.organisations import LabelHolder, Loss, Party
from colonnade.packages_told import packages_of
from colonnade.privacy import Game
from colonnade.stragglers import Stragglers
from colonnade.streams import work_seed
from colonnade.training import Training
from colonnade.uplinks import Moment, Uplink

__all__ = [
    "Agreement",
    "Composition",
    "Exchange",
    "HolderRole",
    "HolderSeat",
    "PartyRole",
    "PartySeat",
    "Shared",
    "digest_of_rows",
    "handed_back",
    "learners_of",
]

VERDICT = "verdict"


class PartyRole(Role, Protocol):
    """A party's role in training, with the model that it trains."""

    bottom: Learner


class HolderRole(Role, Protocol):
    """The label holder's role in training, with the models that it trains."""

    top: Learner
    bottom: Learner | None

    @property
    def best_round(self) -> int | None:
        """After which round the model was best, where training chooses the best."""
        ...


def learners_of(role: PartyRole | HolderRole) -> dict[str, Learner]:
    """Return the models that a role trains, by which part of the whole they are."""
    parts = {part: getattr(role, part, None) for part in ("bottom", "top")}
    return {part: learner for part, learner in parts.items() if learner is not None}


def handed_back(role: PartyRole | HolderRole) -> dict[str, nn.Module]:
    """Return the modules of the models that a role has trained, without hooks of its optimisers."""
    return {part: unhooked(learner.module) for part, learner in learners_of(role).items()}


def digest_of_rows(train: Rows, validation: Rows, test: Rows) -> str:
    """Return a digest of which rows are trained, validated and tested on.

    >>> one, other = np.arange(3), np.arange(3, 5)
    >>> digest_of_rows(one, other, other[:0]) == digest_of_rows(one, other[:0], other)
    False
    """
    hashed = hashlib.blake2b(digest_size=16)
    for rows in (train, validation, test):
        hashed.update(f"{len(rows)}".encode() + np.ascontiguousarray(rows, np.int64).tobytes())
    return hashed.hexdigest()


class Composition(Protocol):
    """The parts of a ``Method``, as exchanges and roles see them."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def unlimited(self) -> Self:
        """Return it without budgets: what a run must share with one that goes on."""
        ...

    @property
    def timed(self) -> bool:
        """Whether what is learned depends on time."""
        ...

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return who learns what."""
        ...

    @property
    def fusion(self) -> Fusion:
        """How embeddings become the top model's input."""
        ...

    @property
    def uplink(self) -> Uplink:
        """How embeddings reach the label holder."""
        ...

    @property
    def exchange(self) -> Exchange:
        """What comes back."""
        ...

    @property
    def local_updates(self) -> LocalUpdates:
        """Which steps follow an exchange."""
        ...

    @property
    def stragglers(self) -> Stragglers:
        """For whom a round waits."""
        ...


@runtime_checkable
class Exchange(Protocol):
    """What travels in a round besides the uplink, and which roles the organisations play.

    A frozen value. One that inherits from this class has the answers that promise least: what it
    does not say that it takes is refused.
    """

    @property
    def labels(self) -> Literal["private", "shared"]:
        """Whether every party learns the labels.

        Where it does, the exchange sends them before the first round, and each seat is given how a
        loss is computed (``Shared``).
        """
        return "private"

    @property
    def takes_steps(self) -> frozenset[LocalStep]:
        """The kinds of local steps that its roles take where a policy has them."""
        return frozenset()

    @property
    def takes_absences(self) -> bool:
        """Whether a round can do without a party, which is told so."""
        return False

    @property
    def timed(self) -> bool:
        """Whether it takes as many local steps, where there are any, as there is time for."""
        return False

    @property
    def own_pace(self) -> bool:
        """Whether each party goes at its own pace: then how many messages there are hangs on time.

        So does what is learned, whatever the local updates.
        """
        return False

    def uploads(self, rounds: int, epoch: int) -> int:
        """Return how often a party uses the uplink in so many rounds of training, at most.

        By default once a round. Bytes and epsilon that are told beforehand, and the rounds that a
        budget affords, go by it: all messages of training, its own too, are counted as often.

        Parameters
        ----------
        rounds
            Those of training; of one row, those that it is trained on in.
        epoch
            In how many rounds all rows are trained on once; of one row, 1.
        """
        return rounds

    def bytes_remembered(self, layout: Layout) -> Mapping[str, int]:
        """Return what its roles remember of rows beside what links do, by organisation."""
        return {}

    def affords(self, layout: Layout, uses: int) -> bool:
        """Return whether a row may be trained on so often; where not, training ends.

        That is once in each round it is in, whatever ``uploads`` says. Of uses in vain, before a
        crash, it knows nothing; see ``Uplink.affords``.
        """
        return True

    def spending(self, layout: Layout, uses: int) -> Mapping[str, Any]:
        """Return what so many rounds with a row will cost of its label's privacy.

        A derivative tells the same of a label whoever was left out of its round. So the policy of
        stragglers does not matter, and uses in vain are counted in ``uses``.
        """
        return {}

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return games that try whether it keeps what the account says of labels."""
        return ()

    def check(self, method: Composition) -> None:
        """Raise ``ConfigurationError`` if it cannot work with the other parts of ``method``."""
        return

    def check_covers(self, loss: Loss, learned: Mapping[str, Any]) -> None:
        """Raise ``ConfigurationError`` if it cannot go with a loss.

        Parameters
        ----------
        loss
            The label holder's.
        learned
            What loss and top model know of the labels of all training rows; see ``LabelHolder``.
        """
        return

    @abstractmethod
    def flows(self, agreement: Agreement) -> tuple[Flow, ...]:
        """Return all messages of training that it adds to the uplink's."""
        ...

    @abstractmethod
    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return who learns what by it, of the labels at least."""
        ...

    def with_links(self, change: Callable[[Link], Link]) -> Self:
        """Return the exchange with each of its links changed."""
        return self

    def unlimited(self) -> Exchange:
        """Return the exchange without a budget: what a run must share with one that goes on."""
        return self

    @abstractmethod
    def party(self, agreement: Agreement, seat: PartySeat) -> PartyRole:
        """Return the role of the party in ``seat``."""
        ...

    @abstractmethod
    def label_holder(self, agreement: Agreement, seat: HolderSeat) -> HolderRole:
        """Return the label holder's role."""
        ...


@dataclass(frozen=True, eq=False)
class Agreement:
    """All that the organisations of a run share; each makes it from its own configuration.

    Parameters
    ----------
    method
        How they train.
    training
        How long, in which steps, from which seed.
    layout
        Who takes part, how wide embeddings are, how many rows are aligned.
    parameters
        Of the top model.
    train_rows, validation_rows, test_rows
        Row numbers of the aligned table.
    labels
        What labels look like, where the exchange shares them; else nobody but their holder need
        know.

    Raises
    ------
    ConfigurationError
        If layout and training disagree about the seed, a row is not in the table, or early stopping
        has no validation rows.
    """

    method: Composition
    training: Training
    layout: Layout
    parameters: int
    train_rows: Rows
    validation_rows: Rows
    test_rows: Rows
    labels: LabelForm | None = None

    def __post_init__(self) -> None:
        for rows in self.row_sets:
            if len(rows) and not 0 <= rows.min() <= rows.max() < self.layout.rows:
                raise ConfigurationError(
                    f"{self.layout.rows} rows are aligned, numbered from 0, but row "
                    f"{rows.max() if rows.max() > 0 else rows.min()} is to be used"
                )
        if self.layout.simulated != (self.training.secrets == "seed"):
            raise ConfigurationError(
                "layout and training disagree about whether the run is declared a simulation"
            )
        if self.layout.seed != self.training.seed:
            raise ConfigurationError(
                f"the layout has the seed {self.layout.seed}, training {self.training.seed}: all "
                "draw the same batches from one"
            )
        if self.training.early_stopping and not len(self.validation_rows):
            raise ConfigurationError(
                "early stopping chooses the best model by validation rows, and there are none; "
                "chosen by test rows, the test would be no test"
            )

    @cached_property
    def wanted(self) -> BatchPlan:
        """Which rows would be trained on in which round, if budgets were endless."""
        training, rows = self.training, len(self.train_rows)
        return self.method.uplink.batches(
            BatchPlan(
                self.train_rows,
                training.batch_size_for(rows),
                training.epochs_for(rows),
                training.seed,
                training.schedule_every,
            )
        )

    @cached_property
    def batches(self) -> BatchPlan:
        """Which rows are trained on in which round, as far as uplink and exchange can afford it.

        Raises
        ------
        ConfigurationError
            If one can afford no round with the evaluation after it.
        """
        rounds = self.wanted.rounds
        affordable = bisect_left(range(rounds), True, key=lambda done: not self._affords(done + 1))
        if not affordable:
            raise ConfigurationError(self._why_no_round())
        return self.wanted.until(affordable)

    def _affords(self, rounds: int) -> bool:
        """Whether no row of any kind would be sent too often in so many rounds."""
        uplink, exchange, late = self.method.uplink, self.method.exchange, self.method.stragglers
        return exchange.affords(self.layout, self.passes(rounds)) and all(
            uplink.affords(self.layout, purpose, most, late)
            for purpose, most in self.uses(rounds).items()
        )

    def _why_no_round(self) -> str:
        """Return whose budget does not suffice for a round, what one costs, and what to do."""
        uplink, exchange, uses = self.method.uplink, self.method.exchange, self.uses(1)
        late = self.method.stragglers
        if not exchange.affords(self.layout, 1):
            cost = _cost(exchange.spending(self.layout, 1))
            return (
                f"the budget for labels cannot afford one round of training{cost}; raise the "
                "budget of the defence, or let it add more noise"
            )
        for purpose, most in uses.items():
            told = uplink.spending(self.layout, {purpose: most}, late)
            affords = uplink.affords(self.layout, purpose, most, late)
            if not affords and told.get("epsilon", 0) is None:
                if told["delta"] == 0:
                    return (
                        "the budget cannot afford one round of training at a delta of 0, where "
                        "nothing bounds the epsilon of Gaussian noise, nor of what is without "
                        "noise: give it a delta above 0, such as 1e-5"
                    )
                if purpose is Purpose.TRAINING:
                    return (
                        "the budget cannot afford one round of training, which shows embeddings "
                        "or their sums without noise, so that nothing bounds its epsilon: take a "
                        "mechanism with noise, or leave the budget out"
                    )
                return (
                    "the budget cannot afford one round of training with its evaluation, which is "
                    "without noise, so that nothing bounds its epsilon: leave `held_out` of the "
                    "uplink out, evaluate no rows, or leave the budget out"
                )
        cost = _cost(uplink.spending(self.layout, uses, late))
        return (
            f"the budget cannot afford one round of training with its evaluation{cost}; raise it, "
            "let the uplink add more noise (a smaller beta or fewer trials, a larger multiplier), "
            "or take narrower embeddings"
        )

    def passes(self, rounds: int) -> int:
        """Return in how many of so many rounds a row is trained on, at most."""
        return -(-rounds // self.wanted.rounds_per_epoch)

    def uses(self, rounds: int) -> dict[Purpose, int]:
        """Return how often a row is sent in so many rounds, at most, by what for."""
        uses = {Purpose.TRAINING: self.method.exchange.uploads(self.passes(rounds), epoch=1)}
        if len(self.validation_rows) or len(self.test_rows):
            uses[Purpose.EVALUATION] = -(-rounds // self._evaluate_every)
        return uses

    def notes(self) -> tuple[str, ...]:
        """Return what should be known before training, a sentence each.

        That a budget ends it before its last round; that batches are not as large as was asked for;
        and what the uplink has to say.
        """
        notes = [*self.method.uplink.notes(self.layout)]
        rows = len(self.train_rows)
        asked, taken = min(self.training.batch_size_for(rows), rows), self.wanted.batch_size
        if asked != taken:
            notes.append(
                f"batches have {taken} rows, not {asked}: rows that travel together are trained on "
                "together"
            )
        affordable, wanted = self.batches.rounds, self.wanted.rounds
        if affordable != wanted:
            notes.append(
                f"the budget of privacy affords {affordable:,} of the {wanted:,} rounds that "
                "training would take, and no more: it ends then"
            )
        return tuple(notes)

    @property
    def _evaluate_every(self) -> int:
        return self.training.evaluate_every or self.wanted.rounds_per_epoch

    @cached_property
    def evaluation(self) -> EvaluationPlan:
        """Which rows are evaluated on when.

        With validation rows, those are as training goes and the test rows once, by the finished
        model; without, the test rows are as training goes.
        """
        training = self.training
        validation = pieces(self.validation_rows, training.evaluation_rows)
        test = pieces(self.test_rows, training.evaluation_rows)
        return EvaluationPlan(
            HeldOut("validation", validation) if validation else HeldOut("test", test),
            HeldOut("test", test if validation else [], first_part=len(validation)),
            self._evaluate_every,
            self.batches.rounds,
            training.early_stopping,
        )

    @cached_property
    def digest(self) -> str:
        """What all organisations' roles must have in common: drivers refuse to run others."""
        said = [self.method, self.training, self.layout, self.parameters, self.labels]
        brought = packages_of(self.method)
        told = f"{content_of(said)} {brought} {self.digest_of_rows}".encode()
        return hashlib.blake2b(told, digest_size=16).hexdigest()

    @cached_property
    def digest_of_rows(self) -> str:
        """Which rows are trained, validated and tested on."""
        return digest_of_rows(*self.row_sets)

    def cast(self, seat: PartySeat | HolderSeat) -> PartyRole | HolderRole:
        """Return the role of whoever is in ``seat``.

        What models draw as they are copied, moved or put into training, they draw by the seed. Each
        has loaded what it saves, as those have that go on from a checkpoint.

        Raises
        ------
        ConfigurationError
            If the role cannot be played with what is in the seat.
        """
        name, exchange = seat.own.name, self.method.exchange
        with drawing_by(work_seed(self.training.seed, name, "casting", 0, 0)):
            if isinstance(seat, PartySeat):
                role: PartyRole | HolderRole = exchange.party(self, seat)
            else:
                role = exchange.label_holder(self, seat)
            for part, learner in learners_of(role).items():
                load_own_state(f"the {part} model of {name!r}", learner.module)
        return role

    def fingerprint(self, seat: PartySeat | HolderSeat) -> str:
        """Return what a checkpoint of a role must share with one that goes on from it.

        A budget does not belong to it: a larger one lets a run go on that has used up a smaller.
        """
        unlimited = replace(self, method=self.method.unlimited())
        told = f"{unlimited.digest} {seat.content}".encode()
        return hashlib.blake2b(told, digest_size=16).hexdigest()

    @property
    def deltas(self) -> tuple[float | None, float | None]:
        """What epsilons of rows, and of their labels, are told with; None where none is kept.

        A run that goes on may have a larger budget, but epsilons of another delta are of another
        promise.
        """
        method, once = self.method, {Purpose.TRAINING: 1}
        of_rows = method.uplink.spending(self.layout, once, method.stragglers)
        of_labels = method.exchange.spending(self.layout, 1)
        return of_rows.get("delta"), of_labels.get("delta")

    @property
    def row_sets(self) -> tuple[Rows, Rows, Rows]:
        """The rows to train, to validate and to test on."""
        return self.train_rows, self.validation_rows, self.test_rows

    def rows_at(self, moment: Moment) -> Rows:
        """Return the rows whose embeddings travel at a moment of training."""
        if moment.purpose is Purpose.TRAINING:
            return self.batches.rows(moment.round)
        watched, final = self._held_out()
        held_out = final if final and moment.part >= final.first_part else watched
        return held_out.rows_at(moment)

    def flows(self) -> tuple[Flow, ...]:
        """Return every message that will travel."""
        uplink, layout = self.method.uplink, self.layout
        held_out = [len(p) for plan in self._held_out() for p in plan.pieces]
        flows = [
            *uplink.flows(layout, self.batches.batch_size, Purpose.TRAINING),
            *self.method.exchange.flows(self),
        ]
        if held_out:
            flows += uplink.flows(layout, max(held_out), Purpose.EVALUATION)
        if self.training.early_stopping is not None:
            verdict, evaluation = FixedSize(1), Purpose.EVALUATION
            holder, parties = layout.label_holder, layout.parties
            flows.append(Flow(holder, parties, VERDICT, evaluation, verdict, 0, 0, 0))
        return tuple(flows)

    def warm_up(self) -> None:
        """Let every flow encode a little, so that no measured work compiles a kernel."""
        # By identity: nothing asks a codec of one's own to be hashable, nor to know its equals.
        for flow in {(id(flow.format), flow.width): flow for flow in self.flows()}.values():
            flow.format.warm_up(flow.width)

    def limits(self) -> Limits:
        """Return what an organisation has to accept."""
        pieces = sum(len(plan.pieces) for plan in self._held_out())
        in_a_round = self.method.exchange.uploads(1, self.batches.rounds_per_epoch)
        return Limits.of(self.flows(), pieces + in_a_round - 1)

    def _held_out(self) -> tuple[HeldOut, HeldOut]:
        return self.evaluation.watched, self.evaluation.final


@dataclass(frozen=True, eq=False)
class Shared:
    """What every party knows besides the labels where an exchange shares them.

    The labels themselves travel, as messages before the first round.

    Parameters
    ----------
    loss
        From predictions and labels of a batch to its mean loss.
    top
        A module of the top model's form; its parameters will travel.
    """

    loss: Loss
    top: nn.Module


@dataclass(frozen=True, eq=False)
class PartySeat:
    """What a party alone has.

    Parameters
    ----------
    own
        Its columns and its bottom model.
    shared
        How to compute a loss, where the exchange shares the labels; else None.
    """

    own: Party
    shared: Shared | None = None

    @cached_property
    def content(self) -> str:
        """What tells it from another seat of the same name: data, models, how they learn."""
        own, shared = self.own, self.shared
        learning = (own.features, own.bottom, own.optimiser, own.scheduler, str(own.device))
        return content_of([*learning, None if shared is None else [shared.loss, shared.top]])


@dataclass(frozen=True, eq=False)
class HolderSeat:
    """What the label holder alone has.

    Parameters
    ----------
    own
        Its labels and top model, and its columns and bottom model, if any.
    metrics
        What is reported of an evaluation, the first being the one that training is judged by; none
        for those that fit the labels (``usual_metrics``).
    """

    own: LabelHolder
    metrics: tuple[Metric, ...] = ()

    @cached_property
    def content(self) -> str:
        """What tells it from another seat of the same name: data, models, loss, how they learn."""
        own = self.own
        models = (own.top, own.bottom, own.optimiser, own.scheduler, str(own.device))
        judged = (own.objective(), [[metric, metric.function] for metric in self.metrics])
        return content_of([own.labels, own.features, *models, *judged])


def _cost(spent: Mapping[str, Any]) -> str:
    """Return what something costs, and what there is, where an account tells it."""
    if not spent or spent["epsilon"] is None:
        return ""
    budget = "" if spent["budget"] is None else f", and there is {spent['budget']:g}"
    return f": that costs epsilon {spent['epsilon']:.3g} at delta {spent['delta']:g}{budget}"
