"""The people who can be asked for, by the ids that all organisations know them by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import UnknownPerson
from colonnade.tables import IdForm

__all__ = ["People"]


class People:
    """Ids, and the row of each.

    Parameters
    ----------
    ids
        In the order of the rows, each once.
    form
        How ids are written before they are compared; None as they are.

    Examples
    --------
    >>> people = People(pl.Series(["0007", "ab"]), IdForm(pad=4))
    >>> people.rows([" AB", 7, "7"])
    array([1, 0, 0])
    """

    def __init__(self, ids: pl.Series, form: IdForm | None = None) -> None:
        self._form = form
        self._rows = {str(id): row for row, id in enumerate(ids.to_list())}

    @property
    def some(self) -> str:
        """Somebody's id, for an example."""
        return next(iter(self._rows), "...")

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """Return the row of each of these.

        Raises
        ------
        UnknownPerson
            If somebody is not among them.
        """
        written = [str(id) for id in ids]
        if self._form is not None:
            written = self._form.apply(pl.Series(written, dtype=pl.String)).to_list()
        found = [self._rows.get(id) for id in written]
        missing = [id for id, row in zip(ids, found, strict=True) if row is None]
        if missing:
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise UnknownPerson(f"nobody here is known to everybody by the id {missing[0]!r}{more}")
        return np.array(found, dtype=np.int64)
