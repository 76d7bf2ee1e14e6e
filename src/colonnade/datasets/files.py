"""Where a public data set's files are: in a folder that the user names, plain or packed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from colonnade.errors import DataError
from colonnade.paths import as_path

__all__ = ["asked_or_set", "click_files", "data_folder", "made_up", "named", "plain_or_packed"]


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
    ConfigurationError
        If this is no path.
    DataError
        If no folder was named, or it is not there.

    Examples
    --------
    >>> data_folder("MNIST", "nowhere")
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: nowhere: there is no such folder to read MNIST from
    """
    found = asked_or_set(folder)
    if found is None:
        raise DataError(
            f"{name} is read from a folder, and none was given: name the one that holds "
            f"{holds} with --data or in the environment variable COLONNADE_DATA"
        )
    path = as_path(f"{name} is read from the path of a folder", found)
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder to read {name} from")
    return path


def asked_or_set(folder: str | Path | None) -> str | Path | None:
    """Return the folder that was named, or else set in ``COLONNADE_DATA``; None for neither."""
    return os.environ.get("COLONNADE_DATA") or None if folder is None else folder


def plain_or_packed(plain: Path) -> Path | None:
    """Return the file itself if it is there, else the one with ``.gz`` behind; None for neither."""
    packed = plain.with_name(plain.name + ".gz")
    return next((path for path in (plain, packed) if path.is_file()), None)


def click_files(
    root: Path,
    name: str,
    subfolders: Sequence[str],
    usual: Sequence[str],
    files: Sequence[str] | None,
) -> list[Path]:
    """Return the files that were asked for, or the first of the usual ones that is there.

    Raises
    ------
    DataError
        If one that was asked for is not there.
    """
    found = []
    for file in files or ():
        path = next((p for sub in subfolders if (p := root / sub / file).is_file()), None)
        if path is None:
            raise DataError(
                f"expected {name}'s file {file} in {root}, which has none; correct files"
            )
        found.append(path)
    if found:
        return found
    for place in (root / sub for sub in subfolders):
        for file in usual:
            path = plain_or_packed(place / file)
            if path is not None:
                return [path]
    return []


def named(name: str, files: Iterable[Path]) -> str:
    """Return what rows of these files are called: not as the log is, if a file says synthetic.

    >>> named("Avazu", [Path("train.csv")]), named("Avazu", [Path("my-synthetic.csv")])
    ('Avazu', "Avazu's form (synthetic)")
    """
    if any("synthetic" in file.name.lower() for file in files):
        return f"{name}'s form (synthetic)"
    return name


def made_up(name: str) -> tuple[str, ...]:
    """Return the warning of rows that are called so, if they are synthetic.

    >>> made_up("clicks (synthetic)")
    ('the data are clicks (synthetic): they tell nothing of real clicks',)
    >>> made_up("Avazu")
    ()
    """
    if not name.endswith("(synthetic)"):
        return ()
    return (f"the data are {name}: they tell nothing of real clicks",)
