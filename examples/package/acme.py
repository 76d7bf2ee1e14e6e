"""A codec, a method and a model of somebody's own, which configurations choose by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from colonnade.codecs import Bounded, Codec, Float, Law
from colonnade.links import Direct
from colonnade.methods import Method
from colonnade.models import Concat, Fusion
from colonnade.streams import StreamKey
from colonnade.uplinks import Plain


@dataclass(frozen=True)
class Clipped:
    """Numbers within a limit, through another codec.

    Parameters
    ----------
    limit
        Larger magnitudes become this one.
    values
        What encodes them then.
    """

    limit: float
    values: Codec = field(default_factory=Float)

    def __post_init__(self) -> None:
        if self.limit <= 0:
            raise ValueError(f"limit must be above 0, not {self.limit}")

    def law(self, shape: tuple[int, int]) -> Law:
        """Nothing: large numbers change."""
        return Bounded(absolute=float("inf"))

    @property
    def fixed_size(self) -> bool:
        """As the other codec."""
        return self.values.fixed_size

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode what is left of ``x``; what is not finite is left to the other codec to refuse."""
        kept = torch.where(x.isfinite(), x.clamp(-self.limit, self.limit), x)
        return self.values.encode(kept, key, saliency)

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode as the other codec."""
        return self.values.decode(body, shape, key)

    def at(self, round: int) -> Codec:
        """Return the codec of ``round``."""
        return Clipped(self.limit, self.values.at(round))

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the bound of the other codec."""
        return self.values.bytes_at_most(shape)


def clipped(limit: float = 1.0, fusion: Fusion | None = None) -> Method:
    """Vanilla split learning with clipped embeddings.

    Parameters
    ----------
    limit
        Of each component's magnitude.
    fusion
        By default ``Concat()``.
    """
    return Method("clipped", fusion or Concat(), Plain(Direct(Clipped(limit))))


def funnel(inputs: int, *, outputs: int = 16, depth: int = 2) -> nn.Module:
    """Layers that become narrower from one to the next.

    Parameters
    ----------
    outputs
        The width of the embedding.
    depth
        How many layers.
    """
    widths = [inputs, *(outputs * 2**i for i in reversed(range(depth)))]
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))
