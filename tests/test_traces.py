"""What tells that data are what they were: not their rounding, but any other number or order."""

from __future__ import annotations

import pytest
import torch

from colonnade.traces import are_alike, trace_of

GENERATOR = torch.Generator().manual_seed(3)
TABLE = torch.randn(3000, 7, generator=GENERATOR, dtype=torch.float64)
LABELS = (TABLE.sum(1) > 0).long()


def changed(data, *place, by=1):
    other = data.clone()
    other[place] += by
    return other


def swapped(data, one, another):
    order = torch.arange(len(data))
    order[[one, another]] = order[[another, one]]
    return data[order]


def test_numbers_that_were_rounded_otherwise_have_the_same_trace():
    wide = TABLE * 10.0 ** torch.arange(-3, 4)
    noise = torch.randn(TABLE.shape, generator=GENERATOR, dtype=torch.float64)
    centred = torch.cat([TABLE, 1e-16 * torch.ones(3000, 1, dtype=torch.float64)], 1)
    none = torch.cat([TABLE, torch.zeros(3000, 1, dtype=torch.float64)], 1)
    assert are_alike(trace_of(centred), trace_of(none))
    for data in (TABLE, wide, {"numbers": TABLE, "codes": LABELS}):
        columns = data if isinstance(data, dict) else {"": data}
        single = {name: each.float() if each.dim() > 1 else each for name, each in columns.items()}
        near = {
            name: each * (1 + 1e-8 * noise) if each.dim() > 1 else each
            for name, each in columns.items()
        }
        for other in (single, near):
            assert are_alike(trace_of(columns), trace_of(other))


@pytest.mark.parametrize("row", range(0, 3000, 500))
def test_one_other_number_or_two_rows_that_changed_places_have_another(row):
    for data in (TABLE, LABELS, {"a": TABLE[:, :2], "b": TABLE[:, 2:], "codes": LABELS}):
        before = trace_of(data)
        if isinstance(data, dict):
            others = [data | {"a": changed(data["a"], row, 1, by=0.01)}]
        elif data.dim() == 2:
            others = [changed(data, row, 3, by=0.01), swapped(data, row, row + 1), data.flip(1)]
        else:
            unlike = int((data != data[row]).nonzero()[0])
            others = [changed(data, row), swapped(data, row, unlike), 1 - data]
        assert not any(are_alike(before, trace_of(other)) for other in others)


def test_a_small_column_is_seen_beside_large_ones():
    """Large codes hid categories of two values, and incomes hid ages."""
    codes = torch.randint(0, 2**16, (5000, 3), generator=GENERATOR)
    codes[:, 2] %= 2
    numbers = torch.randn(5000, 2, generator=GENERATOR) * torch.tensor([1e6, 1.0])
    data = {"codes": codes, "numbers": numbers}
    before = trace_of(data)
    for row in range(0, 5000, 200):
        flipped = changed(codes, row, 2, by=1 - 2 * int(codes[row, 2]))
        for other in ({"codes": flipped}, {"numbers": changed(numbers, row, 1, by=0.1)}):
            assert not are_alike(before, trace_of(data | other))


def test_a_column_in_another_unit_has_another():
    assert not are_alike(trace_of(TABLE), trace_of(TABLE * torch.tensor([1, 1, 100, 1, 1, 1, 1])))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 2**15 + 3])
def test_it_is_the_same_in_pieces(monkeypatch, rows):
    data = torch.randn(rows, 50, generator=GENERATOR, dtype=torch.float64)
    whole = trace_of(data)
    monkeypatch.setattr("colonnade.traces._TOGETHER", 999)
    assert are_alike(trace_of(data), whole)


@pytest.mark.parametrize(
    "data",
    [
        torch.zeros(0),
        torch.zeros(5, 0),
        torch.ones(4, 3, 2, dtype=torch.bool),
        torch.full((3, 2), 1e200, dtype=torch.float64),
        torch.ones(2, 2, dtype=torch.complex64),
        {"": torch.ones(2)},
    ],
    ids=str,
)
def test_whatever_features_may_be_has_a_trace_or_none(data):
    assert are_alike(trace_of(data), trace_of(data))


def test_few_labels_cannot_be_worked_out():
    """With all digits of the sums, and weights that everybody knows, they could."""
    tries = torch.arange(2**14)[:, None] >> torch.arange(14) & 1
    labels = torch.cat([tries, torch.ones(len(tries), 6, dtype=torch.int64)], 1)
    of = labels.sum(1) == 13
    told = [trace_of(each) for each in labels[of]]
    assert max(max(each) for each in told) < 2**16
    assert len(set(told)) < len(told)


def test_of_numbers_too_large_nothing_is_said():
    assert trace_of(torch.full((3,), 1e300, dtype=torch.float64)) is None
    assert are_alike(None, trace_of(torch.ones(3)))
