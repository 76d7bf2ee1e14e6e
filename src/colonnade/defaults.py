"""What is used where nothing is said: layers, rates, and steps by the number of rows.

Chosen by measurement; ``docs/defaults.md`` says how. Estimators, configuration files and
``Blueprint`` take theirs from here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ACTIVATION",
    "HIDDEN",
    "LEARNING_RATE",
    "PATIENCE",
    "TOP",
    "VALIDATION",
    "batch_size",
    "epochs",
]

HIDDEN = (64, 32)
"""Widths of a bottom model's layers; the last is that of the embedding."""

TOP = (32,)
"""Widths of the top model's layers before its outputs: without one it would add the companies'
contributions, and learn nothing that lies between them."""

ACTIVATION: Final = "tanh"
"""What follows every layer."""

LEARNING_RATE = 1e-3
"""Of Adam."""

BUCKETS = 2**14
"""Codes of each column of categories in a table that is streamed."""

VALIDATION = 0.1
"""The share of the people by whom the best model is chosen."""

PATIENCE = 10
"""Evaluations without improvement after which training ends."""

_SMALLEST, _LARGEST = 16, 512
_ROUNDS_PER_EPOCH = 24
_ROUNDS = 3000
_FEWEST_EPOCHS, _MOST_EPOCHS = 15, 100


def batch_size(rows: int) -> int:
    """Return how many of so many training rows make a batch.

    The largest power of two that gives an epoch 24 rounds or more, from 16 to 512: small tables
    need steps, large ones would send as many bytes in more rounds.

    >>> [batch_size(rows) for rows in (100, 1000, 5000, 100_000)]
    [16, 32, 128, 512]
    """
    fitting = max(1, rows // _ROUNDS_PER_EPOCH)
    return min(_LARGEST, max(_SMALLEST, 1 << (fitting.bit_length() - 1)))


def epochs(rounds_per_epoch: int) -> int:
    """Return how many epochs of so many rounds are trained at most.

    About 3000 rounds, in 15 to 100 epochs. Where there are validation rows, training mostly ends
    long before.

    >>> [epochs(rounds) for rounds in (6, 40, 100, 1000)]
    [100, 75, 30, 15]
    """
    return min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, -(-_ROUNDS // rounds_per_epoch)))
