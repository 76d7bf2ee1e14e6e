r"""The masked uplink: a secure sum of whole numbers that embeddings were turned to.

The label holder learns, for each row of a batch, the sum of the parties' counts and nothing else of
any of them. With the Poisson binomial mechanism this is PBM-VFL (Tran et al., 2024, Algorithm 2):
the sum is differentially private, and nobody but its owner ever has an embedding without noise.
Secure sums are those of ``secure.double_masking``, so a party that is lost spoils none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any

from colonnade.annotated import check_fields
from colonnade.disclosures import (
    HELD_OUT,
    NOT_COVERED,
    Disclosure,
    source_of_secrets,
)
from colonnade.effects import Purpose
from colonnade.errors import ConfigurationError
from colonnade.flows import FixedSize, Flow
from colonnade.layout import Layout
from colonnade.links import Delivery
from colonnade.models import Additive, Fusion, check_rows_apart
from colonnade.organisations import Party
from colonnade.privacy import (
    UNLIMITED,
    Budget,
    Event,
    Game,
    RowUses,
    Spending,
    SumGame,
    Summand,
    check_budget,
    is_bounded,
    warm_up,
)
from colonnade.secure import MOST_HOLDERS, Sums, bits_for
from colonnade.stragglers import Stragglers
from colonnade.uplinks.account import most_told, told, told_of_predictions
from colonnade.uplinks.contract import Uplink
from colonnade.uplinks.masked_halves import (
    ANSWER,
    CONFIRMATION,
    CONFIRMATIONS,
    KEY,
    KEYS,
    OFFER,
    REQUEST,
    UPLOAD,
    MaskedCollector,
    MaskedUploader,
    Terms,
)
from colonnade.uplinks.pinned import check_shown, checked_identities, pinned, unpinned

__all__ = ["Masked"]


@dataclass(frozen=True)
class Masked(Uplink):
    """Only sums of embeddings reach the label holder, through a mechanism.

    Parameters
    ----------
    mechanism
        How embeddings become whole numbers: ``PoissonBinomial(...)``, which makes their sum private
        itself, or ``FixedPoint(...)``, which hides a party among the others and no more.
    held_out
        The same for rows that are not trained on, by default the mechanism of training.
    threshold
        How many parties a sum has at least; by default more than half of them. So many may be asked
        to reveal shares, and if fewer are there, a round is aborted; a straggler policy that waits
        for fewer waits for so many.
    identities
        By party, its public identity in hexadecimal digits, which the other parties check. Without
        them a label holder that put keys of its own in place of theirs would not be noticed.
    budget
        What may be disclosed of each row: training ends before it would be exceeded. By default
        there is no end, and epsilon is told for a delta of 1e-5.

    Raises
    ------
    ConfigurationError
        If the threshold is no whole number from 2 on, or an identity is none.

    Examples
    --------
    >>> from colonnade.privacy import PoissonBinomial
    >>> uplink = Masked(PoissonBinomial(trials=16, beta=0.25))
    >>> uplink.bits(parties=4)  # sums are 0 to 64
    7
    """

    mechanism: Summand
    held_out: Summand | None = None
    threshold: int | None = None
    identities: Mapping[str, str] = field(default_factory=dict, hash=False)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_fields(Masked, self)
        if self.threshold is not None and self.threshold < 2:
            raise ConfigurationError(
                f"threshold is {self.threshold}, but a sum of one party's embeddings is that "
                "party's: say 2 or more"
            )
        check_budget(self.budget)
        checked_identities(self.identities)

    @property
    def delivery(self) -> Delivery:
        """Any party may be lost; a sum is of those who are there."""
        return Delivery.ANY

    @property
    def interactive(self) -> bool:
        """A party goes on when it has revealed what it was asked for."""
        return True

    @property
    def sums_only(self) -> bool:
        """It is what secure sums are for."""
        return True

    def bits(self, parties: int) -> int:
        """Return k: a word of the masked messages of so many parties has ceil(log2(M b + 1))."""
        summands = {self.mechanism, self.held_out or self.mechanism}
        return bits_for(parties * max(summand.highest for summand in summands))

    def check(self, fusion: Fusion, stragglers: Stragglers) -> None:
        """Refuse a fusion that needs each embedding, and stand-ins for those that are late."""
        if not isinstance(fusion, Additive):
            raise ConfigurationError(
                f"a secure sum is all that arrives, but fusion by {type(fusion).__name__.lower()} "
                "needs each embedding: take sum or mean"
            )
        if stragglers.drops and not stragglers.leaves_out:
            raise ConfigurationError(
                f"{type(stragglers).__name__} puts an earlier embedding in place of one that is "
                "late, and in a secure sum nobody has it: leave out who is late, or wait (Wait())"
            )

    def affords(self, layout: Layout, purpose: Purpose, uses: int, stragglers: Stragglers) -> bool:
        """Return whether so many uses of a row are within the budget, whoever may be late."""
        terms = len(layout.parties)
        if purpose is Purpose.TRAINING:
            terms = min(self._terms_of_training(layout, stragglers))
        return self._limit.affords(Spending({self._event(layout, purpose, terms): uses}))

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return a game of sums over all parties, for each mechanism that adds noise."""
        tried = {
            self._through(purpose): None
            for purpose in (Purpose.TRAINING, Purpose.EVALUATION)
            if self._is_private(layout, purpose)
        }
        return tuple(SumGame(mechanism, len(layout.parties)) for mechanism in tried)

    def spending(
        self,
        layout: Layout,
        uses: Mapping[Purpose, int],
        stragglers: Stragglers,
        in_vain: Mapping[Purpose, int] = MappingProxyType({}),
    ) -> Mapping[str, Any]:
        """Return what so many uses of a row cost at most: a sum of fewer hides a party less.

        Of a whole sample a sum of everybody tells most, so each epsilon is the larger of both.
        """
        everybody = len(layout.parties)
        fewest = self._sums(layout).threshold if in_vain else everybody
        accounts = []
        for terms, lost in product(
            self._terms_of_training(layout, stragglers), {fewest, everybody}
        ):
            in_sum = {Purpose.TRAINING: terms}
            rows = [
                Spending({self._event(layout, p, in_sum.get(p, everybody)): count})
                + Spending({self._event(layout, p, lost): in_vain.get(p, 0)})
                for p, count in uses.items()
            ]
            accounts.append(told(RowUses.of(rows), self._limit))
        return most_told(accounts)

    def spending_of_predictions(
        self, layout: Layout, times: Mapping[int, int]
    ) -> Mapping[str, Any]:
        """Return what so many predictions of a row cost; no sum was of fewer than may be in one."""
        fewest = self.threshold or 2
        return told_of_predictions(
            times,
            lambda parties: self._event(layout, Purpose.PREDICTION, max(parties, fewest)),
            self._limit,
        )

    def flows(self, layout: Layout, rows: int, purpose: Purpose) -> tuple[Flow, ...]:
        """Return keys and offers, which precede, and the messages of a sum."""
        sums, holder, setup = self._sums(layout), layout.label_holder, Purpose.SETUP
        width = self._width(layout)
        uploads = Uploads(sums, self._through(purpose))
        keys = FixedSize(sums.keys_bytes)
        flows = [Flow(holder, layout.parties, KEYS, setup, keys, 0, 0, 0)]
        for party in layout.parties:
            up, down = (party, (holder,)), (holder, (party,))
            offer, request = FixedSize(sums.offer_bytes), FixedSize(sums.request_bytes)
            flows += [
                Flow(*up, KEY, setup, FixedSize(sums.key_bytes), 0, 0, 0),
                Flow(*up, OFFER, setup, offer, 0, 0, 0),
                Flow(*down, REQUEST, setup, request, 0, 0, 0),
                Flow(*up, OFFER, purpose, offer, 0, 0, 0),
                Flow(*up, UPLOAD, purpose, uploads, rows, width, 0),
                Flow(*down, REQUEST, purpose, request, 0, 0, 0),
                Flow(*up, ANSWER, purpose, FixedSize(sums.answer_bytes), 0, 0, 0),
            ]
            if purpose is Purpose.TRAINING:  # all else waits for everybody
                one, all_of_them = sums.confirmation_bytes, sums.confirmations_bytes
                flows += [
                    Flow(*up, CONFIRMATION, purpose, FixedSize(one), 0, 0, 0),
                    Flow(*down, CONFIRMATIONS, purpose, FixedSize(all_of_them), 0, 0, 0),
                ]
        return tuple(flows)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return what the sums tell, what is not covered, and what is not checked."""
        sums, parties = self._sums(layout), layout.parties
        learned = [
            Disclosure(
                "embeddings",
                f"the label holder sees, of each row, sums over {sums.threshold} or more of the "
                f"{len(parties)} parties, through {self.mechanism}",
                mechanism=f"secure sum (double masking, threshold {sums.threshold} of "
                f"{len(parties)})",
            ),
            source_of_secrets(layout.simulated),
        ]
        if not self._is_private(layout, Purpose.TRAINING):
            learned.append(
                Disclosure(
                    "sums",
                    "without noise: what a sum tells of a party is not bounded",
                    to="the label holder",
                    sees="the exact sums of the parties' embeddings",
                )
            )
        if self._through(Purpose.EVALUATION) != self.mechanism:
            exact = not self._is_private(layout, Purpose.EVALUATION)
            learned.append(
                Disclosure(
                    HELD_OUT,
                    f"evaluated and predicted through {self.held_out}",
                    to="the label holder" if exact else "",
                    sees="sums without noise of the embeddings that are evaluated" if exact else "",
                )
            )
        learned += unpinned(self.identities, parties, "single embeddings")
        if 2 * sums.threshold <= len(parties):
            learned.append(
                Disclosure(
                    "threshold",
                    "not above half of the parties: the label holder is trusted to say truly "
                    "whose uploads it has",
                )
            )
        learned.append(NOT_COVERED)
        return tuple(learned)

    def unlimited(self) -> Masked:
        """Return it without a budget."""
        return replace(self, budget=None)

    def uploader(self, layout: Layout, party: Party) -> MaskedUploader:
        """Make the half of ``party``, whose bottom keeps rows apart where sums are private."""
        if any(self._is_private(layout, p) for p in (Purpose.TRAINING, Purpose.EVALUATION)):
            check_rows_apart(
                f"the bottom model of {party.name!r}",
                party.bottom,
                "a row reaches the embeddings",
                party.features,
            )
        check_shown(self.identities, party)
        return MaskedUploader(self._terms(layout), party)

    def collector(self, layout: Layout, fusion: Fusion, stragglers: Stragglers) -> MaskedCollector:
        """Make the label holder's half."""
        assert isinstance(fusion, Additive)  # as checked
        return MaskedCollector(self._terms(layout), fusion, stragglers)

    def _terms(self, layout: Layout) -> Terms:
        return Terms(
            layout,
            self._sums(layout),
            self._through,
            partial(self._event, layout),
            self._limit,
        )

    def _sums(self, layout: Layout) -> Sums:
        parties = layout.parties
        if len(parties) < 2:
            raise ConfigurationError(
                "a secure sum, as of PBM-VFL, needs two parties or more besides the label holder, "
                f"and here is {' and '.join(parties) or 'nobody'} alone, with nobody to hide "
                "among: take wait_dp, where each party has noise of its own"
            )
        threshold = len(parties) // 2 + 1 if self.threshold is None else self.threshold
        if not 2 <= threshold <= len(parties):
            raise ConfigurationError(
                f"a secure sum of {len(parties)} parties cannot have {threshold} or more: say a "
                f"threshold from 2 to {len(parties)}"
            )
        if len(parties) > MOST_HOLDERS:
            raise ConfigurationError(
                f"a secure sum of {len(parties)} parties cannot be: it has {MOST_HOLDERS} at most"
            )
        identities = pinned(self.identities, parties)
        return Sums(parties, threshold, self.bits(len(parties)), identities)

    def _terms_of_training(self, layout: Layout, stragglers: Stragglers) -> tuple[int, ...]:
        """Return of how many a sum of training is: the fewest that there may be, and the most."""
        everybody = len(layout.parties)
        fewest = self._sums(layout).threshold if stragglers.drops else everybody
        return tuple(sorted({fewest, everybody}))

    def _through(self, purpose: Purpose) -> Summand:
        if purpose is Purpose.TRAINING or self.held_out is None:
            return self.mechanism
        return self.held_out

    def _event(self, layout: Layout, purpose: Purpose, terms: int) -> Event:
        return self._through(purpose).event(terms, self._width(layout))

    def _is_private(self, layout: Layout, purpose: Purpose) -> bool:
        return is_bounded(self._event(layout, purpose, len(layout.parties)), self._limit.delta)

    @property
    def _limit(self) -> Budget:
        return self.budget or UNLIMITED

    def _width(self, layout: Layout) -> int:
        return layout.widths[layout.parties[0]]


@dataclass(frozen=True)
class Uploads:
    """The format of masked messages: a word for each component, behind offer and signature."""

    sums: Sums
    mechanism: Summand

    @property
    def fixed_size(self) -> bool:
        """Always: masks hide how large a number is."""
        return True

    def at(self, round: int) -> Uploads:
        """Return itself."""
        return self

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the bytes of every message of so many rows."""
        return self.sums.upload_bytes(rows * width)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 0."""
        return 0

    def warm_up(self, width: int) -> None:
        """Play a small sum, so that nothing is compiled later."""
        warm_up(self.mechanism, width)
        self.sums.warm_up()
