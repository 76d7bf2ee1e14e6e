"""A party's rows as they may leave it: clipped to a norm, and with noise of the party's own."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from colonnade.privacy.events import Event
from colonnade.privacy.games import Game
from colonnade.secure.keystream import Keystream

__all__ = ["Perturbation"]


@runtime_checkable
class Perturbation(Protocol):
    """What is made of rows before somebody sees them, each party's by themselves. A frozen value.

    Its text says it in a few words, for the summary of a run.
    """

    @property
    def bound(self) -> float:
        """The largest L2 norm that a row keeps; see ``clipped``."""

    def perturb(self, x: Tensor, noise: Keystream) -> Tensor:
        """Return the rows of ``x``, ``[rows, width]``, clipped and with noise, as float32.

        ``noise`` is for this message alone.

        Raises
        ------
        Diverged
            If a value is not finite.
        """

    def event(self, terms: int = 1) -> Event:
        """Return what one use of a row is for who sees so many parties' values of it, each.

        ``Unprotected()`` where nothing bounds what it discloses.
        """

    def games(self) -> tuple[Game, ...]:
        """Return games that try whether it keeps what its event says; none if that is nothing."""
