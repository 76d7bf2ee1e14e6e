"""What others are told of a failure here: a sentence, and neither values nor where these are.

What an error says of a table may quote a cell, an id or a label, or how many classes there are, so
that others are told that the data cannot be used and nothing more, and so is a log (see
``kept_here``). So it is with whatever is refused of what a site keeps to itself (``confided``), and
with what a user's own code or a library says. What becomes too large while a role plays is made of
features and labels, as is what a message holds: of these others are told where that was, in which
round, and no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from colonnade.config.sections import Section
from colonnade.config.tables import TableConfig
from colonnade.deployment.confided import is_confided
from colonnade.deployment.site import SiteConfig
from colonnade.drivers import control
from colonnade.drivers.failures import failed
from colonnade.errors import (
    Aborted,
    BudgetExhausted,
    CheckpointError,
    ConfigurationError,
    DataError,
    Deadlock,
    Disconnected,
    Diverged,
    OutOfRange,
    ProtocolError,
    RemoteProtocolError,
    Unmeasurable,
    Unwritten,
)
from colonnade.telling import plain

__all__ = ["FAILED", "names_values", "spoken_by", "told_elsewhere"]

_MOST_TOLD = 4096  # characters

FAILED = "the run failed here: "
"""With this a log of a site begins to say why, where that was the first to fail."""

_SPOKEN = (
    *(Aborted, BudgetExhausted, CheckpointError, ConfigurationError),
    *(Deadlock, Disconnected, ProtocolError, Unwritten),
)
"""Errors whose sentences are of settings, messages, rounds and files, unless they are confided."""


def names_values(error: BaseException) -> bool:
    """Return whether what an error says may be of what is in a table."""
    spoken = isinstance(error, _SPOKEN) and not isinstance(error, Unmeasurable)
    return is_confided(error) or not spoken or _refused(error) is not None


def told_elsewhere(error: BaseException, site: SiteConfig) -> control.Failed:
    """Return what the gatekeeper is told of an error, and by it all others.

    It says where that was. Paths of the site are told by what its ``site.yaml`` calls them, and
    lines of programs, which have paths and maybe values in them, stay here.
    """
    name = site.organisation
    if names_values(error):
        kind = type(error).__name__
        what = f"at {name!r}{_when(error, name)}: {_what(error)} ({kind}); there it is known why"
        return control.Failed(kind, what, "")
    told = failed(error)
    message = told.message
    for place, called in sorted(_places(site), key=lambda place: -len(place[0])):
        message = message.replace(place, f"<{called}>")
    return control.Failed(told.error, spoken_by(name, message), "")


def _what(error: BaseException) -> str:
    """Return what can be said of an error that names values."""
    if isinstance(error, DataError):
        return "its data cannot be used"
    if is_confided(error):
        return "its data, or settings of its own, cannot be used"
    if isinstance(error, Unmeasurable):
        return "a metric cannot be computed of its labels"
    if isinstance(error, Diverged | OutOfRange):
        return "numbers became too large, or none"
    return _refused(error) or "it failed"


def _when(error: BaseException, name: str) -> str:
    """Return in which round an error was raised at work, where it says so; see ``perform``."""
    said = re.match(rf"at {re.escape(name)}(, in round \d+): ", failed(error).message)
    return said[1] if said else ""


def _refused(error: BaseException) -> str | None:
    """Return what is refused of a message, without why; None if nothing is; see ``reading``."""
    why = error.__cause__
    if not isinstance(error, RemoteProtocolError) or not isinstance(why, RemoteProtocolError):
        return None
    said = plain(str(error))
    return said.removesuffix(f": {plain(str(why))}")


def spoken_by(name: str, message: str) -> str:
    """Return a sentence that begins with whose it is, and that can be shown.

    >>> spoken_by("bank", "'shop' refuses the job"), spoken_by("bank", "'bank' refuses the job")
    ("at 'bank': 'shop' refuses the job", "'bank' refuses the job")
    >>> spoken_by("bank", "at bank, in round 3: the loss is nan")
    'at bank, in round 3: the loss is nan'
    """
    message = plain(message[:_MOST_TOLD])
    its_own = message.startswith((repr(name), f"at {name!r}", f"at {name}:", f"at {name},"))
    return message if its_own else f"at {name!r}: {message}"


def _places(site: SiteConfig) -> Iterator[tuple[str, str]]:
    """Yield where the site has what, and what it calls that."""
    yield from _paths_in(site)
    if site.serve is not None:
        yield site.serve.host, "serve.host"
    new = None if site.new is None else site.new.table
    tables: dict[str, TableConfig | None] = {"table": site.table, "labels": site.labels}
    for called, table in (tables | {"new.table": new}).items():
        if table is not None:
            try:
                yield table.where(site.folder), called
            except ConfigurationError:  # a variable is not set, so there is no place
                continue


def _paths_in(section: Section) -> Iterator[tuple[str, str]]:
    """Yield all paths that a section and those within it say, and what they are called there."""
    for key, value in section:
        if isinstance(value, Section):
            yield from ((place, f"{key}.{called}") for place, called in _paths_in(value))
        elif isinstance(value, Path):
            yield str(value), key
        elif isinstance(value, dict):
            named = ((name, each) for name, each in value.items() if isinstance(each, Path))
            yield from ((str(path), f"{key}.{name}") for name, path in named)
