"""Roles and drivers that try one part of a method, or alter what another role does."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.drivers import Assignment, Elsewhere, Processes, RunRecord
from colonnade.drivers.around import Around, Before
from colonnade.effects import Boundary, Effect, Ready, Role, Send, Work, sets_up
from colonnade.evaluation import HeldOut
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Learner
from colonnade.organisations import Party
from colonnade.testing.subjects import TRAINING, WIDTH, MethodSubject
from colonnade.uplinks import Collected, Collector, Fused, Moment, Uploader
from colonnade.wire import Purpose

__all__ = ["Packed", "Preparing", "Spoiling", "halves", "ones"]


class Packed(Processes):
    """Processes that are forked, of roles that could be sent."""

    def run(self, roles: Sequence[Role | Elsewhere], assignment: Assignment) -> RunRecord:
        """Pack each role before it is forked."""
        for role in roles:
            assert not isinstance(role, Elsewhere)
            Elsewhere(role.name, (), partial(copy, role)).check()
        return super().run(roles, assignment)


@dataclass(frozen=True)
class Spoiling(Around):
    """A driver under which the first message of a kind has another body than was sent."""

    sender: str
    kind: str
    purpose: Purpose
    spoil: Callable[[bytes], bytes]

    def instead(self, role: Role) -> Role:
        """Return a role that spoils it, for who sends it."""
        return _Spoilt(role, self) if role.name == self.sender else role


class _Spoilt(Before):
    """A role, one of whose messages is spoilt as it leaves."""

    def __init__(self, role: Role, how: Spoiling) -> None:
        super().__init__(role)
        self._how = how
        self._done = False

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        how = self._how
        if self._done or not isinstance(effect, Send) or not effect.body:
            return (yield effect)
        if (effect.kind, effect.purpose) == (how.kind, how.purpose):
            self._done = True
            effect = replace(effect, body=how.spoil(effect.body))
        return (yield effect)


class Preparing(Before):
    """A role of whose effects before its first boundary those are noted that do not set up."""

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        self.others: list[Effect[Any]] = []
        self._begun = False

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        self._begun = self._begun or isinstance(effect, Boundary)
        if not self._begun and not sets_up(effect):
            self.others.append(effect)
        return (yield effect)


def ones() -> Collected:
    """Return collected embeddings that are ones."""
    return _Ones()


class _Ones:
    """Embeddings that are ones."""

    present = ("party_0",)

    def fuse(self, own: Tensor | None) -> Tensor:
        return torch.ones(9, WIDTH)

    def differentiable(self, own: Tensor | None) -> Fused:
        leaf = torch.ones(9, WIDTH, requires_grad=True)
        return Fused(leaf, {"party_0": leaf})

    def state_dict(self) -> dict[str, Any]:
        return {}


def halves(subject: MethodSubject) -> tuple[_KeepingHolder, Sequence[Role]]:
    """Return roles that try the halves of the uplink, the label holder's apart and among them."""
    federation = subject.federation(subject.method, True)
    agreement = federation.agreement(subject.method, TRAINING)
    layout, method = agreement.layout, subject.method
    holder = _KeepingHolder(
        layout, method.uplink.collector(layout, method.fusion, method.stragglers)
    )
    parties = [
        _SendingParty(layout, party, method.uplink.uploader(layout, party))
        for party in federation.parties
    ]
    return holder, [*parties, holder]


class _OneRound:
    """A role of one round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round = state["round"]


class _SendingParty(_OneRound):
    def __init__(self, layout: Layout, party: Party, uploader: Uploader) -> None:
        super().__init__(party.name)
        self._party = party
        self._layout = layout
        self._uploader = uploader

    @property
    def peers(self) -> Sequence[str]:
        return (self._layout.label_holder, *self._layout.parties)

    async def run(self) -> None:
        rows: Rows = np.arange(9, dtype=np.int64)
        await self._uploader.prepare(HeldOut("tried", [rows]))
        await Boundary(0)
        await self._uploader.upload(Learner(self._party.bottom), rows, Moment(0))
        self._uploader.delivered()
        self.round = 1


class _KeepingHolder(_OneRound):
    def __init__(self, layout: Layout, collector: Collector) -> None:
        super().__init__(layout.label_holder)
        self.checked = False
        self._layout = layout
        self._collector = collector

    @property
    def peers(self) -> Sequence[str]:
        return self._layout.parties

    async def run(self) -> None:
        rows: Rows = np.arange(9, dtype=np.int64)
        await self._collector.prepare(HeldOut("tried", [rows]))
        await Boundary(0)
        expect = self._collector.expect(Moment(0))
        assert set(expect.sources) <= set(self._layout.parties)
        collected = await self._collector.collect(rows, Moment(0))
        assert not await Ready(expect), "what was collected is still expected"
        width = self._layout.own_width
        assert width is not None
        own = torch.arange(9.0 * width).view(9, width) / 9
        await Work("top", lambda: self._check(collected, own), 0)
        self.checked = True
        self.round = 1

    def _check(self, collected: Any, own: Tensor) -> None:
        kept = self._collector.recalled(collected.state_dict())
        once = collected.fuse(own)
        for again in (collected.fuse(own), kept.fuse(own), collected.differentiable(own).value):
            assert torch.equal(once, again)
        assert not once.requires_grad, "what was collected carries a graph"
        assert set(collected.present) <= set(self._layout.parties)
        own = own.clone().requires_grad_()
        fused = collected.differentiable(own)
        torch.autograd.backward(fused.value.square().sum())
        assert set(fused.derivatives()) == set(collected.present)
        assert own.grad is not None
        assert torch.equal(once, collected.fuse(own.detach())), "a derivative changed the value"
