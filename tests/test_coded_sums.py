"""Coded sums, in bytes: exact for every subset of answers, and strict about foreign bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import OutOfRange, RemoteProtocolError, TooFewAnswers
from colonnade.secure import (
    CodedHolder,
    CodedParty,
    CodedSums,
    Field,
    LagrangeCode,
    Quantised,
    Secrets,
    coded_sums,
)
from colonnade.secure.coded_sums import Instant

HOLDER, WIDTH, ROWS = "holder", 3, 4
EVERY = np.arange(ROWS)
NOW, NEXT = Instant(0, "training", 0), Instant(1, "training", 0)


class Sum:
    """All ends of coded sums, introduced to each other, and what they shared."""

    def __init__(
        self, parties=5, segments=1, colluders=1, bits=31, start=0, identities=None, zero=False
    ):
        self.names = tuple(f"party_{n}" for n in range(parties))
        field = Field(bits)
        self.secrets = {name: Secrets(name.encode().ljust(32)) for name in self.names}
        self.sums = CodedSums(
            self.names,
            HOLDER,
            LagrangeCode(parties, segments, colluders, field),
            Quantised(4, 4, field),
            {name: 2 + n for n, name in enumerate(self.names)},
            WIDTH,
            identities or {},
        )
        self.ends = {
            name: CodedParty(self.sums, name, self.secrets[name].begin(name, start))
            for name in self.names
        }
        self.holder = CodedHolder(self.sums, start)
        keys = self.holder.meet({name: end.key() for name, end in self.ends.items()})
        for end in self.ends.values():
            end.meet(keys)
        draw = np.random.default_rng(segments)
        self.data = {
            name: draw.integers(-50, 50, (segments, ROWS, terms))
            for name, terms in self.sums.terms.items()
        }
        self.weights = {
            name: draw.integers(-50, 50, (terms, WIDTH)) for name, terms in self.sums.terms.items()
        }
        if zero:  # then shares are masks, times a number that is not 0
            self.data = {name: 0 * data for name, data in self.data.items()}
            self.weights = {name: 0 * weights for name, weights in self.weights.items()}
        self.sent = {name: end.share_data(self.data[name]) for name, end in self.ends.items()}
        for name, end in self.ends.items():
            for other in self.others(name):
                end.take_data(other, self.sent[other][name])
        self.share_weights(NOW)

    def others(self, name):
        return [other for other in self.names if other != name]

    def share_weights(self, instant):
        self.shares = {
            name: end.share_weights(self.weights[name], instant) for name, end in self.ends.items()
        }
        for name, end in self.ends.items():
            received = {other: self.shares[other][name] for other in self.others(name)}
            end.take_weights(received, instant)

    def answers(self, instant=NOW, coded=EVERY):
        return {
            name: end.answer([end.computed(coded[:1]), end.computed(coded[1:])], instant)
            for name, end in self.ends.items()
        }

    def plain(self, coded=EVERY):
        return sum(self.data[name][:, coded] @ self.weights[name] for name in self.names)


@pytest.mark.parametrize("bits", [31, 61])
@pytest.mark.parametrize(
    ("parties", "segments", "colluders"),
    [(3, 1, 1), (5, 2, 1), (5, 1, 2), (8, 1, 1), (8, 2, 2), (8, 3, 1)],
)
def test_every_subset_of_enough_answers_tells_the_exact_sum(parties, segments, colluders, bits):
    case = Sum(parties, segments, colluders, bits)
    answers, needed = case.answers(), case.sums.code.needed
    for count in range(needed, parties + 1):
        for chosen in itertools.combinations(case.names, count):
            told = {name: answers[name] for name in chosen}
            assert (case.holder.total(told, ROWS, NOW) == case.plain()).all()
    for chosen in itertools.combinations(case.names, needed - 1):
        with pytest.raises(TooFewAnswers, match=f"{needed - 1} answers came of round 0"):
            case.holder.total({name: answers[name] for name in chosen}, ROWS, NOW)


def test_the_sum_of_28_parties_from_random_answers():
    case, draw = Sum(28, 4, 3), np.random.default_rng(0)
    answers = case.answers()
    for _ in range(20):
        chosen = draw.permutation(28)[: case.sums.code.needed]
        told = {case.names[n]: answers[case.names[n]] for n in chosen}
        assert (case.holder.total(told, ROWS, NOW) == case.plain()).all()


@given(st.lists(st.integers(0, ROWS - 1), min_size=1, unique=True))
@settings(max_examples=20)
def test_some_coded_rows_alone(rows):
    rows = np.array(sorted(rows))
    total = CASE.holder.total(CASE.answers(coded=rows), len(rows), NOW)
    assert (total == CASE.plain(rows)).all()


CASE = Sum()


def test_sizes_are_as_they_are_said_to_be():
    case = Sum(5, 2, 1)
    for name in case.names:
        assert {len(body) for body in case.sent[name].values()} == {
            case.sums.data_bytes(name, ROWS)
        }
        assert {len(body) for body in case.shares[name].values()} == {case.sums.weights_bytes(name)}
        assert len(case.answers()[name]) == case.sums.answer_bytes(ROWS)
        assert case.ends[name].bytes_kept == 4 * ROWS * sum(case.sums.terms.values())


def test_weights_are_masked_anew_each_time_and_after_each_start():
    case, again = Sum(), Sum(start=1)
    first = case.ends["party_0"]._own_weights
    case.share_weights(NEXT)
    seen = [first, case.ends["party_0"]._own_weights, again.ends["party_0"]._own_weights]
    for one, other in itertools.combinations(seen, 2):
        assert not (one == other).any()


def refused(message, act, *args):
    with pytest.raises(RemoteProtocolError, match=message):
        act(*args)


def all_differ(*arrays):
    values = np.concatenate([array.reshape(-1) for array in arrays])
    return len(np.unique(values)) == len(values) and 0 not in values


@pytest.mark.parametrize("colluders", [1, 2])
@pytest.mark.parametrize("bits", [31, 61])
def test_every_number_is_masked_and_no_mask_is_used_twice(monkeypatch, bits, colluders):
    monkeypatch.setattr(coded_sums, "_BLOCK", 2)  # of 4 rows
    cases = [Sum(5, 1, colluders, bits, start, zero=True) for start in (0, 1)]
    moments = [Instant(0, "training", 0), Instant(1, "training", 0), Instant(0, "training", 1)]
    moments += [Instant(0, "evaluation", 0), Instant(0, "prediction", 0)]
    for place in range(5):
        masks = []
        for case in cases:
            end = case.ends[case.names[place]]
            masks.append(end._data)
            for moment in moments:
                case.share_weights(moment)
                masks.append(end._weights)
        assert all_differ(*masks)


@pytest.mark.parametrize("bits", [31, 61])
def test_two_masks_are_not_one(bits):
    """Else two parties' shares would be the same multiples of each other everywhere."""
    case = Sum(5, 1, 2, bits, zero=True)
    prime, ends = case.sums.code.field.prime, [case.ends[name] for name in case.names[:2]]
    for kept in ("_data", "_weights"):
        one, other = (getattr(end, kept).reshape(-1).astype(object) for end in ends)
        ratios = {a * pow(b, -1, prime) % prime for a, b in zip(one, other, strict=True)}
        assert len(ratios) == len(one)


def test_the_largest_number_of_any_segment_counts():
    party = Sum(5, 2, 1).ends["party_0"]
    segments = np.zeros((2, ROWS, 2), dtype=np.int64)
    segments[1, 2, 1] = 2**28
    party.share_data(segments)
    with pytest.raises(OutOfRange):
        party.share_weights(np.full((2, WIDTH), 1), NOW)


def test_answers_of_another_moment_party_or_start_are_refused():
    case, later = Sum(), Sum(start=1)
    answers = case.answers()
    refused("party_0.* belongs to another moment", case.holder.total, answers, ROWS, NEXT)
    swapped = answers | {"party_0": answers["party_1"]}
    refused("party_0.* belongs to another moment", case.holder.total, swapped, ROWS, NOW)
    old = answers | {"party_2": later.answers()["party_2"]}
    refused("party_2.* to another start", case.holder.total, old, ROWS, NOW)


def test_answers_that_are_too_long_too_short_or_of_no_element_are_refused():
    case = Sum()
    answers = case.answers()
    for size in (0, 7, len(answers["party_0"]) - 1):
        cut = answers | {"party_0": answers["party_0"][:size]}
        refused(f"has {size} bytes, expected", case.holder.total, cut, ROWS, NOW)
    longer = answers | {"party_0": answers["party_0"] + b"\0"}
    refused("expected", case.holder.total, longer, ROWS, NOW)
    beyond = answers["party_0"][:-4] + b"\xff\xff\xff\xff"
    refused("no element modulo", case.holder.total, answers | {"party_0": beyond}, ROWS, NOW)


def test_shares_for_somebody_else_of_another_moment_or_changed_do_not_open():
    case = Sum()
    end = case.ends["party_0"]
    refused("do not open", end.take_data, "party_1", case.sent["party_1"]["party_2"])
    refused("do not open", end.take_data, "party_2", case.sent["party_1"]["party_0"] + bytes(16))
    mine = {other: case.shares[other]["party_0"] for other in case.others("party_0")}
    refused("weights of 'party_1' do not open", end.take_weights, mine, NEXT)
    changed = bytearray(mine["party_3"])
    changed[0] ^= 1
    refused("party_3.* do not open", end.take_weights, mine | {"party_3": bytes(changed)}, NOW)
    short = mine | {"party_3": mine["party_3"][:-1]}
    refused("party_3.*, sealed, have", end.take_weights, short, NOW)


@given(st.binary(max_size=80))
def test_foreign_bytes_are_refused_by_name(body):
    refused("party_1", CASE.ends["party_0"].take_data, "party_1", body)
    refused("'holder' passed on", CASE.ends["party_0"].meet, body)
    told = {"party_1": body} | {name: a for name, a in CASE.answers().items() if name != "party_1"}
    refused("'party_1'", CASE.holder.total, told, ROWS, NOW)


def test_a_label_holder_cannot_put_its_keys_in_place_of_pinned_ones():
    case = Sum()
    pinned = {name: end._introduced.identity.public for name, end in case.ends.items()}
    honest = Sum(identities=pinned)
    keys = {name: end.key() for name, end in honest.ends.items()}
    false = CodedParty(honest.sums, "party_1", Secrets(b"its own".ljust(32)).begin("party_1", 0))
    together = honest.sums.introductions.passed_on(keys | {"party_1": false.key()}, 0)
    refused("party_1", honest.ends["party_0"].meet, together)


def rank(rows, prime):
    """The rank of a matrix modulo a prime, by elimination."""
    rows, found = [list(map(int, row)) for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((r for r in rows[found:] if r[column] % prime), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        scale = pow(pivot[column], -1, prime)
        pivot = [v * scale % prime for v in pivot]
        rows = [
            [(v - row[column] * w) % prime for v, w in zip(row, pivot, strict=True)]
            if place >= found
            else row
            for place, row in enumerate(rows)
        ]
        rows.insert(found, pivot)
        found += 1
    return found


def test_a_label_holder_that_a_party_helps_can_solve_for_the_data():
    """A warning that the summary gives, shown to be true: equations leave no more than a gauge.

    The middle coefficient of the answers' polynomial, in powers of (z - alpha), is the sum of
    X b + a W, in which the helping party knows a and b: so X + a M and W - M b solve it as well,
    for any matrix M of columns by columns, and nothing else does.
    """
    prime, rows, columns, width = 2**31 - 1, 8, 3, 2
    draw = np.random.default_rng(0)
    a = draw.integers(0, prime, (rows, columns))
    left = []
    for rounds in (1, 2, 3):
        unknowns = rows * columns + rounds * columns * width
        equations = []
        for t in range(rounds):
            b = draw.integers(0, prime, (columns, width))
            for r in range(rows):
                for c in range(width):
                    equation = [0] * unknowns
                    equation[r * columns : (r + 1) * columns] = b[:, c].tolist()
                    for j in range(columns):
                        place = rows * columns + (t * columns + j) * width + c
                        equation[place] = int(a[r, j])
                    equations.append(equation)
        left.append(unknowns - rank(equations, prime))
    assert left[0] < rows * columns
    assert left[1:] == [columns**2] * 2, "it does not grow with the rows"


def test_weights_that_might_wrap_are_not_shared():
    case = Sum()
    with pytest.raises(OutOfRange, match="fewer of data_bits or weight_bits"):
        case.ends["party_0"].share_weights(case.weights["party_0"] * 10**7, NEXT)
