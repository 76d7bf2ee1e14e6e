"""Clipping: rows are made no longer than a bound, so that what one may change is bounded too."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from colonnade.annotated import make_plain
from colonnade.privacy.bounds import check_bound, matrix, refuse_nonfinite
from colonnade.privacy.events import Event, Unprotected
from colonnade.privacy.games import Game
from colonnade.secure.keystream import Keystream

__all__ = ["Clipped", "clipped"]

_SAFETY = 1 - 2.0**-40  # of the bound, for rounding while a row is clipped


def clipped(x: Tensor, bound: float) -> Tensor:
    """Return rows ``[rows, width]`` as r min(1, bound / ||r||), in float64; gradients flow through.

    Raises
    ------
    Diverged
        If a value is not finite.

    Examples
    --------
    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), bound=1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]], dtype=torch.float64)
    """
    matrix(x)
    refuse_nonfinite(x)
    most = bound * _SAFETY
    exact = x.double()
    norms = torch.linalg.vector_norm(exact, dim=1, keepdim=True)
    short: Tensor = exact * (most / norms.clamp(min=most))
    return short


@dataclass(frozen=True)
class Clipped:
    """Rows are clipped to an L2 norm and seen as they are then: nothing bounds what they disclose.

    It is what ``Gaussian`` is without its noise: for rows that need no protection, such as those
    of a public test, of a model that was trained on clipped ones.

    Parameters
    ----------
    bound
        C, the largest L2 norm that a row keeps.

    Raises
    ------
    ConfigurationError
        If it is no positive number.

    Examples
    --------
    >>> Clipped(5.0).perturb(torch.tensor([[30.0, 40.0]]), Keystream(bytes(16)))
    tensor([[3., 4.]])
    """

    bound: float

    def __post_init__(self) -> None:
        make_plain(Clipped, self)
        check_bound(self.bound)

    def perturb(self, x: Tensor, noise: Keystream) -> Tensor:
        """Return the rows of ``x``, ``[rows, width]``, clipped, as float32; nothing is drawn.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        return clipped(x, self.bound).float()

    def event(self, terms: int = 1) -> Event:
        """Return that what is seen is not protected."""
        return Unprotected()

    def games(self) -> tuple[Game, ...]:
        """Return none: nothing is claimed."""
        return ()

    def __str__(self) -> str:
        return f"clipped to the norm {self.bound:g}, without noise"
