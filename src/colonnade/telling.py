"""How values and texts of others stand in our sentences: short, on one line, without secrets."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

__all__ = ["class_of", "first_line", "named", "plain", "short", "shown", "sort_of"]

_LONGEST = 200
_ACTING = ("Cc", "Cf", "Cs")
_OF_A_URL = re.compile(r"(://).*[@?#:].*", re.DOTALL)
_OF_A_SETTING = re.compile(
    r"((?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?)['\"]?\s*=).*",
    re.DOTALL | re.IGNORECASE,
)
_OF_A_LOGIN = re.compile(r":[^\s:@]+@\S*")
_SECRETS = ((_OF_A_URL, r"\1..."), (_OF_A_SETTING, r"\1..."), (_OF_A_LOGIN, ":..."))


def plain(text: str) -> str:
    r"""Return a text without what a terminal would act upon; other white space is a space.

    >>> plain("a\x1b[31mred\nb\u202ec")
    'a[31mred bc'
    """
    if text.isprintable():  # as nearly all are
        return text
    spaced = (" " if each in "\t\n\r\v\f\x85\u2028\u2029" else each for each in text)
    return "".join(each for each in spaced if unicodedata.category(each) not in _ACTING)


def short(text: str) -> str:
    """Return a text as ``plain`` does, cut off where it is long, or what may be a password begins.

    That is in the URL of a database, in settings in a URL's place, and between a colon and an @.

    >>> short("postgresql://ann:hunter2@db.example/crm")
    'postgresql://...'
    >>> short("host=db user=ann password=hunter2")
    'host=db user=ann password=...'
    >>> short("ann:hunter2@db.example/crm")
    'ann:...'
    """
    for secret, left in _SECRETS:
        text = secret.sub(left, text)
    return _cut(plain(text[: 2 * _LONGEST]))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def first_line(error: object) -> str:
    r"""Return what an error says, on one line; its name where it says nothing.

    >>> first_line(ValueError("no number\nat all")), first_line(KeyError())
    ('no number', 'KeyError')
    """
    try:
        lines = str(error).splitlines()
    except Exception:  # an error of the user's own may not even be able to say what it is
        lines = []
    return (lines or [type(error).__name__])[0]


def named(error: BaseException, whole: bool = False) -> str:
    r"""Return the name of an error and what it says, if anything, on one line.

    Where that is long it is cut off, unless the ``whole`` is wanted, as in a file.

    >>> named(ValueError("no number\nat all")), named(KeyError())
    ('ValueError: no number', 'KeyError')
    >>> [len(named(ValueError("x" * 300), whole)) for whole in (False, True)]
    [216, 312]
    """
    name, said = type(error).__name__, plain(first_line(error))
    if said == name:
        return name
    return f"{name}: {said if whole else _cut(said)}"


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
    return short(text)


def sort_of(value: Any) -> str:
    """Return what a value is, for messages where it may hold somebody's data.

    >>> sort_of(3), sort_of(None), sort_of({"age": [41, 37]})
    ('3', 'None', 'a dict')
    """
    if value is None or isinstance(value, str | int | float):
        return shown(value)
    return class_of(value)


def class_of(value: Any) -> str:
    """Return of which class a value is, or which class it is.

    >>> class_of(3), class_of(int)
    ('a int', 'the class int')
    """
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
