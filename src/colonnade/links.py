"""Links: a stream of embeddings or derivatives through a codec.

A codec is stateless; a stream may not be. ``Link.sender(rows, width)`` and
``Link.receiver(rows, width)`` make the two ends for a table of ``rows`` rows; what an end remembers
between messages is its own durable state. A link also says which delivery it needs, so that a
policy that drops messages is refused where the link could not survive it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs import Codec, Float
from colonnade.streams import StreamKey

__all__ = ["Delivery", "Direct", "Link", "LinkReceiver", "LinkSender", "Rows"]

Rows = NDArray[np.int64]
"""Row numbers of a batch, into the aligned table."""


class Delivery(Enum):
    """What a link needs of the messages it is made of."""

    ANY = "any message may be lost"
    EVERY_IN_ORDER = "every message must arrive, in order"


class LinkSender(Protocol):
    """The end that encodes."""

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[len(rows), width]``, the values of ``rows``."""
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
        """Decode the values of ``rows``, shape ``[len(rows), width]`` float32.

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
        """Whether every message of so many rows has just ``bytes_at_most`` bytes."""
        ...

    def sender(self, rows: int, width: int) -> LinkSender:
        """Make the encoding end for a table of ``rows`` rows of ``width`` components."""
        ...

    def receiver(self, rows: int, width: int) -> LinkReceiver:
        """Make the decoding end for a table of ``rows`` rows of ``width`` components."""
        ...

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the largest number of bytes of a message of ``rows`` rows."""
        ...


@dataclass(frozen=True)
class Direct:
    """Each message is the codec's encoding of the values themselves; nothing is remembered.

    Parameters
    ----------
    codec
        The codec, by default exact float32.

    Examples
    --------
    >>> import numpy as np, torch
    >>> link, rows = Direct(), np.array([4, 7])
    >>> key = StreamKey(seed=0, origin="bank", purpose="training/embedding", round=0)
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> body = link.sender(10, 2).send(x, rows, key)
    >>> len(body), torch.equal(link.receiver(10, 2).receive(body, rows, key), x)
    (16, True)
    """

    codec: Codec = field(default_factory=Float)

    @property
    def delivery(self) -> Delivery:
        """Any message may be lost: none depends on another."""
        return Delivery.ANY

    @property
    def fixed_size(self) -> bool:
        """As the codec's messages."""
        return self.codec.fixed_size

    def sender(self, rows: int, width: int) -> LinkSender:
        """Make the encoding end."""
        return _DirectEnd(self.codec, width)

    def receiver(self, rows: int, width: int) -> LinkReceiver:
        """Make the decoding end."""
        return _DirectEnd(self.codec, width)

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the codec's bound for that shape."""
        return self.codec.bytes_at_most((rows, width))


class _DirectEnd:
    """Either end of a ``Direct`` link."""

    def __init__(self, codec: Codec, width: int) -> None:
        self._codec = codec
        self._width = width

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        return self._codec.at(key.round).encode(x, key, saliency)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return self._codec.at(key.round).decode(body, (len(rows), self._width), key)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass
