"""How much longer a slow organisation takes, round by round."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from colonnade.annotated import make_plain
from colonnade.channels import LONGEST, check_seconds
from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import uniform_words
from colonnade.paths import as_path
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
        make_plain(Constant, self)
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
        make_plain(Exponential, self)
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
        The file; its first line names the organisations, and blank lines count for nothing.

    Raises
    ------
    ConfigurationError
        If ``path`` is no path.
    DataError
        If it cannot be read, or a row has too few cells, or one that is no number of seconds.
    """

    path: Path = field(compare=False)  # what it holds tells a trace from others
    digest: str = field(init=False)
    _columns: dict[str, tuple[float, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        path = as_path("a trace of delays has the path of a file", self.path)
        object.__setattr__(self, "path", path)
        columns = _read(self.path)
        digest = hashlib.blake2b(repr(sorted(columns.items())).encode(), digest_size=16)
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "digest", digest.hexdigest())

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
        if path.exists() and not path.is_file():  # what never ends, or waits for somebody to write
            raise DataError(f"{path} is no regular file")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(_rows(lines))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no CSV file: {error}") from None
    if len(rows) < 2:
        raise DataError(f"{path} has no row of seconds below a line of names")
    names = [name.strip() for name in rows[0][1]]
    if len(set(names)) < len(names):
        raise DataError(f"{path} names an organisation twice: {', '.join(names)}")
    values: list[list[float]] = []
    for number, (line, row) in enumerate(rows[1:]):
        place = f"{path}, row {number} (line {line})"
        if len(row) != len(names):
            cells = f"{len(row)} cell{'s' if len(row) > 1 else ''}"
            raise DataError(f"{place}: {cells}, but {len(names)} organisations are named")
        values.append([_cell(place, name, cell) for name, cell in zip(names, row, strict=True)])
    return {name: tuple(row[place] for row in values) for place, name in enumerate(names)}


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank, with the number of its first line."""
    reader = csv.reader(lines)
    line = 1
    for row in reader:
        if row:
            yield line, row
        line = reader.line_num + 1


_NUMBER = re.compile(r"\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


def _cell(place: str, name: str, cell: str) -> float:
    seconds = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not 0 <= seconds <= LONGEST:
        shown = repr(cell if len(cell) <= 40 else f"{cell[:37]}...")
        raise DataError(f"{place}, column {name!r}: {shown} is no number of seconds up to 1e6")
    return seconds
