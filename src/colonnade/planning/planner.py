"""What a run will cost, before any training: bytes, time, memory.

Nothing here estimates what a message is like. The plan is the run itself, played by hollow models:
the same roles, links and simulator, but every bottom returns zeros and no parameter is updated.
Sizes of messages that do not depend on values are then exactly those of the run; of the others
the largest possible is sent, and the plan is a bound.

Long runs repeat: an epoch sends what the one before it sent. So of more than three epochs the third
is played, and counted as often as there are more of its kind. Numbers in envelopes take a byte more
as they grow: that is counted in bytes, and in seconds as far as epochs are played.

Where the model of costs uses what work takes on this machine, a few rounds of the real models are
timed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import polars as pl

from colonnade.annotated import check_kind
from colonnade.channels import Network
from colonnade.costs import CostModel, Measured, is_steady, uses_measured
from colonnade.disclosures import promise_warnings
from colonnade.drawing import drawing_apart
from colonnade.drivers import Driver, Simulate, checked_driver
from colonnade.federation import Federation
from colonnade.flows import Flow
from colonnade.method import Method, checked_method
from colonnade.methods import svfl
from colonnade.planning.calibrate import calibrated
from colonnade.planning.hollow import hollow_federation, sized
from colonnade.planning.memory import MemoryUse, memory_of
from colonnade.planning.stretch import stretched, traffic
from colonnade.roles.alone import check_holder_alone, check_party_alone
from colonnade.runs import Run
from colonnade.stragglers import Wait
from colonnade.training import EarlyStopping, Training, checked_training
from colonnade.wire import Purpose

__all__ = ["Plan", "plan"]

_EPOCHS_DRAWN = 30  # where delays are drawn, and no epoch is as another
_EPOCHS_PLAYED = 3
_STOPS = "training may stop early"


@dataclass(frozen=True)
class Plan:
    """What a run will cost.

    Parameters
    ----------
    method
        Its name.
    rounds, epochs
        How long the run is, if it is not stopped early: where a budget of privacy ends it before
        its last epoch, until then.
    traffic
        A row for each sender, receiver, kind and purpose: messages, body and framed bytes.
    label_holder
        Its name, by which up and down are told apart.
    why_bound
        Why the bytes are the most that the run can send, in words; empty where they are its own.
    why_timed
        What of them hangs on time, in words: they are those at the times of this plan.
    seconds
        The simulator's clock at the end: modelled network, and modelled or calibrated compute. Of
        more than three epochs it lacks what longer numbers in envelopes take: a byte or two of each
        message, which over 1 Mbit/s are some tenths of a millisecond.
    seconds_epoch
        Of that, the time of one epoch in the middle.
    clock
        What the times of network and compute are: modelled, or calibrated on this machine.
    memory
        For each organisation what it will hold.
    warnings
        What should be known of the data, as that they are synthetic.
    privacy_loss
        Epsilon of the row that is released most often, towards whom, as ``summary["privacy_loss"]``
        will say it, or at most so much; empty where no account is kept.
    privacy_loss_of_labels
        The same of labels, where derivatives are defended.
    why_most
        Why the run may disclose less than ``privacy_loss`` says, in words; empty where it is the
        run's own.
    why_most_of_labels
        The same of ``privacy_loss_of_labels``, which does not hang on who is in a sum.
    """

    method: str
    rounds: int
    epochs: int
    traffic: pl.DataFrame
    label_holder: str
    why_bound: tuple[str, ...]
    why_timed: tuple[str, ...]
    seconds: float
    seconds_epoch: float
    clock: Mapping[str, str]
    memory: Mapping[str, MemoryUse]
    warnings: tuple[str, ...] = ()
    privacy_loss: Mapping[str, Any] = field(default_factory=dict)
    privacy_loss_of_labels: Mapping[str, Any] = field(default_factory=dict)
    why_most: tuple[str, ...] = ()
    why_most_of_labels: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the bytes are those of the run."""
        return not (self.why_bound or self.why_timed)

    @property
    def bytes_up(self) -> int:
        """Bodies sent to the label holder for training."""
        return self._bytes(pl.col("receiver") == self.label_holder)

    @property
    def bytes_down(self) -> int:
        """Bodies that the label holder sends for training."""
        return self._bytes(pl.col("sender") == self.label_holder)

    @property
    def bytes_between(self) -> int:
        """Bodies that parties send each other for training."""
        name = self.label_holder
        return self._bytes((pl.col("sender") != name) & (pl.col("receiver") != name))

    @property
    def bytes_evaluation(self) -> int:
        """Bodies sent to evaluate."""
        return int(self.traffic.filter(purpose="evaluation")["body_bytes"].sum())

    @property
    def bytes_setup(self) -> int:
        """Bodies sent before the first round: labels that an exchange shares, keys."""
        return int(self.traffic.filter(purpose="setup")["body_bytes"].sum())

    @property
    def bytes_framed(self) -> int:
        """Everything, envelopes included."""
        return int(self.traffic["framed_bytes"].sum())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "method": self.method,
            "epochs": self.epochs,
            "rounds": self.rounds,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "bytes_between": self.bytes_between,
            "bytes_evaluation": self.bytes_evaluation,
            "bytes_setup": self.bytes_setup,
            "bytes_framed": self.bytes_framed,
            "bytes_exact": self.exact,
            "bytes_bound_because": list(self.why_bound),
            "bytes_timed_because": list(self.why_timed),
            "seconds_virtual": self.seconds,
            "seconds_epoch": self.seconds_epoch,
            "clock": dict(self.clock),
            "traffic": self.traffic.to_dicts(),
            "privacy_loss": dict(self.privacy_loss) or None,
            "privacy_loss_of_labels": dict(self.privacy_loss_of_labels) or None,
            "privacy_loss_most_because": list(self.why_most),
            "privacy_loss_of_labels_most_because": list(self.why_most_of_labels),
            "memory_bytes": {
                name: vars(memory) | {"total": memory.total} for name, memory in self.memory.items()
            },
            "warnings": list(self.warnings),
        }

    def _bytes(self, which: pl.Expr) -> int:
        chosen = self.traffic.filter(which & pl.col("purpose").is_in(Purpose.training_labels()))
        return int(chosen["body_bytes"].sum())


@runtime_checkable
class _OnAClock(Protocol):
    """A driver whose seconds are those of a modelled network, and of a model of costs."""

    @property
    def network(self) -> Network: ...

    @property
    def costs(self) -> CostModel: ...

    @property
    def untimed(self) -> Set[Purpose]: ...


def plan(
    federation: Federation,
    method: Method | None = None,
    training: Training | None = None,
    driver: Driver | None = None,
) -> Plan:
    """Return what ``federation.train`` with the same arguments will cost.

    Parameters
    ----------
    federation, method, training, driver
        As for ``Federation.train``; nothing of the federation is changed. Under a driver without a
        modelled network and costs, as ``Processes``, the time is that of a network without delay.

    Raises
    ------
    ConfigurationError
        If this is no federation, or the method does not fit it.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from colonnade import LabelHolder, Party
    >>> x, y = torch.randn(100, 6), torch.randint(2, (100,))
    >>> federation = Federation(
    ...     [Party("bank", x[:, :4], nn.Linear(4, 3)), Party("shop", x[:, 4:], nn.Linear(2, 3))],
    ...     LabelHolder("insurer", y, top=nn.Linear(6, 2)),
    ... )
    >>> costs = plan(federation, training=Training(epochs=2, batch_size=50))
    >>> costs.bytes_up, costs.exact
    (4800, True)
    """
    check_kind("federation", federation, Federation)
    method = svfl() if method is None else checked_method(method)
    training = checked_training(training).for_rows(len(federation.train_rows))
    driver = None if driver is None else checked_driver(driver)
    federation.check(method)
    agreement = federation.agreement(method, training)
    with drawing_apart():
        for party in federation.parties:  # hollow models would take any row
            check_party_alone(agreement, party)
            party.check_schedule(agreement.batches.schedule_steps)
        check_holder_alone(agreement, federation.label_holder)
        federation.label_holder.check_schedules(agreement.batches.schedule_steps)
    network, costs, untimed = _world(driver)
    if uses_measured(costs):
        costs = calibrated(federation, method, training, network, costs)
    hollow, thin = hollow_federation(federation), method.with_links(sized)
    simulator = Simulate(network, costs, untimed)

    def played(epochs: int) -> Run:
        stopping = training.early_stopping and EarlyStopping(patience=None)
        schedule = replace(training, epochs=epochs, early_stopping=stopping)
        return hollow.train(thin, schedule, simulator)

    in_all, rounds = agreement.batches.rounds, agreement.batches.rounds_per_epoch
    epochs = -(-in_all // rounds)
    every = training.evaluate_every or rounds
    flows = agreement.flows()
    steady = all(flow.format.at(0) == flow.format for flow in flows)
    whole_epochs = rounds % every == 0 and in_all % rounds == 0
    steady = steady and not method.exchange.own_pace
    drawn = not (network.steady and is_steady(costs))  # delays, or jitter
    if epochs > (_EPOCHS_DRAWN if drawn else _EPOCHS_PLAYED) and whole_epochs and steady:
        three, two = played(_EPOCHS_PLAYED), played(_EPOCHS_PLAYED - 1)
        sent = stretched(three.ledger, two.ledger, epochs, rounds)
        epoch = three.summary["seconds_virtual"] - two.summary["seconds_virtual"]
        seconds = three.summary["seconds_virtual"] + (epochs - _EPOCHS_PLAYED) * epoch
        if drawn:
            epoch = played(_EPOCHS_DRAWN).summary["seconds_virtual"] / _EPOCHS_DRAWN
            seconds = epochs * epoch
    else:
        whole = played(epochs)
        sent, seconds = traffic(whole.ledger), whole.summary["seconds_virtual"]
        epoch = seconds / epochs
    layout, uses = agreement.layout, agreement.uses(in_all)
    loss = method.uplink.spending(layout, uses, method.stragglers)
    of_everybody = method.uplink.spending(layout, uses, Wait())
    evaluations = -(-in_all // every)
    ends_early = (_STOPS,) if _may_stop(training, evaluations) else ()
    of_labels = method.exchange.spending(layout, agreement.passes(in_all))
    return Plan(
        method=method.name,
        rounds=in_all,
        epochs=epochs,
        traffic=sent,
        label_holder=federation.label_holder.name,
        why_bound=_why_bound(flows, training, evaluations),
        why_timed=_why_timed(method),
        seconds=seconds,
        seconds_epoch=epoch,
        clock={"network": "modelled", "compute": costs.label}
        | ({"drawn": f"of {_EPOCHS_DRAWN} epochs"} if drawn and epochs > _EPOCHS_DRAWN else {}),
        memory=memory_of(federation, agreement),
        warnings=(
            *federation.warnings,
            *agreement.notes(),
            *promise_warnings(loss, of_labels),
        ),
        privacy_loss=loss,
        privacy_loss_of_labels=of_labels,
        why_most=(*_of_fewer(method, loss != of_everybody), *ends_early) if loss else (),
        why_most_of_labels=ends_early if of_labels else (),
    )


def _world(driver: object) -> tuple[Network, CostModel, Set[Purpose]]:
    """Return network and costs of a driver, and what takes no time under it.

    Of one that has no network and costs there is no network, and this machine's costs.
    """
    if isinstance(driver, _OnAClock):
        return driver.network, driver.costs, driver.untimed
    return Network(), Measured(), frozenset()


def _why_bound(flows: Sequence[Flow], training: Training, evaluations: int) -> tuple[str, ...]:
    reasons = []
    if not all(flow.format.fixed_size for flow in flows):
        reasons.append("the size of a message depends on the values in it")
    if _may_stop(training, evaluations):
        reasons.append(_STOPS)
    return tuple(reasons)


def _may_stop(training: Training, evaluations: int) -> bool:
    rule = training.early_stopping
    return rule is not None and rule.patience is not None and rule.patience < evaluations


def _of_fewer(method: Method, tell_more: bool) -> tuple[str, ...]:
    if not tell_more:
        return ()
    policy = type(method.stragglers).__name__
    return (f"{policy} may leave a party out, and a sum of fewer hides less",)


def _why_timed(method: Method) -> tuple[str, ...]:
    reasons = []
    if method.stragglers.drops:
        reasons.append("for whom a round waits")
    if (what := method.uplink.what_time_decides) is not None:
        reasons.append(what)
    if method.exchange.own_pace:
        reasons.append("how often each party sends")
    return tuple(reasons)
