"""How much longer a slow organisation takes, round by round."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from colonnade.channels import check_seconds
from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import uniform_words
from colonnade.streams import StreamKey

__all__ = ["Constant", "Delay", "Exponential", "FromTrace"]


@runtime_checkable
class Delay(Protocol):
    """Seconds that an organisation loses, drawn anew in each round; a frozen value."""

    def seconds(self, key: StreamKey) -> float:
        """Return the seconds of the organisation ``key.origin`` in the round ``key.round``."""
        ...


@dataclass(frozen=True)
class Constant(Delay):
    """The same in every round.

    Parameters
    ----------
    each
        Seconds.

    Examples
    --------
    >>> Constant(0.5).seconds(StreamKey(0, "bank", "delay", 3))
    0.5
    """

    each: float

    def __post_init__(self) -> None:
        check_seconds("a constant delay", self.each)

    def seconds(self, key: StreamKey) -> float:
        """Return it."""
        return self.each


@dataclass(frozen=True)
class Exponential(Delay):
    """Exponentially distributed.

    Parameters
    ----------
    mean
        Seconds.

    Examples
    --------
    >>> exponential = Exponential(mean=0.1)
    >>> drawn = [exponential.seconds(StreamKey(0, "bank", "delay", t)) for t in range(10_000)]
    >>> abs(sum(drawn) / len(drawn) - 0.1) < 0.003
    True
    """

    mean: float

    def __post_init__(self) -> None:
        check_seconds("the mean of delays", self.mean)

    def seconds(self, key: StreamKey) -> float:
        """Return -mean log u, of a u that is drawn."""
        share = (int(uniform_words(key, 1)[0]) + 1) / 2**64  # above 0
        return -self.mean * math.log(share)


@dataclass(frozen=True)
class FromTrace(Delay):
    """As somebody has measured: a CSV file with a column for each organisation, a row a round.

    After its last row it begins anew.

    Parameters
    ----------
    path
        The file; its first line names the organisations.

    Raises
    ------
    DataError
        If it cannot be read, or a row has too few cells, or one that is no number of seconds.
    """

    path: Path
    # What was read is part of the value: the file may be another one when it is read again.
    _columns: dict[str, tuple[float, ...]] = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "_columns", _read(self.path))

    def seconds(self, key: StreamKey) -> float:
        """Return the cell of the round.

        Raises
        ------
        ConfigurationError
            If the file has no column of this organisation.
        """
        column = self._columns.get(key.origin)
        if column is None:
            raise ConfigurationError(
                f"{self.path} has no column {key.origin!r}; it has {', '.join(self._columns)}"
            )
        return column[key.round % len(column)]


def _read(path: Path) -> dict[str, tuple[float, ...]]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no CSV file: {error}") from None
    if len(rows) < 2:
        raise DataError(f"{path} has no row of seconds below a line of names")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise DataError(f"{path} names an organisation twice: {', '.join(names)}")
    values: list[list[float]] = []
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(names):
            raise DataError(
                f"{path}, row {number}: {len(row)} cells, but {len(names)} organisations are named"
            )
        values.append(
            [_cell(path, number, name, cell) for name, cell in zip(names, row, strict=True)]
        )
    return {name: tuple(row[place] for row in values) for place, name in enumerate(names)}


def _cell(path: Path, number: int, name: str, cell: str) -> float:
    try:
        seconds = float(cell)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise DataError(f"{path}, row {number}, column {name!r}: {cell!r} is no number of seconds")
    return seconds
