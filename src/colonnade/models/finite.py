"""Whether a tensor holds finite numbers only."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["all_finite"]


def all_finite(values: Tensor) -> bool:
    """Tell whether no value of a tensor of floats is infinite or no number.

    The least and the greatest value are, where all are: to find those takes one pass and no memory,
    where ``torch.isfinite`` makes several tensors of the same size.

    Examples
    --------
    >>> all_finite(torch.tensor([1.0, -3.0])), all_finite(torch.tensor([1.0, torch.nan, -3.0]))
    (True, False)
    """
    if values.numel() == 0:
        return True
    least, greatest = torch.aminmax(values)
    return bool(least.isfinite() & greatest.isfinite())
