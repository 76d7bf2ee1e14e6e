"""From new rows of an organisation's table to the codes that stored rows have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colonnade.errors import DataError, InvalidInput
from colonnade.streamed.columns import Columns
from colonnade.streamed.form import Form
from colonnade.streamed.sources import encoded_frame
from colonnade.tables.frames import as_frame

__all__ = ["RowEncoder"]

_ENCODER, _VERSION = "rows", 2


@dataclass(frozen=True)
class RowEncoder:
    """Encodes rows of one organisation as those that were streamed.

    Parameters
    ----------
    party
        The organisation.
    form
        The form of its rows, without labels.
    spelled
        Its columns of categories with numerals like 007, for which numbers cannot stand.

    Examples
    --------
    >>> from colonnade.streamed.columns import Columns
    >>> encoder = RowEncoder("shop", Form({"shop": Columns(["price"], ["town"], buckets=100)}))
    >>> encoder.transform({"price": [0, None], "town": ["Rome", None]})
    {'numeric': tensor([[0.],
            [0.]]), 'categorical': tensor([[55],
            [ 0]], dtype=torch.int32)}
    """

    party: str
    form: Form
    spelled: tuple[str, ...] = ()

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many codes each column of categories has."""
        return self.form.parties[self.party].cardinalities

    @property
    def text_columns(self) -> tuple[str, ...]:
        """None: it reads cells itself."""
        return ()

    def transform(self, frame: Any) -> dict[str, Tensor]:
        """Return the features of each row.

        Parameters
        ----------
        frame
            The organisation's table, what ``as_frame`` takes; further columns are ignored.

        Raises
        ------
        DataError
            If it lacks a column, has no row, or a cell cannot be encoded.
        """
        rows = as_frame(frame, list(self.form.columns))
        if rows.is_empty():
            raise DataError(f"the table of {self.party!r} has no rows")
        where = f"the table of {self.party!r}"
        blocks = [
            (torch.from_numpy(block.numbers.copy()), torch.from_numpy(block.codes.copy()))
            for block in encoded_frame(rows, self.form, where, spelled=self.spelled)
        ]
        numbers, codes = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        features = {"numeric": numbers, "categorical": codes}
        return {name: values for name, values in features.items() if values.shape[1]}

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as JSON values: of the rows, how numerals are written."""
        state = {"encoder": _ENCODER, "version": _VERSION, "spelled": list(self.spelled)}
        return state | self.form.as_dict()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RowEncoder:
        """Return the encoder whose ``state`` this is: of an exported part, say.

        Raises
        ------
        DataError
            If ``state`` cannot have returned this.

        Examples
        --------
        >>> from colonnade.streamed.columns import Columns
        >>> encoder = RowEncoder("shop", Form({"shop": Columns(["price"], ["town"])}))
        >>> RowEncoder.from_state(encoder.state()).state() == encoder.state()
        True
        """
        try:
            if (state["encoder"], state["version"]) != (_ENCODER, _VERSION):
                raise DataError(f"it is of another encoder, version {state['version']!r}")
            ((party, own),) = state["parties"].items()
            buckets = dict(zip(own["categorical"], own["buckets"], strict=True))
            columns = Columns(**(own | {"buckets": buckets}))
            form = Form({str(party): columns}, None, state["classes"], state["missing"])
            spelled = tuple(map(str, state["spelled"]))
        except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as error:
            raise DataError(
                f"this is not the state of an encoder of rows: {error}; use what "
                "RowEncoder.state() returned"
            ) from error
        return cls(str(party), form, spelled)
