"""A table larger than memory, cut vertically, as a federation trains on it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_kind
from colonnade.errors import ConfigurationError, DataError
from colonnade.paths import as_path
from colonnade.streamed.columns import Columns
from colonnade.streamed.form import Form
from colonnade.streamed.sources import Source
from colonnade.streamed.store import Store, stored, written
from colonnade.streamed.text import Encoded
from colonnade.streamed.transformer import RowEncoder
from colonnade.tables.names import listed
from colonnade.tables.splitting import RowSplit, Splitting

__all__ = ["StreamedRows", "cache_folder", "rows_in", "streamed_rows"]

Told = Callable[[int, int], None]
"""Is told of work done, and of all there is to do."""

_AT_ONCE = 2**20  # labels that are counted together


@dataclass(frozen=True, eq=False, repr=False)
class StreamedRows:
    """Features and labels that lie on disk, row by row, and which rows are for what.

    Parameters
    ----------
    name
        What the data are called.
    features
        For every party, in party order, "numeric" (float32) and "categorical" (int32), or one of
        them; mapped into memory, read-only.
    labels
        Classes, int64.
    classes
        How the file writes each class.
    train, validation, test
        Row numbers, int64; validation and test may be empty.
    transformers
        For every party what encodes new rows of its table alike.
    folder
        Where the rows are.
    warnings
        What should be known of the data.
    """

    name: str
    features: dict[str, dict[str, Tensor]]
    labels: Tensor
    classes: tuple[str, ...]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    transformers: dict[str, RowEncoder]
    folder: Path
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"StreamedRows({self.name!r}, {len(self.features)} parties, {len(self.train)} + "
            f"{len(self.validation)} + {len(self.test)} rows, {len(self.classes)} classes)"
        )

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties, in party order."""
        return tuple(self.features)

    @property
    def people(self) -> None:
        """Nobody was left out: rows come aligned."""
        return None


def streamed_rows(
    files: str | Path | Sequence[str | Path],
    parties: Mapping[str, Columns],
    label: str,
    *,
    classes: Sequence[str] = ("0", "1"),
    names: Sequence[str] | None = None,
    separator: str | None = None,
    missing: Sequence[str] = (),
    split: Splitting | None = None,
    store: str | Path | None = None,
    name: str | None = None,
    told: Told | None = None,
) -> StreamedRows:
    r"""Encode a table that may be larger than memory, once, and return its rows, left on disk.

    Rows are read block by block, so memory does not grow with the file but for a label's and a row
    number's worth of bytes. The encoded rows are kept in ``store`` and used again as long as the
    files, by place, size and time, and what is asked for are the same.

    Parameters
    ----------
    files
        One file or several, one after the other: text, plain or ``.gz``, or ``.parquet``.
    parties
        For every party, in party order, its columns.
    label
        The column of labels.
    classes
        How its cells are written, class by class.
    names
        What columns are called, where text has no line of names.
    separator
        What is between a text's cells; by default a tab for .tsv, else a comma.
    missing
        How missing cells are written, besides empty ones.
    split
        Which rows are for training, validation and test; ``RowSplit()`` by default. Row numbers
        stand for ids.
    store
        The folder for the encoded rows; by default one of ``colonnade`` in the user's cache
        (``XDG_CACHE_HOME``, else ``~/.cache``). A row takes 4 bytes a column and 8.
    name
        What the data are called in reports; by default as the first file.
    told
        Is told, as files are encoded, how many bytes of how many have been read.

    Raises
    ------
    ConfigurationError
        If the arguments do not fit together, or ``store`` holds anything but encoded rows.
    DataError
        If a file cannot be read, or a row cannot be encoded; the message names its number.

    Examples
    --------
    >>> rows = "".join(f"{i % 2},{i},town {i % 5}\n" for i in range(200))
    >>> _ = Path("visits.csv").write_text("bought,price,town\n" + rows)
    >>> visits = streamed_rows(
    ...     "visits.csv",
    ...     {"shop": Columns(["price"]), "bank": Columns(categorical=["town"], buckets=50)},
    ...     "bought",
    ...     store="visits-encoded",
    ... )
    >>> visits
    StreamedRows('visits.csv', 2 parties, 131 + 23 + 46 rows, 2 classes)
    >>> visits.features["bank"]["categorical"].shape
    torch.Size([200, 1])
    """
    for what, value, kind in (
        ("parties", parties, Mapping[str, Columns]),
        ("label", label, str),
        ("names", names, Sequence[str] | None),
        ("separator", separator, str | None),
        ("split", split, Splitting | None),
        ("name", name, str | None),
        ("told", told, Told | None),
    ):
        check_kind(what, value, kind)
    several = isinstance(files, Iterable) and not isinstance(files, str)
    given: Any = files if several else [files]
    paths = [as_path("rows are read from the paths of files", file) for file in given]
    if not paths:
        raise ConfigurationError("files are empty; name at least one")
    form = Form(dict(parties), label, classes, missing)
    sources = [Source(path, names, separator) for path in paths]
    called = name or paths[0].name
    seen = [source.seen() for source in sources]
    identity = {
        "data": called,
        "sources": [source.stamp() for source in sources],
        "form": form.as_dict(),
    }
    place = cache_folder(paths[0].stem, [str(path.resolve()) for path in paths], form, store)

    def blocks() -> Iterable[Encoded]:
        sizes = [path.stat().st_size for path in paths]
        for at, source in enumerate(sources):
            before = sum(sizes[:at])
            heard = None if told is None else (lambda n, b=before: told(b + n, sum(sizes)))
            yield from source.encoded(form, heard)
        for source, known in zip(sources, seen, strict=True):
            if source.seen() != known:
                raise DataError(
                    f"{source.path} has changed while it was read; begin again when it is at rest"
                )

    found = stored(place, identity, form) or written(place, identity, form, blocks())
    return rows_in(found, called, split)


def rows_in(
    store: Store, name: str, split: Splitting | None = None, warnings: Sequence[str] = ()
) -> StreamedRows:
    """Return the rows of a store, divided.

    Raises
    ------
    DataError
        If a class does not occur among the training rows, or the store is damaged.
    """
    form, labels = store.form, store.labels()
    numbers = pl.int_range(store.rows, eager=True)
    train, validation, test = (split or RowSplit()).rows(numbers)
    counts = np.zeros(len(form.classes), dtype=np.int64)
    for first in range(0, store.rows, _AT_ONCE):
        some = labels.numpy()[first : first + _AT_ONCE]
        if some.min() < 0 or some.max() >= len(counts):
            raise DataError(
                f"{store.folder} holds a label that is no class, so it is damaged; take it away, "
                "and it is made anew"
            )
    for first in range(0, len(train), _AT_ONCE):
        some = labels.numpy()[train[first : first + _AT_ONCE]]
        counts += np.bincount(some, minlength=len(counts))
    if absent := [text for text, count in zip(form.classes, counts, strict=True) if not count]:
        raise DataError(
            f"no training row of {name} is of class {listed(absent)}, so no model can learn it; "
            "leave the class out, or divide by another seed"
        )
    return StreamedRows(
        name=name,
        features=store.features(),
        labels=labels,
        classes=tuple(form.classes),
        train=train,
        validation=validation,
        test=test,
        transformers={
            party: RowEncoder(
                party,
                form.of(party),
                tuple(name for name in columns.categorical if name in store.spelled),
            )
            for party, columns in form.parties.items()
        },
        folder=store.folder,
        warnings=tuple(warnings),
    )


def cache_folder(stem: str, made_of: Any, form: Form, store: str | Path | None) -> Path:
    """Return where encoded rows are kept: the folder that was named, or one of the user's cache.

    Parameters
    ----------
    stem
        What its name begins with.
    made_of
        Tells it from others, as JSON values.
    form
        What is encoded.
    store
        The folder that was named, if one was.

    Raises
    ------
    ConfigurationError
        If it is a folder that no other can take the place of.
    """
    if store is not None:
        return _place(store)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    text = json.dumps([made_of, form.as_dict()])
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return cache / "colonnade" / f"{stem.split('.')[0]}-{digest}"


def _place(store: str | Path) -> Path:
    """Return the folder that was named, past any links, if another can be put in its place."""
    path = as_path("store is the path of a folder", store)
    try:
        folder = path.resolve()
        kept = folder.exists() and (folder.is_mount() or folder == Path.cwd())
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"store cannot be {str(store)[:60]!r}: {reason}; name another folder"
        ) from error
    if kept:
        raise ConfigurationError(
            f"store cannot be {folder}, a mount point or the folder of this process, since "
            "encoded rows are put in its place as a whole; name a folder in it"
        )
    return folder
