"""Ordinary tables of several organisations: read, aligned by id, divided, made into features.

``vertical_tables`` does it all; the parts can be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.tables.align import Aligned, align
from colonnade.tables.fitted import FittedTransformer, fitted
from colonnade.tables.frames import as_frame
from colonnade.tables.id_form import IdForm
from colonnade.tables.labels import EncodedLabels, encode_labels
from colonnade.tables.read import read_table
from colonnade.tables.splitting import HashSplit, IdSplit, LastRows, RowSplit, Splitting
from colonnade.tables.stored import StoredTable
from colonnade.tables.vertical import OwnTables, VerticalTables, own_tables, vertical_tables

if TYPE_CHECKING:
    from colonnade.tables.transformer import TableTransformer

__all__ = [
    "Aligned",
    "EncodedLabels",
    "FittedTransformer",
    "HashSplit",
    "IdForm",
    "IdSplit",
    "LastRows",
    "OwnTables",
    "RowSplit",
    "Splitting",
    "StoredTable",
    "TableTransformer",
    "VerticalTables",
    "align",
    "as_frame",
    "encode_labels",
    "fitted",
    "own_tables",
    "read_table",
    "vertical_tables",
]


def __getattr__(name: str) -> Any:
    if name != "TableTransformer":
        raise AttributeError(f"module 'colonnade.tables' has no attribute {name!r}")
    # Only now: it is scikit-learn's estimator, which takes long to import, and not all have tables.
    from colonnade.tables.transformer import TableTransformer

    return TableTransformer
