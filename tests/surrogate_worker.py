"""A process that changes a surrogate table until it is killed, and the same changes for a replay.

    python tests/surrogate_worker.py FOLDER FIRST_STEP [STATE]

It goes on from STATE (JSON), makes a mark after every few steps, and prints each mark's step and
state. What was printed is what a committed checkpoint would hold.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from colonnade.surrogates import Disk, Memory

ROWS, WIDTH, STEPS_PER_MARK = 300, 5, 7


def storage(folder):
    return Disk(Path(folder), dtype="float16")


def table(folder):
    return storage(folder).table("bank", ROWS, WIDTH)


def change(step):
    random = np.random.default_rng(step)
    rows = random.permutation(ROWS)[: random.integers(1, 60)]
    values = random.normal(size=(len(rows), WIDTH)).astype(np.float32)
    return rows, torch.from_numpy(values)


def replay(steps):
    """The table after that many steps."""
    memory = Memory(dtype="float16").table("bank", ROWS, WIDTH)
    for step in range(steps):
        memory.add(*change(step))
    return memory.read(np.arange(ROWS))


def main(folder, first, state=None):
    surrogate = table(folder)
    if state is not None:
        surrogate.load_state_dict(json.loads(state))
    step = int(first)
    while True:
        surrogate.add(*change(step))
        step += 1
        if step % STEPS_PER_MARK == 0:
            print(step, json.dumps(surrogate.state_dict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
