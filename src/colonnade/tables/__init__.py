"""Ordinary tables of several organisations: read, aligned by id, divided, made into features.

``vertical_tables`` does it all; the parts can be used alone.
"""

from colonnade.tables.align import Aligned, align
from colonnade.tables.fitted import FittedTransformer, fitted
from colonnade.tables.frames import as_frame
from colonnade.tables.id_form import IdForm
from colonnade.tables.labels import EncodedLabels, encode_labels
from colonnade.tables.read import read_table
from colonnade.tables.splitting import HashSplit, IdSplit, LastRows, RowSplit, Splitting
from colonnade.tables.stored import StoredTable
from colonnade.tables.transformer import TableTransformer
from colonnade.tables.vertical import VerticalTables, vertical_tables

__all__ = [
    "Aligned",
    "EncodedLabels",
    "FittedTransformer",
    "HashSplit",
    "IdForm",
    "IdSplit",
    "LastRows",
    "RowSplit",
    "Splitting",
    "StoredTable",
    "TableTransformer",
    "VerticalTables",
    "align",
    "as_frame",
    "encode_labels",
    "fitted",
    "read_table",
    "vertical_tables",
]
