"""What two processes say to each other through a third, under keys that end with them.

Each end has an agreement key of its own, drawn for this conversation. An *introduction* tells its
public half, and the other's as far as it has heard; it travels by a carrier that proves who sends
it and hides it from the third, which takes that carrier a signature each time. Who carries may
bring one of an earlier conversation. So an end believes a half when an introduction names its own,
which nobody knew before; or when something opens that was sealed under both, since nobody has the
other half of an earlier key any more. What is *sealed* is so by AES-256 in GCM (NIST SP 800-38D)
under a key of its direction, the number of the message as nonce.

Keys are bound to both names and to what the conversation is about, and nobody who learns the key of
a certificate later can read it. GCM needs a number that never comes twice under a key. Here no key
outlives its object, and what was stopped draws another: what is sealed across resumes is for
``sealed``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.errors import RemoteProtocolError
from colonnade.secure.agreement_keys import AGREEMENT_BYTES, AgreementKey
from colonnade.secure.contexts import context

__all__ = ["Conversation"]

_NUMBER = struct.Struct("!4xQ")  # a nonce of 12 bytes
_KEY_BYTES = 32
_UNKNOWN = bytes(AGREEMENT_BYTES)  # no public half: it has a low order


@dataclass(frozen=True, eq=False)
class _Ciphers:
    """What was agreed on with who has this half."""

    half: bytes
    outgoing: AESGCM
    incoming: AESGCM


class Conversation:
    """One end of a conversation. Its user lets one thread at a time in.

    Parameters
    ----------
    own, peer
        The names of this end and the other.
    about
        What both know it is about: a ``context``.
    secret
        32 bytes from the operating system's source, drawn for this and used for nothing else.

    Examples
    --------
    >>> bank = Conversation("bank", "shop", b"job 7", bytes([1] * 32))
    >>> shop = Conversation("shop", "bank", b"job 7", bytes([2] * 32))
    >>> shop.introduced(bank.introduction())  # who should answer: the bank knows nobody yet
    True
    >>> bank.introduced(shop.introduction()), bank.seals, shop.seals
    (True, True, False)
    >>> shop.opened(bank.sealed(b"hello")), shop.seals
    (b'hello', True)
    """

    def __init__(self, own: str, peer: str, about: bytes, secret: bytes) -> None:
        self._own, self._peer, self._about = own, peer, about
        self._key = AgreementKey(secret)
        self._heard: _Ciphers | None = None  # of whom there was an introduction, old or new
        self._number = 0
        self.seals = False
        """Whether the other is known to be there, and to open what is sealed."""

    def introduction(self) -> bytes:
        """Return an introduction, for whoever proves who sends it."""
        told = context("introduction", self._about, self._own, self._peer)
        theirs = _UNKNOWN if self._heard is None else self._heard.half
        return told + self._key.public + theirs

    def introduced(self, body: bytes) -> bool:
        """Take an introduction, which the other has certainly sent, now or earlier.

        Returns
        -------
        bool
            Whether an introduction should go back: the other may not know yet that it was heard.
        """
        told = context("introduction", self._about, self._peer, self._own)
        if len(body) != len(told) + 2 * AGREEMENT_BYTES or not body.startswith(told):
            return False
        theirs, ours = body[len(told) : -AGREEMENT_BYTES], body[-AGREEMENT_BYTES:]
        is_other = self._heard is None or self._heard.half != theirs
        if is_other and (self.seals or not self._hear(theirs)):
            return False
        if ours != self._key.public:
            return True
        was_known, self.seals = self.seals, True
        return not was_known

    def sealed(self, datagram: bytes) -> bytes:
        """Return a datagram that opens at the other end alone, 28 bytes longer."""
        assert self._heard is not None
        assert self.seals
        nonce = _NUMBER.pack(self._number)
        self._number += 1
        return nonce + self._heard.outgoing.encrypt(nonce, datagram, None)

    def opened(self, body: bytes) -> bytes | None:
        """Return what the other has sealed; None if it has not, or that cannot be known yet."""
        if self._heard is None or len(body) <= _NUMBER.size:
            return None
        nonce, rest = body[: _NUMBER.size], body[_NUMBER.size :]
        try:
            datagram = self._heard.incoming.decrypt(nonce, rest, None)
        except InvalidTag:
            return None
        self.seals = True
        return datagram

    def _hear(self, half: bytes) -> bool:
        """Agree with who has this half; return whether that can be."""

        def cipher(sender: str, receiver: str) -> AESGCM:
            info = context("datagram", self._about, sender, receiver)
            return AESGCM(self._key.shared(half, info, self._peer, _KEY_BYTES))

        try:
            ciphers = cipher(self._own, self._peer), cipher(self._peer, self._own)
        except RemoteProtocolError:  # everybody would know what is agreed
            return False
        self._heard = _Ciphers(half, *ciphers)
        return True
