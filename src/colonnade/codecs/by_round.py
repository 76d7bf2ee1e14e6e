"""Schedules: another codec from some round on."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import Bounded, Codec, Contractive, Exact, Law
from colonnade.errors import ConfigurationError
from colonnade.streams import StreamKey

__all__ = ["ByRound"]


@dataclass(frozen=True)
class ByRound:
    """In round t the last of ``codecs`` whose first round is not after t.

    So compression may become finer as training comes to its end: C-VFL converges to a fixed point
    if its error diminishes (Castiglia et al., ICML 2022, Theorem 4.4); the schedules of its Table 1
    are made by ``diminishing``.

    Parameters
    ----------
    codecs
        One after the other.
    rounds
        The first round of each; that of the first is 0.

    Raises
    ------
    ConfigurationError
        If they do not go together, or rounds do not ascend from 0.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> codec = ByRound((Scalar(2), Scalar(4)), rounds=(0, 100))
    >>> codec.at(99).bits, codec.at(100).bits
    (2, 4)
    """

    codecs: tuple[Codec, ...]
    rounds: tuple[int, ...]

    def __post_init__(self) -> None:
        check_fields(ByRound, self)
        for name in ("codecs", "rounds"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # a file has lists
        if not self.codecs or len(self.codecs) != len(self.rounds):
            raise ConfigurationError(
                f"a schedule has a first round for each codec, but there are {len(self.codecs)} "
                f"codecs and {len(self.rounds)} rounds"
            )
        if self.rounds[0] != 0 or any(one >= other for one, other in pairwise(self.rounds)):
            raise ConfigurationError(
                f"the rounds of a schedule ascend from 0, unlike {list(self.rounds)}"
            )

    def law(self, shape: tuple[int, int]) -> Law:
        """Return what all promise: their common law, or the weakest contraction among them."""
        laws = [codec.law(shape) for codec in self.codecs]
        if all(law == laws[0] for law in laws):
            return laws[0]
        alphas = [
            1.0 if isinstance(law, Exact) else law.alpha
            for law in laws
            if isinstance(law, Exact | Contractive)
        ]
        if len(alphas) == len(laws):
            return Contractive(min(alphas))
        return Bounded(absolute=float("inf"))

    @property
    def fixed_size(self) -> bool:
        """If it is with each of them."""
        return all(codec.fixed_size for codec in self.codecs)

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` by the codec of the key's round."""
        return self.at(key.round).encode(x, key, saliency)

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode by the codec of the key's round."""
        return self.at(key.round).decode(body, shape, key)

    def at(self, round: int) -> Codec:
        """Return the codec of ``round``."""
        return self.codecs[bisect_right(self.rounds, round) - 1].at(round)

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the most that any of them takes."""
        return max(codec.bytes_at_most(shape) for codec in self.codecs)
