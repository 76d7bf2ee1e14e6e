"""What the processes of three organisations import: tables, models, and what they agree on."""

from __future__ import annotations

import hashlib
import json
import sys
from functools import partial

import numpy as np
import torch
import yaml
from torch import nn

from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.config import parse_config
from colonnade.layout import Layout
from colonnade.models import parameter_count
from colonnade.organisations import LabelHolder, Party
from toy_elsewhere import found_in_memory

ROWS, COLUMNS, WIDTH = 64, 6, 4
PARTIES, HOLDER = ("bank", "shop"), "insurer"


def network(seed, inputs, outputs):
    with torch.random.fork_rng():
        torch.random.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh())


def table(folder):
    return torch.from_numpy(np.load(folder / "table.npy"))


def party(name, folder):
    bottom = network(PARTIES.index(name), COLUMNS, WIDTH)
    return Party(name, table(folder), bottom, partial(torch.optim.SGD, lr=0.1))


def label_holder(folder):
    top = nn.Linear(WIDTH, 1)
    with torch.no_grad():
        for parameter in top.parameters():
            parameter.fill_(0.25)
    return LabelHolder(HOLDER, table(folder), top, optimiser=partial(torch.optim.SGD, lr=0.1))


def agreement(path):
    """What is agreed on, from the file that everybody has."""
    agreed = yaml.safe_load(path.read_text(encoding="utf-8"))
    config = parse_config(agreed)
    return Agreement(
        config.method.build(),
        config.training.build(),
        Layout(PARTIES, HOLDER, dict.fromkeys(PARTIES, WIDTH), ROWS, agreed["training"]["seed"]),
        parameters=WIDTH + 1,
        train_rows=np.arange(48),
        validation_rows=np.arange(0),
        test_rows=np.arange(48, ROWS),
    )


def cast(name, folder, agreed):
    common = agreement(agreed)
    exchange = common.method.exchange
    if name != HOLDER:
        return exchange.party(common, PartySeat(party(name, folder)))
    own = label_holder(folder)
    assert parameter_count(own.top) == common.parameters
    return exchange.label_holder(common, HolderSeat(own))


def digest(*modules):
    hashed = hashlib.blake2b(digest_size=16)
    for module in modules:
        for key, value in module.state_dict().items():
            hashed.update(key.encode() + value.numpy().tobytes())
    return hashed.hexdigest()


def finish(name, folders, role):
    shifted = {other: (folder / "shifted").read_bytes() for other, folder in folders.items()}
    model = role.top if name == HOLDER else role.bottom
    told = {"found": found_in_memory(shifted), "model": digest(model.module)}
    told["sklearn"] = "sklearn" in sys.modules
    (folders[name] / "told.json").write_text(json.dumps(told))
