"""What packages of others do and say: whatever happens in them is an error that names them.

A package's code runs when it is imported, described and made use of, and may do anything there. One
that is broken is a problem of its own part, never of a list or of a run that does without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.errors import ConfigurationError
from colonnade.telling import short

__all__ = ["guarded"]


def _words(error: BaseException) -> str:
    """Return what kind of error it is, and the first line of what it says."""
    try:
        said = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        said = ""
    first = said.strip().partition("\n")[0]
    return short(type(error).__name__ + (f": {first}" if first else ""))


@contextmanager
def guarded(whose: str, what: str, let: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn whatever code of somebody else raises into an error that says whose it is.

    Parameters
    ----------
    whose
        The part and the package, which the sentence begins with.
    what
        What it did not do: ``cannot be imported``.
    let
        Errors that mean something as they are.

    Raises
    ------
    ConfigurationError
        In place of everything but Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        named = isinstance(error, ConfigurationError) and str(error).startswith(whose)
        if named or isinstance(error, let):
            raise
        raise ConfigurationError(f"{whose} {what}: {_words(error)}") from error
