"""Text files: comma- or tab-separated, possibly gzipped, with a line of names or without."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import polars as pl

from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.delimited import CODE, LONG, Scan
from colonnade.tables.columns import only, values_of
from colonnade.tables.dates import as_dates
from colonnade.tables.names import check_named_once, check_path, check_present, check_texts
from colonnade.tables.notes import tell
from colonnade.tables.numerals import WHOLE, has_points, settled
from colonnade.tables.there import check_is_file, stamp_of

__all__ = ["read_delimited", "separator_of"]

_PIECE = 2**22  # bytes looked at together
_LONGEST = 2**24  # characters of all names
_MANY = 10  # line ends in one cell


def separator_of(name: str) -> str:
    """Return what separates the columns of a file, by its name: a tab for .tsv, else a comma."""
    return "\t" if name.lower().removesuffix(".gz").endswith(".tsv") else ","


def read_delimited(
    path: Path,
    separator: str,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    missing: Sequence[str] = (),
    names: Sequence[str] | None = None,
    decimal: str | None = None,
    text: Sequence[str] = (),
) -> pl.DataFrame:
    r"""Return the table of a text file; types are chosen to hold every row's value.

    With ``names`` the first line is a row like any other, and those are the columns. Digits that
    begin with a zero are text, and so are whole numbers beyond 64 bits; and what is in the columns
    of ``text``, whatever it looks like.

    Raises
    ------
    DataError
        If there is no such file, it is not UTF-8 text in columns, has no rows, a row has other
        columns than the first line, or a column is not there or named twice.

    Examples
    --------
    >>> _ = Path("people.csv").write_text("id;income\n007;NA\n012;1\n030;2.5\n")
    >>> read_delimited(Path("people.csv"), ";", id="id", missing=["NA"]).to_dict(as_series=False)
    {'id': ['007', '012', '030'], 'income': [None, 1.0, 2.5]}
    """
    if decimal not in (None, ".", ","):
        raise ConfigurationError(f"decimal must be '.' or ',', not {decimal!r}")
    if len(separator) != 1 or not separator.isascii() or separator in '\r\n"':
        raise ConfigurationError(
            "separator must be one ASCII character that neither ends a line nor quotes, not "
            f"{separator!r}"
        )
    check_texts("missing", missing)
    check_texts("names", names or [])
    check_texts("text", text)
    header = _header(path, separator, names)
    check_named_once(str(path) if names is None else "names", header)
    wanted = list(columns or ([id] if id else []))
    try:
        check_present(str(path), [*wanted, *text], header)
    except DataError as error:
        other = _other_separator(header)
        if other is None:
            raise
        raise DataError(
            f"{error}; its columns seem to be separated by {other!r}: say separator={other!r}"
        ) from error
    if columns is None:
        wanted = [*dict.fromkeys([*wanted, *header])]
    before = stamp_of(path)
    scan = _scanned(path, separator, header, names is None)
    codes, long = ({header[at] for at in scan.flagged(flag)} for flag in (CODE, LONG))
    # Of a quote within a name polars keeps both characters that a file has for it.
    doubled = [name.replace('"', '""') for name in header]
    own = dict(zip(header, doubled if names is None else _own_names(len(header)), strict=True))
    chosen = set(wanted)
    places = [place for place, name in enumerate(header) if name in chosen]
    try:
        frame = pl.read_csv(
            path,
            has_header=names is None,
            columns=places,  # a name may be a pattern
            separator=separator,
            null_values=list(missing),
            schema_overrides={
                own[name]: pl.String
                for name in wanted
                if name == id or name in codes | long or name in text
            },
            infer_schema_length=None,  # all rows: a late fraction makes its column one of floats
            glob=False,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {_why(error)}") from error
    if stamp_of(path) != before:
        raise DataError(f"{path} has changed while it was read; begin again when it is at rest")
    frame.columns = [header[place] for place in places]
    if frame.is_empty():
        raise DataError(f"{path} has a header and no rows")
    if frame.height != scan.rows:
        raise DataError(
            f"{path} has {scan.rows} rows, but polars {pl.__version__} finds {frame.height}; put "
            "each cell that holds a separator, a quotation mark or a line end between marks"
        )
    frame = frame.with_columns(
        _said(values_of(frame, name), missing).alias(name)
        for name, dtype in frame.schema.items()
        if dtype == pl.String
    )
    if id and (ids := values_of(frame, id)).str.contains(WHOLE).all():
        # Numbers beyond 64 bits are nulls then, and stay text.
        numbers = ids.cast(pl.Int64, strict=False)
        if numbers.null_count() == ids.null_count():
            frame = frame.with_columns(numbers.alias(id))
    as_written = {*text, *codes, *([] if id is None else [id])}
    found = {
        name: values_of(frame, name)
        for name, dtype in frame.schema.items()
        if dtype == pl.String and name not in as_written
    }
    if decimal == ",":
        _refuse_points(path, frame, found)
    frame = frame.with_columns(
        _settled(values, decimal == ",").alias(name) for name, values in found.items()
    )
    return only(frame, wanted)


def _scanned(path: Path, separator: str, header: Sequence[str], named: bool) -> Scan:
    """Return what was seen of a file, byte by byte; refuse rows that are not as the first line is.

    Raises
    ------
    DataError
        If a row has another number of cells than there are columns, or a cell has a quote within,
        or goes on behind the quote that ends it.
    """
    scan = Scan(len(header), separator, named)
    ends: set[bytes] = set()
    try:
        with _opener(path)(path, "rb") as file:
            start = file.read(len(BOM_UTF8))
            piece = start.removeprefix(BOM_UTF8) + file.read(_PIECE)
            while piece:
                scan.feed(piece)
                ends.update(end for end in (b"\r", b"\n") if end in piece)
                piece = file.read(_PIECE)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a table: {_line(error)}") from error
    scan.finish()
    # The line of names is cut at CR here, and was not there where it has other cells.
    if ends == {b"\r"} or (scan.wrong and scan.wrong[0] < 0):
        raise DataError(
            f"the lines of {path} end in CR alone, as old Macintosh programs wrote them; save it "
            "with line ends of LF or CR LF"
        )
    if scan.behind is not None:
        _refuse_quote(path, scan.behind, "that ends a cell, and more behind it")
    if scan.is_open:
        raise DataError(
            f"{path} ends within quotes, so its last row is not whole: it was cut off, or a "
            "quotation mark is missing or one too many"
        )
    if scan.stray is not None:  # of which polars may make one row of several
        _refuse_quote(path, scan.stray, "within a cell")
    if scan.wrong:
        row, line, cells = scan.wrong
        found = f"has {cells} cell{'s' if cells > 1 else ''}" if cells else "is empty"
        raise DataError(
            f"{path}: row {row} (line {line}) {found}, and there are {len(header)} columns; "
            "correct the row, in which a separator may be missing or want quotes, or take it out"
        )
    breaks, line = scan.longest
    if breaks > _MANY:
        tell(
            [
                f"{path}: a cell that begins in line {line} goes on for {breaks} more lines; if it "
                "is no long text, a quote is missing or too many there, and those lines are no rows"
            ]
        )
    return scan


def _refuse_quote(path: Path, place: tuple[int, int], where: str) -> None:
    row, line = place
    at = f"row {row} (line {line})" if row >= 0 else f"line {line}"
    raise DataError(
        f"{path}: {at} has a quotation mark {where}; put the whole cell between marks, and write "
        'each one that is in it twice: "5"" pipe"'
    )


def _settled(text: pl.Series, comma: bool) -> pl.Series:
    """Return numbers, or dates, or the text where it is neither."""
    numbers = settled(text, comma)
    return as_dates(numbers) if numbers.dtype == pl.String else numbers


def _said(text: pl.Series, missing: Sequence[str]) -> pl.Series:
    """Return text, null where it is empty or stands for a missing value, spaces around it aside."""
    return text.set(text.str.strip_chars().is_in(["", *missing]), None)


def _refuse_points(path: Path, frame: pl.DataFrame, text: Mapping[str, pl.Series]) -> None:
    for name, dtype in frame.schema.items():
        if dtype.is_float() or (name in text and has_points(text[name])):
            raise DataError(
                f"column {name!r} of {path} has numbers with a decimal point, and decimal=',' says "
                "that the file writes a comma; write all columns alike"
            )


def _header(path: Path, separator: str, names: Sequence[str] | None) -> list[str]:
    """Return the names of the columns, as they are written: polars would rename a second one."""
    check_path(str(path))
    check_is_file(path)
    try:
        with _opener(path)(path, "rt", encoding="utf-8-sig", newline="") as lines:
            header = next(csv.reader(_lines(path, lines), delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a table: {_why(error)}") from error
    if not header:
        raise DataError(f"{path} is empty; expected a line of column names, and rows")
    if names is not None:
        if len(names) != len(header):
            raise DataError(
                f"{path} has {len(header)} columns in its first line, but {len(names)} names are "
                "given; name each column"
            )
        return list(names)
    for place, name in enumerate(header):
        if not name.strip():
            raise DataError(
                f"{path} has no name for column {place} in its first line; if that is no line of "
                "names, give names=[...]"
            )
    return header


def _lines(path: Path, file: IO[str]) -> Iterator[str]:
    """Yield lines; one without end is not kept in memory to find that it is no line of names."""
    left = _LONGEST
    while line := file.readline(left):
        left -= len(line)
        if not left:
            raise DataError(
                f"the first line of {path} goes on for more than {_LONGEST:,} characters, so it is "
                "no line of names; is this a text file?"
            )
        yield line


def _opener(path: Path) -> Any:
    return gzip.open if path.name.lower().endswith(".gz") else open


def _own_names(count: int) -> list[str]:
    """Return what polars calls columns without names, which differs between its versions."""
    return pl.read_csv(BytesIO(b",".join([b"0"] * count)), has_header=False).columns


def _other_separator(header: Sequence[str]) -> str | None:
    """Return what seems to separate columns where the expected separator gives only one."""
    if len(header) != 1:
        return None
    return next((other for other in (";", "\t", "|", ",") if other in header[0]), None)


def _why(error: Exception) -> str:
    """Return why a file cannot be read, with the remedy where it is its encoding."""
    line = _line(error)
    if isinstance(error, UnicodeDecodeError) or re.search("utf-?8", line, re.IGNORECASE):
        return "it is not written in UTF-8; save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
    if found := re.search(r"could not parse .* at column '(.*)' \(column number", line):
        return f"{line}; if it is text, say text=[{found[1]!r}] (YAML: text: [{found[1]}])"
    return line


def _line(error: Exception) -> str:
    """Return what an error says, on one line, without polars' advice on its own arguments."""
    return re.split(r"\n|Consider ", str(error))[0].strip() or type(error).__name__
