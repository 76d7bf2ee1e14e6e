"""Labels that an exchange shares are messages: exact, packed, counted, and used as decoded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.agreement import HolderSeat, PartySeat, Shared
from colonnade.drivers import Assignment, Processes, Simulate
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.federation import Federation
from colonnade.labelling import LabelForm
from colonnade.methods import fedbcd
from colonnade.models import Concat
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.roles.shared_labels import LabelsReceiver
from colonnade.training import Training
from colonnade.wire import Purpose

pytestmark = pytest.mark.usefixtures("no_pictures")

DRIVERS = [Simulate(), Processes()]
ROWS, TRAINED = 60, 37
METHOD = fedbcd(2, Concat(), "shared")
TRAINING = Training(epochs=2, batch_size=10, evaluation_rows=20)


def federation(labels, outputs, loss=None):
    generator = torch.Generator().manual_seed(1)

    def layer(inputs, outputs):
        torch.manual_seed(inputs)
        return torch.nn.Linear(inputs, outputs)

    parties = [Party(name, torch.randn(ROWS, 3, generator=generator), layer(3, 4)) for name in "ab"]
    holder = LabelHolder("holder", labels, layer(8, outputs), loss)
    train = torch.randperm(ROWS, generator=generator)[:TRAINED].numpy()
    return Federation(parties, holder, train)


def classes(count=5):
    return torch.arange(ROWS) % count


LABELS = {
    "5 classes": (classes(), 5, 3 * TRAINED),
    "2 classes": (classes(2), 2, TRAINED),
    "1 class": (classes(1), 2, 0),
    "300 classes": (torch.arange(ROWS) * 5, 300, 9 * TRAINED),
    "float32": (torch.linspace(-1, 1, ROWS), 1, 32 * TRAINED),
    "2 numbers a row": (torch.randn(ROWS, 2), 2, 64 * TRAINED),
}


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)
@pytest.mark.parametrize(("labels", "outputs", "bits"), list(LABELS.values()), ids=list(LABELS))
def test_every_party_is_sent_the_labels_of_the_training_rows_once(labels, outputs, bits, driver):
    made = federation(labels, outputs)
    run = made.train(METHOD, TRAINING, driver)
    setup = [entry for entry in run.ledger if entry.purpose is Purpose.SETUP]
    size = -(-bits // 8)
    assert [(e.sender, e.receiver, e.kind, e.round, e.body_bytes) for e in setup] == [
        ("holder", party, "labels", 0, size) for party in "ab"
    ]
    assert run.summary["bytes_setup"] == 2 * size
    costs = plan(made, METHOD, TRAINING)
    assert costs.exact
    for name in ("bytes_setup", "bytes_up", "bytes_down", "bytes_framed"):
        assert getattr(costs, name) == run.summary[name]
    trained = run.ledger.bytes(lambda entry: entry.purpose.trains)
    assert run.summary["bytes_up"] + run.summary["bytes_down"] == trained


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)
@pytest.mark.parametrize("stop", [0, 3])
def test_a_run_that_goes_on_does_not_send_them_again(tmp_path, driver, stop):
    made = federation(classes(), 5)
    made.train(METHOD, TRAINING, driver, out=tmp_path, stop_before=stop, report=False)
    run = made.train(METHOD, TRAINING, driver, out=tmp_path, resume=True, report=False)
    assert [e.receiver for e in run.ledger if e.purpose is Purpose.SETUP] == ["a", "b"]
    assert run.ledger.without_time() == made.train(METHOD, TRAINING).ledger.without_time()


def test_parties_learn_by_what_they_decoded(monkeypatch):
    made = federation(classes(), 5)
    plain = made.train(METHOD, TRAINING)
    of = LabelsReceiver.of
    monkeypatch.setattr(LabelsReceiver, "of", lambda self, rows: 4 - of(self, rows))
    other = made.train(METHOD, TRAINING)
    for name in "ab":
        one, two = (run.models[name]["bottom"].weight for run in (plain, other))
        assert not torch.equal(one, two)


def test_no_party_is_given_labels_in_its_seat():
    made = federation(classes(), 5)
    agreed = made.agreement(METHOD, TRAINING)
    exchange, holder = METHOD.exchange, made.label_holder
    roles = [
        exchange.party(agreed, PartySeat(party, Shared(made.loss, holder.top)))
        for party in made.parties
    ]
    for role in roles:
        assert role.state_dict()["labels"] == {"body": None}
    roles.append(exchange.label_holder(agreed, HolderSeat(holder)))
    Simulate().run(roles, Assignment(seed=TRAINING.seed))
    expected = agreed.labels.encode(holder.labels[torch.from_numpy(made.train_rows)])
    for role in roles[:2]:
        assert role.state_dict()["labels"]["body"].tobytes() == expected


def test_what_labels_look_like_has_to_be_agreed_on():
    made = federation(classes(), 5)
    agreed = made.agreement(METHOD, TRAINING)
    assert agreed.labels == LabelForm.classes(5)
    seat = HolderSeat(made.label_holder)
    with pytest.raises(ConfigurationError, match=r"give the Agreement labels=LabelForm\.classes"):
        METHOD.exchange.label_holder(replace(agreed, labels=None), seat)
    few = replace(agreed, labels=LabelForm.classes(3))
    shared = Shared(made.loss, made.label_holder.top)
    roles = [METHOD.exchange.party(few, PartySeat(party, shared)) for party in made.parties]
    roles.append(METHOD.exchange.label_holder(few, seat))
    with pytest.raises(ConfigurationError, match=r"give the agreement labels=LabelForm\.of"):
        Simulate().run(roles, Assignment())
    private = fedbcd(2, Concat())
    assert made.agreement(private, TRAINING).labels is None
    assert not made.train(private, TRAINING).summary["bytes_setup"]


# Bytes

WHOLE = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30)
NARROW = st.lists(st.integers(-3, 300), min_size=1, max_size=30)
FRACTIONS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1)


@given(NARROW.map(torch.tensor) | WHOLE.map(torch.tensor) | FRACTIONS.map(torch.tensor))
def test_labels_come_back_to_the_bit(labels):
    form = LabelForm.of(labels)
    body = form.encode(labels)
    again = form.decode(body, len(labels))
    assert again.dtype == labels.dtype
    assert torch.equal(again, labels)
    assert len(body) == form.bytes_at_most(len(labels), form.width)


@pytest.mark.parametrize(
    "labels", [torch.tensor([True, False]), torch.eye(3), torch.tensor([[0, 7], [3, 1]])]
)
def test_labels_of_every_kind_come_back(labels):
    form = LabelForm.of(labels)
    form.warm_up(form.width)
    assert torch.equal(form.decode(form.encode(labels), len(labels)), labels)


@pytest.mark.parametrize(
    ("form", "body", "said"),
    [
        (LabelForm.classes(3), b"\x09\x00", "a body of 2 bytes does not hold the labels of 3"),
        (LabelForm.classes(3), b"", "a body of 0 bytes"),
        (LabelForm.classes(3), b"\x49", "fill up the last byte"),
        (LabelForm.classes(3), b"\x0f", "above 2"),
        (LabelForm.classes(300), b"\xff\xff\xff\x07", "above 299"),
        (LabelForm.numbers(), b"\xff" * 12, "not a finite number"),
    ],
)
def test_bytes_that_are_no_labels_are_refused(form, body, said):
    with pytest.raises(RemoteProtocolError, match=said):
        form.decode(body, 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelForm("decimal"), "no type 'decimal'; take one of bool, uint8"),
        (lambda: LabelForm("__class__"), "no type '__class__'"),
        (lambda: LabelForm("quint8"), "no type 'quint8'"),
        (lambda: LabelForm("uint16"), "no type 'uint16'"),
        (lambda: LabelForm("complex64"), "no type 'complex64'"),
        (lambda: LabelForm("uint8", highest=300), "uint8 has numbers from 0 to 255"),
        (lambda: LabelForm("bool", lowest=-1), "bool has numbers from 0 to 1"),
        (lambda: LabelForm.classes(0), "from 0 to -1"),
        (lambda: LabelForm.classes(3).encode(torch.tensor([3])), "agreed on was"),
        (lambda: LabelForm.classes(3).encode(torch.tensor([1.0])), "agreed on was"),
    ],
)
def test_forms_that_cannot_be_are_refused(make, said):
    with pytest.raises(ConfigurationError, match=said):
        make()
