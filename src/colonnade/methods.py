"""Methods: ready-made compositions of exchange, fusion and links.

A method is a frozen value. The functions below name the published ones; what they do not offer is
composed by constructing ``Method`` itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from colonnade.codecs import Codec, Float
from colonnade.links import Direct, ErrorFeedback, Link
from colonnade.models import Concat, Fusion
from colonnade.uplinks import Plain

__all__ = ["Method", "efvfl", "svfl"]


@dataclass(frozen=True)
class Method:
    """How a federation trains: the split exchange with the parts given.

    Parameters
    ----------
    name
        What tables call it.
    fusion
        How embeddings become the top model's input.
    uplink
        How embeddings reach the label holder.
    downlink
        How derivatives reach the parties.
    """

    name: str
    fusion: Fusion = field(default_factory=Concat)
    uplink: Plain = field(default_factory=Plain)
    downlink: Link = field(default_factory=Direct)


def svfl(
    codec: Codec | None = None,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
) -> Method:
    """Vanilla split learning: embeddings up, derivatives down, one step a round.

    With the default exact codecs it equals centralised SGD on the joined model; with a lossy
    codec on the embeddings it is C-VFL's Algorithm 2 (Castiglia et al., ICML 2022).

    Parameters
    ----------
    codec
        Of the embeddings, by default ``Float(32)``.
    derivative_codec
        Of the derivatives, by default ``Float(32)``.
    fusion
        By default ``Concat()``.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> svfl(Scalar(bits=4)).name
    'svfl'
    """
    return Method(
        "svfl",
        fusion or Concat(),
        Plain(Direct(codec or Float())),
        Direct(derivative_codec or Float()),
    )


def efvfl(
    codec: Codec,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
) -> Method:
    """EF-VFL with private labels: embeddings by error feedback, so that brutal codecs converge.

    Algorithm 2 of Valdeira et al., "Communication-efficient vertical federated learning via
    compressed error feedback": both ends of each link keep a surrogate of every row, and only what
    the receiver does not know yet is encoded. The label holder takes the derivatives at the
    surrogates. Held-out rows have no surrogate and travel as float32, as evaluation.

    Parameters
    ----------
    codec
        Of the embeddings: a contraction, such as ``TopK`` or ``QSGD``.
    derivative_codec
        Of the derivatives, by default ``Float(32)``; for error feedback on these too compose
        ``Method`` with ``downlink=ErrorFeedback(...)``.
    fusion
        By default ``Concat()``.

    Raises
    ------
    ConfigurationError
        If the codec is no contraction.

    Examples
    --------
    >>> from colonnade.codecs import TopK
    >>> efvfl(TopK(ratio=0.01)).name
    'efvfl'
    """
    return Method(
        "efvfl",
        fusion or Concat(),
        Plain(ErrorFeedback(codec)),
        Direct(derivative_codec or Float()),
    )
