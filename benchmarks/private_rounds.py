"""A round over a secure sum of private counts beside the plain one, in CPU time of one thread.

    python benchmarks/private_rounds.py

Four parties hold a quadrant of 784 pixels each, 28 a strip of 28; bottoms are two layers of 256,
the last with tanh, fused by sum, the top is linear; batches of 4096 rows, SGD. Whole runs are
timed, with keys, offers, masks, shares, draws and the account. Aim: four parties at most 1.3 times
the plain round.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from colonnade.federation import Federation
from colonnade.method import Method
from colonnade.models import Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.privacy import FixedPoint, PoissonBinomial
from colonnade.training import Training
from colonnade.uplinks import Masked
from timing import cpu_seconds

ROWS, BATCH, WIDTH, CLASSES = 5 * 4096, 4096, 256, 10


def federation(parties: int) -> Federation:
    torch.manual_seed(0)
    pixels = torch.rand(ROWS, 784)
    size = 784 // parties
    optimiser = partial(torch.optim.SGD, lr=0.01)
    return Federation(
        [
            Party(
                f"party_{i}",
                pixels[:, i * size : (i + 1) * size].contiguous(),
                nn.Sequential(
                    nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Tanh()
                ),
                optimiser,
            )
            for i in range(parties)
        ],
        LabelHolder(
            "holder",
            torch.randint(CLASSES, (ROWS,)),
            nn.Linear(WIDTH, CLASSES),
            optimiser=optimiser,
        ),
    )


METHODS = {
    "plain": Method("plain", Sum()),
    "secure sum, no noise": Method("exact", Sum(), Masked(FixedPoint(16))),
    "PBM, b = 16": Method("pbm", Sum(), Masked(PoissonBinomial(16, 0.25))),
    "PBM, b = 64": Method("pbm", Sum(), Masked(PoissonBinomial(64, 0.25))),
}


def main() -> None:
    torch.set_num_threads(1)
    training = Training(batch_size=BATCH)
    print(f"{'parties':>8} {'what':24} {'ms a round':>11} {'ratio':>6}")
    for parties in (4, 28):
        f = federation(parties)
        runs = {name: partial(f.train, method, training) for name, method in METHODS.items()}
        seconds = cpu_seconds(runs, repeats=3)
        for name, spent in seconds.items():
            each = spent / (ROWS // BATCH)
            print(f"{parties:8} {name:24} {1e3 * each:11.1f} {spent / seconds['plain']:6.2f}")


if __name__ == "__main__":
    main()
