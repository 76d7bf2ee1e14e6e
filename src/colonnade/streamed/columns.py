"""Which columns of a long table an organisation holds, and how their cells become features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from colonnade import defaults
from colonnade.annotated import is_whole, make_plain
from colonnade.errors import ConfigurationError
from colonnade.tables.names import check_named_once, listed

__all__ = ["Columns"]

_MOST = 2**31 - 1  # codes are int32


@dataclass(frozen=True)
class Columns:
    """An organisation's columns of a long table.

    A number x becomes sign(x) log(1 + abs(x)), a missing one 0. A category becomes a hash of its
    bytes, from 1 to below the column's buckets, and a missing one 0: see ``kernels/cells.py``. So
    nothing is learned of the rows, and any row becomes the same features at any time.

    Parameters
    ----------
    numeric
        Columns of numbers.
    categorical
        Columns of categories.
    buckets
        How many codes a column of categories has, 2 or more: one number, or one for each column.
    scale
        "log", or "none" for numbers as they are.
    endings
        Of columns in whose cells only the last characters count, how many (as bytes of UTF-8): of
        an hour YYMMDDHH, the last two are that of the day.

    Raises
    ------
    ConfigurationError
        If there is no column, one is named twice, or a number is out of range.

    Examples
    --------
    >>> Columns(numeric=["price"], categorical=["shop", "town"], buckets=1000).cardinalities
    (1000, 1000)
    """

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    buckets: int | Mapping[str, int] = defaults.BUCKETS
    scale: Literal["log", "none"] = "log"
    endings: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        make_plain(Columns, self)
        for kind in ("numeric", "categorical"):
            given = getattr(self, kind)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise ConfigurationError(f"{kind} must be a list of columns, not {given!r}")
            object.__setattr__(self, kind, tuple(given))
        if not self.names:
            raise ConfigurationError("there is no column; name one in numeric or in categorical")
        check_named_once("numeric and categorical", list(self.names))
        if self.scale not in ("log", "none"):
            raise ConfigurationError(f"scale must be 'log' or 'none', not {self.scale!r}")
        each = self.buckets if isinstance(self.buckets, Mapping) else {}
        for what, columns in (("buckets", each), ("endings", self.endings)):
            strange = [name for name in columns if name not in self.categorical]
            if strange:
                raise ConfigurationError(
                    f"{what} name {listed(strange)}, which is no categorical column here; "
                    f"those are {listed(self.categorical) or 'none'}"
                )
        if isinstance(self.buckets, Mapping) and (rest := set(self.categorical) - set(each)):
            raise ConfigurationError(
                f"buckets say nothing of {listed(sorted(rest))}; name every categorical column, or "
                "give one number for all"
            )
        for name, count in zip(self.categorical, self.cardinalities, strict=True):
            if not is_whole(count) or not 2 <= count <= _MOST:
                raise ConfigurationError(
                    f"buckets must be 2 to {_MOST}, the code of a missing category and another, "
                    f"not {count!r} ({name!r})"
                )
        for name, count in self.endings.items():
            if not is_whole(count) or count < 1:
                raise ConfigurationError(
                    f"endings must be 1 character or more, not {count!r} ({name!r})"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, those of numbers first."""
        return (*self.numeric, *self.categorical)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many codes each column of categories has."""
        if isinstance(self.buckets, Mapping):
            return tuple(self.buckets[name] for name in self.categorical)
        return (self.buckets,) * len(self.categorical)

    def as_dict(self) -> dict[str, Any]:
        """Return all that decides what features are, as JSON values."""
        return {
            "numeric": list(self.numeric),
            "categorical": list(self.categorical),
            "buckets": list(self.cardinalities),
            "scale": self.scale,
            "endings": dict(self.endings),
        }
