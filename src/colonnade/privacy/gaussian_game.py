"""The game of noise on rows: a row goes from one end of the bound to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.privacy.events import Event
from colonnade.privacy.perturbation import Perturbation
from colonnade.secure.keystream import Keystream

__all__ = ["GaussianGame"]


@dataclass(frozen=True)
class GaussianGame:
    """A value with Gaussian noise; it goes from one end of the bound to the other.

    Parameters
    ----------
    mechanism
        How noise is added.
    """

    mechanism: Perturbation

    @property
    def protects(self) -> str:
        """See ``Game``."""
        return "embeddings"

    @property
    def claim(self) -> Event:
        """See ``Game``."""
        return self.mechanism.event()

    def outcomes(self, changed: bool, games: int, noise: Keystream) -> NDArray[np.float64]:
        """See ``Game``."""
        most = torch.full((games, 1), self.mechanism.bound)
        seen = self.mechanism.perturb(-most if changed else most, noise)
        return seen[:, 0].double().numpy()
