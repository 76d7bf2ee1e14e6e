"""Environment variables in the sources of tables, so that no password stands in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import quote

from colonnade.errors import ConfigurationError
from colonnade.tables.read import is_called_like_a_table
from colonnade.tables.urls import Option, Parts, login_in, misplaced, parts_of, settings_in

__all__ = ["expanded", "holds_a_secret"]

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def holds_a_secret(source: str) -> bool:
    """Return whether a password or another secret is written out, rather than a variable for it.

    >>> holds_a_secret("postgresql://ann:$BANK_PASSWORD@db/crm")
    False
    >>> holds_a_secret("postgresql://ann@db/crm?password=hunter2")
    True
    >>> holds_a_secret("ann/hunter2@db:1521/crm"), holds_a_secret("data/x@y.csv")
    (True, False)
    >>> holds_a_secret("//ann:hunter2@shop.example/people.csv")
    True
    """
    parts = parts_of(source)
    if parts is None:
        slash_is_missing = re.match(r"[A-Za-z][\w+]+:.*:.*@", source, re.DOTALL) is not None
        return slash_is_missing or _are_written(_secrets_without_a_scheme(source))
    return _is_misplaced(parts) or _are_written(parts.secrets())


def _secrets_without_a_scheme(source: str) -> tuple[str, ...]:
    settings = tuple(each.value for each in settings_in(source))
    if found := re.match("//[^/:@]*:([^@]*)@", source):  # a URL, but for its scheme
        return (*settings, found[1])
    return settings + (() if is_called_like_a_table(source) else login_in(source))


def _is_misplaced(parts: Parts) -> bool:
    is_path = parts.scheme.startswith("sqlite") and parts.place.startswith("/")
    return misplaced(parts.host if is_path else parts.place.removeprefix("/"))


def _are_written(secrets: Iterable[str]) -> bool:
    return any(not _VARIABLE.fullmatch(each) for each in secrets)


def expanded(source: str) -> str:
    """Return a file or URL with the values of variables in their place.

    In a URL a variable is one part, whatever is in it: a user, a password and the value of an
    option are percent-encoded. A variable that is the user alone may have a password behind a
    colon, and one that is the whole URL is one, as it is.

    Raises
    ------
    ConfigurationError
        If a variable is not set. One in a password's place is not named, as it may be a password
        itself, with a dollar sign.
    """
    parts = parts_of(source)
    if parts is None:
        return _with_values(source, unnamed=bool(_secrets_without_a_scheme(source)))
    lone = parts.secret is None
    options = parts.options and tuple(
        Option(
            _with_values(each.name),
            _with_values(each.value, encoded=True, unnamed=each.is_secret),
        )
        for each in parts.options
    )
    return str(
        parts._replace(
            scheme=_with_values(parts.scheme),
            user=parts.user and _with_values(parts.user, encoded=True, kept=":" if lone else ""),
            secret=parts.secret and _with_values(parts.secret, encoded=True, unnamed=True),
            place=_with_values(parts.place, unnamed=bool(settings_in(parts.place))),
            options=options,
        )
    )


def _with_values(text: str, *, encoded: bool = False, kept: str = "", unnamed: bool = False) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise ConfigurationError(
                "the environment variable that a database's password is to come from is not set; "
                "if it is no variable but a password with a $, put it into one"
                if unnamed
                else f"the environment variable {name} is not set"
            )
        found = os.environ[name]
        return quote(found, safe=kept) if encoded else found

    return _VARIABLE.sub(value, text)
