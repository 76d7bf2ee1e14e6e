"""Names of columns: which occurs twice, and what a wrong one was probably meant to be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from colonnade.errors import ConfigurationError, DataError
from colonnade.telling import shown

__all__ = ["check_named_once", "check_path", "check_present", "check_texts", "listed", "meant"]

_SHOWN = 8  # of the names in a message; a table may have thousands


def listed(names: Iterable[object]) -> str:
    """Return names for a message, in quotes, the first few of many.

    >>> listed(["age", "sex"]), listed(range(10))
    ("'age', 'sex'", '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    names = list(names)
    text = ", ".join(shown(name) for name in names[:_SHOWN])
    return text + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def check_named_once(where: str, names: Sequence[str]) -> None:
    """Raise ``DataError`` if a name occurs twice.

    >>> check_named_once("people.csv", ["age", "sex", "age"])
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: people.csv names column 'age' twice; name each column once
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where} names column {shown(name)} twice; name each column once")
        seen.add(name)


def check_present(where: str, wanted: Iterable[str], names: Sequence[str]) -> None:
    """Raise ``DataError`` if a wanted column is not among the names; near ones are suggested.

    >>> check_present("people.csv", ["Age"], ["age", "sex"])
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: people.csv has no column 'Age'; did you mean 'age'?
    """
    there = set(names)
    for name in wanted:
        if name in there:
            continue
        raise DataError(f"{where} has no column {shown(name)}; {meant(name, names, 'it has')}")


def meant(name: str, names: Sequence[str], otherwise: str = "there are") -> str:
    """Return which of some names was probably meant, else the first of them.

    >>> meant("Age", ["age", "sex"]), meant("town", ["age", "sex"]), meant("town", [])
    ("did you mean 'age'?", "there are 'age', 'sex'", 'there are none')
    """
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.6)
    near = [by_lower[match] for match in found]
    return (
        f"did you mean {' or '.join(map(shown, near))}?"
        if near
        else f"{otherwise} {listed(names) or 'none'}"
    )


def check_path(path: str) -> None:
    """Raise ``DataError`` for a path that polars cannot take, before it is asked.

    >>> check_path("people.csv")
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{path!r} cannot be read: its name, or that of a folder, is not UTF-8; give it "
            "another, or run where names are UTF-8 (LC_ALL=C.UTF-8)"
        ) from None


def check_texts(what: str, given: object) -> None:
    """Raise ``ConfigurationError`` unless it is a list of texts that can be written.

    >>> check_texts("missing", ["NA", 7])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: missing must be text, not 7
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{what} must be a list of texts, not {shown(given)}")
    for text in given:
        if not isinstance(text, str):
            raise ConfigurationError(f"{what} must be text, not {text!r}")
        if re.search("[\ud800-\udfff]", text):
            raise ConfigurationError(
                f"{what} has a lone surrogate, which is no character: it was read by another "
                "encoding than it was written in"
            )
