"""How far what is fresh has turned from what is remembered, and what a row counts for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Cosines", "cosines"]

_BINS = 400  # of [-1, 1]


def cosines(fresh: Tensor, stale: Tensor) -> Tensor:
    """Return the cosine between rows, ``[B]``; 0 where one of them is zero.

    >>> cosines(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[6.0, 8.0], [0.0, 0.0]]))
    tensor([1., 0.])
    """
    found: Tensor = (_directions(fresh) * _directions(stale)).sum(dim=1)
    return found.nan_to_num(0.0).clamp(-1.0, 1.0)


def _directions(rows: Tensor) -> Tensor:
    # Squares of very small or large components would leave float32: the largest is made 1 first.
    rows = rows / rows.abs().amax(dim=1, keepdim=True)
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths


class Cosines:
    """Weights by staleness (CELU-VFL, section 3.3), and how cosines were spread.

    A row counts as much as its cosine, and nothing where that is below ``least``.

    >>> weighed = Cosines(least=0.5)
    >>> weighed.weights(torch.tensor([[1.0, 0.0], [1.0, 2.0]]), torch.tensor([[2.0, 0.0]] * 2))
    tensor([1., 0.])
    >>> weighed.report()["cosine_p90"]
    1.0
    """

    def __init__(self, least: float) -> None:
        self.least = least
        self._counts = np.zeros(_BINS + 1, dtype=np.int64)
        self._below = 0

    def weights(self, fresh: Tensor, stale: Tensor) -> Tensor:
        """Return what each row counts, ``[B]``, and take note of its cosine."""
        found = cosines(fresh, stale)
        weights = torch.where(found < self.least, 0.0, found)
        places = ((found.cpu().numpy().astype(np.float64) + 1) * (_BINS / 2)).round()
        self._counts += np.bincount(places.astype(np.int64), minlength=_BINS + 1)
        self._below += int((found < self.least).sum())
        return weights

    def report(self) -> dict[str, float]:
        """Return quantiles since the last report, and the share of rows that did not count.

        Empty where there was no row.
        """
        total = int(self._counts.sum())
        if not total:
            return {}
        cumulated = np.cumsum(self._counts)
        values = {
            f"cosine_p{percent}": float(
                round(np.searchsorted(cumulated, percent / 100 * total) / (_BINS / 2) - 1, 3)
            )
            for percent in (10, 50, 90)
        }
        values["rows_too_stale"] = self._below / total
        self._counts[:] = 0
        self._below = 0
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return what was noted since the last report."""
        return {"counts": self._counts.copy(), "below": self._below}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._counts = np.array(state["counts"], dtype=np.int64)
        self._below = state["below"]
