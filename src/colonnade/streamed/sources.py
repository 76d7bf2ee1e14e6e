"""Long tables in files, text or Parquet, to encoded rows in little memory."""

from __future__ import annotations

import csv
import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from colonnade.errors import ConfigurationError, DataError
from colonnade.streamed.form import Form
from colonnade.streamed.text import BLOCK, Encoded, Place, check_header, encoded_text
from colonnade.tables.columns import values_of
from colonnade.tables.delimited import separator_of
from colonnade.tables.stored import StoredTable

__all__ = ["Source", "encoded_frame"]

_BATCH = 2**14  # rows of a Parquet file that become text together
_LONGEST = 2**20  # bytes of a line of names
_TEXT = "\t"


class Source:
    r"""A file with rows of a long table: text, plain or ``.gz``, or ``.parquet``.

    Parameters
    ----------
    path
        The file.
    names
        What columns are called, where a text has no line of names.
    separator
        What is between a text's cells; by default a tab for .tsv, else a comma.
    block
        Bytes of text that are looked at together.

    Raises
    ------
    DataError
        If there is no such file.
    ConfigurationError
        If nothing can be separated so.

    Examples
    --------
    >>> from colonnade.streamed.columns import Columns
    >>> _ = Path("clicks.csv").write_text("click,price,town\n1,0,Rome\n0,,\n")
    >>> form = Form({"shop": Columns(["price"], ["town"], buckets=100)}, "click")
    >>> for rows in Source(Path("clicks.csv")).encoded(form):
    ...     print(rows.numbers.tolist(), rows.codes.tolist(), rows.labels.tolist())
    [[0.0], [0.0]] [[55], [0]] [1, 0]
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str] | None = None,
        separator: str | None = None,
        block: int = BLOCK,
    ) -> None:
        self.path = path
        self._names = names
        self._separator = separator_of(path.name) if separator is None else separator
        self._block = block
        one = self._separator
        if len(one) != 1 or not one.isascii() or one in '"\r\n':
            raise ConfigurationError(
                f"separator must be one ASCII character, no quote and no line end, not {one!r}"
            )
        try:
            there, is_file = path.exists(), path.is_file()
        except (OSError, ValueError) as error:
            shown = str(path)[:60]
            raise DataError(
                f"{shown!r} cannot be read: {getattr(error, 'strerror', None) or error}; name "
                "another file, or have it made readable"
            ) from error
        if not there:
            raise DataError(f"there is no file {path}")
        if not is_file:
            raise DataError(f"{path} is not a file")

    def stamp(self) -> dict[str, Any]:
        """Return by what a file is known that has not changed: its place, size and time."""
        status = self.path.stat()
        stamp = {
            "file": str(self.path.resolve()),
            "bytes": status.st_size,
            "modified": status.st_mtime_ns,
        }
        if self.path.suffix.lower() == ".parquet":
            return stamp
        names = None if self._names is None else list(self._names)
        return stamp | {"separator": self._separator, "names": names}

    def seen(self) -> tuple[Any, ...] | None:
        """Return what a file has not that was written meanwhile; None where none is there."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def encoded(self, form: Form, told: Callable[[int], None] | None = None) -> Iterator[Encoded]:
        """Yield the rows, some at a time; the arrays of one are written over by the next.

        Parameters
        ----------
        form
            What is encoded.
        told
            Is told how many bytes of the file have been read so far.

        Raises
        ------
        DataError
            If the file cannot be read, lacks a column, or a row cannot be encoded.
        """
        if self.path.suffix.lower() == ".parquet":
            yield from self._of_parquet(form, told)
            return
        try:
            with self.path.open("rb") as raw:
                yield from self._of_text(raw, form, told)
        except PermissionError as error:
            raise DataError(
                f"{self.path} cannot be read: {error.strerror}; have it made readable"
            ) from error
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self.path} cannot be read to its end: {_line(error)}; "
                "it may be cut off or damaged: get it again"
            ) from error

    def _of_text(
        self, raw: IO[bytes], form: Form, told: Callable[[int], None] | None
    ) -> Iterator[Encoded]:
        packed = self.path.name.lower().endswith(".gz")
        file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        start = file.read(len(BOM_UTF8)).removeprefix(BOM_UTF8)
        header, lines = self._names, 0
        if header is None:
            line, end, start = start.partition(b"\n")
            line, lines = line + (end or file.readline(_LONGEST)), 1
            header = _names_in(self.path, line, self._separator)
        check_header(str(self.path), form, header)
        ahead = BytesIO(start)

        def read(buffer: memoryview) -> int:
            got = ahead.readinto(buffer) or file.readinto(buffer)
            if told is not None:
                told(raw.tell())
            return int(got)

        place = Place(str(self.path), 0, 1 + lines)
        yield from encoded_text(read, form, header, self._separator, place, self._block)

    def _of_parquet(self, form: Form, told: Callable[[int], None] | None) -> Iterator[Encoded]:
        table = StoredTable(self.path, empty=True)
        check_header(str(self.path), form, list(table.schema))
        done = 0
        for batch in table.batches(form.columns, _BATCH):
            yield from encoded_frame(batch.frame, form, str(self.path), done)
            done += batch.frame.height
            if told is not None:
                told(self.path.stat().st_size * done // table.height)


def encoded_frame(
    frame: pl.DataFrame, form: Form, where: str, row: int = 0, spelled: Collection[str] = ()
) -> Iterator[Encoded]:
    """Yield the rows of a frame, encoded as those of a text file with the same cells.

    Parameters
    ----------
    frame
        It has every column of the form.
    form
        What is encoded.
    where, row
        What messages call the frame, and its first row.
    spelled
        Columns of categories whose codes are of numerals like 007, as no number is written.

    Raises
    ------
    DataError
        If a column holds neither text nor numbers, or numbers where it has to be text, or a cell
        cannot be encoded.
    """
    codes = [name for columns in form.parties.values() for name in columns.categorical]
    for name in codes:
        _check_exact(values_of(frame, name), name, where, name in spelled)
    chosen = pl.DataFrame([_as_text(values_of(frame, name), name, where) for name in form.columns])
    written = BytesIO()
    chosen.write_csv(written, separator=_TEXT, include_header=False, quote_style="always")
    written.seek(0)
    place = Place(where, row)
    text = np.array([not frame.schema[name].is_numeric() for name in codes], dtype=np.bool_)
    for block in encoded_text(written.readinto, form, chosen.columns, _TEXT, place):
        yield block._replace(spelled=block.spelled & text)


def _check_exact(values: pl.Series, name: str, where: str, spelled: bool) -> None:
    """Raise unless numbers that are categories are all that the text of the cells says."""
    dtype = values.dtype
    if not dtype.is_numeric():
        return
    if dtype.is_float():
        values = values.fill_nan(None)
        lost = values.abs() >= (2**24 if dtype == pl.Float32 else 2**53)
        if bool(lost.any()):
            raise DataError(
                f"{where}: column {name!r} holds numbers with a point that are too large for "
                "their last digits to be exact; read it as text (dtype=str)"
            )
    if spelled and values.null_count() < len(values):
        raise DataError(
            f"{where}: column {name!r} holds numbers, and among the rows that were encoded are "
            "texts like 007, 2.50, 1e3 or 0.0000001, which as numbers would be others; read it as "
            "text (dtype=str)"
        )


def _as_text(values: pl.Series, name: str, where: str) -> pl.Series:
    """Return cells as a text file has them: whole numbers without a point, missing ones empty.

    Cell by cell: how one is written does not depend on what else is in the column.
    """
    dtype = values.dtype
    if dtype.is_float():
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        is_whole = (whole == values).fill_null(False)
        # What pandas makes of whole numbers beside missing ones.
        values = whole.cast(pl.String).zip_with(is_whole, values.cast(pl.String))
    elif dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    elif dtype == pl.Boolean:
        values = values.cast(pl.Int8)
    elif not (dtype.is_integer() or dtype in (pl.String, pl.Null)):
        raise DataError(
            f"{where}: column {name!r} holds {dtype}; expected text, whole numbers or numbers: "
            "cast it, or take it out"
        )
    return values.cast(pl.String).fill_null("").alias(name)


def _names_in(path: Path, line: bytes, separator: str) -> list[str]:
    if b"\r" in line.rstrip(b"\r\n") or (line.endswith(b"\r")):
        raise DataError(
            f"the lines of {path} end with CR alone, as on old Macs; save the file with line ends "
            "LF or CRLF"
        )
    if line and not line.rstrip(b"\r\n"):
        raise DataError(
            f"the first line of {path} is empty; expected the names of columns: take the line out, "
            "or say in names what they are called"
        )
    if len(line) >= _LONGEST:
        raise DataError(
            f"the first line of {path} goes on for more than {_LONGEST:,} bytes, so it is no line "
            "of names; is this a text file?"
        )
    try:
        text = line.decode("utf-8").rstrip("\r\n")
        header, *rest = csv.reader([text, ""], delimiter=separator)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"the first line of {path} cannot be read as names of columns: {_line(error)}; "
            "save the file as UTF-8 text"
        ) from error
    if not rest:
        raise DataError(
            f"the first line of {path} has a quote that is not closed in it; close it, or give "
            "columns names without line ends"
        )
    if not header:
        raise DataError(f"{path} is empty; expected a line of column names, and rows")
    return header


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
