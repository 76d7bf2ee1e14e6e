"""Error feedback: only what the other end does not know yet is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs import Codec, Contractive, Exact
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.links.contract import Delivery, Link, LinkReceiver, LinkSender, Rows, ThroughCodec
from colonnade.links.direct import Direct
from colonnade.links.returned import decoded, encoded
from colonnade.streams import StreamKey
from colonnade.surrogates import Memory, Storage, Surrogate

__all__ = ["ErrorFeedback"]


@dataclass(frozen=True)
class ErrorFeedback(ThroughCodec):
    """Each message is the codec's encoding of what the receiver does not know yet.

    Both ends keep a surrogate G of the table, a row for each sample, which starts at 0. Of values x
    of some rows the sender encodes C = C(x - G[rows]), and both ends add what decodes from it,
    G[rows] += C. The receiver takes G[rows] for the values. What a brutal codec leaves out stays in
    the difference and is sent another time (EF21: Richtarik et al., NeurIPS 2021; EF-VFL's
    Algorithm 1, with the exchange before the step).

    Parameters
    ----------
    codec
        A contraction: else what is left out may grow for ever.
    storage
        Where the surrogates are kept, and in which precision: in ``Memory()``, or in files by
        ``Disk(folder)``.

    Raises
    ------
    ConfigurationError
        If the codec's law promises no contraction, whatever the shape; later, if it promises none
        for the shape of a message.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from colonnade.codecs import TopK
    >>> link, rows = ErrorFeedback(TopK(ratio=0.5)), np.array([1])
    >>> sender, receiver = link.sender(3, 2, "bank"), link.receiver(3, 2, "insurer")
    >>> key = StreamKey(seed=0, origin="bank", purpose="training/embedding", round=0)
    >>> x = torch.tensor([[3.0, 1.0]])
    >>> receiver.receive(sender.send(x, rows, key), rows, key)
    tensor([[3., 0.]])
    >>> receiver.receive(sender.send(x, rows, key), rows, key)
    tensor([[3., 1.]])
    """

    storage: Storage = field(default_factory=Memory)

    def __post_init__(self) -> None:
        check_fields(ErrorFeedback, self)
        _check_contracts(self.codec, (1, 1))  # what contracts for some shape contracts for this

    @property
    def delivery(self) -> Delivery:
        """Every message changes the surrogate, so all must arrive in order."""
        return Delivery.EVERY_IN_ORDER

    def held_out(self) -> Link:
        """Return exact float32: of those rows there is no surrogate, to which codes could add."""
        return Direct()

    def sender(self, rows: int, width: int, name: str) -> LinkSender:
        """Make the encoding end."""
        return _FeedbackEnd(self.codec, self.storage.table(name, rows, width), width)

    def receiver(self, rows: int, width: int, name: str) -> LinkReceiver:
        """Make the decoding end."""
        return _FeedbackEnd(self.codec, self.storage.table(name, rows, width), width)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return what the surrogate keeps in memory."""
        return self.storage.bytes_remembered(rows, width)


def _check_contracts(codec: Codec, shape: tuple[int, int]) -> None:
    law = codec.law(shape)
    if not isinstance(law, Exact | Contractive):
        raise ConfigurationError(
            f"error feedback needs a codec that contracts, such as TopK or QSGD, but "
            f"{type(codec).__name__} promises {law} for messages of {shape[0]} x {shape[1]}: what "
            "it leaves out could grow from message to message"
        )


class _FeedbackEnd:
    """Either end of an ``ErrorFeedback`` link."""

    def __init__(self, codec: Codec, surrogate: Surrogate, width: int) -> None:
        self._codec = codec
        self._surrogate = surrogate
        self._width = width
        self._contracting: set[int] = set()  # numbers of rows that were asked about
        self._check(1)

    def _check(self, rows: int) -> None:
        if rows not in self._contracting:
            _check_contracts(self._codec, (rows, self._width))
            self._contracting.add(rows)

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        self._check(len(rows))
        unknown = x.detach().float().cpu() - self._surrogate.read(rows)
        codec = self._codec.at(key.round)
        body = encoded(codec, unknown, key, saliency)
        # What the other end will decode, not what was meant: the surrogates must stay equal.
        self._surrogate.add(rows, decoded(codec, body, (len(rows), self._width), key))
        return body

    def delivered(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return self._surrogate.read(rows)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        self._check(len(rows))
        change = decoded(self._codec.at(key.round), body, (len(rows), self._width), key)
        try:
            return self._surrogate.add(rows, change)
        except Diverged:  # the sender would have raised it
            raise RemoteProtocolError(
                "a message cannot be added to what was known of its rows: a sum is not finite in "
                "the surrogate"
            ) from None

    def state_dict(self) -> dict[str, Any]:
        return self._surrogate.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._surrogate.load_state_dict(state)
