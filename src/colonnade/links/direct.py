"""The link that remembers nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from colonnade.codecs import Codec, Float
from colonnade.links.contract import Delivery, Link, LinkReceiver, LinkSender, Rows, ThroughCodec
from colonnade.links.returned import decoded, encoded
from colonnade.streams import StreamKey

__all__ = ["Direct"]


@dataclass(frozen=True)
class Direct(ThroughCodec):
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
    >>> body = link.sender(10, 2, "up").send(x, rows, key)
    >>> len(body), torch.equal(link.receiver(10, 2, "down").receive(body, rows, key), x)
    (16, True)
    """

    codec: Codec = field(default_factory=Float)

    @property
    def delivery(self) -> Delivery:
        """Any message may be lost: none depends on another."""
        return Delivery.ANY

    def held_out(self) -> Link:
        """Return itself."""
        return self

    def sender(self, rows: int, width: int, name: str) -> LinkSender:
        """Make the encoding end."""
        return _DirectEnd(self.codec, width)

    def receiver(self, rows: int, width: int, name: str) -> LinkReceiver:
        """Make the decoding end."""
        return _DirectEnd(self.codec, width)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 0."""
        return 0


class _DirectEnd:
    """Either end of a ``Direct`` link."""

    def __init__(self, codec: Codec, width: int) -> None:
        self._codec = codec
        self._width = width

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        return encoded(self._codec.at(key.round), x, key, saliency)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return decoded(self._codec.at(key.round), body, (len(rows), self._width), key)

    delivered = receive

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass
