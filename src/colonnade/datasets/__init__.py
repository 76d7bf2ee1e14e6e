"""Public data sets, cut vertically among parties.

Pictures, series in time, views and long rows of measurements are tensors and come as a
``VerticalDataset``; tables come as ``VerticalTables``, logs of clicks as ``StreamedRows``.
``CATALOGUE`` names them all, and ``available`` says whether the files of one are there. Files are
read from a folder that the user names; nothing is downloaded but what is asked of ``openml``.
"""

from colonnade.datasets.avazu import AVAZU_COLUMNS, avazu
from colonnade.datasets.caltech import CALTECH_VIEWS, caltech7
from colonnade.datasets.catalogue import CATALOGUE, DatasetInfo, available
from colonnade.datasets.cifar import cifar10, cifar100
from colonnade.datasets.credit import (
    CREDIT_COLUMNS,
    credit_columns,
    credit_default,
    credit_tables,
    with_logarithms,
)
from colonnade.datasets.criteo import CRITEO_NAMES, criteo
from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.emnist import EmnistSplit, emnist
from colonnade.datasets.handwritten import handwritten
from colonnade.datasets.idx import read_idx
from colonnade.datasets.imagenet import imagenet
from colonnade.datasets.mimic import mimic3_mortality
from colonnade.datasets.mnist import fashion_mnist, mnist
from colonnade.datasets.mnist5k import mnist5k
from colonnade.datasets.mnist_anywhere import mnist_anywhere
from colonnade.datasets.modelnet import modelnet10
from colonnade.datasets.openml import openml, openml_table
from colonnade.datasets.parkinson import parkinson
from colonnade.datasets.partition import PartitionName, quadrants, strips
from colonnade.datasets.pixels import Normalise
from colonnade.datasets.synthetic_clicks import (
    SyntheticClicks,
    synthetic_clicks,
    write_synthetic_clicks,
)

__all__ = [
    "AVAZU_COLUMNS",
    "CALTECH_VIEWS",
    "CATALOGUE",
    "CREDIT_COLUMNS",
    "CRITEO_NAMES",
    "DatasetInfo",
    "EmnistSplit",
    "Normalise",
    "PartitionName",
    "SyntheticClicks",
    "VerticalDataset",
    "available",
    "avazu",
    "caltech7",
    "cifar10",
    "cifar100",
    "credit_columns",
    "credit_default",
    "credit_tables",
    "criteo",
    "emnist",
    "fashion_mnist",
    "handwritten",
    "imagenet",
    "mimic3_mortality",
    "mnist",
    "mnist5k",
    "mnist_anywhere",
    "modelnet10",
    "openml",
    "openml_table",
    "parkinson",
    "quadrants",
    "read_idx",
    "strips",
    "synthetic_clicks",
    "with_logarithms",
    "write_synthetic_clicks",
]
