"""Avazu's click-through rate challenge: clicks on mobile advertisements, as two companies.

Avazu and Kaggle, "Click-through rate prediction", 2014: 40.4 million rows of ten days
(``train.csv``), with a line of names. Every column but the id and the label is a category.

=========  ============================================================================
company    columns
=========  ============================================================================
device     C1, device_id, device_ip, device_model, device_type, device_conn_type, and
           C14 to C21
publisher  hour, banner_pos, site_id, site_domain, site_category, app_id, app_domain,
           app_category
=========  ============================================================================

CELU-VFL (Fu et al., VLDB 2022) has 14 columns at its party and 8 at the label holder, and does not
say which. Here the label holder has where and when the advertisement was shown, the party who saw
it and what: ``label_holder: {holds: publisher}``. Of the hour, YYMMDDHH, that of the day counts:
the days of training do not come again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colonnade import defaults
from colonnade.datasets.files import click_files, data_folder, made_up, named
from colonnade.errors import DataError
from colonnade.streamed import Columns, StreamedRows, streamed_rows
from colonnade.streamed.rows import Told
from colonnade.tables import Splitting

__all__ = ["AVAZU_COLUMNS", "avazu", "avazu_columns", "avazu_files"]

AVAZU_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "device": (
        *("C1", "device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
        *(f"C{i}" for i in range(14, 22)),
    ),
    "publisher": (
        *("hour", "banner_pos", "site_id", "site_domain", "site_category"),
        *("app_id", "app_domain", "app_category"),
    ),
}
"""Whose which columns are."""

_NAME = "Avazu"
_SUBFOLDERS = ("", "avazu")


def avazu(
    folder: str | Path | None = None,
    *,
    files: Sequence[str] | None = None,
    buckets: int | Mapping[str, int] = defaults.BUCKETS,
    split: Splitting | None = None,
    store: str | Path | None = None,
    told: Told | None = None,
) -> StreamedRows:
    """Encode Avazu's clicks once, block by block, and return the rows, left on disk.

    Parameters
    ----------
    folder
        Where ``train.csv`` is, plain, ``.gz`` or as ``train.parquet``, or its subfolder ``avazu``.
        By default the folder that ``COLONNADE_DATA`` names.
    files
        Other files there, of the same form. Rows of a file whose name says "synthetic" are called
        synthetic, too.
    buckets
        How many codes a column has: one number, or one for each column.
    split
        Which rows are for training, validation and test; ``RowSplit()`` by default.
    store
        The folder for the encoded rows; see ``streamed_rows``. A row takes 96 bytes.
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

        clicks = avazu("data", split=LastRows(test=0.1))
        clicks.features["device"]["categorical"].shape  # torch.Size([40428967, 14])
    """
    found = avazu_files(folder, files)
    name = named(_NAME, found)
    rows = streamed_rows(
        found,
        avazu_columns(buckets),
        "click",
        separator=",",
        split=split,
        store=store,
        name=name,
        told=told,
    )
    return replace(rows, warnings=made_up(name))


def avazu_columns(buckets: int | Mapping[str, int] = defaults.BUCKETS) -> dict[str, Columns]:
    """Return whose which columns are.

    >>> [len(columns.names) for columns in avazu_columns().values()]
    [14, 8]
    """

    def of(names: tuple[str, ...]) -> int | dict[str, int]:
        return buckets if isinstance(buckets, int) else {name: buckets[name] for name in names}

    device, publisher = AVAZU_COLUMNS["device"], AVAZU_COLUMNS["publisher"]
    return {
        "device": Columns(categorical=device, buckets=of(device)),
        "publisher": Columns(categorical=publisher, buckets=of(publisher), endings={"hour": 2}),
    }


def avazu_files(folder: str | Path | None = None, files: Sequence[str] | None = None) -> list[Path]:
    """Return the files that ``avazu`` would read.

    Raises
    ------
    DataError
        If there is no folder, or no such file in it.
    """
    root = data_folder(_NAME, folder)
    found = click_files(root, _NAME, _SUBFOLDERS, ("train.csv", "train.parquet"), files)
    if not found:
        raise DataError(
            f"expected the file train.csv, train.csv.gz or train.parquet in {root}, which has none "
            "of them: put Avazu's click log there, or name another folder with --data or "
            "COLONNADE_DATA"
        )
    return found
