"""Drawing what mechanisms draw, beside the random bytes that it takes and beside numpy.

    python benchmarks/mechanisms.py

CPU time of one thread, medians, 4096 x 256 components; random bytes come from AES-128-CTR and are
counted in. Each line is of one number of trials b: milliseconds and millions of draws a second of
the kernel, and of PoissonBinomial.counts, which checks the values and makes chances of them too.
*Bytes* is the time that the keystream takes for as many random bytes as the draws take: no sampler
that needs them is faster than 1 in brackets. numpy is its Generator.binomial, which is not meant
for secrets. Aim: 100 M draws a second of the kernel at b = 16.

Then the other mechanisms, and what becomes of sums, in milliseconds and as a ratio to copying the
message in the same run.
"""

from __future__ import annotations

import numpy as np
import torch

from colonnade.kernels.binomial import binomial, chances
from colonnade.privacy import FixedPoint, Gaussian, PoissonBinomial
from colonnade.secure import Keystream
from timing import cpu_seconds

ROWS, WIDTH, REPEATS = 4096, 256, 15
COUNT = ROWS * WIDTH
BETA = 0.25


def draws(x: torch.Tensor) -> None:
    print(f"{'b':>4}{'bytes':>9}{'kernel':>18}{'M/s':>7}{'counts':>9}{'M/s':>7}{'numpy':>9}")
    noise, random = Keystream(bytes(16)), np.random.default_rng(0)
    values = x.numpy().reshape(-1)
    chance = chances(values, BETA * 2**32, BETA * 2**32)
    few = chance[: COUNT // 16] / 2**32
    for trials in (1, 4, 8, 16, 32, 64, 256):
        mechanism = PoissonBinomial(trials, BETA)
        before = noise.position
        binomial(chance, trials, noise.fill)
        piece = np.empty(1 << 17, dtype=np.uint8)  # stays in the cache, as that of the kernel does
        times = (noise.position - before) / len(piece)

        def fill(piece: np.ndarray = piece) -> None:
            for _ in range(32):
                noise.fill(piece)

        seconds = cpu_seconds(
            {
                "bytes": fill,
                "kernel": lambda trials=trials: binomial(chance, trials, noise.fill),
                "counts": lambda mechanism=mechanism: mechanism.counts(x, noise),
                "numpy": lambda trials=trials: random.binomial(trials, few),
            },
            REPEATS,
        )
        seconds["bytes"] *= times / 32
        seconds["numpy"] *= 16
        kernel, counts = seconds["kernel"], seconds["counts"]
        print(
            f"{trials:4}{1e3 * seconds['bytes']:9.2f}"
            f"{1e3 * kernel:10.2f} ({seconds['bytes'] / kernel:.2f}) "
            f"{COUNT / kernel / 1e6:7.0f}{1e3 * counts:9.2f}{COUNT / counts / 1e6:7.0f}"
            f"{1e3 * seconds['numpy']:9.1f}"
        )


def others(x: torch.Tensor) -> None:
    noise = Keystream(bytes(16))
    drawn, rounded = PoissonBinomial(16, BETA), FixedPoint(16)
    gaussian = Gaussian(bound=1.0, multiplier=1.0)
    total = 4 * drawn.counts(x, noise)
    exact = 4 * rounded.counts(x, noise).astype(np.uint32)
    copy = x.clone()
    seconds = cpu_seconds(
        {
            "copying": lambda: copy.copy_(x),
            "PoissonBinomial.estimate": lambda: drawn.estimate(total, 4),
            "FixedPoint.counts": lambda: rounded.counts(x, noise),
            "FixedPoint.estimate": lambda: rounded.estimate(exact, 4),
            "Gaussian.perturb": lambda: gaussian.perturb(x, noise),
        },
        REPEATS,
    )
    for name, value in seconds.items():
        print(f"{name:28}{1e3 * value:8.2f} ms{value / seconds['copying']:8.0f}x")


def main() -> None:
    torch.set_num_threads(1)
    x = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(0)) * 2 - 1
    draws(x)
    print()
    others(x)


if __name__ == "__main__":
    main()
