"""What ten small runs come to, as a digest each: two versions of the code agree to the bit, or not.

    python benchmarks/digests.py

A digest covers every parameter and buffer of every trained module, the predictions for some rows,
every message of the ledger (time excepted) and every value of the history (seconds excepted). Run
it before and after a change that must not change a result, on the same machine, and compare.
"""

from __future__ import annotations

import hashlib
from functools import partial

import torch
from torch import nn

from colonnade import (
    EarlyStopping,
    ErrorFeedback,
    Federation,
    LabelHolder,
    Mean,
    Method,
    Party,
    Plain,
    Processes,
    Replayed,
    Simulate,
    Split,
    Sum,
    Training,
)
from colonnade.codecs import QSGD, Float, Lattice, Scalar, TopK
from colonnade.methods import cvfl, efvfl, fedbcd, lean, svfl
from colonnade.wire import PREFIX_BYTES

CONFIGURATIONS = {
    "svfl": svfl(),
    "svfl, 3 bits up, bf16 down": svfl(Scalar(3), Float("bf16"), Mean()),
    "fedbcd, 4 steps": fedbcd(4, Mean()),
    "fedbcd, shared labels": fedbcd(3, Sum(), "shared"),
    "cvfl, lattice, 3 steps": cvfl(Lattice(3), 3, Sum(), "shared"),
    "cvfl, total": cvfl(Scalar(4), 2, Mean(), "shared", others="total"),
    "efvfl, private labels": efvfl(TopK(0.2), Float(16)),
    "efvfl, shared labels, top compressed": efvfl(
        QSGD(3), None, Mean(), "shared", 2, top_codec=TopK(0.5)
    ),
    "lean": lean(),
    "own: feedback both ways, replayed": Method(
        "own",
        Mean(),
        Plain(ErrorFeedback(TopK(0.3))),
        Split(ErrorFeedback(TopK(0.5))),
        Replayed(3, batches=4),
    ),
}
TRAINING = Training(epochs=3, batch_size=32, evaluation_rows=25, evaluate_every=4, seed=3)


def federation() -> Federation:
    """Three parties and a label holder with columns, on random data, with dropout."""
    generator = torch.Generator().manual_seed(7)
    adam = partial(torch.optim.Adam, lr=0.01)

    def columns(count: int) -> torch.Tensor:
        return torch.randn(200, count, generator=generator)

    def bottom(inputs: int) -> nn.Module:
        torch.manual_seed(inputs)
        return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 6))

    parties = [Party(f"party_{i}", columns(3 + i), bottom(3 + i), adam) for i in range(3)]
    torch.manual_seed(99)
    top = nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 4))
    labels = torch.randint(4, (200,), generator=generator)
    holder = LabelHolder(
        "holder", labels, top, features=columns(2), bottom=bottom(2), optimiser=adam
    )
    return Federation(parties, holder, range(140), range(140, 170), None, range(170, 200))


def digest(method: Method, driver: Simulate | Processes) -> str:
    """Train by a method, predict ten rows, and return the digest of all that came of it."""
    made = federation()
    width = method.fusion.width([6, 6, 6, 6])
    torch.manual_seed(98)
    made.label_holder.top(torch.zeros(2, width))  # gives the lazy layer its width
    training = TRAINING
    if method.name == "lean":
        training = Training(
            epochs=3,
            batch_size=32,
            evaluation_rows=25,
            evaluate_every=4,
            seed=3,
            early_stopping=EarlyStopping(2),
        )
    run = made.train(method, training, driver)
    parts = [*made.parties, made.label_holder.as_party()]
    scores = run.predict({p.name: p.features[:10] for p in parts if p is not None}).scores
    hashed = hashlib.blake2b(digest_size=12)
    for name, modules in run.models.items():
        for part, module in modules.items():
            for key, value in module.state_dict().items():
                hashed.update(f"{name}/{part}/{key}".encode() + value.numpy().tobytes())
    hashed.update(scores.numpy().tobytes())
    for entry in run.ledger.without_time():
        # Digests are those of before a stream's own prefix was counted.
        frame = entry.framed_bytes - PREFIX_BYTES
        hashed.update(repr((*tuple(entry)[:7], frame)).encode())
    columns = ("round", "epoch", "train_loss", "validation_accuracy", "validation_log_loss")
    hashed.update(repr(run.history.select(*columns, "bytes_up", "bytes_down").rows()).encode())
    return hashed.hexdigest()


def main() -> None:
    """Print a line for each configuration, under the simulator and between processes."""
    for name, method in CONFIGURATIONS.items():
        print(f"{name:40}{digest(method, Simulate())}  {digest(method, Processes())}")


if __name__ == "__main__":
    main()
