"""Float and Scalar: the conformance kit, their formats to the bit, and the law of their error.

Bodies and what they decode to are frozen in ``tests/fixtures/codecs``: organisations of one
federation may run different releases on different machines. A test fails when either differs. If
a format is meant to change, say so in the changelog and run

    python tests/test_codecs.py --freeze
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from colonnade import codecs
from colonnade.codecs import (
    QSGD,
    Bounded,
    Codec,
    Contractive,
    Exact,
    Float,
    Lattice,
    Law,
    LloydMax,
    ProductQuantised,
    Scalar,
    TopK,
    Unbiased,
)
from colonnade.errors import (
    ConfigurationError,
    Diverged,
    LocalProtocolError,
    RemoteProtocolError,
)
from colonnade.kernels import scalar as kernels
from colonnade.streams import StreamKey
from colonnade.testing.codecs import (
    CHECKS,
    KEY,
    ROUNDING,
    Subject,
    described,
    patterns,
    rebuilt,
    there_and_back,
)

BITS = range(1, 9)
LARGEST = float(np.finfo(np.float32).max)
SMALLEST = 2.0**-149


# The conformance kit


def step_of(codec: Scalar, x: Tensor) -> float:
    low = float(x.min()) if codec.low is None else codec.low
    high = float(x.max()) if codec.high is None else codec.high
    return (high - low) / (2**codec.bits - 1)


def scalar(b: int, reach: float | None = None, dither: bool = True) -> Scalar:
    return Scalar(b, None if reach is None else -reach, reach, dither)


def subject(codec: Scalar) -> Subject:
    return Subject(codec, step=partial(step_of, codec))


SCALARS = [
    scalar(b, reach, dither) for b in BITS for reach in (None, 8.0) for dither in (True, False)
]
SUBJECTS = [*(Subject(Float(format)) for format in (32, 16, "bf16")), *map(subject, SCALARS)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_codec_conforms(subject: Subject, check: Callable[[Subject], None]) -> None:
    check(subject)


@dataclasses.dataclass(frozen=True)
class Shrinking(Float):
    """Decodes to half of what was encoded; the law is true when alpha is at most 3/4."""

    alpha: float = 0.75

    def law(self, shape: tuple[int, int]) -> Law:
        return Contractive(self.alpha)

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        return super().decode(body, shape, key) / 2


class Rounding(Float):
    """Says it is exact."""

    def law(self, shape: tuple[int, int]) -> Law:
        return Exact()


class Cut(Float):
    """Says its bodies are shorter than they are."""

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        return max(0, super().bytes_at_most(shape) - 1)


class Careless(Float):
    """Decodes without looking at the length."""

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        return torch.from_numpy(np.frombuffer(body, "<f4").copy()).reshape(shape)


class Eager(Float):
    """Allocates before it looks at the body."""

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        return torch.empty(shape).copy_(super().decode(body, shape, key))


class Forgetful(Float):
    """Changes what it was given to encode."""

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        body = super().encode(x, key)
        x.detach().zero_()
        return body


class Lopsided(Scalar):
    """Adds a fiftieth of a step: within any bound that allows for rounding by half a step more."""

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        return super().decode(body, shape, key) + 0.02 * 16 / (2**self.bits - 1)

    def law(self, shape: tuple[int, int]) -> Law:
        return Unbiased(step=0.52)


class Silent(Float):
    """Encodes what is not finite as if it were the largest number."""

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        return super().encode(x.nan_to_num(0), key)


class Believing(Float):
    """Decodes whatever numbers came."""

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        codecs.codec.check_length(body, self.bytes_at_most(shape), shape)
        return torch.from_numpy(np.frombuffer(body, "<f4").astype(np.float32)).view(shape)


class Swelling(Float):
    """Decodes to a little more than was encoded, which the law allows for."""

    def law(self, shape: tuple[int, int]) -> Law:
        return Bounded(relative=0.1)

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        return super().decode(body, shape, key) * 1.05


class Unaware(Float):
    """Cannot be told how much columns matter."""

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        assert saliency is None
        return super().encode(x, key)


LIARS = [
    (Subject(Shrinking(alpha=0.76)), "obeys_its_law"),
    (Subject(Rounding(16)), "obeys_its_law"),
    (subject(Lopsided(4, -8.0, 8.0)), "obeys_its_law"),
    (Subject(Cut()), "predicts_its_size"),
    (Subject(Careless()), "refuses_garbage"),
    (Subject(Eager()), "refuses_before_it_allocates"),
    (Subject(Forgetful()), "is_pure"),
    (Subject(Silent()), "refuses_what_is_not_finite"),
    (Subject(Believing()), "refuses_garbage"),
    (Subject(Swelling()), "stays_finite"),
    (Subject(Unaware()), "takes_a_saliency"),
    (Subject(Swelling()), "refuses_garbage"),
]


@pytest.mark.parametrize(("liar", "check"), LIARS, ids=lambda value: str(value))
def test_the_kit_finds_a_codec_that_lies(liar: Subject, check: str) -> None:
    checks = {each.__name__: each for each in CHECKS}
    with pytest.raises((Exception, pytest.fail.Exception)) as found:
        checks[check](liar)
    assert not isinstance(found.value, RemoteProtocolError | ConfigurationError)


def test_the_kit_accepts_a_contraction() -> None:
    for check in CHECKS:
        check(Subject(Shrinking()))


# Float


@pytest.mark.parametrize("format", [8, 0, "32", "fp16", None, 64])
def test_float_refuses_an_unknown_format(format: Any) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(repr(format))):
        Float(format)


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(value=1 + 2.0**-8)  # a tie, which goes to the even neighbour below
@example(value=1 + 3 * 2.0**-8)  # a tie, which goes to the even neighbour above
@example(value=2.0**-149)
@example(value=LARGEST)
def test_bfloat16_rounds_to_nearest_even(value: float) -> None:
    pattern = int(np.float32(value).view(np.uint32))
    kept, rest = pattern >> 16, pattern & 0xFFFF
    kept += rest > 0x8000 or (rest == 0x8000 and kept & 1)
    x = torch.tensor([[value]])
    if kept & 0x7F80 == 0x7F80:
        with pytest.raises(Diverged, match="component 0 of row 0"):
            Float("bf16").encode(x, KEY)
    else:
        assert Float("bf16").encode(x, KEY) == int(kept).to_bytes(2, "little")


@given(value=st.floats(-65519, 65519, width=32))
def test_float16_is_the_nearest(value: float) -> None:
    y = float(Float(16).decode(Float(16).encode(torch.tensor([[value]]), KEY), (1, 1), KEY))
    around = [np.nextafter(np.float16(y), np.float16(end)) for end in (-65504, 65504)]
    error = abs(Fraction(value) - Fraction(y))
    assert all(error <= abs(Fraction(value) - Fraction(float(other))) for other in around)


def test_float16_bytes() -> None:
    x = torch.tensor([[1.0, -2.0, 65504.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-24, -0.0]])
    assert Float(16).encode(x, KEY).hex(" ", 2) == "003c 00c0 ff7b 003c 023c 0100 0080"


def test_bfloat16_bytes() -> None:
    x = torch.tensor([[1.0, -2.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-133, -0.0]])
    assert Float("bf16").encode(x, KEY).hex(" ", 2) == "803f 00c0 803f 823f 0100 0080"


@pytest.mark.parametrize("value", [65520.0, -1e30, LARGEST])
def test_float16_refuses_what_overflows(value: float) -> None:
    x = torch.zeros(3, 4)
    x[1, 2] = value
    with pytest.raises(Diverged, match=re.escape(f"{value:g}")):
        Float(16).encode(x, KEY)
    x[1, 2] = math.copysign(65519.996, value)  # rounds down to 65504
    assert there_and_back(Float(16), x)[1, 2] == math.copysign(65504, value)


def test_bfloat16_refuses_what_overflows() -> None:
    largest, spacing = math.ldexp(2 - 2.0**-7, 127), 2.0**120
    for value in (LARGEST, -LARGEST, largest + spacing / 2):
        with pytest.raises(Diverged, match=re.escape(f"{value:g}")):
            Float("bf16").encode(torch.tensor([[value]]), KEY)
    assert there_and_back(Float("bf16"), torch.tensor([[largest + spacing / 4]])) == largest


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_float32_carries_finite_numbers_alone(value: float) -> None:
    x = torch.zeros(3, 4)
    x[1, 2] = value
    with pytest.raises(Diverged, match=f"component 2 of row 1 is {value}, which cannot be encoded"):
        Float(32).encode(x, KEY)
    body = x.numpy().astype("<f4").tobytes()
    with pytest.raises(RemoteProtocolError, match="in float format 32 holds a value that is not"):
        Float(32).decode(body, (3, 4), KEY)


# Both


@pytest.mark.parametrize("codec", [Float(32), Float(16), Scalar(4), Scalar(4, -1, 1)], ids=str)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4)])
def test_only_a_matrix_is_encoded(codec: Codec, shape: tuple[int, ...]) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(str(list(shape)))):
        codec.encode(torch.zeros(shape), KEY)


@pytest.mark.parametrize("codec", [Float(16), Scalar(3)], ids=str)
def test_without_a_schedule_a_codec_is_the_same_in_every_round(codec: Codec) -> None:
    assert codec.at(1) == codec


# The format of Scalar, written again from its description: slowly, with no line in common


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 as in section 3 of the paper."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def dither_of(key: StreamKey, count: int) -> list[float]:
    """Return u in (-1/2, 1/2) for values 0, 1, ...: the stream's 32-bit words, lower half first."""
    philox_key, upper = key.words()
    halves: list[int] = []
    while len(halves) < count:
        block = len(halves) // 8
        counter = (block % 2**32, block >> 32, upper % 2**32, upper >> 32)
        for word in philox(counter, (philox_key % 2**32, philox_key >> 32)):
            halves += [word % 2**16, word >> 16]
    return [(half + 0.5) / 2**16 - 0.5 for half in halves[:count]]


class Reference:
    """Scalar, one operation of float32 after the other."""

    def __init__(self, codec: Scalar, low: float, high: float) -> None:
        low, high = float(np.float32(low)), float(np.float32(high))
        self.top = 2**codec.bits - 1
        # a power of two keeps large ranges below infinity and small steps above zero
        largest = max(abs(low), abs(high), high - low)
        self.scale = 2.0**-4 if largest > 2.0**125 else 2.0**64 if largest < 2.0**-60 else 1.0
        step = (high - low) * self.scale / self.top
        self.low = np.float32(low * self.scale)
        self.step = np.float32(step)
        self.inverse = np.float32(1 / step if step else 0)

    def code(self, x: np.float32, u: float) -> int:
        with np.errstate(over="ignore"):
            scaled = np.float32(float(x) * self.scale)
            position = (scaled - self.low) * self.inverse
        rounded = np.floor(position + np.float32(u + 0.5))
        return int(min(max(rounded, 0), self.top))

    def value(self, code: int, u: float) -> np.float32:
        value = self.low + np.float32(code - u) * self.step
        return np.float32(min(max(float(value) / self.scale, -LARGEST), LARGEST))


def reference_encode(codec: Scalar, x: NDArray[np.float32], key: StreamKey) -> bytes:
    if x.size == 0:
        return b""
    header = b""
    low, high = codec.low, codec.high
    if low is None or high is None:
        low, high = x.min(), x.max()
        header = struct.pack("<ff", low, high)
    grid = Reference(codec, low, high)
    dither = dither_of(key, x.size) if codec.dither else [0.0] * x.size
    number = 0
    for n, (value, u) in enumerate(zip(x.flat, dither, strict=True)):
        number |= grid.code(value, u) << n * codec.bits
    return header + number.to_bytes(math.ceil(x.size * codec.bits / 8), "little")


def reference_decode(
    codec: Scalar, body: bytes, shape: tuple[int, int], key: StreamKey
) -> NDArray[np.float32]:
    count = shape[0] * shape[1]
    if count == 0:
        return np.zeros(shape, np.float32)
    low, high = codec.low, codec.high
    if low is None or high is None:
        low, high = struct.unpack("<ff", body[:8])
        body = body[8:]
    grid = Reference(codec, low, high)
    dither = dither_of(key, count) if codec.dither else [0.0] * count
    number = int.from_bytes(body, "little")
    codes = [number >> n * codec.bits & grid.top for n in range(count)]
    values = [grid.value(code, u) for code, u in zip(codes, dither, strict=True)]
    return np.array(values, np.float32).reshape(shape)


def assert_as_the_reference(codec: Scalar, x: Tensor, key: StreamKey = KEY) -> None:
    rows, width = x.shape
    body = codec.encode(x, key)
    expected = reference_encode(codec, x.numpy(), key)
    if codec.low is None and body:
        # compared as numbers: the smallest of 0 and -0 is either
        assert struct.unpack("<ff", body[:8]) == struct.unpack("<ff", expected[:8])
        assert body[8:] == expected[8:]
    else:
        assert body == expected
    decoded = codec.decode(body, (rows, width), key).numpy()
    np.testing.assert_array_equal(decoded, reference_decode(codec, body, (rows, width), key))


def awkward_matrices() -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(6)
    normal = torch.randn(71, 37, generator=generator)  # several pieces of the kernel, and a rest
    yield normal
    for scale in (1e-44, 1e-38, 2.0**-61, 2.0**-59, 1e20, 2.0**124, 2.0**126):
        yield normal[:9] * scale
    yield normal[:9] + 1000
    yield normal[:9] * torch.logspace(-40, 30, 37)
    yield torch.tensor([[-LARGEST, LARGEST, 0.0, -0.0, 1e-45, 3e38, -3e38, 1.0]])
    yield torch.tensor([[0.0, SMALLEST], [SMALLEST, 0.0]])
    yield torch.tensor([[1.0, math.nextafter(1.0, 2.0)], [1 + 2.0**-23, 1 + 2.0**-22]])
    yield torch.tensor([[-0.0, 0.0, -1.0]])
    for value in (0.0, -0.0, 1.5, -LARGEST, LARGEST, SMALLEST, 0.1):
        yield torch.full((2, 3), value)
    yield torch.tensor([[2.5]])


@pytest.mark.parametrize("dither", [True, False])
@pytest.mark.parametrize("b", BITS)
def test_scalar_is_its_description_to_the_bit(b: int, dither: bool) -> None:
    for x in awkward_matrices():
        assert_as_the_reference(Scalar(b, dither=dither), x)
    for low, high in ((-1.0, 1.0), (0.0, 1e-40), (-3e38, 3e38), (0.1, 0.3), (-2e-30, -1e-30)):
        # beyond the range, too
        generator = torch.Generator().manual_seed(7)
        x = torch.rand(13, 11, generator=generator, dtype=torch.float64) * 1.5 - 0.25
        x = (low + x * (high - low)).clamp(-LARGEST, LARGEST).float()
        x[0, :4] = torch.tensor([-LARGEST, LARGEST, low, high])
        assert_as_the_reference(Scalar(b, low, high, dither), x)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 511, 512, 513, 1023, 1024, 1025, 2048, 3001])
def test_scalar_around_the_pieces_of_its_kernels(count: int) -> None:
    x = torch.randn(1, count, generator=torch.Generator().manual_seed(count))
    for codec in (Scalar(3), Scalar(8), Scalar(7, -1, 1), Scalar(1, -1, 1, dither=False)):
        assert_as_the_reference(codec, x)


@given(st.data())
@settings(max_examples=300)
def test_scalar_round_trip(data: st.DataObject) -> None:
    b, dither = data.draw(st.sampled_from(BITS)), data.draw(st.booleans())
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    shape = arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)
    x = torch.from_numpy(data.draw(arrays.arrays(np.float32, shape, elements=finite)))
    key = StreamKey(data.draw(st.integers(-(2**63), 2**63 - 1)), "bank", "x", 0)
    codec = Scalar(b, dither=dither)
    if data.draw(st.booleans()):
        ends = st.lists(finite, min_size=2, max_size=2, unique=True).map(sorted)
        codec = Scalar(b, *data.draw(ends), dither)
    assert_as_the_reference(codec, x, key)
    if x.numel():
        low = float(x.min()) if codec.low is None else codec.low
        high = float(x.max()) if codec.high is None else codec.high
        inside = x.double().clamp(low, high)
        error = (there_and_back(codec, x, key).double() - inside).abs()
        rounding = ROUNDING * max(abs(low), abs(high)) + SMALLEST
        assert (error <= (high - low) / (2**b - 1) / 2 + rounding).all()


@pytest.mark.parametrize("format", [32, 16, "bf16"])
@given(st.data())
@settings(max_examples=100)
def test_float_round_trip(format: Any, data: st.DataObject) -> None:
    kind = {32: np.float32, 16: np.float16, "bf16": np.uint16}[format]
    shape = data.draw(arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9))
    elements = st.floats(width=8 * kind().nbytes) if format != "bf16" else None
    drawn = data.draw(arrays.arrays(kind, shape, elements=elements))
    # what the format can express comes back as it is
    if format == "bf16":
        x = torch.from_numpy((drawn.astype(np.uint32) << 16).view(np.float32))
    else:
        x = torch.from_numpy(drawn.astype(np.float32))
    x = x.nan_to_num(1.0, 2.0, 3.0)
    assert torch.equal(patterns(there_and_back(Float(format), x)), patterns(x))


# Scalar: size, edges, refusals


@pytest.mark.parametrize("b", BITS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 5), (32, 64), (513, 3), (41, 101)])
def test_scalar_takes_b_bits_a_value(b: int, shape: tuple[int, int]) -> None:
    count = shape[0] * shape[1]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(8))
    for dither in (True, False):
        with_range, fixed = Scalar(b, dither=dither), Scalar(b, -2.0, 2.0, dither)
        assert len(with_range.encode(x, KEY)) == 8 + math.ceil(count * b / 8)
        assert len(fixed.encode(x, KEY)) == math.ceil(count * b / 8)
        assert len(with_range.encode(x, KEY)) <= count * b / 8 + 16


@pytest.mark.parametrize("value", [0.0, 1.5, -0.1, LARGEST, -LARGEST, SMALLEST, -1e-40])
@pytest.mark.parametrize("codec", [Scalar(1), Scalar(8), Scalar(4, dither=False)], ids=str)
def test_a_constant_message_is_exact(codec: Scalar, value: float) -> None:
    x = torch.full((3, 700), value)
    assert torch.equal(there_and_back(codec, x), x)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("codec", [Scalar(3), Scalar(3, -1, 1)], ids=str)
def test_nothing_takes_no_bytes(codec: Scalar, shape: tuple[int, int]) -> None:
    assert codec.encode(torch.zeros(shape), KEY) == b""
    assert codec.decode(b"", shape, KEY).shape == shape
    with pytest.raises(RemoteProtocolError):
        codec.decode(b"\0", shape, KEY)


@pytest.mark.parametrize("b", BITS)
def test_what_is_outside_a_fixed_range_goes_to_its_nearest_end(b: int) -> None:
    x = torch.tensor([[-LARGEST, -1.001, -1.0, 1.0, 1.001, LARGEST]])
    codec = Scalar(b, -1.0, 1.0, dither=False)
    assert there_and_back(codec, x).tolist() == [[-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]]
    dithered = Scalar(b, -1.0, 1.0)
    y = there_and_back(dithered, x.repeat(100, 1))
    half = 1 / (2**b - 1) * (1 + ROUNDING)
    assert ((y[:, :3] + 1).abs() <= half).all()
    assert ((y[:, 3:] - 1).abs() <= half).all()


def test_every_level_comes_back_without_dither() -> None:
    for b in BITS:
        levels = torch.arange(2**b).float().view(1, -1) - 3
        for codec in (Scalar(b, dither=False), Scalar(b, -3.0, 2.0**b - 4, dither=False)):
            assert torch.equal(there_and_back(codec, levels), levels)


def test_dither_depends_on_everything_the_key_names() -> None:
    x = torch.rand(20, 20, generator=torch.Generator().manual_seed(9))
    keys = [KEY] + [
        dataclasses.replace(KEY, **{name: value})
        for name, value in (
            ("seed", 21),
            ("origin", "shop"),
            ("purpose", "training/derivative"),
            ("round", 4),
            ("part", 1),
        )
    ]
    assert len({Scalar(8).encode(x, key) for key in keys}) == len(keys)
    assert len({Scalar(8, dither=False).encode(x, key) for key in keys}) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"bits": 0},
        {"bits": 9},
        {"bits": -1},
        {"bits": 4, "low": 1.0, "high": 1.0},
        {"bits": 4, "low": 2.0, "high": 1.0},
        {"bits": 4, "low": 1.0, "high": 1.0 + 1e-12},  # the same float32
        {"bits": 4, "low": -1.0},
        {"bits": 4, "high": 1.0},
        {"bits": 4, "low": -math.inf, "high": 1.0},
        {"bits": 4, "low": 0.0, "high": math.inf},
        {"bits": 4, "low": math.nan, "high": 1.0},
        {"bits": 4, "low": 0.0, "high": 1e39},  # infinite as float32
    ],
    ids=str,
)
def test_scalar_refuses_a_configuration(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        Scalar(**fields)


@pytest.mark.parametrize("b", [1, 2, 3, 5, 6, 7])
def test_bits_that_fill_up_the_last_byte_are_zero(b: int) -> None:
    codec = Scalar(b, -1.0, 1.0)
    used = 3 * b % 8
    body = codec.encode(torch.zeros(1, 3), KEY)
    for bit in range(8):
        changed = body[:-1] + bytes([body[-1] ^ 1 << bit])
        if bit < used:
            codec.decode(changed, (1, 3), KEY)
        else:
            with pytest.raises(RemoteProtocolError, match="not zero"):
                codec.decode(changed, (1, 3), KEY)


@pytest.mark.parametrize(
    ("low", "high"),
    [(math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, math.inf), (1.0, 0.0)],
)
def test_a_range_that_is_none_is_refused(low: float, high: float) -> None:
    body = struct.pack("<ff", low, high) + bytes(2)
    with pytest.raises(RemoteProtocolError, match="range"):
        Scalar(4).decode(body, (1, 4), KEY)


# Scalar: the law of its error


def values_within(reach: float, rows: int) -> Tensor:
    """Return two peaks and a flat part, so that a dependence on x would show."""
    generator = torch.Generator().manual_seed(10)
    x = torch.randn(rows, 1024, generator=generator) * 0.1 - 0.4
    x[::3] = torch.rand(x[::3].shape, generator=generator) * 2 - 1
    x[1::3] = x[1::3] ** 2 + 0.1
    return x.clamp(-1, 1) * reach


@pytest.mark.parametrize("reach", [None, 2.5], ids=["own range", "fixed range"])
@pytest.mark.parametrize("b", BITS)
def test_scalar_error_is_uniform_and_independent_of_the_value(b: int, reach: float | None) -> None:
    codec = scalar(b, reach)
    x = values_within(2.5 if reach is not None else 7.0, rows=1536)
    step = step_of(codec, x)
    exact = x.double().numpy().ravel()
    error = there_and_back(codec, x).double().numpy().ravel() - exact
    count = error.size

    assert np.abs(error).max() <= step / 2 + ROUNDING * np.abs(exact).max()
    # a uniform error has variance step^2 / 12, and its square has variance step^4 / 180
    assert abs(error.mean()) < 5 * step / math.sqrt(12 * count)
    assert abs((error**2).mean() / (step**2 / 12) - 1) < 0.01

    # uniform: chi-square with 255 degrees of freedom has mean 255 and variance 510
    cells = np.clip(((error / step + 0.5) * 256).astype(np.int64), 0, 255)
    observed = np.bincount(cells, minlength=256)
    chi_square = ((observed - count / 256) ** 2 / (count / 256)).sum()
    assert abs(chi_square - 255) < 5 * math.sqrt(510)

    # independent of x: neither correlated with it nor with its square ...
    for other in (exact, exact**2):
        assert abs(np.corrcoef(error, other)[0, 1]) < 5 / math.sqrt(count)
    assert abs(np.corrcoef(error**2, exact)[0, 1]) < 5 / math.sqrt(count)
    # ... nor other in any part of a step, where rounding without dither differs most
    phase = np.modf((exact - exact.min()) / step * 16)[1].astype(np.int64) % 16
    for part in range(16):
        there = error[phase == part]
        if len(there):
            assert abs(there.mean()) < 5 * step / math.sqrt(12 * len(there))
    # and independent from one value to another
    for distance in (1, 2, 8, 512, 1024):
        neighbours = np.corrcoef(error[distance:], error[:-distance])[0, 1]
        assert abs(neighbours) < 5 / math.sqrt(count - distance)


@pytest.mark.parametrize("b", BITS)
def test_without_dither_the_error_depends_on_the_value(b: int) -> None:
    """The same value always goes to the nearest level: no other is nearer."""
    codec = scalar(b, 2.5, dither=False)
    x = values_within(2.5, rows=64)
    levels = np.linspace(-2.5, 2.5, 2**b)
    y = there_and_back(codec, x).double().numpy()
    nearest = np.abs(x.double().numpy()[..., None] - levels).min(axis=-1)
    np.testing.assert_allclose(np.abs(y - x.double().numpy()), nearest, atol=2.5 * ROUNDING)


# Both ends agree to the bit


ELSEWHERE = """
import json, sys
from colonnade import codecs
from colonnade.streams import StreamKey

for case in json.load(sys.stdin):
    codec = getattr(codecs, case["class"])(**case["config"])
    key = StreamKey(**case["key"])
    x = codec.decode(bytes.fromhex(case["body"]), tuple(case["shape"]), key)
    print(x.numpy().astype("<f4").tobytes().hex())
"""


def test_a_fresh_process_decodes_from_the_configuration_alone() -> None:
    x = torch.randn(43, 29, generator=torch.Generator().manual_seed(11)).clamp(-8, 8)
    cases, expected = [], []
    for each in SUBJECTS:
        body = each.codec.encode(x, KEY)
        expected.append(each.codec.decode(body, (43, 29), KEY).numpy().astype("<f4").tobytes())
        cases.append(
            {
                "class": type(each.codec).__name__,
                "config": dataclasses.asdict(each.codec),
                "key": dataclasses.asdict(KEY),
                "shape": [43, 29],
                "body": body.hex(),
            }
        )
    elsewhere = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [bytes.fromhex(line) for line in elsewhere.stdout.split()] == expected


@pytest.mark.parametrize("kernel", [kernels._PLAIN[1], kernels._DITHERED[1]])
def test_decoding_has_no_fused_multiplication_and_no_libm(kernel: Any) -> None:
    """What makes decoded bits the same on every CPU, read from the machine code of this one."""
    fused = re.compile(r"\b(?:v?fn?m(?:add|sub)\w*|fn?ml[as]\w*)\s")
    arguments = (
        np.zeros(9, dtype=np.uint8),
        np.zeros(9, dtype=np.float32),
        4,
        *(np.float32(1),) * 3,
        *(np.uint64(1),) * 2,
    )

    def machine_code(**options: Any) -> str:
        compiled = njit(nogil=True, **options)(kernel.py_func)
        compiled(*arguments)
        return str(compiled.inspect_asm(compiled.signatures[0]))

    code = machine_code()
    assert not fused.search(code)
    assert not re.search(r"\b(?:exp|log|pow|ldexp|floor|round|rint|fma)\w*\b", code)
    if llvmlite.binding.get_host_cpu_features().get("fma"):
        assert fused.search(machine_code(fastmath={"contract"}))  # it would be seen


# Frozen bytes


FIXTURES = Path(__file__).parent / "fixtures" / "codecs"
FROZEN_SHAPE = (37, 41)  # 1517 values: the kernels meet a whole piece and a rest
FROZEN_KEY = StreamKey(seed=-5, origin="bank", purpose="training/embedding", round=7, part=2)


def frozen_input(exponent: int = 0) -> Tensor:
    """Return integers times 2^(exponent - 8), within 2^(exponent + 3): exact on every machine."""
    rows, width = FROZEN_SHAPE
    integers = [n * n * 7919 % 4093 - 2046 for n in range(rows * width)]
    return torch.tensor([math.ldexp(i, exponent - 8) for i in integers]).view(rows, width)


def frozen_cases() -> dict[str, tuple[Codec, Tensor]]:
    cases: dict[str, tuple[Codec, Tensor]] = {
        "float-32": (Float(32), frozen_input()),
        "float-16": (Float(16), frozen_input(-14)),  # down where float16 loses digits
        "float-bf16": (Float("bf16"), frozen_input()),
        "scalar-4-huge": (Scalar(4), frozen_input(124)),
        "scalar-4-tiny": (Scalar(4), frozen_input(-141)),
        "top-k-gaps": (TopK(0.02), frozen_input()),
        "top-k-bitmap": (TopK(0.45, values=Float("bf16")), frozen_input()),
        "top-k-all": (TopK(1.0, values=Scalar(3)), frozen_input()),
        "top-k-row": (TopK(0.1, "row"), frozen_input()),
        "top-k-columns": (TopK(0.1, "columns", "saliency", QSGD(7, "max", 8)), frozen_input()),
        "qsgd-1": (QSGD(1), frozen_input()),
        "qsgd-15-max": (QSGD(15, "max", 100, False), frozen_input()),
        "qsgd-127": (QSGD(127, "l2", 41), frozen_input()),
    }
    for b in BITS:
        cases[f"scalar-{b}"] = (Scalar(b), frozen_input())
        cases[f"scalar-{b}-fixed"] = (Scalar(b, -6.0, 6.5), frozen_input())
        cases[f"scalar-{b}-plain"] = (Scalar(b, dither=False), frozen_input())
    for b in BITS:
        cases[f"lattice-{b}"] = (Lattice(b), frozen_input())
        cases[f"lattice-{b}-fixed"] = (Lattice(b, -6.0, 6.5), frozen_input())
        cases[f"lattice-{b}-plain"] = (Lattice(b, dither=False), frozen_input())
    cases["lattice-4-huge"] = (Lattice(4), frozen_input(124))
    cases["lattice-4-tiny"] = (Lattice(4), frozen_input(-141))
    for b in (1, 4, 8):
        cases[f"lloyd-max-{b}"] = (LloydMax(b), frozen_input())
    cases["lloyd-max-4-huge"] = (LloydMax(4), frozen_input(124))
    cases["product-rows"] = (ProductQuantised(1, 8), frozen_input())
    cases["product-sampled"] = (ProductQuantised(41, 3), frozen_input())
    cases["product-groups"] = (ProductQuantised(41, 5, 41, 7, "float16"), frozen_input())
    cases["product-300"] = (ProductQuantised(41, 300), frozen_input(124))
    return cases


def little_endian(x: Tensor) -> bytes:
    return x.numpy().astype("<f4").tobytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest() -> dict[str, dict[str, object]]:
    entries: dict[str, dict[str, object]] = json.loads((FIXTURES / "manifest.json").read_text())
    return entries


def test_fixtures_are_complete() -> None:
    names = set(frozen_cases())
    assert set(manifest()) == names
    assert {path.name for path in FIXTURES.iterdir()} == {
        "manifest.json",
        *(f"{name}.bin" for name in names),
    }


@pytest.mark.parametrize("name", frozen_cases())
def test_frozen_bytes(name: str) -> None:
    """What is frozen decodes as it did, from the manifest alone, and is what we encode."""
    entry = manifest()[name]
    body = (FIXTURES / f"{name}.bin").read_bytes()
    codec = rebuilt(getattr(codecs, entry["class"]), entry["config"])
    key, shape = StreamKey(**entry["key"]), tuple(entry["shape"])
    assert sha256(body) == entry["body_sha256"], "the fixture itself was changed"
    assert sha256(little_endian(codec.decode(body, shape, key))) == entry["decoded_sha256"]
    expected, x = frozen_cases()[name]
    assert codec == expected
    assert sha256(little_endian(x)) == entry["input_sha256"], "the input differs, not the codec"
    assert codec.encode(x, key) == body


def freeze() -> None:
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for path in FIXTURES.glob("*.bin"):
        path.unlink()
    entries = {}
    for name, (codec, x) in frozen_cases().items():
        body = codec.encode(x, FROZEN_KEY)
        entries[name] = {
            "class": type(codec).__name__,
            "config": described(codec),
            "key": dataclasses.asdict(FROZEN_KEY),
            "shape": list(FROZEN_SHAPE),
            "input_sha256": sha256(little_endian(x)),
            "body_sha256": sha256(body),
            "decoded_sha256": sha256(little_endian(codec.decode(body, FROZEN_SHAPE, FROZEN_KEY))),
        }
        (FIXTURES / f"{name}.bin").write_bytes(body)
    (FIXTURES / "manifest.json").write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", required=True)
    parser.parse_args()
    freeze()
