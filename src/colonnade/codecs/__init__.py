"""Codecs: array to bytes and back, one codec a file."""

from colonnade.codecs.codec import Bounded, Codec, Contractive, Exact, Law, Unbiased
from colonnade.codecs.float import Float
from colonnade.codecs.scalar import Scalar

__all__ = ["Bounded", "Codec", "Contractive", "Exact", "Float", "Law", "Scalar", "Unbiased"]
