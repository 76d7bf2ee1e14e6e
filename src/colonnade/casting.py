"""Casting: which roles a method gives to the organisations of a federation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from colonnade.batches import BatchPlan
from colonnade.exchanges import Relay, Split
from colonnade.local_updates import Consecutive
from colonnade.methods import Method
from colonnade.models import Additive, Learner, parameter_count
from colonnade.organisations import LabelHolder, Party
from colonnade.roles import (
    CodesReceiver,
    CodesSender,
    EvaluationPlan,
    RelayLabelHolder,
    RelayParty,
    SplitLabelHolder,
    SplitParty,
    TotalReceiver,
    TotalSender,
    TrainingLabelHolder,
    TrainingParty,
)
from colonnade.roles.evaluate import Metrics
from colonnade.roles.rounds import Loss
from colonnade.roles.stopping import Judge

__all__ = ["Cast", "max_body_bytes"]

Roles = dict[str, TrainingParty | TrainingLabelHolder]


def max_body_bytes(
    method: Method, widths: dict[str, int], parameters: int, rows: int, holder: str
) -> int:
    """Return the largest body that any message may have.

    Parameters
    ----------
    method
        What travels.
    widths
        Of every organisation's embeddings.
    parameters
        Of the top model.
    rows
        The most rows that travel at once.
    holder
        The label holder's name.
    """
    up = {
        name: max(link.bytes_at_most(rows, width) for link in method.uplink.links)
        for name, width in widths.items()
    }
    match method.exchange:
        case Split(downlink=downlink):
            down = [downlink.bytes_at_most(rows, width) for width in widths.values()]
        case Relay(top=top):
            forwarded = sum(most + 4 for name, most in up.items() if name != holder)
            total = 4 * rows * max(widths.values())
            down = [top.bytes_at_most(1, parameters), forwarded, total]
    return max(*up.values(), *down)


@dataclass(frozen=True)
class Cast:
    """Everything that roles are made of.

    Parameters
    ----------
    method
        How they train.
    parties, label_holder
        Who takes part.
    widths
        Of every organisation's embeddings, in party order, the label holder last if it has columns.
    rows
        Of the aligned table.
    loss, metrics, judge
        The label holder's.
    batches, evaluation
        Which rows are used when.
    seed
        The run's seed.
    """

    method: Method
    parties: Sequence[Party]
    label_holder: LabelHolder
    widths: dict[str, int]
    rows: int
    loss: Loss
    metrics: Metrics
    judge: Judge | None
    batches: BatchPlan
    evaluation: EvaluationPlan
    seed: int

    def roles(self) -> Roles:
        """Return a role for every organisation, in party order, the label holder last."""
        match self.method.exchange:
            case Split() as split:
                return self._split(split)
            case Relay() as relay:
                return self._relay(relay)

    def _split(self, exchange: Split) -> Roles:
        link, widths = exchange.downlink, self._party_widths()
        roles: Roles = {
            party.name: SplitParty(
                downlink=link.receiver(
                    self.rows, widths[party.name], f"parties/{party.name}/derivative"
                ),
                correction=exchange.correction,
                local_updates=self.method.local_updates,
                **self._party(party),
            )
            for party in self.parties
        }
        roles[self.label_holder.name] = SplitLabelHolder(
            downlinks={
                name: link.sender(self.rows, width, f"label-holder/{name}/derivative")
                for name, width in widths.items()
            },
            local_updates=self.method.local_updates,
            **self._holder(),
        )
        return roles

    def _relay(self, exchange: Relay) -> Roles:
        holder, local_updates = self.label_holder, self.method.local_updates
        assert isinstance(local_updates, Consecutive)  # as Method demands
        size = parameter_count(holder.top)
        roles: Roles = {
            party.name: RelayParty(
                labels=holder.labels,
                loss=self.loss,
                # Only the label holder trains it.
                top=Learner(copy.deepcopy(holder.top), device=party.device),
                top_link=exchange.top.receiver(1, size, f"parties/{party.name}/top"),
                others=self._others(party.name, exchange),
                steps=local_updates.steps,
                **self._party(party),
            )
            for party in self.parties
        }
        own = self.widths.get(holder.name)
        uplink, place = self.method.uplink.link, "label-holder/embedding"
        link = None if own is None else uplink.sender(self.rows, own, place)
        sender = CodesSender if exchange.others == "codes" else TotalSender
        roles[holder.name] = RelayLabelHolder(
            others=sender(holder.name, link, self.seed),
            steps=local_updates.steps,
            top_link=exchange.top.sender(1, size, "label-holder/top"),
            **self._holder(),
        )
        return roles

    def _others(self, name: str, exchange: Relay) -> CodesReceiver | TotalReceiver:
        fusion, holder = self.method.fusion, self.label_holder.name
        if exchange.others == "total":
            assert isinstance(fusion, Additive)
            return TotalReceiver(holder, self.widths[name], len(self.widths), fusion, self.seed)
        links = {
            other: self.method.uplink.link.receiver(
                self.rows, width, f"parties/{name}/{other}/embedding"
            )
            for other, width in self.widths.items()
            if other != name
        }
        return CodesReceiver(holder, links, list(self.widths).index(name), fusion, self.seed)

    def _party_widths(self) -> dict[str, int]:
        return {party.name: self.widths[party.name] for party in self.parties}

    def _party(self, party: Party) -> dict[str, Any]:
        holder, method = self.label_holder.name, self.method
        return {
            "name": party.name,
            "label_holder": holder,
            "bottom": learner(party.bottom, party),
            "features": party.features,
            "batches": self.batches,
            "evaluation": self.evaluation,
            "uplink": method.uplink.uploader(
                party.name, holder, self.rows, self.widths[party.name], self.seed
            ),
            "seed": self.seed,
        }

    def _holder(self) -> dict[str, Any]:
        holder, method = self.label_holder, self.method
        return {
            "name": holder.name,
            "top": learner(holder.top, holder),
            "labels": holder.labels,
            "loss": self.loss,
            "bottom": None if holder.bottom is None else learner(holder.bottom, holder),
            "features": holder.features,
            "parties": tuple(party.name for party in self.parties),
            "batches": self.batches,
            "evaluation": self.evaluation,
            "uplink": method.uplink.collector(
                self._party_widths(), self.rows, method.fusion, self.seed
            ),
            "metrics": self.metrics,
            "judge": self.judge,
            "seed": self.seed,
        }


def learner(module: nn.Module, owner: Party | LabelHolder) -> Learner:
    """Return a copy of the module with its owner's optimiser and scheduler."""
    return Learner(copy.deepcopy(module), owner.optimiser, owner.scheduler, owner.device)
