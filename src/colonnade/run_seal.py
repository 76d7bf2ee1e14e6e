"""The seal of a run's results: its summary has their digests, and one of itself.

As a summary is written last, its digests are of files of the same moment, or do not fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from colonnade import __version__
from colonnade.errors import ConfigurationError, DataError
from colonnade.export import MEAN_FILE, PART_FILE, PARTS
from colonnade.faults import unread_or_damaged
from colonnade.forked import check_not_forked
from colonnade.runs import Run
from colonnade.yaml_text import NOT_YAML

__all__ = [
    "FILES",
    "OTHERS",
    "SEALED",
    "UNREADABLE",
    "digest_of",
    "is_part",
    "mean_file",
    "older_than_digests",
    "part_file",
    "sealed",
    "sealed_parts",
    "summary_in",
    "version_of",
]

FILES = ("config.yaml", "history.csv", "ledger.csv", "summary.json")
OTHERS = "others_history.csv"
"""Only where other organisations than the label holder reported."""
SEALED = ("config.yaml", "history.csv", OTHERS, "ledger.csv")
"""Whose digests a summary has, besides those of parts."""
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError),
    *(*NOT_YAML, pl.exceptions.PolarsError, ConfigurationError),
)
"""What may come of a file of somebody else's."""
_SEAL = {"format", "digests", "digest"}  # what a file has beside a summary
_FORMAT = 1  # of a summary; without one, it is of the time before there were digests


def sealed(run: Run, folder: Path) -> dict[str, Any]:
    """Return what ``summary.json`` shall hold: digests of the results too, and its own."""
    names = (*SEALED, *map(part_file, run.models), *map(mean_file, run.models))
    there = [name for name in names if (folder / name).is_file()]
    digests = {name: digest_of(folder / name) for name in there}
    content = {"format": _FORMAT, **run.summary, "digests": digests}
    return content | {"digest": _digest(content)}


def summary_in(folder: Path) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return the summary of a run, and the digests of its files; None of an older version."""
    check_not_forked()  # whoever reads it goes on to what polars reads
    older = ""
    try:
        sealed = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        if not isinstance(sealed, dict):
            raise ValueError("it is no summary")
        older = "" if sealed.keys() & _SEAL else older_than_digests(sealed)
        return _unsealed(sealed)
    except UNREADABLE as error:
        raise unread_or_damaged(folder / "summary.json", error, older) from error


def _unsealed(sealed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return a summary, and the digests of the results beside it; None of an older version.

    Raises
    ------
    DataError
        If it was written by a later version.
    ValueError
        If it is not what was written.
    """
    summary = dict(sealed)
    digests: dict[str, str] | None = None
    if summary.keys() & _SEAL:
        if not summary.keys() >= _SEAL:
            raise ValueError("it lacks its format, or its digests")
        if type(summary["format"]) is int and summary["format"] > _FORMAT:
            raise DataError(
                f"the run is of colonnade {version_of(summary)} (format {summary['format']}; this "
                f"version, {__version__}, reads up to {_FORMAT}); read it with that version"
            )
        if summary.pop("digest") != _digest(summary):
            raise ValueError("it is not what was written")
        del summary["format"]
        digests = summary.pop("digests")
        files = {name for name in digests if not is_part(name)}
        if not {"history.csv", "ledger.csv"} <= files <= set(SEALED):
            raise ValueError("its digests are of other files than those beside it")
    elif isinstance(summary.get("local_updates"), int):
        del summary["local_updates"]  # of all together: whose they were is not told
    if not summary.keys() >= {"method", "metric", "rounds"}:
        raise ValueError("it is no summary")
    return summary, digests


def sealed_parts(digests: Mapping[str, str] | None) -> dict[str, str]:
    """Return the digests of trained parts and means; a run of an older version has none."""
    return {name: digest for name, digest in (digests or {}).items() if is_part(name)}


def part_file(organisation: str) -> str:
    """Return where a summary names the trained part of an organisation."""
    return f"{PARTS}/{organisation}/{PART_FILE}"


def mean_file(organisation: str) -> str:
    """Return where a summary names the mean of an organisation's embeddings."""
    return f"{PARTS}/{organisation}/{MEAN_FILE}"


def is_part(name: str) -> bool:
    """Whether a file that a summary names is an organisation's part or mean."""
    return name.startswith(f"{PARTS}/")


def older_than_digests(summary: Mapping[str, Any]) -> str:
    """Return what the error of a file says where its run is of a version without digests."""
    version = version_of(summary)
    return f", or older than colonnade {__version__} can read (it is of {version})"


def version_of(summary: Mapping[str, Any]) -> str:
    """Return by which version a summary says it was written."""
    return str(summary.get("versions", {}).get("colonnade", "no version that it names"))


def _digest(values: Mapping[str, Any]) -> str:
    # The order of keys is kept by JSON, and their types may be such that they cannot be sorted.
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def digest_of(file: Path) -> str:
    """Return the digest of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
