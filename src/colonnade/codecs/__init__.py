"""Codecs: array to bytes and back, one codec a file."""

from colonnade.codecs.by_round import ByRound
from colonnade.codecs.codec import (
    Bounded,
    Codec,
    Contractive,
    Exact,
    Law,
    RelativeVariance,
    Unbiased,
    UnbiasedCell,
)
from colonnade.codecs.diminishing import diminishing
from colonnade.codecs.entropy import Entropy
from colonnade.codecs.float import Float
from colonnade.codecs.large_rows import LargeRows
from colonnade.codecs.lattice import Lattice
from colonnade.codecs.lloyd_max import LloydMax
from colonnade.codecs.low_rank import LowRank
from colonnade.codecs.product import ProductQuantised
from colonnade.codecs.qsgd import QSGD
from colonnade.codecs.scalar import Scalar
from colonnade.codecs.top_k import TopK

__all__ = [
    "QSGD",
    "Bounded",
    "ByRound",
    "Codec",
    "Contractive",
    "Entropy",
    "Exact",
    "Float",
    "LargeRows",
    "Lattice",
    "Law",
    "LloydMax",
    "LowRank",
    "ProductQuantised",
    "RelativeVariance",
    "Scalar",
    "TopK",
    "Unbiased",
    "UnbiasedCell",
    "diminishing",
]
