"""How often a run has predicted, on disk, where what its predictions disclose adds up.

Whoever forgets a prediction spends it twice. So the number is kept in two places, the run's folder
and the label holder's part, with a digest, and is read and made larger under a lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.errors import DataError
from colonnade.faults import explained
from colonnade.locks import locked, unlock
from colonnade.outputs import SIGNATURE, replacing
from colonnade.telling import first_line

__all__ = ["PREDICTED", "PredictionCount"]

PREDICTED = "predicted.json"
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

    @property
    def is_there(self) -> bool:
        """Whether there is still a run that can be counted for."""
        return self._part.is_dir()

    def times(self) -> int:
        """Return the number.

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
        return max(counted or 0, said or 0)

    def add(self, known: int) -> int:
        """Count one prediction more, on disk when this returns, and return the number then.

        Parameters
        ----------
        known
            Of how many the caller knows itself.

        Raises
        ------
        DataError
            As by ``times``.
        Unwritten
            If it cannot be written.
        """
        with explained(self._file), self._alone():
            times = max(self.times(), known) + 1
            written: dict[str, object] = {"by": SIGNATURE, "times": times}
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


def _times_in(file: Path) -> int | None:
    """Return the number that a file tells; None where there is none."""
    if not os.path.lexists(file):
        return None
    try:
        if file.is_symlink() or not file.is_file():
            raise ValueError("it is no ordinary file")
        told = json.loads(file.read_text(encoding="utf-8"))
        digest, times = told.pop("digest"), told["times"]
        if digest != _digest(told):
            raise ValueError("it is not what was written")
        if type(times) is not int or not 0 < times <= _MOST:
            raise ValueError("it is no number of times")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{file}, which counts what predictions disclosed, is damaged: {first_line(error)}"
        ) from None
    return times


def _digest(values: object) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()
