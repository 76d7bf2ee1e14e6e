"""Parkinson's disease from speech, the columns shared out among parties.

Sakar et al., "A comparative analysis of speech signal processing algorithms for Parkinson's disease
classification and the use of the tunable Q-factor wavelet transform", Applied Soft Computing 74,
2019; UCI Machine Learning Repository, doi:10.24432/C5MS4X. 188 patients and 64 healthy people said
a long "a" three times, and each time was described by 753 numbers: the sex, and what several
algorithms make of the sound. There are two forms:

==========================  ====  =======  =====================================================
file                        rows  columns  what
==========================  ====  =======  =====================================================
``pd_speech_features.csv``  756   753      UCI's: a row for each time, and whose it is; a line
                                           of kinds of columns stands before the line of names
``pd_speech.csv``           252   751      as the package modeldata for R has it: a row for each
                                           person, averaged over the three times; without the two
                                           numbers of pulses
==========================  ====  =======  =====================================================

A person is either for training or for testing, with all rows. (Where rows are divided instead, most
test rows are of people who were trained on, and results are better than they would be on anybody
else.)

This was run on the averaged form. UCI's was tested on generated files.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.datasets.scaling import check_scale, scaled
from colonnade.datasets.stratified import stratified
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.numeric import Scale

__all__ = ["parkinson", "parkinson_files"]

_NAME = "Parkinson speech"
_FILES = ("pd_speech_features.csv", "pd_speech.csv", "pd_speech_252x752.csv")
_SUBFOLDERS = ("", "parkinson")
_WHO = ("id", "rownames")  # of UCI, and of the averaged table
_LABEL = "class"
_CLASSES = {"0": 0, "1": 1, "control": 0, "PD": 1}


def parkinson(
    folder: str | Path | None = None,
    *,
    parties: int = 10,
    scale: Scale = "standard",
    test: float = 0.3,
    seed: int = 0,
) -> VerticalDataset:
    """Load descriptions of speech, the columns shared out among the parties.

    Of the patients and of the healthy the same share is for testing, chosen by a permutation that
    is the same everywhere. Training rows and test rows are listed with the two taking turns, so the
    first ones of any number are a fair sample.

    Parameters
    ----------
    folder
        Where ``pd_speech_features.csv``, ``pd_speech.csv`` or ``pd_speech_252x752.csv`` is, plain
        or ``.gz``, or its subfolder ``parkinson``; the first of them that is there is read. By
        default the folder that the environment variable ``COLONNADE_DATA`` names.
    parties
        How many parties share the columns: each has a run of them, in the file's order. Where they
        cannot be shared out equally, the first parties have one more.
    scale
        ``"standard"``: each column to mean 0 and variance 1 over the training rows; ``"unit"``: to
        [0, 1] over them, as polynomial networks want it; ``"none"``: as it is. A column that is
        constant in the training rows becomes 0.
    test
        The share of people to test on.
    seed
        Another seed, another choice of people.

    Returns
    -------
    VerticalDataset
        The rows in the order of the file; class 1 has Parkinson's disease.

    Raises
    ------
    DataError
        If there is no folder or file, or it does not hold what it should.
    ConfigurationError
        If there are more parties than columns, or none, no such scale, or the share leaves nobody
        of a class for training or for testing.

    Examples
    --------
    ::

        speech = parkinson("data")
        speech  # VerticalDataset('Parkinson speech', 10 parties, 177 + 75 rows, 2 classes)
        speech.features["party_1"].shape  # [252, 76]
    """
    check_scale(scale)
    (path,) = parkinson_files(folder)
    values, people, labels = _read(path)
    columns = values.shape[1]
    if type(parties) is not int or not 1 <= parties <= columns:
        raise ConfigurationError(
            f"{columns} columns can be shared out among 1 to {columns} parties, not {parties!r}"
        )
    train, tested = stratified("parkinson", labels, test, seed, people)
    features = torch.from_numpy(scaled(values, train, scale).astype(np.float32))
    shares = features.tensor_split(parties, dim=1)
    each = "person, averaged over three times" if len(np.unique(people)) == len(people) else "time"
    return VerticalDataset(
        name=_NAME,
        features={
            f"party_{number}": share.contiguous() for number, share in enumerate(shares, start=1)
        },
        labels=torch.from_numpy(labels),
        classes=2,
        train=train,
        test=tested,
        notes=f"{_NAME}, a row for each {each}; divided by people, since there is no official "
        "split into training and test rows",
    )


def parkinson_files(folder: str | Path | None = None) -> list[Path]:
    """Return the file that ``parkinson`` would read, alone in a list.

    Raises
    ------
    DataError
        If there is no folder, or no such file in it.
    """
    root = data_folder(_NAME, folder, "its table")
    for place in (root / sub for sub in _SUBFOLDERS):
        for name in _FILES:
            path = plain_or_packed(place / name)
            if path is not None:
                return [path]
    raise DataError(
        f"expected the file {_FILES[0]} or {_FILES[1]} in {root}, which has neither: put UCI's "
        "table there, plain or .gz, or name another folder with --data or COLONNADE_DATA"
    )


def _read(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers ``[N, columns]``, whom each row is about, and its class."""
    lines = _lines(path)
    above = 0 if lines and _LABEL in lines[0] else 1  # UCI's line of kinds
    names, rows = (lines[above], lines[above + 1 :]) if len(lines) > above else ([], [])
    who = next((name for name in _WHO if name in names), None)
    if who is None or _LABEL not in names or len(names) < 3 or not rows:
        raise DataError(
            f"{path} has no table of {_NAME}; expected a column {_WHO[0]!r} or {_WHO[1]!r}, one "
            f"{_LABEL!r}, others of numbers, and a row"
        )
    who_at, label_at = names.index(who), names.index(_LABEL)
    used = [place for place in range(len(names)) if place not in (who_at, label_at)]
    values = np.empty((len(rows), len(used)))
    people: dict[str, int] = {}
    whose, labels = [], []
    for number, row in enumerate(rows):
        where = f"{path}, line {above + 2 + number}"
        if len(row) != len(names):
            raise DataError(
                f"{where}: {len(row)} values; expected {len(names)}, one for each column"
            )
        if row[label_at] not in _CLASSES:
            raise DataError(
                f"{where}: {_LABEL} is {row[label_at]!r}; expected 0 or 1, or control or PD"
            )
        values[number] = _numbers(where, names, row, used)
        whose.append(people.setdefault(row[who_at], len(people)))
        labels.append(_CLASSES[row[label_at]])
    return values, np.array(whose, dtype=np.int64), np.array(labels, dtype=np.int64)


def _numbers(
    where: str, names: Sequence[str], row: Sequence[str], used: Sequence[int]
) -> NDArray[np.float64]:
    numbers = np.empty(len(used))
    for place, column in enumerate(used):
        try:
            numbers[place] = float(row[column])
        except ValueError:
            numbers[place] = np.nan
        if not np.isfinite(numbers[place]):
            raise DataError(
                f"{where}: {names[column]} is {row[column]!r}; expected a finite number"
            )
    return numbers


def _lines(path: Path) -> list[list[str]]:
    """Return the lines of a comma-separated file, plain or packed."""
    packed = path.suffix == ".gz"
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if packed
            else path.open(encoding="utf-8-sig", newline="")
        ) as file:
            return list(csv.reader(file, strict=True))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not comma-separated text ({error})") from error
