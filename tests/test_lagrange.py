"""Lagrange coding: exact for every subset of answers, and blind for every T holders."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import (
    ConfigurationError,
    LocalProtocolError,
    RemoteProtocolError,
    TooFewAnswers,
)
from colonnade.kernels.mersenne import products
from colonnade.secure import Field, Keystream, LagrangeCode

FIELDS = [Field(31), Field(61)]
by_field = pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.bits} bits")


def drawn(field, shape, key=0):
    return field.uniform(shape, Keystream(bytes([key] * 16)))


def exact(a, b, prime):
    """The product of two matrices by Python's own whole numbers."""
    product = a.astype(object) @ b.astype(object)
    return product % prime


# The field


@by_field
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (2, 7, 1), (5, 3, 1025), (4, 100, 9)])
def test_products_are_those_of_whole_numbers(field, shape):
    n, k, m = shape
    a, b = drawn(field, (n, k), 1), drawn(field, (k, m), 2)
    found = products(a, b)
    assert found.dtype == field.dtype
    assert (found == exact(a, b, field.prime)).all()


@by_field
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 50])
def test_products_of_the_largest_elements_are_exact(field, inner):
    """Where a sum of products overflowed it would be here."""
    a = np.full((3, inner), field.prime - 1, field.dtype)
    assert (products(a, a.T) == inner % field.prime).all()  # (-1)(-1), so often


@by_field
def test_products_of_slices_and_of_nothing(field):
    a, b = drawn(field, (8, 12), 1), drawn(field, (12, 8), 2)
    assert (
        products(a[::2, ::3], b[::3, ::2]) == exact(a[::2, ::3], b[::3, ::2], field.prime)
    ).all()
    assert products(a[:, :0], b[:0]).tolist() == [[0] * 8] * 8
    assert products(a[:0], b).shape == (0, 8)


@by_field
@given(st.data())
def test_numbers_come_back(field, data):
    number = data.draw(st.integers(-field.largest, field.largest))
    element = field.elements(np.array([number]))
    assert element.item() == number % field.prime
    assert field.numbers(element).item() == number


@by_field
def test_elements_come_back_from_bytes(field):
    elements = drawn(field, (3, 4))
    body = field.packed(elements)
    assert len(body) == field.bytes_of((3, 4)) == 12 * field.dtype.itemsize
    assert (field.unpacked(body, (3, 4), "it") == elements).all()
    assert field.unpacked(body, (3, 4), "it").flags.writeable


@by_field
def test_what_is_no_element_is_refused(field):
    wrong = np.array([1, field.prime], field.dtype)
    with pytest.raises(
        RemoteProtocolError, match=f"of 'bank' has what is no element modulo {field.prime}"
    ):
        field.unpacked(wrong.tobytes(), (2,), "the answer of 'bank'")
    with pytest.raises(RemoteProtocolError, match=r"it has 5 bytes, expected \d+"):
        field.unpacked(bytes(5), (2,), "it")


def test_there_are_two_fields():
    with pytest.raises(ConfigurationError, match="field has 32 bits"):
        Field(32)


class Counting:
    """A source of bytes that are told."""

    def __init__(self, words):
        self.words = list(words)

    def fill(self, words):
        for i in range(words.size):
            words.reshape(-1)[i] = self.words.pop(0)


@by_field
def test_the_word_that_is_no_element_is_drawn_again(field):
    top = np.iinfo(field.dtype).max - field.prime  # bits above the element
    noise = Counting([field.prime, top + 5, field.prime + top + 0, 7, field.prime, 9])
    assert field.uniform((3,), noise).tolist() == [7, 5, 9]


def test_elements_are_uniform():
    """In 64 bins, a million: chi-square with 63 degrees, one run in 10^6 beyond 126."""
    counts = np.bincount(drawn(Field(31), (2**20,)) >> 25, minlength=64)
    assert ((counts - 2**14) ** 2 / 2**14).sum() < 126


# The code


def products_of(data, weights):
    """What a holder answers: the product of its share of data and of weights."""
    return {n: products(x, w) for n, (x, w) in enumerate(zip(data, weights, strict=True))}


CODES = [
    LagrangeCode(holders, segments, masks)
    for holders in range(3, 9)
    for segments in range(1, 4)
    for masks in range(1, 4)
    if 2 * (segments + masks - 1) + 1 <= holders
]


@by_field
@pytest.mark.parametrize("code", CODES, ids=lambda c: f"{c.holders}-{c.segments}-{c.masks}")
def test_every_subset_of_enough_answers_tells_the_products(code, field):
    code = LagrangeCode(code.holders, code.segments, code.masks, field)
    x, w = drawn(field, (code.segments, 4, 3), 1), drawn(field, (3, 2), 2)
    data = code.encoded(x, drawn(field, (code.masks, 4, 3), 3))
    weights = code.repeated(w, drawn(field, (code.masks, 3, 2), 4))
    answers = products_of(data, weights)
    expected = np.stack([exact(segment, w, field.prime) for segment in x])
    for size in range(code.needed, code.holders + 1):
        for subset in itertools.combinations(answers, size):
            found = code.decoded({n: answers[n] for n in subset}, "the products")
            assert (found == expected).all()
    for subset in itertools.combinations(answers, code.needed - 1):
        with pytest.raises(TooFewAnswers, match=f"{code.needed - 1} answers came of the products"):
            code.decoded({n: answers[n] for n in subset}, "the products")


@pytest.mark.parametrize(("segments", "masks"), [(1, 1), (4, 2), (10, 1), (12, 2), (1, 13)])
def test_28_holders(segments, masks):
    field, rng = Field(31), np.random.default_rng(segments)
    code = LagrangeCode(28, segments, masks)
    x, w = drawn(field, (segments, 5, 28), 1), drawn(field, (28, 4), 2)
    data = code.encoded(x, drawn(field, (masks, 5, 28), 3))
    answers = products_of(data, code.repeated(w, drawn(field, (masks, 28, 4), 4)))
    expected = np.stack([exact(segment, w, field.prime) for segment in x])
    for _ in range(20):
        subset = rng.permutation(28)[: code.needed].tolist()
        assert (code.decoded({n: answers[n] for n in subset}, "products") == expected).all()


def test_repeated_data_are_the_same_in_every_segment():
    field, code = Field(31), LagrangeCode(7, 2, 2)
    w, masks = drawn(field, (3, 2), 1), drawn(field, (2, 3, 2), 2)
    assert (code.repeated(w, masks) == code.encoded(np.stack([w, w]), masks)).all()


@by_field
@pytest.mark.parametrize("code", [*CODES, LagrangeCode(28, 10, 4), LagrangeCode(28, 1, 13)])
def test_the_masks_of_any_holders_are_mixed_invertibly(code, field):
    """So T shares are uniform: an invertible matrix times uniform masks, plus what data add."""
    code = LagrangeCode(code.holders, code.segments, code.masks, field)
    mixing = code._weights()[:, code.segments :]
    subsets = itertools.combinations(range(code.holders), code.masks)
    for subset in itertools.islice(subsets, 300):
        assert rank(mixing[list(subset)], field.prime) == code.masks


def rank(matrix, prime):
    """The rank modulo a prime, by elimination."""
    rows, found = [[int(v) for v in row] for row in matrix], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        inverse = pow(rows[found][column], -1, prime)
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] * inverse % prime
            rows[i] = [(a - factor * b) % prime for a, b in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def test_two_shares_are_uniform_whatever_the_data():
    """Exhaustively, modulo 11: all masks, every pair of holders, every pair of segments.

    The weights are those of the code's definition, in a field that is small enough to go through.
    """
    prime, anchors, points = 11, (1, 2, 3, 4), (5, 6, 7)  # K = T = 2, N = 3

    def weight(j, at):
        above = below = 1
        for other in anchors:
            if other != anchors[j]:
                above, below = above * (at - other), below * (anchors[j] - other)
        return above * pow(below, -1, prime) % prime

    for one, two in itertools.combinations(points, 2):
        seen = set()
        for x in [(0, 0), (3, 10), (7, 7)]:
            shares = {
                tuple(
                    sum(weight(j, at) * v for j, v in enumerate((*x, *masks))) % prime
                    for at in (one, two)
                )
                for masks in itertools.product(range(prime), repeat=2)
            }
            assert len(shares) == prime**2  # each pair comes of masks of its own: all as likely
            seen.add(frozenset(shares))
        assert len(seen) == 1


def test_the_codes_weights_are_lagranges():
    """As above, by the definition, so that what is exhausted there is what is used."""
    code, prime = LagrangeCode(3, 1, 1), Field(31).prime
    # At alpha = 3, 4, 5, of values at 1 and 2: (z - 2) / (1 - 2) and (z - 1) / (2 - 1).
    expected = [[(2 - z) % prime, z - 1] for z in (3, 4, 5)]
    assert code._weights().tolist() == expected
    assert (code.anchors, code.points) == ((1, 2), (3, 4, 5))


@pytest.mark.parametrize("code", CODES)
def test_no_two_points_are_one(code):
    assert len({*code.anchors, *code.points}) == code.segments + code.masks + code.holders


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(LagrangeCode, 4, 2, 1), "2 segments behind 1 masks take the answers of 5 holders"),
        (partial(LagrangeCode, 4, 2, 1), r"so that K \+ T is 2 at most"),
        (partial(LagrangeCode, 2, 1, 1), r"answers of 3 holders .* K \+ T is 1 at most"),
        (partial(LagrangeCode, 9, 0, 1), "segments is 0"),
        (partial(LagrangeCode, 9, 1, 0), "masks is 0"),
        (partial(LagrangeCode, 9, 1.5, 1), "segments is 1.5"),
        (partial(LagrangeCode, 9, True, 1), "segments is True"),
    ],
)
def test_codes_that_cannot_be_are_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_answers_that_do_not_belong_are_refused():
    code, answer = LagrangeCode(5, 2, 1), np.zeros((2, 3), np.uint32)
    with pytest.raises(RemoteProtocolError, match="no holder 5 of the sums"):
        code.decoded(dict.fromkeys(range(6), answer), "the sums")
    answers = dict.fromkeys(range(4), answer) | {4: answer[:1]}
    with pytest.raises(RemoteProtocolError, match=r"holder 4 to the sums is \(1, 3\), expected"):
        code.decoded(answers, "the sums")


def test_segments_and_masks_are_counted():
    code, one = LagrangeCode(5, 2, 1), np.zeros((1, 3), np.uint32)
    with pytest.raises(LocalProtocolError, match="1 segments and 1 masks"):
        code.encoded(one, one)
    with pytest.raises(LocalProtocolError, match="2 masks came"):
        code.repeated(one[0], np.zeros((2, 3), np.uint32))
