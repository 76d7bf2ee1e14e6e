"""Uplinks: how a batch's embeddings become the top model's input."""

from colonnade.uplinks.plain import Plain, PlainCollector, PlainUploader
from colonnade.uplinks.uplink import Collector, Fused, Moment, Uploader

__all__ = ["Collector", "Fused", "Moment", "Plain", "PlainCollector", "PlainUploader", "Uploader"]
