"""Codecs: array to bytes and back, one codec a file."""

from colonnade.codecs.codec import (
    Bounded,
    Codec,
    Contractive,
    Exact,
    Law,
    RelativeVariance,
    Unbiased,
)
from colonnade.codecs.float import Float
from colonnade.codecs.qsgd import QSGD
from colonnade.codecs.scalar import Scalar
from colonnade.codecs.top_k import TopK

__all__ = [
    "QSGD",
    "Bounded",
    "Codec",
    "Contractive",
    "Exact",
    "Float",
    "Law",
    "RelativeVariance",
    "Scalar",
    "TopK",
    "Unbiased",
]
