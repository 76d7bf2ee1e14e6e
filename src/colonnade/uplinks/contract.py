"""What an uplink is: how a batch's embeddings become the top model's input.

An uplink is a frozen value that answers for itself: which messages will travel (``flows``), who
learns what (``disclosures``), which rounds and policies it can live with. It makes two halves. The
party's half evaluates the bottom model on the rows of a batch and sends what the uplink sends; the
label holder's half receives, and gives a ``Collected``, a value that can be kept and fused with a
fresh own embedding as often as a role likes. An uplink may reveal every embedding to the label
holder, or only their sum, or an interpolation of them; no role fuses by itself, so none has to know
which.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

from colonnade.batches import BatchPlan
from colonnade.disclosures import Disclosure
from colonnade.effects import Expect, Purpose
from colonnade.flows import Flow
from colonnade.layout import Layout
from colonnade.links import Delivery, Link, LinkReceiver, LinkSender, Rows
from colonnade.models import Fusion
from colonnade.organisations import Party
from colonnade.privacy import Game
from colonnade.stragglers import Stragglers, Wait
from colonnade.streams import StreamKey

__all__ = [
    "Collected",
    "Collector",
    "Embedder",
    "Ended",
    "Fused",
    "Itemised",
    "Moment",
    "Relayable",
    "Timetable",
    "Uplink",
    "Uploader",
]


@dataclass(frozen=True, slots=True)
class Moment:
    """When in a protocol something happens.

    Parameters
    ----------
    round
        The round.
    purpose
        Training, or evaluation or prediction on other rows.
    part
        Which piece, where rows travel in several.
    """

    round: int
    purpose: Purpose = Purpose.TRAINING
    part: int = 0

    def key(self, seed: int, origin: str, kind: str) -> StreamKey:
        """Return the stream of randomness for a message of ``kind`` that ``origin`` encodes now."""
        return StreamKey(seed, origin, f"{self.purpose.label}/{kind}", self.round, self.part)


class Timetable(Protocol):
    """Which rows travel when: all organisations know it beforehand, also of what is over."""

    @property
    def row_sets(self) -> Sequence[Rows]:
        """The rows that travel at all, in sets that are used alike; none where all is over."""
        ...

    def rows_at(self, moment: Moment) -> Rows:
        """Return the rows whose embeddings travel at a moment."""
        ...


@dataclass(frozen=True)
class Ended:
    """A timetable that has come to its end: nothing travels any more, and what did is known.

    Parameters
    ----------
    whole
        The timetable.
    """

    whole: Timetable

    @property
    def row_sets(self) -> Sequence[Rows]:
        """None."""
        return ()

    def rows_at(self, moment: Moment) -> Rows:
        """Return the rows whose embeddings travelled at a moment."""
        return self.whole.rows_at(moment)


class Embedder(Protocol):
    """What makes embeddings of a bottom's inputs: the bottom, a ``Learner``, or one around it."""

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        """Return embeddings ``[B, E]``, when training with the graph to backpropagate through."""
        ...


@dataclass(slots=True)
class Fused:
    """The top model's input, and the tensors whose gradients the parties are owed.

    Parameters
    ----------
    value
        The input of the top model, ``[B, width]``.
    leaves
        For each party that is owed a derivative, the leaf of the graph that stands for what it
        contributed; parties may share one.
    """

    value: Tensor
    leaves: Mapping[str, Tensor]

    def derivatives(self) -> dict[str, Tensor]:
        """Return, after backward, each party's derivative: d loss / d embedding, ``[B, E]``."""
        derivatives = {}
        for party, leaf in self.leaves.items():
            assert leaf.grad is not None
            derivatives[party] = leaf.grad
        return derivatives


class Collected(Protocol):
    """What the label holder got of the embeddings of a batch; it does not change."""

    @property
    def present(self) -> tuple[str, ...]:
        """The parties whose embeddings came, in party order; only they are owed a derivative."""
        ...

    def fuse(self, own: Tensor | None) -> Tensor:
        """Return the top model's input, ``[B, width]``: what was collected, and an own embedding.

        Nothing flows back but into ``own``. May be called any number of times.
        """
        ...

    def differentiable(self, own: Tensor | None) -> Fused:
        """Return the same, with leaves for what the parties contributed."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all of it, for a checkpoint; ``Collector.recalled`` makes it anew."""
        ...


@runtime_checkable
class Itemised(Collected, Protocol):
    """A ``Collected`` that knows each party's embedding, and the bodies that brought them."""

    @property
    def bodies(self) -> Mapping[str, bytes]:
        """By party, the message as received."""
        ...

    def total(self) -> Tensor:
        """Return the sum of the parties' embeddings as received, in party order, ``[B, E]``."""
        ...


class Uploader(Protocol):
    """The party's half."""

    async def prepare(self, timetable: Timetable) -> None:
        """Do what must be done before embeddings of these rows travel: keys, shares.

        Called whenever a role starts or goes on; what was done already is part of the state. Where
        no rows travel any more nothing is sent: what has left is taken up from the journal alone.

        It awaits nothing but ``Send``, ``Receive``, ``Ready`` and ``Work`` of the purpose
        ``SETUP``, ``Commit`` and ``Recall`` (``effects.sets_up``). A simulated run that goes on
        lets these take no time, so that it has the times of one that nobody interrupted; what
        follows another effect takes the time that it takes.
        """
        ...

    async def upload(
        self, bottom: Embedder, rows: Rows, moment: Moment, saliency: Tensor | None = None
    ) -> Tensor:
        """Evaluate the bottom model on ``rows``, send, and return the exact embedding.

        It is what ``Uplink.embedder`` makes of the bottom, without any noise. When training, the
        returned tensor carries the graph to backpropagate through. ``saliency`` says how much each
        component matters, where that is known: codecs may choose by it.
        """
        ...

    def delivered(self) -> Tensor:
        """Return what is taken, where it is fused, for the training batch that was sent last."""
        ...

    def report(self) -> Mapping[str, float]:
        """Return what goes into this party's history beside each evaluation, if anything."""
        ...

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy as far as this party knows, as ``Collector.spent``."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


class Collector(Protocol):
    """The label holder's half."""

    async def prepare(self, timetable: Timetable) -> None:
        """Do the label holder's part of what must be done before, by effects that set up."""
        ...

    def expect(self, moment: Moment) -> Expect:
        """Return what ``collect`` waits for first, so that a role can ask if it is ``Ready``."""
        ...

    async def collect(self, rows: Rows, moment: Moment) -> Collected:
        """Receive what the parties sent for ``rows``."""
        ...

    def recalled(self, state: Mapping[str, Any]) -> Collected:
        """Return the value whose ``state_dict`` this was."""
        ...

    def report(self) -> Mapping[str, float]:
        """Return what goes into the history beside each evaluation, such as epsilon."""
        ...

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy until now, for the summary; empty where none is kept."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


@runtime_checkable
class Uplink(Protocol):
    """How embeddings reach the label holder; a frozen value.

    One that inherits from this class has the answers that promise least.
    """

    @property
    def delivery(self) -> Delivery:
        """What it needs of the messages it is made of; by default each of them, in order."""
        return Delivery.EVERY_IN_ORDER

    @property
    def interactive(self) -> bool:
        """Whether a party sends its next embeddings only when those before were answered."""
        return False

    @property
    def sums_only(self) -> bool:
        """Whether nobody is shown a party's embeddings but in a sum with those of others."""
        return False

    @property
    def what_time_decides(self) -> str | None:
        """Which messages are sent hangs on time, though not what comes of them: how, or None."""
        return None

    def notes(self, layout: Layout) -> tuple[str, ...]:
        """Return what should be known before such a run, a sentence each; mostly nothing."""
        return ()

    def affords(self, layout: Layout, purpose: Purpose, uses: int, stragglers: Stragglers) -> bool:
        """Return whether a row may be sent so often for a purpose; where not, training ends.

        Whoever the policy may leave out of a round is as if left out, as in ``spending``. From this
        follows how many rounds a run has, which all organisations must know before the first, also
        of one that goes on: so it knows nothing of uses in vain. Those count in the account of the
        half that keeps one, which ends a run before it would pass its budget.
        """
        return True

    def spending(
        self,
        layout: Layout,
        uses: Mapping[Purpose, int],
        stragglers: Stragglers,
        in_vain: Mapping[Purpose, int] = MappingProxyType({}),
    ) -> Mapping[str, Any]:
        """Return what so many uses of a row for each purpose cost of privacy at most.

        Plans and policies of sites compare it; see ``uplinks.account.told`` for what it tells.

        Parameters
        ----------
        layout
            Who takes part.
        uses
            How often the row that is used most is released, by purpose.
        stragglers
            Whoever the policy may leave out of a round is as if left out each time, if that costs
            more.
        in_vain
            How often besides, before a crash, by purposes that are in ``uses``: nobody knows who
            was left out then. A plan has none.
        """
        return {}

    def spending_of_predictions(
        self, layout: Layout, times: Mapping[int, int]
    ) -> Mapping[str, Any]:
        """Return what predictions of a row cost together, by how many parties took part in each.

        By default as if all parties of the layout had, which is enough where it does not matter.
        """
        return self.spending(layout, {Purpose.PREDICTION: sum(times.values())}, Wait())

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return games that try whether its mechanisms keep what the account says of them."""
        return ()

    def check(self, fusion: Fusion, stragglers: Stragglers) -> None:
        """Raise ``ConfigurationError`` if it cannot serve this fusion, or live with this policy."""
        return

    def peers(self, layout: Layout, party: str) -> tuple[str, ...]:
        """Return the other parties that ``party`` exchanges messages with."""
        return ()

    def batches(self, plan: BatchPlan) -> BatchPlan:
        """Return the batches that it can bring, for a plan of those that are wanted."""
        return plan

    @abstractmethod
    def flows(self, layout: Layout, rows: int, purpose: Purpose) -> tuple[Flow, ...]:
        """Return the messages that bring up to ``rows`` rows at once, and what precedes them."""
        ...

    @abstractmethod
    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return who learns what of the embeddings: of a sum of one, say, that one."""
        ...

    def embedder(self, bottom: Embedder) -> Embedder:
        """Return the bottom with what the uplink does to embeddings, before any chance: clipping.

        A party's steps without a message go through it, as derivatives are of what it returns.
        """
        return bottom

    def with_links(self, change: Callable[[Link], Link]) -> Self:
        """Return the uplink with each of its links changed."""
        return self

    def unlimited(self) -> Uplink:
        """Return the uplink without a budget: what a run must share with one that goes on."""
        return self

    def of_new_rows(self) -> Uplink:
        """Return the uplink of rows that were never trained on."""
        return self

    @abstractmethod
    def uploader(self, layout: Layout, party: Party) -> Uploader:
        """Make the half of ``party``."""
        ...

    @abstractmethod
    def collector(self, layout: Layout, fusion: Fusion, stragglers: Stragglers) -> Collector:
        """Make the label holder's half."""
        ...


@runtime_checkable
class Relayable(Protocol):
    """An uplink whose messages may be passed on, and are understood by who hears them.

    Its collector collects ``Itemised`` values.
    """

    def speaker(self, layout: Layout) -> LinkSender:
        """Return the end by which the label holder sends its own embedding to all parties."""
        ...

    def listener(self, layout: Layout, party: str, speaker: str) -> LinkReceiver:
        """Return the end by which ``party`` understands what ``speaker`` sent."""
        ...

    def heard(self, layout: Layout, speakers: Sequence[str]) -> tuple[tuple[Link, int], ...]:
        """Return the link of each speaker's training messages, and the width of its rows."""
        ...
