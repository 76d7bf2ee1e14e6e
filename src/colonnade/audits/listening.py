"""What reaches the label holder: held-out rows, sent once more through the run's own uplink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.agreement import Agreement
from colonnade.batches import pieces
from colonnade.drivers import Assignment, Simulate
from colonnade.effects import Boundary, Purpose, Role
from colonnade.evaluation import HeldOut
from colonnade.flows import Limits
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Fusion, take
from colonnade.organisations import Party
from colonnade.roles import PredictParty
from colonnade.stragglers import Wait
from colonnade.uplinks import Collected, Uplink

__all__ = ["heard_of"]

_AT_ONCE = 1024


def heard_of(
    agreement: Agreement,
    parties: Sequence[Party],
    bottoms: Mapping[str, nn.Module],
    rows: Rows,
) -> dict[str, Tensor]:
    """Return what the label holder learns of these rows by each party: its embedding, or the sum.

    Parameters
    ----------
    agreement
        What all share.
    parties
        Whose rows.
    bottoms
        The trained bottom model of each.
    rows
        Which, none of them trained on.
    """
    whole, method = agreement.layout, agreement.method
    layout = replace(whole, rows=len(rows))
    uplink = method.uplink.of_new_rows()
    new = HeldOut("audit", pieces(np.arange(len(rows), dtype=np.int64), _AT_ONCE))
    listener = _Listener(layout, uplink, method.fusion, new)
    senders = [
        PredictParty(
            layout,
            replace(party, features=take(party.features, rows), bottom=bottoms[party.name]),
            uplink,
            new,
        )
        for party in parties
    ]
    roles: list[Role] = [*senders, listener]
    flows = uplink.flows(layout, min(len(rows), _AT_ONCE), Purpose.PREDICTION)
    Simulate().run(roles, Assignment(seed=layout.seed, limits=Limits.of(flows, len(new.pieces))))
    heard: dict[str, list[Tensor]] = {party.name: [] for party in parties}
    for collected in listener.kept:
        for name, leaf in collected.differentiable(None).leaves.items():
            heard[name].append(leaf.detach().cpu())
    return {name: torch.cat(parts) for name, parts in heard.items()}


class _Listener:
    """A label holder that keeps all that it collects, and computes nothing from it."""

    def __init__(self, layout: Layout, uplink: Uplink, fusion: Fusion, new: HeldOut) -> None:
        self.name = layout.label_holder
        self.round = 0
        self.kept: list[Collected] = []
        self.peers = layout.parties
        self._new = new
        self._uplink = uplink.collector(layout, fusion, Wait())

    async def run(self) -> None:
        await self._uplink.prepare(self._new)
        await Boundary(self.round)
        for rows, moment in self._new.moments(self.round, Purpose.PREDICTION):
            self.kept.append(await self._uplink.collect(rows, moment))
        self.round += 1

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round = state["round"]
