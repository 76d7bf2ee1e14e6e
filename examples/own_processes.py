"""Two parties and a label holder, each a process that reads its own file and nobody else's."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import colonnade as cn
from colonnade.drivers import Assignment
from colonnade.export import export_part

ROWS, COLUMNS, WIDTH = 200, 3, 4
PARTIES = ("bank", "shop")
ADAM = partial(torch.optim.Adam, lr=0.03)


def agreement() -> cn.Agreement:
    """Return what all three have agreed on: each makes it from the same configuration."""
    return cn.Agreement(
        method=cn.methods.svfl(cn.codecs.Scalar(bits=6)),
        training=cn.Training(epochs=10, batch_size=32, seed=1),
        layout=cn.Layout(PARTIES, "insurer", dict.fromkeys(PARTIES, WIDTH), ROWS, seed=1),
        parameters=2 * WIDTH * 2 + 2,  # of the top model
        train_rows=np.arange(150),
        validation_rows=np.arange(0),
        test_rows=np.arange(150, ROWS),
    )


def party(name: str, folder: Path) -> cn.Role:
    """Cast a party's role, in its own process, from its own columns."""
    torch.manual_seed(PARTIES.index(name))
    columns = torch.from_numpy(np.load(folder / "columns.npy"))
    bottom = nn.Sequential(nn.Linear(COLUMNS, WIDTH), nn.Tanh())
    agreed, own = agreement(), cn.Party(name, columns, bottom, ADAM)
    return agreed.method.exchange.party(agreed, cn.PartySeat(own))


def label_holder(folder: Path) -> cn.Role:
    """Cast the label holder's role, in its own process, from its labels."""
    torch.manual_seed(2)
    labels = torch.from_numpy(np.load(folder / "labels.npy"))
    own = cn.LabelHolder("insurer", labels, top=nn.Linear(2 * WIDTH, 2), optimiser=ADAM)
    agreed = agreement()
    return agreed.method.exchange.label_holder(agreed, cn.HolderSeat(own))


def keep(folder: Path, role: cn.Role) -> None:
    """Write an organisation's own trained part into its own folder."""
    learners = {part: getattr(role, part, None) for part in ("bottom", "top")}
    modules = {part: own.module for part, own in learners.items() if own is not None}
    export_part(folder / "part", role.name, modules, details={})


def main(home: Path) -> None:
    """Make a folder for each organisation, and train."""
    chance = np.random.default_rng(0)
    columns = chance.normal(size=(2, ROWS, COLUMNS)).astype(np.float32)
    for name in (*PARTIES, "insurer"):
        (home / name).mkdir()
    for name, own in zip(PARTIES, columns, strict=True):
        np.save(home / name / "columns.npy", own)
    np.save(home / "insurer" / "labels.npy", (columns.sum(axis=(0, 2)) > 0).astype(np.int64))

    roles = [
        cn.Elsewhere(
            name, ["insurer"], partial(party, name, home / name), partial(keep, home / name)
        )
        for name in PARTIES
    ]
    own = home / "insurer"
    roles.append(cn.Elsewhere("insurer", PARTIES, partial(label_holder, own), partial(keep, own)))
    agreed = agreement()
    assignment = Assignment(seed=agreed.training.seed, limits=agreed.limits())
    record = cn.Processes().run(roles, assignment)
    print(f"{len(record.ledger)} messages, accuracy {record.history[-1]['test_accuracy']:.2f}")
    for path in sorted(home.rglob("*.safetensors")):
        print(path.relative_to(home))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
