"""The figure that the paper on PBM-VFL gives for the privacy of a run, to be shown beside ours."""

from __future__ import annotations

__all__ = ["asymptotic_renyi"]


def asymptotic_renyi(
    *, rounds: int, batch: int, trials: int, beta: float, order: float, parties: int, rows: int
) -> float:
    """Return T B b beta^2 alpha / (M N), as theorem 5.1 of PBM-VFL has it inside its O().

    It is an order of growth, not a bound: it leaves out a constant (8 for small beta, up to 16 at
    1/4 by exact computation), the number of components, and evaluations.

    Parameters
    ----------
    rounds, batch
        T training rounds of B rows each.
    trials, beta
        Of the counts, b and beta.
    order
        Of the Renyi divergence, alpha.
    parties, rows
        M parties, N rows to train on.

    Examples
    --------
    >>> asymptotic_renyi(rounds=600, batch=100, trials=16, beta=0.1, order=2, parties=4, rows=6000)
    0.8
    """
    return rounds * batch * trials * beta * beta * order / (parties * rows)
