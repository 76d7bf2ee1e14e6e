"""Identities: by which organisations know each other whoever carries their messages.

An identity is an Ed25519 key (RFC 8032). Its public half is *pinned* by the others: they have it
from the organisation itself, not from who relays. The private half is the same under every
incarnation, and never leaves.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.secure.secrets import Secrets

__all__ = ["IDENTITY_BYTES", "SIGNATURE_BYTES", "Identity", "checked_identity", "verify"]

IDENTITY_BYTES = 32
SIGNATURE_BYTES = 64

# Under a public key of low order anybody's signature is right. Coordinates of these points: 0 (two
# of order 4), 1 (the neutral one), -1 (of order 2), and two for the four of order 8.
_PRIME = 2**255 - 19
_OF_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_LOW_ORDER = {0, 1, _PRIME - 1, _OF_ORDER_8, _PRIME - _OF_ORDER_8}


class Identity:
    """The private half of an identity.

    Parameters
    ----------
    secret
        32 bytes, used for nothing else.

    Examples
    --------
    >>> bank = Identity.of(Secrets.system(), "bank")
    >>> signature = bank.sign(b"a context")
    >>> verify(bank.public, b"a context", signature, "the key of 'bank'")
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != IDENTITY_BYTES:
            raise LocalProtocolError(
                f"an identity is made of {IDENTITY_BYTES} bytes, not {len(secret)}"
            )
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def of(cls, secrets: Secrets, name: str) -> Identity:
        """Return the identity of an organisation, which is the same at every start."""
        return cls(secrets.identity(name))

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, which should be a ``context``."""
        return self._key.sign(message)


def checked_identity(public: bytes, whose: str) -> bytes:
    """Return a public key that can be pinned.

    Raises
    ------
    RemoteProtocolError
        If it has not 32 bytes, is no key, or one under which anybody could sign.
    """
    if len(public) != IDENTITY_BYTES:
        raise RemoteProtocolError(
            f"the identity of {whose!r} has {len(public)} bytes, expected {IDENTITY_BYTES}"
        )
    if _anybody_could_sign(public):
        raise RemoteProtocolError(
            f"the identity of {whose!r} is a key under which anybody could sign; "
            "ask for the one that colonnade made there"
        )
    return public


def verify(public: bytes, message: bytes, signature: bytes, what: str, pinned: bool = True) -> None:
    """Accept a signature of ``message`` by who has the identity ``public``.

    Parameters
    ----------
    public, message, signature
        The public key, what was signed, and 64 bytes from whoever.
    what
        What is signed, and by whom, for the error: "the key of 'bank'".
    pinned
        Whether the public key is pinned, rather than told with what is signed.

    Raises
    ------
    RemoteProtocolError
        If it is not.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise RemoteProtocolError(
            f"{what} has a signature of {len(signature)} bytes, expected {SIGNATURE_BYTES}"
        )
    try:
        if _anybody_could_sign(public):
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        told = (
            "that is pinned, or not for this session; compare the pinned identity with the one "
            "that colonnade shows there"
            if pinned
            else "that came with it, or not for this session: it was changed there or on its way; "
            "no identity is pinned, by which one could tell whose it is"
        )
        raise RemoteProtocolError(f"{what} is not signed by the identity {told}") from None


def _anybody_could_sign(public: bytes) -> bool:
    return int.from_bytes(public, "little") % 2**255 % _PRIME in _LOW_ORDER
