"""What is done with a site's own data: what is refused there is told to their owner alone.

Whether an error says anything of a table is not seen from its kind: what a job asks for may be
refused for how many classes there are, or columns. It is seen from where the error was raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.errors import InvalidInput

__all__ = ["confided", "is_confided"]

_NOTE = "(in what a site keeps to itself: others are told that it cannot be used, and not why)"


@contextmanager
def confided() -> Iterator[None]:
    """Mark as told to the owner alone what cannot be used meanwhile, also as a decorator.

    A table is read in it, and made into features; models are made for these, and tried on them.

    >>> try:
    ...     with confided():
    ...         raise InvalidInput("there are 37 different labels")
    ... except InvalidInput as error:
    ...     print(is_confided(error))
    True
    """
    try:
        yield
    except InvalidInput as error:
        if not is_confided(error):
            error.add_note(_NOTE)
        raise


def is_confided(error: BaseException) -> bool:
    """Return whether an error was raised within ``confided``."""
    return _NOTE in getattr(error, "__notes__", ())
