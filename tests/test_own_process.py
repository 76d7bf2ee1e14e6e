"""An organisation's process starts from its configuration, its own data and the agreement alone."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from colonnade.agreement import HolderSeat, PartySeat, Shared
from colonnade.checkpoints import CheckpointStore
from colonnade.codecs import Scalar, TopK
from colonnade.config import parse_config
from colonnade.drivers import Assignment, Elsewhere, Processes, Simulate
from colonnade.errors import CheckpointError, ConfigurationError, DataError
from colonnade.federation import Federation
from colonnade.methods import cvfl, efvfl, svfl
from colonnade.models import Mean
from colonnade.testing.methods import TRAINING, small_federation
from colonnade.training import EarlyStopping
from test_elsewhere import python
from toy_elsewhere import found_in_memory
from toy_own_process import (
    COLUMNS,
    HOLDER,
    PARTIES,
    ROWS,
    agreement,
    cast,
    digest,
    finish,
    label_holder,
    party,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.usefixtures("no_pictures"),
]

# Of each organisation's table the first 24 bytes are what others look for, shifted by one.
DRAW = f"""
import os, sys, pathlib
import numpy as np
folder = pathlib.Path(sys.argv[1])
shape = ({ROWS},) if folder.name == "{HOLDER}" else ({ROWS}, {COLUMNS})
table = np.random.default_rng(int.from_bytes(os.urandom(8))).normal(size=shape)
table = table.astype(np.float32)
np.save(folder / "table.npy", table)
marker = table.tobytes()[:24]
(folder / "shifted").write_bytes(bytes((b + 1) % 256 for b in marker))
"""
AGREED = {
    "method": {"name": "cvfl", "embedding": {"codec": "scalar", "bits": 6}, "fusion": "mean"},
    "training": {"epochs": 2, "batch_size": 16, "seed": 9, "evaluation_rows": 8},
}


def test_each_process_starts_from_its_own_data_and_the_agreement(tmp_path):
    names = (*PARTIES, HOLDER)
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
        python(DRAW, folder)
    agreed = tmp_path / "agreed.yaml"
    agreed.write_text(yaml.safe_dump(AGREED), encoding="utf-8")
    roles = [
        Elsewhere(
            name,
            PARTIES if name == HOLDER else (HOLDER,),
            partial(cast, name, folders[name], agreed),
            partial(finish, name, folders),
        )
        for name in names
    ]
    limits = agreement(agreed).limits()
    record = Processes().run(roles, Assignment(seed=9, limits=limits))
    assert record.completed
    told = {name: json.loads((folders[name] / "told.json").read_text()) for name in names}
    for name in names:
        # Its own table is found, so the search finds what is there; nobody else's is.
        assert told[name]["found"] == {other: other == name for other in names}
        assert not told[name]["sklearn"]  # without a table of text nobody waits for its import
    shifted = {name: (folder / "shifted").read_bytes() for name, folder in folders.items()}
    assert found_in_memory(shifted) == dict.fromkeys(names, False)
    # It is the run that a federation with all the data in one place makes, to the bit.
    common = agreement(agreed)
    federation = Federation(
        [party(name, folders[name]) for name in PARTIES],
        label_holder(folders[HOLDER]),
        common.train_rows,
        common.test_rows,
    )
    run = federation.train(common.method, common.training, Simulate(), report=False)
    models = {name: digest(*parts.values()) for name, parts in run.models.items()}
    assert {name: told[name]["model"] for name in names} == models
    assert record.ledger.without_time() == run.ledger.without_time()


def seats():
    """Roles of three organisations that agree, and what they were made of."""
    method = parse_config(AGREED).method.build()
    federation = small_federation(method, holder_has_features=False)
    return federation, federation.agreement(method, TRAINING)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize(
    "other",
    [
        lambda a: replace(
            a, training=replace(a.training, seed=8), layout=replace(a.layout, seed=8)
        ),
        lambda a: replace(a, train_rows=a.train_rows[::-1]),
        lambda a: replace(a, training=replace(a.training, epochs=3)),
        lambda a: replace(a, method=parse_config({"method": "lean"}).method.build()),
    ],
    ids=["seed", "rows", "epochs", "method"],
)
def test_organisations_that_disagree_do_not_train(other, driver):
    federation, agreed = seats()
    exchange = agreed.method.exchange
    different = other(agreed)
    roles = [exchange.party(agreed, PartySeat(p)) for p in federation.parties[:2]]
    last = PartySeat(federation.parties[2])
    roles.append(different.method.exchange.party(different, last))
    roles.append(exchange.label_holder(agreed, HolderSeat(federation.label_holder)))
    with pytest.raises(ConfigurationError, match=r"agreements of .* and of 'party_2' differ"):
        driver.run(roles, Assignment())


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        (lambda f, a: replace(a, layout=replace(a.layout, seed=99)), ConfigurationError, "seed"),
        (lambda f, a: replace(a, train_rows=np.arange(900)), ConfigurationError, "90 rows are"),
        (lambda f, a: replace(a, test_rows=np.array([-1])), ConfigurationError, "but row -1"),
        (
            lambda f, a: a.method.exchange.party(a, PartySeat(replace(f.parties[0], name="bnak"))),
            ConfigurationError,
            "'bnak' is none of the parties",
        ),
        (
            lambda f, a: a.method.exchange.party(
                a, PartySeat(replace(f.parties[0], features=f.parties[0].features[:30]))
            ),
            DataError,
            "'party_0' has 30 rows, but 90 are aligned",
        ),
        (
            lambda f, a: a.method.exchange.label_holder(
                replace(a, parameters=99), HolderSeat(f.label_holder)
            ),
            ConfigurationError,
            "99 parameters, but here is 'holder' with 15",
        ),
        (
            lambda f, a: Simulate().run([Elsewhere("bank", (), seats)], Assignment()),
            ConfigurationError,
            "is no role",
        ),
    ],
    ids=["seed", "rows", "row", "name", "table", "parameters", "elsewhere"],
)
def test_what_cannot_be_is_said(wrong, error, why):
    with pytest.raises(error, match=why):
        wrong(*seats())


@pytest.mark.parametrize("has_columns", [True, False])
@pytest.mark.parametrize(
    "method",
    [
        svfl(Scalar(5)),
        cvfl(Scalar(5), 2, Mean(), "shared"),
        efvfl(TopK(0.4), None, Mean(), "shared", 2, others="total"),
    ],
    ids=["split", "relay, codes", "relay, total"],
)
def test_roles_cast_from_seats_are_those_of_a_federation(method, has_columns):
    federation = small_federation(method, has_columns)
    training = replace(TRAINING, early_stopping=EarlyStopping(2))
    agreed, exchange, holder = (
        federation.agreement(method, training),
        method.exchange,
        federation.label_holder,
    )
    shared = None
    if exchange.labels == "shared":
        shared = Shared(holder.objective(), holder.top)
    roles = [exchange.party(agreed, PartySeat(own, shared)) for own in federation.parties]
    roles.append(exchange.label_holder(agreed, HolderSeat(holder)))
    record = Simulate().run(roles, Assignment(seed=training.seed))
    run = federation.train(method, training)
    for role in roles:
        for part, module in run.models[role.name].items():
            assert digest(getattr(role, part).module) == digest(module)
    assert record.ledger.without_time() == run.ledger.without_time()
    if shared is not None:
        with pytest.raises(ConfigurationError, match="needs the loss and the form"):
            exchange.party(agreed, PartySeat(federation.parties[0]))


def doubled(party):
    return replace(party, features=2 * party.features)


OTHERS = {
    "features": (doubled, lambda holder: holder),
    "labels": (lambda p: p, lambda holder: replace(holder, labels=holder.labels.flip(0))),
    "loss": (lambda p: p, lambda holder: replace(holder, loss=nn.MultiMarginLoss())),
    "optimiser": (lambda p: replace(p, optimiser=partial(torch.optim.SGD, lr=0.3)), lambda h: h),
}


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize("what", OTHERS)
def test_a_role_goes_on_from_what_it_kept_itself_alone(tmp_path, what, driver):
    """Also where nobody but its organisation could tell: there is no fingerprint of the whole."""
    federation, agreed = seats()

    def roles(party=lambda p: p, holder=lambda h: h):
        exchange = agreed.method.exchange
        first, *others = federation.parties
        everybody = [exchange.party(agreed, PartySeat(p)) for p in (party(first), *others)]
        label_holder = HolderSeat(holder(federation.label_holder))
        return [*everybody, exchange.label_holder(agreed, label_holder)]

    store = CheckpointStore(tmp_path, {"run": agreed.digest})
    settings = {"seed": agreed.layout.seed, "store": store}
    driver.run(roles(), Assignment(stop_before=2, **settings))
    with pytest.raises(CheckpointError, match="was written in a run of another agreement, or with"):
        driver.run(roles(*OTHERS[what]), Assignment(resume=store.latest(), **settings))
    assert driver.run(roles(), Assignment(resume=store.latest(), **settings)).completed
