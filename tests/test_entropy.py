"""Entropy coding: the conformance kit, its size beside the information, and its tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.codecs import QSGD, Entropy, Float, Lattice, LloydMax, Scalar, TopK
from colonnade.codecs.frequencies import BitReader, BitWriter, Frequencies, fitted
from colonnade.codecs.quantiser import Section
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.testing.codecs import CHECKS, KEY, Subject, there_and_back
from test_codecs import step_of
from test_lattice import pitch_of

INNER = [
    Scalar(1),
    Scalar(4),
    Scalar(8, -8.0, 8.0),
    Scalar(3, dither=False),
    QSGD(1, bucket=16),
    QSGD(15, norm="max", contract=False),
    QSGD(127),
    Lattice(2),
    Lattice(4, -8.0, 8.0),
    LloydMax(3),
]


def step_of_any(codec, x: torch.Tensor) -> float:
    return pitch_of(codec, x) if isinstance(codec, Lattice) else step_of(codec, x)


SUBJECTS = [
    *(Subject(Entropy(codec), step=partial(step_of_any, codec)) for codec in INNER),
    Subject(TopK(0.3, values=Entropy(QSGD(3, norm="max", bucket=64)))),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_entropy_conforms(subject: Subject, check: Callable[[Subject], None]) -> None:
    check(subject)


@pytest.mark.parametrize("codec", INNER, ids=str)
def test_what_decodes_is_what_the_codec_decodes(codec) -> None:
    for x in Subject(codec).messages():
        assert torch.equal(there_and_back(Entropy(codec), x), there_and_back(codec, x))


def information(symbols: np.ndarray, sections: Iterable[Section], together: bool = False) -> float:
    """Return the bytes of the empirical entropy, of each place in tuples or of whole tuples."""
    bits, start = 0.0, 0
    for count, period in sections:
        tuples = symbols[start : start + count].reshape(-1, period)
        start += count
        for part in [tuples] if together else np.hsplit(tuples, period):
            counts = np.unique(part, axis=0, return_counts=True)[1]
            bits -= float(counts @ np.log2(counts / counts.sum()))
    return bits / 8


@pytest.mark.parametrize(
    ("codec", "rows"),
    [
        *itertools.product([Scalar(b) for b in (1, 2, 3, 4)], [16, 64, 1024, 4096]),
        *itertools.product([QSGD(1), QSGD(3), QSGD(7), QSGD(3, bucket=64)], [16, 1024, 4096]),
        *itertools.product([Lattice(2), Lattice(3), LloydMax(2)], [64, 1024, 4096]),
        *itertools.product([Scalar(6), Scalar(8), Lattice(8), QSGD(127, "max")], [4096]),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", ["normal", "skewed"])
def test_bytes_are_those_of_the_information(codec, rows, shape) -> None:
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows))
    x = x if shape == "normal" else x.exp()
    packed = codec.encode(x, KEY)
    side = codec.side_bytes(packed, (rows, 64))
    symbols, sections = codec.unpack(packed, (rows, 64)), codec.sections((rows, 64))
    size = len(Entropy(codec).encode(x, KEY))
    assert side + information(symbols, sections, together=True) <= size
    assert size <= 1.01 * (side + information(symbols, sections)) + 16


@pytest.mark.parametrize("shape", [(4096, 256), (4096, 255), (256, 1)])
@pytest.mark.parametrize("codec", [Lattice(1), Lattice(2), Lattice(2, -2.0, 2.0), Lattice(3)])
def test_pairs_are_coded_together(codec, shape) -> None:
    """Within 1 % of the entropy of pairs and 64 bytes for the table of 64 of them at most."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    packed = codec.encode(x, KEY)
    symbols, sections = codec.unpack(packed, shape), codec.sections(shape)
    limit = codec.side_bytes(packed, shape) + information(symbols, sections, together=True)
    body = Entropy(codec).encode(x, KEY)
    assert limit <= len(body) <= 1.01 * limit + 64
    assert torch.equal(Entropy(codec).decode(body, shape, KEY), codec.decode(packed, shape, KEY))


@pytest.mark.parametrize(("bits", "rows", "how"), [(2, 4096, 2), (5, 64, 1), (8, 64, 1)])
def test_pairs_are_coded_apart_where_their_table_would_be_long(bits, rows, how) -> None:
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(4))
    codec = Entropy(Lattice(bits))
    body = codec.encode(x, KEY)
    assert body[0] == how
    assert torch.equal(codec.decode(body, (rows, 64), KEY), there_and_back(Lattice(bits), x))


def test_what_has_no_pairs_cannot_be_coded_together() -> None:
    for codec in (Entropy(Scalar(3)), Entropy(Lattice(8))):
        x = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
        body = codec.encode(x, KEY)
        with pytest.raises(RemoteProtocolError, match="joins what has no tuples"):
            codec.decode(b"\2" + body[1:], (64, 32), KEY)


def test_equal_symbols_take_nothing_but_their_number() -> None:
    body = Entropy(Scalar(4, 0.0, 15.0, dither=False)).encode(torch.full((1000, 64), 3.0), KEY)
    assert len(body) <= 16


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=300).filter(any),
)
def test_tables_come_back(counts) -> None:
    table = fitted(np.array(counts))
    assert table.counts.sum() == 1 << table.precision
    assert table.counts.min() >= 1
    assert table.symbols.tolist() == np.flatnonzero(counts).tolist()
    out = BitWriter()
    out.write(5, 3)
    table.write(out)
    source = BitReader(out.as_bytes())
    assert source.read(3) == 5
    again = Frequencies.read(source, len(counts))
    assert (again.symbols.tolist(), again.counts.tolist(), again.precision) == (
        table.symbols.tolist(),
        table.counts.tolist(),
        table.precision,
    )
    assert source.used_bytes() == len(out.as_bytes())


def test_a_body_that_no_encoder_wrote_is_refused() -> None:
    codec, x = Entropy(Scalar(3)), torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
    body = codec.encode(x, KEY)
    refused = 0
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            y = codec.decode(bytes(flipped), (64, 32), KEY)
        except RemoteProtocolError:
            refused += 1
            continue
        assert y.shape == (64, 32)
    assert refused > 50
    for size in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(body[:size], (64, 32), KEY)
    with pytest.raises(RemoteProtocolError):
        codec.decode(body + b"\0", (64, 32), KEY)
    with pytest.raises(RemoteProtocolError):
        codec.decode(body, (64, 33), KEY)


def test_what_has_no_symbols_is_refused() -> None:
    for codec in (Float(16), TopK(0.1)):
        with pytest.raises(ConfigurationError, match="needs a codec with symbols"):
            Entropy(codec)  # type: ignore[arg-type]
