"""Codecs beside copying memory, in CPU time of one thread.

    python benchmarks/codecs.py

Figures are GB/s of float32, 4096 x 256 of them: what goes into encoding or comes out of decoding.
In brackets, the ratio to copying 512 MiB, which is bound by memory. The first three columns are
the kernels with their buffers at hand, for a fixed range and for a message's own; the last two are
the whole of Scalar.encode and Scalar.decode with the message's own range: allocation, checks and
the bytes object included. Aim for the kernels, fixed range: 0.8 without dither, 0.3 with.

Then the same for Lattice. Aim for its kernels: 0.5 without dither, 0.2 with.

Then the other codecs, whole, in milliseconds, as a ratio to copying the message in the same run,
and in bytes of a body; Scalar comes first, to compare QSGD with. Aim: TopK of 1 % in 3 ms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from colonnade.codecs import (
    QSGD,
    Codec,
    Entropy,
    Lattice,
    LloydMax,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.codecs.lattice import _cells
from colonnade.kernels import lattice
from colonnade.kernels import scalar as kernels
from colonnade.streams import StreamKey
from timing import cpu_seconds

ROWS, WIDTH, REPEATS = 4096, 256, 31
COUNT = ROWS * WIDTH
KEY = StreamKey(seed=0, origin="bank", purpose="benchmark", round=0)


def gigabytes(size: int, contenders: dict[str, Callable[[], object]], n: int) -> dict[str, float]:
    return {name: size / seconds / 1e9 for name, seconds in cpu_seconds(contenders, n).items()}


def contenders(bits: int, dither: bool) -> dict[str, Callable[[], object]]:
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    flat, out = x.numpy().reshape(-1), np.empty(COUNT, dtype=np.float32)
    low, step, one = np.float32(-4), np.float32(8 / (2**bits - 1)), np.float32(1)
    key = KEY.words() if dither else None
    buffer = np.empty(COUNT * bits // 8 + kernels.SLACK, dtype=np.uint8)

    def quantise() -> None:
        kernels.quantise(flat, buffer, bits, low, one / step, one, key)

    def quantise_own() -> None:
        kernels.extremes(flat)
        quantise()

    quantise()
    codes = np.frombuffer(buffer[: -kernels.SLACK].tobytes(), dtype=np.uint8)
    codec = Scalar(bits, dither=dither)
    body = codec.encode(x, KEY)
    return {
        "quantise": quantise,
        "with range": quantise_own,
        "dequantise": lambda: kernels.dequantise(codes, out, bits, low, step, one, key),
        "encode": lambda: codec.encode(x, KEY),
        "decode": lambda: codec.decode(body, (ROWS, WIDTH), KEY),
    }


def lattice_contenders(bits: int, dither: bool) -> dict[str, Callable[[], object]]:
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    flat, out = x.numpy().reshape(-1), np.empty(COUNT, dtype=np.float32)
    grid, key = _cells(-4.0, 4.0, bits).grid, KEY.words() if dither else None
    buffer = np.empty(COUNT * bits // 8 + lattice.SLACK, dtype=np.uint8)
    lattice.quantise(flat, buffer, bits, grid, key)
    codes = np.frombuffer(buffer[: -lattice.SLACK].tobytes(), dtype=np.uint8)
    codec = Lattice(bits, dither=dither)
    body = codec.encode(x, KEY)
    return {
        "quantise": lambda: lattice.quantise(flat, buffer, bits, grid, key),
        "dequantise": lambda: lattice.dequantise(codes, out, bits, grid, key),
        "encode": lambda: codec.encode(x, KEY),
        "decode": lambda: codec.decode(body, (ROWS, WIDTH), KEY),
    }


def table(of: Callable[[int, bool], dict[str, Callable[[], object]]], name: str) -> None:
    small, large = (np.ones(size, dtype=np.uint8) for size in (2**22, 2**29))
    small_copy, large_copy = small.copy(), large.copy()
    for dither in (False, True):
        cache = gigabytes(2**22, {"": lambda: np.copyto(small_copy, small)}, REPEATS)[""]
        memory = gigabytes(2**29, {"": lambda: np.copyto(large_copy, large)}, 7)[""]
        print(f"\n{name} {'with' if dither else 'without'} dither; copying: {cache:.1f} GB/s in")
        print(f"cache, {memory:.1f} GB/s in memory = 1")
        print("bits" + "".join(f"{name:>14}" for name in of(1, dither)))
        for bits in range(1, 9):
            speeds = gigabytes(4 * COUNT, of(bits, dither), REPEATS)
            cells = (f"{speed:7.1f} ({speed / memory:.2f})" for speed in speeds.values())
            print(f"{bits:4}" + "".join(cells))


def main() -> None:
    torch.set_num_threads(1)
    table(contenders, "Scalar")
    table(lattice_contenders, "Lattice")
    others()


OTHERS: tuple[Codec, ...] = (
    Scalar(5),
    TopK(0.001),
    TopK(0.01),
    TopK(0.1),
    TopK(0.01, "row"),
    TopK(0.1, "row"),
    TopK(0.01, "columns"),
    QSGD(1, "l2", 256),
    QSGD(15, "max", 256),
    LloydMax(4),
    LloydMax(8),
    ProductQuantised(64, 16),
    ProductQuantised(64, 64),
    Entropy(Lattice(2)),
)


def others() -> None:
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    copy = np.empty((ROWS, WIDTH), dtype=np.float32)
    print(f"\n{'codec':90}{'encode':>18}{'decode':>18}{'body':>12}")
    for codec in OTHERS:
        body = codec.encode(x, KEY)
        both = {
            "copy": partial(np.copyto, copy, x.numpy()),
            "encode": partial(codec.encode, x, KEY),
            "decode": partial(codec.decode, body, (ROWS, WIDTH), KEY),
        }
        seconds = cpu_seconds(both, REPEATS)
        copying = seconds.pop("copy")
        cells = "".join(f"{1e3 * each:9.2f} ms ({copying / each:.2f})" for each in seconds.values())
        fields = ", ".join(
            f"{f.name}={value!r}"
            for f in dataclasses.fields(codec)  # type: ignore[arg-type]  # a dataclass
            for value in [getattr(codec, f.name)]
            if f.name != "values"
        )
        print(f"{type(codec).__name__ + ' ' + fields:90}{cells}{len(body):>12,}")


if __name__ == "__main__":
    main()
