"""Entropy coding by a model that both ends learn from the messages before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs.entropy import Entropy
from colonnade.codecs.quantiser import Quantiser, Symbols
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import mixing
from colonnade.links.contract import Delivery, Link, LinkReceiver, LinkSender, Rows
from colonnade.links.direct import Direct
from colonnade.links.returned import decoded, encoded
from colonnade.streams import StreamKey

__all__ = ["LearnedEntropy"]

_PACKED, _CODED = 0, 1
_MOST_COLUMNS = 1024  # the model grows with their square
# Of a row, 20 ms: a symbol is up to ``alphabet - 1`` decisions, each on all columns before it.
# What takes the most of them is told in next to no bytes, so it is the shape that bounds the time.
_MOST_STEPS = 2**23


@dataclass(frozen=True)
class LearnedEntropy:
    r"""The symbols of ``quantiser``, in as few bits as the messages before let one expect.

    ``Entropy`` sends the frequencies of each message with it, and takes components for independent
    of each other. Here both ends keep a model of the stream instead: for each component its
    frequencies, and how they depend on the components before it in the row; see
    ``kernels/mixing.py``. It follows embeddings as they change, and never travels. What decodes is
    what the quantiser would decode. It needs messages to learn from: where they are few, or the
    embeddings' distribution moves within a few of them, ``Direct(Entropy(...))`` may take fewer
    bytes.

    Parameters
    ----------
    quantiser
        Any quantiser, of at most 256 symbols, in messages of at most 1024 columns of 3 bits, 520 of
        5 bits or 181 of 8: the time of a row grows with the columns squared and with the symbols.

    Raises
    ------
    ConfigurationError
        If the codec has no symbols, or too many different ones; later, if messages are too wide.

    Notes
    -----
    The body is ``0 | body of quantiser``, where coding is no gain, or ``1 | side information |
    code`` without the zeros at its end. A model has 16 bytes times the square of the columns.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from colonnade.codecs import Scalar
    >>> link = LearnedEntropy(Scalar(2, 0.0, 3.0, dither=False))
    >>> sender, receiver = link.sender(64, 8, "bank"), link.receiver(64, 8, "insurer")
    >>> x = torch.eye(8).repeat(8, 1)
    >>> rows, keys = np.arange(64), [StreamKey(0, "bank", "example", t) for t in range(30)]
    >>> bodies = [sender.send(x, rows, key) for key in keys]
    >>> len(bodies[0]), len(bodies[-1])
    (112, 37)
    >>> all(torch.equal(receiver.receive(b, rows, k), x) for b, k in zip(bodies, keys))
    True
    """

    quantiser: Quantiser

    def __post_init__(self) -> None:
        if not isinstance(self.quantiser, Quantiser):
            raise ConfigurationError(
                f"learned entropy coding needs a codec with symbols, such as Scalar or QSGD, not "
                f"{type(self.quantiser).__name__}"
            )
        if self.quantiser.alphabet > 256:
            raise ConfigurationError(
                f"learned entropy coding takes up to 256 different symbols, not "
                f"{self.quantiser.alphabet}: take fewer bits, or Entropy(...)"
            )

    @property
    def delivery(self) -> Delivery:
        """Every message changes the model, so all must arrive in order."""
        return Delivery.EVERY_IN_ORDER

    @property
    def fixed_size(self) -> bool:
        """Never: it depends on the symbols."""
        return False

    def held_out(self) -> Link:
        """Return the same symbols in messages that each have their own frequencies."""
        return Direct(Entropy(self.quantiser))

    def at(self, round: int) -> LearnedEntropy:
        """Return itself: there is no schedule."""
        return self

    def sender(self, rows: int, width: int, name: str) -> LinkSender:
        """Make the encoding end."""
        return _LearningEnd(self.quantiser, width)

    def receiver(self, rows: int, width: int, name: str) -> LinkReceiver:
        """Make the decoding end."""
        return _LearningEnd(self.quantiser, width)

    def warm_up(self, width: int) -> None:
        """Encode and decode two rows of zeros."""
        key, rows = StreamKey(0, "", "warm-up", 0), np.arange(2)
        body = self.sender(2, width, "").send(torch.zeros(2, width), rows, key)
        self.receiver(2, width, "").receive(body, rows, key)

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return a byte more than the quantiser's bound: where coding is no gain it packs."""
        return 1 + self.quantiser.bytes_at_most((rows, width))

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return what the model takes."""
        columns = _columns(self.quantiser, width)
        return 4 * columns * mixing.LEVELS * (columns + 1) + 8 * self.quantiser.alphabet


def _columns(quantiser: Quantiser, width: int) -> int:
    """Return how many symbols a row has; 1 where they do not belong to rows."""
    columns = quantiser.symbol_count((1, width))
    return columns if quantiser.symbol_count((2, width)) == 2 * columns else 1


class _LearningEnd:
    """Either end of a ``LearnedEntropy`` link."""

    def __init__(self, quantiser: Quantiser, width: int) -> None:
        self._quantiser = quantiser
        self._width = width
        self._columns = _columns(quantiser, width)
        if self._columns > _MOST_COLUMNS:
            raise ConfigurationError(
                f"learned entropy coding takes messages of up to {_MOST_COLUMNS} columns, not "
                f"{self._columns}: take Direct(Entropy(...))"
            )
        steps = self._columns**2 * (quantiser.alphabet - 1)
        if steps > _MOST_STEPS:
            most = math.isqrt(_MOST_STEPS // (quantiser.alphabet - 1))
            raise ConfigurationError(
                f"learned entropy coding takes messages of up to {most} columns of "
                f"{quantiser.alphabet} symbols, not {self._columns}, as a row could take "
                f"{steps / 1e6:.0f} million steps: take fewer bits, or Direct(Entropy(...))"
            )
        self._model = mixing.fresh(self._columns)
        # How often each symbol came: in the beginning as if those in the middle had.
        middle = (quantiser.alphabet - 1) // 2
        self._counts = -np.abs(2 * np.arange(quantiser.alphabet) - 2 * middle - 1)
        self._sent = b""  # as the quantiser packed it

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        body = self._sent = encoded(self._quantiser, x, key, saliency)
        shape = (len(rows), self._width)
        if not self._quantiser.symbol_count(shape):
            return bytes([_PACKED]) + body
        side = body[: self._quantiser.side_bytes(body, shape)]
        symbols = self._quantiser.unpack(body, shape)
        code = self._coded(symbols, len(body) - len(side) - 1)
        return bytes([_PACKED]) + body if code is None else bytes([_CODED]) + side + code

    def delivered(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return decoded(self._quantiser, self._sent, (len(rows), self._width), key)

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        shape = (len(rows), self._width)
        if not body or body[0] > _CODED:
            raise RemoteProtocolError("a body of learned entropy does not say how it is coded")
        kind, rest = body[0], body[1:]
        if kind == _CODED:
            side = self._quantiser.side_bytes(rest, shape)
            symbols = self._decoded(rest[side:], self._quantiser.symbol_count(shape))
            rest = rest[:side] + self._quantiser.pack(symbols, shape)
            return decoded(self._quantiser, rest, shape, key)
        values = decoded(self._quantiser, rest, shape, key)
        if self._quantiser.symbol_count(shape):
            self._coded(self._quantiser.unpack(rest, shape), 0)  # the sender learned them, too
        return values

    def _coded(self, symbols: Symbols, most: int) -> bytes | None:
        """Return the code of some symbols, None beyond ``most`` bytes, and learn them."""
        order = self._order()
        rank_of = np.empty(len(order), dtype=np.uint16)
        rank_of[order] = np.arange(len(order))
        ranks = rank_of[symbols].reshape(-1, self._columns)
        code = mixing.encode(ranks, len(order), self._model, max(0, most))
        self._count(symbols)
        return code

    def _decoded(self, code: bytes, count: int) -> Symbols:
        order = self._order()
        shape = (count // self._columns, self._columns)
        ranks = mixing.decode(code, shape, len(order), self._model) if count else None
        if ranks is None:
            raise RemoteProtocolError(f"{len(code)} bytes are no code of {count} symbols")
        symbols: Symbols = order[ranks.reshape(-1)].astype(np.uint16)
        self._count(symbols)
        return symbols

    def _order(self) -> NDArray[np.int64]:
        """Return the symbols, the most frequent first."""
        return np.argsort(-self._counts, kind="stable")

    def _count(self, symbols: Symbols) -> None:
        self._counts = self._counts + np.bincount(symbols, minlength=len(self._counts))

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": torch.from_numpy(self._model.copy()),
            "counts": torch.from_numpy(self._counts),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._model = state["model"].numpy().copy()
        self._counts = state["counts"].numpy().copy()
