"""Separated text, a block at a time, to numbers, codes and labels."""

from __future__ import annotations

import warnings
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, DataWarning
from colonnade.kernels.cells import (
    BAD_CELLS,
    BAD_LABEL,
    BAD_NUMBER,
    CATEGORY,
    LABEL,
    LOGARITHM,
    NUMBER,
    SKIPPED,
    beginning_of_hashes,
    encode_cells,
    one_form,
)
from colonnade.streamed.form import Form
from colonnade.tables.names import check_named_once, check_present, listed

__all__ = ["BLOCK", "Encoded", "Place", "check_header", "encoded_text"]

BLOCK = 2**22
"""Bytes of text that are looked at together; a row is shorter."""

_ROWS = 2**15
_PIECE = 2**16  # bytes that are decoded together
_MANY = 5  # line ends that a text may have, as in an address
_SHOWN = 40  # bytes of a wrong cell in a message


class Encoded(NamedTuple):
    """Rows as tensors will hold them; the arrays are written over by the next block.

    Of all parties together: ``Form.numbers`` and ``Form.codes`` say whose columns are whose.
    """

    numbers: NDArray[np.float32]
    codes: NDArray[np.int32]
    labels: NDArray[np.int64]
    spelled: NDArray[np.bool_]
    """Of each column of codes, whether a numeral like 007 was there, as no number is written."""


@dataclass(frozen=True)
class Place:
    """Where a text is from, for messages: a file, its first row, and the line of that, if any."""

    file: str
    row: int = 0
    line: int | None = None

    def of(self, rows: int, lines: int) -> str:
        """Return the place of a row, so many rows and line ends later."""
        line = "" if self.line is None else f" (line {self.line + lines})"
        return f"{self.file}: row {self.row + rows}{line}"


def encoded_text(
    read: Callable[[memoryview], int],
    form: Form,
    header: Sequence[str],
    separator: str,
    place: Place,
    block: int = BLOCK,
) -> Iterator[Encoded]:
    """Yield the rows of a text, which are read into one block of memory.

    Parameters
    ----------
    read
        Puts the next bytes into a buffer, and returns how many; 0 at the end.
    form
        What is encoded.
    header
        The names of all columns.
    separator
        What is between cells, one ASCII character.
    place
        Where the text is from.
    block
        Bytes that are looked at together.

    Raises
    ------
    DataWarning
        If a row goes on for many lines, since quotes within it do.
    DataError
        If a row has another number of cells than there are columns or is not UTF-8, or a cell is
        not what its column holds.
    """
    plan = _Plan(form, header)
    text, scratch = np.empty(block, dtype=np.uint8), np.empty(block, dtype=np.uint8)
    view = memoryview(text.data)
    filled, rows, lines, at_end = 0, 0, 0, False
    longest, begun = _MANY, 0  # line ends within the quotes of a row, and in which line it begins
    while not at_end:
        got = read(view[filled:])
        at_end = got == 0
        filled += got
        begin = 0
        while True:
            found = plan.encode(text[begin:], filled - begin, at_end, ord(separator), scratch)
            count, consumed, ends = int(found[0]), int(found[1]), int(found[2])
            wrong = _not_utf8(view[begin : begin + consumed])
            if wrong is not None:
                plan.encode(text[begin:], wrong, False, ord(separator), scratch)
                raise DataError(
                    f"{place.of(rows + int(found[0]), lines + int(found[2]))} is not written in "
                    "UTF-8; save the file as UTF-8 (in a spreadsheet: CSV UTF-8)"
                )
            if count:
                yield Encoded(
                    plan.numbers[:count], plan.codes[:count], plan.labels[:count], plan.spelled
                )
            if found[8] > longest:
                longest, begun = int(found[8]), lines + int(found[9])
            rows, lines, begin = rows + count, lines + ends, begin + consumed
            if found[3]:
                cell = text[begin - consumed :][found[6] : found[7]].tobytes()
                raise DataError(f"{place.of(rows, lines)} {plan.wrong(found, cell, form)}")
            if not consumed or begin == filled:
                break
        text[: filled - begin] = text[begin:filled].copy()
        filled -= begin
        if filled == block:
            raise DataError(
                f"{place.of(rows, lines)} goes on for more than {block:,} bytes; a quote or a line "
                "end is missing in it, or this is no separated text"
            )
    if longest > _MANY and place.line is not None:
        warnings.warn(
            f"{place.file}: a row that begins in line {place.line + begun} has {longest} line ends "
            "within quotes; if it is no long text, a quote is missing or too many there, and those "
            "lines are no rows",
            DataWarning,
            stacklevel=2,
        )


def _not_utf8(text: memoryview) -> int | None:
    """Return where whole rows are not UTF-8, None if they are; a piece at a time, for memory."""
    decoder, first = getincrementaldecoder("utf-8")(), 0
    try:
        for first in range(0, len(text), _PIECE):
            held = len(decoder.getstate()[0])
            decoder.decode(text[first : first + _PIECE], first + _PIECE >= len(text))
    except UnicodeDecodeError as error:
        return max(0, first - held + error.start)
    return None


class _Plan:
    """What becomes of each cell of a row, in the arrays that the kernel takes."""

    def __init__(self, form: Form, header: Sequence[str]) -> None:
        self.header = tuple(header)
        count = len(self.header)
        at = {name: cell for cell, name in enumerate(self.header)}
        self._kinds = np.full(count, SKIPPED, dtype=np.int64)
        self._places, self._endings = np.zeros((2, count), dtype=np.int64)
        self._begun, self._buckets = np.zeros((2, count), dtype=np.uint64)
        numbers = codes = 0
        for columns in form.parties.values():
            for name in columns.numeric:
                self._kinds[at[name]] = LOGARITHM if columns.scale == "log" else NUMBER
                self._places[at[name]], numbers = numbers, numbers + 1
            for name, buckets in zip(columns.categorical, columns.cardinalities, strict=True):
                self._kinds[at[name]] = CATEGORY
                self._places[at[name]], codes = codes, codes + 1
                self._begun[at[name]] = beginning_of_hashes(name)
                self._buckets[at[name]] = buckets
                self._endings[at[name]] = columns.endings.get(name, 0)
        if form.label is not None:
            self._kinds[at[form.label]] = LABEL
        spellings = [one_form(text) for text in (*form.missing, *form.classes)]
        self._spellings = np.frombuffer(b"".join(spellings), dtype=np.uint8)
        self._ends = np.cumsum([len(each) for each in spellings], dtype=np.int64)
        self._missing = len(form.missing)
        self.numbers = np.zeros((_ROWS, numbers), dtype=np.float32)
        self.codes = np.zeros((_ROWS, codes), dtype=np.int32)
        self.labels = np.zeros(_ROWS, dtype=np.int64)
        self.spelled = np.zeros(codes, dtype=np.bool_)
        self._found = np.zeros(10, dtype=np.int64)

    def encode(
        self, text: NDArray[np.uint8], stop: int, at_end: bool, separator: int, scratch: Any
    ) -> NDArray[np.int64]:
        """Encode rows into the plan's own arrays, and return what the kernel found."""
        encode_cells(
            text,
            stop,
            at_end,
            np.uint8(separator),
            self._kinds,
            self._places,
            self._endings,
            self._begun,
            self._buckets,
            self._spellings,
            self._ends,
            self._missing,
            scratch,
            self.numbers,
            self.codes,
            self.labels,
            self.spelled,
            self._found,
        )
        return self._found

    def wrong(self, found: NDArray[np.int64], cell: bytes, form: Form) -> str:
        """Return what is wrong with a row, and the remedy."""
        what, column, cells = (int(found[i]) for i in (3, 4, 5))
        name = self.header[column]
        cell = cell.rstrip(b"\r")
        if cell.startswith(b'"') and cell.endswith(b'"'):
            cell = cell[1:-1]
        shown = repr(cell[:_SHOWN].decode("utf-8", "replace")) + ("..." * (len(cell) > _SHOWN))
        if what == BAD_CELLS:
            has = f"has {cells} cell{'s' if cells > 1 else ''}" if cells else "is empty"
            return (
                f"{has}, and there are {len(self.header)} columns; correct the row, in which a "
                "separator may be missing or want quotes, or take it out"
            )
        if what == BAD_LABEL:
            return (
                f"has {shown} in {name!r}, the column of labels; expected "
                f"{' or '.join(map(repr, form.classes))}: correct it, or say how classes are "
                "written in classes"
            )
        if what == BAD_NUMBER:
            return (
                f"has {shown} in {name!r}, which is no number; correct it, name it in missing if "
                "it says that there is none, or make the column categorical"
            )
        return f"has a quote in {name!r} that is never closed; close it, or take it out"


def check_header(where: str, form: Form, header: Sequence[str]) -> None:
    """Raise ``DataError`` unless every column of the form is in the header, and none twice."""
    check_named_once(where, header)
    try:
        check_present(where, form.columns, header)
    except DataError as error:
        others = [mark for mark in ";\t|," if len(header) == 1 and mark in header[0]]
        hint = f"; name what is between cells in separator: {others[0]!r}?" if others else ""
        shown = f"of {len(header)}, the first are {listed(header)}"
        raise DataError(f"{error}; {shown}{hint}") from None
