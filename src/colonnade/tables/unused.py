"""Cells of rows that are left out: one of them would have the numbers of all others hashed."""

from __future__ import annotations

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.cells import MOSTLY, are_codes, is_code
from colonnade.tables.numerals import MISSING, settled
from colonnade.tables.remedies import as_missing, named_in
from colonnade.tables.table import SelectedRows

__all__ = ["check_unused"]


def check_unused(name: str, used: pl.Series, table: SelectedRows) -> str | None:
    """Raise ``DataError`` if a row that is left out makes text of a column of numbers.

    So it is if the rows that are used would have been read as numbers by themselves, and all would
    not, though more than 90 % of their different values are numbers, and they are no codes. Where
    fewer are, or they seem to be codes, that is returned, without a value: it is somebody's.

    Parameters
    ----------
    name
        The column.
    used
        What the rows that are used have in it.
    table
        These rows, of a table that has all.

    Examples
    --------
    >>> import numpy as np
    >>> from colonnade.tables.table import FrameTable
    >>> everybody = FrameTable(pl.DataFrame({"visits": [*map(str, range(12)), "old"]}))
    >>> some = SelectedRows(everybody, np.arange(11))
    >>> check_unused("visits", some.column("visits"), some)
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: row 12, column 'visits': 'old' makes text of the column, although its row is left out and all that are used have numbers: correct it, read the table with missing=['old'] (YAML: missing: ["old"]) if it stands for none, or, if the column is text, name it in categorical: TableTransformer(categorical=["visits"]) in transformers (YAML: features: {categorical: ["visits"]})
    """  # noqa: E501 - a message is one line
    if table.height == table.table.height or settled(used).dtype == pl.String:
        return None
    everything = table.table.column(name)
    if settled(everything).dtype != pl.String:
        return None
    distinct = everything.drop_nulls().unique(maintain_order=True)
    text = distinct.str.strip_chars()
    said = ~text.is_in(list(MISSING))
    number = text.cast(pl.Float64, strict=False).is_not_null() & said
    codes = is_code(text)
    odd = (said & ~number) | codes
    if not odd.any():  # a number that 64 bits do not hold
        odd = number & (text.str.len_chars() == text.filter(number).str.len_chars().max())
    found = distinct.filter(odd)[0]
    row = table.table.number(int((everything == found).arg_true()[0]))
    where = f"row {row}, column {name!r}"
    are_all_codes = codes.any() and are_codes(text.filter(number))
    if number.sum() > MOSTLY * int(said.sum()) and not are_all_codes:
        raise DataError(
            f"{where}: {found!r} makes text of the column, although its row is left out and all "
            f"that are used have numbers: correct it, {as_missing(found)}, or, if the column is "
            f"text, {named_in('categorical', name, it='it')}"
        )
    return (
        f"{where}: what stands there makes text of the column, so numbers are taken as categories, "
        "although that row is left out and all that are used have numbers; correct it, or, "
        f"if the column is text, {named_in('categorical', name, it='it')}"
    )
