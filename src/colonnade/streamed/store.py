"""Encoded rows on disk: plain arrays that are mapped into memory, and a manifest.

A store is a folder. ``manifest.json`` says of what it was made and how; for each organisation there
is a file of numbers (float32) and one of codes (int32), and one of labels (int64), row after row,
least significant byte first. A batch touches the pages of its own rows only.

It is written in a folder beside its place, flushed, and renamed; what an interrupted writer left
there is taken away by the next. A store takes the place of another one, never of anything else.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError
from colonnade.locks import locked
from colonnade.ordinary import open_ordinary
from colonnade.outputs import MARK, SIGNATURE
from colonnade.quiet import warning_otherwise
from colonnade.streamed.form import Form
from colonnade.streamed.text import Encoded

__all__ = ["Store", "stored", "written"]

_MANIFEST = "manifest.json"
_FORMAT = 3  # 1 hashed 3.0 as it is written; 2 noted no 0.0000001 among what is spelled
_LABELS = "labels.i64"
_WRITING, _REPLACED = ".writing", ".replaced"
_LONGEST = 2**26  # bytes of a manifest


@dataclass(frozen=True)
class Store:
    """A folder of encoded rows.

    Parameters
    ----------
    folder
        Where it is.
    rows
        How many rows there are.
    form
        What of each is encoded.
    spelled
        Columns of categories with numerals like 007, for which numbers cannot stand.
    arrays
        All arrays, by the names of their files. They are mapped together, so they stay those of
        one store when another one takes its place.
    """

    folder: Path
    rows: int
    form: Form
    spelled: tuple[str, ...]
    arrays: Mapping[str, Tensor]

    def features(self) -> dict[str, dict[str, Tensor]]:
        """Return each organisation's features: "numeric", "categorical", or both.

        They are read-only: a model that writes into its whole table ends the process.
        """
        return {
            party: {kind: self.arrays[name] for kind, name, _, _ in _files_of(self.form, party)}
            for party in self.form.parties
        }

    def labels(self) -> Tensor:
        """Return the labels."""
        return self.arrays[_LABELS]


def stored(folder: Path, identity: Mapping[str, Any], form: Form) -> Store | None:
    """Return the store in a folder if it is of this and whole, None if there is none.

    Raises
    ------
    ConfigurationError
        If there is something that is no store.
    """
    manifest = _manifest(folder)
    if manifest is None or manifest.get("format") != _FORMAT:
        return None
    rows, spelled = manifest.get("rows"), manifest.get("spelled")
    same = manifest.get("identity") == json.loads(json.dumps(identity))
    if not same or not isinstance(rows, int) or rows < 1 or not isinstance(spelled, list):
        return None
    try:
        before = _told_apart(folder)
        if _manifest(folder) != manifest:
            return None
        for name, size in _sizes(form, rows).items():
            if (folder / name).stat().st_size != size:
                return None
        store = Store(folder, rows, form, tuple(spelled), _mapped(folder, form, rows))
        if _told_apart(folder) != before:
            return None
    except (OSError, ValueError):
        return None  # an array is missing, or another store has taken the place of this one
    _sweep(folder)
    return store


def _told_apart(folder: Path) -> tuple[int, int]:
    """Return what another store in the same place does not have."""
    status = (folder / _MANIFEST).stat()
    return status.st_ino, status.st_mtime_ns


def _mapped(folder: Path, form: Form, rows: int) -> dict[str, Tensor]:
    """Map every array of a folder into memory, by the names of their files."""
    kinds = {_LABELS: ("<i8", (rows,))} | {
        name: (dtype, (rows, width))
        for party in form.parties
        for _, name, dtype, width in _files_of(form, party)
    }
    arrays = {}
    with warning_otherwise():
        # A mapping that could be written to would count as memory that is in use.
        warnings.filterwarnings("ignore", message=".*not writable")
        for name, (dtype, shape) in kinds.items():
            values = np.memmap(folder / name, dtype=dtype, mode="r", shape=shape)
            arrays[name] = torch.from_numpy(values)
    return arrays


def written(
    folder: Path, identity: Mapping[str, Any], form: Form, blocks: Iterable[Encoded]
) -> Store:
    """Write a store and return it; or the one that another process has written meanwhile.

    Parameters
    ----------
    folder
        Where it shall be; another store there is replaced.
    identity
        Of what it is made, as JSON values; the first entry comes first in the manifest.
    form
        What of each row is encoded.
    blocks
        The rows.

    Raises
    ------
    ConfigurationError
        If there is something that is no store, or it cannot be written.
    DataError
        If there is no row.
    """
    _manifest(folder)  # raises before the work, not after it
    try:
        with _work_folder(folder) as work:
            done = stored(folder, identity, form)
            if done is not None:
                return done
            rows, spelled = _write_rows(work, form, blocks)
            first = next(iter(identity), "by")
            manifest = {
                first: identity.get(first),
                "by": SIGNATURE,
                "format": _FORMAT,
                "rows": rows,
                "identity": identity,
                "spelled": spelled,
                "files": _sizes(form, rows),
            }
            with (work / _MANIFEST).open("w", encoding="utf-8") as file:
                file.write(json.dumps(manifest, indent=1) + "\n")
                _flush(file)
            store = Store(folder, rows, form, tuple(spelled), _mapped(work, form, rows))
            _put(work, folder)
    except OSError as error:
        raise ConfigurationError(
            f"{folder}, where the encoded rows go, cannot be written: {error.strerror or error}; "
            "name another place in store"
        ) from error
    return store


def _write_rows(work: Path, form: Form, blocks: Iterable[Encoded]) -> tuple[int, list[str]]:
    """Write the arrays, each a file; return how many rows there are, and which are spelled."""
    rows = 0
    names = [name for columns in form.parties.values() for name in columns.categorical]
    spelled = np.zeros(len(names), dtype=np.bool_)
    files = {name: (work / name).open("wb") for name in _sizes(form, 0)}
    try:
        for block in blocks:
            rows += len(block.labels)
            spelled |= block.spelled
            for party in form.parties:
                own = {"numeric": form.numbers(party), "categorical": form.codes(party)}
                values = {"numeric": block.numbers, "categorical": block.codes}
                for kind, name, dtype, _ in _files_of(form, party):
                    part = values[kind][:, own[kind]]
                    files[name].write(np.ascontiguousarray(part, dtype=dtype).data)
            files[_LABELS].write(np.ascontiguousarray(block.labels, dtype="<i8").data)
        for file in files.values():
            _flush(file)
    finally:
        for file in files.values():
            file.close()
    if rows == 0:
        raise DataError("there is no row to encode; the files have none")
    return rows, [name for name, noted in zip(names, spelled, strict=True) if noted]


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Give an empty folder beside the place of a store, to one writer at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.with_name(folder.name + _WRITING)
    while True:
        work.mkdir(exist_ok=True)
        with _locked(work, wait=True) as ours:
            if not ours:
                continue
            _empty(work)
            try:
                yield work
            finally:
                # After success there is none of this name any more, or that of the next writer.
                if ours():
                    _empty(work)
                    work.rmdir()
            return


@contextmanager
def _locked(work: Path, wait: bool) -> Iterator[Callable[[], bool] | None]:
    """Keep others away from a folder; give what says whether it is in place, None if it is not.

    None, too, if another holds it and it is not to be waited for. Without locks, as on Windows,
    whoever comes last is the writer.
    """
    if sys.platform == "win32":
        yield work.exists
        return
    lock = os.open(work, os.O_RDONLY)

    def ours() -> bool:
        try:
            return os.fstat(lock).st_ino == work.stat().st_ino
        except FileNotFoundError:
            return False

    try:
        if not locked(lock, wait=wait):
            yield None
            return
        yield ours if ours() else None
    finally:
        os.close(lock)


def _sweep(folder: Path) -> None:
    """Take away what an interrupted writer left beside a whole store, unless one is at work."""
    work = folder.with_name(folder.name + _WRITING)
    with suppress(OSError, ConfigurationError):
        if work.exists():
            with _locked(work, wait=False) as ours:
                if ours:
                    _empty(work)
                    work.rmdir()


def _empty(work: Path) -> None:
    """Take away what a writer left; anything else stays, and is an error."""
    for file in work.iterdir():
        if file.suffix not in (".f32", ".i32", ".i64") and file.name != _MANIFEST:
            raise ConfigurationError(
                f"{work} holds {file.name!r}, which is not Colonnade's; move it away, or name "
                "another place in store"
            )
        file.unlink()


def _put(work: Path, folder: Path) -> None:
    """Rename a finished store to its place; the store that is there goes away.

    At every moment there is one whole store or none, for those who look.
    """
    gone = folder.with_name(folder.name + _REPLACED)
    if folder.exists():
        old = _manifest(folder) or {}
        files = old.get("files")
        known = {_MANIFEST, *(files if isinstance(files, dict) else {})}
        strange = sorted(file.name for file in folder.iterdir() if file.name not in known)
        if strange:
            raise ConfigurationError(
                f"{folder} holds {strange[0]!r} beside a store that is to be replaced; "
                "move it away, or name another place in store"
            )
        if gone.exists():
            _empty(gone)
            gone.rmdir()
        folder.rename(gone)
    work.rename(folder)
    if gone.exists():
        _empty(gone)
        gone.rmdir()
    if hasattr(os, "O_DIRECTORY"):
        parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(parent)
        os.close(parent)


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Return what the manifest of a store says; None where there is nothing, or nothing whole."""
    while True:
        try:
            inside = {file.name for file in folder.iterdir()}
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            if folder.exists():
                break
            return None  # it is the parent that is none, which a writer says
        except OSError as error:
            raise ConfigurationError(
                f"{folder}, where the encoded rows are, cannot be read: {error.strerror}; name "
                "another place in store, or have it made readable"
            ) from error
        if not inside:
            return None
        if _MANIFEST not in inside:
            break
        try:
            with os.fdopen(open_ordinary(folder / _MANIFEST), "rb") as file:
                manifest = json.loads(file.read(_LONGEST))
        except FileNotFoundError:
            if (folder / _MANIFEST).is_symlink():  # to nothing
                break
            continue  # another store takes the place of this one
        except (OSError, ValueError, RecursionError):
            break
        if isinstance(manifest, dict) and str(manifest.get("by")).startswith(MARK):
            return manifest
        break
    raise ConfigurationError(
        f"{folder} is there already and holds no rows that Colonnade encoded; name another place "
        "in store, or move it away"
    )


def _files_of(form: Form, party: str) -> list[tuple[str, str, str, int]]:
    """Return kind, file, type and width of each array of a party."""
    at, columns = list(form.parties).index(party), form.parties[party]
    files = [
        ("numeric", f"{at}-numeric.f32", "<f4", len(columns.numeric)),
        ("categorical", f"{at}-categorical.i32", "<i4", len(columns.categorical)),
    ]
    return [file for file in files if file[3]]


def _sizes(form: Form, rows: int) -> dict[str, int]:
    sizes = {_LABELS: 8 * rows}
    for party in form.parties:
        sizes |= {name: 4 * width * rows for _, name, _, width in _files_of(form, party)}
    return sizes


def _flush(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())
