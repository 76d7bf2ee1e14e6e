"""Where results are written, and the one rule by which they may take the place of what is there.

Nothing is overwritten but a result of the same kind that Colonnade wrote: a page by a page, a
schema by a schema. A run's ``config.yaml`` is marked too, and whoever writes his own begins with a
copy. Files say that they are Colonnade's, near the beginning or the end, in whatever way their
format has for it. A format that has none, CSV, is known by its first line.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from colonnade import __version__
from colonnade.errors import ConfigurationError
from colonnade.faults import misnamed_or_unwritten

__all__ = [
    "ALIGNMENT",
    "CONFIGURATION",
    "MARK",
    "PAGE",
    "PART",
    "PARTNERS",
    "PICTURE",
    "PROGRAM",
    "SCHEMA",
    "SIGNATURE",
    "TENSORS",
    "TEXT",
    "Kind",
    "check_output",
    "check_outputs",
    "check_place",
    "csv_of",
    "is_ours",
    "replacing",
    "replacing_folder",
    "table",
    "unfinished",
]

MARK = "Written by Colonnade"
"""What every file of Colonnade's has in it."""

SIGNATURE = f"{MARK} {__version__}"
"""What is written into a file."""

_LOOKED_AT = 2**13  # bytes at either end
_WRITING = ".writing-"  # behind a name and before a number, until what is written is whole
_OLD = "-old"  # behind the number, what is being replaced

Kind = Callable[[bytes, bytes], bool]
"""Tells by both ends of a file, which is not empty, whether Colonnade wrote it as one of a kind."""


def _beginning(start: str, skipped: int = 0) -> Kind:
    """Return the kind of files with a mark that begin so, white space aside."""

    def wrote(head: bytes, tail: bytes) -> bool:
        begins = b" ".join(head[skipped:].split()).startswith(start.encode("latin-1"))
        return begins and (MARK.encode() in head or MARK.encode() in tail)

    return wrote


ALIGNMENT = _beginning(f'{{ "alignment": "{MARK}')
CONFIGURATION = _beginning(f"# {MARK}")
PAGE = _beginning("<!doctype html>")
PART = _beginning('{ "format":')
PARTNERS = _beginning(f'{{ "by": "{MARK}')
PICTURE = _beginning("\x89PNG")
PROGRAM = _beginning("PK")
SCHEMA = _beginning(f'{{ "$comment": "{MARK}')
TENSORS = _beginning('{"__metadata__":', skipped=8)


def TEXT(head: bytes, tail: bytes) -> bool:  # noqa: N802  # a kind like those above
    """Tell whether the last line is the mark."""
    return tail.splitlines()[-1].startswith(MARK.encode())


def table(first_line: str) -> Kind:
    """Return the kind of CSV files with this first line."""
    return lambda head, tail: head.splitlines()[0] == first_line.encode()


def csv_of(columns: Sequence[str]) -> Kind:
    """Return the kind of CSV files with these columns, whose names may need quotes."""
    line = io.StringIO()
    csv.writer(line).writerow(columns)
    return table(line.getvalue().rstrip("\r\n"))


def is_ours(path: Path, kind: Kind) -> bool:
    """Return whether a file may be written over: there is nothing in it, or we wrote it.

    Parameters
    ----------
    path
        The file; it must be there.
    kind
        What is to be written.
    """
    head, tail = _ends(path)
    return not head or kind(head, tail)


def check_place(folder: Path) -> None:
    """Raise an error where a folder is to be written into and cannot be; nothing is left there.

    Where it is not there yet, the nearest above it is asked.

    Raises
    ------
    ConfigurationError
        If something else is in its place, or no folder can be called so.
    Unwritten
        If nobody may write there, or there is no room.

    Examples
    --------
    >>> Path("bank.csv").touch()
    >>> check_place(Path("bank.csv/parts"))
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the folder bank.csv/parts cannot be written: File exists; something else is in its place
    """  # noqa: E501 - a message is one line
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder)):
            pass
    except OSError as error:
        raise misnamed_or_unwritten(f"the folder {folder}", error) from None


def _nearest(folder: Path) -> Path:
    """Return the folder, or the first above it that is there; raise what making it would."""
    if folder.is_dir():
        return folder
    nearest = _nearest(folder.parent)
    with suppress(FileNotFoundError):
        (nearest / folder.name).lstat()  # also of a name that is too long for any
        if nearest == folder.parent:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    return nearest


def check_output(path: Path, kind: Kind) -> None:
    """Raise ``ConfigurationError`` where a file would be written over that is not Colonnade's.

    Parameters
    ----------
    path
        Where the file is to be written.
    kind
        What is to be written; another kind of file is left alone, also if Colonnade wrote it.

    Raises
    ------
    ConfigurationError
        If there is something else, or no file can be there.
    Unwritten
        If nobody may write there, or there is no room.
    """
    check_outputs(path.parent, {path.name: kind})


def _check_file(path: Path, kind: Kind) -> None:
    """Raise as ``check_output``, of a file in a folder that can be written."""
    _check_name(path)
    if path.is_dir():
        raise ConfigurationError(
            f"{path} is a folder, where a file would be; move it away, or choose another name"
        )
    if not path.exists():
        return
    if not path.is_file():  # a pipe would be waited for
        raise ConfigurationError(f"{path} is no ordinary file; choose another name")
    try:
        if is_ours(path, kind):
            return
        marked = any(MARK.encode() in end for end in _ends(path))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    what = (
        "holds something else than this, though Colonnade's mark is in it"
        if marked
        else "was not written by Colonnade"
    )
    raise ConfigurationError(
        f"{path} is there already and {what}; choose another name, or move it away"
    )


def _check_name(path: Path) -> None:
    """Raise ``ConfigurationError`` where no file can be called so, or so while it is written."""
    try:
        (_nearest(path.parent) / f"{path.name}{_WRITING}1").lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise misnamed_or_unwritten(path, error) from None


def check_outputs(folder: Path, kinds: Mapping[str, Kind]) -> None:
    """Raise what ``check_output`` does where one of these files in a folder cannot be written.

    To be asked before the work whose results they will hold.
    """
    check_place(folder)
    for name, kind in kinds.items():
        _check_file(folder / name, kind)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give an empty file beside ``path`` to be written, and put it in its place in one step.

    Its name is one that nothing had, so what others have there is neither written over nor
    followed. It is gone again where writing fails.
    """
    partial = _made_beside(path, lambda new: new.open("x").close())
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder beside ``path`` to be filled, and put it in its place when it is whole.

    What was in its place stays until then, and is beside it where a process is killed in between.
    What was begun is gone again where writing fails, and what was left of a process that was
    killed when the next has written. One process at a time writes a folder.
    """
    path = path.resolve()  # of a link, the folder that it names
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _made_beside(path, Path.mkdir)
    old = partial.with_name(f"{partial.name}{_OLD}")
    try:
        yield partial
        for left in _left_beside(path, partial):
            shutil.rmtree(left, ignore_errors=True)
        if path.exists():
            path.rename(old)
        partial.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def unfinished(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what a process was writing in a folder when it was killed, and in the place of which.

    Whoever removes it knows that nobody else writes there.
    """
    for path in folder.iterdir():
        name, writing, number = path.name.rpartition(_WRITING)
        if writing and number.isdecimal() and path.is_file() and not path.is_symlink():
            yield path, name


def _left_beside(path: Path, written: Path) -> list[Path]:
    """Return folders left of writing one, which hold nothing but what this one is written with."""
    return [
        left
        for left in path.parent.iterdir()
        if left.name.startswith(f"{path.name}{_WRITING}")
        and left.name.removeprefix(f"{path.name}{_WRITING}").removesuffix(_OLD).isdecimal()
        and left.is_dir()
        and not left.is_symlink()
        and left != written
        and _names_in(left) <= _names_in(written)
    ]


def _names_in(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def _made_beside(path: Path, make: Callable[[Path], None]) -> Path:
    """Return what was made beside ``path`` under a name that nothing had."""
    for number in count(1):
        new = path.with_name(f"{path.name}{_WRITING}{number}")
        try:
            make(new)
        except FileExistsError:
            continue
        return new
    raise AssertionError("there are as many names as numbers")


def _ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
        file.seek(max(0, path.stat().st_size - _LOOKED_AT))
        return head, file.read()
