"""What every organisation does around the exchange of a round: evaluate, stop, keep the best.

A protocol adds ``_train``, the exchange and the steps of one round, to the two roles here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.agreement import VERDICT, Agreement, HolderSeat, PartySeat
from colonnade.effects import Boundary, Close, Expect, Purpose, Receive, Report, Send, Work
from colonnade.errors import ConfigurationError, Diverged
from colonnade.evaluation import HeldOut
from colonnade.links import Rows
from colonnade.metrics import Metric, usual_metrics
from colonnade.models import Learner, parameter_count, take
from colonnade.organisations import check_rows, copied_loss
from colonnade.roles.alone import check_holder_alone, check_party_alone
from colonnade.roles.blame import Attributed
from colonnade.roles.evaluate import evaluated, upload
from colonnade.roles.local_steps import LocalSteps
from colonnade.roles.reported import reported
from colonnade.roles.stopping import BestParts, Judge, Verdict, decode_verdict, encode_verdict
from colonnade.stragglers import Stragglers
from colonnade.streams import work_seed
from colonnade.uplinks import Ended, Moment, Timetable
from colonnade.wire import reading

__all__ = ["TrainingLabelHolder", "TrainingParty"]

T = TypeVar("T")


class TrainingParty(ABC):
    """A party while training.

    Parameters
    ----------
    agreement
        What all organisations know.
    seat
        What this party alone has.
    """

    def __init__(self, agreement: Agreement, seat: PartySeat) -> None:
        layout, uplink = agreement.layout, agreement.method.uplink
        self.name = seat.own.name
        self.agreed = agreement.digest
        self._seat = seat
        check_rows(self.name, seat.own.features, layout.rows)
        if self.name not in layout.parties:
            raise ConfigurationError(
                f"{self.name!r} is none of the parties agreed on, {', '.join(layout.parties)}"
            )
        self.round = 0
        self.bottom = seat.own.learner(layout.widths[self.name])
        self._features = seat.own.features
        self._label_holder = layout.label_holder
        self._peers = (layout.label_holder, *uplink.peers(layout, self.name))
        self._timetable = agreement
        self._batches = agreement.batches
        self._evaluation = agreement.evaluation
        self._uplink = uplink.uploader(layout, seat.own)
        check_party_alone(agreement, seat.own)
        seat.own.check_schedule(self._batches.schedule_steps)
        self._embed = uplink.embedder(self.bottom)  # for steps that send nothing
        self._seed = layout.seed
        self._stopped = False
        self._best = BestParts([self.bottom])
        self._local_steps = LocalSteps(agreement)

    @property
    def fingerprint(self) -> str:
        """What a checkpoint of it must share with a role that goes on from it."""
        return self._timetable.fingerprint(self._seat)

    @property
    def peers(self) -> Sequence[str]:
        """The label holder, and whom the uplink needs."""
        return self._peers

    def done(self) -> bool:
        """Whether the last round is over, or training was stopped."""
        return self._stopped or self.round >= self._batches.rounds

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy until now, as far as this party knows."""
        return self._uplink.spent()

    async def run(self) -> None:
        """Train from ``self.round`` to the last round, or until the label holder stops it."""
        await self._prepare()
        while not self.done():
            await Boundary(self.round)
            await Close(self.round)  # nothing that comes late for an earlier round is of use
            await self._train(self._batches.rows(self.round), Moment(self.round))
            self.round += 1
            if self._batches.schedule_due(self.round):
                self.bottom.advance_schedule(
                    work_seed(self._seed, self.name, "schedule", self.round, 0)
                )
            if self._evaluation.due(self.round):
                await self._upload(self._evaluation.watched)
                await self._obey()
            if self._evaluation.due(self.round) or self.done():
                await self._tell()
            if self.done():
                self._best.put_back()
                await self._upload(self._evaluation.final)
        await Boundary(self.round)
        await Close(self.round)

    async def _prepare(self) -> None:
        """Do what comes before the first round of this start."""
        await self._uplink.prepare(self._ahead)

    @property
    def _ahead(self) -> Timetable:
        """What still travels: nothing where training is over, which ends by its last evaluation."""
        return Ended(self._timetable) if self.done() else self._timetable

    @abstractmethod
    async def _train(self, rows: Rows, moment: Moment) -> None:
        """Exchange a batch and take the steps of its round, if there are any."""

    def _progress(self) -> Mapping[str, float]:
        """Return what is reported beside each evaluation; where it is nothing, there is none."""
        return reported(self._uplink.report(), self._local_steps.report())

    async def _tell(self) -> None:
        if values := self._progress():
            epoch = self.round / self._batches.rounds_per_epoch
            await Report({"round": self.round, "epoch": epoch, **values})

    async def _upload(self, held_out: HeldOut) -> None:
        await self._attributed(upload(self._uplink, self.bottom, held_out, self.round))

    def _attributed(self, course: Awaitable[T]) -> Awaitable[T]:
        """Return a course whose ``Diverged`` say what may be at fault of what this party was sent.

        A role that is sent such says so by ``_at_fault``.
        """
        return Attributed(course, self._at_fault)

    def _at_fault(self) -> str:
        return ""

    async def _obey(self) -> None:
        """Do as the label holder's verdict on this evaluation says."""
        if self._evaluation.stopping is None:
            return
        expect = Expect(VERDICT, self.round, (self._label_holder,), Purpose.EVALUATION)
        arrivals = await Receive(expect)
        with reading(self._label_holder, self.round):
            verdict = decode_verdict(arrivals.only.body)
        if Verdict.BEST in verdict:
            self._best.keep()
        self._stopped = Verdict.STOP in verdict

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return {
            "round": self.round,
            "bottom": self.bottom.state_dict(),
            "uplink": self._uplink.state_dict(),
            "stopped": self._stopped,
            "best": self._best.state_dict(),
            "local_steps": self._local_steps.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.bottom.load_state_dict(state["bottom"])
        self._uplink.load_state_dict(state["uplink"])
        self._stopped = state["stopped"]
        self._best.load_state_dict(state["best"])
        self._local_steps.load_state_dict(state["local_steps"])


class TrainingLabelHolder(ABC):
    """The label holder while training.

    Parameters
    ----------
    agreement
        What all organisations know.
    seat
        What the label holder alone has.
    stragglers
        For whom a message of training waits; by default what the method says.
    """

    def __init__(
        self, agreement: Agreement, seat: HolderSeat, stragglers: Stragglers | None = None
    ) -> None:
        layout, method, own = agreement.layout, agreement.method, seat.own
        self.name = own.name
        self.agreed = agreement.digest
        self._seat = seat
        check_rows(self.name, own.labels, layout.rows)
        if own.features is not None:
            check_rows(self.name, own.features, layout.rows)
        self.round = 0
        self.top, self.bottom = own.learners(layout.own_width)
        parameters = parameter_count(own.top)
        if (own.name, parameters) != (layout.label_holder, agreement.parameters):
            raise ConfigurationError(
                f"agreed on was {layout.label_holder!r} with a top model of "
                f"{agreement.parameters} parameters, but here is {own.name!r} with {parameters}"
            )
        self._labels = own.labels
        self._loss = copied_loss(self.name, own.objective())
        self._features = own.features
        self._parties = layout.parties
        self._timetable = agreement
        self._batches = agreement.batches
        self._evaluation = agreement.evaluation
        policy = stragglers or method.stragglers
        self._uplink = method.uplink.collector(layout, method.fusion, policy)
        check_holder_alone(agreement, own)
        own.check_schedules(self._batches.schedule_steps)
        self._metrics = seat.metrics or usual_metrics(own.labels)
        self._seed = layout.seed
        self._judge = self._made_judge()
        # The loss of each row since the last report, summed in double precision.
        self._loss_sum = 0.0
        self._loss_rows = 0
        self._stopped = False
        self._best = BestParts(self._learners())
        self._local_steps = LocalSteps(agreement)

    @property
    def fingerprint(self) -> str:
        """What a checkpoint of it must share with a role that goes on from it."""
        return self._timetable.fingerprint(self._seat)

    @property
    def peers(self) -> Sequence[str]:
        """Every party."""
        return self._parties

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy until now, as the uplink tells."""
        return self._uplink.spent()

    def _made_judge(self) -> Judge | None:
        plan = self._evaluation
        if plan.stopping is None:
            return None
        by = self._metrics[0] if plan.stopping.by == "metric" else self._loss_as_metric
        return Judge(plan.stopping, f"{plan.watched.name}_{by.name}", by.greater_is_better)

    @property
    def _loss_as_metric(self) -> Metric:
        return Metric("loss", False, lambda scores, truth: float(self._loss(scores, truth)))

    @property
    def best_round(self) -> int | None:
        """After which round the model was best, where training chooses the best."""
        return None if self._judge is None else self._judge.best_round

    def done(self) -> bool:
        """Whether the last round is over, or training was stopped."""
        return self._stopped or self.round >= self._batches.rounds

    async def run(self) -> None:
        """Train from ``self.round`` to the last round, or until its own judge stops it."""
        await self._prepare()
        while not self.done():
            await Boundary(self.round)
            await Close(self._passed())  # nothing that comes late for an earlier round is of use
            await self._train(self._batches.rows(self.round), Moment(self.round))
            self.round += 1
            if self._batches.schedule_due(self.round):
                for number, learner in enumerate(self._learners()):
                    seed = work_seed(self._seed, self.name, "schedule", self.round, number)
                    learner.advance_schedule(seed)
            values: dict[str, float] = {}
            if self._evaluation.due(self.round):
                values = await self._evaluated(self._evaluation.watched, self._watched_metrics())
                await self._pass_judgement(values)
            if self.done():
                self._best.put_back()
                if self._evaluation.final:
                    values |= await self._evaluated(self._evaluation.final, self._metrics)
            if values or self.done():
                await self._report(values)
        await Boundary(self.round)
        await Close(self._passed())

    async def _prepare(self) -> None:
        """Do what comes before the first round of this start."""
        await self._uplink.prepare(self._ahead)

    @property
    def _ahead(self) -> Timetable:
        """What still travels: nothing where training is over, which ends by its last evaluation."""
        return Ended(self._timetable) if self.done() else self._timetable

    def _passed(self) -> int:
        """Return the round before which no message is waited for any more."""
        return self.round

    @abstractmethod
    async def _train(self, rows: Rows, moment: Moment) -> None:
        """Exchange a batch and take the steps of its round, if there are any."""

    def _learners(self) -> list[Learner]:
        return [self.top] if self.bottom is None else [self.top, self.bottom]

    async def _own(self, rows: Rows, moment: Moment) -> Tensor | None:
        """Return its own embedding of some rows; None where it has no columns."""
        if self.bottom is None:
            return None
        return await Work(
            "forward",
            lambda: self._embed(rows, moment.purpose is Purpose.TRAINING),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _embed(self, rows: Rows, training: bool = True) -> Tensor | None:
        if self.bottom is None or self._features is None:
            return None
        return self.bottom(take(self._features, rows), training)

    def _backpropagate(self, fused: Tensor, rows: Rows) -> float:
        """Backpropagate the batch's loss through the top model, and return it."""
        _, loss = self._predicted(fused, rows)
        if loss.requires_grad:  # else nothing here has parameters
            torch.autograd.backward(loss)
        return loss.item()

    def _predicted(self, fused: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the top model's predictions for a batch, and their mean loss, which is finite.

        Either is given a copy, which it may write into.
        """
        predictions = self.top(fused.clone(), training=True)
        loss = self._loss(predictions.clone(), self._labels[torch.from_numpy(rows)])
        if not math.isfinite(loss.item()):
            raise Diverged(f"the loss is {loss.item()}; try a smaller learning rate")
        return predictions, loss

    def _note(self, mean_loss: float, rows: Rows) -> None:
        """Count the loss of a batch at its exact step in what is reported next."""
        self._loss_sum += mean_loss * len(rows)
        self._loss_rows += len(rows)

    def _update(self) -> None:
        for learner in self._learners():
            learner.step()

    def _watched_metrics(self) -> Sequence[Metric]:
        rule = self._evaluation.stopping
        by_loss = rule is not None and rule.by == "loss"
        return [*self._metrics, self._loss_as_metric] if by_loss else self._metrics

    async def _evaluated(self, held_out: HeldOut, metrics: Sequence[Metric]) -> dict[str, float]:
        return await evaluated(
            self._uplink,
            self._own,
            self.top,
            self._labels,
            metrics,
            held_out,
            self.round,
        )

    async def _pass_judgement(self, values: Mapping[str, float]) -> None:
        """Tell every party what the evaluation means, and do it oneself."""
        if self._judge is None:
            return
        verdict = self._judge.hear(self.round, values)
        for party in self._parties:
            body = encode_verdict(verdict)
            await Send(party, VERDICT, self.round, body, Purpose.EVALUATION)
        if Verdict.BEST in verdict:
            self._best.keep()
        self._stopped = Verdict.STOP in verdict

    async def _report(self, values: Mapping[str, float]) -> None:
        progress: dict[str, float | int | str] = {
            "round": self.round,
            "epoch": self.round / self._batches.rounds_per_epoch,
            "train_loss": self._loss_sum / max(self._loss_rows, 1),
        }
        if self.top.learning_rate is not None:
            progress["learning_rate"] = self.top.learning_rate
        self._loss_sum, self._loss_rows = 0.0, 0
        await Report(progress | dict(self._progress()) | dict(values))

    def _progress(self) -> Mapping[str, float]:
        """Return what is reported beside each evaluation besides the metrics."""
        return reported(self._uplink.report(), self._local_steps.report())

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return {
            "round": self.round,
            "top": self.top.state_dict(),
            "bottom": {} if self.bottom is None else self.bottom.state_dict(),
            "uplink": self._uplink.state_dict(),
            "loss": [self._loss_sum, self._loss_rows],
            "stopped": self._stopped,
            "best": self._best.state_dict(),
            "local_steps": self._local_steps.state_dict(),
            "judge": {} if self._judge is None else self._judge.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.top.load_state_dict(state["top"])
        if self.bottom is not None:
            self.bottom.load_state_dict(state["bottom"])
        self._uplink.load_state_dict(state["uplink"])
        self._loss_sum, self._loss_rows = state["loss"]
        self._stopped = state["stopped"]
        self._best.load_state_dict(state["best"])
        self._local_steps.load_state_dict(state["local_steps"])
        if self._judge is not None:
            self._judge.load_state_dict(state["judge"])
