"""Surrogate tables: what both ends of an error feedback link remember of every row.

A surrogate G is a table ``[rows, width]`` that starts at 0, and to which each message adds.
``Memory`` keeps it in memory. ``Disk`` keeps it in a folder: memory does not grow with its width,
and it returns to what it was at a checkpoint, whenever the process was killed.
"""

from colonnade.surrogates.disk import Disk
from colonnade.surrogates.memory import Memory
from colonnade.surrogates.surrogate import Precision, Rows, Storage, Surrogate

__all__ = ["Disk", "Memory", "Precision", "Rows", "Storage", "Surrogate"]
