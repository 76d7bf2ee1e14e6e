"""Data sets of OpenML, fetched by scikit-learn, their columns divided among parties.

Vanschoren, van Rijn, Bischl and Torgo, "OpenML: networked science in machine learning", SIGKDD
Explorations 15(2), 2013. Here alone something is downloaded: scikit-learn fetches a data set when
it is first asked for, checks its digest and keeps it in its own cache; later that is read, and no
network is needed. A cache can be copied: a folder given as ``folder``, or named by
``COLONNADE_DATA``, is used if it has a subfolder ``openml`` as scikit-learn writes it.

scikit-learn's parser that needs no pandas is used always, so that a table does not depend on what
else is installed. It gives all numbers as floats.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.datasets.files import asked_or_set
from colonnade.errors import ConfigurationError, DataError
from colonnade.paths import as_path
from colonnade.tables import Splitting, VerticalTables, as_frame, vertical_tables
from colonnade.tables.labels import Task
from colonnade.tables.names import check_named_once, check_present, listed
from colonnade.telling import first_line

__all__ = ["openml", "openml_cache", "openml_table"]

_SAID = "OpenML's data are kept in the path of a folder"
_CACHE = "openml"  # what scikit-learn calls the folder in its data folder


def openml(
    name: str,
    parties: Mapping[str, Sequence[str]],
    target: str | None = None,
    version: int | None = None,
    *,
    split: Splitting | None = None,
    transformers: Any = None,
    task: Task = "auto",
    folder: str | Path | None = None,
) -> VerticalTables:
    """Load a data set of OpenML as the tables of several parties.

    Parameters
    ----------
    name, target, version, folder
        As for ``openml_table``.
    parties
        For every party the columns it holds. A column may be held by several; one that is named
        for nobody is left out.
    split, transformers, task
        As for ``vertical_tables``. There are no ids, so the split goes by the number of the row.

    Raises
    ------
    ConfigurationError
        If the arguments do not fit together, or pandas is needed and not installed.
    DataError
        If the data set cannot be had, has no such column, or cannot be used.

    Examples
    --------
    ::

        people = openml(
            "adult",
            {"employer": ["workclass", "occupation", "hours-per-week"], "school": ["education"]},
            version=2,
        )
    """
    if not parties:
        raise ConfigurationError("parties are empty; name at least one, and its columns")
    frame, answer = openml_table(name, version, target=target, folder=folder)
    columns = [column for column in frame.columns if column != answer]
    for party, own in parties.items():
        where = f"party {party!r} of {name!r}"
        if isinstance(own, str) or not own:
            raise ConfigurationError(f"{where} needs a list of columns, not {own!r}")
        if answer in own:
            raise ConfigurationError(
                f"{where} holds {answer!r}, which is what is to be predicted; name other columns"
            )
        check_named_once(where, own)
        check_present(f"OpenML's {name!r}", own, columns)
    return vertical_tables(
        {party: frame.select(own) for party, own in parties.items()},
        frame[answer],
        aligned=True,  # columns of one table
        split=split,
        transformers=transformers,
        task=task,
    )


def openml_table(
    name: str,
    version: int | None = None,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    folder: str | Path | None = None,
) -> tuple[pl.DataFrame, str]:
    """Return a data set of OpenML as a table, and which of its columns is to be predicted.

    Parameters
    ----------
    name
        Its name on OpenML.
    version
        Which version of that name; by default the oldest active one.
    target
        The column to predict; by default the one that OpenML names. It comes last in the table.
    columns
        The others to keep; by default all but those that OpenML says to ignore.
    folder
        Where scikit-learn keeps what it fetched, in a subfolder ``openml``. By default the folder
        that ``COLONNADE_DATA`` names if it has such a subfolder, else scikit-learn's own.

    Returns
    -------
    tuple
        The table, numbers as floats and categories as text, either null where missing; and the
        name of the target.

    Raises
    ------
    ConfigurationError
        If the data set has columns of free text and pandas is not installed, which scikit-learn
        needs for them.
    DataError
        If the data set is not there and cannot be fetched, is sparse, names no target or several,
        or has no such column.

    Examples
    --------
    ::

        frame, target = openml_table("adult", 2)
        target  # 'class'
    """
    found = _fetched(name, version, target, folder)
    answers = list(found.target_names)
    if len(answers) != 1:
        raise DataError(
            f"OpenML names {f'the targets {listed(answers)}' if answers else 'no target'} for "
            f"{name!r}; say which column to predict by target=..."
        )
    answer = answers[0]
    frame = _as_table(name, found, answer)
    if columns is None:
        return frame, answer
    check_named_once("columns", columns)
    check_present(f"OpenML's {name!r}", columns, frame.columns)
    return frame.select(*(column for column in columns if column != answer), answer), answer


def openml_cache(folder: str | Path | None = None) -> Path | None:
    """Return the folder whose subfolder ``openml`` is read before the network; None if neither.

    Parameters
    ----------
    folder
        As for ``openml_table``; scikit-learn's own is not looked at.
    """
    place = asked_or_set(folder)
    path = None if place is None else as_path(_SAID, place)
    return None if path is None or not (path / _CACHE).is_dir() else path


def _fetched(name: str, version: int | None, target: str | None, folder: str | Path | None) -> Any:
    """Return scikit-learn's bunch of arrays; of pandas' objects where there is free text."""
    from sklearn.datasets import fetch_openml  # only here: who does not ask should not wait

    home = openml_cache() if folder is None else as_path(_SAID, folder)
    which = repr(name) + (f", version {version}" if version is not None else "")
    settings = {
        "name": name,
        "version": "active" if version is None else version,
        "target_column": "default-target" if target is None else target,
        "data_home": None if home is None else str(home),
        "parser": "liac-arff",
        "n_retries": 1,
    }
    try:
        with warnings.catch_warnings():
            # The error that follows says it better.
            warnings.filterwarnings("ignore", "A network error occurred", UserWarning)
            try:
                return fetch_openml(**settings, as_frame=False)
            except ValueError as error:
                if "STRING attributes" not in str(error):
                    raise
            return fetch_openml(**settings, as_frame=True)
    except ImportError as error:
        raise ConfigurationError(
            f"OpenML's {which} has columns of free text, for which scikit-learn needs pandas, "
            "and it is not installed: install pandas, or choose another data set"
        ) from error
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        raise DataError(
            f"{which} could not be fetched from OpenML ({first_line(reason)}): go where there is a "
            f"network, or give a folder with the subfolder {_CACHE!r} of a scikit-learn that "
            "fetched it"
        ) from error
    except Exception as error:  # no such data set, or one that scikit-learn cannot read
        if target is not None and isinstance(error, KeyError):
            raise DataError(
                f"OpenML's {which} has no column {target!r} to predict; name another as target"
            ) from error
        raise DataError(f"OpenML's {which} cannot be read: {first_line(error)}") from error


def _as_table(name: str, found: Any, answer: str) -> pl.DataFrame:
    if hasattr(found.data, "tocsr"):
        raise DataError(
            f"OpenML's {name!r} is sparse, and tables here are dense; choose another data set"
        )
    if hasattr(found.data, "columns"):
        return as_frame(found.frame).select(*found.feature_names, answer)
    categories: Mapping[str, Sequence[str]] = found.categories or {}
    columns = [
        _column(feature, values, categories.get(feature))
        for feature, values in zip(found.feature_names, found.data.T, strict=True)
    ]
    target = found.target
    if target.dtype.kind == "f":
        return pl.DataFrame([*columns, _column(answer, target, None)])
    return pl.DataFrame([*columns, pl.Series(answer, list(map(str, target)))])


def _column(name: str, values: NDArray[np.float64], categories: Sequence[str] | None) -> pl.Series:
    """Return numbers, or the categories that codes stand for; nan is missing in either."""
    if categories is None:
        return pl.Series(name, values).fill_nan(None)
    texts = [None if np.isnan(code) else str(categories[int(code)]) for code in values]
    return pl.Series(name, texts, dtype=pl.String)
