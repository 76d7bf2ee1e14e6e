"""Links: a stream of embeddings or derivatives through a codec.

A codec is stateless; a stream may not be. ``Link.sender(rows, width, name)`` and
``Link.receiver(rows, width, name)`` make the two ends for a table of ``rows`` rows; what an end
remembers between messages is its own durable state, under a name that no other end has. A link also
says which delivery it needs, so that a policy that drops messages is refused where the link could
not survive it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs import Codec, Contractive, Exact, Float
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.streams import StreamKey
from colonnade.surrogates import Memory, Storage, Surrogate

__all__ = ["Delivery", "Direct", "ErrorFeedback", "Link", "LinkReceiver", "LinkSender", "Rows"]

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
        """Whether every message of so many rows has just ``at(round).bytes_at_most`` bytes."""
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
class _ThroughCodec:
    """What links have from their codec alone."""

    codec: Codec

    @property
    def fixed_size(self) -> bool:
        """As the codec's messages."""
        return self.codec.fixed_size

    def at(self, round: int) -> Self:
        """Return the link with the codec of ``round``."""
        return replace(self, codec=self.codec.at(round))

    def warm_up(self, width: int) -> None:
        """Encode and decode two rows of zeros."""
        key = StreamKey(0, "", "warm-up", 0)
        self.codec.decode(self.codec.encode(torch.zeros(2, width), key), (2, width), key)

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the codec's bound for that shape."""
        return self.codec.bytes_at_most((rows, width))


@dataclass(frozen=True)
class Direct(_ThroughCodec):
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
        return self._codec.at(key.round).encode(x, key, saliency)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return self._codec.at(key.round).decode(body, (len(rows), self._width), key)

    delivered = receive

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class ErrorFeedback(_ThroughCodec):
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
    >>> import numpy as np
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
        _check_contracts(self.codec, (1, 1))  # what contracts for some shape contracts for this

    @property
    def delivery(self) -> Delivery:
        """Every message changes the surrogate, so all must arrive in order."""
        return Delivery.EVERY_IN_ORDER

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
        body = codec.encode(unknown, key, saliency)
        # What the other end will decode, not what was meant: the surrogates must stay equal.
        self._surrogate.add(rows, codec.decode(body, (len(rows), self._width), key))
        return body

    def delivered(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return self._surrogate.read(rows)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        self._check(len(rows))
        change = self._codec.at(key.round).decode(body, (len(rows), self._width), key)
        try:
            return self._surrogate.add(rows, change)
        except Diverged as error:  # the sender would have raised it
            raise RemoteProtocolError(f"a message cannot be added: {error}") from None

    def state_dict(self) -> dict[str, Any]:
        return self._surrogate.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._surrogate.load_state_dict(state)
