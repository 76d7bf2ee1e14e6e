r"""The coded uplink: all parties' embeddings are summed on shares, and the first answers suffice.

FedVS (Li et al., ICML 2023): parties share their data once and their weights each round by
Lagrange's code, and each computes on its shares what the sum of everybody's embeddings is at its
point. From any 2 (K + T - 1) + 1 answers the label holder has the sum of *all* N parties, exactly
as whole numbers: who is slow, or silent after its weights, is in it. The protocol is that of
``secure.coded_sums``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from colonnade.annotated import is_whole, make_plain
from colonnade.batches import BatchPlan
from colonnade.disclosures import NOT_COVERED, Disclosure, source_of_secrets
from colonnade.effects import Purpose
from colonnade.errors import ConfigurationError
from colonnade.flows import FixedSize, Flow
from colonnade.layout import Layout
from colonnade.links import Delivery
from colonnade.models import Additive, Fusion
from colonnade.organisations import Party
from colonnade.secure import CodedSums, Field, LagrangeCode, Quantised, answers_needed
from colonnade.stragglers import Stragglers
from colonnade.uplinks.coded_halves import (
    ANSWER,
    DATA,
    ENOUGH,
    KEY,
    KEYS,
    WEIGHTS,
    CodedCollector,
    CodedUploader,
    check_linear,
)
from colonnade.uplinks.contract import Uplink
from colonnade.uplinks.pinned import check_shown, checked_identities, pinned, unpinned

__all__ = ["Coded"]

_HEADROOM_BITS = 10  # an embedding, all of its products taken as positive, may come to 2^10
_SETS = 3  # of rows: to train, to validate and to test on


@dataclass(frozen=True)
class Coded(Uplink):
    """Sums of embeddings, computed on shares: exact although parties straggle, private from them.

    Bottom models are ``Polynomial``. Every party keeps shares of all parties' data: 4 bytes (8 with
    ``field_bits=61``) for each row, power and column of the joined table, divided by ``segments``.

    Parameters
    ----------
    segments
        K: rows that share a coded row. Answers are shorter by it, shares too; more answers are
        needed.
    colluders
        T: how many parties may put together all they have and learn nothing of the others' data
        and weights.
    data_bits, weight_bits
        l_x and l_w: data are rounded to multiples of 2^-l_x, weights at random, without a bias, to
        multiples of 2^-l_w. By default as finely as the field has room for, where an embedding
        comes to 1024 at most; the history says by how much rounding changed embeddings.
    field_bits
        31 or 61: the field is that of whole numbers modulo 2^31 - 1, or 2^61 - 1.
    identities
        By party, its public identity in hexadecimal digits, which the other parties check. Without
        them a label holder that put keys of its own in place of theirs would not be noticed.

    Raises
    ------
    ConfigurationError
        If a number is none that can be, or an identity is none.

    Examples
    --------
    >>> uplink = Coded(segments=2, colluders=1)
    >>> uplink.needed, uplink.bits(parties=6)  # answers; l_x and l_w
    (5, (8, 9))
    """

    segments: int = 1
    colluders: int = 1
    data_bits: int | None = None
    weight_bits: int | None = None
    field_bits: Literal[31, 61] = 31
    identities: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        make_plain(Coded, self)
        for name in ("segments", "colluders"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ConfigurationError(f"{name} is {value!r}, but must be a whole number from 1")
        field = Field(self.field_bits)
        data, weights = (0 if b is None else b for b in (self.data_bits, self.weight_bits))
        Quantised(data, weights, field)
        checked_identities(self.identities)

    @property
    def needed(self) -> int:
        """How many parties' answers tell the sum: 2 (K + T - 1) + 1."""
        return answers_needed(self.segments, self.colluders)

    def bits(self, parties: int) -> tuple[int, int]:
        """Return l_x and l_w for so many parties: as given, or as many as there is room for.

        2^(l_x + l_w) 2^10 N is at most (p - 1) / 2, and both are alike where neither is given.
        """
        largest = Field(self.field_bits).largest
        room = max(0, math.floor(math.log2(largest // parties)) - _HEADROOM_BITS)
        data = self.data_bits
        if data is None:
            data = room // 2 if self.weight_bits is None else max(0, room - self.weight_bits)
        weights = max(0, room - data) if self.weight_bits is None else self.weight_bits
        return data, weights

    @property
    def delivery(self) -> Delivery:
        """Any answer may be lost; what parties say to each other may not."""
        return Delivery.ANY

    @property
    def sums_only(self) -> bool:
        """What is decoded is the sum of all."""
        return True

    @property
    def what_time_decides(self) -> str:
        """Which answers are sent, and who is told that its own is not needed."""
        return "who is told that its answer is not needed"

    def check(self, fusion: Fusion, stragglers: Stragglers) -> None:
        """Refuse a fusion that needs each embedding, and policies for those that are late."""
        if not isinstance(fusion, Additive):
            raise ConfigurationError(
                f"a coded sum is all that arrives, but fusion by {type(fusion).__name__.lower()} "
                "needs each embedding: take sum or mean"
            )
        if stragglers.drops:
            raise ConfigurationError(
                f"{type(stragglers).__name__} does without parties that are late, and a coded sum "
                "has everybody in it from the first answers that suffice: say Wait(), which here "
                "waits for no more than these"
            )

    def peers(self, layout: Layout, party: str) -> tuple[str, ...]:
        """Return all other parties, to whom shares go."""
        return tuple(other for other in layout.parties if other != party)

    def batches(self, plan: BatchPlan) -> BatchPlan:
        """Return the plan in which rows that share a coded row are trained on together."""
        return plan.in_groups(self.segments)

    def flows(self, layout: Layout, rows: int, purpose: Purpose) -> tuple[Flow, ...]:
        """Return keys and shares of data, which precede, and what a batch takes."""
        sums, holder, setup = self._sums(layout), layout.label_holder, Purpose.SETUP
        introductions = sums.introductions
        coded = self._coded_at_most(rows, 2)  # the first and the last may stand for others too
        answer = FixedSize(sums.answer_bytes(coded))
        flows = []
        if purpose is not Purpose.EVALUATION:  # which comes with training, and is prepared with it
            keys = FixedSize(introductions.keys_bytes)
            flows.append(Flow(holder, layout.parties, KEYS, setup, keys, 0, 0, 0))
        for party in layout.parties:
            others = self.peers(layout, party)
            if purpose is not Purpose.EVALUATION:
                key = FixedSize(introductions.key_bytes)
                data = DataShares(sums, party, self._coded_at_most(layout.rows, _SETS))
                flows += [
                    Flow(party, (holder,), KEY, setup, key, 0, 0, 0),
                    Flow(party, others, DATA, setup, data, layout.rows, 0, layout.rows),
                ]
            weights = FixedSize(sums.weights_bytes(party))
            flows += [
                *(Flow(party, (other,), WEIGHTS, purpose, weights, 0, 0, 0) for other in others),
                Flow(party, (holder,), ANSWER, purpose, answer, rows, sums.width, 0),
                Flow(holder, (party,), ENOUGH, purpose, FixedSize(0), 0, 0, 0),
            ]
        return tuple(flows)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return what the sums tell, against whom shares protect, and what is not covered."""
        parties, (data, weights) = layout.parties, self.bits(len(layout.parties))
        alone = self.colluders == 1
        those = "one party" if alone else f"{self.colluders} parties"
        learned = [
            Disclosure(
                "embeddings",
                f"the label holder sees, of each row, the sum over all {len(parties)} parties, "
                f"rounded: data to multiples of 2^-{data}, weights of 2^-{weights}",
                mechanism=f"Lagrange coded computing (K = {self.segments}, T = {self.colluders}, "
                f"modulo 2^{self.field_bits} - 1)",
            ),
            source_of_secrets(layout.simulated),
            Disclosure(
                "sums",
                "without noise: what a sum tells of a party is not bounded",
                to="the label holder",
                sees="the exact sums of the parties' embeddings",
            ),
            Disclosure(
                "shares",
                f"every party has shares of all others' data and weights: {those} "
                f"{'alone' if alone else 'together'} learn{'s' * alone} nothing from them; "
                f"{self.segments + self.colluders} together, everything",
            ),
            Disclosure(
                "answers",
                f"the label holder has {self.needed} of {len(parties)}, the first that come, and "
                "so all of the polynomial that they are values of, at its masks' points too; "
                "FedVS's theorem 5.3 is about one. A party that answers falsely is not found out",
            ),
            Disclosure(
                "collusion",
                "shares protect from parties, answers from the label holder, nothing from both "
                f"together: with the shares of {those} it can solve for the data",
                to=f"the label holder with the help of {those}",
                sees="features and weights of all parties",
            ),
            *unpinned(self.identities, parties, "features and weights"),
            NOT_COVERED,
        ]
        return tuple(learned)

    def notes(self, layout: Layout) -> tuple[str, ...]:
        """Say that nobody may be late, where all answers are needed."""
        parties = len(layout.parties)
        if self.needed < parties:
            return ()
        return (
            f"the answers of all {parties} parties are needed with K = {self.segments} and T = "
            f"{self.colluders} (2 (K + T - 1) + 1), so every round waits for the slowest; with "
            f"fewer {'segments' if self.segments > 1 else 'colluders or more parties'} it need not",
        )

    def uploader(self, layout: Layout, party: Party) -> CodedUploader:
        """Make the half of ``party``, whose bottom is linear in powers of its features."""
        check_linear(party)
        check_shown(self.identities, party)
        return CodedUploader(self._sums(layout), layout, party)

    def collector(self, layout: Layout, fusion: Fusion, stragglers: Stragglers) -> CodedCollector:
        """Make the label holder's half."""
        assert isinstance(fusion, Additive)  # as checked
        return CodedCollector(self._sums(layout), layout, fusion)

    def _sums(self, layout: Layout) -> CodedSums:
        parties = layout.parties
        missing = [party for party in parties if party not in layout.terms]
        if missing:
            raise ConfigurationError(
                f"the bottom models of {', '.join(map(repr, missing))} are computed on shares, "
                "which only what is linear in powers of the features can be: take "
                "Polynomial(inputs, width, degree), in a configuration `model: polynomial`"
            )
        field = Field(self.field_bits)
        if self.needed > len(parties):
            most = (len(parties) - 1) // 2 + 1
            raise ConfigurationError(
                f"{self.segments} segments and {self.colluders} colluders take the answers of "
                f"{self.needed} parties (2 (K + T - 1) + 1), and there are {len(parties)}: "
                + (
                    f"let segments and colluders come to {most} at most"
                    if most > 1
                    else "coding takes 3 parties or more besides the label holder"
                )
            )
        return CodedSums(
            parties,
            layout.label_holder,
            LagrangeCode(len(parties), self.segments, self.colluders, field),
            Quantised(*self.bits(len(parties)), field),
            layout.terms,
            layout.widths[parties[0]],
            pinned(self.identities, parties),
        )

    def _coded_at_most(self, rows: int, pieces: int) -> int:
        """Return how many coded rows stand for so many rows that stand together in pieces."""
        return (rows + pieces * (self.segments - 1)) // self.segments


@dataclass(frozen=True)
class DataShares:
    """The format of shares of a party's data, of which every party keeps one.

    Parameters
    ----------
    sums
        What is shared how.
    party
        Whose data.
    coded
        Coded rows, at most.
    """

    sums: CodedSums
    party: str
    coded: int

    @property
    def fixed_size(self) -> bool:
        """Always: an element has a size."""
        return True

    def at(self, round: int) -> DataShares:
        """Return itself."""
        return self

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the bytes of a message."""
        return self.sums.data_bytes(self.party, self.coded)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return the bytes of a share, which is kept to the end."""
        return self.sums.code.field.bytes_of((self.coded, self.sums.terms[self.party]))

    def warm_up(self, width: int) -> None:
        """Share, multiply and decode a little."""
        self.sums.warm_up()
