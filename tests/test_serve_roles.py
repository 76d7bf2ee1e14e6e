"""Predictions on request: whoever asks is told what a prediction of all rows would have told."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from colonnade import methods
from colonnade.drivers import Assignment, Simulate
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.federation import Federation
from colonnade.flows import Limits
from colonnade.models import Concat, Learner, Mean, Polynomial, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.roles import ServeLabelHolder, ServeParty
from colonnade.roles.serve import REQUEST, Asked, decode_request, encode_request, request_flow
from colonnade.training import Training
from colonnade.wire import Purpose

MOST = 4


def members(width=4, rows=30):
    drawn = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    return {
        name: Party(
            name,
            torch.randn(rows, 3, generator=drawn),
            nn.Sequential(nn.Linear(3, width), nn.Tanh()),
        )
        for name in ("bank", "shop", "club")
    }


def served(method, requests, release=lambda: None, change=lambda models: None):
    """Train and serve; return what was answered, what a whole prediction says, and the record.

    ``change`` is made to the trained models.
    """
    parties = members()
    y = (sum(party.features[:, 0] for party in parties.values()) > 0).long()
    top = nn.Linear(method.fusion.width([4] * 3), 2)
    federation = Federation([*parties.values()], LabelHolder("insurer", y, top))
    run = federation.train(method, Training(epochs=1, batch_size=10, secrets="seed"))
    features = {name: party.features for name, party in parties.items()}
    predictor = run.predictor
    change(run.models)
    layout = predictor._layout(30, {})
    own = {n: replace(p, bottom=run.models[n]["bottom"]) for n, p in parties.items()}
    answers, waiting = {}, deque([None])
    for rows in requests:
        asked = np.array(rows, dtype=np.int64)
        keep = partial(answers.__setitem__, tuple(rows))
        waiting += [Asked(asked, keep, keep)]
        waiting += [None]  # nobody asks for a while
    waiting.append(Asked(np.zeros(0, dtype=np.int64), print, print))
    uplink = predictor.uplink
    holder = ServeLabelHolder(
        layout,
        Learner(run.models["insurer"]["top"]),
        None,
        uplink,
        predictor.fusion,
        waiting.popleft,
        release,
    )
    roles = [ServeParty(layout, own[n], uplink, MOST, release) for n in layout.parties]
    flows = [*uplink.flows(layout, MOST, Purpose.PREDICTION), request_flow(layout, MOST)]
    record = Simulate().run([*roles, holder], Assignment(limits=Limits.of(flows, 1)))
    return answers, lambda: predictor.predict_uncounted(features), record


class Absurd(nn.Module):
    """A bottom whose embeddings of some rows are absurd, and finite."""

    def forward(self, x):
        return torch.where(x[:, :1] > 0, 3e38, torch.zeros(len(x), 4))


def test_who_asks_for_what_is_no_number_is_refused_and_the_next_is_answered():
    absurd = (members()["shop"].features[:, 0] > 0).numpy()
    (strange, *_), (plain, *_) = absurd.nonzero()[0], (~absurd).nonzero()[0]

    def change(models):
        models["shop"]["bottom"] = Absurd()
        nn.init.constant_(models["insurer"]["top"].weight, 9.0)

    requests = [(int(plain), int(strange)), (int(plain),)]
    answers, _, _ = served(methods.svfl(fusion=Sum()), requests, change=change)
    sentence = (
        f"^what the top model of 'insurer' says of row {strange} is no finite number, so nothing "
        r"is predicted; the largest component that came is 3e\+38, of 'shop': see first what it"
    )
    assert re.match(sentence, str(answers[requests[0]]))
    assert answers[requests[1]].isfinite().all()


class Endless(nn.Module):
    """A bottom that makes no finite number of one row."""

    def __init__(self, row):
        super().__init__()
        self.register_buffer("row", row.clone())

    def forward(self, x):
        return torch.where((x == self.row).all(dim=1, keepdim=True), torch.inf, torch.zeros(1, 4))


def test_a_party_tries_all_its_rows_before_it_serves():
    def change(models):
        models["shop"]["bottom"] = Endless(members()["shop"].features[17])

    sentence = (
        r"^at shop, in round 0: component 0 of row 1 of those embedded together is inf.* "
        r"\(row 0 of these is row 16 of all\)$"
    )
    with pytest.raises(Diverged, match=sentence):
        served(methods.svfl(), [(3,)], change=change)


@pytest.mark.parametrize(
    "method", [methods.svfl(), methods.svfl(fusion=Sum()), methods.svfl(fusion=Mean())]
)
def test_what_is_asked_for_is_predicted_as_with_all_rows(method):
    requests = [(3,), (29, 0, 7), (3, 4, 5, 6)]
    answers, whole, record = served(method, requests)
    expected = whole().scores
    for rows in requests:
        assert torch.allclose(answers[rows], expected[[*rows]], atol=1e-5)
    asked = [entry for entry in record.ledger if entry.kind == REQUEST]
    assert [entry.body_bytes for entry in asked] == [8] * 3 + [24] * 3 + [32] * 3 + [0] * 3
    assert {entry.purpose for entry in asked} == {Purpose.PREDICTION}


def test_a_secure_sum_is_of_what_is_asked_for():
    answers, whole, _ = served(methods.pbm_vfl(trials=4096, beta=0.25), [(3, 5), (8,)])
    expected = whole().scores
    assert torch.allclose(answers[3, 5], expected[[3, 5]], atol=0.3)
    assert torch.allclose(answers[(8,)], expected[[8]], atol=0.3)


def test_shares_are_made_of_what_is_asked_for(monkeypatch):
    linear = {name: replace(party, bottom=Polynomial(3, 4, 1)) for name, party in members().items()}
    monkeypatch.setitem(globals(), "members", lambda: linear)
    answers, whole, _ = served(methods.fedvs(), [(3,), (29, 0, 7)])
    expected = whole().scores
    for rows in answers:
        assert torch.allclose(answers[rows], expected[[*rows]], atol=0.01)


def test_nothing_leaves_that_may_not():
    counted = []

    def release():
        counted.append(None)
        if len(counted) > 4:  # the label holder and three parties
            raise ConfigurationError("no more than one request")

    with pytest.raises(ConfigurationError, match="no more than one request"):
        served(methods.svfl(fusion=Concat()), [(1,), (2,)], release)
    assert len(counted) == 5


@given(st.lists(st.integers(0, 9), max_size=6, unique=True))
def test_a_request_is_read_as_it_was_written(rows):
    asked = np.array(rows, dtype=np.int64)
    assert decode_request(encode_request(asked), 10, 6).tolist() == rows


@given(
    st.binary(max_size=60)
    | st.lists(st.integers(-1, 4), max_size=7).map(
        lambda rows: np.array(rows, dtype="<i8").tobytes()
    )
)
def test_a_request_is_for_rows_that_there_are_once_each(body):
    try:
        rows = decode_request(body, 4, 5)
    except RemoteProtocolError:
        return
    assert len(rows) == len({*rows.tolist()}) <= 5
    assert all(0 <= row < 4 for row in rows)
