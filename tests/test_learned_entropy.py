"""Entropy coding that learns: both ends agree, it learns what there is, and hostile bodies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.codecs import QSGD, Entropy, Lattice, LloydMax, ProductQuantised, Scalar, TopK
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import mixing
from colonnade.links import Delivery, Direct, LearnedEntropy
from colonnade.methods import lean
from colonnade.streams import StreamKey

WHOLE = Scalar(5, -15.0, 16.0, dither=False)  # whole numbers from -15 to 16
QUANTISERS = [
    WHOLE,
    Scalar(1),
    Scalar(8),
    Scalar(3, -1.0, 1.0),
    QSGD(1, bucket=16),
    QSGD(15, norm="max", contract=False),
    Lattice(2),
    Lattice(3, -8.0, 8.0),
    LloydMax(3),
]


def key(round: int) -> StreamKey:
    return StreamKey(3, "bank", "training/embedding", round)


def ends(quantiser, width: int):
    link = LearnedEntropy(quantiser)
    return link.sender(1000, width, "bank"), link.receiver(1000, width, "insurer")


def stream(messages: int, rows: int, width: int, seed: int = 0) -> list[torch.Tensor]:
    """Return what many components share, cut off at 0 as behind a ReLU."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(4, width, generator=generator)
    return [
        torch.relu(torch.randn(rows, 4, generator=generator) @ mixed - 0.5) for _ in range(messages)
    ]


@pytest.mark.parametrize("width", [1, 5, 16])
@pytest.mark.parametrize("quantiser", QUANTISERS, ids=str)
def test_what_decodes_is_what_the_quantiser_decodes(quantiser, width) -> None:
    sender, receiver = ends(quantiser, width)
    rows = np.arange(40)
    for round, x in enumerate(stream(6, 40, width)):
        body = sender.send(x, rows, key(round))
        expected = quantiser.decode(quantiser.encode(x, key(round)), (40, width), key(round))
        assert torch.equal(receiver.receive(body, rows, key(round)), expected)
        assert torch.equal(sender.delivered(body, rows, key(round)), expected)
        assert len(body) <= LearnedEntropy(quantiser).bytes_at_most(40, width)
        assert _same(sender.state_dict(), receiver.state_dict())


ENDS = [
    *QUANTISERS,
    Scalar(2, -1.0, 1.0),
    Scalar(5, -22.5, 24.0, dither=False),
    Lattice(1),
    LloydMax(1),
    LloydMax(2),
    ProductQuantised(2, 4),
]


@pytest.mark.parametrize("quantiser", ENDS, ids=str)
@pytest.mark.parametrize(("rows", "width"), [(1, 30), (64, 8)])
@pytest.mark.parametrize("end", [-100.0, 100.0])
def test_a_code_may_end_in_zeros(quantiser, rows, width, end) -> None:
    # The last rank is at an end of the range; of nothing but that, no byte of a code is left.
    for last in (1, 2, 7, rows * width):
        sender, receiver = ends(quantiser, width)
        x = stream(1, rows, width, last)[0]
        x.view(-1)[-last:] = end
        for round in range(3):
            body = sender.send(x, np.arange(rows), key(round))
            expected = sender.delivered(body, np.arange(rows), key(round))
            assert torch.equal(receiver.receive(body, np.arange(rows), key(round)), expected)
            assert _same(sender.state_dict(), receiver.state_dict())


def test_a_body_is_a_code_if_it_is_what_encoding_gives() -> None:
    generator = np.random.default_rng(0)
    told = 0
    for seed in range(2000):
        body = generator.bytes(int(generator.integers(0, 9)))
        shape, alphabet = (int(generator.integers(1, 6)), 3), int(generator.integers(2, 7))
        ranks = mixing.decode(body, shape, alphabet, mixing.fresh(3))
        if ranks is None:
            continue
        told += 1
        assert mixing.encode(ranks, alphabet, mixing.fresh(3), len(body)) == body, seed
        if body:
            assert mixing.encode(ranks, alphabet, mixing.fresh(3), len(body) - 1) is None
    assert told > 100
    for _ in range(300):
        ranks = generator.integers(0, 5, size=(4, 3)).astype(np.uint16)
        body = mixing.encode(ranks, 5, mixing.fresh(3), 100)
        assert body is not None
        assert (mixing.decode(body, (4, 3), 5, mixing.fresh(3)) == ranks).all()
        for other in (body + b"\0", body + b"\1", body[:-1], body[:-1] + bytes([body[-1] ^ 1])):
            again = mixing.decode(other, (4, 3), 5, mixing.fresh(3))
            assert again is None or not (again == ranks).all()


def _same(one, other) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_what_components_tell_of_each_other() -> None:
    # Each row is one number, sixteen times: after a while fifteen of them cost next to nothing.
    sender, _ = ends(WHOLE, 16)
    direct = Direct(Entropy(WHOLE)).sender(1000, 16, "bank")
    generator = torch.Generator().manual_seed(0)
    rows, learned, told = np.arange(256), [], []
    for round in range(60):
        x = torch.randint(0, 2, (256, 1), generator=generator).float().expand(256, 16)
        learned.append(len(sender.send(x, rows, key(round))))
        told.append(len(direct.send(x, rows, key(round))))
    assert min(told) > 0.95 * 256 * 16 / 8
    assert learned[0] > 3 * learned[-1]
    assert 256 / 8 <= np.mean(learned[-20:]) < 3 * 256 / 8


def test_it_is_near_the_entropy_of_independent_symbols() -> None:
    # Nothing to learn but frequencies: .1, .2 and .7 have 1.157 bits.
    sender, _ = ends(WHOLE, 8)
    generator = np.random.default_rng(0)
    rows, sizes = np.arange(512), []
    for round in range(40):
        x = generator.choice([0.0, 1.0, 2.0], p=[0.7, 0.2, 0.1], size=(512, 8))
        sizes.append(len(sender.send(torch.tensor(x, dtype=torch.float32), rows, key(round))))
    entropy = -(0.7 * np.log2(0.7) + 0.2 * np.log2(0.2) + 0.1 * np.log2(0.1)) * 512 * 8 / 8
    assert entropy < np.mean(sizes[-20:]) < 1.06 * entropy


def test_it_follows_what_changes() -> None:
    sender, _ = ends(WHOLE, 4)
    rows, sizes = np.arange(512), []
    for round in range(40):
        x = torch.full((512, 4), 1.0 if round < 20 else 7.0)
        sizes.append(len(sender.send(x, rows, key(round))))
    assert sizes[19] < 0.2 * sizes[20]
    assert sizes[39] < 0.2 * sizes[20]


def test_an_end_goes_on_from_its_state() -> None:
    xs, rows = stream(6, 32, 8), np.arange(32)
    whole, _ = ends(WHOLE, 8)
    bodies = [whole.send(x, rows, key(t)) for t, x in enumerate(xs)]
    first, _ = ends(WHOLE, 8)
    for t in range(3):
        first.send(xs[t], rows, key(t))
    state = {name: value.clone() for name, value in first.state_dict().items()}
    first.send(xs[0], rows, key(9))  # what comes after does not change what was kept
    second, _ = ends(WHOLE, 8)
    second.load_state_dict(state)
    assert [second.send(xs[t], rows, key(t)) for t in range(3, 6)] == bodies[3:]


def test_frozen_bytes_still_decode() -> None:
    _, receiver = ends(WHOLE, 3)
    few = torch.tensor([[0.0, 2.0, 1.0], [5.0, 0.0, 0.0], [-3.0, 16.0, 0.0], [0.0, 1.0, 0.0]])
    x = few.repeat(6, 1)
    body = bytes.fromhex(FROZEN)
    assert ends(WHOLE, 3)[0].send(x, np.arange(24), key(0)) == body
    assert torch.equal(receiver.receive(body, np.arange(24), key(0)), x)


FROZEN = "014604e804a0f8a66502e4d1013d4bdd561659da31bd593e5fbbcdd4cadde1fe9700c0fa01d196"


@settings(max_examples=150)
@given(body=st.binary(max_size=60), rows=st.integers(1, 20))
def test_any_bytes_are_a_message_or_refused(body, rows) -> None:
    _, receiver = ends(WHOLE, 4)
    try:
        values = receiver.receive(body, np.arange(rows), key(0))
    except RemoteProtocolError:
        return
    assert values.shape == (rows, 4)
    assert torch.isfinite(values).all()
    assert (values == values.round()).all()
    assert -15 <= values.min() <= values.max() <= 16


def test_bodies_that_go_on_are_refused() -> None:
    x, rows = stream(1, 32, 8)[0], np.arange(32)
    body = ends(WHOLE, 8)[0].send(x, rows, key(0))
    for longer in (body + b"\0", body + b"\1", body + bytes(range(1, 40)), b"", b"\2" + body[1:]):
        with pytest.raises(RemoteProtocolError):
            ends(WHOLE, 8)[1].receive(longer, rows, key(0))


def test_the_table_is_far_from_where_libraries_differ() -> None:
    # exp() may differ in the last bit from machine to machine; no entry hangs on it.
    logits = np.arange(-192, 193) / 16
    exact = 65536 / (1 + np.exp(-logits))
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-6
    table = mixing.squash_table()
    assert (np.diff(table) >= 0).all()
    assert (table + table[::-1] == 65536).all()


def test_what_it_needs_is_said() -> None:
    assert LearnedEntropy(WHOLE).delivery is Delivery.EVERY_IN_ORDER
    assert not LearnedEntropy(WHOLE).fixed_size
    assert LearnedEntropy(WHOLE).bytes_remembered(10**6, 16) == 4 * 16 * 4 * 17 + 8 * 32
    with pytest.raises(ConfigurationError, match="needs a codec with symbols"):
        LearnedEntropy(TopK(0.1))
    with pytest.raises(ConfigurationError, match="up to 1024 columns"):
        LearnedEntropy(WHOLE).sender(10, 2000, "bank")
    # A body of no byte may be all of the last rank, in columns^2 x symbols steps a row.
    for bits, columns in ((1, 1024), (3, 1024), (5, 520), (8, 181)):
        LearnedEntropy(Scalar(bits)).receiver(10, columns, "bank")
    for bits, columns in ((5, 521), (8, 182)):
        with pytest.raises(ConfigurationError, match=f"up to {columns - 1} columns of {2**bits}"):
            LearnedEntropy(Scalar(bits)).receiver(10, columns, "bank")


def test_lean_evaluates_its_codes_unless_told_otherwise() -> None:
    assert isinstance(lean().uplink.held_out.codec, Entropy)
    assert lean(held_out="exact").uplink.held_out == Direct()
    with pytest.raises(ConfigurationError, match="'codes' or 'exact'"):
        lean(held_out="float")
