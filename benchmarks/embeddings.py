"""A step of a bottom with a large table of embeddings, in CPU time of one thread.

    python benchmarks/embeddings.py

Batches of 4096 rows, 26 columns of codes, embeddings of 16, layers of 256 and 256, AdaGrad; tables
of 10^5 and 10^6 rows. Codes are skewed, as clicks are: the square of a uniform number decides. A
step is forward, backward and the optimiser's. Beside sparse and dense gradients stand a step of
the layers alone, and what of the sparse step is looking up (with the check of codes) and the check.
Aim: what tables add to the layers' step hangs on the batch, not on the tables, but for the cache;
the check is lost beside the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from colonnade.models import WideAndDeep, mlp
from colonnade.models.codes import check_codes
from timing import cpu_seconds

BATCH, COLUMNS, EMBEDDING, WIDTHS = 4096, 26, 16, (256, 256)


def stepper(bottom: nn.Module, features: object) -> Callable[[], None]:
    optimiser = torch.optim.Adagrad(bottom.parameters(), lr=0.01)
    derivative = torch.randn(BATCH, WIDTHS[-1])

    def step() -> None:
        bottom(features).backward(derivative)
        optimiser.step()
        optimiser.zero_grad()

    return step


def looked_up(bottom: WideAndDeep, codes: Tensor) -> None:
    bottom.embeddings(bottom.place(codes))


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'rows of the table':>18} {'what':22} {'ms':>8} {'ratio':>7}")
    for rows in (10**5, 10**6):
        torch.manual_seed(0)
        cardinalities = [rows // COLUMNS] * COLUMNS
        codes = (torch.rand(BATCH, COLUMNS).square() * (rows // COLUMNS)).long()
        features, inputs = {"categorical": codes}, torch.randn(BATCH, COLUMNS * EMBEDDING)
        sparse, dense = (
            WideAndDeep(0, cardinalities, WIDTHS, "relu", EMBEDDING, 0, 0.0, gradients)
            for gradients in (True, False)
        )
        seconds = cpu_seconds(
            {
                "sparse gradients": stepper(sparse, features),
                "dense gradients": stepper(dense, features),
                "layers alone": stepper(mlp(COLUMNS * EMBEDDING, WIDTHS, last="identity"), inputs),
                "looking up": partial(looked_up, sparse, codes),
                "checking codes": partial(check_codes, codes, cardinalities),
            },
            repeats=9,
        )
        for name, value in seconds.items():
            ratio = value / seconds["sparse gradients"]
            print(f"{rows:18} {name:22} {value * 1e3:8.2f} {ratio:7.3f}")


if __name__ == "__main__":
    main()
