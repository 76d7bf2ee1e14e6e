"""A round of split training beside the same step on the joined model, in CPU time of one thread.

    python benchmarks/rounds.py

Four parties hold a quadrant of 784 pixels each, 28 a strip of 28; bottoms are linear layers of 128
sigmoids, fused side by side, the top is linear; batches of 128 rows, SGD. Whole runs are timed, so
everything a round needs is in it: roles, driver, codecs, ledger. Aim: four parties at most twice
the centralised step.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from colonnade.batches import BatchPlan
from colonnade.codecs import Scalar
from colonnade.federation import Federation
from colonnade.methods import svfl
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training
from timing import cpu_seconds

ROWS, BATCH, WIDTH, CLASSES, ROUNDS = 12_800, 128, 128, 10, 100


def federation(parties: int) -> Federation:
    torch.manual_seed(0)
    pixels = torch.rand(ROWS, 784)
    size = 784 // parties
    optimiser = partial(torch.optim.SGD, lr=0.1)
    return Federation(
        [
            Party(
                f"party_{i}",
                pixels[:, i * size : (i + 1) * size].contiguous(),
                nn.Sequential(nn.Linear(size, WIDTH), nn.Sigmoid()),
                optimiser,
            )
            for i in range(parties)
        ],
        LabelHolder(
            "holder",
            torch.randint(CLASSES, (ROWS,)),
            nn.Linear(parties * WIDTH, CLASSES),
            optimiser=optimiser,
        ),
    )


def centralised(f: Federation) -> None:
    """The joined model in one place, with one optimiser."""
    bottoms = nn.ModuleList(party.bottom for party in f.parties)
    top = f.label_holder.top
    optimiser = torch.optim.SGD([*bottoms.parameters(), *top.parameters()], lr=0.1)
    batches = BatchPlan(f.train_rows, BATCH, 1, 0)
    for round in range(ROUNDS):
        rows = torch.from_numpy(batches.rows(round))
        pairs = zip(bottoms, f.parties, strict=True)
        outputs = top(torch.cat([b(p.features[rows]) for b, p in pairs], dim=1))
        loss = nn.functional.cross_entropy(outputs, f.label_holder.labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main() -> None:
    torch.set_num_threads(1)
    training = Training(batch_size=BATCH)
    print(f"{'parties':>8} {'what':24} {'us a round':>11} {'ratio':>6}")
    for parties in (4, 28):
        f = federation(parties)
        seconds = cpu_seconds(
            {
                "centralised": partial(centralised, f),
                "split, float32": partial(f.train, svfl(), training),
                "split, 4 bits up, 8 down": partial(f.train, svfl(Scalar(4), Scalar(8)), training),
            },
            repeats=7,
        )
        for name, value in seconds.items():
            ratio = value / seconds["centralised"]
            print(f"{parties:8} {name:24} {value / ROUNDS * 1e6:11.0f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
