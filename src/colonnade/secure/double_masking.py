r"""Secure sums by double masking: the label holder learns a sum, and of its terms nothing else.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017,
once for every sum; what a sum needs beforehand travels with the sum before. For sum t each party m
draws a key pair (sk_m, pk_m) of X25519 and a secret b_m, and *offers*: pk_m to all, and to each
other party, sealed, its Shamir share of sk_m and of b_m. *Members* of sum t are those whose offers
came.

1. A member with the words x_m uploads, modulo 2^k,

   .. math:: y_m = x_m + PRG(b_m) + \sum_{n > m} PRG(s_{mn}) - \sum_{n < m} PRG(s_{mn}),

   over all members n, where s_mn is agreed on from sk_m and pk_n, or sk_n and pk_m.
2. The label holder names the *contributors*: those whose upload it has.
3. A contributor reveals, once for every sum, its share of b_n of each contributor n, and of sk_n
   of each member that is none. From the shares of ``threshold`` contributors the label holder
   recovers these secrets, and with them takes every mask off the sum of all y_m. Where a member
   is lost, the contributors first *confirm* to each other, by signatures that the label holder
   passes on, who they are.

So whoever vanishes after its upload is in the sum; whoever vanishes before is not, and the others'
masks with it can be taken off. An upload that comes late stays masked by b_m, which nobody reveals
any more. The keys of a sum are made for it alone. Whoever offered nothing for a sum is no member of
it, and offers again for the next.

**A label holder that lies** may tell each party of other members and of other contributors. Let c
of the M parties help it, let 2 threshold > M + c, and let identities be pinned. Then all that it
learns of a sum is one sum over threshold or more parties:

- An honest party reveals shares once for a sum, for the contributors that it was told of. Both
  secrets of a party would take 2 (threshold - c) honest ones, and there are only M - c.
- If threshold parties signed that of the members L there contributed Q, the honest ones among the
  others are fewer than threshold - c. So b_n is learned of n in Q alone, and sk_n of nobody in Q.
  Each of Q had signed with its upload that its members are L. So its masks with the others of Q
  are theirs with it: they vanish from the sum over Q and from no other.
- If nobody got so many signatures, there answered only those who were told that all their members
  contributed, and no sk is learned. So the masks of a party vanish only from a sum that has all of
  the members that it was told of in it, threshold or more. Two such sums would have threshold - c
  honest parties each, and different ones: there are too few.

Which contributors a party was told of it cannot check where the others are told of fewer, down to
the threshold. Bonawitz et al. let everybody sign in every sum; here it takes a trip more only where
somebody is lost. Nobody is kept from ending a sum, nor a party from adding what it likes.

Nothing here sends or waits: these are the two ends, from bytes to bytes. What they say begins with
a tag of the session (the keys of this start), the sum and its author, so that what belongs
elsewhere is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from colonnade.errors import LocalProtocolError, RemoteProtocolError, TooFewSurvivors
from colonnade.kernels.words import packed_bytes
from colonnade.secure.agreement_keys import AGREEMENT_BYTES, AgreementKey
from colonnade.secure.contexts import context
from colonnade.secure.identities import SIGNATURE_BYTES, verify
from colonnade.secure.introductions import TAG_BYTES, Introduced, Introductions, Session
from colonnade.secure.keystream import KEY_BYTES, Keystream
from colonnade.secure.masks import Total, Words, mask, masked_body, words_of
from colonnade.secure.sealed import SEAL_BYTES
from colonnade.secure.secrets import Source
from colonnade.secure.shamir import recover, share

__all__ = ["Heard", "SumHolder", "SumParty", "Sums"]

SECRET_BYTES = 32
_SEALED_BYTES = 2 * SECRET_BYTES + SEAL_BYTES  # a share of a mask key, and one of a self mask
_FOR_ANOTHER = AGREEMENT_BYTES + _SEALED_BYTES


@dataclass(frozen=True)
class Sums:
    """What all organisations know of the sums, and how long their messages are.

    Parameters
    ----------
    parties
        Whose words are added, in party order.
    threshold
        How many contributors a sum needs, and how many of them reveal their shares.
    bits
        k: words are added modulo 2^k.
    identities
        By party, the public identity that the others have pinned; who is missing is believed to be
        who it says it is, and a label holder that put its own keys in place would not be noticed.
    """

    parties: tuple[str, ...]
    threshold: int
    bits: int
    identities: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    @property
    def introductions(self) -> Introductions:
        """How parties come by each other's keys."""
        return Introductions(self.parties, self.identities)

    @property
    def key_bytes(self) -> int:
        """Bytes of a party's key."""
        return self.introductions.key_bytes

    @property
    def keys_bytes(self) -> int:
        """Bytes of the keys of all, passed on behind the number of the label holder's start."""
        return self.introductions.keys_bytes

    @property
    def offer_bytes(self) -> int:
        """Bytes of an offer."""
        return TAG_BYTES + AGREEMENT_BYTES + (len(self.parties) - 1) * _SEALED_BYTES

    @property
    def head_bytes(self) -> int:
        """Bytes of an upload before its words: an offer for the next sum, and a signature."""
        return self.offer_bytes + SIGNATURE_BYTES

    def upload_bytes(self, words: int) -> int:
        """Return the bytes of an upload of so many masked words."""
        return self.head_bytes + packed_bytes(words, self.bits)

    @property
    def request_bytes(self) -> int:
        """Bytes of the label holder's request, where all parties offered."""
        return TAG_BYTES + 2 * self._marks + (len(self.parties) - 1) * _FOR_ANOTHER

    @property
    def answer_bytes(self) -> int:
        """Bytes of an answer, where all parties are members."""
        return TAG_BYTES + len(self.parties) * SECRET_BYTES

    @property
    def confirmation_bytes(self) -> int:
        """Bytes of a confirmation."""
        return TAG_BYTES + SIGNATURE_BYTES

    @property
    def confirmations_bytes(self) -> int:
        """Bytes of what was signed, passed on, if all parties contributed and confirmed."""
        return TAG_BYTES + self._marks + 2 * len(self.parties) * SIGNATURE_BYTES

    @property
    def _marks(self) -> int:
        return -(-len(self.parties) // 8)

    def marked(self, parties: Iterable[str]) -> bytes:
        """Return a bit for each party, set for these."""
        bits = sum(1 << self.parties.index(party) for party in parties)
        return bits.to_bytes(self._marks, "little")

    def marked_ones(self, marks: bytes, author: str) -> tuple[str, ...]:
        """Return whose bits ``author`` set, in party order."""
        bits = int.from_bytes(marks, "little")
        if bits >> len(self.parties):
            raise RemoteProtocolError(f"{author!r} names parties that there are none of")
        return tuple(party for i, party in enumerate(self.parties) if bits >> i & 1)

    def warm_up(self) -> None:
        """Share, mask, pack and add up a little, so that nothing is compiled later."""
        noise, secret = Keystream(bytes(KEY_BYTES)), bytes(2 * SECRET_BYTES)
        shares = share(secret, len(self.parties), self.threshold, noise)
        recover(dict(enumerate(shares, start=1)), self.threshold, len(secret), "nothing")
        words = words_of(np.zeros(2, dtype=np.int64), self.bits)
        mask(words, [noise])
        total = Total(2, self.bits)
        total.add(masked_body(words, self.bits), "nobody")

    def holder_number(self, party: str) -> int:
        """Return x, at which the polynomials of the party's shares are taken."""
        return 1 + self.parties.index(party)


@dataclass(frozen=True)
class _Own:
    """A party's secrets for one sum."""

    mask_key: AgreementKey
    self_mask: bytes
    share: bytes  # its own share of both


class Heard(NamedTuple):
    """What a party does about a request.

    Parameters
    ----------
    contributors
        Who contributed to the sum that is over.
    answer
        What it reveals; None where it did not contribute, or has to confirm first.
    confirmation
        What it sends first where a member is lost: ``confirmed`` then gives the answer.
    """

    contributors: tuple[str, ...]
    answer: bytes | None = None
    confirmation: bytes | None = None


@dataclass(frozen=True)
class _Claim:
    """Who a party believes were the members and contributors of a sum, and its answer for these."""

    number: int
    members: tuple[str, ...]
    contributors: tuple[str, ...]
    answer: bytes


class _End:
    """What both ends know: the session, and who is a member of which sum."""

    def __init__(self, sums: Sums, holder: str) -> None:
        self._sums, self._holder = sums, holder
        self._session = Session(b"", 0)
        self._number = -1  # of the sum that is under way
        self._publics: dict[str, bytes] = {}  # of its members, in party order

    @property
    def start(self) -> int:
        """The number of the label holder's start, when keys were passed on."""
        return self._session.start

    @property
    def members(self) -> tuple[str, ...]:
        """Who may contribute to the sum that comes next."""
        return tuple(self._publics)

    def _tag(self, author: str, number: int) -> bytes:
        return self._session.tag(number, author)

    def _untagged(self, body: bytes, author: str, number: int, size: int, what: str) -> bytes:
        """Return a message without its tag, if it is so long, and its author's of this sum."""
        if len(body) != size:
            raise RemoteProtocolError(
                f"{author!r} sent {what} of {len(body)} bytes, expected {size}"
            )
        if body[:TAG_BYTES] != self._tag(author, number):
            raise RemoteProtocolError(
                f"{author!r} sent {what} of another sum than number {number} of this start, or of "
                "somebody else: what came was repeated, or exchanged on its way"
            )
        return body[TAG_BYTES:]

    def _pair_mask(self, key: AgreementKey, one: str, other: str) -> Keystream:
        """Return the mask of two members, for who has the mask key of ``one``."""
        first, second = sorted((one, other), key=self._sums.parties.index)
        what = context("pair mask", self._session.digest, self._number, first, second)
        return Keystream(key.shared(self._publics[other], what, other))

    def _self_mask(self, secret: bytes) -> Keystream:
        return Keystream(secret[:KEY_BYTES])

    def _before(self, one: str, other: str) -> bool:
        return self._sums.parties.index(one) < self._sums.parties.index(other)


class SumParty(_End):
    """A party's end.

    Parameters
    ----------
    sums
        What all know.
    name, holder
        Which party it is, and who the label holder is.
    secrets
        What it draws from since this start.
    """

    def __init__(self, sums: Sums, name: str, holder: str, secrets: Source) -> None:
        super().__init__(sums, holder)
        self._name = name
        self._secrets = secrets
        self._introduced = Introduced(sums.introductions, name, holder, secrets, "sums/agreement")
        self._now: _Own | None = None
        self._next: _Own | None = None
        self._shares: dict[str, bytes] = {}  # that it holds, of the members of the sum under way
        self._claim: _Claim | None = None  # that is not confirmed yet

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
        self._session = self._introduced.session

    def offer(self) -> bytes:
        """Return what it offers for the next sum; once for each."""
        number = self._number + 1
        self._next, sealed = self._drawn(number)
        return self._tag(self._name, number) + self._next.mask_key.public + sealed

    def _drawn(self, number: int) -> tuple[_Own, bytes]:
        secret = self._secrets.key("sums/mask key", number, size=SECRET_BYTES)
        self_mask = self._secrets.key("sums/self mask", number, size=SECRET_BYTES)
        mask_key = AgreementKey(secret)
        noise = self._secrets.keystream("sums/shares", number)
        sums = self._sums
        shares = share(secret + self_mask, len(sums.parties), sums.threshold, noise)
        sealed = b"".join(
            self._introduced.sealed_to(party, mine, self._sealed_for(number, mask_key.public))
            for party, mine in zip(sums.parties, shares, strict=True)
            if party != self._name
        )
        return _Own(mask_key, self_mask, shares[sums.parties.index(self._name)]), sealed

    def _sealed_for(self, number: int, public: bytes) -> bytes:
        return context("shares", self._session.digest, number, public)

    def upload(self, words: Words) -> bytes:
        """Return words for the sum under way, masked where they are, behind an offer for the next.

        Raises
        ------
        LocalProtocolError
            If it is no member of the sum.
        """
        offer, own = self.offer(), self._now
        if own is None:
            raise LocalProtocolError(f"{self._name!r} is no member of sum {self._number}")
        added, subtracted = [self._self_mask(own.self_mask)], list[Keystream]()
        for other in self.members:
            if other != self._name:
                signed = added if self._before(self._name, other) else subtracted
                signed.append(self._pair_mask(own.mask_key, self._name, other))
        mask(words, added, subtracted)
        uploaded = self._uploaded(self._name, self._number, self.members)
        signature = self._introduced.identity.sign(uploaded)
        return offer + signature + masked_body(words, self._sums.bits)

    def _uploaded(self, party: str, number: int, members: tuple[str, ...]) -> bytes:
        return context("upload", self._session.digest, number, party, self._sums.marked(members))

    def _contributed(self, party: str, claim: _Claim) -> bytes:
        lists = self._sums.marked(claim.members), self._sums.marked(claim.contributors)
        return context("contributors", self._session.digest, claim.number, party, *lists)

    def join(self, request: bytes) -> None:
        """Hear who is a member of the next sum, where nobody contributes to the one under way.

        Raises
        ------
        RemoteProtocolError
            As of ``hear``, and if somebody is named as contributing.
        """
        contributors, members, offers = self._read(request)
        if contributors:
            raise RemoteProtocolError(
                f"{self._holder!r} names {', '.join(contributors)} as contributing, where there is "
                "no sum to which anybody does"
            )
        self._advance(members, offers)

    def hear(self, request: bytes) -> Heard:
        """Return who contributed to the sum under way and, if it did itself, what is due.

        Then that sum is over, and those of the next one are known. What is due must be committed
        before it is sent.

        Raises
        ------
        RemoteProtocolError
            If the request is of another sum, names who is no member, too few contributors or
            members, or brings an offer that does not open.
        """
        contributors, members, offers = self._read(request)
        self._check_contributors(contributors)
        answer, before = self._revealed(contributors), (self._number, self.members)
        self._advance(members, offers)
        if answer is None or contributors == before[1]:
            return Heard(contributors, answer)
        claim = self._claim = _Claim(*before, contributors, answer)
        signature = self._introduced.identity.sign(self._contributed(self._name, claim))
        return Heard(contributors, confirmation=self._tag(self._name, claim.number) + signature)

    def _read(self, request: bytes) -> tuple[tuple[str, ...], tuple[str, ...], bytes]:
        """Return contributors, members of the next sum if it is one, and what these offered."""
        sums, marks = self._sums, self._sums._marks
        least = TAG_BYTES + 2 * marks
        if len(request) < least:
            raise RemoteProtocolError(
                f"{self._holder!r} sent a request of {len(request)} bytes, expected {least} or more"
            )
        named = request[TAG_BYTES:least]
        contributors = sums.marked_ones(named[:marks], self._holder)
        members = sums.marked_ones(named[marks:], self._holder)
        mine = self._name in members
        size = least + mine * (len(members) - 1) * _FOR_ANOTHER
        rest = self._untagged(request, self._holder, self._number, size, "a request")[2 * marks :]
        if mine and len(members) < sums.threshold:
            raise RemoteProtocolError(
                f"{self._holder!r} names only {', '.join(members)} as members of sum "
                f"{self._number + 1}, where {sums.threshold} are the least"
            )
        return contributors, members if mine else (), rest

    def confirmed(self, body: bytes) -> bytes:
        """Return its answer, if the others have signed what it was told itself.

        Raises
        ------
        RemoteProtocolError
            If fewer than the threshold confirmed these contributors, or one of them uploaded for
            other members.
        """
        claim, sums = self._claim, self._sums
        if claim is None:
            raise RemoteProtocolError(f"{self._holder!r} confirms what was not asked")
        head = TAG_BYTES + sums._marks
        confirming = sums.marked_ones(body[TAG_BYTES:head], self._holder)
        signatures = len(claim.contributors) + len(confirming)
        size = head + signatures * SIGNATURE_BYTES
        rest = self._untagged(body, self._holder, claim.number, size, "confirmations")
        if len(confirming) < sums.threshold:
            raise RemoteProtocolError(
                f"{self._holder!r} has confirmations of {len(confirming)} for sum {claim.number}, "
                f"where {sums.threshold} are the least"
            )
        signed = [
            (party, self._uploaded(party, claim.number, claim.members))
            for party in claim.contributors
        ] + [(party, self._contributed(party, claim)) for party in confirming]
        for place, (party, what) in enumerate(signed):
            start = sums._marks + place * SIGNATURE_BYTES
            self._check_signed(party, what, rest[start : start + SIGNATURE_BYTES], claim.number)
        self._claim = None
        return claim.answer

    def _check_signed(self, party: str, what: bytes, signature: bytes, number: int) -> None:
        try:
            verify(self._introduced.identities[party], what, signature, f"the word of {party!r}")
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"{party!r} did not sign the members and contributors of sum {number} that "
                f"{self._holder!r} told here: {self._holder!r} told others something else, or what "
                "was signed was changed on its way; nothing is revealed"
            ) from None

    def _check_contributors(self, contributors: tuple[str, ...]) -> None:
        """Refuse who cannot have contributed; of a sum of others it knows that it did not."""
        others = tuple(party for party in self._sums.parties if party != self._name)
        can = self.members or others
        strangers = [party for party in contributors if party not in can]
        if strangers:
            raise RemoteProtocolError(
                f"{self._holder!r} names {', '.join(strangers)} as contributing to sum "
                f"{self._number}, to which only {', '.join(can)} can"
            )
        if len(contributors) < self._sums.threshold:
            who = f"only {', '.join(contributors)}" if contributors else "nobody"
            raise RemoteProtocolError(
                f"{self._holder!r} names {who} as contributing to sum {self._number}, "
                f"where {self._sums.threshold} are the least"
            )

    def _revealed(self, contributors: tuple[str, ...]) -> bytes | None:
        if self._name not in contributors:
            return None
        pieces = [
            self._shares[party][SECRET_BYTES:]
            if party in contributors
            else self._shares[party][:SECRET_BYTES]
            for party in self.members
        ]
        return self._tag(self._name, self._number) + b"".join(pieces)

    def _advance(self, members: tuple[str, ...], offers: bytes) -> None:
        """Take the offers for the next sum, and forget the secrets of this one."""
        self._number += 1
        self._now, self._next = (self._next if members else None), None
        self._publics, self._shares = {}, {}
        place = 0
        for party in members:
            if party == self._name:
                assert self._now is not None  # offered before it was a member
                self._publics[party] = self._now.mask_key.public
                self._shares[party] = self._now.share
                continue
            public = offers[place : place + AGREEMENT_BYTES]
            sealed = offers[place + AGREEMENT_BYTES : place + _FOR_ANOTHER]
            self._shares[party] = self._introduced.opened_from(
                party,
                sealed,
                self._sealed_for(self._number, public),
                2 * SECRET_BYTES,
                f"the shares of {party!r}",
            )
            self._publics[party] = public
            place += _FOR_ANOTHER


class SumHolder(_End):
    """The label holder's end.

    Parameters
    ----------
    sums
        What all know.
    name
        The label holder's name.
    start
        The number of this start of it, which no earlier one had.
    """

    def __init__(self, sums: Sums, name: str, start: int) -> None:
        super().__init__(sums, name)
        self._begun = start
        self._uploads: dict[str, bytes] = {}
        self._words = 0
        self._offers: dict[str, bytes] = {}

    def meet(self, keys: Mapping[str, bytes]) -> bytes:
        """Return the keys of all parties, which are passed on to each."""
        introductions = self._sums.introductions
        together = introductions.passed_on(keys, self._begun)
        self._session = introductions.session(together, self._holder)
        return together

    def offers(self, bodies: Mapping[str, bytes]) -> None:
        """Take offers for the next sum, of those who contribute nothing to this one."""
        for party, body in bodies.items():
            offer = self._untagged(
                body, party, self._number + 1, self._sums.offer_bytes, "an offer"
            )
            self._offers[party] = offer

    def uploads(self, bodies: Mapping[str, bytes], words: int) -> tuple[str, ...]:
        """Take the uploads of so many words to the sum under way; return whose they are.

        Raises
        ------
        RemoteProtocolError
            If one does not fit, or is of who is no member.
        TooFewSurvivors
            If fewer than the threshold uploaded: then nobody is asked to reveal anything.
        """
        sums = self._sums
        for party, body in bodies.items():
            if party not in self._publics:
                raise RemoteProtocolError(
                    f"{party!r} uploaded to sum {self._number}, of which it is no member"
                )
            if len(body) != sums.upload_bytes(words):
                raise RemoteProtocolError(
                    f"{party!r} uploaded {len(body)} bytes, expected {sums.upload_bytes(words)}: "
                    f"an offer, a signature, and {words} words of {sums.bits} bits"
                )
            self.offers({party: body[: sums.offer_bytes]})
        self._check_enough(tuple(bodies), "uploaded to")
        self._uploads = {party: bodies[party] for party in sums.parties if party in bodies}
        self._words = words
        return tuple(self._uploads)

    def requests(self) -> dict[str, bytes]:
        """Return the request to each party: who contributed, and what was offered for the next."""
        sums = self._sums
        members = tuple(party for party in sums.parties if party in self._offers)
        head = self._tag(self._holder, self._number)
        head += sums.marked(self._uploads) + sums.marked(members)
        return {
            party: head + (self._offered_to(party, members) if party in members else b"")
            for party in sums.parties
        }

    def _offered_to(self, party: str, members: tuple[str, ...]) -> bytes:
        pieces = []
        for other in members:
            if other != party:
                place = [p for p in self._sums.parties if p != other].index(party)
                start = AGREEMENT_BYTES + place * _SEALED_BYTES
                offer = self._offers[other]
                pieces += [offer[:AGREEMENT_BYTES], offer[start : start + _SEALED_BYTES]]
        return b"".join(pieces)

    def confirmations(self, bodies: Mapping[str, bytes]) -> bytes:
        """Return what contributors signed, for each of them; only where a member is lost.

        Raises
        ------
        RemoteProtocolError
            If a confirmation does not fit.
        TooFewSurvivors
            If fewer than the threshold confirmed.
        """
        sums = self._sums
        signed = {
            party: self._untagged(
                bodies[party], party, self._number, sums.confirmation_bytes, "a confirmation"
            )
            for party in sums.parties
            if party in bodies
        }
        self._check_enough(tuple(signed), "confirmed who contributed to")
        uploads = [body[sums.offer_bytes : sums.head_bytes] for body in self._uploads.values()]
        head = self._tag(self._holder, self._number) + sums.marked(signed)
        return head + b"".join((*uploads, *signed.values()))

    def total(self, answers: Mapping[str, bytes]) -> Words:
        """Return the sum of the contributors' words, modulo 2^k, from what some of them revealed.

        Raises
        ------
        RemoteProtocolError
            If an answer does not fit, or shares give another key than their owner's.
        TooFewSurvivors
            If fewer than the threshold answered.
        """
        size = TAG_BYTES + len(self._publics) * SECRET_BYTES
        revealed = {
            self._sums.holder_number(party): self._untagged(
                body, party, self._number, size, "an answer"
            )
            for party, body in answers.items()
        }
        self._check_enough(tuple(answers), "revealed their shares for")
        size, what = size - TAG_BYTES, "the masks of all members"
        secrets = recover(revealed, self._sums.threshold, size, what, self._sums.parties)
        total = Total(self._words, self._sums.bits)
        for party, body in self._uploads.items():
            total.add(body[self._sums.head_bytes :], party)
        for place, party in enumerate(self.members):
            secret = secrets[place * SECRET_BYTES : (place + 1) * SECRET_BYTES]
            if party in self._uploads:
                total.unmask(added=[self._self_mask(secret)])
            else:
                self._unmask_without(total, party, secret)
        return total.values

    def _unmask_without(self, total: Total, lost: str, secret: bytes) -> None:
        """Take off the contributors' masks with a member that did not contribute."""
        key = AgreementKey.recovered(secret, self._publics[lost], lost)
        added: list[Keystream] = []
        subtracted: list[Keystream] = []
        for party in self._uploads:
            signed = added if self._before(party, lost) else subtracted
            signed.append(self._pair_mask(key, lost, party))
        total.unmask(added, subtracted)

    def advance(self) -> None:
        """End the sum under way: whoever offered is a member of the next."""
        self._number += 1
        self._publics = {
            party: self._offers[party][:AGREEMENT_BYTES]
            for party in self._sums.parties
            if party in self._offers
        }
        self._offers, self._uploads = {}, {}

    def _check_enough(self, there: tuple[str, ...], did: str) -> None:
        if len(there) < self._sums.threshold:
            missing = [party for party in self._sums.parties if party not in there]
            who = f"only {', '.join(there)}" if there else "nobody"
            raise TooFewSurvivors(
                f"{who} {did} sum {self._number}, and the threshold is {self._sums.threshold} of "
                f"{len(self._sums.parties)} parties: {', '.join(missing)} did not; nothing was "
                "disclosed by it: go on from the last checkpoint when more of them are there"
            )
