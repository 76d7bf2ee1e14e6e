"""Alignment depends on nobody's order of rows, and a person's part on nobody else."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import HashSplit, IdSplit, StoredTable, align
from colonnade.tables.align import align_ids
from colonnade.tables.table import FrameTable, SelectedRows, as_table, whole

BANK = pl.DataFrame({"id": [3, 1, 2], "income": [30, 10, 20]})
SHOP = pl.DataFrame({"visits": [4, 5, 6], "id": [1, 3, 9]})


def refusal(tables: dict[str, Any], id: str = "id") -> str:
    with pytest.raises(DataError) as caught:
        align(tables, id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- alignment ----------------------------------------------------------------------------------


def test_two_tables() -> None:
    found = align({"bank": BANK, "shop": SHOP}, id="id")
    assert found.ids.to_list() == [1, 3]
    assert found.frames["bank"].to_dict(as_series=False) == {"income": [10, 30]}
    assert found.frames["shop"].to_dict(as_series=False) == {"visits": [4, 5]}
    assert found.left_out == {"bank": 1, "shop": 1}


keys = st.one_of(
    st.lists(st.sets(st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=4),
    st.lists(st.sets(st.text(min_size=1, max_size=3)), min_size=1, max_size=4),
)


@pytest.mark.filterwarnings("ignore:.*differ only in:colonnade.errors.DataWarning")
@given(keys, st.randoms(use_true_random=False))
def test_everyone_whom_all_know_and_nobody_else(sets: list[set[Any]], random: Any) -> None:
    """Each value is told by its id, so a row that goes astray shows."""
    common = set.intersection(*sets)
    if not common:
        common = {"7" if any(isinstance(key, str) for one in sets for key in one) else 7}
        sets = [one | common for one in sets]
    frames = {}
    for i, one in enumerate(sets):
        order = sorted(one, key=lambda _: random.random())
        frames[str(i)] = pl.DataFrame({"id": order, f"of {i}": [f"{i} {key}" for key in order]})
    found = align(frames, "id")
    expected = sorted(common, key=lambda key: key.encode() if isinstance(key, str) else key)
    assert found.ids.to_list() == expected
    for i, one in enumerate(sets):
        assert found.frames[str(i)][f"of {i}"].to_list() == [f"{i} {key}" for key in expected]
        assert found.left_out[str(i)] == len(one) - len(common)


def test_tables_in_order_already_are_not_copied() -> None:
    frame = BANK.sort("id")
    found = align({"bank": frame, "shop": frame}, "id")
    for aligned in found.frames.values():
        assert aligned["income"].to_numpy().ctypes.data == frame["income"].to_numpy().ctypes.data


def test_types_that_say_the_same() -> None:
    kinds = [pl.Int8, pl.Int32, pl.UInt16, pl.Int64]
    found = align({str(kind): BANK.cast({"id": kind}) for kind in kinds}, "id")
    assert found.ids.dtype == pl.Int64
    named = pl.DataFrame({"id": ["b", "a"], "x": [1, 2]})
    texts = {
        "text": named,
        "categorical": named.cast({"id": pl.Categorical}),
        "enum": named.cast({"id": pl.Enum(["b", "a"])}),
    }
    assert align(texts, "id").ids.to_list() == ["a", "b"]


def test_whatever_is_a_table(tmp_path: Any) -> None:
    BANK.write_parquet(tmp_path / "bank.parquet")
    tables = {
        "stored": StoredTable(tmp_path / "bank.parquet"),
        "lazy": BANK.lazy(),
        "mapping": BANK.to_dict(as_series=False),
    }
    found = align(tables, "id")
    for frame in found.frames.values():
        assert frame.to_dict(as_series=False) == {"income": [10, 20, 30]}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"bank": BANK, "shop": SHOP.rename({"id": "ID"})},
            "the table of 'shop' has no column 'id'; did you mean 'ID'?",
        ),
        ({"bank": {"id": [1, None]}}, "'bank' has no id in row 1"),
        ({"bank": {"id": ["a", ""]}}, "'bank' has no id in row 1"),
        ({"bank": {"id": ["a", None]}}, "'bank' has no id in row 1"),
        ({"bank": {"id": [None, None]}}, "fill it in"),
        ({"bank": {"id": [1, 2, 5, 2, 1]}}, "'bank' has the id 2 in row 1 and again in row 3"),
        ({"bank": {"id": ["b", "b"]}}, "'bank' has the id 'b' in row 0 and again in row 1"),
        ({"bank": {"id": [1.0, 2.0]}}, "holds Float64, and ids must be whole numbers or text"),
        ({"bank": {"id": [True, False]}}, "holds Boolean"),
        ({"bank": {"id": np.array([2**64 - 1], dtype=np.uint64)}}, "beyond 64 bits"),
        (
            {"bank": BANK, "shop": {"id": ["1", "2"]}},
            "the ids of 'bank' are whole numbers (3), those of 'shop' are text ('1')",
        ),
        (
            {"bank": BANK, "shop": {"id": ["1", "2", "x"]}},
            "the ids of 'bank' are whole numbers (3), those of 'shop' are text ('x' in row 2)",
        ),
        ({"bank": BANK, "shop": {"id": [7, 8]}}, "'bank' has 3, 'shop' has 7"),
        ({"bank": {"id": ["7"]}, "shop": {"id": [" 7"]}}, "'bank' has '7', 'shop' has ' 7'"),
        ({"bank": BANK, "shop": SHOP.head(0)}, "the table of 'shop' has no rows"),
    ],
)
def test_tables_that_cannot_be_aligned(tables: dict[str, Any], message: str) -> None:
    assert message in refusal(tables)


def test_no_tables() -> None:
    with pytest.raises(ConfigurationError, match="no table"):
        align({}, "id")


def test_rows_are_those_of_each_table() -> None:
    found = align_ids({"bank": BANK["id"], "shop": SHOP["id"]})
    assert {name: rows.tolist() for name, rows in found.rows.items()} == {
        "bank": [1, 0],
        "shop": [0, 1],
    }
    assert all(rows.dtype == np.int64 for rows in found.rows.values())


# --- rows of a table ----------------------------------------------------------------------------


@given(st.permutations(range(10)), st.integers(1, 10), st.integers(1, 12))
def test_selected_rows(order: list[int], count: int, size: int) -> None:
    """Read by columns or by batches, the rows are those selected; also rows of selected rows."""
    frame = pl.DataFrame({"x": range(10), "y": [str(i) for i in range(10)]})
    rows = np.array(order[:count])
    chosen = SelectedRows(FrameTable(frame), rows)
    again = SelectedRows(chosen, np.arange(count)[::-2], ("y",))
    fewer = again.only(np.arange(again.height)[:1])
    for table, expected in ((chosen, rows), (again, rows[::-2]), (fewer, rows[::-2][:1])):
        wanted = frame[expected].select(list(table.schema))
        assert whole(table).equals(wanted)
        assert table.height == len(expected)
        assert [table.number(row) for row in range(len(expected))] == expected.tolist()
        found = wanted.clear()
        places: list[int] = []
        for batch in table.batches(list(table.schema), size):
            found.extend(batch.frame)
            places.extend(batch.places)
        assert sorted(places) == list(range(len(expected)))
        assert found[np.argsort(places)].equals(wanted)


def test_a_table_stays_the_table_it_is() -> None:
    table = FrameTable(BANK)
    assert as_table(table) is table
    assert whole(as_table(table, ["income"])).equals(BANK.select("income"))
    with pytest.raises(DataError, match="no column 'incom'; did you mean 'income'"):
        as_table(table, ["incom"])


# --- split --------------------------------------------------------------------------------------


def lists(parts: tuple[Any, ...]) -> list[list[int]]:
    return [part.tolist() for part in parts]


def test_frozen() -> None:
    """What a seed gives, it gives for ever: whoever trained must not be tested on later."""
    numbers = HashSplit(validation=0.25, test=0.25, seed=7).rows(pl.Series(range(20)))
    assert lists(numbers) == [
        [0, 6, 7, 9, 10, 11, 12, 13, 14, 17],
        [1, 5, 18, 19],
        [2, 3, 4, 8, 15, 16],
    ]
    names = ["ann", "bob", "eve", "Łukasz", "dan", "", "kim", "zoe"]
    texts = HashSplit(validation=0.25, test=0.25, seed=-1).rows(pl.Series(names))
    assert lists(texts) == [[0, 1, 3, 4, 5], [2, 6], [7]]


@given(
    st.sets(st.integers(-(2**63), 2**63 - 1), min_size=40, max_size=60),
    st.integers(0, 15),
    st.integers(-(2**63), 2**63 - 1),
)
def test_a_persons_part_depends_on_nobody_else(ids: set[int], gone: int, seed: int) -> None:
    """Neither on who else is there, nor on the order, nor on whether ids are numbers or text."""
    people = list(ids)
    parts = part_of(people, seed)
    assert part_of(people[::-1], seed) == parts
    assert part_of([str(i) for i in people], seed) == {str(i): p for i, p in parts.items()}
    assert part_of(people[gone:], seed) == {i: parts[i] for i in people[gone:]}


def part_of(people: list[Any], seed: int) -> dict[Any, int]:
    try:
        parts = HashSplit(validation=0.3, test=0.3, seed=seed).rows(pl.Series(people))
    except DataError:  # a part that nobody is in is refused
        reject()
    numbers = np.full(len(people), -1)
    for number, part in enumerate(parts):
        numbers[part] = number
    assert (numbers >= 0).all()
    return dict(zip(people, numbers.tolist(), strict=True))


def test_shares() -> None:
    """Within five standard deviations of what is asked for."""
    rows = 40_000
    ids = pl.Series(range(rows))
    parts = HashSplit(validation=0.1, test=0.2, seed=3).rows(ids)
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        assert abs(len(part) - share * rows) < 5 * (rows * share * (1 - share)) ** 0.5


def test_seeds_are_independent_and_test_people_stay_when_validation_grows() -> None:
    ids = pl.Series(range(10_000))
    test = {seed: set(HashSplit(test=0.5, seed=seed).rows(ids)[2].tolist()) for seed in (0, 1)}
    assert abs(len(test[0] & test[1]) - 2500) < 5 * (10_000 * 3 / 16) ** 0.5
    for validation in (0.0, 0.1, 0.4):
        split = HashSplit(validation=validation, test=0.5, seed=0)
        assert set(split.rows(ids)[2].tolist()) == test[0]


def test_parts_that_are_not_asked_for_are_empty() -> None:
    train, validation, test = HashSplit(validation=0, test=0).rows(pl.Series([5]))
    assert lists((train, validation, test)) == [[0], [], []]


def test_parts_that_stay_empty_are_refused() -> None:
    remedy = r"give it a greater share \(or 0 for none\), more people, or another seed"
    with pytest.raises(DataError, match=rf"is for validation, whose share is 0.001; {remedy}"):
        HashSplit(validation=0.001, test=0.0).rows(pl.Series([1, 2, 3]))
    with pytest.raises(DataError, match=r"none of 3 people is for training, whose share is 0.001"):
        HashSplit(validation=0.0, test=0.999).rows(pl.Series([1, 2, 3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test": 1.0}, "test must be a share from 0 to below 1, not 1.0"),
        ({"validation": -0.1}, "validation must be a share"),
        ({"test": float("nan")}, "test must be a share"),
        ({"test": "0.2"}, "test must be a share"),
        ({"test": True}, "test must be a share"),
        ({"test": 0.5, "validation": 0.5}, "must leave some for training"),
        ({"seed": 2**63}, "seed must be a signed 64-bit integer"),
        ({"seed": 1.5}, "seed must be a signed 64-bit integer"),
    ],
)
def test_shares_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        HashSplit(**arguments)


def test_many_people_are_hashed_in_pieces() -> None:
    ids = pl.Series(range(40_000))
    words = HashSplit(seed=1)._words(ids)
    assert (words[30_000:] == HashSplit(seed=1)._words(ids[30_000:])).all()
    assert len(np.unique(words)) == 40_000


def test_lists_of_ids() -> None:
    people = pl.Series(["ann", "bob", "eve", "kim"])
    split = IdSplit(validation=["kim"], test=("eve", "ann"))
    assert lists(split.rows(people)) == [[1], [3], [0, 2]]
    assert lists(IdSplit().rows(people)) == [[0, 1, 2, 3], [], []]
    numbers = pl.Series([10, 20, 30])
    given = IdSplit(test=pl.Series([30], dtype=pl.Int8), validation=np.array([10]))
    assert lists(given.rows(numbers)) == [[1], [0], [2]]


def test_ids_may_come_one_by_one_and_the_split_is_used_again() -> None:
    split = IdSplit(validation=(name for name in ["kim"]), test=iter({"eve": 1, "ann": 2}))
    people = pl.Series(["ann", "bob", "eve", "kim"])
    assert [lists(split.rows(people)) for _ in range(2)] == [[[1], [3], [0, 2]]] * 2
    categories = IdSplit(test=pl.Series(["eve"], dtype=pl.Categorical))
    assert lists(categories.rows(people)) == [[0, 1, 3], [], [2]]


@pytest.mark.parametrize("ids", [[1.5], [True], [7], [datetime.date(2024, 1, 31)]])
def test_ids_of_another_kind_are_refused_where_those_of_tables_are_text(ids: list[Any]) -> None:
    with pytest.raises(DataError, match=r"ids for test are like .*, but those of .* like 'ann'"):
        IdSplit(test=ids).rows(pl.Series(["ann", "bob"]))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (IdSplit(test=[1, 99, 98]), "2 ids for test are not among the 3 people whom all.*99, 98"),
        (IdSplit(test=[1, 1]), "the id 1 is named twice for test"),
        (IdSplit(test=[1], validation=[1, 2]), "the id 1 is for validation and for test"),
        (IdSplit(test=["1"]), "ids for test are like '1', but those of the tables like 1"),
        (IdSplit(test=[1, None]), "an id for test is missing"),
        (IdSplit(test=[1, 2], validation=[3]), "all of 3 people are for validation or test"),
        (IdSplit(test="ann"), "ids for test must be an array of values, not a str"),
        (IdSplit(validation=5), "ids for validation must be an array of values, not a int"),
        (IdSplit(test=[1.5]), "ids for test are like 1.5, but those of the tables like 1"),
        (IdSplit(test=[True]), "ids for test are like True, but those of the tables like 1"),
    ],
)
def test_lists_of_ids_that_cannot_be(split: IdSplit, message: str) -> None:
    with pytest.raises(DataError, match=message):
        split.rows(pl.Series([1, 2, 3]))
