"""Sparse gradients: which parameters have them, and which optimisers take them."""

from __future__ import annotations

import torch
from torch import nn

from colonnade.errors import ConfigurationError
from colonnade.models.learner import OptimiserFactory, trained_parameters
from colonnade.models.trial import made

__all__ = ["check_gradients", "sparse_parameters"]

# Said as it is: unless somebody says it, torch warns of it at the first sparse step.
_invariants = torch.sparse.check_sparse_tensor_invariants
if not _invariants.is_enabled():  # type: ignore[no-untyped-call]  # torch's
    _invariants.disable()  # type: ignore[no-untyped-call]


def sparse_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters whose gradients are sparse, as torch's tables have it.

    >>> [tuple(p.shape) for p in sparse_parameters(nn.Embedding(5, 2, sparse=True))]
    [(5, 2)]
    """
    tables = (nn.Embedding, nn.EmbeddingBag)
    found = [m.weight for m in module.modules() if isinstance(m, tables) and m.sparse]
    return [weight for weight in found if isinstance(weight, nn.Parameter) and weight.requires_grad]


def check_gradients(owner: str, module: nn.Module, optimiser: OptimiserFactory) -> None:
    """Refuse an optimiser that cannot train a module, since gradients of the module are sparse.

    It is tried on small parameters of the same kinds: it must take them, and remember of them what
    a checkpoint can hold and what does not grow. (SGD with momentum takes them, and remembers every
    row that ever was in a batch, as often as it was.)

    Parameters
    ----------
    owner
        Whose module it is, for the message.
    module, optimiser
        What is to be trained, and what makes the optimiser.

    Raises
    ------
    ConfigurationError
        If the optimiser cannot, or cannot be made.
    """
    sparse = {id(p) for p in sparse_parameters(module)}
    if not sparse:
        return
    kinds = [id(p) in sparse for p in trained_parameters(module)]
    tried = [nn.Parameter(torch.zeros(2, 1)) for _ in kinds]
    trial = made("optimiser", owner, optimiser, tried)
    try:
        for _ in range(2):  # many remember something from the second step on only
            for p, is_sparse in zip(tried, kinds, strict=True):
                p.grad = torch.ones(2, 1).to_sparse(1) if is_sparse else torch.ones(2, 1)
            trial.step()
        taken = all(
            value.layout == torch.strided
            for state in trial.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        )
    except Exception:  # which, every optimiser decides
        taken = False
    if not taken:
        raise ConfigurationError(
            f"the optimiser {type(trial).__name__} of {owner!r} does not take the sparse gradients "
            "of its embedding tables; take Adagrad or SGD, without momentum or weight decay, or "
            "make the model with sparse_gradients=False"
        )
