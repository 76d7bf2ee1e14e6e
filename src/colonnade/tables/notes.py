"""What should be known of tables that can be used all the same: told once, as ``DataWarning``.

Whoever has the tables is told an example. A run keeps the sentence without it, in its summary, on
its page and in what is dumped of it: an id, or a cell with its row, is somebody's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from colonnade.errors import DataWarning

__all__ = ["Note", "about", "kept", "tell"]

_LONGEST = 300  # characters of an example


class Note(str):
    """A sentence with an example in it.

    Parameters
    ----------
    before, example, after
        Its parts.

    Examples
    --------
    >>> note = Note("3 ids differ only in case", ", such as 'AB1' and 'ab1'", "; write them alike")
    >>> note
    "3 ids differ only in case, such as 'AB1' and 'ab1'; write them alike"
    >>> kept([note, "a table has no rows"])
    ('3 ids differ only in case; write them alike', 'a table has no rows')
    """

    parts: tuple[str, str, str]

    def __new__(cls, before: str, example: str, after: str) -> Note:
        """Return the whole sentence, which knows its parts."""
        if len(example) > _LONGEST:  # a cell may be a book
            example = f"{example[:_LONGEST]} ..."
        note = super().__new__(cls, before + example + after)
        note.parts = (before, example, after)
        return note

    def __reduce__(self) -> tuple[type[Note], tuple[str, str, str]]:
        return Note, self.parts


def about(whose: str, notes: Iterable[str]) -> tuple[str, ...]:
    """Return notes behind words that say of whose table they are."""
    return tuple(
        Note(whose + note.parts[0], *note.parts[1:]) if isinstance(note, Note) else whose + note
        for note in notes
    )


def kept(notes: Iterable[str]) -> tuple[str, ...]:
    """Return notes as a run keeps them."""
    return tuple(map(_kept, notes))


def tell(notes: Iterable[str]) -> None:
    """Warn of each note, at the place from which the caller was called.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     tell(["3 ids differ only in case"])
    >>> str(told[0].message)
    '3 ids differ only in case'
    """
    for note in notes:
        warning = DataWarning(str(note))
        warning.kept = _kept(note)
        warnings.warn(warning, stacklevel=3)


def _kept(note: str) -> str:
    return note.parts[0] + note.parts[2] if isinstance(note, Note) else note
