"""Supports: which places are taken comes back, in no more bytes than the number of choices asks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colonnade.codecs import TopK
from colonnade.codecs.support import decode_support, encode_support, support_bytes_at_most
from colonnade.errors import RemoteProtocolError
from colonnade.kernels.gaps import decode_gaps, encode_gaps, gaps_bytes_at_most
from colonnade.kernels.ranks import decode_ranks, encode_ranks, ranks_bytes, table_of
from colonnade.testing.codecs import KEY

Places = NDArray[np.int64]
RANKS, GAPS, BITMAP = 1, 2, 3  # what the first byte says


def choices_bytes(places: int, count: int) -> float:
    """Return log2 C(n, k) in bytes."""
    ln = math.lgamma(places + 1) - math.lgamma(count + 1) - math.lgamma(places - count + 1)
    return ln / math.log(2) / 8


def at_random(places: int, count: int) -> Places:
    return np.sort(np.random.default_rng(count).choice(places, count, replace=False))


def in_runs(places: int, count: int) -> Places:
    """Runs of sixteen, equally far apart."""
    runs = -(-count // 16)
    starts = np.arange(runs) * (places // runs)
    return (starts[:, None] + np.arange(16)).reshape(-1)[:count]


def in_two_densities(places: int, count: int) -> Places:
    half, most = places // 2, min(places // 2, count - count // 4)
    first = np.arange(most) * half // most
    rest = half + np.arange(count - most) * (places - half) // max(1, count - most)
    return np.append(first, rest)


PATTERNS: dict[str, Callable[[int, int], Places]] = {
    "at random": at_random,
    "in runs": in_runs,
    "evenly spaced": lambda places, count: np.arange(count) * places // count,
    "evenly spaced to the end": lambda places, count: (np.arange(count) + 1) * places // count - 1,
    "the first": lambda places, count: np.arange(count),
    "the last": lambda places, count: np.arange(places - count, places),
    "mostly in the first half": in_two_densities,
}


def there_and_back(indices: Places, places: int, groups: int = 1) -> bytes:
    """Return the code, having seen it decode within its bound."""
    body = encode_support(indices, places, groups)
    assert len(body) <= support_bytes_at_most(len(indices), places, groups)
    decoded, used = decode_support(memoryview(body + b"more"), len(indices), places, groups)
    assert used == len(body)
    if len(indices) == places:
        assert decoded is None
    else:
        assert decoded is not None
        assert decoded.dtype == np.int64
        assert decoded.tolist() == indices.tolist()
    return body


@given(st.integers(1, 3000), st.data())
def test_supports_come_back(places, data):
    count = data.draw(st.integers(1, places))
    seed = data.draw(st.integers(0, 99))
    there_and_back(
        np.sort(np.random.default_rng(seed).choice(places, count, replace=False)), places
    )


@given(st.integers(1, 60), st.integers(1, 90), st.data())
def test_supports_of_groups_come_back(groups, width, data):
    count, seed = data.draw(st.integers(1, width)), data.draw(st.integers(0, 99))
    order = np.random.default_rng(seed).random((groups, width)).argsort(axis=1)
    each = np.sort(order[:, :count], axis=1) + width * np.arange(groups)[:, None]
    there_and_back(each.reshape(-1), groups * width, groups)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("places", [2048, 65_536, 1_048_576])
@pytest.mark.parametrize(
    "share", [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 0.99]
)
def test_a_support_takes_what_the_number_of_choices_asks(pattern, places, share):
    """Whatever is taken: within 3 % and 2 bytes of log2 C(n, k)."""
    count = int(places * share)
    body = there_and_back(PATTERNS[pattern](places, count), places)
    assert len(body) <= 1.03 * choices_bytes(places, count) + 2
    assert support_bytes_at_most(count, places) <= 1.04 * choices_bytes(places, count) + 4


@pytest.mark.parametrize(
    ("width", "count"),
    [
        *((2, 1), (10, 1), (16, 1), (16, 3), (64, 1), (64, 32), (256, 2), (256, 25), (256, 77)),
        *((1000, 1), (1000, 10), (4096, 4), (4096, 409), (5000, 50)),
    ],
)
@pytest.mark.parametrize("taken", ["at random", "the first", "the last", "one more in each row"])
def test_rows_take_what_their_choices_ask(width, count, taken):
    """The number of places in each row is known, and not paid for."""
    rows = 128
    match taken:
        case "at random":
            order = np.random.default_rng(width).random((rows, width)).argsort(axis=1)
            each = np.sort(order[:, :count], axis=1)
        case "the first":
            each = np.tile(np.arange(count), (rows, 1))
        case "the last":
            each = np.tile(np.arange(width - count, width), (rows, 1))
        case _:
            shifted = (np.arange(rows)[:, None] + np.arange(count)) % width
            each = np.sort(shifted, axis=1)
    indices = (each + width * np.arange(rows)[:, None]).reshape(-1)
    body = there_and_back(indices, rows * width, rows)
    assert len(body) <= 1.03 * rows * choices_bytes(width, count) + 2


def test_the_largest_of_each_row_is_told_in_eight_bits_of_256():
    x = np.random.default_rng(0).standard_normal((4096, 256), dtype=np.float32)
    body = TopK(1 / 256, "row").encode(torch.from_numpy(x), KEY)
    assert len(body) == 1 + 4096 + 4 * 4096


@pytest.mark.parametrize("places", range(2, 12))
def test_every_choice_has_a_number(places):
    """As many codes as choices, all of one size, and no bytes beside them are a code.

    Of codes of two bytes every 29th is tried.
    """
    for count in range(1, places):
        size = -(-(math.comb(places, count) - 1).bit_length() // 8)
        bodies = {
            there_and_back(np.array(taken), places)
            for taken in itertools.combinations(range(places), count)
        }
        assert {len(body) for body in bodies} == {1 + size}
        for number in range(0, 256**size, 1 if size == 1 else 29):
            body = bytes([RANKS]) + number.to_bytes(size, "little")
            if body in bodies:
                continue
            with pytest.raises(RemoteProtocolError, match="the number of no choice"):
                decode_support(memoryview(body), count, places)


@given(
    st.integers(1, 40),
    st.integers(2, 300),
    st.data(),
)
def test_ranks_are_sums_of_binomials(groups, width, data):
    count = data.draw(st.integers(1, min(width - 1, 40)))
    choices = math.comb(width, count)
    ranks = table_of(count, width, choices)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    taken = np.sort(random.random((groups, width)).argsort(axis=1)[:, :count], axis=1)
    body = encode_ranks(taken, ranks)
    assert len(body) == ranks_bytes(ranks, groups)
    if groups == 1:
        rank = sum(math.comb(int(i), j + 1) for j, i in enumerate(taken[0]))
        words = 2 * ranks.words
        assert int.from_bytes(body[:words], "little") == rank % 256**words
        assert int.from_bytes(body[words:], "little") == rank >> 8 * words
    exact = groups * math.log2(choices)
    assert exact <= 8 * len(body) < exact * (1 + 2**-14) + 8
    found = decode_ranks(np.frombuffer(body + b"more", np.uint8), ranks, groups)
    assert found is not None
    assert found[1] == len(body)
    assert (found[0] == taken).all()


@given(st.integers(2, 5000), st.data())
def test_gaps_take_the_entropy_of_a_bit_for_each_place(places, data):
    count = data.draw(st.integers(1, places // 2))
    taken = PATTERNS[data.draw(st.sampled_from(["at random", "the first", "the last"]))](
        places, count
    )
    body = encode_gaps(taken, places)
    p = count / places
    entropy = places * (p * -math.log2(p) + (1 - p) * -math.log2(1 - p)) / 8
    assert len(body) <= min(gaps_bytes_at_most(count, places), 1.02 * entropy + 2)
    found = decode_gaps(np.frombuffer(body + b"more", np.uint8), count, places)
    assert found is not None
    assert found[1] == len(body)
    assert (found[0] == taken).all()
    cut = decode_gaps(np.frombuffer(body[:-1], np.uint8), count, places)
    assert cut is None or encode_gaps(cut[0], places) == body[: cut[1]]


@given(st.binary(max_size=40), st.integers(2, 2000), st.data())
@settings(max_examples=500)
def test_any_bytes_are_the_gaps_of_one_support_or_of_none(body, places, data):
    count = data.draw(st.integers(1, places // 2))
    found = decode_gaps(np.frombuffer(body, np.uint8), count, places)
    if found is not None:
        indices, used = found
        assert indices[0] >= 0
        assert indices[-1] < places
        assert (np.diff(indices) > 0).all()
        assert encode_gaps(indices, places) == body[:used]


@given(st.binary(max_size=60), st.integers(1, 40), st.integers(1, 60), st.data())
@settings(max_examples=1000)
def test_any_bytes_are_a_support_or_refused(body, groups, width, data):
    count = data.draw(st.integers(1, width))
    code = data.draw(st.sampled_from([None, RANKS, GAPS, BITMAP]))
    body = body if code is None else bytes([code]) + body
    try:
        indices, used = decode_support(memoryview(body), groups * count, groups * width, groups)
    except RemoteProtocolError:
        return
    assert used <= len(body)
    if indices is not None:
        assert (np.diff(indices) > 0).all()
        rows = indices.reshape(groups, count) // width
        assert (rows == np.arange(groups)[:, None]).all()
        if body[0] == RANKS:
            assert encode_support(indices, groups * width, groups) == body[:used]


@pytest.mark.parametrize(
    ("pattern", "places", "count", "code"),
    [
        ("at random", 600, 300, BITMAP),
        ("at random", 3000, 300, GAPS),
        ("at random", 3000, 2700, GAPS),
    ],
)
def test_a_damaged_support_is_refused_or_another(pattern, places, count, code):
    indices = PATTERNS[pattern](places, count)
    body = encode_support(indices, places)
    assert body[0] == code
    for bit in range(8, 8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            decoded, _ = decode_support(memoryview(bytes(flipped)), count, places)
        except RemoteProtocolError:
            continue
        assert decoded is not None
        assert decoded.tolist() != indices.tolist()
    for size in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            decode_support(memoryview(body[:size]), count, places)


def test_a_row_with_more_than_another_is_refused():
    groups, width, count = 4, 3000, 300
    each = np.arange(0, groups * width, width // count)
    body = encode_support(each, groups * width, groups)
    assert body[0] == GAPS
    moved = encode_support(np.append(each[1:], groups * width - 1), groups * width, groups)
    assert decode_support(memoryview(body), len(each), groups * width, groups)[1] == len(body)
    with pytest.raises(RemoteProtocolError, match="more places of one group than of others"):
        decode_support(memoryview(moved), len(each), groups * width, groups)


@pytest.mark.parametrize(
    ("body", "count", "places", "why"),
    [
        (b"", 1, 2, "is empty"),
        (b"\4\0", 1, 2, "there is no code 4"),
        (b"\0", 1, 2, "not of 1 of 2 places"),
        (b"\1\0", 2, 2, "not of 2 of 2 places"),
        (b"\2\0\0", 1, 2, "have another code"),
        (b"\1" + bytes(200), 500, 2000, "have another code"),
        (b"\1\2", 1, 2, "the number of no choice"),
        (b"\2" + bytes(20), 500, 2000, "no encoder's"),
        (b"\3" + bytes(20), 500, 2000, "20 bytes are no bitmap of 2000 places"),
        (b"\3" + bytes(250), 500, 2000, "takes 0 places in place of 500"),
        (b"\3" + bytes(250) + b"\x80", 500, 2001, "fill up its last byte"),
        (b"\2" + bytes(99), 2**50, 2**60, "no encoder's"),
        (b"\3" + bytes(99), 2**50, 2**60, "no bitmap"),
    ],
)
def test_what_is_no_support_is_refused(body, count, places, why):
    with pytest.raises(RemoteProtocolError, match=why):
        decode_support(memoryview(body), count, places)


def test_codes_are_what_they_were():
    """Another release must still read them."""
    assert encode_support(np.array([5, 900, 1000]), 1024).hex() == "0123aeed09"
    body = encode_support(np.arange(300) * 10, 3000)
    assert (len(body), body[:8].hex()) == (177, "021050b941de5901")
    rows = np.arange(64) * 16 + np.arange(64) % 16
    sixteen = bytes.fromhex("7856bc9af0de3412")
    last = bytes.fromhex("7856bc9aef4d2301")
    assert encode_support(rows, 1024, 64) == b"\1" + 3 * sixteen + last
