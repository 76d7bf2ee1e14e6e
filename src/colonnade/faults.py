"""What the world refuses, room on a disk or a folder that was there, in one sentence.

Whoever writes says with ``explained`` what it was that could not be written; whoever knows of the
whole run adds what is safe, and how to go on (``RunFolder.safeguarded``).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.errors import ColonnadeError, ConfigurationError, DataError, Unwritten
from colonnade.telling import first_line

__all__ = [
    "blamed",
    "explained",
    "misnamed_or_unwritten",
    "of_the_disk",
    "refused",
    "unread",
    "unread_or_damaged",
    "unwritten",
]

_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "allow larger files",
    errno.EACCES: "have it made writable",
    errno.EPERM: "have it made writable",
    errno.EROFS: "have it made writable",
    errno.ENOENT: "it was moved or removed",
    errno.ENOTDIR: "something else is in its place",
    errno.EEXIST: "something else is in its place",
    errno.EISDIR: "something else is in its place",
    errno.ELOOP: "something else is in its place",
}

_NUMBERED = re.compile(r"(.*) \(os error (\d+)\)", re.DOTALL)
_MISNAMED = {
    *(errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.ENOENT, errno.ENOTDIR),
}
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}  # whoever writes
_NO_TEMPORARY = "No usable temporary directory"  # as ``tempfile`` begins to say it


def unwritten(what: object, error: OSError) -> Unwritten:
    """Return the error that says what could not be written, why, and what helps.

    >>> print(unwritten("run/ledger.csv", OSError(errno.ENOSPC, "No space left on device")))
    run/ledger.csv cannot be written: No space left on device; make room
    """
    number, said = _told(error)
    remedy = _REMEDIES.get(number)
    why = f"{what} cannot be written: {said}"
    return Unwritten(f"{why}; {remedy}" if remedy else why)


def _told(error: OSError) -> tuple[int, str]:
    """Return the number of an error, 0 if nobody knows, and what it says without it.

    >>> _told(OSError("No space left on device (os error 28)"))  # as polars has it
    (28, 'No space left on device')
    """
    of_polars = _NUMBERED.fullmatch(str(error))
    if error.errno is None and of_polars is not None:
        return int(of_polars[2]), of_polars[1]
    return error.errno or 0, error.strerror or str(error)


def misnamed_or_unwritten(what: object, error: OSError) -> ColonnadeError:
    """Return why nothing is where a user has named: nothing can be, or the disk refuses.

    >>> misnamed_or_unwritten("no/such.csv", OSError(errno.ENOENT, "No such file or directory"))
    ConfigurationError('no/such.csv cannot be written: No such file or directory')
    >>> misnamed_or_unwritten("the folder out", OSError(errno.EEXIST, "File exists"))
    ConfigurationError('the folder out cannot be written: File exists; something else is in its place')
    """  # noqa: E501 - a message is one line
    number, said = _told(error)
    if number == errno.ENOENT:  # what was never there was not moved
        return ConfigurationError(f"{what} cannot be written: {said}")
    why = unwritten(what, error)
    return ConfigurationError(str(why)) if number in _MISNAMED else why


def of_the_disk(why: str, error: Exception) -> Unwritten | None:
    """Return what to raise where somebody's own code failed by the disk; None where by itself.

    Parameters
    ----------
    why
        What came of it, as "the optimiser of 'bank' cannot be made".
    error
        What that code raised. torch asks for a temporary folder when it makes its first optimiser.

    Examples
    --------
    >>> print(of_the_disk("the model cannot be made", OSError(errno.ENOSPC, "No space left", "w")))
    the model cannot be made: w cannot be written: No space left; make room
    >>> of_the_disk("the model cannot be made", OSError(errno.ENOENT, "No such file", "w"))
    """
    if not isinstance(error, OSError):
        return None
    number, said = _told(error)
    if said.startswith(_NO_TEMPORARY):
        return Unwritten(f"{why}: no temporary folder can be written; make room, or set TMPDIR")
    if number not in _OF_THE_DISK:
        return None
    return Unwritten(f"{why}: {unwritten(error.filename or 'a file', error)}")


@contextmanager
def blamed(why: str, remedy: str = "") -> Iterator[None]:
    """Turn whatever somebody's own code raises into ``ConfigurationError``, or what the disk did.

    Parameters
    ----------
    why
        What came of it, as "the optimiser of 'bank' cannot be made".
    remedy
        What stands behind what that code said.

    Examples
    --------
    >>> with blamed("the model cannot be copied", "; take another"):
    ...     raise TypeError("it has a lock")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the model cannot be copied: it has a lock; take another
    """
    try:
        yield
    except Exception as error:  # it may raise anything
        raise of_the_disk(why, error) or ConfigurationError(
            f"{why}: {first_line(error)}{remedy}"
        ) from error


def unread(what: object, error: OSError) -> Unwritten:
    """Return the error that says what could not be read, and why: it may well be whole.

    >>> print(unread("run/checkpoint", OSError(errno.EACCES, "Permission denied")))
    run/checkpoint cannot be read: Permission denied
    """
    return Unwritten(f"{what} cannot be read: {error.strerror or error}")


def unread_or_damaged(what: object, error: Exception, remark: str = "") -> DataError:
    """Return the error of a file that should say something: nobody may read it, or it is damaged.

    Parameters
    ----------
    what
        The file.
    error
        What came of reading it.
    remark
        What stands behind "is damaged".

    Examples
    --------
    >>> print(unread_or_damaged("run/history.csv", PermissionError(errno.EACCES, "Not permitted")))
    run/history.csv cannot be read: Not permitted
    >>> print(unread_or_damaged("run/history.csv", ValueError("it has no rounds")))
    run/history.csv is damaged: it has no rounds
    """
    number, said = _told(error) if isinstance(error, OSError) else (0, "")
    if number:  # what is packed and cut off has none
        return DataError(f"{what} cannot be read: {said}")
    return DataError(f"{what} is damaged{remark}: {first_line(error)}")


def refused(error: OSError) -> ColonnadeError:
    """Return the error that says what the system refused, where nobody knows more than it told.

    >>> print(refused(OSError(errno.EIO, "Input/output error", "people.csv")))
    people.csv cannot be read or written: Input/output error
    >>> refused(OSError(errno.ENAMETOOLONG, "File name too long", "people"))  # which somebody gave
    ConfigurationError('people cannot be read or written: File name too long')
    """
    why = error.strerror or error
    if error.filename is None:
        return Unwritten(f"the system refuses to read or write: {why}")
    kind = ConfigurationError if error.errno == errno.ENAMETOOLONG else Unwritten
    return kind(f"{error.filename} cannot be read or written: {why}")


@contextmanager
def explained(what: object) -> Iterator[None]:
    """Turn what the system refuses while something is written into an ``Unwritten``."""
    try:
        yield
    except OSError as error:
        raise unwritten(what, error) from error
