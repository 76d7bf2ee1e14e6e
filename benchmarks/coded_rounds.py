"""A round of FedVS: what it takes of CPU time, by what is done, and what shares take of memory.

    python benchmarks/coded_rounds.py [FOLDER]

28 parties hold a strip of MNIST's pictures each (of FOLDER, or COLONNADE_DATA; made-up ones of the
form where there are none), polynomial networks of degree 1 to 32 numbers, batches of 256, everybody
in one process. The time of all parties and the label holder is told, and the plan's memory beside
what shares took.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

from colonnade.costs import Modelled
from colonnade.datasets import mnist_anywhere
from colonnade.drivers import Simulate
from colonnade.federation import Federation
from colonnade.methods import Method, fedvs
from colonnade.models import Mean, Polynomial
from colonnade.organisations import LabelHolder, Party
from colonnade.planning.memory import memory_of
from colonnade.training import Training

PARTIES, WIDTH, BATCH, ROWS = 28, 32, 256, 12_000


def federation() -> Federation:
    torch.manual_seed(0)
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("COLONNADE_DATA")
    if folder is None:
        strips = {f"party_{n}": torch.rand(ROWS + 2000, 28) for n in range(1, PARTIES + 1)}
        labels = torch.randint(10, (ROWS + 2000,))
        train, test = range(ROWS), range(ROWS, ROWS + 2000)
    else:
        digits = mnist_anywhere(Path(folder), partition="strips", parties=PARTIES).head(ROWS, 2000)
        strips, labels, train, test = digits.features, digits.labels, digits.train, digits.test
    sgd = partial(torch.optim.SGD, lr=0.05)
    parties = [Party(name, x, Polynomial(28, WIDTH, 1), sgd) for name, x in strips.items()]
    top = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 10))
    return Federation(parties, LabelHolder("server", labels, top, optimiser=sgd), train, test)


def main() -> None:
    torch.set_num_threads(1)
    f = federation()
    training = Training(epochs=2, batch_size=BATCH, evaluation_rows=5000)
    driver = Simulate(costs=Modelled(otherwise=0.0))
    methods = {
        "in the clear": Method("clear", Mean()),
        "FedVS, K = 1": fedvs(1),
        "FedVS, K = 4": fedvs(4),
        "FedVS, K = 4, T = 4": fedvs(4, 4),
    }
    for name, method in methods.items():
        f.train(method, Training(batch_size=6000), driver, report=False)  # compiles
        begun = time.process_time()
        run = f.train(method, training, driver, report=False)
        spent = time.process_time() - begun
        rounds = run.summary["rounds"]
        stages: dict[str, float] = {}
        setup = 0.0
        for each in run.summary["activities"]:
            if each["purpose"] == "training":
                kind = each["activity"]
                stages[kind] = stages.get(kind, 0.0) + each["seconds_cpu"]
            if each["purpose"] == "setup":
                setup += each["seconds_cpu"]
        work = sum(stages.values())
        print(
            f"{name}: {1e3 * work / rounds:.1f} ms of work a round; {spent:.1f} s in all, "
            f"{setup:.1f} to share data"
        )
        shares = sorted(stages.items(), key=lambda item: -item[1])
        print("  " + ", ".join(f"{kind} {value / work:.0%}" for kind, value in shares))
        sizes: dict[str, list[int]] = {}
        for entry in run.ledger:
            if entry.purpose.trains or entry.kind == "data_share":
                sizes.setdefault(entry.kind, []).append(entry.body_bytes)
        for kind, bodies in sizes.items():
            print(f"  {kind}: {len(bodies)} of {max(bodies):,} bytes")
        if name.startswith("FedVS"):
            planned = memory_of(f, f.agreement(method, training))
            kept = sum(memory.surrogates for memory in planned.values())
            print(f"  shares that all parties keep: {kept / 1e6:.0f} MB planned")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
