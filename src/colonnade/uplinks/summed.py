"""What the label holder has where it learned a sum of embeddings and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from colonnade.models import Additive
from colonnade.uplinks.contract import Fused

__all__ = ["Summed"]


@dataclass(frozen=True, eq=False)
class Summed:
    """The sum of some parties' embeddings of a batch.

    Parameters
    ----------
    fusion
        Which needs no more than that.
    total
        The sum, ``[B, E]``.
    present
        Whose embeddings are in it; all are owed the same derivative.
    """

    fusion: Additive
    total: Tensor
    present: tuple[str, ...]

    @classmethod
    def recalled(cls, fusion: Additive, state: Mapping[str, Any]) -> Summed:
        """Return the value whose ``state_dict`` this was."""
        return cls(fusion, state["total"], tuple(state["present"]))

    def fuse(self, own: Tensor | None) -> Tensor:
        """Return the top model's input."""
        return self._fused(self.total, own)

    def differentiable(self, own: Tensor | None) -> Fused:
        """Return the same, with one leaf for all parties."""
        leaf = self.total.detach().requires_grad_()
        return Fused(self._fused(leaf, own), dict.fromkeys(self.present, leaf))

    def _fused(self, total: Tensor, own: Tensor | None) -> Tensor:
        if own is None:
            return self.fusion.of_total(total, len(self.present))
        return self.fusion.of_total(total + own, len(self.present) + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return {"total": self.total, "present": self.present}
