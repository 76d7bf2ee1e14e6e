"""Made-up clicks in the form of Criteo's or Avazu's, of any length: SYNTHETIC, not real.

For scale, where the real logs cannot be had: the same columns, so the same models and messages, as
many different categories in each column as the real log has, with Zipf's frequencies and about the
real shares of missing cells and of clicks. What is clicked depends on hidden factors of both
companies and on products of them (``kernels/clicks.py``), so a model of both is better than one of
either. Nothing else about people or advertisements is in it: use it for speed and bytes and to
compare methods with each other, not for what real clicks teach.

The world, which category means what, is the same for every seed; the seed draws the rows. Row i of
a seed is the same however many rows are made, and whatever the form they are written in.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade import defaults
from colonnade.annotated import check_kind, is_whole
from colonnade.datasets.avazu import avazu_columns
from colonnade.datasets.criteo import COUNTS, CRITEO_NAMES, criteo_columns
from colonnade.datasets.files import made_up
from colonnade.errors import ConfigurationError
from colonnade.faults import misnamed_or_unwritten
from colonnade.forked import check_not_forked
from colonnade.kernels.clicks import (
    CATEGORY_HEX,
    CATEGORY_WHOLE,
    CLICK,
    COUNT,
    FACTORS,
    HOUR,
    ROW,
    TELLING,
    draw_clicks,
    raw_factors,
    write_clicks,
)
from colonnade.outputs import replacing
from colonnade.paths import as_path
from colonnade.streamed import StreamedRows
from colonnade.streamed.form import Form
from colonnade.streamed.rows import Told, cache_folder, rows_in
from colonnade.streamed.store import stored, written
from colonnade.streamed.text import Place, encoded_text
from colonnade.streams import StreamKey, is_seed
from colonnade.tables import Splitting
from colonnade.tables.names import check_path

__all__ = ["Likeness", "SyntheticClicks", "synthetic_clicks", "write_synthetic_clicks"]

Likeness = Literal["criteo", "avazu"]
"""Whose columns made-up clicks have."""

MOST_ROWS = 2**40
"""As many as the generator's counter has room for."""

_NAME = "clicks (synthetic)"
_AT_ONCE = 2**12  # rows that are drawn together
_FEW = 1000  # categories of a column that has more to say
_OF_HOUR = 0.1  # to say: all rows of an hour share its factors
_VERSION = 2


@dataclass(frozen=True)
class _Log:
    """What a log looks like: its columns, and how often what occurs."""

    names: tuple[str, ...]
    separator: str
    header: bool
    kinds: tuple[int, ...]  # of every column of the text
    fields: tuple[str, ...]  # the columns of categories
    sizes: tuple[int, ...]  # how many categories each has
    heads: tuple[float, ...]  # share of the most frequent one, beside what Zipf gives it
    missing: tuple[float, ...]
    sides: tuple[int, ...]  # whose hidden factors each makes
    hour: int  # which of them is the hour, or -1
    counts: tuple[tuple[float, float, int, float], ...]  # middle, width, lowest, share missing
    effects: tuple[float, float, float, float]  # bias, one side, the other, both


_CRITEO = _Log(
    names=CRITEO_NAMES,
    separator="\t",
    header=False,
    kinds=(CLICK, *[COUNT] * 13, *[CATEGORY_HEX] * 26),
    fields=CRITEO_NAMES[14:],
    sizes=(
        *(1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194),
        *(27, 14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
    ),
    heads=(
        *(0.40, 0.02, 0.01, 0.03, 0.52, 0.21, 0, 0.44, 0.50, 0.20, 0, 0.01, 0),
        *(0.14, 0, 0.01, 0.13, 0, 0.10, 0, 0.01, 0, 0.20, 0.02, 0.03, 0),
    ),
    missing=(
        *(0, 0, 0.034, 0.034, 0, 0.12, 0, 0, 0, 0, 0, 0.034, 0),
        *(0, 0, 0.034, 0, 0, 0.44, 0.44, 0.034, 0.76, 0, 0.034, 0.44, 0.44),
    ),
    sides=(0,) * 26,
    hour=-1,
    counts=(
        *((0.4, 1.3, 0, 0.45), (1.6, 2.4, -2, 0), (2.1, 1.5, 0, 0.21), (1.6, 1.2, 0, 0.21)),
        *((7.9, 2.0, 0, 0.03), (3.7, 1.7, 0, 0.22), (1.4, 1.4, 0, 0.04), (2.1, 1.5, 0, 0.001)),
        *((3.8, 1.5, 0, 0.04), (0.1, 0.8, 0, 0.45), (0.7, 0.8, 0, 0.04), (0.1, 1.0, 0, 0.77)),
        (1.8, 1.3, 0, 0.21),
    ),
    effects=(-1.72, 1.2, 0.9, 0.8),
)

_AVAZU = _Log(
    names=(
        *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
        *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
        *("device_type", "device_conn_type", *(f"C{i}" for i in range(14, 22))),
    ),
    separator=",",
    header=True,
    kinds=(
        *(ROW, CLICK, HOUR, CATEGORY_WHOLE, CATEGORY_WHOLE),
        *[CATEGORY_HEX] * 9,
        *[CATEGORY_WHOLE] * 10,
    ),
    fields=(
        *("hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
        *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
        *("device_type", "device_conn_type", *(f"C{i}" for i in range(14, 22))),
    ),
    sizes=(
        *(24, 7, 7, 4737, 7745, 26, 8552, 559, 36, 2_686_408, 6_729_486, 8251, 5, 4),
        *(2626, 8, 9, 435, 4, 68, 172, 60),
    ),
    heads=(
        *(0, 0.80, 0.40, 0.25, 0.25, 0.15, 0.55, 0.60, 0.50, 0.80, 0, 0, 0.80, 0.70),
        *(0, 0.80, 0.80, 0, 0.10, 0.20, 0.45, 0.10),
    ),
    missing=(0.0,) * 22,
    sides=(1, 0, *[1] * 7, *[0] * 13),
    hour=0,
    counts=(),
    effects=(-2.55, 1.2, 0.9, 0.8),
)

_LOGS: Mapping[str, _Log] = {"criteo": _CRITEO, "avazu": _AVAZU}


class SyntheticClicks:
    r"""Rows of made-up clicks, as text or as arrays.

    Parameters
    ----------
    rows
        How many there are, 1 to 2^40.
    seed
        Draws them, a signed 64-bit integer.
    like
        Whose columns they have: "criteo" or "avazu".

    Raises
    ------
    ConfigurationError
        If one of these is out of range.

    Examples
    --------
    >>> SyntheticClicks(2, seed=0).text(0, 1).decode().count("\t")
    39
    """

    def __init__(self, rows: int, seed: int = 0, like: Likeness = "criteo") -> None:
        if not is_whole(rows) or not 1 <= rows <= MOST_ROWS:
            raise ConfigurationError(f"rows must be a number from 1 to 2^40, not {rows!r}")
        if not is_seed(seed):
            raise ConfigurationError(f"seed must be a signed 64-bit integer, not {seed!r}")
        if like not in _LOGS:
            raise ConfigurationError(f"like must be {' or '.join(map(repr, _LOGS))}, not {like!r}")
        self.rows, self.seed, self.like = int(rows), int(seed), like
        self._log = log = _LOGS[like]
        self._key, self._upper = StreamKey(self.seed, "", f"clicks/{like}", 0).words()
        places = {COUNT: 0, CATEGORY_HEX: 0, CATEGORY_WHOLE: 0, HOUR: 0}
        order = {name: place for place, name in enumerate(log.fields)}
        self._kinds = np.array(log.kinds, dtype=np.int64)
        self._places = np.zeros(len(log.kinds), dtype=np.int64)
        for column, (name, kind) in enumerate(zip(log.names, log.kinds, strict=True)):
            if kind == COUNT:
                self._places[column], places[COUNT] = places[COUNT], places[COUNT] + 1
            elif name in order:
                self._places[column] = order[name]
        self._factors = _factors(log)
        words = len(log.fields) + (4 + len(log.counts) if log.counts else 0) + 1
        self._words = np.zeros(-(-words // 4) * 4, dtype=np.uint64)

    @property
    def name(self) -> str:
        """What they are called, which says that they are synthetic."""
        return _NAME

    @property
    def header(self) -> str:
        """The line of names, if their text has one."""
        return self._log.separator.join(self._log.names) + "\n" if self._log.header else ""

    @property
    def form(self) -> Form:
        """What of a row is encoded, with the usual number of buckets."""
        return _form(self.like, defaults.BUCKETS)

    def draw(self, first: int, count: int) -> tuple[NDArray[Any], ...]:
        """Return ranks of categories (0: missing), counts, which are missing, and labels."""
        log = self._log
        middles, widths, lowest, missing = (
            np.array([each[i] for each in log.counts], dtype=np.float64) for i in range(4)
        )
        values = np.zeros((count, len(log.fields)), dtype=np.int64)
        counts = np.zeros((count, len(log.counts)), dtype=np.int64)
        gone = np.zeros((count, len(log.counts)), dtype=np.bool_)
        labels = np.zeros(count, dtype=np.uint8)
        draw_clicks(
            first,
            np.uint64(self._upper),
            np.uint64(self._key),
            # Rounded: a logarithm's last bits differ between machines.
            np.array([round(math.log2(size + 1), 9) for size in log.sizes]),
            np.array(log.sizes, dtype=np.int64),
            np.array(log.heads, dtype=np.float64),
            np.array(log.missing, dtype=np.float64),
            np.array(log.sides, dtype=np.int64),
            self._factors,
            log.hour,
            middles,
            widths,
            lowest.astype(np.int64),
            missing,
            np.array(log.effects),
            self._words,
            values,
            counts,
            gone,
            labels,
        )
        return values, counts, gone, labels

    def text(self, first: int, count: int) -> bytes:
        """Return rows as lines of text, without the line of names."""
        values, counts, gone, labels = self.draw(first, count)
        room = np.empty(count * 24 * len(self._log.kinds), dtype=np.uint8)
        separator = np.uint8(ord(self._log.separator))
        used = write_clicks(
            first, self._kinds, self._places, separator, values, counts, gone, labels, room
        )
        return room[:used].tobytes()

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield all rows as text, some at a time, and how many there are by then."""
        for first in range(0, self.rows, _AT_ONCE):
            count = min(_AT_ONCE, self.rows - first)
            yield first + count, self.text(first, count)


def synthetic_clicks(
    folder: str | Path | None = None,
    *,
    rows: int = 1_000_000,
    seed: int = 0,
    like: Likeness = "criteo",
    buckets: int | Mapping[str, int] = defaults.BUCKETS,
    split: Splitting | None = None,
    store: str | Path | None = None,
    told: Told | None = None,
) -> StreamedRows:
    """Make up clicks, encode them on disk as a real log would be, and return the rows.

    They are SYNTHETIC. The codes are those of the file that ``write_synthetic_clicks`` writes.

    Parameters
    ----------
    folder
        Not looked at: no file is read.
    rows, seed, like
        See ``SyntheticClicks``. Of 41 million rows the encoded ones take 6.7 GB.
    buckets
        How many codes a column of categories has: one number, or one for each column.
    split
        Which rows are for training, validation and test; ``RowSplit()`` by default.
    store
        The folder for the encoded rows; see ``streamed_rows``.
    told
        Is told how many rows of how many have been made.

    Raises
    ------
    ConfigurationError
        If the arguments do not fit together.

    Examples
    --------
    >>> clicks = synthetic_clicks(rows=1000, store="made-up")
    >>> clicks
    StreamedRows('clicks (synthetic)', 2 parties, 675 + 112 + 213 rows, 2 classes)
    >>> Path("made-up", "manifest.json").read_text().splitlines()[1]
    ' "data": "clicks (synthetic)",'
    """
    check_kind("split", split, Splitting | None)
    made = SyntheticClicks(rows, seed, like)
    form = _form(like, buckets)
    made_of = {"generator": _VERSION, "like": like, "rows": rows, "seed": seed}
    identity = {"data": made.name, **made_of, "form": form.as_dict()}
    place = cache_folder(f"synthetic-clicks-{like}", made_of, form, store)
    log = _LOGS[like]
    reader = _Reader(made, told)
    found = stored(place, identity, form) or written(
        place,
        identity,
        form,
        encoded_text(reader.read, form, log.names, log.separator, Place(made.name)),
    )
    return rows_in(found, made.name, split, made_up(made.name))


def write_synthetic_clicks(
    path: str | Path,
    rows: int,
    seed: int = 0,
    like: Likeness = "criteo",
    told: Callable[[int, int], None] | None = None,
) -> None:
    """Write made-up clicks as the official file would be, or as Parquet.

    Parameters
    ----------
    path
        The file, which must not be there, and whose name must say "synthetic": .tsv or .txt for
        Criteo's text, .csv for Avazu's, with .gz behind if packed; or .parquet.
    rows, seed, like
        See ``SyntheticClicks``.
    told
        Is told how many rows of how many have been written.

    Raises
    ------
    ConfigurationError
        If this is no path, the name does not fit, or the file is there.
    Unwritten
        If the disk does not take it.

    Examples
    --------
    >>> write_synthetic_clicks("synthetic.csv", rows=10, like="avazu")
    >>> Path("synthetic.csv").read_text()[:20]
    'id,click,hour,C1,ban'
    """
    path = as_path("clicks are written to the path of a file", path)
    made = SyntheticClicks(rows, seed, like)
    _check_name(path, made)
    try:
        with replacing(path) as partial:
            if path.suffix == ".parquet":
                _write_parquet(made, partial, told)
            else:
                _write_text(made, partial, path.suffix == ".gz", told)
    except OSError as error:
        raise misnamed_or_unwritten(path, error) from error


def _check_name(path: Path, made: SyntheticClicks) -> None:
    name, endings = path.name.lower(), {"criteo": (".tsv", ".txt"), "avazu": (".csv",)}
    texts = endings[made.like]
    if not name.removesuffix(".gz").endswith(texts) and not name.endswith(".parquet"):
        raise ConfigurationError(
            f"a file of {made.like}'s form ends in {' or '.join((*texts, '.parquet'))}"
            f" ({texts[0]}.gz if packed), not as {path.name}"
        )
    if "synthetic" not in name:
        raise ConfigurationError(
            f"{path.name} does not say that its rows are made up; put 'synthetic' into its name, "
            f"as in {path.stem.split('.')[0]}-synthetic{''.join(path.suffixes)}"
        )
    if name.endswith(".parquet"):
        check_path(str(path))
    if path.exists():
        raise ConfigurationError(f"{path} is there already; choose another name, or move it away")


def _write_text(
    made: SyntheticClicks, path: Path, packed: bool, told: Callable[[int, int], None] | None
) -> None:
    with path.open("wb") as raw:
        # Without a name and a time, so that the same rows are the same bytes.
        packer = gzip.GzipFile("", "wb", 6, raw, mtime=0) if packed else None
        file: Any = packer or raw
        file.write(made.header.encode())
        for done, piece in made.pieces():
            file.write(piece)
            if told is not None:
                told(done, made.rows)
        if packer is not None:
            packer.close()


def _write_parquet(
    made: SyntheticClicks, path: Path, told: Callable[[int, int], None] | None
) -> None:
    check_not_forked()
    log = _LOGS[made.like]
    kinds = dict(zip(log.names, log.kinds, strict=True))
    whole = {"label", "click", *COUNTS}
    schema = {
        name: pl.Int64 if name in whole or kinds[name] in (CATEGORY_WHOLE, HOUR, ROW) else pl.String
        for name in log.names
    }
    text = path.with_name(path.name + ".text")  # beside a name that nothing had
    try:
        _write_text(made, text, False, told)
        pl.scan_csv(
            text,
            separator=log.separator,
            has_header=log.header,
            schema=schema,
            quote_char=None,
            glob=False,
        ).sink_parquet(path, row_group_size=2**17)
    finally:
        text.unlink(missing_ok=True)


class _Reader:
    """Hands out the text of made-up rows, as a file would."""

    def __init__(self, made: SyntheticClicks, told: Told | None) -> None:
        self._pieces, self._all, self._told = made.pieces(), made.rows, told
        self._rest = memoryview(b"")

    def read(self, buffer: memoryview) -> int:
        if not self._rest:
            done, piece = next(self._pieces, (self._all, b""))
            self._rest = memoryview(piece)
            if self._told is not None:
                self._told(done, self._all)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _form(like: Likeness, buckets: int | Mapping[str, int]) -> Form:
    if like == "criteo":
        return Form(criteo_columns(buckets), "label")
    return Form(avazu_columns(buckets), "click")


def _factors(log: _Log) -> NDArray[np.float64]:
    """Return what each rank of each column adds to its side's hidden factors, [column, rank, 4].

    The last rank stands for all rarer ones, which say nothing of their own. Over the rows each
    column's mean is 0 and each side's variance is 1.
    """
    raw = np.zeros((len(log.fields), TELLING + 2, FACTORS))
    raw_factors(raw)
    says = np.where(np.array(log.sizes) <= _FEW, 1.0, 0.3)
    if log.hour >= 0:
        says[log.hour] = _OF_HOUR
    shares = np.stack([_shares(log, column) for column in range(len(says))])
    raw -= (shares[:, :, None] * raw).sum(1, keepdims=True)
    raw *= says[:, None, None]
    variances = (shares[:, :, None] * raw**2).sum(1)
    sides = np.array(log.sides)
    for side in set(log.sides):
        raw[sides == side] /= np.sqrt(variances[sides == side].sum(0))
    return np.round(raw, 9)  # of sums and logarithms the last bits differ between machines


def _shares(log: _Log, column: int) -> NDArray[np.float64]:
    """Return what share of the rows has each rank of a column, the last being all rarer ones."""
    size, head, missing = log.sizes[column], log.heads[column], log.missing[column]
    ranks = np.arange(1, min(size, TELLING) + 1)
    shares = np.zeros(TELLING + 2)
    if column == log.hour:
        shares[ranks] = 1 / size
    else:
        shares[ranks] = np.log2((ranks + 1) / ranks) / math.log2(size + 1) * (1 - head - missing)
        shares[0], shares[1] = missing, shares[1] + head
    shares[-1] = max(1 - shares.sum(), 0.0)
    return shares
