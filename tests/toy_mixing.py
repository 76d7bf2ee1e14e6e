"""Modules that compute a row of a batch by others, and some that only look as if they did."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import MethodType

import torch
from torch import Tensor, nn

How = Callable[[Tensor], Tensor]


class Of(nn.Module):
    """A function of rows, as a module."""

    def __init__(self, how: How) -> None:
        super().__init__()
        self.how = how

    def forward(self, rows: Tensor) -> Tensor:
        return self.how(rows)


class Gated(nn.Module):
    """A branch that mixes, and begins at nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        return rows + self.gate * rows.mean(dim=0)


class Centred(nn.Module):
    """Batch normalisation by hand, in training alone."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows - rows.mean(dim=0) if self.training else rows


class Experts(nn.Module):
    """Two ways for rows to go, each of which drops out for the rows that go it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Dropout(0.25), nn.Dropout(0.75)

    def forward(self, rows: Tensor) -> Tensor:
        chosen, made = rows[:, 0] > 0, torch.empty_like(rows)
        made[chosen], made[~chosen] = self.one(rows[chosen]), self.other(rows[~chosen])
        return made


class AtTimes(nn.Module):
    """A part of another row in each, of so many of a hundred batches in training."""

    def __init__(self, percent: int) -> None:
        super().__init__()
        self.percent = percent

    def forward(self, rows: Tensor) -> Tensor:
        if self.training and torch.rand(()).item() > 1 - self.percent / 100:
            return 0.7 * rows + 0.3 * rows[torch.randperm(len(rows))]
        return rows


class DropsOutByItself(nn.Dropout):
    """What has the name of dropout, and a way of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=0) if self.training and torch.rand(()).item() < self.p else x


class AsksDropout(nn.Module):
    """Takes the mean off while a module within, which is torch's own, is trained."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, rows: Tensor) -> Tensor:
        rows = self.part(rows)
        return rows - rows.mean(dim=0) if self.part.training else rows


class AsksShare(nn.Module):
    """Takes the mean off in training, if there is a share that a module of torch's drops out."""

    def __init__(self, part: nn.Module, ask: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self.part, self.ask = part, ask

    def forward(self, rows: Tensor) -> Tensor:
        return rows - rows.mean(dim=0) if self.training and self.ask(self.part) else rows


class WrapsDropout(nn.Dropout):
    """Takes the mean off, and says that it is torch's own."""

    @wraps(nn.Dropout.forward)
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=0) if self.training and self.p else x


def dropout_hooked() -> nn.Module:
    """Return dropout with a hook that takes the mean off in training."""
    part = nn.Dropout(0.1)
    part.register_forward_hook(
        lambda part, _, made: made - made.mean(dim=0) if part.training else made
    )
    return part


def dropout_put_otherwise() -> nn.Module:
    """Return dropout whose way to compute was put in the place of torch's."""
    part = nn.Dropout(0.1)
    part.forward = MethodType(DropsOutByItself.forward, part)
    return part


def half_beside_the_others_mean(rows: Tensor) -> Tensor:
    """Add the mean of a batch's second half to its first."""
    half = len(rows) // 2
    return torch.cat([rows[:half] + rows[half:].mean(dim=0), rows[half:]])


def backwards(width: int) -> nn.Module:
    """Return a recurrent layer that begins at the last row."""
    layer = nn.LSTM(width, width)
    return Of(lambda rows: layer(rows.flip(0))[0].flip(0))


def routed(rows: Tensor) -> Tensor:
    """Compute some rows in one way, and the rest in another."""
    chosen, made = rows[:, 0] > 0, torch.empty_like(rows)
    made[chosen], made[~chosen] = rows[chosen].tanh(), rows[~chosen] / 2
    return made


def rounded_elsewhere(rows: Tensor) -> Tensor:
    """Round otherwise in each place of a batch."""
    return rows * (1 + 3e-7 * torch.arange(len(rows))[:, None])


def without_numbers(rows: Tensor) -> Tensor:
    """Come to no finite number here and there."""
    return torch.where(rows > 0.5, float("inf"), rows)


MIXING: dict[str, Callable[[int], nn.Module]] = {
    "beside the flipped batch": lambda _: Of(lambda h: (0.7 * h + 0.3 * h.flip(0)).tanh()),
    "the row behind": lambda _: Of(lambda h: h + h.roll(-1, 0)),
    "the row before": lambda _: Of(lambda h: h + h.roll(1, 0)),
    "the first row taken off": lambda _: Of(lambda h: h - h[:1]),
    "a sum of later rows": lambda _: Of(lambda h: h.flip(0).cumsum(0).flip(0)),
    "an LSTM backwards": backwards,
    "half beside the others' mean": lambda _: Of(half_beside_the_others_mean),
    "a place of its own": lambda _: Of(lambda h: h + torch.arange(len(h))[:, None]),
    "a branch that begins at nothing": lambda _: Gated(),
    "a mean that drops out": lambda _: nn.Sequential(Centred(), nn.Dropout()),
    "a mean in training and noise": lambda _: nn.Sequential(
        Centred(), Of(lambda h: h + 0.01 * torch.randn_like(h))
    ),
    "half of the batches": lambda _: AtTimes(50),
    "three batches of ten": lambda _: AtTimes(30),
    "one batch of ten": lambda _: AtTimes(10),
    "one batch of ten beside dropout": lambda _: nn.Sequential(nn.Dropout(), AtTimes(10)),
    "a dropout of its own": lambda _: DropsOutByItself(0.3),
    "a mean while dropout is on": lambda _: AsksDropout(nn.Dropout(0.1)),
    "a mean while slopes are drawn": lambda _: AsksDropout(nn.RReLU()),
    "a mean if a share is dropped out": lambda _: AsksShare(nn.Dropout(0.1), lambda it: it.p > 0),
    "a mean if slopes may differ": lambda _: AsksShare(nn.RReLU(), lambda it: it.lower < it.upper),
    "a mean if an LSTM drops out": lambda width: AsksShare(
        nn.LSTM(width, width, 2, dropout=0.1), lambda it: it.dropout > 0
    ),
    "a mean if attention drops out": lambda width: AsksShare(
        nn.MultiheadAttention(width, 1, dropout=0.1), lambda it: it.dropout > 0
    ),
    "a mean that passes for dropout": lambda _: WrapsDropout(0.1),
    "a mean by a hook of dropout": lambda _: dropout_hooked(),
    "a mean in the place of dropout": lambda _: dropout_put_otherwise(),
}


class Reckons(nn.modules.dropout._DropoutNd):
    """Drops out what it reckons itself."""

    p = property(lambda self: 0.25)

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.p, self.training)


class DropsBranches(nn.Module):
    """Stochastic depth: a branch that drops out, row by row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training:
            return rows + self.branch(rows)
        return rows + self.branch(rows) * (torch.rand(len(rows), 1) < 0.8) / 0.8


class AsSequences(nn.Module):
    """A layer of sequences, of which each row is one, of two steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, rows: Tensor) -> Tensor:
        made = self.layer(rows.view(len(rows), 2, -1))
        return (made[0] if isinstance(made, tuple) else made).flatten(1)


def as_pictures(width: int, layer: nn.Module, axes: int) -> nn.Module:
    """Return a layer of pictures, of which each number of a row is a channel."""
    return nn.Sequential(nn.Unflatten(1, (width, *axes * (1,))), layer, nn.Flatten())


APART: dict[str, Callable[[int], nn.Module]] = {
    "routed": lambda _: Of(routed),
    "rounded elsewhere": lambda _: Of(rounded_elsewhere),
    "drops out": lambda _: nn.Dropout(),
    "drops channels out of signals": lambda width: as_pictures(width, nn.Dropout1d(), 1),
    "drops channels out of pictures": lambda width: as_pictures(width, nn.Dropout2d(), 2),
    "drops channels out of volumes": lambda width: as_pictures(width, nn.Dropout3d(), 3),
    "drops out, and keeps the variance": lambda _: nn.AlphaDropout(0.3),
    "drops channels out, and keeps it": lambda width: as_pictures(
        width, nn.FeatureAlphaDropout(0.3), 2
    ),
    "drops out by a function": lambda _: Of(lambda h: nn.functional.dropout(h, 0.3)),
    "drops branches": DropsBranches,
    "an LSTM that drops out": lambda width: AsSequences(
        nn.LSTM(width // 2, width // 2, num_layers=2, dropout=0.3, batch_first=True)
    ),
    "attention that drops out": lambda width: AsSequences(
        nn.TransformerEncoderLayer(width // 2, 1, width, batch_first=True)
    ),
    "drops out as it reckons": lambda _: Reckons(),
    "has slopes by chance": lambda _: nn.RReLU(),
    "has slopes by chance, and drops out by a function": lambda _: nn.Sequential(
        nn.RReLU(), Of(lambda h: nn.functional.dropout(h, 0.3))
    ),
    "routed, and drops out": lambda _: Experts(),
    "has noise": lambda _: Of(lambda h: h + torch.rand_like(h)),
    "normalised": nn.LayerNorm,
}
