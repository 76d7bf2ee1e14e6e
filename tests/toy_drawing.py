"""Models and optimisers that draw from torch's generator where few do."""

from __future__ import annotations

import copy

import torch
from torch import nn


class AlwaysDrops(nn.Dropout):
    """Drops out in evaluation too, as of Monte Carlo."""

    def forward(self, x):
        return nn.functional.dropout(x, self.p, training=True)


class Keeps(nn.Module):
    """Adds what it keeps in a buffer."""

    def __init__(self, width=2):
        super().__init__()
        self.register_buffer("kept", torch.zeros(width))

    def forward(self, x):
        return x + 0.1 * self.kept

    def draw(self):
        self.kept = torch.randn(self.kept.shape)


class AsItComputes(Keeps):
    def forward(self, x):
        self.kept.copy_(torch.randn(self.kept.shape))
        return super().forward(x)


class AsItIsTrained(Keeps):
    def train(self, mode=True):
        if mode:
            self.draw()
        return super().train(mode)


class AsItMoves(Keeps):
    def _apply(self, function, *given, **named):
        super()._apply(function, *given, **named)
        self.draw()
        return self


class AsItIsCopied(Keeps):
    def __deepcopy__(self, memo):
        other = type(self)(len(self.kept))
        other.training = self.training
        other.draw()
        return other


class AsItLoads(Keeps):
    def _load_from_state_dict(self, *given, **named):
        super()._load_from_state_dict(*given, **named)
        self.draw()


class AsItSaves(Keeps):
    def _save_to_state_dict(self, *given, **named):
        torch.rand(1)
        super()._save_to_state_dict(*given, **named)


class AsItIsAsked(nn.Linear):
    def parameters(self, *given, **named):
        torch.rand(1)
        return super().parameters(*given, **named)


class Saving(torch.optim.SGD):
    def state_dict(self):
        torch.rand(1)
        return super().state_dict()


class Loading(torch.optim.SGD):
    def load_state_dict(self, state):
        torch.rand(1)
        super().load_state_dict(copy.copy(state))
