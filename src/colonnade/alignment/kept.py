"""What an organisation keeps of an alignment: a file of its own, with the ids that are in all.

The order of the ids is that of their rows: numbers by size, text by its bytes. So it is the same
at every organisation, and that of an alignment with all ids in one place. A file holds ids in the
clear, its own organisation's, and is for nobody else. Its digest is that of the ids: two
organisations that have the same one are about the same rows. Another one is of all else in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import polars as pl

from colonnade.errors import ConfigurationError, DataError
from colonnade.faults import explained
from colonnade.layout import check_names
from colonnade.outputs import ALIGNMENT, SIGNATURE, check_outputs, replacing
from colonnade.paths import as_path

__all__ = ["Kept", "alignment_file", "check_folder", "read_alignment", "write_alignment"]

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str


@dataclass(frozen=True, eq=False)
class Kept:
    """What came of an alignment at one organisation.

    Parameters
    ----------
    organisation
        Whose it is.
    everybody
        Who aligned, the label holder last.
    id
        The column of ids.
    form
        The form in which ids were compared, as ``repr(IdForm(...))``; empty as they are written.
    rows
        For each table of the organisation its number of rows.
    ids
        The ids that are in all tables, in order: int64 or text.
    absent
        At the label holder, for each party, how many of the label holder's ids it lacks; else
        empty.
    learned
        Who learned what by the alignment.
    """

    organisation: str
    everybody: tuple[str, ...]
    id: str
    form: str
    rows: Mapping[str, int]
    ids: pl.Series
    absent: Mapping[str, int] = field(default_factory=dict)
    learned: tuple[str, ...] = ()

    @property
    def left_out(self) -> dict[str, int]:
        """For each table, how many of its rows are of people whom some other table lacks."""
        return {table: rows - len(self.ids) for table, rows in self.rows.items()}

    @property
    def digest(self) -> str:
        """What tells these ids, in this order, from any others."""
        told = json.dumps([str(self.ids.dtype), self.ids.to_list()])
        return hashlib.sha256(told.encode()).hexdigest()


def alignment_file(organisation: str) -> str:
    """Return the name of an organisation's file."""
    return f"{organisation}.json"


def check_folder(folder: Path, everybody: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` where these organisations' files cannot be written.

    A folder that holds files of an alignment of others is refused: one is of one alignment.
    """
    own = [alignment_file(name) for name in everybody]
    check_outputs(folder, dict.fromkeys(own, ALIGNMENT))
    others = sorted(path.name for path in folder.glob("*.json") if path.name not in own)
    if others:
        raise ConfigurationError(
            f"{folder} holds {', '.join(others)}, of none of {', '.join(map(repr, everybody))}; "
            "choose another folder, or move it away"
        )


def write_alignment(kept: Kept, folder: Path) -> Path:
    """Write an organisation's file into a folder, and return its path.

    Raises
    ------
    Unwritten
        If the system refuses it.
    """
    file = _File(
        SIGNATURE,
        kept.organisation,
        list(kept.everybody),
        list(kept.learned),
        kept.id,
        kept.form,
        dict(kept.rows),
        dict(kept.absent),
        "",
        kept.digest,
        kept.ids.to_list(),
    )
    values = msgspec.structs.asdict(file) | {"rest": _digest_of_rest(file)}
    path = folder / alignment_file(kept.organisation)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            # One entry a line; so many ids in a line each would be as long again.
            lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
            partial.write_text("{ " + ",\n  ".join(lines) + "\n}\n", encoding="utf-8")
    return path


class _File(msgspec.Struct, forbid_unknown_fields=True):
    alignment: str
    organisation: str
    everybody: list[str]
    learned: list[str]
    id: str
    form: str
    rows: dict[str, _Count]
    absent: dict[str, _Count]
    rest: str
    digest: str
    ids: list[_Id]


def _digest_of_rest(file: _File) -> str:
    """Return a digest of all but the ids, which have their own."""
    values = msgspec.structs.asdict(file)
    told = json.dumps({key: each for key, each in values.items() if key not in ("rest", "ids")})
    return hashlib.sha256(told.encode()).hexdigest()


def read_alignment(folder: str | Path) -> dict[str, Kept]:
    """Return what each organisation has kept whose file is in a folder, by its name.

    Raises
    ------
    ConfigurationError
        If this is no path.
    DataError
        If there is none, one cannot be read or is damaged, or they are of different alignments.
    """
    folder, found = as_path("an alignment is read from the path of its folder", folder), {}
    try:
        paths = sorted(path for path in folder.glob("*.json") if path.is_file())
        for path in paths:
            kept = _kept(path)
            if kept.organisation in found:
                raise DataError(f"two files in {folder} are those of {kept.organisation!r}")
            found[kept.organisation] = kept
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from None
    if not found:
        raise DataError(
            f"{folder} holds no alignment: colonnade align writes one, between sites the job align"
        )
    if len({(kept.digest, kept.id, kept.form, kept.everybody) for kept in found.values()}) > 1:
        raise DataError(
            f"the files in {folder} are of different alignments ({', '.join(found)}); align again"
        )
    return found


def _kept(path: Path) -> Kept:
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_File)
        check_names([read.organisation])
    except (msgspec.MsgspecError, UnicodeError, ConfigurationError, RecursionError) as error:
        raise DataError(f"{path} is no alignment that colonnade align wrote: {error}") from None
    kinds = {type(value) for value in read.ids}
    if len(kinds) > 1:
        raise DataError(f"{path} holds ids that are whole numbers and ids that are text")
    ids = pl.Series(read.id, read.ids, dtype=pl.String if str in kinds else pl.Int64)
    kept = Kept(
        read.organisation,
        tuple(read.everybody),
        read.id,
        read.form,
        read.rows,
        ids,
        read.absent,
        tuple(read.learned),
    )
    if kept.digest != read.digest:
        raise DataError(f"{path} is damaged: its ids are not those that were written; align again")
    if _digest_of_rest(read) != read.rest:
        raise DataError(f"{path} is damaged: it is not what was written; align again")
    return kept
