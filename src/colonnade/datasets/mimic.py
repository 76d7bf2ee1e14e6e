"""MIMIC-III: who dies in hospital, from two days of what was measured, hour by hour.

Johnson et al., "MIMIC-III, a freely accessible critical care database", Scientific Data 3, 2016;
physionet.org, for those who have been given access. Harutyunyan, Khachatrian, Kale, Ver Steeg and
Galstyan, "Multitask learning and benchmarking with clinical time series data", Scientific Data 6,
2019, made a benchmark of it. Their programs (github.com/YerevaNN/mimic3-benchmarks) write for each
of its tasks

::

    <task>/<train or test>/listfile.csv   the stays, and what came of them
    <task>/<train or test>/<stay>         what was measured when: Hours, and 17 variables
    <task>/val_listfile.csv               if made: stays of train to choose the model by

of which those of the task ``in-hospital-mortality`` are read here. As in the benchmark:

- The first 48 hours are cut into steps of one; what is measured on the hour is of the step before.
- Of several values in one step, the last one counts.
- Where none was measured, the variable keeps its value; before the first, it has a normal one.
- Five variables are categories, with a column for each of their 47 values. The same finding may
  have two names, which are two values.
- A mask for each variable says in which steps it was measured.

So there are 47 + 12 columns of values and 17 of masks, 76 at each step, in the benchmark's order.

This was tested on generated files of that format, and was not run on the real data.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.names import check_present, listed

__all__ = ["mimic3_mortality", "mimic3_mortality_files"]

_HOURS = 48
_CLOSE = 1e-6  # hours by which a time may miss a full hour
_TASK = "in-hospital-mortality"
_SUBFOLDERS = (_TASK, f"mimic3/{_TASK}", "")
_LISTS = ("train/listfile.csv", "test/listfile.csv")
_VALIDATION = "val_listfile.csv"


@dataclass(frozen=True)
class _Variable:
    """What is measured: a number, or one of some categories."""

    name: str  # spelt as the files spell it
    normal: str
    categories: tuple[str, ...] = ()


_VARIABLES = (
    _Variable("Capillary refill rate", "0.0", ("0.0", "1.0")),
    _Variable("Diastolic blood pressure", "59.0"),
    _Variable("Fraction inspired oxygen", "0.21"),
    _Variable(
        "Glascow coma scale eye opening",
        "4 Spontaneously",
        (
            *("To Pain", "3 To speech", "1 No Response", "4 Spontaneously"),
            *("None", "To Speech", "Spontaneously", "2 To pain"),
        ),
    ),
    _Variable(
        "Glascow coma scale motor response",
        "6 Obeys Commands",
        (
            *("1 No Response", "3 Abnorm flexion", "Abnormal extension", "No response"),
            *("4 Flex-withdraws", "Localizes Pain", "Flex-withdraws", "Obeys Commands"),
            *("Abnormal Flexion", "6 Obeys Commands", "5 Localizes Pain", "2 Abnorm extensn"),
        ),
    ),
    _Variable(
        "Glascow coma scale total",
        "15",
        ("11", "10", "13", "12", "15", "14", "3", "5", "4", "7", "6", "9", "8"),
    ),
    _Variable(
        "Glascow coma scale verbal response",
        "5 Oriented",
        (
            *("1 No Response", "No Response", "Confused", "Inappropriate Words"),
            *("Oriented", "No Response-ETT", "5 Oriented", "Incomprehensible sounds"),
            *("1.0 ET/Trach", "4 Confused", "2 Incomp sounds", "3 Inapprop words"),
        ),
    ),
    _Variable("Glucose", "128.0"),
    _Variable("Heart Rate", "86"),
    _Variable("Height", "170.0"),
    _Variable("Mean blood pressure", "77.0"),
    _Variable("Oxygen saturation", "98.0"),
    _Variable("Respiratory rate", "19"),
    _Variable("Systolic blood pressure", "118.0"),
    _Variable("Temperature", "36.6"),
    _Variable("Weight", "81.0"),
    _Variable("pH", "7.4"),
)
_STARTS = tuple(accumulate((len(x.categories) or 1 for x in _VARIABLES), initial=0))
_MASKS = _STARTS[-1]  # the first column of them
_COLUMNS = _MASKS + len(_VARIABLES)


def mimic3_mortality(
    folder: str | Path | None = None, *, parties: int = 4, standardise: bool = True
) -> VerticalDataset:
    """Load MIMIC-III's stays in intensive care, the columns shared out among the parties.

    Parameters
    ----------
    folder
        Where the benchmark's ``train`` and ``test`` of in-hospital mortality are, or its subfolder
        ``in-hospital-mortality`` or ``mimic3/in-hospital-mortality``. By default the folder that
        the environment variable ``COLONNADE_DATA`` names.
    parties
        How many parties share the 76 columns, 1 to 76: each has a run of them, in the benchmark's
        order, and of 4 parties each has 19. Where they cannot be shared out equally, the first
        parties have one more.
    standardise
        Whether the twelve columns of numbers are each scaled to mean 0 and variance 1 over the
        training rows and the hours; one that is constant there becomes 0. Categories and masks
        stay 0 and 1.

    Returns
    -------
    VerticalDataset
        A party's features have the shape ``[N, 48, columns]``; class 1 died. The rows of train come
        first, in the order of the lists; those of ``val_listfile.csv`` are for validation.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If there are more parties than columns, or none.

    Examples
    --------
    ::

        stays = mimic3_mortality("data")
        stays  # VerticalDataset('MIMIC-III mortality', 4 parties, 14681 + 3222 + 3236 rows, ...)
        stays.features["party_1"].shape  # [21139, 48, 19]
    """
    if not 1 <= parties <= _COLUMNS:
        raise ConfigurationError(
            f"{_COLUMNS} columns can be shared out among 1 to {_COLUMNS} parties, not {parties}"
        )
    files = mimic3_mortality_files(folder)
    stays = [_stays(path) for path in files[:2]]
    set_aside = _set_aside(files[2], stays[0]) if len(files) > 2 else set()
    paths = [path.parent / name for path, part in zip(files, stays, strict=False) for name in part]
    values = np.empty((len(paths), _HOURS, _COLUMNS), dtype=np.float32)
    for row, path in enumerate(paths):
        values[row] = _series(path)
    of_train = list(stays[0])
    train = np.array([i for i, x in enumerate(of_train) if x not in set_aside], dtype=np.int64)
    validation = np.array([i for i, x in enumerate(of_train) if x in set_aside], dtype=np.int64)
    if standardise:
        _standardise(values, train)
    shares = torch.from_numpy(values).tensor_split(parties, dim=2)
    return VerticalDataset(
        name="MIMIC-III mortality",
        features={
            f"party_{number}": share.contiguous() for number, share in enumerate(shares, start=1)
        },
        labels=torch.tensor([died for part in stays for died in part.values()]),
        classes=2,
        train=train,
        test=np.arange(len(of_train), len(paths), dtype=np.int64),
        notes="mimic3-benchmarks, in-hospital mortality after 48 hours: hourly steps, the value "
        "before where none was measured, masks",
        validation=validation,
    )


def mimic3_mortality_files(folder: str | Path | None = None) -> list[Path]:
    """Return the lists of stays that ``mimic3_mortality`` would read: train, test, validation.

    Raises
    ------
    DataError
        If there is no folder, or the list of train or test is missing.
    """
    root = data_folder("MIMIC-III", folder)
    for place in (root / subfolder for subfolder in _SUBFOLDERS):
        missing = [name for name in _LISTS if not (place / name).is_file()]
        if not missing:
            validation = place / _VALIDATION
            found = [place / name for name in _LISTS]
            return [*found, validation] if validation.is_file() else found
        if len(missing) < len(_LISTS):
            raise DataError(
                f"{place} has a list of stays of MIMIC-III, but not {missing[0]}; write both with "
                "mimic3-benchmarks"
            )
    raise DataError(
        f"expected {_TASK}/{_LISTS[0]} of MIMIC-III in {root}, which has none: write it with "
        "mimic3-benchmarks, or name another folder with --data or COLONNADE_DATA"
    )


def _stays(path: Path) -> dict[str, int]:
    """Return the stays of a list, in its order, and whether each ended in death."""
    header, *rows = _table(path, ("stay", "y_true"))
    name_at, died_at = header.index("stay"), header.index("y_true")
    stays: dict[str, int] = {}
    for line, row in enumerate(rows, start=2):
        name, died = row[name_at], row[died_at]
        if not name or Path(name).name != name:
            raise DataError(f"{path}, line {line}: the stay {name!r} is not the name of a file")
        if died not in ("0", "1"):
            raise DataError(f"{path}, line {line}: y_true is {died!r}; expected 0 or 1")
        if name in stays:
            raise DataError(f"{path}, line {line}: names the stay {name!r} again; name each once")
        stays[name] = int(died)
    return stays


def _set_aside(path: Path, train: dict[str, int]) -> set[str]:
    """Return the stays to choose the model by, which must be of train."""
    found = set(_stays(path))
    strange = sorted(found - train.keys())
    if strange:
        raise DataError(f"{path} names {listed(strange)}, which {_LISTS[0]} does not")
    return found


def _series(path: Path) -> NDArray[np.float32]:
    """Return what was measured during one stay, ``[48, 76]``."""
    header, *rows = _table(path, ("Hours", *(variable.name for variable in _VARIABLES)))
    hours_at = header.index("Hours")
    places = [header.index(variable.name) for variable in _VARIABLES]
    codes = np.zeros((_HOURS, len(_VARIABLES)))
    measured = np.zeros((_HOURS, len(_VARIABLES)), dtype=bool)
    before = 0.0
    for line, row in enumerate(rows, start=2):
        hours = _number(row[hours_at])
        if hours is None or not before - _CLOSE <= hours < math.inf:
            raise DataError(
                f"{path}, line {line}: Hours is {row[hours_at]!r}; expected a number, not below 0 "
                "or that of the line before"
            )
        before = hours
        if hours > _HOURS + _CLOSE:
            break
        step = min(int(max(hours - _CLOSE, 0)), _HOURS - 1)
        for column, place in enumerate(places):
            if row[place]:
                code = _code(_VARIABLES[column], row[place])
                if code is None:
                    raise DataError(
                        f"{path}, line {line}: {_VARIABLES[column].name} is {row[place]!r}; "
                        f"expected {_expected(_VARIABLES[column])}"
                    )
                codes[step, column] = code
                measured[step, column] = True
    return _columns(codes, measured)


def _columns(codes: NDArray[np.float64], measured: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the columns of values and masks, ``[48, 76]``, each gap filled with what was before.

    ``codes`` are numbers, or numbers of categories; ``[48, 17]``, like ``measured``.
    """
    steps = np.arange(_HOURS)[:, None]
    last = np.maximum.accumulate(np.where(measured, steps, -1), axis=0)
    filled = np.where(last < 0, _NORMAL, np.take_along_axis(codes, np.maximum(last, 0), axis=0))
    columns = np.zeros((_HOURS, _COLUMNS), dtype=np.float32)
    for number, variable in enumerate(_VARIABLES):
        if variable.categories:
            columns[steps[:, 0], _STARTS[number] + filled[:, number].astype(np.int64)] = 1
        else:
            columns[:, _STARTS[number]] = filled[:, number]
    columns[:, _MASKS:] = measured
    return columns


def _code(variable: _Variable, text: str) -> float | None:
    """Return a value as a number, or the number of its category; None if it is neither."""
    if variable.categories:
        return _CATEGORIES[variable.name].get(_key(text))
    number = _number(text)
    return number if number is not None and math.isfinite(number) else None


def _key(category: str) -> str | float:
    """Return what two ways to write a category have in common: 15 and 15.0 are one."""
    number = _number(category)
    return category if number is None else number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_CATEGORIES = {
    variable.name: {_key(value): float(code) for code, value in enumerate(variable.categories)}
    for variable in _VARIABLES
}
_NORMAL = np.array([_code(variable, variable.normal) for variable in _VARIABLES], dtype=np.float64)


def _expected(variable: _Variable) -> str:
    return f"one of {listed(variable.categories)}" if variable.categories else "a finite number"


def _standardise(values: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
    """Scale the columns of numbers by what they are in these rows, in place."""
    for number, variable in enumerate(_VARIABLES):
        if variable.categories:
            continue
        column = values[:, :, _STARTS[number]]
        training = column[rows].astype(np.float64)
        if training.min() < training.max():
            column[:] = (column - training.mean()) / training.std()
        else:
            column[:] = 0


def _table(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the lines of a comma-separated file, which has these columns and a row."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is not comma-separated text ({error})") from error
    if len(rows) < 2:
        raise DataError(f"{path}: has {len(rows)} lines; expected names of columns and a row")
    check_present(str(path), columns, rows[0])
    for line, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise DataError(
                f"{path}, line {line}: {len(row)} values; expected {len(rows[0])}, one for each "
                "column"
            )
    return rows
