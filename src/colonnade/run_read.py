"""The folder of a run, read again: its account, its configuration, its trained parts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.export import PARTS, Part, load_part, read_mean
from colonnade.faults import unread_or_damaged
from colonnade.layout import check_names
from colonnade.ledger import Ledger
from colonnade.paths import as_path
from colonnade.run_seal import (
    FILES,
    OTHERS,
    UNREADABLE,
    digest_of,
    is_part,
    mean_file,
    older_than_digests,
    part_file,
    sealed_parts,
    summary_in,
    version_of,
)
from colonnade.runs import Run
from colonnade.summaries_read import check_history, check_others_history, check_summary
from colonnade.telling import short
from colonnade.yaml_text import read_yaml

__all__ = [
    "WRITTEN_OUT",
    "check_has_parts",
    "load_configuration",
    "load_means",
    "load_parts",
    "load_run",
]

WRITTEN_OUT = 4
"""Times as long as what a user may write a configuration is, as what was left out is said."""
_UNSEALED = "a run that was killed as it wrote its results writes them anew when it is resumed"
_NAMES = {"organisation": pl.String}  # also of one that is called 007


def load_run(path: str | Path) -> Run:
    """Return the run that a folder holds: its account, without models and the driver's record.

    Configuration, history, ledger and summary are what was written: they have digests. A run of an
    older version has none, and is read without.

    Raises
    ------
    ConfigurationError
        If this is no path.
    DataError
        If there is no finished or interrupted run in the folder, a file of it is damaged, or it is
        of a version whose runs this one cannot read.
    """
    folder = as_path("a run is read from the path of its folder", path)
    missing = [name for name in FILES if not _is_there(folder / name)]
    if missing:
        raise DataError(
            f"{short(str(folder))} holds no run that can be read: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there"
        )
    summary, digests = summary_in(folder)
    older = older_than_digests(summary) if digests is None else ""
    name = "config.yaml"
    try:
        for name, digest in (digests or {}).items():
            if is_part(name):  # which may have been given away
                continue
            if not (folder / name).is_file():
                raise ValueError("it is not there, or no ordinary file")
            if digest_of(folder / name) != digest:
                raise ValueError(f"it is not what was written; {_UNSEALED}")
        name = "config.yaml"
        config = _configuration(folder / name)
        name = "history.csv"
        history = _read_csv(folder / name)
        check_history(history)
        name = "ledger.csv"
        ledger = Ledger.read_csv(folder / name)
        others = pl.DataFrame()
        if (folder / OTHERS).is_file() if digests is None else OTHERS in digests:
            name = OTHERS
            others = _read_csv(folder / name)
            check_others_history(others)
        name = "summary.json"
        check_summary(summary)
    except UNREADABLE as error:
        raise unread_or_damaged(folder / name, error, older) from error
    return Run(summary, history, ledger, {}, None, config, folder, others_history=others)


def load_configuration(path: str | Path) -> dict[str, Any]:
    """Return what ``config.yaml`` in a run's folder says of it.

    Raises
    ------
    DataError
        If there is no run, or its configuration cannot be read.
    """
    file = Path(path) / "config.yaml"
    if not _is_there(file):
        raise DataError(f"{path} holds no run: config.yaml is not there")
    try:
        return _configuration(file)
    except UNREADABLE as error:
        raise unread_or_damaged(file, error) from error


def _configuration(file: Path) -> dict[str, Any]:
    config = read_yaml(file.read_text(encoding="utf-8"), WRITTEN_OUT)
    if not isinstance(config, dict):
        raise ValueError("it holds no keys and values")
    return config


def check_has_parts(path: str | Path) -> None:
    """Raise ``DataError`` if the run in a folder is of a version that kept no parts there."""
    folder = Path(path)
    summary, digests = summary_in(folder)
    if not sealed_parts(digests) and not any((folder / PARTS).glob("*/part.json")):
        raise DataError(
            f"the run in {folder} is of an older version of colonnade "
            f"({version_of(summary)}), which kept no trained parts in its folder: nothing can be "
            "predicted or exported from it; train it again in a new folder"
        )


def load_parts(path: str | Path) -> dict[str, Part]:
    """Return the trained parts that the run in a folder wrote, each by whose it is.

    Raises
    ------
    DataError
        If one is missing or damaged, or is that of another organisation or run.
    """
    folder = Path(path)
    summary, digests = summary_in(folder)
    sealed = sealed_parts(digests)
    parties, label_holder = summary.get("parties"), summary.get("label_holder")
    names: list[Any] = [*parties] if isinstance(parties, list) else []
    names += [] if label_holder in names else [label_holder]
    try:
        check_names(names)  # which become paths
    except ConfigurationError as error:
        raise DataError(
            f"{folder / 'summary.json'} does not say whose parts there are: {error}"
        ) from None
    parts = {}
    for name in names:
        place = folder / PARTS / name
        part = parts[name] = load_part(place)
        if part.organisation != name:
            raise DataError(f"{place} holds the part of {part.organisation!r}, not of {name!r}")
        file = part_file(name)
        if sealed and digest_of(folder / file) != sealed.get(file):
            raise DataError(f"{folder / file} is not what this run wrote; {_UNSEALED}")
    return parts


def load_means(path: str | Path, names: Iterable[str]) -> dict[str, Tensor]:
    """Return the means of embeddings that the run in a folder wrote, ``[E]`` by whose each is.

    Who diverged has none, and neither has a party of a run of an earlier version.

    Parameters
    ----------
    path
        The run's folder.
    names
        Of the organisations that have parts there.

    Raises
    ------
    DataError
        If one is damaged, or is that of another organisation or run.

    Warns
    -----
    DataWarning
        If one that the run wrote is gone.

    Examples
    --------
    >>> load_means("runs/credit", ["bank"])
    Traceback (most recent call last):
    colonnade.errors.DataError: runs/credit/summary.json cannot be read: No such file or directory
    """
    folder = Path(path)
    sealed = sealed_parts(summary_in(folder)[1])
    means = {}
    for name in names:
        file = mean_file(name)
        if not os.path.lexists(folder / file):
            if file in sealed:
                warnings.warn(
                    f"{folder / file} is gone, which this run wrote: the mean of {name!r}, that "
                    "could stand for it, is neither known nor exported",
                    DataWarning,
                    stacklevel=2,
                )
            continue
        means[name] = read_mean(folder / file, name)
        if sealed and digest_of(folder / file) != sealed.get(file):
            raise DataError(
                f"{folder / file} is not what this run wrote, or an older version of colonnade "
                "wrote it, which told nothing of it: take it away, or put back the run's own"
            )
    return means


def _read_csv(file: Path) -> pl.DataFrame:
    frame = pl.read_csv(  # for paths see write_csv
        file.read_bytes(), infer_schema_length=None, schema_overrides=_NAMES
    )
    # Of a quote within a name polars keeps both that a file has for it.
    frame.columns = [name.replace('""', '"') for name in frame.columns]
    empty = [name for name in frame.columns if frame[name].null_count() == len(frame)]
    return frame.with_columns(pl.col(empty).cast(pl.Float64))  # which polars takes for texts


def _is_there(file: Path) -> bool:
    """Return whether it is a file; ``DataError`` where nobody may see, or none is called so."""
    try:
        return file.is_file()
    except OSError as error:
        raise unread_or_damaged(short(str(file)), error) from None
