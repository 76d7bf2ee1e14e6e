"""Only the rows that matter: those whose norm is not small beside the others'."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import Bounded, Codec, Contractive, Exact, Law, finite
from colonnade.codecs.float import Float
from colonnade.codecs.support import decode_support, encode_support, support_bytes_at_most
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.streams import StreamKey

__all__ = ["LargeRows"]

_COUNT_BYTES = 4


@dataclass(frozen=True)
class LargeRows:
    r"""Rows with ||x_n||^2 > c^2 mean_m ||x_m||^2 go through ``values``; the others become 0.

    Made for derivatives: once most rows are classified well, few of them move a model. The largest
    of N rows is always sent, so what is left out is at most c^2 (N - 1) / N of ||x||^2, and with
    exact values it is a contraction with alpha = 1 - c^2 (N - 1) / N.

    Parameters
    ----------
    below
        c, above 0 and below 1.
    values
        The codec of the rows that are sent.

    Raises
    ------
    ConfigurationError
        If ``below`` is out of range.

    Notes
    -----
    The body is ``number of rows sent (4 bytes) | which (see codecs/support.py) | values``; nothing
    follows the number where it is 0.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = LargeRows(below=0.5)
    >>> body = codec.encode(torch.tensor([[3.0, 4.0], [0.1, 0.2], [0.0, 5.0]]), key)
    >>> codec.decode(body, (3, 2), key)
    tensor([[3., 4.],
            [0., 0.],
            [0., 5.]])
    """

    below: float = 0.3
    values: Codec = field(default_factory=Float)

    def __post_init__(self) -> None:
        check_fields(LargeRows, self)
        if not 0 < self.below < 1:
            raise ConfigurationError(f"below must be above 0 and below 1, not {self.below!r}")

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a contraction where the values' codec is exact or contracts.

        It is the worst of those for 1, 2, ... rows that are sent.
        """
        rows, width = max(1, shape[0]), shape[1]
        worst = 1.0
        for sent in range(1, rows + 1):
            kept = 1 - self.below**2 * (rows - sent) / rows
            match self.values.law((sent, width)):
                case Exact():
                    worst = min(worst, kept)
                case Contractive(alpha=alpha):
                    worst = min(worst, kept * alpha)
                case _:
                    # nothing that could be promised of each component
                    return Bounded(absolute=float("inf"))
        return Contractive(worst)

    @property
    def fixed_size(self) -> bool:
        """Never: it depends on the rows."""
        return False

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        values = finite(x)
        if values.size == 0:
            return b""
        # By the largest magnitude, so that no square leaves the range of numbers.
        largest = float(np.abs(values).max())
        squares = np.square(values / (largest or 1.0), dtype=np.float64).sum(axis=1)
        kept = np.flatnonzero(squares > self.below**2 * squares.mean())
        number = len(kept).to_bytes(_COUNT_BYTES, "little")
        if not len(kept):
            return number
        body = self.values.encode(torch.from_numpy(values[kept]), key, saliency)
        return number + encode_support(kept, len(values)) + body

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``, zero where nothing was sent.

        Raises
        ------
        RemoteProtocolError
            If the body is no such message of this shape.
        """
        rows, width = shape
        if rows * width == 0:
            if body:
                raise RemoteProtocolError(f"{len(body)} bytes came for no values")
            return torch.zeros(shape)
        count = int.from_bytes(body[:_COUNT_BYTES], "little")
        if len(body) < _COUNT_BYTES or count > rows:
            raise RemoteProtocolError(f"a body of {len(body)} bytes sends {count} of {rows} rows")
        rest = body[_COUNT_BYTES:]
        if not count:
            if rest or rows * width > _MOST_ZEROS:
                raise RemoteProtocolError(f"{len(rest)} bytes came for none of {rows} rows")
            return torch.zeros(shape)
        indices, used = decode_support(memoryview(rest), count, rows)
        values = self.values.decode(rest[used:], (count, width), key)
        if indices is None:
            return values
        y = torch.zeros(shape)
        y[torch.from_numpy(indices)] = values
        return y

    def at(self, round: int) -> Self:
        """Return it with the values' codec of ``round``."""
        return replace(self, values=self.values.at(round))

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the bytes where every row is sent, but the longest code of which."""
        rows, width = shape
        if rows * width == 0:
            return 0
        which = max(1, support_bytes_at_most(max(1, rows // 2), rows))
        return _COUNT_BYTES + which + self.values.bytes_at_most(shape)


_MOST_ZEROS = 2**34  # values; no link is for more
