"""The gradient of the joined model, in one place: what convergence is measured by."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn

from colonnade.batches import pieces
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.models import evaluating, take

__all__ = ["loss_and_gradient"]


def loss_and_gradient(
    federation: Federation, method: Method, models: Mapping[str, Mapping[str, nn.Module]]
) -> dict[str, float]:
    """Return the training loss and its gradient's squared norm, at exact embeddings.

    f(theta) = mean over all training rows of loss(h_0(fuse(h_1(x_1), ..., h_M(x_M))), y), and
    ||grad f||^2 over the parameters of all models; in evaluation mode, so without dropout.

    Parameters
    ----------
    federation, method
        Who holds what, and how embeddings are fused.
    models
        Everybody's models, as ``Run.models`` has them.

    Examples
    --------
    >>> from torch import nn
    >>> from colonnade import LabelHolder, Party, Training
    >>> from colonnade.methods import svfl
    >>> x, y = torch.randn(50, 4), torch.randint(2, (50,))
    >>> insurer = LabelHolder("insurer", y, nn.Linear(3, 2))
    >>> federation = Federation([Party("bank", x, nn.Linear(4, 3))], insurer)
    >>> run = federation.train(svfl())
    >>> sorted(loss_and_gradient(federation, svfl(), run.models))
    ['gradient', 'loss']
    """
    holder = federation.label_holder
    members = [*federation.parties, *([own] if (own := holder.as_party()) else [])]
    bottoms = [models[member.name]["bottom"] for member in members]
    modules: list[Any] = [*bottoms, models[holder.name]["top"]]
    parameters = [p for module in modules for p in module.parameters()]
    rows = federation.train_rows
    total, gradients = 0.0, [torch.zeros_like(p) for p in parameters]
    with ExitStack() as modes, torch.enable_grad():
        for module in modules:
            modes.enter_context(evaluating(module))
        for some in pieces(np.asarray(rows), 8192):
            embeddings = [
                bottom(take(member.features, some))
                for bottom, member in zip(bottoms, members, strict=True)
            ]
            output = models[holder.name]["top"](method.fusion(embeddings))
            loss = federation.loss(output, holder.labels[torch.from_numpy(some)])
            share = len(some) / len(rows)
            total += share * loss.item()
            for whole, part in zip(gradients, torch.autograd.grad(loss, parameters), strict=True):
                whole += share * part
    squared = sum(float(gradient.double().square().sum()) for gradient in gradients)
    return {"loss": total, "gradient": squared}
