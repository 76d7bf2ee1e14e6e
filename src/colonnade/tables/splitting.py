"""Who is for training, validation and test: by a hash of the id, by lists of ids, by row numbers.

By a hash, a person's part depends on the seed and on the person alone. It stays when other people
come or go, and it is the same for every organisation that knows the seed and the id. Who is for
validation says nothing about who is for test, and divisions for different purposes say nothing of
each other, also by the same seed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.annotated import make_plain
from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import uniform_words
from colonnade.streams import StreamKey, is_seed
from colonnade.tables.columns import values_alone
from colonnade.tables.frames import as_series
from colonnade.tables.names import listed

__all__ = ["HashSplit", "IdSplit", "LastRows", "Parts", "RowSplit", "Splitting"]

Parts: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Rows for training, for validation and for test, each in ascending order."""

_AT_ONCE = 2**14  # Python's strings take several times the memory of the ids


@runtime_checkable
class Splitting(Protocol):
    """Divides people into training, validation and test."""

    def rows(self, ids: pl.Series) -> Parts:
        """Return the rows of each part.

        One that goes by the order of rows says so, ``by_order = True``: rows that are found by an
        id have none.
        """
        ...


@dataclass(frozen=True)
class HashSplit:
    """A person's part by a hash of seed and id.

    u = hash(seed, id, purpose) and v are independent and uniform in [0, 1). A person is in the test
    part if u < test; otherwise in the validation part if v < validation / (1 - test); otherwise it
    trains. Parts have their shares up to chance. The hash is of the id's text, so 5 and "5" are the
    same person.

    Parameters
    ----------
    validation, test
        Shares, each at least 0, together below 1; with 0 the part is empty.
    seed
        A signed 64-bit integer.
    purpose
        What is divided for: who has been divided for one purpose can be divided again for another
        by the same seed, and the parts have their shares. Estimators divide for "fit".

    Raises
    ------
    ConfigurationError
        If shares or seed cannot be used.

    Examples
    --------
    >>> train, validation, test = HashSplit(validation=0.25, test=0.25).rows(pl.Series(range(8)))
    >>> train, validation, test
    (array([1, 3, 5, 7]), array([0, 2]), array([4, 6]))
    """

    validation: float = 0.1
    test: float = 0.2
    seed: int = 0
    purpose: str = ""

    def __post_init__(self) -> None:
        make_plain(HashSplit, self)
        _check_shares(self.validation, self.test)
        _check_seed(self.seed)

    def rows(self, ids: pl.Series) -> Parts:
        """Return the rows of each part.

        Raises
        ------
        DataError
            If a part with a share of its own, or training, gets nobody.
        """
        words = self._words(ids)
        if self.purpose:
            words = _keyed(words, f"for {self.purpose}")
        return _shared(
            lambda first, last: words[first:last], len(words), self.validation, self.test
        )

    def _words(self, ids: pl.Series) -> NDArray[np.uint64]:
        """Return 64 uniform bits for each id."""
        seed = struct.pack("<q", self.seed)
        words = np.empty(len(ids), dtype=np.uint64)
        for first in range(0, len(ids), _AT_ONCE):
            texts = ids[first : first + _AT_ONCE].cast(pl.String).to_list()
            digests = [
                blake2b(seed + text.encode(), digest_size=8, person=b"colonnade split").digest()
                for text in texts
            ]
            words[first : first + _AT_ONCE] = np.frombuffer(b"".join(digests), dtype="<u8")
        return words


@dataclass(frozen=True)
class RowSplit:
    """A row's part by a hash of seed and row number: as ``HashSplit``, for a great many rows.

    Ids are not looked at, only how many there are, so it takes a second where ``HashSplit`` takes
    minutes. Word i of a stream of ``kernels/philox.py`` stands for the hash of row i.

    Parameters
    ----------
    validation, test
        Shares, each at least 0, together below 1; with 0 the part is empty.
    seed
        A signed 64-bit integer.

    Raises
    ------
    ConfigurationError
        If shares or seed cannot be used.

    Examples
    --------
    >>> [len(part) for part in RowSplit(validation=0.1, test=0.2).rows(pl.Series(range(10_000)))]
    [6916, 1049, 2035]
    """

    validation: float = 0.1
    test: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        make_plain(RowSplit, self)
        _check_shares(self.validation, self.test)
        _check_seed(self.seed)

    def rows(self, ids: pl.Series) -> Parts:
        """Return the rows of each part.

        Raises
        ------
        DataError
            If a part with a share of its own, or training, gets nobody.
        """
        key = StreamKey(self.seed, "", "split", 0)
        return _shared(
            lambda first, last: uniform_words(key, last - first, first // 4),
            len(ids),
            self.validation,
            self.test,
        )


@dataclass(frozen=True)
class LastRows:
    """The last rows are for test, and those before them for validation: for rows in time's order.

    Rows that are found by an id have no order, so it is for streamed rows and those that are
    aligned already.

    Parameters
    ----------
    validation, test
        Shares, each at least 0, together below 1; with 0 the part is empty.
    others
        Divides the rows before the test rows, in place of ``validation``.

    Raises
    ------
    ConfigurationError
        If shares cannot be used, or ``others`` comes with a share for validation.

    Examples
    --------
    >>> LastRows(validation=0.2, test=0.4).rows(pl.Series(range(5)))
    (array([0, 1]), array([2]), array([3, 4]))
    >>> LastRows(test=0.5, others=RowSplit(validation=0.25, test=0)).rows(pl.Series(range(12)))
    (array([2, 4, 5]), array([0, 1, 3]), array([ 6,  7,  8,  9, 10, 11]))
    """

    validation: float = 0.0
    test: float = 0.2
    others: Splitting | None = None
    by_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        make_plain(LastRows, self)
        _check_shares(self.validation, self.test)
        if self.others is not None and self.validation:
            raise ConfigurationError(
                "validation is a share of the last rows before those for test, and others divides "
                "them otherwise; say one of the two"
            )

    def rows(self, ids: pl.Series) -> Parts:
        """Return the rows of each part.

        Raises
        ------
        DataError
            If a part with a share of its own, or training, gets nobody.
        """
        count = len(ids)
        test, validation = round(self.test * count), round(self.validation * count)
        if self.others is not None:
            train, chosen, further = self.others.rows(ids[: count - test])
            return train, chosen, np.concatenate([further, np.arange(count - test, count)])
        order = np.arange(count)
        first, second = count - test - validation, count - test
        parts = order[:first], order[first:second], order[second:]
        _check_parts(parts, (1.0, self.validation, self.test), count)
        return parts


@dataclass(frozen=True, eq=False)
class IdSplit:
    """Parts by lists of ids; everyone else trains.

    Parameters
    ----------
    validation, test
        Ids, in any order.

    Examples
    --------
    >>> IdSplit(test=["ann", "eve"]).rows(pl.Series(["ann", "bob", "eve"]))
    (array([1]), array([], dtype=int64), array([0, 2]))
    """

    validation: Iterable[Any] = ()
    test: Iterable[Any] = ()

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            given = getattr(self, name)
            if isinstance(given, Iterator):  # which gives what it has once
                object.__setattr__(self, name, list(given))

    def rows(self, ids: pl.Series) -> Parts:
        """Return the rows of each part.

        Raises
        ------
        DataError
            If a list names someone unknown or someone twice, or nobody is left for training.
        """
        is_validation, is_test = (
            self._are_in(name, given, ids)
            for name, given in (("validation", self.validation), ("test", self.test))
        )
        both = is_validation & is_test
        if both.any():
            raise DataError(
                f"the id {ids[int(both.argmax())]!r} is for validation and for test; "
                "name it in one of them"
            )
        parts = _parts(is_validation, is_test)
        if len(parts[0]) == 0:
            raise DataError(
                f"all of {len(ids)} people are for validation or test; leave some for training"
            )
        return parts

    def _are_in(self, name: str, given: Iterable[Any], ids: pl.Series) -> NDArray[np.bool_]:
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
            kind = type(given).__name__
            raise DataError(f"ids for {name} must be an array of values, not a {kind}")
        ids, wanted = values_alone(ids), values_alone(as_series(given))
        if isinstance(wanted.dtype, pl.Categorical | pl.Enum):
            wanted = wanted.cast(pl.String)
        if wanted.has_nulls():
            raise DataError(f"an id for {name} is missing")
        if wanted.is_empty():
            return np.zeros(len(ids), dtype=np.bool_)
        text = wanted.dtype == ids.dtype == pl.String
        if not (text or (wanted.dtype.is_integer() and ids.dtype.is_integer())):
            raise DataError(
                f"ids for {name} are like {wanted[0]!r}, but those of the tables like {ids[0]!r}; "
                "give both the same type"
            )
        if wanted.n_unique() != len(wanted):
            twice = wanted.filter(wanted.is_first_distinct().not_())[0]
            raise DataError(f"the id {twice!r} is named twice for {name}; name it once")
        unknown = wanted.filter(wanted.is_in(ids.implode()).not_())
        if len(unknown):
            raise DataError(
                f"{len(unknown)} ids for {name} are not among the {len(ids)} people whom all "
                f"tables know: {listed(unknown.to_list())}; those are written like {ids[0]!r}"
            )
        found: NDArray[np.bool_] = ids.is_in(wanted.implode()).to_numpy()
        return found


def _check_shares(validation: float, test: float) -> None:
    for name, share in (("validation", validation), ("test", test)):
        number = isinstance(share, int | float) and not isinstance(share, bool)
        if not number or not 0 <= share < 1:
            raise ConfigurationError(f"{name} must be a share from 0 to below 1, not {share!r}")
    if validation + test >= 1:
        raise ConfigurationError(
            f"validation and test are {validation} + {test} of the people; "
            "together they must leave some for training"
        )


def _check_seed(seed: int) -> None:
    if not is_seed(seed):
        raise ConfigurationError(f"seed must be a signed 64-bit integer, not {seed!r}")


def _shared(
    words: Callable[[int, int], NDArray[np.uint64]], count: int, validation: float, test: float
) -> Parts:
    """Return the rows of each part, by a word for each, of which some are asked for at a time."""
    is_test, is_validation = np.empty((2, count), dtype=np.bool_)
    for first in range(0, count, _AT_ONCE):
        some = words(first, min(first + _AT_ONCE, count))
        part = slice(first, first + len(some))
        is_test[part] = _uniform(some) < test
        chosen = _uniform(_keyed(some, "validation")) < validation / (1 - test)
        is_validation[part] = ~is_test[part] & chosen
    parts = _parts(is_validation, is_test)
    _check_parts(parts, (1 - validation - test, validation, test), count)
    return parts


def _check_parts(parts: Parts, shares: tuple[float, float, float], count: int) -> None:
    for name, share, part in zip(("training", "validation", "test"), shares, parts, strict=True):
        if share > 0 and len(part) == 0:
            none = "" if name == "training" else " (or 0 for none)"
            raise DataError(
                f"none of {count} people is for {name}, whose share is {share:.3g}; "
                f"give it a greater share{none}, more people, or another seed"
            )


def _keyed(words: NDArray[np.uint64], purpose: str) -> NDArray[np.uint64]:
    """Return other uniform words, in which nothing of the first can be seen: SplitMix64's mixing.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    digest = blake2b(purpose.encode(), digest_size=8, person=b"colonnade split").digest()
    z = words ^ np.uint64(int.from_bytes(digest, "little"))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return words.astype(np.float64) / 2.0**64


def _parts(is_validation: NDArray[np.bool_], is_test: NDArray[np.bool_]) -> Parts:
    return (
        np.flatnonzero(~(is_validation | is_test)),
        np.flatnonzero(is_validation),
        np.flatnonzero(is_test),
    )
