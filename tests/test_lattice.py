"""Lattice and LloydMax: the conformance kit, a slow reference, laws; symbols of quantisers."""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs import (
    QSGD,
    Bounded,
    Contractive,
    Float,
    Lattice,
    LloydMax,
    Scalar,
    TopK,
    UnbiasedCell,
)
from colonnade.codecs.quantiser import Quantiser
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import lattice as kernels
from colonnade.kernels.philox import uniform_words
from colonnade.links import ErrorFeedback
from colonnade.streams import StreamKey
from colonnade.testing.codecs import CHECKS, KEY, ROUNDING, Subject, there_and_back

BITS = range(1, 9)
LARGEST = float(np.finfo(np.float32).max)
ARRANGEMENTS = {
    1: (2, 2),
    2: (4, 4),
    3: (8, 8),
    4: (17, 15),
    5: (34, 30),
    6: (68, 60),
    7: (137, 119),
    8: (275, 238),
}
HEIGHT = math.sqrt(3) / 2


def extent(rows: int, columns: int) -> float:
    return min(columns - 1 / 2, HEIGHT * (rows - 1 / 3))


def range_of(codec: Lattice, x: Tensor) -> tuple[float, float]:
    if codec.low is None or codec.high is None:
        return float(x.min()), float(x.max())
    return float(np.float32(codec.low)), float(np.float32(codec.high))


def pitch_of(codec: Lattice, x: Tensor) -> float:
    low, high = range_of(codec, x)
    return (high - low) / extent(*ARRANGEMENTS[codec.bits])


def subject(codec: Lattice) -> Subject:
    return Subject(codec, step=partial(pitch_of, codec))


def lattice(b: int, reach: float | None = None, dither: bool = True) -> Lattice:
    return Lattice(b, None if reach is None else -reach, reach, dither)


SUBJECTS = [
    *(subject(lattice(b, reach, d)) for b in BITS for reach in (None, 8.0) for d in (True, False)),
    *(Subject(LloydMax(b)) for b in (1, 2, 4, 8)),
    Subject(TopK(0.3, values=Lattice(4, -8.0, 8.0)), step=partial(pitch_of, Lattice(4, -8.0, 8.0))),
    Subject(TopK(0.3, values=LloydMax(4))),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_conformance(subject, check):
    check(subject)


class Lopsided(Lattice):
    """Adds a fiftieth of a pitch to the second component of pairs."""

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        y = super().decode(body, shape, key)
        y[:, 1::2] += 0.02 * pitch_of(self, y)
        return y


class Coarse(Lattice):
    """Says that its cells are smaller than they are."""

    def law(self, shape: tuple[int, int]) -> UnbiasedCell:
        return UnbiasedCell(mean_square=0.98 * 5 / 72)


@pytest.mark.parametrize("codec", [Lopsided(4, -8.0, 8.0), Coarse(4, -8.0, 8.0)], ids=repr)
def test_the_kit_finds_a_lattice_that_lies(codec: Lattice) -> None:
    check = next(each for each in CHECKS if each.__name__ == "obeys_its_law")
    with pytest.raises(AssertionError):
        check(subject(codec))


def test_laws():
    for shape in ((1, 2), (7, 5), (100, 64)):
        assert Lattice(4).law(shape) == UnbiasedCell(mean_square=5 / 72, margin=0.5, step=1.0)
        assert Lattice(4, dither=False).law(shape) == Bounded(step=3**-0.5)
    for bits in range(1, 9):
        # Alone, a component is no farther off than one of a pair may be.
        assert Lattice(bits).law((9, 1)).step <= 1.0
        assert Lattice(bits, dither=False).law((9, 1)).step <= 3**-0.5
    assert LloydMax(4).law((4, 4)) == Contractive(1.0)
    assert LloydMax(4).law((4, 5)) == Contractive(15 / 20)
    assert LloydMax(1).law((1, 1024)) == Contractive(1 / (136 + 2**-22))
    assert LloydMax(4).law((2**16, 2**16)) == Contractive(1 / 137)


def test_as_many_levels_as_values_or_one_less_than_the_worst_case_needs():
    """Of n values alike in magnitude, of which 2^b - 1 are told apart, the bound is nearly met."""
    x = torch.tensor([[1.0, -1.0, 1.0 + 1e-3, -1.0 - 1e-3]])
    assert torch.equal(there_and_back(LloydMax(2), x), x)
    for codec in (LloydMax(1), LloydMax(2), LloydMax(3)):
        generator = torch.Generator().manual_seed(2)
        for shape in ((1, 2), (3, 3), (5, 8), (40, 25), (64, 64)):
            for power in (0.2, 1.0, 5.0):
                y = torch.randn(shape, generator=generator).sign() * torch.rand(
                    shape, generator=generator
                ).pow(power)
                left = float((there_and_back(codec, y) - y).double().square().sum())
                most = 1 - codec.law(shape).alpha
                assert left <= (most + 1e-12) * float(y.double().square().sum())


@pytest.mark.parametrize(
    "fields",
    [
        {"bits": 0},
        {"bits": 9},
        {"bits": 2.0},
        {"bits": 4, "low": 1.0, "high": 1.0},
        {"bits": 4, "low": -1.0},
        {"bits": 4, "low": 0.0, "high": 1e39},
    ],
    ids=str,
)
def test_a_lattice_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Lattice(**fields)


# The lattice: where its codewords are


@pytest.mark.parametrize("b", BITS)
def test_no_other_arrangement_has_a_smaller_cell(b: int) -> None:
    rows, columns = ARRANGEMENTS[b]
    assert rows * columns <= 4**b
    assert Lattice(b).alphabet == max(rows, columns, 2**b)
    best = max(extent(r, 4**b // r) for r in range(2, 4**b + 1))
    assert extent(rows, columns) == best


@pytest.mark.parametrize("b", BITS)
def test_the_cells_cover_the_range_and_no_more(b: int) -> None:
    """Every point of the square is within p / sqrt(3) of a codeword; one beyond it is not."""
    codec, pitch = Lattice(b, 0.0, 1.0, dither=False), 1 / extent(*ARRANGEMENTS[b])
    along = torch.linspace(0, 1, 2001)
    ends = torch.tensor([0.0, 1.0])
    inside = [
        torch.rand(200_000, 2, generator=torch.Generator().manual_seed(b)),
        torch.cartesian_prod(along, ends),
        torch.cartesian_prod(ends, along),
    ]
    for x in inside:
        distance = (there_and_back(codec, x) - x).double().norm(dim=1)
        assert float(distance.max()) <= pitch / math.sqrt(3) + ROUNDING
    frame = torch.linspace(-0.02 * pitch, 1 + 0.02 * pitch, 20_001)
    beyond = torch.cat(
        [torch.cartesian_prod(frame[[0, -1]], frame), torch.cartesian_prod(frame, frame[[0, -1]])]
    )
    distance = (there_and_back(codec, beyond) - beyond).double().norm(dim=1)
    assert float(distance.max()) > pitch / math.sqrt(3)


# The format of Lattice, written again from its description: slowly, with no line in common


def dither_of(key: StreamKey, count: int) -> list[float]:
    halves = uniform_words(key, -(-count // 4)).view("<u2")[:count]
    return [(int(half) + 0.5) / 2**16 - 0.5 for half in halves]


class Reference:
    """Lattice, one operation of float32 after the other; the nearest codeword by trying all."""

    def __init__(self, codec: Lattice, low: float, high: float) -> None:
        self.rows, self.columns = ARRANGEMENTS[codec.bits]
        largest = max(abs(low), abs(high), high - low)
        self.scale = 2.0**-4 if largest > 2.0**125 else 2.0**64 if largest < 2.0**-60 else 1.0
        low, high = low * self.scale, high * self.scale
        pitch, self.top = (high - low) / extent(self.rows, self.columns), 2**codec.bits - 1
        step = (high - low) / 2**codec.bits
        self.pitch, self.height = np.float32(pitch), np.float32(HEIGHT * pitch)
        self.left = np.float32((low + high) / 2 - (self.columns / 2 - 0.25) * pitch)
        self.bottom = np.float32((low + high) / 2 - (self.rows - 1) / 2 * HEIGHT * pitch)
        self.low, self.step = np.float32(low + step / 2), np.float32(step)
        inverses = [2 / pitch, 1 / (HEIGHT * pitch), 1 / step] if pitch else [0.0] * 3
        self.inverses = [np.float32(inverse) for inverse in inverses]
        codes = np.arange(self.rows * self.columns)
        self.across = codes % self.columns + codes // self.columns % 2 / 2
        self.up = codes // self.columns / 2

    def is_nearest(self, code: int, pair: NDArray[np.float32], u: tuple[float, float]) -> bool:
        """Whether no other codeword is nearer, up to the rounding of float32."""
        with np.errstate(over="ignore"):
            scaled = pair * np.float32(self.scale)
            h = float((scaled[0] - self.left) * self.inverses[0] + np.float32(2 * u[0])) / 2
            v = float((scaled[1] - self.bottom) * self.inverses[1] + np.float32(u[1])) / 2
        if math.isinf(h) or math.isinf(v):
            return True  # so many pitches off that it is no float32, of which nothing is claimed
        # squared distances less the square of the point, which all have in common
        square = self.across**2 - 2 * h * self.across + 3 * (self.up**2 - 2 * v * self.up)
        return bool(square[code] <= square.min() + 2.0**-21 * (1 + abs(h) + abs(v)) * self.rows)

    def pair(self, code: int, u: tuple[float, float]) -> list[np.float32]:
        row, column = divmod(code, self.columns)
        h = self.left + np.float32(column + row % 2 / 2 - u[0]) * self.pitch
        v = self.bottom + np.float32(row - u[1]) * self.height
        return [self.back(h), self.back(v)]

    def code_alone(self, x: np.float32, u: float) -> int:
        with np.errstate(over="ignore"):
            position = (np.float32(float(x) * self.scale) - self.low) * self.inverses[2]
        return int(min(max(np.floor(position + np.float32(u + 0.5)), 0), self.top))

    def alone(self, code: int, u: float) -> np.float32:
        return self.back(self.low + np.float32(code - u) * self.step)

    def back(self, value: np.float32) -> np.float32:
        return np.float32(min(max(float(value) / self.scale, -LARGEST), LARGEST))


def assert_as_the_reference(codec: Lattice, x: Tensor, key: StreamKey = KEY) -> None:
    rows, width = x.shape
    body = codec.encode(x, key)
    decoded = codec.decode(body, (rows, width), key).numpy()
    b, pairs, alone = codec.bits, rows * (width // 2), rows * (width % 2)
    side = 8 if codec.low is None else 0
    assert len(body) == side + math.ceil(pairs * 2 * b / 8) + math.ceil(alone * b / 8)
    low, high = range_of(codec, x)
    if side:
        assert struct.unpack("<ff", body[:8]) == (low, high)
    grid = Reference(codec, low, high)
    cut = len(body) - math.ceil(alone * b / 8)
    number, rest = (int.from_bytes(part, "little") for part in (body[side:cut], body[cut:]))
    assert number < 1 << (2 * b * pairs)
    u = dither_of(key, 2 * pairs) if codec.dither else [0.0] * 2 * pairs
    x_pairs = x.numpy()[:, : width - width % 2].reshape(-1, 2)
    y_pairs = []
    for n in range(pairs):
        code = number >> 2 * b * n & (4**b - 1)
        around = (u[2 * n], u[2 * n + 1])
        assert grid.is_nearest(code, x_pairs[n], around)
        y_pairs += grid.pair(code, around)
    expected = np.array(y_pairs, np.float32).reshape(rows, width - width % 2)
    np.testing.assert_array_equal(decoded[:, : width - width % 2], expected)
    if alone:
        purpose = StreamKey(key.seed, key.origin, key.purpose + "/alone", key.round, key.part)
        u = dither_of(purpose, alone) if codec.dither else [0.0] * alone
        codes = [grid.code_alone(value, u[n]) for n, value in enumerate(x.numpy()[:, -1])]
        assert rest == sum(code << b * n for n, code in enumerate(codes))
        y = [grid.alone(code, u[n]) for n, code in enumerate(codes)]
        np.testing.assert_array_equal(decoded[:, -1], np.array(y, np.float32))


def awkward_matrices(b: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(6)
    normal = torch.randn(71 if b < 6 else 9, 37, generator=generator)
    yield normal
    for scale in (1e-44, 1e-38, 2.0**-61, 2.0**-59, 1e20, 2.0**124, 2.0**126):
        yield normal[:3] * scale
    yield normal[:3] + 1000
    yield normal[:3, :6] * torch.logspace(-40, 30, 6)
    yield torch.tensor([[-LARGEST, LARGEST, 0.0, -0.0, 1e-45, 3e38, -3e38, 1.0]])
    yield torch.tensor([[0.0, 2.0**-149], [2.0**-149, 0.0]])
    yield torch.tensor([[1.0, math.nextafter(1.0, 2.0)], [1 + 2.0**-23, 1 + 2.0**-22]])
    for value in (0.0, -0.0, 1.5, -LARGEST, LARGEST, 2.0**-149, 0.1):
        yield torch.full((2, 3), value)
    yield torch.tensor([[2.5]])
    yield torch.tensor([[2.5], [-1.0], [0.3]])


@pytest.mark.parametrize("dither", [True, False])
@pytest.mark.parametrize("b", BITS)
def test_lattice_is_its_description_to_the_bit(b: int, dither: bool) -> None:
    for x in awkward_matrices(b):
        assert_as_the_reference(Lattice(b, dither=dither), x)
    for low, high in ((-1.0, 1.0), (0.0, 1e-40), (-3e38, 3e38), (0.1, 0.3), (-2e-30, -1e-30)):
        generator = torch.Generator().manual_seed(7)  # beyond the range, too
        x = torch.rand(7, 11, generator=generator, dtype=torch.float64) * 1.5 - 0.25
        x = (low + x * (high - low)).clamp(-LARGEST, LARGEST).float()
        x[0, :4] = torch.tensor([low, high, high, low])
        assert_as_the_reference(Lattice(b, low, high, dither), x)


@pytest.mark.parametrize("pairs", [1, 3, 4, 5, 255, 256, 511, 512, 513, 1024, 1501])
def test_lattice_around_the_pieces_of_its_kernels(pairs: int) -> None:
    x = torch.randn(1, 2 * pairs, generator=torch.Generator().manual_seed(pairs))
    for codec in (Lattice(3), Lattice(4, -1, 1), Lattice(1, -1, 1, dither=False)):
        assert_as_the_reference(codec, x)
    if pairs < 600:
        assert_as_the_reference(Lattice(8), x)


@given(st.data())
@settings(max_examples=200)
def test_lattice_round_trip(data: st.DataObject) -> None:
    b, dither = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    finite = st.floats(-(2.0**100), 2.0**100, width=32)
    rows, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    values = data.draw(st.lists(finite, min_size=rows * width, max_size=rows * width))
    codec = Lattice(b, dither=dither)
    if data.draw(st.booleans()):
        codec = Lattice(
            b, *sorted(data.draw(st.tuples(finite, finite).filter(lambda t: t[0] != t[1]))), dither
        )
    x = torch.tensor(values, dtype=torch.float32).view(rows, width)
    key = StreamKey(data.draw(st.integers(-(2**63), 2**63 - 1)), "bank", "x", 0)
    assert_as_the_reference(codec, x, key)


@pytest.mark.parametrize("b", [1, 2, 3])
def test_far_outside_the_nearest_codeword_is_taken(b: int) -> None:
    """Against all distances in exact arithmetic, from just outside to where squares are 1e18."""
    codec = Lattice(b, -1.0, 1.0, dither=False)
    rows, columns = ARRANGEMENTS[b]
    pitch = Fraction(2 / extent(rows, columns))
    words = [
        (
            (c + Fraction(r % 2, 2) - Fraction(columns, 2) + Fraction(1, 4)) * pitch,
            (r - Fraction(rows - 1, 2)) * pitch * Fraction(HEIGHT),
        )
        for r, c in itertools.product(range(rows), range(columns))
    ]
    generator = torch.Generator().manual_seed(b)
    angle = torch.rand(400, generator=generator) * 2 * math.pi
    radius = torch.exp(torch.rand(400, generator=generator) * 20)
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    symbols = codec.unpack(codec.encode(x, KEY), (400, 2)).astype(int).reshape(-1, 2)
    for pair, (row, column) in zip(x.tolist(), symbols, strict=True):
        h, v = map(Fraction, pair)
        distances = [(h - a) ** 2 + (v - e) ** 2 for a, e in words]
        slack = Fraction(2.0**-20) * (1 + abs(h) + abs(v))
        assert distances[row * columns + column] <= min(distances) + slack


# The law of its error


@pytest.mark.parametrize("reach", [None, 2.5], ids=["own range", "fixed range"])
@pytest.mark.parametrize("b", [1, 2, 3, 4, 6, 8])
def test_lattice_error_is_uniform_over_the_cell_and_independent(
    b: int, reach: float | None
) -> None:
    codec, ends = lattice(b, reach), 2.5 * torch.tensor([[-1.0, 1.0]]).repeat(1, 512)
    pitch = pitch_of(codec, ends)
    generator = torch.Generator().manual_seed(10)
    inner = torch.rand(1024, 1024, generator=generator, dtype=torch.float64)
    inner[::2] = inner[::2] ** 3
    x = torch.cat([ends, ((2 * inner - 1) * (2.5 - pitch / 2)).float()])
    exact = x.double().numpy()
    error = (there_and_back(codec, x).double().numpy() - exact)[1:].reshape(-1, 2) / pitch
    exact, count = exact[1:].reshape(-1, 2), len(error)

    # A hexagon of inner radius 1/2: the gauge is 1 at its sides, its square is the area within.
    normals = np.stack([(math.cos(a), math.sin(a)) for a in np.arange(6) * math.pi / 3])
    along = error @ normals.T * 2
    gauge, sector = along.max(axis=1), along.argmax(axis=1)
    assert gauge.max() <= 1 + 2.5 * ROUNDING / pitch
    cells = sector * 20 + np.minimum(gauge**2 * 20, 19).astype(np.int64)
    observed = np.bincount(cells, minlength=120)
    chi_square = ((observed - count / 120) ** 2 / (count / 120)).sum()
    assert abs(chi_square - 119) < 5 * math.sqrt(2 * 119)
    np.testing.assert_allclose((error**2).mean(axis=0), 5 / 72, rtol=0.01)
    assert (abs(error.mean(axis=0)) < 5 * math.sqrt(5 / 72 / count)).all()

    assert abs(np.corrcoef(error.T)[0, 1]) < 5 / math.sqrt(count)
    for one, other in itertools.product(range(2), range(2)):
        for power in (1, 2):
            correlation = np.corrcoef(error[:, one], exact[:, other] ** power)[0, 1]
            assert abs(correlation) < 5 / math.sqrt(count)
        for distance in (1, 2, 8, 512):
            neighbours = np.corrcoef(error[distance:, one], error[:-distance, other])[0, 1]
            assert abs(neighbours) < 5 / math.sqrt(count - distance)
    # without dither the error depends on where in the cell a value lies
    phase = np.floor((exact[:, 0] - exact[:, 0].min()) / pitch * 16).astype(np.int64) % 16
    for part in range(16):
        there = error[phase == part, 0]
        if len(there):
            assert abs(there.mean()) < 5 * math.sqrt(5 / 72 / len(there))


def test_the_cell_has_a_mean_square_of_5_72() -> None:
    """By quadrature, of a hexagon whose sides are half a pitch from its centre."""
    grid = (np.arange(2000) + 0.5) / 2000 * 1.2 - 0.6
    h, v = np.meshgrid(grid, grid)
    inside = (abs(h) <= 0.5) & (abs(h) / 2 + abs(v) * HEIGHT <= 0.5)
    for component in (h, v):
        assert (component[inside] ** 2).mean() == pytest.approx(5 / 72, rel=1e-3)


@pytest.mark.parametrize("b", BITS)
def test_dither_of_those_alone_is_their_own(b: int) -> None:
    """Their errors are uniform, and uncorrelated with those of the first pairs."""
    codec = lattice(b, 2.5)
    x = torch.zeros(20_000, 3)
    error = there_and_back(codec, x).double().numpy()
    step = 5 / 2**b
    assert (error[:, 2] ** 2).mean() == pytest.approx(step**2 / 12, rel=0.05)
    flat = error[:, :2].reshape(-1)[:20_000]
    assert abs(np.corrcoef(flat, error[:, 2])[0, 1]) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("dither", [True, False])
@pytest.mark.parametrize("b", BITS)
def test_it_beats_scalar_at_equal_bits(b: int, dither: bool) -> None:
    """On N(0, 1) with its own range, by 0.13 dB at least and 6.4 dB at most: few bits gain most."""
    x = torch.randn(2048, 128, generator=torch.Generator().manual_seed(12))
    errors = []
    for codec in (Scalar(b, dither=dither), Lattice(b, dither=dither)):
        assert codec.bytes_at_most((2048, 128)) == 8 + 2048 * 128 * b // 8
        errors.append(float((there_and_back(codec, x) - x).square().mean()))
    assert 0.13 < 10 * math.log10(errors[0] / errors[1]) < 6.5


# Garbage


@pytest.mark.parametrize("b", [4, 5, 6, 7, 8])
def test_a_code_of_no_codeword_is_refused(b: int) -> None:
    codec = Lattice(b, -1.0, 1.0)
    rows, columns = ARRANGEMENTS[b]
    size = codec.bytes_at_most((1, 2))
    last = (rows * columns - 1).to_bytes(size, "little")
    assert torch.isfinite(codec.decode(last, (1, 2), KEY)).all()
    with pytest.raises(RemoteProtocolError, match=f"a code is {rows * columns}, of a lattice"):
        codec.decode((rows * columns).to_bytes(size, "little"), (1, 2), KEY)


def test_filling_bits_of_both_parts_are_zero() -> None:
    codec = Lattice(3, -1.0, 1.0)
    body = codec.encode(torch.zeros(1, 3), KEY)  # 6 bits in a byte, 3 in another
    assert len(body) == 2
    for place, used in ((0, 6), (1, 3)):
        for bit in range(used, 8):
            changed = bytearray(body)
            changed[place] ^= 1 << bit
            with pytest.raises(RemoteProtocolError, match="not zero"):
                codec.decode(bytes(changed), (1, 3), KEY)


@pytest.mark.parametrize("ends", [(math.nan, 1.0), (-math.inf, 0.0), (1.0, 0.0)])
def test_a_range_that_is_none_is_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(RemoteProtocolError, match="range"):
        Lattice(4).decode(struct.pack("<ff", *ends) + bytes(2), (1, 4), KEY)


@pytest.mark.parametrize("kernel", [kernels._PLAIN[1], kernels._DITHERED[1]])
def test_decoding_has_no_fused_multiplication_and_no_libm(kernel: Any) -> None:
    fused = re.compile(r"\b(?:v?fn?m(?:add|sub)\w*|fn?ml[as]\w*)\s")
    grid = kernels.Grid(2, 2, *[np.float32(1)] * 7)
    data, x = np.zeros(9, dtype=np.uint8), np.zeros(10, dtype=np.float32)

    def machine_code(**options: Any) -> str:
        compiled = njit(nogil=True, **options)(kernel.py_func)
        compiled(data, x, 4, grid, np.uint64(1), np.uint64(1))
        return str(compiled.inspect_asm(compiled.signatures[0]))

    code = machine_code()
    assert not fused.search(code)
    assert not re.search(r"\b(?:exp2?|log\w*|pow|ldexp|floor|round|rint|fma)f?\b", code)
    if llvmlite.binding.get_host_cpu_features().get("fma"):
        assert fused.search(machine_code(fastmath={"contract"}))  # it would be seen


# Lloyd-Max


@pytest.mark.parametrize(
    ("b", "distortion"), [(1, 0.3634), (2, 0.1175), (3, 0.03454), (4, 0.009497)]
)
def test_the_distortion_of_a_normal_variable_is_the_textbooks(b: int, distortion: float) -> None:
    """Max (1960), table I. Levels fitted to the sample do a little better than for the law."""
    x = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    x = ((x - x.mean()) / x.std()).float()
    error = float((there_and_back(LloydMax(b), x) - x).square().mean())
    assert error == pytest.approx(distortion, rel=0.01)


def heavy_tailed(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 100, generator=generator, dtype=torch.float64)
    match seed % 5:
        case 0:
            return x.float()
        case 1:
            return (torch.sinh(3 * x) * 1e3).float()
        case 2:
            return x.relu().float()
        case 3:
            return (1e6 + x).float()
        case _:
            return torch.exp(20 * x).clamp(max=1e30).float() * x.sign().float()


@pytest.mark.parametrize("seed", range(10))
def test_lloyd_max_is_never_worse_than_equidistant_levels(seed: int) -> None:
    x = heavy_tailed(seed)
    for b in BITS:
        best, equal = (
            float((there_and_back(codec, x).double() - x.double()).square().sum())
            for codec in (LloydMax(b), Scalar(b, dither=False))
        )
        assert best <= equal * (1 + 1e-5) + 1e-12 * float(x.double().square().sum())
        centred = float((x.double() - x.double().mean()).square().sum())
        assert best <= centred


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=9),
    st.integers(1, 2),
    st.sampled_from([1.0, 0.01, 1e20]),
)
@settings(max_examples=200)
def test_lloyd_max_is_the_best_by_enumeration(values: list[int], b: int, unit: float) -> None:
    x = torch.tensor([values], dtype=torch.float32) * unit
    ordered = np.sort(x.double().numpy().ravel())
    inner = range(1, len(ordered))
    best = min(
        sum(((part - part.mean()) ** 2).sum() for part in np.split(ordered, list(cuts)))
        for count in range(min(2**b, len(ordered)))
        for cuts in itertools.combinations(inner, count)
    )
    error = float((there_and_back(LloydMax(b), x).double() - x.double()).square().sum())
    assert error <= best * (1 + 1e-5) + 1e-12 * float((ordered**2).sum())


@pytest.mark.parametrize("b", BITS)
def test_few_values_come_back_exactly(b: int) -> None:
    values = torch.randn(2**b, generator=torch.Generator().manual_seed(14)) ** 5
    x = values[torch.arange(600) % 2**b].view(20, 30)
    assert torch.equal(there_and_back(LloydMax(b), x), x)
    body = LloydMax(b).encode(x[:, :1], KEY)
    levels = np.frombuffer(body, "<f4", 2**b)
    assert (np.diff(levels) >= 0).all()


def test_lloyd_max_feeds_error_back() -> None:
    link = ErrorFeedback(LloydMax(2))
    sender, rows = link.sender(20, 8, "one"), np.arange(20)
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(15))
    for round in range(20):
        sender.send(x, rows, StreamKey(0, "bank", "training/embedding", round))
    assert torch.norm(sender.state_dict()["surrogate"] - x) < 1e-5 * torch.norm(x)


@pytest.mark.parametrize(
    "levels", [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, math.inf)]
)
def test_levels_that_do_not_ascend_are_refused(levels: tuple[float, float]) -> None:
    with pytest.raises(RemoteProtocolError, match="do not ascend"):
        LloydMax(1).decode(struct.pack("<ff", *levels) + b"\1", (1, 2), KEY)
    with pytest.raises(RemoteProtocolError, match="not zero"):
        LloydMax(1).decode(struct.pack("<ff", 0, 0) + b"\4", (1, 2), KEY)


@pytest.mark.parametrize("bits", [0, 9, 2.0, "4"])
def test_bits_that_cannot_be(bits: Any) -> None:
    said = "from 1 to 8" if type(bits) is int else "is a whole number"
    with pytest.raises(ConfigurationError, match=said):
        LloydMax(bits)


# Symbols


QUANTISERS: list[Quantiser] = [
    *(Lattice(b, *ends) for b in BITS for ends in ((), (-1.0, 1.0))),
    *(LloydMax(b) for b in (1, 3, 8)),
    *(Scalar(b, *ends) for b in (1, 3, 8) for ends in ((), (-1.0, 1.0))),
    *(QSGD(levels, "max", bucket) for levels in (1, 15, 127) for bucket in (None, 7)),
]


@pytest.mark.parametrize("codec", QUANTISERS, ids=repr)
def test_symbols_and_side_information_are_the_body(codec: Quantiser) -> None:
    assert isinstance(codec, Quantiser)
    for rows, width in ((1, 1), (1, 2), (5, 3), (33, 1), (41, 101), (64, 32), (0, 4), (4, 0)):
        x = torch.randn(rows, width, generator=torch.Generator().manual_seed(width))
        shape = (rows, width)
        body = codec.encode(x, KEY)
        side = codec.side_bytes(body, shape)
        symbols = codec.unpack(body, shape)
        assert symbols.dtype == np.uint16
        assert len(symbols) == codec.symbol_count(shape) == rows * width
        sections = codec.sections(shape)
        assert sum(section.symbols for section in sections) == rows * width
        assert all(section.symbols % section.period == 0 for section in sections)
        assert (symbols < codec.alphabet).all()
        assert body[:side] + codec.pack(symbols, shape) == body
        assert codec.side_bytes(body[:side] + b"anything", shape) == side
        if side:
            with pytest.raises(RemoteProtocolError, match="shorter than its side information"):
                codec.side_bytes(body[: side - 1], shape)


def test_what_has_no_symbols_is_no_quantiser() -> None:
    assert not isinstance(Float(16), Quantiser)
    assert not isinstance(TopK(0.1), Quantiser)


def test_symbols_of_a_lattice_are_rows_columns_and_those_alone() -> None:
    codec = Lattice(4, -1.0, 1.0, dither=False)
    x = torch.tensor([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    symbols = codec.unpack(codec.encode(x, KEY), (3, 3))
    assert symbols.tolist() == [0, 0, 16, 14, 8, 7, 0, 15, 8]


@pytest.mark.parametrize(
    ("symbols", "wrong"),
    [([16, 14, 15], False), ([17, 0, 0], True), ([0, 15, 0], True), ([0, 0, 16], True)],
)
def test_symbols_beyond_the_lattice_are_refused(symbols: list[int], wrong: bool) -> None:
    codec = Lattice(4)
    array = np.array(symbols, dtype=np.uint16)
    if wrong:
        with pytest.raises(RemoteProtocolError, match="beyond the last row, column or level"):
            codec.pack(array, (1, 3))
    else:
        body = bytes(8) + codec.pack(array, (1, 3))
        assert codec.unpack(body, (1, 3)).tolist() == symbols
