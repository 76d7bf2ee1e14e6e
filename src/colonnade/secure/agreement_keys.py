"""Keys of two that a third can carry and not learn: X25519 (RFC 7748) and HKDF (RFC 5869).

What two get from their keys is bound to both public halves and to what it is for, so each use has
its own key: sealing in one direction, the mask of a pair in one sum. Which public half is whose is
for signatures and seals to say: see ``announcements`` and ``sealed``.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.secure.contexts import context
from colonnade.secure.keystream import KEY_BYTES

__all__ = ["AGREEMENT_BYTES", "AgreementKey"]

AGREEMENT_BYTES = 32


class AgreementKey:
    """The private half of a key to agree with others on keys.

    Parameters
    ----------
    secret
        32 bytes, used for nothing else.

    Examples
    --------
    >>> bank, shop = AgreementKey(bytes(32)), AgreementKey(bytes([1] * 32))
    >>> one = bank.shared(shop.public, b"mask", "shop")
    >>> one == shop.shared(bank.public, b"mask", "bank"), len(one)
    (True, 16)
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != AGREEMENT_BYTES:
            raise LocalProtocolError(
                f"an agreement key is made of {AGREEMENT_BYTES} bytes, not {len(secret)}"
            )
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def recovered(cls, secret: bytes, public: bytes, whose: str) -> AgreementKey:
        """Return the key of another one whose secret was put together from shares.

        Raises
        ------
        RemoteProtocolError
            If it does not belong to the public half that its owner sent: a share was wrong.
        """
        key = cls(secret)
        if key.public != public:
            raise RemoteProtocolError(
                f"the shares of the mask key of {whose!r} give another key than its own: "
                "one of them is not what was shared"
            )
        return key

    def shared(self, other: bytes, info: bytes, whose: str, size: int = KEY_BYTES) -> bytes:
        """Return the key that both have for what ``info``, a ``context``, says.

        Parameters
        ----------
        other
            The other public half, 32 bytes from whoever.
        info
            What the key is for: each key for one thing.
        whose
            The name of who has the other half, for errors.
        size
            Bytes to return, by default of a ``Keystream``'s key.

        Raises
        ------
        RemoteProtocolError
            If ``other`` is no public half, is ours, or one whose result everybody knows.
        """
        if len(other) != AGREEMENT_BYTES:
            raise RemoteProtocolError(
                f"the public key of {whose!r} has {len(other)} bytes, expected {AGREEMENT_BYTES}"
            )
        if other == self.public:
            raise RemoteProtocolError(f"the public key of {whose!r} is the one that we sent")
        try:
            agreed = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:  # the result would be zeros, whatever our half is
            raise RemoteProtocolError(
                f"the public key of {whose!r} has a low order: everybody would know what is agreed"
            ) from None
        bound = context("agreement", *sorted((self.public, other)), info)
        return HKDF(SHA256(), size, salt=None, info=bound).derive(agreed)
