"""Default of credit card clients, as the tables of three companies, or of any number of parties.

Yeh and Lien, "The comparisons of data mining techniques for the predictive accuracy of probability
of default of credit card clients", Expert Systems with Applications 36(2), 2009; UCI Machine
Learning Repository, 2016, doi:10.24432/C55S3H. 30000 clients of a bank in Taiwan in 2005, of whom
6636 did not pay in the month after. (OpenML has them as "default-of-credit-card-clients", under
column names of its own; see ``openml``.)

=========  =============================================================================
company    columns
=========  =============================================================================
bank       LIMIT_BAL, SEX, EDUCATION, MARRIAGE, AGE, and the bills BILL_AMT1 to 6
bureau     the status of repayment in six months: PAY_0, PAY_2, PAY_3, PAY_4, PAY_5, PAY_6
processor  the payments PAY_AMT1 to 6
=========  =============================================================================

A status of -2, -1 or 0 says that nothing was used, that all was paid, or that the minimum was; 1
to 8 are months of delay. So it is no quantity, and counts as a category. Amounts have long tails:
a network does better when it is given their logarithms as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import (
    Splitting,
    VerticalTables,
    read_table,
    vertical_tables,
)
from colonnade.tables.names import listed
from colonnade.tables.numeric import Scale

__all__ = [
    "CREDIT_COLUMNS",
    "credit_columns",
    "credit_default",
    "credit_files",
    "credit_tables",
    "with_logarithms",
]

_MONTHS = (1, 2, 3, 4, 5, 6)

CREDIT_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "bank": (
        *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
        *(f"BILL_AMT{month}" for month in _MONTHS),
    ),
    "bureau": ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
    "processor": tuple(f"PAY_AMT{month}" for month in _MONTHS),
}
"""Whose which columns are."""

_IN_ORDER = (
    *CREDIT_COLUMNS["bank"][:5],
    *CREDIT_COLUMNS["bureau"],
    *CREDIT_COLUMNS["bank"][5:],
    *CREDIT_COLUMNS["processor"],
)
_CATEGORIES = ("SEX", "EDUCATION", "MARRIAGE", *CREDIT_COLUMNS["bureau"])

_NAME = "default of credit card clients"
_ID = "ID"
_LABEL = "default.payment.next.month"
_FILE = "UCI_Credit_Card.csv"
_SUBFOLDERS = ("", "credit")
_CLIENTS = 30_000
_AMOUNTS = ("LIMIT_BAL", "BILL_AMT", "PAY_AMT")


def credit_default(
    folder: str | Path | None = None,
    *,
    parties: int | None = None,
    scale: Scale = "standard",
    split: Splitting | None = None,
    transformers: Mapping[str, Any] | None = None,
) -> VerticalTables:
    """Load what a bank, a bureau and a processor know of the same clients, and who did not pay.

    Tables are those of ``credit_tables``, each ``with_logarithms``.

    Parameters
    ----------
    folder
        Where ``UCI_Credit_Card.csv`` is, plain or ``.gz``, or its subfolder ``credit``. By default
        the folder that the environment variable ``COLONNADE_DATA`` names.
    parties
        How many parties share the columns out equally, as ``credit_columns`` says: 11 in the
        experiments of FedVS. By default they are the three companies'.
    scale
        Of numbers, as for ``TableTransformer``.
    split
        Who is for training, validation and test; ``HashSplit()`` by default.
    transformers
        For companies or parties that shall differ, how columns become features. By default numbers
        are scaled, and SEX, EDUCATION, MARRIAGE and the status of repayment are categories with a
        column each; a category too rare to be among the training rows is all zeros.

    Returns
    -------
    VerticalTables
        30000 clients, sorted by id; class 1 did not pay.

    Raises
    ------
    DataError
        If there is no folder or file, or it does not hold what it should.
    ConfigurationError
        If the arguments do not fit together.

    Examples
    --------
    ::

        clients = credit_default("data")
        clients  # VerticalTables(3 parties, 20907 + 3079 + 6014 rows, 2 classes)
        clients.columns["bureau"]  # ('PAY_0', 'PAY_2', 'PAY_3', 'PAY_4', 'PAY_5', 'PAY_6')
    """
    own = dict(transformers or {})
    columns = _columns(parties)
    strange = [name for name in own if name not in columns]
    if strange:
        raise ConfigurationError(
            f"transformers name {listed(strange)}; there are {listed(columns)}"
        )
    tables, labels = credit_tables(folder, parties=parties)
    return vertical_tables(
        {company: with_logarithms(table) for company, table in tables.items()},
        labels,
        id=_ID,
        split=split,
        transformers={name: _usual(held, scale) for name, held in columns.items()} | own,
        task="classification",
    )


def credit_columns(parties: int) -> dict[str, tuple[str, ...]]:
    """Return who holds which columns, if so many parties share them out equally.

    Each has a run of the 23, in the file's order; where they cannot be shared out equally, the
    first parties have one more.

    Raises
    ------
    ConfigurationError
        If there are more parties than columns, or none.

    Examples
    --------
    >>> shared = credit_columns(11)
    >>> shared["party_1"], shared["party_11"]
    (('LIMIT_BAL', 'SEX', 'EDUCATION'), ('PAY_AMT5', 'PAY_AMT6'))
    """
    most = len(_IN_ORDER)
    if type(parties) is not int or not 1 <= parties <= most:
        raise ConfigurationError(
            f"{most} columns can be shared out among 1 to {most} parties, not {parties!r}"
        )
    width, more = divmod(most, parties)
    ends = [width * number + min(number, more) for number in range(parties + 1)]
    return {
        f"party_{number}": _IN_ORDER[first:last]
        for number, (first, last) in enumerate(pairwise(ends), start=1)
    }


def credit_tables(
    folder: str | Path | None = None, *, parties: int | None = None
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Return the three companies' tables and the table of labels, each with the clients' ids.

    Parameters
    ----------
    folder, parties
        As for ``credit_default``.

    Raises
    ------
    DataError
        If there is no folder or file, or it does not hold what it should.

    Examples
    --------
    ::

        tables, labels = credit_tables("data")
        tables["bureau"].columns  # ['ID', 'PAY_0', 'PAY_2', 'PAY_3', 'PAY_4', 'PAY_5', 'PAY_6']
        labels.columns  # ['ID', 'default.payment.next.month']
    """
    (path,) = credit_files(folder)
    features = [name for columns in CREDIT_COLUMNS.values() for name in columns]
    frame = read_table(path, id=_ID, columns=[*features, _LABEL])
    _check(path, frame)
    columns = _columns(parties)
    tables = {name: frame.select(_ID, *held) for name, held in columns.items()}
    return tables, frame.select(_ID, _LABEL)


def credit_files(folder: str | Path | None = None) -> list[Path]:
    """Return the file that ``credit_tables`` would read, alone in a list.

    Raises
    ------
    DataError
        If there is no folder, or no such file in it.
    """
    root = data_folder(_NAME, folder, "its table")
    for place in (root / sub for sub in _SUBFOLDERS):
        path = plain_or_packed(place / _FILE)
        if path is not None:
            return [path]
    raise DataError(
        f"expected the file {_FILE} or {_FILE}.gz in {root}, which has neither: put the table of "
        "credit card clients there as comma-separated text (UCI's .xls is not read), or name "
        "another folder with --data or COLONNADE_DATA"
    )


def with_logarithms(table: pl.DataFrame) -> pl.DataFrame:
    """Return a company's table with the signed logarithm of each amount as further columns.

    Beside x stands sign(x) log(1 + |x|), in log NT dollars, for the limit, bills and payments. It
    is the same for every row, so nothing is learned here, and rows to be predicted go through it
    as well.

    Examples
    --------
    >>> with_logarithms(pl.DataFrame({"ID": [1, 2], "PAY_AMT1": [0, 6313]}))
    shape: (2, 3)
    ┌─────┬──────────┬──────────────┐
    │ ID  ┆ PAY_AMT1 ┆ log PAY_AMT1 │
    │ --- ┆ ---      ┆ ---          │
    │ i64 ┆ i64      ┆ f64          │
    ╞═════╪══════════╪══════════════╡
    │ 1   ┆ 0        ┆ 0.0          │
    │ 2   ┆ 6313     ┆ 8.750525     │
    └─────┴──────────┴──────────────┘
    """
    amounts = [name for name in table.columns if name.startswith(_AMOUNTS)]
    values = [pl.col(name).cast(pl.Float64) for name in amounts]
    return table.with_columns(
        (x.sign() * x.abs().log1p()).alias(f"log {name}")
        for name, x in zip(amounts, values, strict=True)
    )


def _columns(parties: int | None) -> Mapping[str, tuple[str, ...]]:
    return CREDIT_COLUMNS if parties is None else credit_columns(parties)


def _usual(columns: Sequence[str], scale: Scale) -> Any:
    from colonnade.tables import TableTransformer  # only here: it needs scikit-learn

    categories = [name for name in columns if name in _CATEGORIES]
    return TableTransformer(categorical=categories, scale=scale, unseen="zeros")


def _check(path: Path, frame: pl.DataFrame) -> None:
    if len(frame) != _CLIENTS:
        raise DataError(f"{path} has {len(frame)} rows; expected {_CLIENTS} clients")
    for name in frame.columns:
        values = frame[name]
        if not values.dtype.is_numeric() or values.has_nulls():
            raise DataError(
                f"{path}: column {name!r} holds {values.dtype} with {values.null_count()} missing "
                "values; expected a number for every client"
            )
    strange = set(frame[_LABEL].unique()) - {0, 1}
    if strange:
        raise DataError(f"{path}: column {_LABEL!r} holds {listed(sorted(strange))}; expected 0, 1")
