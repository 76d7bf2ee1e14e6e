"""Public data sets, cut vertically among parties.

Every loader takes the same arguments, ``(folder=None, *, partition, parties, flatten,
normalise)``, and returns a ``VerticalDataset``. Nothing is downloaded.
"""

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.idx import read_idx
from colonnade.datasets.mnist import fashion_mnist, mnist
from colonnade.datasets.mnist5k import mnist5k
from colonnade.datasets.partition import PartitionName, quadrants, strips

__all__ = [
    "PartitionName",
    "VerticalDataset",
    "fashion_mnist",
    "mnist",
    "mnist5k",
    "quadrants",
    "read_idx",
    "strips",
]
