r"""Coded sums: a label holder learns the parties' summed embeddings from the first that answer.

FedVS (Li et al., "FedVS: straggler-resilient and privacy-preserving vertical federated learning for
split models", ICML 2023, section 4). Party n's embeddings are X_n W_n, of known powers X_n of its
features, ``[rows, P_n]``, and weights W_n, ``[P_n, E]``, both as whole numbers (``quantised``).

1. At a start X_n is cut into K segments and shared by Lagrange's code: every party has a share
   :math:`\tilde X_n` of each party's data (``lagrange``).
2. At a moment every party shares W_n alike, the same in all segments.
3. Party n' answers with :math:`\sum_n \tilde X_n \tilde W_n` of its shares, of the coded rows that
   are asked for. That is the value, at its point, of a polynomial of degree 2 (K + T - 1), so from
   any 2 (K + T - 1) + 1 answers the label holder has :math:`\sum_n X_n W_n`, of all parties: also
   of those whose own answers never come.

**Who learns what.** T parties that put all together that they were given learn nothing of the
others' data and weights: their shares are uniform. The label holder sees answers alone. FedVS's
theorem 5.3 is about one of them; with as many as it needs it knows all of the polynomial, at the
masks' points too: T values more, of sums of products of uniform masks.

That is so of either by itself. **A label holder that T parties help finds the data**: with K = T =
1, where a_n and b_n are a party's shares, the polynomial tells of every row of a batch, besides the
sum, also

.. math:: \sum_n X_n b_n + a_n W_n,

linear equations in the others' X and W, of which each round brings more than it has new unknowns.

Shares are sealed from party to party, and keys are introduced (``introductions``). Nothing here
sends or waits: these are the two ends, from bytes to bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError
from colonnade.kernels.mersenne import Elements, products
from colonnade.secure.contexts import context
from colonnade.secure.introductions import TAG_BYTES, Introduced, Introductions, Session
from colonnade.secure.keystream import KEY_BYTES, Keystream
from colonnade.secure.lagrange import LagrangeCode
from colonnade.secure.quantised import Quantised
from colonnade.secure.sealed import SEAL_BYTES
from colonnade.secure.secrets import Source

__all__ = ["CodedHolder", "CodedParty", "CodedSums", "Instant"]

_BLOCK = 4096  # coded rows that are shared at a time


class Instant(NamedTuple):
    """When a sum is asked for: shares and answers of one fit no other."""

    round: int
    purpose: str
    part: int


@dataclass(frozen=True)
class CodedSums:
    """What all organisations know of the sums, and how long their messages are.

    Parameters
    ----------
    parties
        Whose embeddings are added, in party order; each has a share of all.
    holder
        The label holder.
    code
        How data and weights are shared.
    quantised
        How they become whole numbers.
    terms
        P, by party.
    width
        E.
    identities
        By party, the public identity that the others have pinned.
    """

    parties: tuple[str, ...]
    holder: str
    code: LagrangeCode
    quantised: Quantised
    terms: Mapping[str, int] = field(hash=False)
    width: int
    identities: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    @property
    def introductions(self) -> Introductions:
        """How parties come by each other's keys."""
        return Introductions(self.parties, self.identities)

    def data_bytes(self, party: str, coded: int) -> int:
        """Return the bytes of a share of a party's data, of so many coded rows."""
        return self.code.field.bytes_of((coded, self.terms[party])) + SEAL_BYTES

    def weights_bytes(self, party: str) -> int:
        """Return the bytes of a share of a party's weights."""
        return self.code.field.bytes_of((self.terms[party], self.width)) + SEAL_BYTES

    def answer_bytes(self, coded: int) -> int:
        """Return the bytes of an answer of so many coded rows."""
        return TAG_BYTES + self.code.field.bytes_of((coded, self.width))

    def columns(self, party: str) -> slice:
        """Return where a party's products stand among those of all."""
        before = self.parties[: self.parties.index(party)]
        start = sum(self.terms[other] for other in before)
        return slice(start, start + self.terms[party])

    def answer_tag(self, session: Session, party: str, instant: Instant) -> bytes:
        """Return how an answer begins."""
        return session.tag("answer", party, *instant)

    def warm_up(self) -> None:
        """Share, multiply and decode a little, so that nothing is compiled later."""
        code, noise = self.code, Keystream(bytes(KEY_BYTES))
        masks = code.field.uniform((code.masks, 2, 3), noise)
        shares = code.encoded(code.field.uniform((code.segments, 2, 3), noise), masks)
        weights = code.repeated(code.field.uniform((3, 2), noise), masks.reshape(-1, 3, 2))
        answers = {n: products(shares[n], weights[n]) for n in range(code.needed)}
        code.decoded(answers, "nothing")


class CodedParty:
    """A party's end.

    Parameters
    ----------
    sums
        What all know.
    name
        Which party it is.
    secrets
        What it draws from since this start.

    Attributes
    ----------
    largest
        Of each of its P columns, the largest magnitude that was shared.
    """

    largest: NDArray[np.int64]

    def __init__(self, sums: CodedSums, name: str, secrets: Source) -> None:
        self._sums, self._name, self._secrets = sums, name, secrets
        self._introduced = Introduced(
            sums.introductions, name, sums.holder, secrets, "coded/agreement"
        )
        self._place = sums.parties.index(name)
        self._others = tuple(party for party in sums.parties if party != name)
        self._own_weights: Elements
        self._weights: Elements

    def key(self) -> bytes:
        """Return its key, signed, which the label holder passes on."""
        return self._introduced.key()

    def meet(self, keys: bytes) -> None:
        """Take everybody's keys, as the label holder passed them on.

        Raises
        ------
        RemoteProtocolError
            If one is not signed by the identity that is pinned for its owner, or that came with it
            where none is, or the own one is not there.
        """
        self._introduced.meet(keys)

    # Data

    def share_data(self, segments: NDArray[np.int64]) -> dict[str, bytes]:
        """Return each other party's share of whole numbers ``[K, coded rows, P]``; keep its own."""
        sums, field = self._sums, self._sums.code.field
        _, coded, terms = segments.shape
        self.largest = np.abs(segments).max(axis=(0, 1), initial=0)
        masks = self._secrets.keystream("coded/data")
        shares = np.empty((len(sums.parties), coded, terms), dtype=field.dtype)
        for start in range(0, coded, _BLOCK):
            block = field.elements(segments[:, start : start + _BLOCK])
            drawn = field.uniform((sums.code.masks, *block.shape[1:]), masks)
            shares[:, start : start + _BLOCK] = sums.code.encoded(block, drawn)
        self._data = np.empty((coded, sum(sums.terms.values())), dtype=field.dtype)
        self._data[:, sums.columns(self._name)] = shares[self._place]
        return self._sealed(shares, self._for_data())

    def take_data(self, party: str, body: bytes) -> None:
        """Take the share of another party's data.

        Raises
        ------
        RemoteProtocolError
            If it does not open, or is no share of so many rows.
        """
        shape = (len(self._data), self._sums.terms[party])
        share = self._opened(party, body, self._for_data(), shape, "data")
        self._data[:, self._sums.columns(party)] = share

    @property
    def bytes_kept(self) -> int:
        """The bytes of all shares of data that it has."""
        return self._data.nbytes

    # Weights

    def share_weights(self, weights: NDArray[np.int64], instant: Instant) -> dict[str, bytes]:
        """Return each other party's share of whole numbers ``[P, E]``; keep its own.

        Raises
        ------
        OutOfRange
            If sums with them might not be exact.
        """
        sums, field = self._sums, self._sums.code.field
        sums.quantised.check_range(self.largest[None], weights[None], len(sums.parties))
        stream = self._secrets.keystream(
            f"coded/weights/{instant.purpose}", instant.round, instant.part
        )
        drawn = field.uniform((sums.code.masks, *weights.shape), stream)
        shares = sums.code.repeated(field.elements(weights), drawn)
        self._own_weights = shares[self._place]
        return self._sealed(shares, self._for_weights(instant))

    def take_weights(self, bodies: Mapping[str, bytes], instant: Instant) -> None:
        """Take the shares of the other parties' weights, in place of those before.

        Raises
        ------
        RemoteProtocolError
            If one does not open, was shared for another moment, or is no share of weights.
        """
        sums, what = self._sums, self._for_weights(instant)
        shares = {self._name: self._own_weights} | {
            party: self._opened(
                party, bodies[party], what, (sums.terms[party], sums.width), "weights"
            )
            for party in self._others
        }
        self._weights = np.concatenate([shares[party] for party in sums.parties])

    # Answers

    def computed(self, coded: NDArray[np.int64]) -> bytes:
        """Return its answer of some coded rows, without what it begins with."""
        return self._sums.code.field.packed(products(self._data[coded], self._weights))

    def answer(self, pieces: list[bytes], instant: Instant) -> bytes:
        """Return the answer that is made of what was computed, piece by piece."""
        tag = self._sums.answer_tag(self._introduced.session, self._name, instant)
        return b"".join((tag, *pieces))

    def _sealed(self, shares: Elements, what: bytes) -> dict[str, bytes]:
        field = self._sums.code.field
        return {
            party: self._introduced.sealed_to(
                party, field.packed(shares[self._sums.parties.index(party)]), what
            )
            for party in self._others
        }

    def _opened(
        self, party: str, body: bytes, what: bytes, shape: tuple[int, int], kind: str
    ) -> Elements:
        field, named = self._sums.code.field, f"the shares of the {kind} of {party!r}"
        size = field.bytes_of(shape)
        return field.unpacked(
            self._introduced.opened_from(party, body, what, size, named), shape, named
        )

    def _for_data(self) -> bytes:
        return context("coded data", self._introduced.session.digest)

    def _for_weights(self, instant: Instant) -> bytes:
        return context("coded weights", self._introduced.session.digest, *instant)


class CodedHolder:
    """The label holder's end.

    Parameters
    ----------
    sums
        What all know.
    start
        The number of this start of it, which no earlier one had.
    """

    def __init__(self, sums: CodedSums, start: int) -> None:
        self._sums, self._start = sums, start
        self._session: Session

    def meet(self, keys: Mapping[str, bytes]) -> bytes:
        """Return the keys of all parties, which are passed on to each."""
        introductions = self._sums.introductions
        together = introductions.passed_on(keys, self._start)
        self._session = introductions.session(together, self._sums.holder)
        return together

    def total(
        self, answers: Mapping[str, bytes], coded: int, instant: Instant
    ) -> NDArray[np.int64]:
        """Return the sum of all parties' embeddings, ``[K, coded rows, E]``, as whole numbers.

        Raises
        ------
        TooFewAnswers
            If there are fewer answers than it takes.
        RemoteProtocolError
            If one is of another moment, party or start, has another size, or what is no element of
            the field.
        """
        sums, field = self._sums, self._sums.code.field
        found = {}
        for party, body in answers.items():
            if len(body) != sums.answer_bytes(coded):
                raise RemoteProtocolError(
                    f"the answer of {party!r} has {len(body)} bytes, expected "
                    f"{sums.answer_bytes(coded)}: a tag, and {coded} coded rows of {sums.width}"
                )
            if body[:TAG_BYTES] != sums.answer_tag(self._session, party, instant):
                raise RemoteProtocolError(
                    f"the answer of {party!r} belongs to another moment than round "
                    f"{instant.round}, piece {instant.part} of {instant.purpose}, to another "
                    "start, or to somebody else: it was repeated, or exchanged on its way"
                )
            found[sums.parties.index(party)] = field.unpacked(
                body[TAG_BYTES:], (coded, sums.width), f"the answer of {party!r}"
            )
        decoded = sums.code.decoded(found, f"round {instant.round} of {instant.purpose}")
        return field.numbers(decoded)
