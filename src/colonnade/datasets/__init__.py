"""Public data sets, cut vertically among parties.

Pictures and the views of handwritten digits are tensors and come as a ``VerticalDataset``; tables
come as ``VerticalTables``. ``CATALOGUE`` names them all, and ``available`` says whether the files
of one are there. Files are read from a folder that the user names; nothing is downloaded but what
is asked of ``openml``.
"""

from colonnade.datasets.catalogue import CATALOGUE, DatasetInfo, available
from colonnade.datasets.credit import (
    CREDIT_COLUMNS,
    credit_default,
    credit_tables,
    with_logarithms,
)
from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.handwritten import handwritten
from colonnade.datasets.idx import read_idx
from colonnade.datasets.mnist import fashion_mnist, mnist
from colonnade.datasets.mnist5k import mnist5k
from colonnade.datasets.openml import openml, openml_table
from colonnade.datasets.partition import PartitionName, quadrants, strips

__all__ = [
    "CATALOGUE",
    "CREDIT_COLUMNS",
    "DatasetInfo",
    "PartitionName",
    "VerticalDataset",
    "available",
    "credit_default",
    "credit_tables",
    "fashion_mnist",
    "handwritten",
    "mnist",
    "mnist5k",
    "openml",
    "openml_table",
    "quadrants",
    "read_idx",
    "strips",
    "with_logarithms",
]
