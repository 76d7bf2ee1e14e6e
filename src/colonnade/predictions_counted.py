"""How often a run has predicted, on disk, where what its predictions disclose adds up.

Whoever forgets a prediction spends it twice. So it is counted in two places, the run's folder and
the label holder's part, with a digest, and what is there is read and made larger under a lock.

A sum of few parties' embeddings discloses more than one of many, so predictions are counted by how
many parties took part. What an earlier version counted may have been of any number of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from colonnade.errors import DataError
from colonnade.faults import explained, unread_or_damaged
from colonnade.locks import locked, unlock
from colonnade.ordinary import NOT_ORDINARY
from colonnade.outputs import SIGNATURE, replacing

__all__ = ["PREDICTED", "UNKNOWN", "PredictionCount", "Times"]

PREDICTED = "predicted.json"

Times: TypeAlias = Counter[int]
"""How often a run has predicted, by how many parties took part."""

UNKNOWN = 0
"""In place of how many, where that was not written down."""

_NONE: Mapping[int, int] = MappingProxyType({})
_MOST = 2**53  # what JSON can tell of whole numbers everywhere


class PredictionCount:
    """The number of times that a run has predicted.

    Parameters
    ----------
    folder
        The run's.
    part
        The folder of the label holder's trained part.
    """

    def __init__(self, folder: Path, part: Path) -> None:
        self._file, self._part = folder / PREDICTED, part

    def times(self) -> Times:
        """Return the numbers.

        Raises
        ------
        DataError
            If it is damaged, or gone though the label holder's part says that there was one.
        """
        counted, said = _times_in(self._file), _times_in(self._part / PREDICTED)
        if counted is None and said is not None:
            raise DataError(
                f"{self._file}, which counts what predictions disclosed, is gone, and the run has "
                f"predicted: bring it back, or put {self._part / PREDICTED} into its place"
            )
        return (counted or Times()) | (said or Times())

    def add(self, parties: int, known: Mapping[int, int] = _NONE) -> Times:
        """Count one prediction more, on disk when this returns, and return the numbers then.

        Parameters
        ----------
        parties
            How many take part in it.
        known
            Of which the caller knows itself.

        Raises
        ------
        DataError
            As by ``times``, or if the label holder's part is gone, or all of the run.
        Unwritten
            If it cannot be written.
        """
        if not self._part.is_dir():
            raise DataError(
                f"{self._part} is gone, where it is counted what predictions disclose: bring it "
                "back, or predict by the run from where it is now"
            )
        with explained(self._file), self._alone():
            times = self.times() | Times(known)
            times[parties] += 1
            of = {str(number): count for number, count in times.items() if number != UNKNOWN}
            written: dict[str, object] = {"by": SIGNATURE, "times": times.total(), "parties": of}
            written["digest"] = _digest(written)
            for file in (self._file, self._part / PREDICTED):
                with replacing(file) as partial:
                    partial.write_text(json.dumps(written) + "\n", encoding="utf-8")
        return times

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep all others from counting; the run's folder itself training may hold for hours."""
        if sys.platform == "win32":  # folders cannot be opened
            yield
            return
        descriptor = os.open(self._part, os.O_RDONLY)
        try:
            locked(descriptor, wait=True)
            yield
        finally:
            unlock(descriptor)
            os.close(descriptor)


def _times_in(file: Path) -> Times | None:
    """Return the numbers that a file tells; None where there is none."""
    if not os.path.lexists(file):
        return None
    try:
        if file.is_symlink() or not file.is_file():
            raise ValueError(NOT_ORDINARY)
        told = json.loads(file.read_text(encoding="utf-8"))
        digest = told.pop("digest")
        if digest != _digest(told):
            raise ValueError("it is not what was written")
        return _times(told)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{file}, which counts what predictions disclosed,"
        raise unread_or_damaged(what, error) from None


def _times(told: Mapping[str, Any]) -> Times:
    """Return the numbers of what was written, by whichever version."""
    whole = told["times"]
    times = Times({int(parties): count for parties, count in told.get("parties", {}).items()})
    numbers = [whole, *times.values()]
    if not all(type(number) is int and 0 < number <= _MOST for number in numbers):
        raise ValueError("it is no number of times")
    if min(times, default=1) < 1 or times.total() > whole:
        raise ValueError("its numbers are not of one run")
    return times + Times({UNKNOWN: whole - times.total()})


def _digest(values: object) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()
