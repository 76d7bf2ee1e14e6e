r"""The asynchronous exchange: the split exchange with local steps while messages are under way.

Theory of operation. A round trip over a wide-area network takes longer than a step, and in the
split exchange (see ``split``) everybody waits for it. Here each organisation goes on meanwhile with
what it has, the local steps of its policy, one at a time until the message is there; a step that
has begun is finished. So CELU-VFL (Fu et al., VLDB 2022, Algorithm 1) trains with a ``Workset``. In
round t

1. party m sends z_m = h_m(x_m) of batch t, right after the exact step of round t - 1, and takes
   local steps until its derivative d_m is there;
2. the label holder takes local steps until all embeddings are there; then it computes its own, the
   loss and the derivatives, and sends these before its own exact step;
3. party m computes h_m(x_m) anew, since its parameters have moved on, and backpropagates d_m, the
   derivative at what it sent.

Where there is no time for a local step, or the policy has none, this is the split exchange to the
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from colonnade.agreement import Agreement, HolderSeat
from colonnade.defences import Guard
from colonnade.effects import Purpose, Work
from colonnade.evaluation import HeldOut
from colonnade.links import Link, Rows
from colonnade.local_updates import HolderStep
from colonnade.metrics import Metric
from colonnade.models import take
from colonnade.roles.local_steps import Meanwhile
from colonnade.roles.split import SKIPPED, SplitLabelHolder, SplitParty
from colonnade.uplinks import Moment

__all__ = ["AsynchronousLabelHolder", "AsynchronousParty"]


class AsynchronousParty(SplitParty):
    """A party in the asynchronous exchange; parameters as of ``SplitParty``."""

    async def _train(self, rows: Rows, moment: Moment) -> None:
        if await self._is_over():
            return
        steps = self._steps.steps(self._draws())
        local = Meanwhile(self._steps, steps, partial(self._take, self.round))
        upload = self._uplink.upload(self.bottom, rows, moment, self._saliency)
        embedding = await local.during(self._attributed(upload))
        sent = embedding.detach()
        answer = (await local.receive(self._answer())).only
        if answer.kind == SKIPPED:
            return
        if local.taken:
            embedding = await Work(
                "forward",
                lambda: self._embed(take(self._features, rows), training=True),
                self.round,
                rows=len(rows),
            )
        await self._exact_step(embedding, sent, answer.body, rows, moment)


class AsynchronousLabelHolder(SplitLabelHolder):
    """The label holder in the asynchronous exchange; parameters as of ``SplitLabelHolder``."""

    def __init__(
        self, agreement: Agreement, seat: HolderSeat, downlink: Link, guard: Guard
    ) -> None:
        super().__init__(agreement, seat, downlink, guard)
        self._interactive = agreement.method.uplink.interactive

    async def _train(self, rows: Rows, moment: Moment) -> None:
        local = self._local = self._meanwhile(self.round)
        await local.until(self._uplink.expect(moment))
        own, before = await self._own(rows, moment), local.taken
        collected = await local.during(self._uplink.collect(rows, moment))
        if local.taken > before:  # the uplink asked twice, and its own part has moved on
            own = await self._own(rows, moment)
        await self._answer(collected, own, rows, moment)

    async def _evaluated(self, held_out: HeldOut, metrics: Sequence[Metric]) -> dict[str, float]:
        if not self.done():
            moments = [moment for _, moment in held_out.moments(self.round, Purpose.EVALUATION)]
            local = self._meanwhile(self.round - 1, self._local.taken)
            # All pieces have come, or the first, where the next come only when it was answered.
            await local.until(self._uplink.expect(moments[0 if self._interactive else -1]))
            return await local.idle(super()._evaluated(held_out, metrics))
        return await super()._evaluated(held_out, metrics)

    def _meanwhile(self, round: int, taken: int = 0) -> Meanwhile[HolderStep]:
        """Return the steps that there are now, which count as those of ``round``."""
        steps = self._steps.steps(self._draws())
        return Meanwhile(self._steps, steps, partial(self._take, round), taken)
