"""Columns of categories: one column for each, or hashed into a fixed number of columns."""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.tables.place import Place, refuse_missing
from colonnade.tables.remedies import named_in, setting
from colonnade.tables.written import Written, texts

__all__ = ["Category", "Choices", "Hashed", "fit_category"]


class Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="choices"):
    """A column with few categories, each of which gets a column of 0 and 1.

    Parameters
    ----------
    name
        The column.
    values
        The categories among the training rows, sorted.
    had_missing
        Whether a training value was missing; missing is then a category, the last.
    written
        How training values were; None where an earlier version did not note it.
    """

    name: str
    values: tuple[str, ...]
    had_missing: bool
    written: Written | None = None

    @property
    def width(self) -> int:
        """How many categories, and columns, there are."""
        return len(self.values) + self.had_missing

    @property
    def kind(self) -> str:
        """What it was read as, in words."""
        missing = " and missing ones" if self.had_missing else ""
        return f"{len(self.values)} categor{'y' if len(self.values) == 1 else 'ies'}{missing}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What the columns are called."""
        names = tuple(f"{self.name}={value}" for value in self.values)
        return (*names, f"{self.name} is missing") if self.had_missing else names

    def codes(self, values: pl.Series, place: Place, allow_unseen: bool) -> NDArray[np.int64]:
        """Return the number of each value's category; -1 for one unseen in training.

        Raises
        ------
        DataError
            If there is such a one, unless allowed.
        """
        text = _texts(self, values)
        codes = np.full(len(text), -1, dtype=np.int64)
        if self.values:
            known = text.replace_strict(
                list(self.values), list(range(len(self.values))), default=-1, return_dtype=pl.Int64
            )
            codes = known.fill_null(-1).to_numpy().copy()
        if self.had_missing:
            codes[text.is_null().to_numpy()] = len(self.values)
        if not allow_unseen and (codes < 0).any():
            _refuse_unseen(self.name, text, int((codes < 0).argmax()), place)
        return codes

    def write(
        self, values: pl.Series, out: NDArray[np.float32], place: Place, allow_unseen: bool
    ) -> NDArray[np.int64]:
        """Write a 1 into the column of each value's category; the columns hold zeros before.

        Return the number of each value's category, as ``codes`` does.
        """
        codes = self.codes(values, place, allow_unseen)
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1
        return codes


class Hashed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="hashed"):
    """A column with many categories, each hashed to one of few columns and a sign.

    Feature hashing (Weinberger et al., "Feature hashing for large scale multitask learning", ICML
    2009): the sign makes categories that share a column cancel out in the mean, not add up. No
    list of categories is kept, so none is unseen.

    Parameters
    ----------
    name
        The column.
    buckets
        How many columns.
    had_missing
        Whether a training value was missing; missing then has a hash of its own.
    written
        How training values were; None where an earlier version did not note it.
    """

    name: str
    buckets: int
    had_missing: bool
    written: Written | None = None

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.buckets

    @property
    def kind(self) -> str:
        """What it was read as, in words."""
        return f"categories, hashed into {self.buckets}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What the columns are called."""
        return tuple(f"{self.name}#{bucket}" for bucket in range(self.buckets))

    def words(
        self, values: pl.Series, place: Place, allow_unseen: bool
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return 64 bits for each value, and which values have any: not those unseen.

        Raises
        ------
        DataError
            If a value is missing and none was in training, unless allowed.
        """
        text = _texts(self, values)
        distinct = text.unique().drop_nulls()
        words = np.zeros(len(text), dtype=np.uint64)
        if len(distinct):
            known = pl.Series([_word(one) for one in distinct], dtype=pl.UInt64)
            found = text.replace_strict(distinct, known, default=None, return_dtype=pl.UInt64)
            words = found.fill_null(0).to_numpy().copy()
        missing = text.is_null().to_numpy()
        if self.had_missing:
            words[missing] = _word(None)
            return words, np.ones(len(text), dtype=np.bool_)
        if missing.any() and not allow_unseen:
            _refuse_unseen(self.name, text, int(missing.argmax()), place)
        return words, ~missing

    def codes(self, values: pl.Series, place: Place, allow_unseen: bool) -> NDArray[np.int64]:
        """Return the number of each value's column; -1 for one unseen in training."""
        words, seen = self.words(values, place, allow_unseen)
        return np.where(seen, _buckets(words, self.buckets), -1)

    def write(
        self, values: pl.Series, out: NDArray[np.float32], place: Place, allow_unseen: bool
    ) -> NDArray[np.int64]:
        """Write 1 or -1 into the column of each value; the columns hold zeros before.

        Return the number of each value's column, as ``codes`` does.
        """
        words, seen = self.words(values, place, allow_unseen)
        rows = np.flatnonzero(seen)
        buckets = np.where(seen, _buckets(words, self.buckets), -1)
        out[rows, buckets[rows]] = np.where(words[rows] & _SIGN, 1, -1)
        return buckets


Category = Choices | Hashed


def fit_category(
    values: pl.Series, name: str, one_hot_up_to: int, buckets: int, fill: bool, place: Place
) -> Category:
    """Return what training values tell about their column.

    Parameters
    ----------
    values
        The training values.
    name
        The column.
    one_hot_up_to
        Up to so many distinct values each gets a column, a missing one not counted.
    buckets
        How many columns for more than that.
    fill
        Whether missing values may be a category; otherwise they are refused.
    place
        Tells a row for a message.

    Raises
    ------
    DataError
        If the column cannot hold categories, or no value is there.

    Examples
    --------
    >>> fit_category(pl.Series(["b", "a", None, "b"]), "grade", 16, 32, True, str).labels
    ('grade=a', 'grade=b', 'grade is missing')
    >>> fit_category(pl.Series(["b", "a", "c", "b"]), "grade", 2, 32, True, str).kind
    'categories, hashed into 32'
    """
    text, written = texts(name, values), Written.of(values)
    missing = text.is_null()
    had_missing = bool(missing.any())
    if missing.all():
        raise DataError(
            f"column {name!r} has no value in any of {len(text)} training rows; "
            f"leave it out, or {named_in('ignore', name, it='it')}"
        )
    if had_missing and not fill:
        refuse_missing(name, int(missing.arg_max() or 0), place)
    distinct = text.drop_nulls().unique()
    if len(distinct) > one_hot_up_to:
        return Hashed(name, buckets, had_missing, written)
    return Choices(name, tuple(sorted(distinct)), had_missing, written)


def _texts(column: Category, values: pl.Series) -> pl.Series:
    if column.written is None:
        return texts(column.name, values)
    return column.written.texts(column.name, values)


_SIGN = np.uint64(2**63)


@lru_cache(maxsize=2**16)  # categories repeat; and a cache must not grow with the table
def _word(text: str | None) -> int:
    """Return 64 bits that stand for a category for ever, or for a missing one."""
    person = b"colonnade absent" if text is None else b"colonnade table"
    digest = blake2b((text or "").encode(), digest_size=8, person=person).digest()
    word: int = struct.unpack("<Q", digest)[0]
    return word


def _buckets(words: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """Return the column of each word: its lower 63 bits modulo the number of columns."""
    return ((words & ~_SIGN) % np.uint64(buckets)).astype(np.int64)


def _refuse_unseen(name: str, text: pl.Series, row: int, place: Place) -> None:
    found = "a missing value" if text[row] is None else repr(text[row])
    raise DataError(
        f"{place(row)}, column {name!r}: {found} did not occur among the training rows; correct "
        f"it, or say {setting('unseen', 'warn')}"
    )
