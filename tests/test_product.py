"""ProductQuantised: the conformance kit, its format read slowly, what k-means finds; garbage."""

from __future__ import annotations

import dataclasses
import itertools
import math
import resource
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs import Bounded, Entropy, LloydMax, ProductQuantised, product
from colonnade.codecs.quantiser import Quantiser
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.kernels import product as kernels
from colonnade.links import ErrorFeedback
from colonnade.testing.codecs import (
    CHECKS,
    KEY,
    Subject,
    _refuses_or_decodes,
    refuses_before_it_allocates,
    refuses_garbage,
    refuses_what_is_not_finite,
    stays_finite,
    there_and_back,
)

Array = NDArray[np.float64]


def range_of(x: Tensor) -> float:
    return float(x.max()) - float(x.min())


def normal(rows: int, width: int, seed: int = 1) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


# The conformance kit, with messages of widths that can be cut


@dataclasses.dataclass(frozen=True)
class Cut(Subject):
    """The kit's messages whose width the subvectors divide, and some more of such widths."""

    subvectors: int = 1

    def messages(self) -> Iterator[Tensor]:
        for rows, width in ((6, 1), (1, 4), (35, 3)):
            x = normal(rows, width * self.subvectors, seed=rows)
            yield x.clamp(-self.within, self.within)
        for x in super().messages():
            if x.shape[1] % self.subvectors == 0:
                yield x


def cut(codec: ProductQuantised, whole: Any = None) -> Cut:
    return Cut(whole or codec, step=range_of, subvectors=codec.subvectors)


WHOLE = [
    ProductQuantised(1, 2),
    ProductQuantised(1, 16),
    ProductQuantised(1, 33, codebook="float16"),
    ProductQuantised(1, 4096, iterations=1),
]
IN_PIECES = [
    ProductQuantised(5, 2),
    ProductQuantised(7, 4, groups=7),
    ProductQuantised(5, 16, groups=5),
    ProductQuantised(4, 64, groups=2, codebook="float16"),
    ProductQuantised(128, 3, groups=32),
    ProductQuantised(101, 300),
]
FIXED_SHAPES: dict[Callable[[Subject], None], int] = {  # checks whose own widths must be divided
    refuses_what_is_not_finite: 7,
    stays_finite: 5,
    refuses_garbage: 5,
    refuses_before_it_allocates: 1,
}
CASES = [
    (subject, check)
    for codec in [*WHOLE, *IN_PIECES]
    for subject in (cut(codec), cut(codec, Entropy(codec)))
    for check in CHECKS
    if FIXED_SHAPES.get(check, 0) % codec.subvectors == 0
]


@pytest.mark.parametrize(
    ("subject", "check"), CASES, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_conformance(subject: Subject, check: Callable[[Subject], None]) -> None:
    check(subject)


@pytest.mark.parametrize("codec", [*WHOLE, *IN_PIECES], ids=str)
def test_entropy_coded_the_same_values_come_back(codec: ProductQuantised) -> None:
    for x in cut(codec).messages():
        assert torch.equal(there_and_back(Entropy(codec), x), there_and_back(codec, x))


def test_rare_codes_are_worth_coding() -> None:
    x = normal(512, 32)
    x[:, 4:] = 0
    codec = ProductQuantised(8, 16)
    assert len(Entropy(codec).encode(x, KEY)) < 0.5 * len(codec.encode(x, KEY))


def test_law() -> None:
    assert ProductQuantised(4, 16).law((8, 4)) == Bounded(step=1.0)
    with pytest.raises(ConfigurationError, match="ProductQuantised promises"):
        ErrorFeedback(ProductQuantised(4, 16))


# The format, read from its description


def read(body: bytes, shape: tuple[int, int], codec: ProductQuantised) -> tuple[Array, Array]:
    """Return codebooks [R, L', E/q] and codes [rows, R, q/R], one bit after another."""
    (rows, width), (q, groups) = shape, (codec.subvectors, codec.groups)
    size = min(codec.centroids, rows * q // groups)
    kind = "<f4" if codec.codebook == "float32" else "<f2"
    side = np.dtype(kind).itemsize * groups * size * width // q
    codebooks = np.frombuffer(body[:side], kind).reshape(groups, size, width // q)
    bits, number = math.ceil(math.log2(size)), int.from_bytes(body[side:], "little")
    assert len(body) == side + math.ceil(rows * q * bits / 8)
    assert number < 1 << rows * q * bits
    codes = [number >> bits * n & (1 << bits) - 1 for n in range(rows * q)]
    return codebooks.astype(np.float64), np.array(codes).reshape(rows, groups, q // groups)


def assert_as_described(x: Tensor, codec: ProductQuantised, fitted: bool = False) -> None:
    """Decoded are the centroids of the codes, which are nearest; if ``fitted``, also means."""
    (rows, width), groups = x.shape, codec.groups
    body = codec.encode(x, KEY)
    codebooks, codes = read(body, (rows, width), codec)
    pieces = x.double().numpy().reshape(rows, groups, -1, width // codec.subvectors)
    decoded = codec.decode(body, (rows, width), KEY).double().numpy().reshape(pieces.shape)
    unit = float(x.abs().max())
    rounding = 2.0**-22 * unit + 2.0**-149
    if codec.codebook == "float16":
        rounding = 2.0**-10 * unit + 2.0**-25
    for group in range(groups):
        points, book = pieces[:, group].reshape(-1, pieces.shape[-1]), codebooks[group]
        code = codes[:, group].reshape(-1)
        assert (decoded[:, group].reshape(points.shape) == book[code]).all()
        squares = ((points[:, None] - book) ** 2).sum(-1)
        chosen = squares[np.arange(len(points)), code]
        assert (chosen <= squares.min(1) + 2.0**-20 * (squares.min(1) + 2.0**-40 * unit**2)).all()
        single = ((points - points.mean(0)) ** 2).sum()
        assert math.sqrt(chosen.sum()) <= math.sqrt(single) + math.sqrt(points.size) * rounding
        for k in range(len(book)) if fitted else ():
            if (code == k).any():
                mean = points[code == k].mean(0)
                assert np.allclose(book[k], mean, rtol=0, atol=rounding)


def awkward() -> Iterator[Tensor]:
    yield normal(40, 12)
    yield normal(1, 12)
    yield normal(2, 12) ** 5
    yield normal(200, 12) + 1000
    for scale in (1e-44, 1e-38, 1e30, 2.0**124):
        yield normal(9, 12) * scale
    yield normal(30, 12).round()
    yield torch.zeros(5, 12)
    yield torch.full((300, 12), 0.1)
    yield torch.full((3, 12), float(np.finfo(np.float32).max))
    yield torch.tensor([[3e38, -3e38, 1e-45, 0.0] * 3, [-3e38, -3e38, 0.0, 1.0] * 3])
    yield normal(6, 12).repeat(7, 1)


@pytest.mark.parametrize(("q", "groups"), [(1, 1), (2, 1), (3, 3), (6, 2), (12, 1), (12, 4)])
@pytest.mark.parametrize("size", [2, 3, 16, 257])
def test_it_is_as_described(q: int, groups: int, size: int) -> None:
    for x in awkward():
        assert_as_described(x, ProductQuantised(q, size, groups))
        if x.abs().max() < 65504:
            assert_as_described(x, ProductQuantised(q, size, groups, codebook="float16"))


@pytest.mark.parametrize("width", range(1, 18))
def test_subvectors_of_any_width(width: int) -> None:
    for rows in (1, 127, 128, 129, 513):
        assert_as_described(normal(rows, 4 * width), ProductQuantised(4, 7))


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_at_the_end_centroids_are_means(kind: Any) -> None:
    for x in awkward():
        if kind == "float32" or x.abs().max() < 65504:
            codec = ProductQuantised(6, 13, 2, iterations=10_000, codebook=kind)
            assert_as_described(x, codec, fitted=True)


@given(st.data())
@settings(max_examples=150)
def test_round_trip(data: st.DataObject) -> None:
    rows, groups = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    q, width = groups * data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    kind = data.draw(st.sampled_from(["float32", "float16"]))
    codec = ProductQuantised(q, data.draw(st.integers(2, 20)), groups, codebook=kind)
    value = st.floats(-100, 100, width=32) | st.integers(-2, 2).map(float)
    values = data.draw(st.lists(value, min_size=rows * q * width, max_size=rows * q * width))
    x = torch.tensor(values).view(rows, q * width)
    assert_as_described(x, codec)


# What k-means finds


@pytest.mark.parametrize("size", [2, 3, 16, 300])
@pytest.mark.parametrize("rows", [30, 6000])
def test_as_many_different_subvectors_as_centroids_come_back_exactly(size: int, rows: int) -> None:
    """Also where most are the same, so that those drawn at random miss the others."""
    different = normal(size, 4) ** 3
    which = torch.zeros(rows * 16, dtype=torch.int64)
    which[torch.randperm(rows * 16, generator=torch.Generator().manual_seed(2))[:size]] = (
        torch.arange(size)
    )
    x = different[which].view(rows, 64)
    assert torch.equal(there_and_back(ProductQuantised(16, size), x), x)


def test_each_group_has_its_codebook() -> None:
    x = torch.cat([normal(50, 8), 100 + normal(50, 8, 2).sign()], dim=1)
    error = (there_and_back(ProductQuantised(4, 16, groups=2), x) - x).square()
    assert float(error[:, 8:].max()) == 0
    assert float(error[:, :8].mean()) > 0


def test_one_subvector_in_a_group_takes_no_codes() -> None:
    codec, x = ProductQuantised(3, 8, groups=3), normal(1, 6)
    assert codec.encode(x, KEY) == x.numpy().tobytes()
    assert torch.equal(there_and_back(codec, x), x)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_of_width_one_it_is_near_the_best_scalar_quantiser(bits: int) -> None:
    """K-means stops at a local optimum: 0.5, 6 and 20 % above the best of 2, 3 and 4 bits."""
    x = normal(256, 64)
    best, ours = (
        float((there_and_back(codec, x) - x).square().mean())
        for codec in (LloydMax(bits), ProductQuantised(64, 2**bits))
    )
    assert 0.999 * best <= ours <= (1.01, 1.01, 1.1, 1.25)[bits - 1] * best


@pytest.mark.parametrize(("groups", "rows"), [(1, 64), (1, 2048), (8, 256)])
def test_more_centroids_are_closer(groups: int, rows: int) -> None:
    x, errors = normal(rows, 32), []
    for size in (2, 4, 8, 16, 32, 64, 128):
        y = there_and_back(ProductQuantised(8, size, groups), x)
        errors.append(float((y - x).square().mean()))
    assert all(after < 0.92 * before for before, after in itertools.pairwise(errors))


def test_a_sample_is_nearly_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(2048, 64)
    codec = ProductQuantised(16, 16)
    sampled = float((there_and_back(codec, x) - x).square().mean())
    monkeypatch.setattr(product, "_SAMPLE", 10**6)
    assert sampled < 1.02 * float((there_and_back(codec, x) - x).square().mean())


def test_draws_come_from_the_key() -> None:
    codec, x = ProductQuantised(16, 16), normal(64, 64)
    bodies = {codec.encode(x, dataclasses.replace(KEY, round=round)) for round in range(5)}
    assert len(bodies) == 5
    assert codec.encode(x, KEY) == codec.encode(x.clone(), dataclasses.replace(KEY))
    for body in bodies:  # none is needed to decode
        decoded = {codec.decode(body, (64, 64), dataclasses.replace(KEY, seed=s)) for s in (1, 2)}
        assert torch.equal(*decoded)


# What cannot be


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subvectors": 0}, "subvectors must be a whole number from 1 on, not 0"),
        ({"subvectors": 4.0}, "subvectors of .* is a whole number, not 4.0"),
        ({"centroids": 1}, "centroids must be a whole number from 2 to 4096, not 1"),
        ({"centroids": 4097}, "not 4097"),
        ({"groups": 3}, "3 groups must divide the 4 subvectors"),
        ({"groups": -2}, "groups must be"),
        ({"iterations": 0}, "iterations must be"),
        ({"iterations": 10_001}, "iterations must be 10000 at most"),
        ({"iterations": 2**64}, "iterations must be 10000 at most"),
        (
            {"codebook": "bf16"},
            "codebook of ProductQuantised is 'float32' or 'float16', not 'bf16'",
        ),
    ],
)
def test_fields_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ProductQuantised(**{"subvectors": 4, "centroids": 8, **fields})


def test_a_width_that_cannot_be_cut() -> None:
    codec = ProductQuantised(3, 4)
    for use in (
        lambda: codec.encode(torch.zeros(2, 5), KEY),
        lambda: codec.decode(b"", (2, 5), KEY),
        lambda: codec.bytes_at_most((2, 5)),
        lambda: codec.symbol_count((0, 5)),
    ):
        with pytest.raises(ConfigurationError, match=r"rows of 5 components .* 3 subvectors"):
            use()


def test_centroids_beyond_float16() -> None:
    codec = ProductQuantised(2, 4, codebook="float16")
    x = torch.tensor([[65519.0, 1.0], [0.0, -65519.0]])
    assert there_and_back(codec, x).abs().max() == 65504
    with pytest.raises(Diverged, match="a centroid reaches 65520, but float16 only 65504"):
        codec.encode(torch.tensor([[65520.0, 1.0], [0.0, -3.0]]), KEY)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", ["<f4", "<f2"])
def test_centroids_that_are_not_finite_are_refused(value: float, kind: Any) -> None:
    codec = ProductQuantised(2, 2, codebook="float32" if kind == "<f4" else "float16")
    for place in range(4):
        codebook = np.zeros(4, kind)
        codebook[place] = value
        with pytest.raises(RemoteProtocolError, match="not finite"):
            codec.decode(codebook.tobytes() + b"\0", (2, 4), KEY)


def test_codes_of_no_centroid_and_filling_bits_are_refused() -> None:
    codec, codebook = ProductQuantised(1, 8), bytes(4 * 3)  # three rows, three centroids
    assert codec.decode(codebook + bytes([0b100100]), (3, 1), KEY).shape == (3, 1)
    with pytest.raises(RemoteProtocolError, match="a code is 3, of a codebook of 3 centroids"):
        codec.decode(codebook + bytes([0b001100]), (3, 1), KEY)
    for bit in (6, 7):
        with pytest.raises(RemoteProtocolError, match="not zero"):
            codec.decode(codebook + bytes([1 << bit]), (3, 1), KEY)
    with pytest.raises(RemoteProtocolError, match="a code is 5"):
        codec.pack(np.array([0, 5, 1], np.uint16), (3, 1))
    with pytest.raises(RemoteProtocolError, match="bytes cannot hold"):
        codec.decode(b"\0", (0, 1), KEY)


def test_an_entropy_coded_code_of_no_centroid_is_refused() -> None:
    codec = Entropy(ProductQuantised(1, 8))
    for symbols in ([0, 3, 1], [7, 7, 7]):
        how, coded = codec._code(np.array(symbols, np.uint16), (3, 1))
        with pytest.raises(RemoteProtocolError, match="of a codebook of 3 centroids"):
            codec.decode(bytes([how]) + bytes(4 * 3) + coded, (3, 1), KEY)


@pytest.mark.parametrize("rows", [1, 20])
def test_a_wide_subvector_takes_memory_for_itself_and_no_more(rows: int) -> None:
    x = torch.linspace(-1, 1, rows * 2**20).view(rows, -1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    codec = ProductQuantised(1, max(2, rows))
    assert torch.equal(there_and_back(codec, x), x)
    taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert taken < 12 * x.nbytes + 2**27


@pytest.mark.parametrize("width", [4096, 4097, 5000])
def test_of_subvectors_of_any_width_the_nearest_centroid_is_found(width: int) -> None:
    """Beyond 4096 components another loop finds it, of fewer subvectors at once."""
    points, centroids = normal(19, width).numpy(), normal(5, width, seed=2).numpy()
    squares = ((points[:, None].astype(np.float64) - centroids) ** 2).sum(axis=2)
    found = kernels.nearest(np.ascontiguousarray(points.T), centroids)
    assert found.tolist() == squares.argmin(axis=1).tolist()


@pytest.mark.parametrize("codec", IN_PIECES, ids=str)
def test_garbage(codec: ProductQuantised) -> None:
    shape, source = (3, 2 * codec.subvectors), np.random.default_rng(3)
    body = codec.encode(normal(*shape), KEY)
    for size in {*range(min(len(body), 300)), len(body) - 1, len(body) + 1}:
        with pytest.raises(RemoteProtocolError):
            codec.decode((body + b"\0")[:size], shape, KEY)
    for _ in range(300):
        _refuses_or_decodes(cut(codec), source.bytes(len(body)), shape)
        flipped = bytearray(body)
        flipped[source.integers(len(body))] ^= 1 << source.integers(8)
        _refuses_or_decodes(cut(codec), bytes(flipped), shape)
    for rows, width in ((2**40, 2**20), (2**62, 1), (1, 2**62)):
        for short in (b"", body):
            with pytest.raises(RemoteProtocolError):
                codec.decode(short, (rows, width * codec.subvectors), KEY)


@pytest.mark.parametrize("codec", [*WHOLE, *IN_PIECES], ids=str)
def test_symbols_and_side_information_are_the_body(codec: Quantiser) -> None:
    assert isinstance(codec, Quantiser)
    for rows, pieces in ((1, 1), (5, 3), (33, 1), (600, 2), (0, 4), (4, 0)):
        shape = (rows, pieces * codec.subvectors)
        body = codec.encode(normal(*shape), KEY)
        side, symbols = codec.side_bytes(body, shape), codec.unpack(body, shape)
        assert symbols.dtype == np.uint16
        assert len(symbols) == codec.symbol_count(shape) == rows * codec.subvectors * bool(pieces)
        assert (symbols < codec.alphabet).all()
        assert body[:side] + codec.pack(symbols, shape) == body
        if side:
            with pytest.raises(RemoteProtocolError, match="shorter than its side information"):
                codec.side_bytes(body[: side - 1], shape)
