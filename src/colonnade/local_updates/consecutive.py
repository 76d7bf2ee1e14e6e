"""Consecutive: the step of the round, several times."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.annotated import check_fields
from colonnade.errors import ConfigurationError
from colonnade.local_updates.contract import LocalStep, LocalUpdates

__all__ = ["Consecutive"]


@dataclass(frozen=True)
class Consecutive(LocalUpdates):
    """Q steps on the batch of the round, the exact one included, all before the next exchange.

    FedBCD (Liu et al., IEEE TSP 2022) and C-VFL's Algorithm 1. One step is none beyond the exact.

    Parameters
    ----------
    steps
        Q, at least 1.

    Raises
    ------
    ConfigurationError
        If there is no step.

    Examples
    --------
    >>> Consecutive(steps=5)
    Consecutive(steps=5)
    """

    steps: int = 1

    def __post_init__(self) -> None:
        check_fields(Consecutive, self)
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ConfigurationError(f"local steps are 1 or more a round, not {self.steps!r}")

    @property
    def kinds(self) -> frozenset[LocalStep]:
        """Repeated ones, where there is more than one step."""
        return frozenset({LocalStep.REPEATED} if self.repeats else ())

    @property
    def repeats(self) -> int:
        """All steps but the exact one."""
        return self.steps - 1
