"""What a full-batch step costs by error feedback, beside the vanilla step, in CPU seconds.

    python benchmarks/feedback.py

60000 rows, four parties of 196 columns, embeddings of 16, as in EF-VFL's experiment on MNIST, on
random data. The whole step of all organisations is counted, in one thread, evaluation apart: the
difference between the fastest of four runs of 13 steps and the fastest of 3. Aim: top-k of 1 %
costs at most 0.12 s more.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import product

import torch
from torch import nn

from colonnade import Federation, LabelHolder, Mean, Party, Training
from colonnade.codecs import TopK
from colonnade.methods import Method, efvfl, fedbcd, svfl
from colonnade.models import mlp

ROWS, COLUMNS, WIDTH, PARTIES, MORE = 60_000, 196, 16, 4, 10


def federation() -> Federation:
    generator = torch.Generator().manual_seed(0)
    sgd = partial(torch.optim.SGD, lr=1.0)
    parties = [
        Party(
            f"party_{i}",
            torch.randn(ROWS, COLUMNS, generator=generator),
            mlp(COLUMNS, [WIDTH], "sigmoid"),
            sgd,
        )
        for i in range(PARTIES)
    ]
    labels = torch.randint(10, (ROWS,), generator=generator)
    return Federation(parties, LabelHolder("server", labels, nn.Linear(WIDTH, 10), optimiser=sgd))


def cpu_seconds(made: Federation, method: Method, steps: int) -> float:
    start = time.process_time()
    made.train(method, Training(epochs=steps, batch_size=ROWS, evaluate_every=10_000))
    return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    made = federation()
    methods = {
        "split": (svfl(fusion=Mean()), efvfl(TopK(0.01), fusion=Mean())),
        "relay": (
            fedbcd(1, Mean(), "shared"),
            efvfl(TopK(0.01), None, Mean(), "shared", others="total"),
        ),
    }
    print(f"{'exchange':10}{'vanilla':>10}{'feedback':>10}{'more':>10}   CPU seconds a step")
    for name, pair in methods.items():
        times: dict[tuple[int, int], float] = {}
        for _ in range(4):  # in turn, as a shared machine drifts
            for which, steps in product((0, 1), (3, 3 + MORE)):
                took = cpu_seconds(made, pair[which], steps)
                times[which, steps] = min(took, times.get((which, steps), took))
        costs = [(times[which, 3 + MORE] - times[which, 3]) / MORE for which in (0, 1)]
        print(f"{name:10}{costs[0]:10.3f}{costs[1]:10.3f}{costs[1] - costs[0]:10.3f}")


if __name__ == "__main__":
    main()
