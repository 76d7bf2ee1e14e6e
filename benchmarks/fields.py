"""Matrix products modulo 2^31 - 1 and 2^61 - 1 beside BLAS's of doubles, in CPU time of one thread.

    python benchmarks/fields.py

Aim: 1000 x 784 x 64 modulo 2^31 - 1 at most twice what float64 takes, which holds whole numbers up
to 2^53 alone. Encoding is a product with few rows, of long ones; decoding likewise.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from colonnade.kernels.mersenne import products
from colonnade.secure import Field, Keystream
from timing import cpu_seconds

SHAPES = {
    "embeddings": (1000, 784, 64),
    "an answer of 28 strips": (64, 812, 32),
    "encoding for 28": (28, 5, 100_000),
    "decoding": (4, 9, 2048),
}


def main() -> None:
    print(f"{'what':24} {'shape':>18} {'float64':>9} {'2^31 - 1':>14} {'2^61 - 1':>14}")
    for what, (n, k, m) in SHAPES.items():
        tried = {}
        exact = np.random.default_rng(0).random((n, k)), np.random.default_rng(1).random((k, m))
        tried["float64"] = partial(np.matmul, *exact)
        for bits in (31, 61):
            field, noise = Field(bits), Keystream(bytes(16))
            pair = field.uniform((n, k), noise), field.uniform((k, m), noise)
            products(*pair)
            tried[f"{bits}"] = partial(products, *pair)
        with threadpool_limits(1):
            seconds = cpu_seconds(tried, repeats=15)
        own = seconds["float64"]
        shape = f"{n} x {k} x {m}"
        cells = [f"{1e3 * seconds[b]:6.2f} ({seconds[b] / own:4.2f})" for b in ("31", "61")]
        print(f"{what:24} {shape:>18} {1e3 * own:6.2f} ms {cells[0]:>14} {cells[1]:>14}")


if __name__ == "__main__":
    main()
