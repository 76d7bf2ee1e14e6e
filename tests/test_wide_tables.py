"""A table of many columns takes work for each of them, and no work for each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
import pytest

from colonnade.estimators.given import party_tables
from colonnade.tables import TableTransformer, vertical_tables
from colonnade.tables.table import Batch, FrameTable

ROWS = 60
LABELS = [i % 2 for i in range(ROWS)]
BESIDE = pl.DataFrame({"beside": range(ROWS)})


class Name(str):
    """A name that counts how often one is looked up or compared."""

    looked: int = 0

    def __hash__(self) -> int:
        Name.looked += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Name.looked += 1
        return super().__eq__(other)


class Told:
    """A table that tells its columns as such names, and so many at each time that it is asked."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.table = FrameTable(frame)
        self.told = 0

    @property
    def schema(self) -> dict[str, pl.DataType]:
        self.told += len(self.table.schema)
        return {Name(name): dtype for name, dtype in self.table.schema.items()}

    @property
    def height(self) -> int:
        return self.table.height

    def column(self, name: str) -> pl.Series:
        return self.table.column(str(name))

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        return self.table.batches([*map(str, columns)], size)

    def number(self, row: int) -> int:
        return self.table.number(row)


def wide(columns: int) -> pl.DataFrame:
    """Return a table with numbers and text."""
    draws = np.random.default_rng(0)
    words = {f"w{i}": ["yes", "no"] * (ROWS // 2) for i in range(columns // 2)}
    return pl.DataFrame({f"n{i}": draws.normal(size=ROWS) for i in range(columns // 2)} | words)


def aligned(columns: int) -> int:
    table = Told(wide(columns))
    vertical_tables({"bank": table, "shop": BESIDE}, LABELS, aligned=True)
    return table.told


def aligned_alike(columns: int) -> int:
    tables = Told(wide(columns)), Told(wide(columns))
    vertical_tables(dict(zip(["bank", "shop"], tables, strict=True)), LABELS, aligned=True)
    return sum(table.told for table in tables)


def looked_up(work: Callable[[], object]) -> int:
    before = Name.looked
    work()
    return Name.looked - before


def transformed(columns: int) -> int:
    table = Told(wide(columns))
    names = [Name(name) for name in wide(columns).columns if name.startswith("n")]
    transformer = TableTransformer(numeric=names)
    return looked_up(lambda: transformer.fit(table).transform(table))


def divided(columns: int) -> int:
    names = [*map(Name, wide(columns).columns)]
    return looked_up(lambda: party_tables(wide(columns), {"bank": names}, None))


@pytest.mark.parametrize("work", [aligned, aligned_alike, transformed, divided])
def test_work_grows_as_the_columns_do(work: Callable[[int], int]) -> None:
    """All columns were told, gone through or compared for each one: 10,000 took minutes."""
    few, many = work(20), work(200)
    assert 0 < many <= 15 * few
