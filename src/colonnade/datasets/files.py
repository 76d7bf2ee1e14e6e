"""Where a public data set's files are: in a folder that the user names, plain or packed."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.errors import DataError

__all__ = ["data_folder", "plain_or_packed"]


def data_folder(name: str, folder: str | Path | None, holds: str = "its files") -> Path:
    """Return the folder to read a data set from, which must exist.

    Parameters
    ----------
    name
        The data set, for messages.
    folder
        The one the user named; by default that of the environment variable ``COLONNADE_DATA``.
    holds
        What of the data set is to be found there, for messages.

    Raises
    ------
    DataError
        If no folder was named, or it is not there.

    Examples
    --------
    >>> data_folder("MNIST", "nowhere")
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: nowhere: there is no such folder to read MNIST from
    """
    found = folder if folder is not None else os.environ.get("COLONNADE_DATA")
    if not found:
        raise DataError(
            f"{name} is read from a folder, and none was given: name the one that holds "
            f"{holds} with --data or in the environment variable COLONNADE_DATA"
        )
    path = Path(found)
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder to read {name} from")
    return path


def plain_or_packed(plain: Path) -> Path | None:
    """Return the file itself if it is there, else the one with ``.gz`` behind; None for neither."""
    packed = plain.with_name(plain.name + ".gz")
    return next((path for path in (plain, packed) if path.is_file()), None)
