"""Introductions: keys that the label holder passes on, and seals between any two parties.

At a start every party sends its *key*: the number of the start, its public identity, and an
agreement key signed by that. The label holder puts those of all together, behind the number of its
own start, and passes them on. A hash of these bytes is the *session*: whatever is signed, sealed or
tagged is bound to it, so nothing of another run or start is taken for something of this one.
Identities are pinned, or else believed; who relays keys can put none of its own in place of one
whose owner's identity is pinned.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.errors import RemoteProtocolError
from colonnade.secure.agreement_keys import AGREEMENT_BYTES, AgreementKey
from colonnade.secure.announcements import ANNOUNCEMENT_BYTES, announce, announced
from colonnade.secure.contexts import context
from colonnade.secure.identities import IDENTITY_BYTES, Identity
from colonnade.secure.sealed import SEAL_KEY_BYTES, Seal
from colonnade.secure.secrets import Source

__all__ = ["TAG_BYTES", "Introduced", "Introductions", "Session"]

TAG_BYTES = 8
_INCARNATION = struct.Struct("<q")
_MOST_STARTS = 2**31
_KEY_BYTES = _INCARNATION.size + IDENTITY_BYTES + ANNOUNCEMENT_BYTES


@dataclass(frozen=True)
class Session:
    """What is the same for all since a start.

    Parameters
    ----------
    digest
        Of everybody's keys.
    start
        The number of the label holder's start.
    """

    digest: bytes
    start: int

    def tag(self, *what: str | int | bytes) -> bytes:
        """Return a few bytes that only this session has for this."""
        return hashlib.blake2b(context("tag", self.digest, *what), digest_size=TAG_BYTES).digest()


@dataclass(frozen=True)
class Introductions:
    """Who is introduced to whom, and how long the messages are.

    Parameters
    ----------
    parties
        Names, in party order.
    identities
        By party, the public identity that the others have pinned; who is missing is believed to be
        who it says it is.
    """

    parties: tuple[str, ...]
    identities: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    @property
    def key_bytes(self) -> int:
        """Bytes of a party's key."""
        return _KEY_BYTES

    @property
    def keys_bytes(self) -> int:
        """Bytes of the keys of all, behind the number of the label holder's start."""
        return _INCARNATION.size + len(self.parties) * _KEY_BYTES

    def passed_on(self, keys: Mapping[str, bytes], start: int) -> bytes:
        """Return what the label holder passes on, as it was started so often before.

        Raises
        ------
        RemoteProtocolError
            If one has another length than keys have.
        """
        for party in self.parties:
            if len(keys[party]) != _KEY_BYTES:
                raise RemoteProtocolError(
                    f"{party!r} sent a key of {len(keys[party])} bytes, expected {_KEY_BYTES}"
                )
        return _INCARNATION.pack(start) + b"".join(keys[party] for party in self.parties)

    def session(self, together: bytes, holder: str) -> Session:
        """Return the session of what ``holder`` passed on.

        Raises
        ------
        RemoteProtocolError
            If it has another length, or is of no start that there can be.
        """
        if len(together) != self.keys_bytes:
            raise RemoteProtocolError(
                f"{holder!r} passed on {len(together)} bytes of keys, expected {self.keys_bytes}"
            )
        (start,) = _INCARNATION.unpack_from(together)
        if not 0 <= start < _MOST_STARTS:
            raise RemoteProtocolError(f"{holder!r} says that it was started {start} times before")
        return Session(hashlib.sha256(context("session", together)).digest(), start)

    def key_of(self, party: str, together: bytes) -> bytes:
        """Return a party's key of those that were passed on."""
        at = _INCARNATION.size + self.parties.index(party) * _KEY_BYTES
        return together[at : at + _KEY_BYTES]


class Introduced:
    """A party's end.

    Parameters
    ----------
    introductions
        What all know.
    name, holder
        Which party it is, and who the label holder is.
    secrets
        What it draws from since this start.
    purpose
        What the agreement key is drawn for.

    Attributes
    ----------
    identity
        Its own.
    identities
        By party, the public identity that was pinned, or told.
    session
        Of this start, when keys were passed on.
    """

    session: Session

    def __init__(
        self, introductions: Introductions, name: str, holder: str, secrets: Source, purpose: str
    ) -> None:
        self._introductions = introductions
        self._name, self._holder = name, holder
        self._incarnation = secrets.incarnation
        self._key = AgreementKey(secrets.key(purpose, size=AGREEMENT_BYTES))
        self._outgoing: dict[str, Seal] = {}
        self._incoming: dict[str, Seal] = {}
        self.identity = Identity(secrets.identity)
        self.identities = {name: self.identity.public}

    def key(self) -> bytes:
        """Return its key, signed, which the label holder passes on."""
        told = _INCARNATION.pack(self._incarnation) + self.identity.public
        begun = _begun(self._name, self._incarnation)
        return told + announce(self.identity, self._key.public, begun)

    def meet(self, together: bytes) -> None:
        """Take everybody's keys, as the label holder passed them on.

        Raises
        ------
        RemoteProtocolError
            If one is not signed by the identity that is pinned for its owner, or that came with it
            where none is, or the own one is not there.
        """
        introductions = self._introductions
        self.session = introductions.session(together, self._holder)
        for party in introductions.parties:
            body = introductions.key_of(party, together)
            if party == self._name:
                if body != self.key():
                    raise RemoteProtocolError(
                        f"{self._holder!r} passed on another key of {party!r} than it sent"
                    )
                continue
            public = self._announced(party, body)
            self._outgoing[party], self._incoming[party] = (
                Seal(
                    self._key.shared(
                        public, context("seal", self.session.digest, *way), party, SEAL_KEY_BYTES
                    )
                )
                for way in ((self._name, party), (party, self._name))
            )

    def _announced(self, party: str, body: bytes) -> bytes:
        (incarnation,) = _INCARNATION.unpack_from(body)
        rest = body[_INCARNATION.size :]
        said, announcement = rest[:IDENTITY_BYTES], rest[IDENTITY_BYTES:]
        pinned = self._introductions.identities
        identity = self.identities[party] = pinned.get(party, said)
        begun = _begun(party, incarnation)
        return announced(announcement, identity, begun, party, party in pinned)

    def sealed_to(self, party: str, plain: bytes, what: bytes) -> bytes:
        """Return what only ``party`` can open, and only as ``what``, a ``context``, says."""
        return self._outgoing[party].seal(plain, what)

    def opened_from(self, party: str, body: bytes, what: bytes, size: int, named: str) -> bytes:
        """Return what ``party`` sealed.

        Parameters
        ----------
        party
            By whom.
        body
            What came.
        what
            What it must have been sealed for.
        size
            How many bytes were sealed.
        named
            What it should be, for errors.

        Raises
        ------
        RemoteProtocolError
            If it has another length, or was sealed by somebody else or for something else.
        """
        return self._incoming[party].opened(body, what, size, named)


def _begun(party: str, incarnation: int) -> bytes:
    return context("start", party, incarnation)
