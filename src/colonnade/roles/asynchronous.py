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

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from colonnade.effects import Expect, Ready, Receive, Work
from colonnade.links import Rows
from colonnade.models import take
from colonnade.roles.split import SKIPPED, SplitLabelHolder, SplitParty
from colonnade.uplinks import Moment

__all__ = ["AsynchronousLabelHolder", "AsynchronousParty"]

S = TypeVar("S")


async def _meanwhile(
    expect: Expect, steps: Iterable[S], take_it: Callable[[S, int], Awaitable[None]]
) -> int:
    """Take steps until a ``Receive`` of ``expect`` would return at once; return how many."""
    taken = 0
    upcoming = iter(steps)
    while not await Ready(expect):
        step = next(upcoming, None)
        if step is None:
            break
        await take_it(step, 2 + taken)  # the first step of a round is the exact one
        taken += 1
    return taken


class AsynchronousParty(SplitParty):
    """A party in the asynchronous exchange; parameters as of ``SplitParty``."""

    async def _train(self, rows: Rows, moment: Moment) -> None:
        embedding = await self._uplink.upload(self.bottom, rows, moment, self._saliency)
        sent = embedding.detach()
        taken = await _meanwhile(self._answer(), self._steps.steps(self._draws()), self._take)
        answer = (await Receive(self._answer())).only
        if answer.kind == SKIPPED:
            return
        if taken:
            embedding = await Work(
                "forward",
                lambda: self.bottom(take(self._features, rows), training=True),
                self.round,
                rows=len(rows),
            )
        await self._exact_step(embedding, sent, answer.body, rows, moment)


class AsynchronousLabelHolder(SplitLabelHolder):
    """The label holder in the asynchronous exchange; parameters as of ``SplitLabelHolder``."""

    async def _train(self, rows: Rows, moment: Moment) -> None:
        steps = self._steps.steps(self._draws())
        await _meanwhile(self._uplink.expect(moment), steps, self._take)
        await self._exchange(rows, moment)
