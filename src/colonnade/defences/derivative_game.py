"""The game of a defence of labels: one label turns a row's derivative around."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from colonnade.defences.contract import Defence, Guard
from colonnade.effects import Notes, Recall, Work
from colonnade.evaluation import HeldOut
from colonnade.layout import Layout
from colonnade.models import Sum
from colonnade.organisations import LabelHolder
from colonnade.privacy import Event
from colonnade.secure import Keystream
from colonnade.uplinks import Moment

__all__ = ["DerivativeGame"]

_PARTIES = ("one", "two", "three", "four")
_FAR = 1000.0  # bounds: how long a derivative is before it leaves
_ROWS = 4096  # of a batch


@dataclass(frozen=True)
class DerivativeGame:
    """All that leaves of a row, whose derivative points one way or, by its label, the other.

    A guard of the defence is played, so what is tried is what a run does: that rows are clipped for
    all parties together, that those who share a derivative, as of a sum, are sent one, and that
    noise suffices for a loss that is a mean over a batch. Four parties, of which two and two share
    one, put together what they were sent. Each row of a batch is a game of its own, for defences
    that treat rows alike and apart.

    Parameters
    ----------
    mechanism
        The defence.
    bound
        The largest norm that it keeps of the derivative of a row's own loss.
    claim
        What one use of a label is said to disclose.
    layout
        Of the run.
    """

    mechanism: Defence
    bound: float
    claim: Event
    layout: Layout

    @property
    def protects(self) -> str:
        """See ``Game``."""
        return "labels"

    def outcomes(self, changed: bool, games: int, noise: Keystream) -> NDArray[np.float64]:
        """See ``Game``."""
        guard, far = self._guard(noise), (-_FAR if changed else _FAR) * self.bound
        own = [torch.full((_ROWS, 1), far / _ROWS) for _ in _PARTIES[::2]]
        exact = {party: own[number // 2] for number, party in enumerate(_PARTIES)}
        seen = []
        for round in range(-(-games // _ROWS)):
            sent = guard.protected(exact, Moment(round))
            seen.append(torch.cat([sent[party] for party in _PARTIES], dim=1).double().sum(dim=1))
        return torch.cat(seen)[:games].numpy()

    def _guard(self, noise: Keystream) -> Guard:
        """Make a guard that draws from this noise, and let it begin."""
        (seed,) = struct.unpack("<q", noise.bytes(8))
        holder = LabelHolder("audit", torch.zeros(2), nn.Identity())
        widths = dict.fromkeys(_PARTIES, 1)
        layout = Layout(_PARTIES, "audit", widths, self.layout.rows, seed, simulated=True)
        guard = self.mechanism.guard(layout, Sum(), holder)
        course, answer = guard.prepare(HeldOut("games")).__await__(), None
        while True:
            try:
                effect = course.send(answer)
            except StopIteration:
                return guard
            match effect:
                case Recall():
                    answer = Notes(0)
                case Work():
                    answer = effect.function()
                case _:
                    answer = None
