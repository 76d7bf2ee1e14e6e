"""Uplinks: how a batch's embeddings become the top model's input. One uplink a file."""

from colonnade.uplinks.coded import Coded
from colonnade.uplinks.contract import (
    Collected,
    Collector,
    Embedder,
    Ended,
    Fused,
    Itemised,
    Moment,
    Relayable,
    Timetable,
    Uplink,
    Uploader,
)
from colonnade.uplinks.masked import Masked
from colonnade.uplinks.perturbed import Perturbed
from colonnade.uplinks.plain import Plain

__all__ = [
    "Coded",
    "Collected",
    "Collector",
    "Embedder",
    "Ended",
    "Fused",
    "Itemised",
    "Masked",
    "Moment",
    "Perturbed",
    "Plain",
    "Relayable",
    "Timetable",
    "Uplink",
    "Uploader",
]
