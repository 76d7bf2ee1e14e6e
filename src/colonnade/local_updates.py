"""Local updates: how many steps an organisation takes for one exchange.

An exchange costs the wire; a step costs only computing. Between two exchanges an organisation may
go on with what it has: its own fresh embedding, and what it last heard of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import ConfigurationError

__all__ = ["Consecutive", "LocalUpdates", "Replayed"]


@dataclass(frozen=True)
class Consecutive:
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
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ConfigurationError(f"local steps are 1 or more a round, not {self.steps!r}")


@dataclass(frozen=True)
class Replayed:
    """One exact step for everybody, and more for the label holder, on embeddings it has already.

    After the step of a round it takes ``steps`` more of its own models, on batches that it draws
    from the last ``batches``, with their embeddings as received. Nobody sends or waits for it.

    Parameters
    ----------
    steps
        How many more steps a round.
    batches
        How many batches it remembers.

    Raises
    ------
    ConfigurationError
        If one of them is below 1.

    Examples
    --------
    >>> Replayed(steps=8).batches
    64
    """

    steps: int = 8
    batches: int = 64

    def __post_init__(self) -> None:
        for name in ("steps", "batches"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} to replay are 1 or more, not {value!r}")


LocalUpdates = Consecutive | Replayed
