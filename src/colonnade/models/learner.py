"""A model together with its optimiser: what an organisation trains and keeps to itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Features", "Learner", "OptimiserFactory", "take"]

Features: TypeAlias = Tensor | Mapping[str, Tensor]
"""Inputs of a bottom model, first axis the rows: a tensor, or several by name."""

OptimiserFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""Makes an optimiser, e.g. ``partial(torch.optim.Adam, lr=3e-3)``."""


def take(features: Features, rows: NDArray[np.int64]) -> Any:
    """Return the given rows of the features, in the form the bottom model takes.

    >>> take(torch.arange(6.0).view(3, 2), np.array([2, 0]))
    tensor([[4., 5.],
            [0., 1.]])
    """
    index = torch.from_numpy(rows)
    if isinstance(features, Tensor):
        return features.index_select(0, index)
    return {name: column.index_select(0, index) for name, column in features.items()}


class Learner:
    """A module and the optimiser of its parameters.

    Parameters
    ----------
    module
        Any torch module.
    optimiser
        Makes the optimiser of its parameters; a module without parameters needs none.

    Examples
    --------
    >>> from functools import partial
    >>> learner = Learner(nn.Linear(2, 1), partial(torch.optim.SGD, lr=0.1))
    >>> learner(torch.zeros(3, 2), training=True).sum().backward()
    >>> learner.step()
    """

    def __init__(self, module: nn.Module, optimiser: OptimiserFactory) -> None:
        self.module = module
        parameters = [p for p in module.parameters() if p.requires_grad]
        self.optimiser = optimiser(parameters) if parameters else None

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        """Apply the module, as for training or (without gradients) as for evaluation."""
        if self.module.training is not training:
            self.module.train(training)
        with torch.set_grad_enabled(training):
            output: Tensor = self.module(inputs)
        return output

    def step(self) -> None:
        """Let the optimiser take one step along the accumulated gradients, and clear them."""
        if self.optimiser is not None:
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Return parameters, buffers and the optimiser's state."""
        return {
            "module": dict(self.module.state_dict()),
            "optimiser": self.optimiser.state_dict() if self.optimiser else {},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.module.load_state_dict(state["module"])
        if self.optimiser is not None:
            # Torch would share the tensors of the state rather than copy them.
            self.optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))
