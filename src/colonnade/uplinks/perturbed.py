"""The perturbed uplink: embeddings are clipped and get noise before another uplink sends them.

Each party's noise hides its own embeddings alone; who sees them need not be trusted to add them up,
and no party needs another. That takes more noise than a secure sum (``masked``), in which the noise
of all hides each. Everything that is made of noisy values, codes, surrogates, derivatives, tells no
more of a row than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.batches import BatchPlan
from colonnade.disclosures import HELD_OUT, NOT_COVERED, Disclosure, source_of_secrets
from colonnade.effects import Commit, Expect, Purpose, Recall
from colonnade.errors import ConfigurationError, LocalProtocolError
from colonnade.flows import Flow
from colonnade.layout import Layout
from colonnade.links import Delivery, Link, Rows
from colonnade.models import Fusion, check_rows_apart
from colonnade.organisations import Party
from colonnade.privacy import (
    UNLIMITED,
    Budget,
    Event,
    Game,
    Perturbation,
    RowUses,
    Spending,
    check_budget,
    clipped,
    is_bounded,
)
from colonnade.secure import Keystream
from colonnade.stragglers import Stragglers
from colonnade.uplinks.account import EACH_PARTY, Account, told, told_of_predictions
from colonnade.uplinks.contract import (
    Collected,
    Collector,
    Embedder,
    Moment,
    Relayable,
    Timetable,
    Uplink,
    Uploader,
)
from colonnade.uplinks.plain import Plain

__all__ = ["Perturbed"]


@dataclass(frozen=True)
class Perturbed(Uplink):
    """Each party clips its embeddings and adds noise of its own, and another uplink sends them.

    What leaves a party is made of the noisy values alone. So links may do with them what they like,
    but one that chooses components by their saliency is not told it, since a party knows it of its
    exact embeddings.

    Parameters
    ----------
    noise
        What becomes of embeddings: ``Gaussian(...)``, ``Gaussian.calibrated(...)``.
    through
        How they travel then, by default ``Plain()``.
    held_out
        The same as ``noise`` for rows that are not trained on, by default as in training;
        ``Clipped(...)`` lets them be seen without noise.
    budget
        What may be disclosed of each row: training ends before it would be exceeded. By default
        there is no end, and epsilon is told for a delta of 1e-5.

    Raises
    ------
    ConfigurationError
        If ``through`` hides the embeddings of a party among those of others, or ``held_out`` clips
        to another norm.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> from colonnade.links import Direct
    >>> from colonnade.privacy import Gaussian
    >>> uplink = Perturbed(Gaussian(bound=1.0, multiplier=2.0), Plain(Direct(Scalar(bits=8))))
    """

    noise: Perturbation
    through: Uplink = field(default_factory=Plain)
    held_out: Perturbation | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_fields(Perturbed, self)
        check_budget(self.budget)
        if not isinstance(self.through, Relayable):
            raise ConfigurationError(
                f"noise is accounted for where each party's embeddings are seen by themselves, but "
                f"{type(self.through).__name__} does not show them: give it a mechanism of its "
                "own, or send noisy embeddings through Plain(...)"
            )
        if self.held_out is not None and self.held_out.bound != self.noise.bound:
            raise ConfigurationError(
                f"embeddings are clipped to the norm {self.noise.bound:g} in training and to "
                f"{self.held_out.bound:g} where they are evaluated: the model would see others "
                "than it was trained on; say the same bound"
            )

    @property
    def delivery(self) -> Delivery:
        """As of the uplink beneath."""
        return self.through.delivery

    @property
    def interactive(self) -> bool:
        """As of the uplink beneath."""
        return self.through.interactive

    def check(self, fusion: Fusion, stragglers: Stragglers) -> None:
        """Refuse what the uplink beneath refuses."""
        self.through.check(fusion, stragglers)

    def affords(self, layout: Layout, purpose: Purpose, uses: int, stragglers: Stragglers) -> bool:
        """Return whether so many uses of a row are within the budget."""
        return self.limit.affords(Spending({self.event(purpose): uses}))

    def spending(
        self,
        layout: Layout,
        uses: Mapping[Purpose, int],
        stragglers: Stragglers,
        in_vain: Mapping[Purpose, int] = MappingProxyType({}),
    ) -> Mapping[str, Any]:
        """Return what so many uses of a row will cost, whoever is late: its noise is a party's."""
        parties = len(layout.parties)
        rows = [
            Spending({self.event(purpose, parties): most + in_vain.get(purpose, 0)})
            for purpose, most in uses.items()
        ]
        return told(RowUses.of(rows), self.limit, EACH_PARTY)

    def spending_of_predictions(
        self, layout: Layout, times: Mapping[int, int]
    ) -> Mapping[str, Any]:
        """Return what so many predictions of a row cost."""
        event = partial(self.event, Purpose.PREDICTION)
        return told_of_predictions(times, event, self.limit, EACH_PARTY)

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return those of one party's noise, of training and of other rows."""
        tried = dict.fromkeys(map(self.of, (Purpose.TRAINING, Purpose.EVALUATION)))
        return tuple(game for noise in tried for game in noise.games())

    def peers(self, layout: Layout, party: str) -> tuple[str, ...]:
        """As of the uplink beneath."""
        return self.through.peers(layout, party)

    def batches(self, plan: BatchPlan) -> BatchPlan:
        """As of the uplink beneath."""
        return self.through.batches(plan)

    def flows(self, layout: Layout, rows: int, purpose: Purpose) -> tuple[Flow, ...]:
        """Return the messages of the uplink beneath: noise makes them no longer."""
        return self.through.flows(layout, rows, purpose)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return what the uplink beneath shows of noisy embeddings, and what is not covered."""
        said = [self._through_noise(each) for each in self.through.disclosures(layout)]
        held_out = self.of(Purpose.EVALUATION)
        if held_out != self.noise:
            bare = not self._is_private(held_out)
            said.append(
                Disclosure(
                    HELD_OUT,
                    f"evaluated and predicted {held_out}",
                    to="the label holder" if bare else "",
                    sees="embeddings without noise that are evaluated or predicted" if bare else "",
                )
            )
        if self._adds_noise:
            said.append(source_of_secrets(layout.simulated))
        said.append(NOT_COVERED)
        return tuple(said)

    def _through_noise(self, seen: Disclosure) -> Disclosure:
        if seen.what == HELD_OUT and self.of(Purpose.EVALUATION) == self.noise:
            return replace(seen, statement=f"{seen.statement}, {self.noise}")
        if seen.what != "embeddings":
            return seen
        if not self._is_private(self.noise):
            return replace(seen, statement=f"{self.noise}; {seen.statement}")
        statement = f"{self.noise}, drawn by each party; {seen.statement}"
        mechanism = f"each party's embeddings {self.noise}"
        return Disclosure(seen.what, statement, mechanism=mechanism)

    def embedder(self, bottom: Embedder) -> Embedder:
        """Return the bottom with clipping after it."""
        return _Clipping(self.through.embedder(bottom), self.noise.bound)

    def with_links(self, change: Callable[[Link], Link]) -> Perturbed:
        """Return it with the links of the uplink beneath changed."""
        return replace(self, through=self.through.with_links(change))

    def unlimited(self) -> Perturbed:
        """Return it without a budget, nor one beneath."""
        return replace(self, through=self.through.unlimited(), budget=None)

    def of_new_rows(self) -> Perturbed:
        """Return the uplink with what is done to held-out rows alone."""
        noise = self.of(Purpose.PREDICTION)
        return replace(self, noise=noise, through=self.through.of_new_rows(), held_out=None)

    def uploader(self, layout: Layout, party: Party) -> _Uploader:
        """Make the half of ``party``, whose bottom keeps rows apart where there is noise."""
        if self._adds_noise:
            check_rows_apart(
                f"the bottom model of {party.name!r}",
                party.bottom,
                "a row reaches the embeddings",
                party.features,
            )
        return _Uploader(self, layout, party)

    def collector(self, layout: Layout, fusion: Fusion, stragglers: Stragglers) -> _Collector:
        """Make the label holder's half."""
        return _Collector(self, layout, self.through.collector(layout, fusion, stragglers))

    @property
    def limit(self) -> Budget:
        """The budget, which may be endless."""
        return self.budget or UNLIMITED

    def of(self, purpose: Purpose) -> Perturbation:
        """Return what becomes of embeddings that are sent for a purpose."""
        if purpose is Purpose.TRAINING or self.held_out is None:
            return self.noise
        return self.held_out

    def _is_private(self, noise: Perturbation) -> bool:
        return is_bounded(noise.event(), self.limit.delta)

    @property
    def _adds_noise(self) -> bool:
        """Whether there is noise for any purpose."""
        return any(map(self._is_private, (self.noise, self.of(Purpose.EVALUATION))))

    def use(self, parties: int, purpose: Purpose, terms: int) -> Event:
        """Return the same for an account: how many are in a sum does not matter here."""
        return self.event(purpose, parties)

    def event(self, purpose: Purpose, parties: int = 1) -> Event:
        """Return what one use of a row is for who sees so many parties' embeddings of it."""
        return self.of(purpose).event(parties)


class _Clipping:
    """A bottom whose embeddings are clipped; gradients flow through it."""

    def __init__(self, bottom: Embedder, bound: float) -> None:
        self._bottom = bottom
        self._bound = bound

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        return clipped(self._bottom(inputs, training), self._bound).float()


class _Noisy:
    """A bottom for one message: what it returns may leave the party, what it keeps may not.

    Parameters
    ----------
    bottom
        Whose embeddings these are.
    mechanism
        What is done to them.
    draw
        Gives the noise of this message.
    """

    def __init__(
        self, bottom: Embedder, mechanism: Perturbation, draw: Callable[[], Keystream]
    ) -> None:
        self._bottom = bottom
        self._mechanism = mechanism
        self._draw = draw
        self.exact: Tensor | None = None

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        if self.exact is not None:
            raise LocalProtocolError(
                "an uplink evaluated the bottom twice for one message, but noise is drawn once"
            )
        embedding = self._bottom(inputs, training)
        self.exact = clipped(embedding, self._mechanism.bound).float()
        return self._mechanism.perturb(embedding.detach(), self._draw())


class _Uploader:
    """The party's half: what the half beneath is given has noise already.

    What it says of a whole sample is as if the others had sent as often.
    """

    def __init__(self, made_for: Perturbed, layout: Layout, party: Party) -> None:
        self._of = made_for.of
        self._beneath: Uploader = made_for.through.uploader(layout, party)
        self._name = party.name
        self._secrets = layout.secrets_for(party.name, party.secrets)
        parties = len(layout.parties)
        self._account = Account(
            layout.rows,
            partial(made_for.use, parties),
            made_for.limit,
            layout.simulated,
            views=EACH_PARTY,
        )

    async def prepare(self, timetable: Timetable) -> None:
        """Take up what was released until now, and begin to draw under a number of its own."""
        notes = await Recall()
        self._source = self._secrets.begin(self._name, notes.incarnation)
        self._account.begin(notes.records, timetable)
        await self._beneath.prepare(timetable)

    async def upload(
        self, bottom: Embedder, rows: Rows, moment: Moment, saliency: Tensor | None = None
    ) -> Tensor:
        purpose = f"embedding/{moment.purpose.label}"
        noisy = _Noisy(
            bottom,
            self._of(moment.purpose),
            lambda: self._source.noise(purpose, moment.round, moment.part),
        )
        await Commit(self._account.enter(rows, moment))
        # Saliency comes from derivatives that may have been corrected by the exact embeddings.
        await self._beneath.upload(noisy, rows, moment)
        assert noisy.exact is not None
        return noisy.exact

    def delivered(self) -> Tensor:
        return self._beneath.delivered()

    def report(self) -> Mapping[str, float]:
        return {**self._beneath.report(), **self._account.report()}

    def spent(self) -> Mapping[str, Any]:
        return {**self._beneath.spent(), **self._account.spent()}

    def state_dict(self) -> dict[str, Any]:
        return {"account": self._account.state_dict(), "beneath": self._beneath.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._account.load_state_dict(state["account"])
        self._beneath.load_state_dict(state["beneath"])


class _Collector:
    """The label holder's half: the half beneath, and an account of what it was shown.

    Each party keeps one of its own, which is exact. This one enters what it begins to wait for, so
    it lacks what a party had sent ahead when a crash undid that; see ``most_told``.
    """

    def __init__(self, made_for: Perturbed, layout: Layout, beneath: Collector) -> None:
        self._beneath = beneath
        parties = len(layout.parties)
        self._account = Account(
            layout.rows,
            partial(made_for.use, parties),
            made_for.limit,
            layout.simulated,
            views=EACH_PARTY,
        )

    async def prepare(self, timetable: Timetable) -> None:
        """Take up what was released until now."""
        self._account.begin((await Recall()).records, timetable)
        await self._beneath.prepare(timetable)

    def expect(self, moment: Moment) -> Expect:
        return self._beneath.expect(moment)

    async def collect(self, rows: Rows, moment: Moment) -> Collected:
        await Commit(self._account.enter(rows, moment))
        return await self._beneath.collect(rows, moment)

    def recalled(self, state: Mapping[str, Any]) -> Collected:
        return self._beneath.recalled(state)

    def report(self) -> Mapping[str, float]:
        return {**self._beneath.report(), **self._account.report()}

    def spent(self) -> Mapping[str, Any]:
        return {**self._beneath.spent(), **self._account.spent()}

    def state_dict(self) -> dict[str, Any]:
        return {"account": self._account.state_dict(), "beneath": self._beneath.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._account.load_state_dict(state["account"])
        self._beneath.load_state_dict(state["beneath"])
