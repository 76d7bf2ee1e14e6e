"""Philox against its published answers, what streams and permutations promise, unaligned words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from colonnade.kernels import binomial, lattice, scalar
from colonnade.kernels.philox import fill_words, permutation, uniform_words
from colonnade.kernels.unaligned import load_word, store_word
from colonnade.streams import StreamKey

KEY = StreamKey(seed=1, origin="bank", purpose="training/batches", round=2)
WORDS = st.integers(0, 2**64 - 1)

# kat_vectors of Random123: philox4x32 with 10 rounds; counter, key, result
KNOWN_ANSWERS = [
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def joined(low: int, high: int) -> int:
    return low | high << 32


def split(word: int) -> tuple[int, int]:
    return word % 2**32, word >> 32


@njit
def fill(words, first, upper, key):
    fill_words(words, first, upper, key)


def blocks(first: int, upper: int, key: int, count: int = 4) -> list[int]:
    words = np.zeros(count, dtype=np.uint64)
    fill(words, np.uint64(first), np.uint64(upper), np.uint64(key))
    return words.tolist()


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, ...]:
    """Philox4x32-10, in Python's integers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, answer):
    words = blocks(joined(*counter[:2]), joined(*counter[2:]), joined(*key))
    assert (*split(words[0]), *split(words[1])) == answer
    assert philox(counter, key) == answer


@given(WORDS, WORDS, WORDS, st.sampled_from([4, 8, 12]))
def test_blocks_follow_one_another(first, upper, key, count):
    """Whatever the block: a carry goes into the second word, and after the last comes the first."""
    expected = []
    for block in range(first, first + count // 2):
        r0, r1, r2, r3 = philox((*split(block % 2**64), *split(upper)), split(key))
        expected += [joined(r0, r1), joined(r2, r3)]
    assert blocks(first, upper, key, count) == expected


@pytest.mark.parametrize("first", [2**32 - 2, 2**32 - 1, 2**64 - 1])
def test_blocks_carry(first):
    start = blocks((first + 1) % 2**64, 3, 4)
    assert blocks(first, 3, 4)[2:] == start[:2]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 99, 1000])
def test_a_stream_starts_with_every_shorter_one(count):
    words = uniform_words(KEY, count)
    assert words.dtype == np.uint64
    assert words.shape == (count,)
    assert words.tolist() == uniform_words(KEY, 1003)[:count].tolist()
    key, upper = KEY.words()
    assert words.tolist() == blocks(0, upper, key, 1004)[:count]


def test_streams_of_different_keys_differ():
    changes = {
        "seed": 2,
        "origin": "shop",
        "purpose": "training/embedding",
        "round": 3,
        "part": 1,
    }
    keys = [KEY, *(dataclasses.replace(KEY, **{name: to}) for name, to in changes.items())]
    words = np.concatenate([uniform_words(key, 1000) for key in keys])
    assert len(np.unique(words)) == 1000 * len(keys)
    assert len({tuple(permutation(key, 20).tolist()) for key in keys}) == len(keys)


def test_words_are_uniform():
    """Every bit is one half the time, every byte takes its values equally often: 5 sigma."""
    words = uniform_words(KEY, 2**16)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    assert np.abs(ones - 2**15).max() < 5 * np.sqrt(2**14)
    for position in range(8):
        assert chi_square(words.view(np.uint8)[position::8], 256) < limit(255)


def chi_square(values: NDArray[np.integer], kinds: int) -> float:
    expected = len(values) / kinds
    return float(((np.bincount(values, minlength=kinds) - expected) ** 2 / expected).sum())


def limit(freedom: int) -> float:
    """Return where Wilson and Hilferty's approximation of chi-square has its 5 sigma."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 5 * spread**0.5) ** 3


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))
def test_a_permutation_has_everything_once(seed, count):
    order = permutation(dataclasses.replace(KEY, seed=seed), count)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(count))
    assert order.tolist() == permutation(dataclasses.replace(KEY, seed=seed), count).tolist()


def test_every_order_is_as_likely_as_any_other():
    count, draws = 4, 12_000
    orders = np.array([permutation(dataclasses.replace(KEY, round=r), count) for r in range(draws)])
    numbers = orders @ count ** np.arange(count)
    seen, which = np.unique(numbers, return_inverse=True)
    assert len(seen) == 24
    assert chi_square(which, 24) < limit(23)


def test_every_element_is_as_likely_in_any_position():
    orders = np.array([permutation(dataclasses.replace(KEY, part=p), 37) for p in range(5000)])
    for position in range(37):
        assert chi_square(orders[:, position], 37) < limit(36)


def test_frozen_stream():
    """Batches of a run that is resumed elsewhere, or later, are the same."""
    assert KEY.words() == FROZEN_KEY
    assert uniform_words(KEY, 5).tolist() == FROZEN_WORDS
    assert permutation(KEY, 10).tolist() == FROZEN_PERMUTATION


FROZEN_KEY = (0x6647996EFD08419A, 0x2E93AB3EF732D4B6)
FROZEN_WORDS = [
    0x88D4F4F6AA9849AD,
    0x49465B0C899C9767,
    0x1FFD1ED883504D96,
    0xBDD82A85C8B4498F,
    0x120FE24ABCF35842,
]
FROZEN_PERMUTATION = [4, 2, 8, 1, 0, 9, 3, 6, 5, 7]


@njit
def load(body, offset):
    return load_word(body, offset)


@njit
def store(body, offset, word):
    store_word(body, offset, word)


@given(WORDS, st.integers(0, 24), st.integers(0, 7))
def test_a_word_is_written_and_read_at_any_byte(word, offset, shift):
    memory = np.full(48, 0xA5, dtype=np.uint8)
    body = memory[shift : shift + 32]  # an array need not start where words do
    store(body, offset, np.uint64(word))
    expected = bytearray(b"\xa5" * 48)
    expected[shift + offset : shift + offset + 8] = word.to_bytes(8, "little")
    assert memory.tobytes() == expected
    assert int(load(body, offset)) == word


def test_a_word_is_read_from_memory_that_cannot_be_written():
    body = np.frombuffer(bytes(range(16)), dtype=np.uint8)
    assert [int(load(body, offset)) for offset in range(9)] == [
        int.from_bytes(bytes(range(offset, offset + 8)), "little") for offset in range(9)
    ]


@pytest.mark.parametrize(
    ("make", "constant"),
    [(binomial._make, np.uint16), (scalar._make, True), (lattice._make, False)],
    ids=["binomial", "scalar", "lattice"],
)
def test_a_kernel_made_for_a_constant_is_compiled_once_for_all_processes(make, constant):
    """Numba's cache knows a closure by what it closes over, which has to be the same each time."""

    def keys():
        made = make(constant)
        kernels = made if isinstance(made, tuple) else (made,)
        codegen = cpu_target.target_context.codegen()
        return [kernel._cache._index_key((), codegen) for kernel in kernels]

    assert keys() == keys()
