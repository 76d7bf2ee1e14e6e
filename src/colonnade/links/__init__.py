"""Links: how a stream of embeddings or derivatives travels, and what its ends remember."""

from colonnade.links.contract import Delivery, Link, LinkReceiver, LinkSender, Rows, ThroughCodec
from colonnade.links.direct import Direct
from colonnade.links.error_feedback import ErrorFeedback
from colonnade.links.learned import LearnedEntropy

__all__ = [
    "Delivery",
    "Direct",
    "ErrorFeedback",
    "LearnedEntropy",
    "Link",
    "LinkReceiver",
    "LinkSender",
    "Rows",
    "ThroughCodec",
]
