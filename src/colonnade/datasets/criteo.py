"""Criteo's display advertising challenge: clicks on advertisements, as two companies.

Criteo Labs, "Kaggle display advertising challenge dataset", 2014: 45.8 million rows of a week
(``train.txt``, of which labels are known); and the same form for 24 days in "Criteo 1TB click logs"
(``day_0`` to ``day_23``). A row is a label, 13 counts and 26 categories as 32-bit hashes, separated
by tabs, without a line of names; a missing cell is empty.

==========  ===========================
company     columns
==========  ===========================
categories  the 26 categories C1 to C26
counts      the 13 counts I1 to I13
==========  ===========================

The division is that of CELU-VFL (Fu et al., VLDB 2022), whose label holder has the counts:
``label_holder: {holds: counts}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colonnade import defaults
from colonnade.datasets.files import click_files, data_folder, made_up, named, plain_or_packed
from colonnade.errors import DataError
from colonnade.streamed import Columns, StreamedRows, streamed_rows
from colonnade.streamed.rows import Told
from colonnade.tables import Splitting

__all__ = ["CRITEO_NAMES", "criteo", "criteo_columns", "criteo_files"]

COUNTS = tuple(f"I{i}" for i in range(1, 14))
"""The columns of counts."""

CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
"""The columns of categories."""

CRITEO_NAMES = ("label", *COUNTS, *CATEGORIES)
"""All columns, in the file's order."""

_NAME = "Criteo"
_SUBFOLDERS = ("", "criteo")
_DAYS = 24


def criteo(
    folder: str | Path | None = None,
    *,
    files: Sequence[str] | None = None,
    buckets: int | Mapping[str, int] = defaults.BUCKETS,
    split: Splitting | None = None,
    store: str | Path | None = None,
    told: Told | None = None,
) -> StreamedRows:
    """Encode Criteo's clicks once, block by block, and return the rows, left on disk.

    Parameters
    ----------
    folder
        Where ``train.txt`` is, plain, ``.gz`` or as ``train.parquet``, or else ``day_0`` and so on;
        or its subfolder ``criteo``. By default the folder that ``COLONNADE_DATA`` names.
    files
        Other files there, of the same form. Rows of a file whose name says "synthetic" are called
        synthetic, too.
    buckets
        How many codes a column of categories has: one number, or one for each column.
    split
        Which rows are for training, validation and test; ``RowSplit()`` by default.
    store
        The folder for the encoded rows; see ``streamed_rows``. A row takes 164 bytes.
    told
        Is told how many bytes of how many have been read.

    Raises
    ------
    DataError
        If there is no folder or file, or a row is not what it should be.
    ConfigurationError
        If the arguments do not fit together.

    Examples
    --------
    ::

        clicks = criteo("data", buckets=2**16, split=LastRows(test=0.1))
        clicks.features["categories"]["categorical"].shape  # torch.Size([45840617, 26])
    """
    found = criteo_files(folder, files)
    name = named(_NAME, found)
    rows = streamed_rows(
        found,
        criteo_columns(buckets),
        "label",
        names=CRITEO_NAMES,
        separator="\t",
        split=split,
        store=store,
        name=name,
        told=told,
    )
    return replace(rows, warnings=(*made_up(name), *_without(found)))


def criteo_columns(buckets: int | Mapping[str, int] = defaults.BUCKETS) -> dict[str, Columns]:
    """Return whose which columns are.

    >>> [len(columns.names) for columns in criteo_columns().values()]
    [26, 13]
    """
    return {
        "categories": Columns(categorical=CATEGORIES, buckets=buckets),
        "counts": Columns(numeric=COUNTS),
    }


def criteo_files(
    folder: str | Path | None = None, files: Sequence[str] | None = None
) -> list[Path]:
    """Return the files that ``criteo`` would read.

    Raises
    ------
    DataError
        If there is no folder, or no such file in it.
    """
    root = data_folder(_NAME, folder)
    return click_files(root, _NAME, _SUBFOLDERS, ("train.txt", "train.parquet"), files) or _days(
        root
    )


def _days(root: Path) -> list[Path]:
    """Return the files of the days that are there, in order."""
    for place in (root / sub for sub in _SUBFOLDERS):
        days = [plain_or_packed(place / f"day_{day}") for day in range(_DAYS)]
        there = [path for path in days if path is not None]
        if there:
            return there
    raise DataError(
        f"expected the file train.txt, train.txt.gz or train.parquet, or day_0 and so on, in "
        f"{root}, which has none of them: put Criteo's click log there, or name another folder "
        "with --data or COLONNADE_DATA"
    )


def _without(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the warning of days that are not among files of days, though later ones are."""
    names = {file.name.removesuffix(".gz") for file in files}
    there = [day for day in range(_DAYS) if f"day_{day}" in names]
    absent = [f"day_{day}" for day in range(max(there, default=0)) if day not in there]
    if not absent:
        return ()
    return (
        f"of {_NAME}'s days {', '.join(f'day_{day}' for day in there)} are read, without "
        f"{', '.join(absent)}; put the files there, unless they are left out on purpose",
    )
