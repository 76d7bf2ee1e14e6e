"""The largest components of a message, and nothing of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import (
    Bounded,
    Codec,
    Contractive,
    Exact,
    Law,
    Unbiased,
    UnbiasedCell,
    finite,
    matrix,
    refuse_nonfinite,
)
from colonnade.codecs.float import Float
from colonnade.codecs.support import decode_support, encode_support, support_bytes_at_most
from colonnade.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from colonnade.kernels.largest import largest, largest_in_rows
from colonnade.streams import StreamKey

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK:
    """C(x)_i = x_i for the k components of largest magnitude, else 0.

    Alistarh et al., "The convergence of sparsified gradient methods", NeurIPS 2018; in EF-VFL over
    the whole message, in C-VFL over a row or over columns that all rows share.

    Parameters
    ----------
    ratio
        k = max(1, floor(ratio n)) of n components.
    scope
        What n is: the whole ``"message"``; each ``"row"`` by itself; or whole ``"columns"``, the
        same ones for every row, so that which they are is sent once.
    by
        ``"magnitude"``, or ``"saliency"``: how much a component matters to the loss, which the
        sender is told beside the message; before it is told, by magnitude.
    values
        The codec of the components that are sent.

    Raises
    ------
    ConfigurationError
        If ``ratio`` is not in (0, 1], or saliency is asked for anything but columns.

    Notes
    -----
    The body is ``support | values``; see ``codecs/support.py``. Ties go to the lower index.

    By magnitude and with exact values it is a contraction with alpha = k / n, which is above
    ratio / 2 whatever n is; with values that contract by a, with alpha = a k / n.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = TopK(ratio=0.5)
    >>> body = codec.encode(torch.tensor([[0.1, -0.9], [2.0, 0.3]]), key)
    >>> len(body), codec.decode(body, (2, 2), key)
    (10, tensor([[ 0.0000, -0.9000],
            [ 2.0000,  0.0000]]))
    """

    ratio: float
    scope: Literal["message", "row", "columns"] = "message"
    by: Literal["magnitude", "saliency"] = "magnitude"
    values: Codec = field(default_factory=Float)

    def __post_init__(self) -> None:
        check_fields(TopK, self)
        if not 0 < self.ratio <= 1:
            raise ConfigurationError(f"ratio must be above 0 and at most 1, not {self.ratio!r}")
        if self.by == "saliency" and self.scope != "columns":
            raise ConfigurationError("saliency is known for columns: say scope 'columns'")

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a contraction if magnitude decides and the values' codec is exact or contracts."""
        rows, width = max(1, shape[0]), max(1, shape[1])
        places, count = self._places(rows, width)
        share = count / places
        match self.values.law(self._sent(rows, width)):
            case Exact():
                return Contractive(share) if self.by == "magnitude" else Bounded(relative=1.0)
            case Contractive(alpha=alpha) if self.by == "magnitude":
                return Contractive(share * alpha)
            case Bounded(relative=relative, absolute=absolute, step=step):
                return Bounded(max(1.0, relative), absolute, step)
            case Unbiased(step=step) | UnbiasedCell(step=step):
                return Bounded(relative=1.0, step=step)
        return Bounded(absolute=math.inf)  # nothing that could be promised of each component

    @property
    def fixed_size(self) -> bool:
        """Only where everything is sent: the code of a support depends on the support."""
        return self.ratio == 1 and self.values.fixed_size

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Parameters
        ----------
        x
            The message.
        key
            Passed on to the values' codec.
        saliency
            How much each column matters, ``[width]``, at least 0.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        x = matrix(x)
        rows, width = x.shape
        if x.numel() == 0:
            return b""
        values = x.numpy() if self.scope == "message" else finite(x)
        places, count = self._places(rows, width)
        if self.scope == "columns":
            indices = self._columns(values, count, saliency)
            chosen = values[:, indices]
        elif self.scope == "row":
            each = largest_in_rows(values, count // rows)
            indices = (each + np.arange(rows)[:, None] * width).reshape(-1)
            chosen = values.reshape(-1)[indices].reshape(rows, count // rows)
        else:
            found = largest(values.reshape(-1), count)
            if found is None:
                refuse_nonfinite(x)
            indices = _known(found)
            chosen = values.reshape(-1)[indices].reshape(1, count)
        body = self.values.encode(torch.from_numpy(np.ascontiguousarray(chosen)), key)
        return encode_support(indices, places, self._groups(rows)) + body

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
        places, count = self._places(rows, width)
        chosen = self._sent(rows, width)
        indices, used = decode_support(memoryview(body), count, places, self._groups(rows))
        values = self.values.decode(body[used:], chosen, key).numpy()
        if indices is None:
            return torch.from_numpy(values.reshape(shape))
        y = np.zeros(shape, dtype=np.float32)
        if self.scope == "columns":
            y[:, indices] = values
        else:
            y.reshape(-1)[indices] = values.reshape(-1)
        return torch.from_numpy(y)

    def at(self, round: int) -> Self:
        """Return it with the values' codec of ``round``."""
        return replace(self, values=self.values.at(round))

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the longest support's bytes and the values'."""
        rows, width = shape
        if rows * width == 0:
            return 0
        places, count = self._places(rows, width)
        values = self.values.bytes_at_most(self._sent(rows, width))
        return support_bytes_at_most(count, places, self._groups(rows)) + values

    def _places(self, rows: int, width: int) -> tuple[int, int]:
        """Return among how many places are chosen how many."""
        if self.scope == "columns":
            return width, self._share(width)
        if self.scope == "row":
            return rows * width, rows * self._share(width)
        return rows * width, self._share(rows * width)

    def _groups(self, rows: int) -> int:
        """Return of how many groups of places equally many are chosen."""
        return rows if self.scope == "row" else 1

    def _sent(self, rows: int, width: int) -> tuple[int, int]:
        """Return the shape of the values that are sent."""
        _, count = self._places(rows, width)
        if self.scope == "message":
            return 1, count
        return rows, count if self.scope == "columns" else count // rows

    def _share(self, places: int) -> int:
        return max(1, math.floor(self.ratio * places))

    def _columns(
        self, values: NDArray[np.float32], count: int, saliency: Tensor | None
    ) -> NDArray[np.int64]:
        if self.by == "saliency" and saliency is not None:
            score = saliency.detach().cpu().float().contiguous().numpy()
            if score.shape != values.shape[1:] or not np.isfinite(score).all():
                raise LocalProtocolError(
                    f"saliency must be finite, a number for each of {values.shape[1]} columns"
                )
        else:
            with np.errstate(over="ignore"):
                squares = np.square(values, dtype=np.float64).sum(axis=0)
            score = np.sqrt(squares).clip(max=np.finfo(np.float32).max).astype(np.float32)
            score = np.nan_to_num(score)
        return _largest(np.ascontiguousarray(score), count)


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    return _known(largest(values, count))


def _known(indices: NDArray[np.int64] | None) -> NDArray[np.int64]:
    assert indices is not None  # values were found to be finite
    return indices
