"""A toy of a secure sum: an uplink that somebody else might write, in a room of its own.

Parties add pairwise masks to fixed-point embeddings, so that only the sum tells anything. Its keys
come from the run's seed, which everybody knows: it protects nothing, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.disclosures import Disclosure
from colonnade.effects import Expect, Recall, Receive, Send, Work
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.flows import FixedSize, Flow
from colonnade.models import Additive, take
from colonnade.streams import StreamKey
from colonnade.uplinks import Fused, Uplink
from colonnade.wire import Purpose

SCALE = 2.0**24  # fixed point
BYTES = 8
KEY, KEYS, MASKED = "key", "keys", "masked"


@dataclass(frozen=True)
class MaskedWords:
    """Messages of a 64-bit word for each component."""

    fixed_size = True

    def at(self, round):
        return self

    def bytes_at_most(self, rows, width):
        return BYTES * rows * width

    def bytes_remembered(self, rows, width):
        return 0

    def warm_up(self, width):
        pass


@dataclass(frozen=True)
class Masked(Uplink):
    """Only the sum of the parties' embeddings reaches the label holder."""

    def check(self, fusion, stragglers):
        if not isinstance(fusion, Additive):
            raise ConfigurationError("a masked sum is all that fusion by sum or mean needs")

    def flows(self, layout, rows, purpose):
        holder, setup = layout.label_holder, Purpose.SETUP
        return tuple(
            flow
            for party, width in layout.party_widths.items()
            for flow in (
                Flow(party, (holder,), KEY, setup, FixedSize(BYTES), 0, 0, 0),
                Flow(
                    holder,
                    (party,),
                    KEYS,
                    setup,
                    FixedSize(BYTES * len(layout.parties)),
                    0,
                    0,
                    0,
                ),
                Flow(party, (holder,), MASKED, purpose, MaskedWords(), rows, width, 0),
            )
        )

    def disclosures(self, layout):
        return (
            Disclosure(
                "embeddings",
                "the label holder sees their sum, and could compute each: a toy",
                to="the label holder",
                sees="every party's embeddings, if it cares to",
                mechanism="toy masks",
            ),
        )

    def uploader(self, layout, party):
        return MaskedUploader(layout, party)

    def collector(self, layout, fusion, stragglers):
        return MaskedCollector(layout, fusion)


class MaskedUploader:
    def __init__(self, layout, party):
        self.layout = layout
        self.party = party
        self.keys = {}

    async def prepare(self, timetable):
        if not timetable.row_sets:  # the run is over
            return
        layout, start = self.layout, (await Recall()).incarnation
        key = StreamKey(layout.seed, self.party.name, "key", start)  # no mask is used twice
        own = key.words()[0].to_bytes(BYTES, "little")
        await Send(layout.label_holder, KEY, start, own, Purpose.SETUP)
        expect = Expect(KEYS, start, (layout.label_holder,), Purpose.SETUP)
        body = (await Receive(expect)).only.body
        if len(body) != BYTES * len(layout.parties):
            raise RemoteProtocolError(f"{layout.label_holder!r} sent keys of {len(body)} bytes")
        parts = [body[start : start + BYTES] for start in range(0, len(body), BYTES)]
        self.keys = dict(zip(layout.parties, parts, strict=True))

    async def upload(self, bottom, rows, moment, saliency=None):
        training = moment.purpose is Purpose.TRAINING
        embedding = await Work(
            "forward",
            lambda: bottom(take(self.party.features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        body = await Work(
            "encode", lambda: self.masked(embedding, moment), moment.round, moment.purpose
        )
        await Send(self.layout.label_holder, MASKED, moment.round, body, moment.purpose)
        return embedding

    def masked(self, embedding, moment):
        fixed = (embedding.detach().double() * SCALE).round().long().numpy().view(np.uint64)
        self.sent = fixed
        total, mine = fixed.copy(), self.party.name
        for other in self.layout.parties:
            if other != mine:
                mask = self.mask(sorted([mine, other]), moment, fixed.shape)
                total = total + mask if mine < other else total - mask
        return total.tobytes()

    def mask(self, pair, moment, shape):
        purpose = "/".join(self.keys[name].hex() for name in pair) + moment.purpose.label
        key = StreamKey(0, "pair", purpose, moment.round, moment.part).words()
        generator = np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
        return generator.integers(2**64, size=shape, dtype=np.uint64)

    def spent(self):
        return {}

    def delivered(self):
        return torch.from_numpy(self.sent.view(np.int64) / SCALE).float()

    def report(self):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class MaskedCollector:
    def __init__(self, layout, fusion):
        self.layout = layout
        self.fusion = fusion

    async def prepare(self, timetable):
        if not timetable.row_sets:  # the run is over
            return
        start = (await Recall()).incarnation
        got = await Receive(Expect(KEY, start, self.layout.parties, Purpose.SETUP))
        for message in got:
            if len(message.body) != BYTES:
                raise RemoteProtocolError(
                    f"{message.sender!r} sent a key of {len(message.body)} bytes"
                )
        keys = b"".join(message.body for message in got)
        for party in self.layout.parties:
            await Send(party, KEYS, start, keys, Purpose.SETUP)

    def expect(self, moment):
        return Expect(MASKED, moment.round, self.layout.parties, moment.purpose)

    async def collect(self, rows, moment):
        got = await Receive(self.expect(moment))
        return await Work("decode", lambda: self.unmasked(got, rows), moment.round, moment.purpose)

    def unmasked(self, got, rows):
        width = self.layout.widths[self.layout.parties[0]]
        total = np.zeros((len(rows), width), dtype=np.uint64)
        for message in got:
            if len(message.body) != total.nbytes:
                raise RemoteProtocolError(f"{message.sender!r} sent {len(message.body)} bytes")
            total += np.frombuffer(message.body, dtype=np.uint64).reshape(total.shape)
        sum_ = torch.from_numpy(total.view(np.int64) / SCALE).float()
        return MaskedSum(self.fusion, sum_, self.layout.parties)

    def recalled(self, state):
        return MaskedSum(self.fusion, state["total"], tuple(state["present"]))

    def report(self):
        return {}

    def spent(self):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@dataclass(frozen=True, eq=False)
class MaskedSum:
    fusion: Additive
    total: torch.Tensor
    present: tuple[str, ...]

    def fuse(self, own):
        return self.fused(self.total, own)

    def differentiable(self, own):
        leaf = self.total.detach().requires_grad_()
        return Fused(self.fused(leaf, own), dict.fromkeys(self.present, leaf))

    def fused(self, total, own):
        members = len(self.present) + (own is not None)
        return self.fusion.of_total(total if own is None else total + own, members)

    def state_dict(self):
        return {"total": self.total, "present": self.present}
