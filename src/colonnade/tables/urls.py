"""URLs of databases: their parts, and which of these are secret.

They are taken apart as SQLAlchemy does it, so that nothing is a password there that is none here.

::

    postgresql+psycopg://ann:hunter2@db.example:5432/crm?sslmode=require
    scheme               user secret place               options

A secret may also be among the options, in some spelling of "password" or "token". There is no ``@``
in a host: where one is left, the password before it has another, which is to be written ``%40``.
A password that stands where the form has none - after a slash, after ``#``, in a list of settings
in place of a URL - is none to SQLAlchemy, which takes it for a part of the place and shows it:
``misplaced`` and ``settings_in`` find it. So it is behind an encoded colon in a user's name, and in
an option that says the user, host or database once more, which a driver shows: such an option is a
secret as a whole. Without a scheme, as in Oracle's ``ann/hunter2@host``, it is no URL at all, and
``login_in`` finds it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_plus

__all__ = ["Option", "Parts", "is_secret", "login_in", "misplaced", "parts_of", "settings_in"]

_URL = re.compile(
    r"(?P<scheme>[^:/?]+)://(?:(?P<user>[^:/]*)(?P<secret>:[^@]*)?@)?"
    r"(?P<place>[^?]*)(?P<options>\?.*)?",
    re.DOTALL,
)
_LOGIN = re.compile(r":[^:@]*@")
_SETTING = re.compile(r"(?:^|(?<=[\s;&#?]))(\w+)\s*=\s*([^\s;&]+)")
_PASSWORD = re.compile(r"passw|pass$|passphrase|pwd|secret|token|credential")  # a folder is key=3
_SECRET = re.compile(r"pass(?!file)|pwd|secret|token|credential|(?<!ssl)key$")
_USERS = {"user", "username", "uid", "login"}  # among options, as are places:
_PLACES = {"host", "hostaddr", "server", "dbname", "database", "db", "dsn", "service"}


class Option(NamedTuple):
    """An option as it is written; ``name`` and ``value`` joined by ``=`` where there is one."""

    name: str
    value: str

    @property
    def is_secret(self) -> bool:
        """Whether its value is a secret: by its name, or since there is one in it.

        That is in a list of settings, in a user with a colon, and in a host or database with a
        login before it.

        >>> Option("odbc_connect", "UID%3Dann%3BPWD%3Dhunter2").is_secret
        True
        >>> Option("user", "ann%3Ahunter2").is_secret, Option("host", "ann:hunter2@h").is_secret
        (True, True)
        >>> Option("user", "ann%40srv").is_secret, Option("host", "[::1]:5432,h:5433").is_secret
        (False, False)
        """
        inside = re.findall(r"(\w+)\s*=", unquote_plus(self.value))
        return self.has_login or any(is_secret(name) for name in (unquote_plus(self.name), *inside))

    @property
    def has_login(self) -> bool:
        """Whether a user and a password are in its value, as a URL has them before its host.

        >>> Option("dbname", "postgresql://ann:hunter2@h/db").has_login
        True
        """
        name, value = _letters(unquote_plus(self.name)), _folded(unquote_plus(self.value))
        if name in _USERS:
            return ":" in value
        return name in _PLACES and misplaced(value.lstrip("@/"))  # of a socket


class Parts(NamedTuple):
    """The parts of a URL as they are written; ``secret`` and ``options`` are None if left out."""

    scheme: str
    user: str | None
    secret: str | None
    place: str
    options: tuple[Option, ...] | None

    @property
    def host(self) -> str:
        """The beginning of the place."""
        return self.place.partition("/")[0]

    def secrets(self) -> Iterator[str]:
        """Yield what is secret as it is written: a password, and the values of secret options."""
        if self.secret:
            yield self.secret
        for option in (Option("user", self.user or ""), *(self.options or ())):
            if option.value and option.is_secret:
                yield option.value
        for option in settings_in(f"{self.user or ''} {self.place}"):
            yield option.value

    def __str__(self) -> str:
        who = (
            ""
            if self.user is None
            else self.user + ("@" if self.secret is None else f":{self.secret}@")
        )
        options = "&".join(f"{n}={v}" if v else n for n, v in self.options or ())
        return f"{self.scheme}://{who}{self.place}" + (
            "" if self.options is None else f"?{options}"
        )


def parts_of(text: str) -> Parts | None:
    """Return the parts of a URL; None of what is none.

    >>> parts = parts_of("postgresql://ann:hunter2@db/crm?passwd=s3cret&sslmode=require")
    >>> parts.user, list(parts.secrets()), parts.place
    ('ann', ['hunter2', 's3cret'], 'db/crm')
    >>> parts_of("people.csv")
    """
    found = _URL.fullmatch(text)
    if found is None:
        return None
    options = None
    if found["options"] is not None:
        pairs = (each.partition("=") for each in found["options"][1:].split("&"))
        options = tuple(Option(name, value) for name, _, value in pairs)
    secret = None if found["secret"] is None else found["secret"][1:]
    return Parts(found["scheme"], found["user"], secret, found["place"], options)


def settings_in(text: str) -> tuple[Option, ...]:
    """Return the settings with secrets in a text that is no list of options, or not meant as one.

    >>> settings_in("host=db user=ann password=hunter2")
    (Option(name='password', value='hunter2'),)
    >>> settings_in("/srv/password=3/people.csv")
    ()
    """
    found = (Option(*match) for match in _SETTING.findall(unquote_plus(text)))
    return tuple(option for option in found if _PASSWORD.search(_letters(option.name)))


def misplaced(place: str) -> bool:
    """Return whether a user and a password are in a URL's place, where a path of SQLite's may be.

    A path without a host may have an ``@``; behind a host it ends a login, as in Oracle's form. In
    the wide form of East Asian keyboards it is one, too.

    >>> misplaced("ann/hunter2@db.example/crm"), misplaced("/srv/a@b/people.db")
    (True, False)
    >>> misplaced("ann\uff1ahunter2\uff20db.example/crm")
    True
    """
    place = _folded(place)
    return ("@" in place and not place.startswith("/")) or _LOGIN.search(place) is not None


def login_in(text: str) -> tuple[str, ...]:
    """Return what may be passwords in a text without a scheme: what is between a user and an ``@``.

    A file may have an ``@`` in its path, so ask of what is no file alone. A path from the root on
    names no user.

    >>> login_in("ann/hunter2@db.example:1521/crm"), login_in("ann:hunt/er2@db.example")
    (('hunter2',), ('hunt', 'er2'))
    >>> login_in("people@home.csv"), login_in("/home/ann@example.org/people.xlsx")
    ((), ())
    """
    before, _, _ = _folded(text).rpartition("@")
    if re.match("/[^/:]+(/[^/:]+)*$", before):
        return ()
    return tuple(re.split("[:/]", before)[1:])


def is_secret(name: str) -> bool:
    """Return whether a setting of this name is a secret, whatever driver it is for.

    >>> [is_secret(name) for name in ("password", "sslPassword", "pwd", "passfile", "sslkey")]
    [True, True, True, False, False]
    """
    return _SECRET.search(_letters(name)) is not None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
