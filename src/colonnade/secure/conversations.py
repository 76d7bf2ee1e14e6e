"""What two processes say to each other through a third, under keys that end with them.

Each end has an agreement key of its own, drawn for this conversation. An *introduction* tells its
public half, and which half of the other is known already; it travels by a carrier that proves who
sends it and hides it from the third, which takes that carrier a signature each time. Once an end
knows that both know both halves, it *seals*: AES-256 in GCM (NIST SP 800-38D) under a key of its
direction, the number of the message as nonce. Both kinds carry any bytes, so nothing waits for
introductions, and either may be lost, repeated or come late. Keys are bound to both names and to
what the conversation is about, so nothing of another one is taken for something of this; nobody who
learns a certificate's key later can read it.

GCM needs a number that never comes twice under a key. Here no key outlives its object, and what
was stopped draws another: what is sealed across resumes is for ``sealed``.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.errors import RemoteProtocolError
from colonnade.secure.agreement_keys import AGREEMENT_BYTES, AgreementKey
from colonnade.secure.contexts import context

__all__ = ["Conversation"]

_NUMBER = struct.Struct("!4xQ")  # a nonce of 12 bytes
_KEY_BYTES = 32
_UNKNOWN = bytes(AGREEMENT_BYTES)  # no public half: it has a low order


class Conversation:
    """One end of a conversation. Its user lets one thread at a time in.

    Parameters
    ----------
    own, peer
        The names of this end and the other.
    about
        What both know it is about: a ``context`` that no other conversation of the two has.
    secret
        32 bytes from the operating system's source, drawn for this and used for nothing else.

    Examples
    --------
    >>> bank = Conversation("bank", "shop", b"job 7", bytes([1] * 32))
    >>> shop = Conversation("shop", "bank", b"job 7", bytes([2] * 32))
    >>> shop.introduced(bank.introduction(b"one")), bank.introduced(shop.introduction(b"two"))
    (b'one', b'two')
    >>> bank.seals, shop.seals  # the shop does not know yet whether the bank has heard of it
    (True, False)
    >>> shop.opened(bank.sealed(b"three")), shop.seals
    (b'three', True)
    """

    def __init__(self, own: str, peer: str, about: bytes, secret: bytes) -> None:
        self._own, self._peer, self._about = own, peer, about
        self._key = AgreementKey(secret)
        self._their_half = _UNKNOWN
        self._outgoing: AESGCM | None = None
        self._incoming: AESGCM | None = None
        self._is_known = False
        self._number = 0

    @property
    def seals(self) -> bool:
        """Whether both know both halves, as far as is known here."""
        return self._is_known and self._outgoing is not None

    def introduction(self, datagram: bytes) -> bytes:
        """Return an introduction that carries a datagram, for whoever proves who sends it."""
        told = context("introduction", self._about, self._own, self._peer)
        return b"".join((told, self._key.public, self._their_half, datagram))

    def introduced(self, body: bytes) -> bytes | None:
        """Take an introduction, which the other has certainly sent; return what it carries.

        Returns
        -------
        bytes or None
            None if it is of another conversation, whole or in part, or none at all: whoever carries
            it may bring one of an earlier conversation. So, too, if the half in it is none, or one
            with which everybody would know what is agreed.
        """
        told = context("introduction", self._about, self._peer, self._own)
        halves = len(told) + AGREEMENT_BYTES
        if len(body) < halves + AGREEMENT_BYTES or body[: len(told)] != told:
            return None
        theirs, ours = body[len(told) : halves], body[halves : halves + AGREEMENT_BYTES]
        if self._incoming is None:
            with suppress(RemoteProtocolError):
                self._meet(theirs)
        is_theirs = self._incoming is not None and theirs == self._their_half
        if not is_theirs or ours not in (self._key.public, _UNKNOWN):
            return None
        self._is_known = self._is_known or ours == self._key.public
        return body[halves + AGREEMENT_BYTES :]

    def sealed(self, datagram: bytes) -> bytes:
        """Return a datagram that opens at the other end alone, 28 bytes longer."""
        assert self._outgoing is not None
        nonce = _NUMBER.pack(self._number)
        self._number += 1
        return nonce + self._outgoing.encrypt(nonce, datagram, None)

    def opened(self, body: bytes) -> bytes | None:
        """Return what the other has sealed; None if it has not, or that cannot be known yet."""
        if self._incoming is None or len(body) <= _NUMBER.size:
            return None
        try:
            datagram = self._incoming.decrypt(body[: _NUMBER.size], body[_NUMBER.size :], None)
        except InvalidTag:
            return None
        self._is_known = True
        return datagram

    def _meet(self, half: bytes) -> None:
        """Agree on a key for each direction."""

        def cipher(sender: str, receiver: str) -> AESGCM:
            info = context("datagram", self._about, sender, receiver)
            return AESGCM(self._key.shared(half, info, self._peer, _KEY_BYTES))

        outgoing, incoming = cipher(self._own, self._peer), cipher(self._peer, self._own)
        self._outgoing, self._incoming, self._their_half = outgoing, incoming, half
