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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import torch

from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.deployment.leaving import leaving_in_training
from colonnade.drivers import Assignment, Replay, Simulate
from colonnade.errors import RemoteProtocolError
from colonnade.flows import Flow
from colonnade.ledger import Entry
from colonnade.links import Rows
from colonnade.local_updates import (
    HolderBatch,
    LocalStep,
    PartyBatch,
)
from colonnade.method import Method
from colonnade.planning import plan
from colonnade.roles.split import SKIPPED
from colonnade.runs import Run
from colonnade.streams import StreamKey
from colonnade.testing.compared import (
    assert_close,
    assert_goes_on,
    assert_listed,
    assert_predicts,
    assert_same,
    assert_told,
    new_rows,
    predicted,
    states,
)
from colonnade.testing.played import Packed, Preparing, Spoiling, halves, ones
from colonnade.testing.subjects import DRIVER, TRAINING, WIDTH, MethodSubject, small_federation
from colonnade.training import EarlyStopping, Training
from colonnade.uplinks import Relayable
from colonnade.wire import Purpose

__all__ = [
    "METHOD_CHECKS",
    "MethodSubject",
    "check_method",
    "small_federation",
]

_STEPS = 1000  # of a round that are looked at


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
            assert_listed(run, federation, method, training)


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
            assert_told(run.summary["privacy_loss"], told.of_embeddings)
            assert_told(run.summary["privacy_loss_of_labels"], told.of_labels)


def has_the_same_bits_under_every_driver(subject: MethodSubject) -> None:
    """Assert that simulator, processes and replay send and learn the same, to the bit.

    Roles have to travel to processes that inherit nothing, too, as where a GPU is used.
    """
    for method in subject.variants():
        simulated, real = subject.train(method), subject.train(method, Packed())
        timed = subject.timed or method.timed
        if not timed:
            assert_same(real, simulated)
        for run in (simulated, real) if timed else (real,):
            assert run.record is not None
            assert_same(subject.train(method, Replay(run.record.trace)), run)


def takes_the_steps_that_it_accepts(subject: MethodSubject) -> None:
    """Assert that local steps change the model, where the exchange says that it takes them."""
    some, *more = subject.variants()
    once = states(subject.train(some))
    for method in more:
        other = states(subject.train(method))
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
        holder.add(HolderBatch(round, rows, ones(), {"party_0": values}))
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
        assert_goes_on(subject, method, None, TRAINING)


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
    assert_listed(run, federation, method, training)
    planned = plan(federation, method, training, late)
    assert planned.why_timed, "the plan does not say that time decides what is sent"
    assert run.record is not None
    assert_same(subject.train(driver=Replay(run.record.trace), training=training), run)
    assert_goes_on(subject, method, late, training)
    assert_predicts(subject, run)


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
            for (place, one), (_, expected) in zip(states(mine), states(other), strict=True):
                assert_close(one, expected, subject.tolerance, place)
            federation = subject.made(method, has_features)
            assert_close(
                predicted(mine, new_rows(federation)).scores,
                predicted(other, new_rows(federation)).scores,
                subject.tolerance,
                "predictions",
            )


def predicts_as_it_evaluates(subject: MethodSubject) -> None:
    """Assert that predictions of the test rows have the accuracy that the run reports.

    Where the uplink adds noise, it is as close as the subject says.
    """
    assert_predicts(subject, subject.train())


def sets_up_before_anything_else(subject: MethodSubject) -> None:
    """Assert that ``prepare`` of either half awaits nothing but effects that set up.

    Else a simulated run that goes on would not have the times of one that nobody interrupted.
    """
    *_, roles = halves(subject)
    prepared = [Preparing(role) for role in roles]
    Simulate().run(prepared, Assignment(seed=TRAINING.seed))
    for role in prepared:
        assert not role.others, f"prepare of {role.name!r} awaits {role.others[0]!r}"


def collects_values_that_can_be_kept(subject: MethodSubject) -> None:
    """Assert that a collected batch fuses again and again to the same, also when recalled."""
    holder, roles = halves(subject)
    Simulate().run(roles, Assignment(seed=TRAINING.seed))
    assert holder.checked


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
                driver = Spoiling(DRIVER, flow.sender, flow.kind, flow.purpose, spoil)
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
