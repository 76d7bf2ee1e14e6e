"""What should be known of tables that can be used all the same: told once, as ``DataWarning``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from colonnade.errors import DataWarning

__all__ = ["tell"]


def tell(notes: Iterable[str]) -> None:
    """Warn of each note, at the place from which the caller was called.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     tell(["3 ids differ only in case"])
    >>> str(told[0].message)
    '3 ids differ only in case'
    """
    for note in notes:
        warnings.warn(note, DataWarning, stacklevel=3)
