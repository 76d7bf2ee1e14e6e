"""What packages of others do and say: whatever happens in them is an error that names them.

A package's code runs when it is imported, described and made use of, and may do anything there. One
that is broken is a problem of its own part, never of a list or of a run that does without it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from colonnade.errors import ConfigurationError

__all__ = ["guarded", "plain", "shown"]

_LONGEST = 200


def plain(text: str) -> str:
    r"""Return a text without what a terminal would act upon; other white space is a space.

    >>> plain("a\x1b[31mred\nb\u202ec")
    'a[31mred bc'
    """
    spaced = (" " if each in "\t\n\r\v\f\x85\u2028\u2029" else each for each in text)
    return "".join(each for each in spaced if unicodedata.category(each) not in _ACTING)


_ACTING = ("Cc", "Cf", "Cs")


def shown(value: Any) -> str:
    """Return how a value is written in messages, however long it is or ill it behaves.

    >>> shown("x" * 300)[-5:]
    'x ...'
    """
    try:
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever a class of somebody else does
        text = f"a {type(value).__name__}"
    return _short(text)


def _short(text: str) -> str:
    text = plain(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _words(error: BaseException) -> str:
    """Return what kind of error it is, and the first line of what it says."""
    try:
        said = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        said = ""
    first = said.strip().partition("\n")[0]
    return _short(type(error).__name__ + (f": {first}" if first else ""))


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
