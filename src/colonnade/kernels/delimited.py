"""Separated text as it is written: how many cells each row has, and digits that numbers would lose.

A byte is looked at once. A quote counts where it begins a cell; within quotes separators and line
ends are text, and two quotes are one. Of others, and of text behind the quote that ends a cell, the
first is remembered.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["CODE", "LONG", "Scan"]

CODE = 1
"""Flag of a column with a cell of digits alone that begin with a zero, such as 007."""

LONG = 2
"""Flag of a column with a cell of 16 digits or more, and nothing else."""

_DIGITS = 16  # 2^53 has as many

# Where in a cell the scan is.
_BEGIN, _PLAIN, _QUOTED, _CLOSED = 0, 1, 2, 3
# What the cell is so far.
_EMPTY, _SIGN, _ZERO, _LED_BY_ZERO, _NUMBER, _OTHER = 0, 1, 2, 3, 4, 5
# Fields of the state.
_WHERE, _CELLS, _ROW, _LINE, _KIND, _LENGTH, _WRONG_ROW, _WRONG_LINE, _WRONG_CELLS = range(9)
_BREAKS, _MOST_BREAKS, _BROKEN_LINE = range(9, 12)  # line ends of this cell, and of the longest one
_STRAY_ROW, _STRAY_LINE, _BEHIND_ROW, _BEHIND_LINE = range(12, 16)
_FIELDS = 16


@njit(inline="always")
def _end_cell(state, flags):  # type: ignore[no-untyped-def]  # numba infers the types
    cell = state[_CELLS]
    if cell < len(flags) and state[_ROW] >= 0:
        if state[_KIND] == _LED_BY_ZERO:
            flags[cell] |= CODE
        if state[_KIND] == _NUMBER and state[_LENGTH] >= _DIGITS:
            flags[cell] |= LONG
    if state[_BREAKS] > state[_MOST_BREAKS]:
        state[_MOST_BREAKS], state[_BROKEN_LINE] = state[_BREAKS], state[_LINE] - state[_BREAKS]
    state[_BREAKS] = 0
    state[_CELLS] += 1
    state[_WHERE], state[_KIND], state[_LENGTH] = _BEGIN, _EMPTY, 0


@njit(inline="always")
def _end_row(state, flags):  # type: ignore[no-untyped-def]
    blank = state[_CELLS] == 0 and state[_WHERE] == _BEGIN
    if not blank or len(flags) == 1:
        _end_cell(state, flags)
    if state[_CELLS] != len(flags) and state[_WRONG_LINE] == 0:
        state[_WRONG_ROW], state[_WRONG_CELLS] = state[_ROW], state[_CELLS]
        state[_WRONG_LINE] = state[_LINE]
    state[_ROW] += 1
    state[_CELLS] = 0


@njit(cache=True, nogil=True)
def _scan(text, separator, state, flags):  # type: ignore[no-untyped-def]
    for byte in text:
        where = state[_WHERE]
        if where == _QUOTED:
            if byte == 34:
                state[_WHERE] = _CLOSED
                continue
            if byte == 10:
                state[_LINE] += 1
                state[_BREAKS] += 1
        elif byte == 34 and where != _PLAIN:
            state[_WHERE] = _QUOTED
            if where == _BEGIN:
                continue
        elif byte == separator:
            _end_cell(state, flags)
            continue
        elif byte == 10:
            _end_row(state, flags)
            state[_LINE] += 1
            continue
        elif byte == 13:
            continue
        elif where == _BEGIN:
            state[_WHERE] = _PLAIN
        elif where == _CLOSED:
            state[_WHERE] = _PLAIN
            if state[_BEHIND_LINE] == 0:
                state[_BEHIND_ROW], state[_BEHIND_LINE] = state[_ROW], state[_LINE]
        elif byte == 34 and state[_STRAY_LINE] == 0:
            state[_STRAY_ROW], state[_STRAY_LINE] = state[_ROW], state[_LINE]
        kind = state[_KIND]
        if kind == _OTHER:
            continue
        if 48 <= byte <= 57:
            state[_LENGTH] += 1
            if kind in (_EMPTY, _SIGN):
                state[_KIND] = _ZERO if byte == 48 else _NUMBER
            elif kind == _ZERO:
                state[_KIND] = _LED_BY_ZERO
        elif kind == _EMPTY and (byte == 43 or byte == 45):
            state[_KIND] = _SIGN
        else:
            state[_KIND] = _OTHER


@njit(cache=True, nogil=True)
def _finish(state, flags):  # type: ignore[no-untyped-def]
    if state[_WHERE] != _QUOTED and (state[_CELLS] > 0 or state[_WHERE] != _BEGIN):
        _end_row(state, flags)


class Scan:
    r"""A text, piece by piece.

    Parameters
    ----------
    columns
        How many cells a row has.
    separator
        What is between them, one ASCII character.
    names
        Whether the first row holds the names of the columns, and is no row of the table.

    Examples
    --------
    >>> scan = Scan(2, ",", names=True)
    >>> scan.feed(b"id,age\n007,41\n8\n")
    >>> scan.finish()
    >>> scan.rows, scan.wrong, scan.flagged(CODE)
    (2, (1, 3, 1), [0])
    """

    def __init__(self, columns: int, separator: str, names: bool) -> None:
        self._separator = np.uint8(ord(separator))
        self._state = np.zeros(_FIELDS, dtype=np.int64)
        self._state[_ROW] = -1 if names else 0
        self._state[_LINE] = 1
        self._flags = np.zeros(columns, dtype=np.uint8)

    def feed(self, text: bytes) -> None:
        """Look at the next bytes."""
        _scan(np.frombuffer(text, dtype=np.uint8), self._separator, self._state, self._flags)

    def finish(self) -> None:
        """End the last row, which may have no line end."""
        _finish(self._state, self._flags)

    @property
    def rows(self) -> int:
        """How many rows there are, without the line of names."""
        return int(self._state[_ROW])

    @property
    def wrong(self) -> tuple[int, int, int] | None:
        """Row, line and number of cells of the first row with another number than columns."""
        if not self._state[_WRONG_LINE]:
            return None
        row, line, cells = (int(self._state[at]) for at in (_WRONG_ROW, _WRONG_LINE, _WRONG_CELLS))
        return row, line, cells

    @property
    def stray(self) -> tuple[int, int] | None:
        """Row and line of the first quote within a cell that does not begin with one."""
        return self._place(_STRAY_ROW, _STRAY_LINE)

    @property
    def behind(self) -> tuple[int, int] | None:
        """Row and line of the first text behind a quote that ends its cell."""
        return self._place(_BEHIND_ROW, _BEHIND_LINE)

    def _place(self, row: int, line: int) -> tuple[int, int] | None:
        return (int(self._state[row]), int(self._state[line])) if self._state[line] else None

    @property
    def is_open(self) -> bool:
        """Whether the text ends within quotes: it was cut off."""
        return bool(self._state[_WHERE] == _QUOTED)

    @property
    def longest(self) -> tuple[int, int]:
        """How many line ends the cell with the most of them has, and in which line it begins."""
        return int(self._state[_MOST_BREAKS]), int(self._state[_BROKEN_LINE])

    def flagged(self, flag: int) -> list[int]:
        """Return the columns with a flag."""
        return [int(column) for column in np.flatnonzero(self._flags & flag)]
