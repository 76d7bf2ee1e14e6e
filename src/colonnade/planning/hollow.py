"""A federation that sends what another would send, and computes nothing.

Its bottoms return zeros of the right width, its top has no parameters, and a link whose messages
depend on their values is replaced by one that always sends the longest. Everything else is the real
thing: batches, roles, envelopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.drawing import drawing_apart
from colonnade.federation import Federation
from colonnade.links import Delivery, Link, LinkReceiver, LinkSender, Rows
from colonnade.metrics import Metric
from colonnade.models import LinearInPowers, is_linear_in_powers, parameter_count
from colonnade.organisations import LabelHolder, Party
from colonnade.streams import StreamKey

__all__ = ["hollow_federation", "sized"]


def sized(link: Link) -> Link:
    """Return the link with messages that have their size whatever the values."""
    return link if link.fixed_size else _Longest(link)


class _Hollow(nn.Module):
    """Returns zeros of a width, for as many rows as it is given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), self._width, requires_grad=torch.is_grad_enabled())


class _HollowLinear(_Hollow):
    """Has weights and powers of a form, all zeros."""

    def __init__(self, bottom: LinearInPowers) -> None:
        super().__init__(bottom.weight.shape[-1])
        nothing = torch.zeros_like(bottom.weight, device="cpu")
        self.weight = nn.Parameter(nothing, requires_grad=False)

    def powers(self, x: Tensor) -> Tensor:
        return torch.zeros(1, 1, 1).expand(len(x), *self.weight.shape[:-1])


class _HollowTop(nn.Module):
    """Returns its input; has so many parameters and uses none."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(parameters))

    def forward(self, x: Tensor) -> Tensor:
        return x


def _sum(predictions: Tensor, labels: Tensor) -> Tensor:
    return predictions.sum()


def _zero(scores: Tensor, targets: Tensor) -> float:
    return 0.0


@drawing_apart()
def hollow_federation(federation: Federation) -> Federation:
    """Return a federation that sends as much, and learns nothing."""
    nothing = torch.zeros(1, 1).expand(federation.rows, 1)
    own = federation.label_holder.as_party()
    name = federation.label_holder.name
    return Federation(
        [
            Party(
                p.name,
                nothing,
                _HollowLinear(p.bottom)
                if is_linear_in_powers(p.bottom)
                else _Hollow(federation.widths[p.name]),
                secrets=p.secrets,
            )
            for p in federation.parties
        ],
        LabelHolder(
            name,
            federation.label_holder.labels,
            _HollowTop(parameter_count(federation.label_holder.top)),
            _sum,
            features=None if own is None else nothing,
            bottom=None if own is None else _Hollow(federation.widths[name]),
            learned=federation.label_holder.learned,
        ),
        federation.train_rows,
        federation.test_rows,
        [Metric("none", True, _zero)],
        federation.validation_rows,
    )


@dataclass(frozen=True)
class _Longest:
    """A link whose every message is as long as the given link's can be."""

    link: Link

    @property
    def delivery(self) -> Delivery:
        return self.link.delivery

    @property
    def fixed_size(self) -> bool:
        return True

    def held_out(self) -> Link:
        return replace(self, link=self.link.held_out())

    def at(self, round: int) -> Link:
        return replace(self, link=self.link.at(round))

    def sender(self, rows: int, width: int, name: str) -> LinkSender:
        return _LongestEnd(self.link, width)

    def receiver(self, rows: int, width: int, name: str) -> LinkReceiver:
        return _LongestEnd(self.link, width)

    def warm_up(self, width: int) -> None:
        self.link.warm_up(width)  # which refuses what it cannot send

    def bytes_at_most(self, rows: int, width: int) -> int:
        return self.link.bytes_at_most(rows, width)

    def bytes_remembered(self, rows: int, width: int) -> int:
        return 0


@dataclass(frozen=True)
class _LongestEnd:
    link: Link
    width: int

    def send(self, x: Tensor, rows: Rows, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        return bytes(self.link.at(key.round).bytes_at_most(len(rows), self.width))

    def receive(self, body: bytes, rows: Rows, key: StreamKey) -> Tensor:
        return torch.zeros(len(rows), self.width)

    delivered = receive

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass
