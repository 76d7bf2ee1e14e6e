"""What every method must do, whichever uplink, exchange or straggler policy is in it: a kit.

Each function in ``METHOD_CHECKS`` takes a ``MethodSubject``, a method and what a test must know of
it, and asserts one part of the contracts in ``colonnade.uplinks.contract`` and
``colonnade.agreement``. With pytest::

    @pytest.mark.parametrize("check", METHOD_CHECKS)
    def test_my_uplink_conforms(check):
        check(MethodSubject(Method("mine", Sum(), MyUplink()), like=Method("plain", Sum())))

or, without, ``check_method(MethodSubject(...))``. An uplink that is exact up to its fixed point
says by ``like`` which method it must agree with, and by ``tolerance`` how closely; one that adds
noise says by ``noise`` what that does to an accuracy.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.agreement import Composition
from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.deployment.leaving import leaving_in_training
from colonnade.drivers import Assignment, Driver, Elsewhere, Processes, Replay, RunRecord, Simulate
from colonnade.drivers.around import Around, Before
from colonnade.effects import Boundary, Effect, Ready, Role, Send, Work, sets_up
from colonnade.errors import PrivacyWarning, RemoteProtocolError
from colonnade.evaluation import HeldOut
from colonnade.federation import Federation
from colonnade.flows import Flow
from colonnade.layout import Layout
from colonnade.ledger import Entry
from colonnade.links import Rows
from colonnade.local_updates import (
    Consecutive,
    HolderBatch,
    LocalStep,
    LocalUpdates,
    PartyBatch,
    Proximal,
    Replayed,
)
from colonnade.method import Method
from colonnade.models import Features, Learner, take
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.prediction import Prediction
from colonnade.roles.split import SKIPPED
from colonnade.runs import Run
from colonnade.streams import StreamKey
from colonnade.training import EarlyStopping, Training
from colonnade.uplinks import Collector, Fused, Moment, Relayable, Uploader
from colonnade.wire import Purpose

__all__ = [
    "METHOD_CHECKS",
    "MethodSubject",
    "check_method",
    "small_federation",
]

ROWS, WIDTH, CLASSES = 90, 4, 3
_STEPS = 1000  # of a round that are looked at
TRAINING = Training(
    epochs=2, batch_size=16, evaluation_rows=7, evaluate_every=3, seed=5, secrets="seed"
)
DRIVER = Simulate(costs=Modelled(otherwise=0.001))


def small_federation(method: Composition, holder_has_features: bool = True) -> Federation:
    """Return three parties and a label holder on random data, their models with dropout."""
    generator = torch.Generator().manual_seed(7)
    sgd = partial(torch.optim.SGD, lr=0.2)

    def columns(count: int) -> Tensor:
        return torch.randn(ROWS, count, generator=generator)

    def bottom(inputs: int) -> nn.Module:
        first, last = _linear(inputs, inputs, 6), _linear(inputs, 6, WIDTH)
        return nn.Sequential(first, nn.Tanh(), nn.Dropout(0.2), last)

    parties = [Party(f"party_{i}", columns(2 + i), bottom(2 + i), sgd) for i in range(3)]
    members = 3 + holder_has_features
    fused = method.fusion.width([WIDTH] * members)
    holder = LabelHolder(
        "holder",
        torch.randint(CLASSES, (ROWS,), generator=generator),
        _linear(99, fused, CLASSES),
        features=columns(2) if holder_has_features else None,
        bottom=bottom(2) if holder_has_features else None,
        optimiser=sgd,
    )
    return Federation(parties, holder, range(60), range(60, 75), None, range(75, ROWS))


def _linear(seed: int, inputs: int, outputs: int) -> nn.Linear:
    """Make a layer whose start depends on ``seed`` alone, and leave torch's own generator be."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        return nn.Linear(inputs, outputs)


@dataclass(frozen=True)
class MethodSubject:
    """A method, and what a test must know of it.

    Parameters
    ----------
    method
        The method.
    like
        A method that it must agree with, in the trained parameters and in predictions; None where
        nothing computes the same.
    tolerance
        How closely, relative to the norm of a parameter; 0 for the same bits.
    federation
        Makes the federation to train, for a method and with or without columns at the label holder.
    timed
        Whether its messages depend on when others arrive although what it learns does not, so that
        it repeats under a replay, and not between drivers. Of a method that is ``timed`` all this
        is known.
    noise
        Where the uplink draws what is added to embeddings anew whenever it is used: by how much the
        accuracy of predictions of the test rows may then differ from the one that the run reports;
        0, for what draws nothing, demands that they are equal. Nothing else is allowed for it: in
        training, chance is drawn from the run's seed and the moment, so that runs repeat.
    steps
        Whether it is tried with each kind of local step that its exchange takes, too.
    late
        Where its uplink goes on without some parties' messages, whatever the policy: a simulator
        under which there are such.
    """

    method: Method
    like: Method | None = None
    tolerance: float = 0.0
    federation: Callable[[Composition, bool], Federation] = small_federation
    timed: bool = False
    noise: float = 0.0
    steps: bool = True
    late: Simulate | None = None
    _made: list[tuple[Any, Federation]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    _simulated: list[tuple[Any, Run]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __str__(self) -> str:
        return self.method.name

    def train(
        self,
        method: Method | None = None,
        driver: Driver | None = None,
        holder_has_features: bool = True,
        **settings: Any,
    ) -> Run:
        """Train the federation by the method, or by another.

        What is simulated in memory is kept: the next check that wants the same run is given it.
        """
        method = method or self.method
        settings.setdefault("training", TRAINING)
        if driver is not None or settings.keys() != {"training"}:
            return self._trained(method, driver, holder_has_features, settings)
        asked = (method, holder_has_features, settings["training"])
        for known, run in self._simulated:
            if known == asked:
                return run
        run = self._trained(method, None, holder_has_features, settings)
        self._simulated.append((asked, run))
        return run

    def _trained(
        self,
        method: Method,
        driver: Driver | None,
        holder_has_features: bool,
        settings: dict[str, Any],
    ) -> Run:
        federation = self.made(method, holder_has_features)
        return federation.train(method, driver=driver or DRIVER, report=False, **settings)

    def made(self, method: Method, holder_has_features: bool = True) -> Federation:
        """Return the federation for a method: one for all runs, since none changes it."""
        asked = (method, holder_has_features)
        for known, federation in self._made:
            if known == asked:
                return federation
        federation = self.federation(method, holder_has_features)
        self._made.append((asked, federation))
        return federation

    def variants(self) -> Iterator[Method]:
        """Yield the method; where it has no local steps, with each kind that the exchange takes."""
        yield self.method
        if self.steps and not self.method.local_updates.kinds:
            for kind, policy in _POLICIES.items():
                if kind in self.method.exchange.takes_steps:
                    yield replace(self.method, local_updates=policy)


_POLICIES: dict[LocalStep, LocalUpdates] = {
    LocalStep.REPEATED: Consecutive(3),
    LocalStep.STALE_DERIVATIVES: Proximal(1, 6, label_holder=Consecutive(1)),
    LocalStep.STALE_EMBEDDINGS: Replayed(2, batches=3),
}


def says_who_learns_what(subject: MethodSubject) -> None:
    """Assert that the summary tells of embeddings and labels, and warns of what is unprotected."""
    layout = subject.made(subject.method).agreement(subject.method, TRAINING).layout
    disclosures = subject.method.disclosures(layout)
    said = {disclosure.what for disclosure in disclosures}
    assert {"embeddings", "labels"} <= said, f"nothing is said of who learns what: {said}"
    assert all(disclosure.statement for disclosure in disclosures)
    for disclosure in disclosures:
        assert bool(disclosure.to) == bool(disclosure.sees), disclosure
    uplink = subject.method.uplink
    assert not (uplink.sums_only and isinstance(uplink, Relayable)), "it shows each embedding"
    summary = subject.train().summary
    assert said <= set(summary["privacy"])
    exposed = [disclosure.sees for disclosure in disclosures if disclosure.sees]
    assert all(any(sees in warning for warning in summary["warnings"]) for sees in exposed)


def lists_every_flow(subject: MethodSubject) -> None:
    """Assert that every message belongs to a flow that was listed, and is not longer than that."""
    training = replace(TRAINING, early_stopping=EarlyStopping(patience=9))
    for method in subject.variants():
        for has_features in (True, False):
            federation = subject.made(method, has_features)
            run = subject.train(method, holder_has_features=has_features, training=training)
            _assert_listed(run, federation, method, training)


def is_planned(subject: MethodSubject) -> None:
    """Assert that a plan has the bytes of the run, or what they are at most, kind by kind."""
    for method in subject.variants():
        planned = plan(subject.made(method), method, TRAINING, DRIVER)
        rows = {
            (row["sender"], row["receiver"], row["kind"], row["purpose"]): row
            for row in planned.traffic.to_dicts()
        }
        sent: dict[tuple[str, str, str, str], list[Entry]] = {}
        for entry in subject.train(method).ledger:
            key = (entry.sender, entry.receiver, entry.kind, entry.purpose.label)
            sent.setdefault(key, []).append(entry)
        assert set(rows) == set(sent)
        for key, entries in sent.items():
            real = sum(entry.body_bytes for entry in entries)
            assert rows[key]["messages"] == len(entries)
            most = rows[key]["body_bytes"]
            fits = real <= most if planned.why_bound else real == most
            assert fits, f"{key}: {real}, planned {most}"
        assert all(memory.total > 0 for memory in planned.memory.values())


def accounts_for_what_left_in_vain(subject: MethodSubject) -> None:
    """Assert that an uplink says what uses of a row cost, and no less with some in vain besides."""
    agreement = subject.made(subject.method).agreement(subject.method, TRAINING)
    uplink, late = subject.method.uplink, subject.method.stragglers
    uses = agreement.uses(agreement.batches.rounds)
    for purpose, most in uses.items():
        affords = uplink.affords(agreement.layout, purpose, most, late)
        assert affords, f"it does not afford {most} uses of a row, which the run has"
    planned = uplink.spending(agreement.layout, uses, late)
    told = uplink.spending(agreement.layout, uses, late, dict.fromkeys(uses, 2))
    assert told.keys() == planned.keys()
    for name in (name for name in planned if name.startswith("epsilon")):
        less, more = planned[name], told[name]
        assert more is None or (less is not None and more >= less), (
            f"with uses in vain besides {name} is {more}, and without {less}"
        )


def sends_no_more_than_is_told_before(subject: MethodSubject) -> None:
    """Assert that nobody sends more bytes, and nothing tells more of a row, than is told before.

    Policies of sites compare what is told, and a budget affords rounds by it.
    """
    for method in subject.variants():
        agreement = subject.made(method).agreement(method, TRAINING)
        run, layout = subject.train(method), agreement.layout
        for name in (*layout.parties, layout.label_holder):
            told = leaving_in_training(agreement, name)
            sent = sum(entry.framed_bytes for entry in run.ledger if entry.sender == name)
            assert told.bytes is not None
            assert sent <= told.bytes, (
                f"{name!r} sends {sent} bytes, and by flows and uploads of the method they are "
                f"{told.bytes} at most"
            )
            _assert_told(run.summary["privacy_loss"], told.of_embeddings)
            _assert_told(run.summary["privacy_loss_of_labels"], told.of_labels)


def has_the_same_bits_under_every_driver(subject: MethodSubject) -> None:
    """Assert that simulator, processes and replay send and learn the same, to the bit.

    Roles have to travel to processes that inherit nothing, too, as where a GPU is used.
    """
    for method in subject.variants():
        simulated, real = subject.train(method), subject.train(method, _Packed())
        timed = subject.timed or method.timed
        if not timed:
            _assert_same(real, simulated)
        for run in (simulated, real) if timed else (real,):
            assert run.record is not None
            _assert_same(subject.train(method, Replay(run.record.trace)), run)


def takes_the_steps_that_it_accepts(subject: MethodSubject) -> None:
    """Assert that local steps change the model, where the exchange says that it takes them."""
    some, *more = subject.variants()
    once = _states(subject.train(some))
    for method in more:
        other = _states(subject.train(method))
        same = [torch.equal(one, two) for (_, one), (_, two) in zip(once, other, strict=True)]
        assert not all(same), f"{method.local_updates} trains as no local step does"


def has_the_steps_that_it_declares(subject: MethodSubject) -> None:
    """Assert that the policy of local updates has steps of the kinds that it names, and no other.

    Else an exchange would leave out, without a word, what the policy did not say.
    """
    policy = subject.method.local_updates
    party, holder = policy.party_steps(), policy.holder_steps()
    found: set[LocalStep] = {LocalStep.REPEATED} if policy.repeats else set()
    for round in range(4):
        rows: Rows = np.arange(9, dtype=np.int64) + 9 * round
        values, key = torch.ones(9, WIDTH), StreamKey(0, "party_0", "kit", round)
        party.add(PartyBatch(round, rows, values, values))
        if list(party.steps(key)):
            found.add(LocalStep.STALE_DERIVATIVES)
        holder.add(HolderBatch(round, rows, _Ones(), {"party_0": values}))
        if list(holder.steps(key)):
            found.add(LocalStep.STALE_EMBEDDINGS)
    said = ", ".join(sorted(kind.name for kind in policy.kinds)) or "none"
    has = ", ".join(sorted(kind.name for kind in found)) or "none"
    assert found == policy.kinds, f"{policy} says it has the steps {said}, and has {has}"


def says_how_few_rows_a_step_has(subject: MethodSubject) -> None:
    """Assert that no step of a party has fewer rows than the policy says that its smallest has.

    Else a model that takes no row alone would meet one in the midst of a run.
    """
    policy = subject.method.local_updates
    for size in (1, 2, 3, 9, 16, 33, 65, 100, 257):
        party, said = policy.party_steps(), policy.least_rows(size)
        for round in range(4):
            rows: Rows = np.arange(size, dtype=np.int64) + size * round
            values = torch.ones(size, WIDTH)
            party.add(PartyBatch(round, rows, values, values))
            steps = party.steps(StreamKey(0, "party_0", "kit", round))
            least = min((len(step.rows) for step in islice(steps, _STEPS)), default=size)
            assert said <= least, (
                f"{policy} takes a step of {least} rows after a batch of {size}, and its "
                f"least_rows({size}) is {said}"
            )


def goes_on_from_any_round(subject: MethodSubject) -> None:
    """Assert that a run that is stopped and resumed twice is the uninterrupted one, to the bit.

    What is sent to set up may be sent again: keys are new at every start. Of a run that is over
    nothing is.
    """
    for method in subject.variants():
        _assert_goes_on(subject, method, None, TRAINING)


def lives_with_the_late(subject: MethodSubject) -> None:
    """Assert, where a policy drops messages, that a late party is left out and nothing else is.

    It is told so, every message is of a listed flow, the plan says that time decides, the course
    repeats under a replay and after a resume, and evaluations are of the whole model. All but the
    first is so as well of an uplink that goes on without somebody's message.
    """
    method = subject.method
    if subject.late is not None:
        _assert_lives_with(subject, subject.late, TRAINING)
    if not method.stragglers.drops:
        return
    line = {("party_1", "holder"): Channel(latency=3600.0)}
    late = Simulate(Network(pairs=line), Modelled(otherwise=0.001))
    # An evaluation waits for everybody, and who was late is then on time again.
    training = replace(TRAINING, evaluate_every=100)
    run = subject.train(driver=late, training=training)
    federation = subject.made(method)
    discarded = [entry for entry in run.ledger if entry.discarded]
    assert {entry.sender for entry in discarded} == {"party_1"}
    assert {entry.purpose for entry in discarded} == {Purpose.TRAINING}
    told = {e.round for e in run.ledger if e.receiver == "party_1" and e.kind == SKIPPED}
    assert told == {entry.round for entry in discarded}, "who was late is not told so"
    if len(told) == run.summary["rounds"]:
        own = federation.parties[1].bottom.state_dict()
        for key, value in run.models["party_1"]["bottom"].state_dict().items():
            assert torch.equal(value, own[key]), "a party that was never waited for took a step"
    _assert_lives_with(subject, late, training)


def _assert_lives_with(subject: MethodSubject, late: Simulate, training: Training) -> None:
    method = subject.method
    run = subject.train(driver=late, training=training)
    federation = subject.made(method)
    assert any(entry.discarded for entry in run.ledger) or _attempts_ended(run), "nobody was late"
    _assert_listed(run, federation, method, training)
    planned = plan(federation, method, training, late)
    assert planned.why_timed, "the plan does not say that time decides what is sent"
    assert run.record is not None
    _assert_same(subject.train(driver=Replay(run.record.trace), training=training), run)
    _assert_goes_on(subject, method, late, training)
    _assert_predicts(subject, run)


def _attempts_ended(run: Run) -> bool:
    """Whether somebody was told, while at work, that it is not needed."""
    assert run.record is not None
    return any(
        decision is False for made in run.record.trace.decisions.values() for decision in made
    )


def agrees_with_another(subject: MethodSubject) -> None:
    """Assert that parameters and predictions are those of ``like``, also after local steps."""
    if subject.like is None:
        return
    for method in subject.variants():
        like = replace(subject.like, local_updates=method.local_updates)
        for has_features in (True, False):
            mine = subject.train(method, holder_has_features=has_features)
            other = subject.train(like, holder_has_features=has_features)
            for (place, one), (_, expected) in zip(_states(mine), _states(other), strict=True):
                _assert_close(one, expected, subject.tolerance, place)
            federation = subject.made(method, has_features)
            _assert_close(
                _predicted(mine, _new_rows(federation)).scores,
                _predicted(other, _new_rows(federation)).scores,
                subject.tolerance,
                "predictions",
            )


def predicts_as_it_evaluates(subject: MethodSubject) -> None:
    """Assert that predictions of the test rows have the accuracy that the run reports.

    Where the uplink adds noise, it is as close as the subject says.
    """
    _assert_predicts(subject, subject.train())


def sets_up_before_anything_else(subject: MethodSubject) -> None:
    """Assert that ``prepare`` of either half awaits nothing but effects that set up.

    Else a simulated run that goes on would not have the times of one that nobody interrupted.
    """
    *_, roles = _halves(subject)
    prepared = [_Preparing(role) for role in roles]
    Simulate().run(prepared, Assignment(seed=TRAINING.seed))
    for role in prepared:
        assert not role.others, f"prepare of {role.name!r} awaits {role.others[0]!r}"


def collects_values_that_can_be_kept(subject: MethodSubject) -> None:
    """Assert that a collected batch fuses again and again to the same, also when recalled."""
    holder, roles = _halves(subject)
    Simulate().run(roles, Assignment(seed=TRAINING.seed))
    assert holder.checked


def _halves(subject: MethodSubject) -> tuple[_KeepingHolder, Sequence[Role]]:
    """Return roles that try the halves of the uplink, the label holder's apart and among them."""
    federation = subject.federation(subject.method, True)
    agreement = federation.agreement(subject.method, TRAINING)
    layout, method = agreement.layout, subject.method
    holder = _KeepingHolder(
        layout, method.uplink.collector(layout, method.fusion, method.stragglers)
    )
    parties = [
        _SendingParty(layout, party, method.uplink.uploader(layout, party))
        for party in federation.parties
    ]
    return holder, [*parties, holder]


def names_who_sent_a_spoilt_body(subject: MethodSubject) -> None:
    """Assert that a spoilt body of each kind of message is refused, and that its sender is named.

    ``colonnade.wire.reading`` says so of whatever is read within it. A code without redundancy
    may take other bytes for other values; an empty body, or one that is cut short where all are
    of one length, is taken by nobody. Whoever sends a kind of message is spoilt in one way or
    another, and in training with other local steps in another.
    """
    ways = list(_SPOILT.items())
    for turn, method in enumerate(subject.variants()):
        for flows in _read_by_others(subject, method):
            if turn and not flows[0].purpose.trains:
                continue  # it is read as without these steps
            for number in range(max(len(flows), len(ways))):
                flow = flows[(number + turn) % len(flows)]
                spoilt, spoil = ways[number % len(ways)]
                what = f"a {flow.kind} of {flow.sender!r} ({flow.purpose.label}) that is {spoilt}"
                driver = _Spoiling(DRIVER, flow.sender, flow.kind, flow.purpose, spoil)
                refused = _refused(partial(subject.train, method, driver))
                must = spoilt == _EMPTY or (spoilt == _CUT and flow.format.fixed_size)
                assert refused is not None or not must, f"{what} is taken"
                named = refused is None or repr(flow.sender) in refused
                assert named, f"{what} is refused without saying whose it is: {refused}"


def _refused(train: Callable[[], Run]) -> str | None:
    """Return how what others sent was refused; None where it was taken."""
    try:
        train()
    except RemoteProtocolError as error:
        return str(error)
    return None


def _read_by_others(subject: MethodSubject, method: Method) -> Iterable[Sequence[Flow]]:
    """Return the flows of each kind of message with a body that somebody took, by their senders."""
    run, agreement = subject.train(method), subject.made(method).agreement(method, TRAINING)
    taken = {
        (entry.sender, entry.kind, entry.purpose)
        for entry in run.ledger
        if entry.body_bytes and not entry.discarded
    }
    alike: dict[tuple[str, Purpose, bool], dict[str, Flow]] = {}
    for flow in agreement.flows():
        if (flow.sender, flow.kind, flow.purpose) in taken:
            from_holder = flow.sender == agreement.layout.label_holder
            of_kind = alike.setdefault((flow.kind, flow.purpose, from_holder), {})
            of_kind.setdefault(flow.sender, flow)
    return [list(flows.values()) for flows in alike.values()]


_CUT, _EMPTY = "cut short by a byte", "empty"
_SPOILT: Mapping[str, Callable[[bytes], bytes]] = {
    _CUT: lambda body: body[:-1],
    _EMPTY: lambda body: b"",
    "of bits that are all ones": lambda body: b"\xff" * len(body),
}


METHOD_CHECKS: Sequence[Callable[[MethodSubject], None]] = (
    says_who_learns_what,
    lists_every_flow,
    is_planned,
    accounts_for_what_left_in_vain,
    sends_no_more_than_is_told_before,
    has_the_same_bits_under_every_driver,
    takes_the_steps_that_it_accepts,
    has_the_steps_that_it_declares,
    says_how_few_rows_a_step_has,
    goes_on_from_any_round,
    lives_with_the_late,
    agrees_with_another,
    predicts_as_it_evaluates,
    sets_up_before_anything_else,
    collects_values_that_can_be_kept,
    names_who_sent_a_spoilt_body,
)
"""All parts of the contract."""


def check_method(subject: MethodSubject) -> None:
    """Run every check.

    Raises
    ------
    AssertionError
        If the method breaks a part of the contract.

    Examples
    --------
    >>> from colonnade.models import Sum
    >>> same = Method("plain", Sum())
    >>> says_who_learns_what(MethodSubject(same, like=same))
    """
    for check in METHOD_CHECKS:
        check(subject)


# A message that is spoilt


@dataclass(frozen=True)
class _Spoiling(Around):
    """A driver under which the first message of a kind has another body than was sent."""

    sender: str
    kind: str
    purpose: Purpose
    spoil: Callable[[bytes], bytes]

    def instead(self, role: Role) -> Role:
        return _Spoilt(role, self) if role.name == self.sender else role


class _Spoilt(Before):
    """A role, one of whose messages is spoilt as it leaves."""

    def __init__(self, role: Role, how: _Spoiling) -> None:
        super().__init__(role)
        self._how = how
        self._done = False

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        how = self._how
        if self._done or not isinstance(effect, Send) or not effect.body:
            return (yield effect)
        if (effect.kind, effect.purpose) == (how.kind, how.purpose):
            self._done = True
            effect = replace(effect, body=how.spoil(effect.body))
        return (yield effect)


class _Preparing(Before):
    """A role of whose effects before its first boundary those are noted that do not set up."""

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        self.others: list[Effect[Any]] = []
        self._begun = False

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        self._begun = self._begun or isinstance(effect, Boundary)
        if not self._begun and not sets_up(effect):
            self.others.append(effect)
        return (yield effect)


# What a policy of local updates is tried on


class _Packed(Processes):
    """Processes that are forked, of roles that could be sent."""

    def run(self, roles: Sequence[Role | Elsewhere], assignment: Assignment) -> RunRecord:
        for role in roles:
            assert not isinstance(role, Elsewhere)
            Elsewhere(role.name, (), partial(copy, role)).check()
        return super().run(roles, assignment)


class _Ones:
    """Embeddings that are ones."""

    present = ("party_0",)

    def fuse(self, own: Tensor | None) -> Tensor:
        return torch.ones(9, WIDTH)

    def differentiable(self, own: Tensor | None) -> Fused:
        leaf = torch.ones(9, WIDTH, requires_grad=True)
        return Fused(leaf, {"party_0": leaf})

    def state_dict(self) -> dict[str, Any]:
        return {}


# Roles that try one half of an uplink against the other


class _SendingParty:
    def __init__(self, layout: Layout, party: Party, uploader: Uploader) -> None:
        self.name = party.name
        self.round = 0
        self._party = party
        self._layout = layout
        self._uploader = uploader

    @property
    def peers(self) -> Sequence[str]:
        return (self._layout.label_holder, *self._layout.parties)

    async def run(self) -> None:
        rows: Rows = np.arange(9, dtype=np.int64)
        await self._uploader.prepare(HeldOut("tried", [rows]))
        await Boundary(0)
        await self._uploader.upload(Learner(self._party.bottom), rows, Moment(0))
        self._uploader.delivered()
        self.round = 1

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round = state["round"]


class _KeepingHolder:
    def __init__(self, layout: Layout, collector: Collector) -> None:
        self.name = layout.label_holder
        self.round = 0
        self.checked = False
        self._layout = layout
        self._collector = collector

    @property
    def peers(self) -> Sequence[str]:
        return self._layout.parties

    async def run(self) -> None:
        rows: Rows = np.arange(9, dtype=np.int64)
        await self._collector.prepare(HeldOut("tried", [rows]))
        await Boundary(0)
        expect = self._collector.expect(Moment(0))
        assert set(expect.sources) <= set(self._layout.parties)
        collected = await self._collector.collect(rows, Moment(0))
        assert not await Ready(expect), "what was collected is still expected"
        width = self._layout.own_width
        assert width is not None
        own = torch.arange(9.0 * width).view(9, width) / 9
        await Work("top", lambda: self._check(collected, own), 0)
        self.checked = True
        self.round = 1

    def _check(self, collected: Any, own: Tensor) -> None:
        kept = self._collector.recalled(collected.state_dict())
        once = collected.fuse(own)
        for again in (collected.fuse(own), kept.fuse(own), collected.differentiable(own).value):
            assert torch.equal(once, again)
        assert not once.requires_grad, "what was collected carries a graph"
        assert set(collected.present) <= set(self._layout.parties)
        own = own.clone().requires_grad_()
        fused = collected.differentiable(own)
        torch.autograd.backward(fused.value.square().sum())
        assert set(fused.derivatives()) == set(collected.present)
        assert own.grad is not None
        assert torch.equal(once, collected.fuse(own.detach())), "a derivative changed the value"

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round = state["round"]


# Comparing


def _states(run: Run) -> list[tuple[str, Tensor]]:
    return [
        (f"{part} of {name}: {key}", value)
        for name, parts in run.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    ]


def _assert_listed(run: Run, federation: Federation, method: Method, training: Training) -> None:
    listed = {
        (flow.sender, receiver, flow.kind, flow.purpose): flow
        for flow in federation.agreement(method, training).flows()
        for receiver in flow.receivers
    }
    for entry in run.ledger:
        flow = listed.get((entry.sender, entry.receiver, entry.kind, entry.purpose))
        assert flow is not None, f"no flow is listed for {entry}"
        most = flow.format.at(entry.round).bytes_at_most(flow.rows, flow.width)
        assert entry.body_bytes <= most, f"at most {most} bytes are listed for {entry}"


def _assert_told(spent: Mapping[str, Any] | None, told: Mapping[str, Any]) -> None:
    """Assert that an account of a run comes to no more than was told before."""
    if spent is None:
        return
    assert told, f"the run keeps an account, {spent}, of which nothing is told before"
    for name in ("epsilon", "epsilon_with_noise", "uses_of_a_row"):
        unknown = 0.0 if name == "epsilon_with_noise" else math.inf  # no such rows; no bound
        real, most = (
            unknown if account.get(name) is None else account[name] for account in (spent, told)
        )
        assert real <= most * (1 + 1e-9), (
            f"{name} is {real} in the run, and {most} is told before: an exchange that uses the "
            "uplink more than once a round says so by uploads"
        )


def _assert_goes_on(
    subject: MethodSubject, method: Method, driver: Driver | None, training: Training
) -> None:
    whole = subject.train(method, driver, training=training)
    with tempfile.TemporaryDirectory() as folder:
        run = partial(subject.train, method, driver, training=training, out=Path(folder) / "run")
        for stop in (4, whole.summary["rounds"] - 1):
            part = run(stop_before=stop, resume=stop > 4)
            assert not part.summary["completed"]
        rest = run(resume=True)
        over = run(resume=True)
    _assert_same(over, rest)
    _assert_same_models(rest, whole)
    assert _trained(rest) == _trained(whole), "other messages after it was stopped twice"
    assert _told(rest) == _told(whole), "another history after it was stopped twice"


def _predicted(run: Run, tables: Mapping[str, Any], *how: Any, **more: Any) -> Prediction:
    """Return a prediction of made-up rows, of which it does not matter what it discloses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return run.predict(tables, *how, **more)


def _assert_predicts(subject: MethodSubject, run: Run) -> None:
    federation = subject.made(subject.method)
    rows = torch.from_numpy(federation.test_rows)
    tables = {name: take(x, federation.test_rows) for name, x in _features(federation).items()}
    for driver in (Simulate(), Processes()):
        prediction = _predicted(run, tables, driver, rows_per_message=4)
        purposes = {entry.purpose for entry in prediction.ledger}
        assert purposes <= {Purpose.PREDICTION, Purpose.SETUP}, purposes
        right = prediction.classes() == federation.label_holder.labels[rows]
        predicted, told = float(right.float().mean()), run.summary["test"]["accuracy"]
        allowed = max(subject.noise, 1e-6)  # a mean of float32 is rounded
        assert abs(predicted - told) <= allowed, f"predicts at {predicted}, and reports {told}"


def _trained(run: Run) -> list[tuple[Any, ...]]:
    """Return all messages but those that set up, without their numbers and times."""
    entries = [entry for entry in run.ledger if entry.purpose is not Purpose.SETUP]
    return [
        tuple(entry._replace(sequence=0, framed_bytes=0, nanoseconds=None)) for entry in entries
    ]


def _assert_same_models(one: Run, other: Run) -> None:
    for (place, mine), (_, expected) in zip(_states(one), _states(other), strict=True):
        assert torch.equal(mine, expected), f"{place} differs"


def _assert_same(one: Run, other: Run) -> None:
    _assert_same_models(one, other)
    assert one.ledger.without_time() == other.ledger.without_time(), "other messages were sent"
    assert _told(one) == _told(other), "the history differs"


def _told(run: Run) -> list[list[dict[str, Any]]]:
    """Return what everybody reported, without times."""
    return [
        frame.drop("seconds", "seconds_evaluation", strict=False).to_dicts()
        for frame in (run.history, run.others_history)
    ]


def _assert_close(one: Tensor, expected: Tensor, tolerance: float, place: str) -> None:
    distance = float(torch.norm(one - expected))
    allowed = tolerance * float(torch.norm(expected))
    assert distance <= allowed, f"{place}: {distance:g} away, at most {allowed:g}"


def _features(federation: Federation) -> dict[str, Any]:
    members = [*federation.parties, federation.label_holder.as_party()]
    return {member.name: member.features for member in members if member is not None}


def _new_rows(federation: Federation) -> dict[str, Any]:
    rows = np.arange(11)
    return {name: _moved(take(x, rows)) for name, x in _features(federation).items()}


def _moved(features: Features) -> Features:
    """Return features that are not those of training; a code stays what it is."""
    if not isinstance(features, Tensor):
        return {name: _moved(x) if x.is_floating_point() else x for name, x in features.items()}  # type: ignore[misc]  # a tensor of a tensor
    return features + 0.1
