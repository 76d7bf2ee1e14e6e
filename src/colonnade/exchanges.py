"""Exchanges: what travels in a round, and who therefore learns what.

``Split`` keeps labels and top model with the label holder. ``Relay`` gives both to every party, and
everybody's embeddings too; it lets each organisation go on by itself for many steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from colonnade.errors import ConfigurationError
from colonnade.links import Direct, Link

__all__ = ["Exchange", "Relay", "Split"]


@dataclass(frozen=True)
class Split:
    """Embeddings up, derivatives down; labels and top model stay private.

    Parameters
    ----------
    downlink
        How derivatives reach the parties, by default exactly.
    correction
        Where the label holder got C(z) for z: lambda, by which a party corrects the derivative that
        was taken at C(z), d + lambda (z - C(z)) (FedLite; Wang et al., 2022). The party corrects,
        since it alone knows z.

    Raises
    ------
    ConfigurationError
        If ``correction`` is negative or not finite.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> Split(downlink=Direct(Scalar(bits=4))).links
    (Direct(codec=Scalar(bits=4, low=None, high=None, dither=True)),)
    """

    downlink: Link = field(default_factory=Direct)
    correction: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.correction < math.inf:
            raise ConfigurationError(f"correction must be 0 or more, not {self.correction!r}")

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that it adds to the uplink's."""
        return (self.downlink,)


@dataclass(frozen=True)
class Relay:
    """Embeddings up, everybody's embeddings and the top model down; every party has the labels.

    Parameters
    ----------
    labels
        ``"shared"``: to be said, since it tells every party what the others hold dear.
    top
        How the top model's parameters reach the parties, by default exactly.
    others
        What a party hears of the others: their ``"codes"``, forwarded byte for byte, or the
        ``"total"`` of all embeddings, for fusion by sum or mean (EF-VFL's appendix D, scheme 3).

    Raises
    ------
    ConfigurationError
        If the labels are not said to be shared.

    Examples
    --------
    >>> Relay(labels="shared", others="total").others
    'total'
    >>> Relay()
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the relay exchange shows every party the labels, the top \
model and the other parties' embeddings; say labels='shared' if that is meant, or take the split \
exchange
    """

    labels: Literal["private", "shared"] = "private"
    top: Link = field(default_factory=Direct)
    others: Literal["codes", "total"] = "codes"

    def __post_init__(self) -> None:
        if self.labels != "shared":
            raise ConfigurationError(
                "the relay exchange shows every party the labels, the top model and the other "
                "parties' embeddings; say labels='shared' if that is meant, or take the split "
                "exchange"
            )
        if self.others not in ("codes", "total"):
            raise ConfigurationError(f"others is codes or total, not {self.others!r}")

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that it adds to the uplink's."""
        return (self.top,)


Exchange = Split | Relay
