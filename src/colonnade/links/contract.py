"""What a link is: a stream of embeddings or derivatives through a codec.

A codec is stateless; a stream may not be. ``Link.sender(rows, width, name)`` and
``Link.receiver(rows, width, name)`` make the two ends for a table of ``rows`` rows; what an end
remembers between messages is its own durable state, under a name that no other end has. A link also
says which delivery it needs, so that a policy that drops messages is refused where the link could
not survive it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs import Codec
from colonnade.links.returned import decoded, encoded
from colonnade.streams import StreamKey

__all__ = ["Delivery", "Link", "LinkReceiver", "LinkSender", "Rows", "ThroughCodec"]

Rows = NDArray[np.int64]
"""Row numbers of a batch, into the aligned table."""


class Delivery(Enum):
    """What a link needs of the messages it is made of."""

    ANY = "any message may be lost"
    EVERY_IN_ORDER = "every message must arrive, in order"


class LinkSender(Protocol):
    """The end that encodes."""

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[len(rows), width]``, the values of ``rows``.

        Raises
        ------
        Diverged
            If a value is not finite, or too large for what the link does with it.
        """
        ...

    def delivered(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        """Return what the receiver takes for the values of the message that was sent last."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this end remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


class LinkReceiver(Protocol):
    """The end that decodes."""

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        """Decode the values of ``rows``, ``[len(rows), width]`` float32, finite whatever came.

        Raises
        ------
        RemoteProtocolError
            If the body cannot be an encoding of that many rows.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this end remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


@runtime_checkable
class Link(Protocol):
    """Makes the two ends of a stream."""

    @property
    def delivery(self) -> Delivery:
        """What delivery the stream needs."""
        ...

    @property
    def fixed_size(self) -> bool:
        """Whether every message of so many rows has just ``at(round).bytes_at_most`` bytes."""
        ...

    def held_out(self) -> Link:
        """Return the link of rows that are not trained on, which travel one by one and seldom.

        One that remembers nothing is its own.
        """
        ...

    def at(self, round: int) -> Link:
        """Return the link with the codec of ``round``; without a schedule the link itself."""
        ...

    def sender(self, rows: int, width: int, name: str) -> LinkSender:
        """Make the encoding end for a table of ``rows`` rows of ``width`` components."""
        ...

    def receiver(self, rows: int, width: int, name: str) -> LinkReceiver:
        """Make the decoding end for a table of ``rows`` rows of ``width`` components."""
        ...

    def warm_up(self, width: int) -> None:
        """Encode and decode two rows of zeros, so that nothing is compiled later."""
        ...

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the largest number of bytes of a message of ``rows`` rows."""
        ...

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return what each end keeps in memory for a table of ``rows`` rows."""
        ...


@dataclass(frozen=True)
class ThroughCodec:
    """What links have from their codec alone."""

    codec: Codec

    def __post_init__(self) -> None:
        check_fields(ThroughCodec, self)

    @property
    def fixed_size(self) -> bool:
        """As the codec's messages."""
        return self.codec.fixed_size

    def at(self, round: int) -> Self:
        """Return the link with the codec of ``round``."""
        return replace(self, codec=self.codec.at(round))

    def warm_up(self, width: int) -> None:
        """Encode and decode two rows of zeros.

        Raises
        ------
        ConfigurationError
            If the codec returns what no codec may.
        """
        key = StreamKey(0, "", "warm-up", 0)
        decoded(self.codec, encoded(self.codec, torch.zeros(2, width), key), (2, width), key)

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the codec's bound for that shape."""
        return self.codec.bytes_at_most((rows, width))
