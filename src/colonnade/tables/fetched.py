"""What a query finds, some rows at a time: however long its rows and texts are, few are held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Result, Row

__all__ = ["ROWS", "pieces"]

ROWS = 2**13
"""That are held at a time: Python's objects take several times a column's memory."""

_AT_ONCE = 2**6  # fetched before anybody looks how long they are
_BYTES = 2**24  # of texts
_TEXTS = frozenset({str, bytes})


def pieces(result: Result[Any], together: bool = False) -> Iterator[list[Row[Any]]]:
    """Yield the rows of a result together until there are many, or they are long.

    Parameters
    ----------
    result
        What a query finds.
    together
        Whether some are fetched before anybody looks how long they are, by a cursor that does.
    """
    piece: list[Row[Any]] = []
    held = 0
    for rows in result.partitions(_AT_ONCE) if together else ([row] for row in result):
        piece.extend(rows)
        held += sum([len(value) for row in rows for value in row if type(value) in _TEXTS])
        if held >= _BYTES or len(piece) >= ROWS:
            yield piece
            piece, held = [], 0
    if piece:
        yield piece
